package btree

import (
	"bytes"
	"slices"
	"testing"
)

// FuzzPairs reads operations from the input (a byte for the kind, one for the length of
// the key, and the key) and compares the tree with the model.
func FuzzPairs(f *testing.F) {
	f.Add([]byte("\x00\x03abc\x00\x02ab\x03\x00\x01\x03abc"))
	f.Add(bytes.Repeat([]byte{0, 1, 7, 3, 0, 1, 2, 255, 0}, 40))
	f.Add([]byte("\x28\x03abc\x28\x03abc\x0b\x03abc\x02\x02ab\x0a\x03abc\x08\x01a"))
	var many []byte
	for i := range 300 {
		many = append(many, byte(i%3*12), 2, byte(i), byte(i*7))
	}
	f.Add(many)
	f.Fuzz(func(t *testing.T, in []byte) {
		tree, m := newInts(), model{}
		var kept []cloned
		for i := 0; len(in) >= 2; i++ {
			op, n := in[0], min(int(in[1]), len(in)-2)
			key := in[2 : 2+n]
			if op&16 != 0 { // long keys from short input
				key = bytes.Repeat(key, 400)
				key = key[:min(len(key), MaxKeyBytes)]
			}
			in = in[2+n:]
			if op&8 != 0 {
				if err := sameFind(tree, m, key); err != nil {
					t.Fatal(err)
				}
			}
			if op&32 != 0 { // what was found is no longer the tree's own
				tree.Clone()
			}
			switch op % 4 {
			case 0, 1:
				old, ok := tree.Set(key, i)
				if want, there := m.set(key, i); old != want || ok != there {
					t.Fatalf("Set(%q) = %d, %v", key, old, ok)
				}
			case 2:
				old, ok := tree.Delete(key)
				if want, there := m.delete(key); old != want || ok != there {
					t.Fatalf("Delete(%q) = %d, %v", key, old, ok)
				}
			default:
				if err := samePoint(tree, m, key); err != nil {
					t.Fatal(err)
				}
				if len(kept) < 8 {
					kept = append(kept, cloned{tree.Clone(), slices.Clone(m)})
				}
			}
		}
		for i, c := range append(kept, cloned{tree, m}) {
			if err := same(c.tree, c.want); err != nil {
				t.Fatalf("tree %d: %v", i, err)
			}
		}
	})
}
