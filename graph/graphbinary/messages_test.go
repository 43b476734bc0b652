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
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/message/messagetest"
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

func codec() messagetest.Codec {
	return messagetest.Codec{
		Verb:   "%x",
		Decode: graphbinary.Decode, Append: graphbinary.Append,
		DecodeRequest: graphbinary.DecodeRequest, AppendRequest: graphbinary.AppendRequest,
		DecodeResponse: graphbinary.DecodeResponse, AppendResponse: graphbinary.AppendResponse,
		AppendItem: graphbinary.AppendItem, AppendItems: graphbinary.AppendItems,
	}
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
		if *rewrite {
			c[2] = messagetest.Describe(graphbinary.DecodeRequest(body))
		}
		fmt.Fprintln(&out, c[0], c[1], c[2])
		codec().Request(t, c[0], body, c[2])
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
	codec().Response(t, p, want)
}
