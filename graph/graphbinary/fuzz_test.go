package graphbinary_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/skerrydb/skerry/graph/graphbinary"
)

// FuzzBytecode reads values and traversals. What was read can be written, and is
// read as the same.
func FuzzBytecode(f *testing.F) {
	for _, g := range all() {
		f.Add(bytesOf(f, g.hex))
	}
	f.Add(nested(10))
	f.Add(trees(10))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := graphbinary.Decode(b); err == nil {
			codec().Again(t, v)
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
		if one, two := codec().RequestAgain(t, b); !bytes.Equal(one, two) {
			t.Fatalf("written as %x and then as %x", one, two)
		}
	})
}

func FuzzResponse(f *testing.F) {
	f.Add(bytesOf(f, "81 00 01000000000000000000000000000000 000000ce 00 00000001 6d 00000001 03 00 00000001 61 01 00 00000001 00000000 09 00 00000000"))
	f.Fuzz(codec().ResponseAgain)
}
