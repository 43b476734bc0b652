package graphbinary_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/graph/graphbinary"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

const driverFile = "testdata/gremlin-go.txt"

// fromDriver returns requests that gremlin-go 3.8.1 has serialized, by name: lines
// of a name, the bytes in hex, and what they mean.
func fromDriver(t testing.TB) [][3]string {
	t.Helper()
	b, err := os.ReadFile(driverFile)
	if err != nil {
		t.Fatal(err)
	}
	var out [][3]string
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		bytes, text, _ := strings.Cut(rest, " ")
		out = append(out, [3]string{name, bytes, text})
	}
	return out
}

// describe returns a request's meaning in one line.
func describe(q *message.Request, err error) string {
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%s/%s", q.Op, q.Processor)
	for _, name := range []string{"gremlin", "aliases", "session", "bindings", "batchSize", "evaluationTimeout"} {
		switch v, ok := q.Args.Get(name); x := v.(type) {
		case *gremlin.Traversal:
			text += " " + x.String()
		default:
			if ok {
				text += " " + name + "=" + value.Text(v)
			}
		}
	}
	return text
}

var rewrite = flag.Bool("rewrite", false, "rewrite what the requests of "+driverFile+" mean")

// TestDriver reads what gremlin-go wrote.
func TestDriver(t *testing.T) {
	var out strings.Builder
	for _, c := range fromDriver(t) {
		b, err := hex.DecodeString(c[1])
		if err != nil {
			t.Fatal(err)
		}
		body, ok := bytes.CutPrefix(b, append([]byte{byte(len(graphbinary.Mime))}, graphbinary.Mime...))
		if !ok {
			t.Errorf("%s: MIME type missing", c[0])
		}
		q, err := graphbinary.DecodeRequest(body)
		got := describe(q, err)
		fmt.Fprintln(&out, c[0], c[1], got)
		if got != c[2] && !*rewrite {
			t.Errorf("%s: got\n%s\nwant\n%s", c[0], got, c[2])
		}
		if q.ID == (value.UUID{}) {
			t.Errorf("%s: no id", c[0])
		}
		if err != nil {
			continue
		}
		again, err := graphbinary.AppendRequest(nil, q)
		if err != nil {
			t.Errorf("%s: %v", c[0], err)
		}
		if q, err = graphbinary.DecodeRequest(again); describe(q, err) != c[2] {
			t.Errorf("%s: written and read as %s", c[0], describe(q, err))
		}
	}
	if *rewrite {
		if err := os.WriteFile(driverFile, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestResponse: a response has the bytes that the specification says, whether its
// result is written at once or by items.
func TestResponse(t *testing.T) {
	p := &message.Response{
		ID: value.UUID{1}, Status: 206, Message: "m", Attributes: value.MapOf("a", int32(1)), Result: value.List{int32(1), "x"},
	}
	want := bytesOf(t, "81 00 01000000000000000000000000000000 000000ce 00 00000001 6d 00000001 03 00 00000001 61 01 00 00000001 00000000 09 00 00000002 01 00 00000001 03 00 00000001 78")
	got, err := graphbinary.AppendResponse(nil, p)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("written as %x, %v, want %x", got, err, want)
	}
	var items []byte
	for i, v := range p.Result.(value.List) {
		if items, err = graphbinary.AppendItem(items, i, v); err != nil {
			t.Fatal(err)
		}
	}
	if got, err = graphbinary.AppendItems(nil, p, items, 2); err != nil || !bytes.Equal(got, want) {
		t.Errorf("written by items as %x, %v, want %x", got, err, want)
	}
	back, err := graphbinary.DecodeResponse(want)
	if err != nil || back.Status != 206 || back.Message != "m" || back.ID != p.ID {
		t.Errorf("read as %+v, %v", back, err)
	}
	if again, err := graphbinary.AppendResponse(nil, back); err != nil || !bytes.Equal(again, want) {
		t.Errorf("read and written as %x, %v", again, err)
	}
	for n := range want {
		if _, err := graphbinary.DecodeResponse(want[:n]); err == nil {
			t.Errorf("%d bytes are read as a response", n)
		}
	}
}
