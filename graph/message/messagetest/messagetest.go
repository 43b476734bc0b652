// Package messagetest has what the tests of all encodings of messages check.
//
// It knows what must hold of an encoding. It must not know the bytes of one.
package messagetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// Codec is an encoding. Its functions are those of the packages of encodings.
type Codec struct {
	Verb string // prints bytes: %x or %s

	Decode         func(b []byte) (any, error)
	Append         func(dst []byte, v any) ([]byte, error)
	DecodeRequest  func(b []byte) (*message.Request, error)
	AppendRequest  func(dst []byte, q *message.Request) ([]byte, error)
	DecodeResponse func(b []byte) (*message.Response, error)
	AppendResponse func(dst []byte, p *message.Response) ([]byte, error)
	AppendItem     func(dst []byte, n int, v any) ([]byte, error)
	AppendItems    func(dst []byte, p *message.Response, items []byte, n int) ([]byte, error)
}

func (c Codec) print(b []byte) string { return fmt.Sprintf(c.Verb, b) }

// Value checks that a value is written as some bytes, which are read as the same
// value. A part of them is an error, not a panic.
func (c Codec) Value(t *testing.T, name string, want []byte, v any) {
	t.Helper()
	if got, err := c.Append([]byte("before"), v); err != nil || string(got) != "before"+string(want) {
		t.Errorf("%s: written as\n%s, %v, want after \"before\"\n%s", name, c.print(got), err, c.print(want))
	}
	c.Form(t, name, want, v)
	for n := range want {
		if v, err := c.Decode(want[:n]); err == nil {
			t.Errorf("%s: %s is read as %#v", name, c.print(want[:n]), v)
		}
	}
}

// Form checks that bytes are read as a value, which may be written as others.
func (c Codec) Form(t *testing.T, name string, b []byte, want any) {
	t.Helper()
	v, err := c.Decode(b)
	if err != nil {
		t.Errorf("%s: %s: %v", name, c.print(b), err)
		return
	}
	got, err := c.Append(nil, v)
	if same, _ := c.Append(nil, want); err != nil || string(got) != string(same) {
		t.Errorf("%s: %s is read as %#v, want %#v; written as\n%s, %v, want\n%s", name, c.print(b), v, want, c.print(got), err, c.print(same))
	}
}

// Again checks that a value that was read can be written, and is then read as the
// same.
func (c Codec) Again(t *testing.T, v any) {
	t.Helper()
	b, err := c.Append(nil, v)
	if err != nil {
		t.Fatalf("%#v was read and cannot be written: %v", v, err)
	}
	c.Form(t, "written again", b, v)
}

// Malformed checks that bytes are an error that names the offset and what was
// expected there.
func (c Codec) Malformed(t *testing.T, name string, b []byte, offset int, want string) {
	t.Helper()
	v, err := c.Decode(b)
	var where *message.Error
	if !errors.As(err, &where) {
		t.Errorf("%s: read as %#v, %v", name, v, err)
	} else if where.Offset != offset || !strings.Contains(where.Msg, want) {
		t.Errorf("%s: %v, want %q at byte %d", name, err, want, offset)
	}
}

// Limit checks that what is at a limit is read and can be written, and what is
// beyond it is not read.
func (c Codec) Limit(t *testing.T, name string, limit int, of func(n int) []byte) {
	t.Helper()
	v, err := c.Decode(of(limit))
	if err != nil {
		t.Errorf("%s of %d: %v", name, limit, err)
	} else if _, err := c.Append(nil, v); err != nil {
		t.Errorf("%s of %d cannot be written: %v", name, limit, err)
	}
	if _, err = c.Decode(of(limit + 1)); err == nil {
		t.Errorf("%s of %d is read", name, limit+1)
	}
}

// Describe returns in one line what a request, as it was read, means.
func Describe(q *message.Request, err error) string {
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

// Request checks that bytes are read as a request with an id and a meaning, as
// Describe has it, and so is what is written of it. It returns the request.
func (c Codec) Request(t *testing.T, name string, b []byte, want string) *message.Request {
	t.Helper()
	q, err := c.DecodeRequest(b)
	if got := Describe(q, err); got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
	if q.ID == (value.UUID{}) {
		t.Errorf("%s: no id", name)
	}
	if one, _ := c.RequestAgain(t, b); err == nil {
		if got := Describe(c.DecodeRequest(one)); got != want {
			t.Errorf("%s: written and read as\n%s\nwant\n%s", name, got, want)
		}
	}
	return q
}

// RequestAgain reads a request if it can. It returns what is written of it, and
// of that in turn.
func (c Codec) RequestAgain(t *testing.T, b []byte) (one, two []byte) {
	t.Helper()
	q, err := c.DecodeRequest(b)
	if err != nil {
		return nil, nil
	}
	if one, err = c.AppendRequest(nil, q); err != nil {
		t.Fatalf("%+v was read and cannot be written: %v", q, err)
	}
	if q, err = c.DecodeRequest(one); err != nil {
		t.Fatalf("%s was written and cannot be read: %v", c.print(one), err)
	}
	if two, err = c.AppendRequest(nil, q); err != nil {
		t.Fatalf("%s was read and cannot be written: %v", c.print(one), err)
	}
	return one, two
}

// Response checks that a response is written as some bytes, whether its result is
// written at once or by items, and that they are read as the same response.
func (c Codec) Response(t *testing.T, p *message.Response, want []byte) {
	t.Helper()
	got, err := c.AppendResponse(nil, p)
	if err != nil || string(got) != string(want) {
		t.Errorf("written as %s, %v, want %s", c.print(got), err, c.print(want))
	}
	list := p.Result.(value.List)
	var items []byte
	for i, v := range list {
		if items, err = c.AppendItem(items, i, v); err != nil {
			t.Fatal(err)
		}
	}
	if got, err = c.AppendItems(nil, p, items, len(list)); err != nil || string(got) != string(want) {
		t.Errorf("written by items as %s, %v, want %s", c.print(got), err, c.print(want))
	}
	back, err := c.DecodeResponse(want)
	if err != nil || back.Status != p.Status || back.Message != p.Message || back.ID != p.ID || value.Text(back.Result) != value.Text(list) {
		t.Fatalf("%s is read as %+v, %v", c.print(want), back, err)
	}
	if again, err := c.AppendResponse(nil, back); err != nil || string(again) != string(want) {
		t.Errorf("read and written as %s, %v", c.print(again), err)
	}
	for n := range want {
		if _, err := c.DecodeResponse(want[:n]); err == nil {
			t.Errorf("%d bytes are read as a response", n)
		}
	}
}

// ResponseAgain checks that a response that can be read can be written.
func (c Codec) ResponseAgain(t *testing.T, b []byte) {
	t.Helper()
	if p, err := c.DecodeResponse(b); err == nil {
		if _, err = c.AppendResponse(nil, p); err != nil {
			t.Fatalf("%+v was read and cannot be written: %v", p, err)
		}
	}
}
