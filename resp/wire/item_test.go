package wire

import (
	"bytes"
	"strings"
	"testing"
)

// walk writes the values of a reply by using Cut.
func walk(b []byte, out *Writer) (rest []byte, ok bool) {
	it, rest, ok := Cut(b)
	if !ok {
		return nil, false
	}
	if it.Kind == KindAttribute {
		for range it.Len {
			if rest, ok = Skip(rest); !ok {
				return nil, false
			}
		}
		return walk(rest, out)
	}
	parts := 0
	switch it.Kind {
	case KindArray, KindSet, KindPush, KindMap:
		out.Array(it.Len)
		parts = it.Len
	case KindNull:
		out.Null()
	case KindInt, KindBool:
		out.Int(it.Int)
	default:
		out.Bulk(it.Str)
	}
	for range parts {
		if rest, ok = walk(rest, out); !ok {
			return nil, false
		}
	}
	return rest, true
}

// written writes a Value as walk does.
func written(v Value, out *Writer) {
	switch v.Kind {
	case KindArray, KindSet, KindPush, KindMap:
		out.Array(len(v.List))
	case KindNull:
		out.Null()
	case KindInt, KindBool:
		out.Int(v.Int)
	default:
		out.Bulk(v.Str)
	}
	for _, e := range v.List {
		written(e, out)
	}
}

// items compares the results of Cut and Skip for one reply with that of Replies.
func items(t *testing.T, reply []byte) {
	t.Helper()
	var bufs Buffers
	r := NewReplies(bytes.NewReader(reply), &bufs, 0)
	v, err := r.Read()
	if err != nil {
		rest, ok := Skip(reply)
		if ok && len(rest) < len(reply) && DefaultMaxReply > len(reply) {
			t.Errorf("%q: Replies returns %v, Skip accepts %d bytes", reply, err, len(reply)-len(rest))
		}
		return
	}
	r2 := NewReplies(bytes.NewReader(reply), &bufs, 0)
	if err := r2.Fill(); err != nil {
		t.Fatal(err)
	}
	raw, ok, err := r2.NextRaw()
	for !ok && err == nil {
		if err = r2.Fill(); err == nil {
			raw, ok, err = r2.NextRaw()
		}
	}
	if err != nil {
		t.Fatalf("%q: %v", reply, err)
	}
	if rest, ok := Skip(raw); !ok || len(rest) != 0 {
		t.Errorf("%q: Skip leaves %q, %v", raw, rest, ok)
	}
	var got, want Writer
	written(v, &want)
	if rest, ok := walk(raw, &got); !ok || len(rest) != 0 || !bytes.Equal(got.Buf, want.Buf) {
		t.Errorf("%q: Cut gives %q and leaves %q, %v; want %q", raw, got.Buf, rest, ok, want.Buf)
	}
}

var itemSeeds = []string{
	"+OK\r\n", "-ERR no\r\n", ":-7\r\n", ":+007\r\n", "$3\r\nabc\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", ",1.5\r\n", "#t\r\n", "#f\r\n",
	"!3\r\nERR\r\n", "=7\r\ntxt:abc\r\n", "(123\r\n", "*2\r\n:1\r\n*1\r\n+x\r\n", "%1\r\n+k\r\n~1\r\n:1\r\n", ">2\r\n+a\r\n_\r\n",
	"|1\r\n+k\r\n+v\r\n:5\r\n", "*1\r\n|1\r\n+k\r\n*1\r\n:1\r\n:5\r\n", "*0\r\n", "%0\r\n", "|0\r\n:1\r\n",
	"$5\r\nabc\r\n", "*2\r\n:1\r\n", "$3\r\nabcd\r\n", "x\r\n", "", "\r\n", "+a\n", "$x\r\n", "*1000000000\r\n", "=3\r\nabc\r\n",
	strings.Repeat("*1\r\n", MaxReplyDepth) + ":1\r\n", strings.Repeat("*1\r\n", MaxReplyDepth+1) + ":1\r\n",
}

func TestItems(t *testing.T) {
	for _, s := range itemSeeds {
		items(t, []byte(s))
	}
}

func FuzzItems(f *testing.F) {
	for _, s := range itemSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(items)
}

func TestItemAllocs(t *testing.T) {
	reply := []byte("%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*2\r\n:1\r\n$3\r\nabc\r\n")
	if n := testing.AllocsPerRun(100, func() {
		it, rest, ok := Cut(reply)
		if !ok || it.Len != 4 {
			t.Fatal("Cut refuses a map")
		}
		if rest, ok = Skip(rest); !ok || len(rest) == 0 {
			t.Fatal("Skip refuses a string")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
