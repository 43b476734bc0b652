package graphbinary_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/skerrydb/skerry/graph/graphbinary"
)

func seeds(f *testing.F) {
	for _, g := range all() {
		f.Add(bytesOf(f, g.hex))
	}
	f.Add(nested(10))
	f.Add(trees(10))
}

// again reads what Append made of a value and reports the bytes of that.
func again(t *testing.T, v any) {
	t.Helper()
	one, err := graphbinary.Append(nil, v)
	if err != nil {
		t.Fatalf("%#v was read and cannot be written: %v", v, err)
	}
	back, err := graphbinary.Decode(one)
	if err != nil {
		t.Fatalf("%#v was written as %x, which cannot be read: %v", v, one, err)
	}
	if two, err := graphbinary.Append(nil, back); err != nil || !bytes.Equal(one, two) {
		t.Fatalf("%#v is written as %x and then as %x, %v", v, one, two, err)
	}
}

// FuzzBytecode reads values and traversals. What was read can be written, and is
// read as the same.
func FuzzBytecode(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := graphbinary.Decode(b); err == nil {
			again(t, v)
		}
	})
}

func FuzzRequest(f *testing.F) {
	for _, c := range fromDriver(f) {
		b, err := hex.DecodeString(c[1])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[1+len(graphbinary.Mime):])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := graphbinary.DecodeRequest(b)
		if err != nil {
			return
		}
		one, err := graphbinary.AppendRequest(nil, q)
		if err != nil {
			t.Fatalf("%+v was read and cannot be written: %v", q, err)
		}
		if q, err = graphbinary.DecodeRequest(one); err != nil {
			t.Fatalf("%x was written and cannot be read: %v", one, err)
		}
		if two, err := graphbinary.AppendRequest(nil, q); err != nil || !bytes.Equal(one, two) {
			t.Fatalf("written as %x and then as %x, %v", one, two, err)
		}
	})
}

func FuzzResponse(f *testing.F) {
	f.Add(bytesOf(f, "81 00 01000000000000000000000000000000 000000ce 00 00000001 6d 00000001 03 00 00000001 61 01 00 00000001 00000000 09 00 00000000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := graphbinary.DecodeResponse(b); err == nil {
			if _, err = graphbinary.AppendResponse(nil, p); err != nil {
				t.Fatalf("%+v was read and cannot be written: %v", p, err)
			}
		}
	})
}
