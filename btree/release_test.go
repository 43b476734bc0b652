package btree

import (
	"runtime"
	"testing"
	"weak"

	"github.com/skerrydb/skerry/ci/seed"
)

// TestOwnBytesAsKey gives a tree parts of its own keys as new keys. An insert in
// place moves the bytes that the new key is made of.
func TestOwnBytesAsKey(t *testing.T) {
	r := seed.Rand(t)
	tree := newInts()
	for i := range 40 {
		tree.Set(key8(i), i)
	}
	for i := range 5000 {
		k, _, _ := tree.At(r.IntN(tree.Len()))
		from := r.IntN(len(k) + 1)
		part := k[from : from+r.IntN(len(k)-from+1)]
		want := string(part)
		tree.Set(part, -i)
		if v, ok := tree.Get([]byte(want)); !ok || v != -i {
			t.Fatalf("%q, a part of a key of the tree, was not set", want)
		}
		if err := tree.Check(); err != nil {
			t.Fatal(err)
		}
		if tree.Len() > 80 {
			k, _, _ := tree.At(r.IntN(tree.Len()))
			tree.Delete(k)
		}
	}
}

// dictionary is what TestReleasesValues needs of a map from small numbers.
type dictionary interface {
	set(i int, v *[64]byte)
	remove(i int)
	get(i int) *[64]byte
}

type mapDictionary struct{ Map[int, *[64]byte] }

func (d *mapDictionary) set(i int, v *[64]byte) { d.Set(i, v) }
func (d *mapDictionary) remove(i int)           { d.Delete(i) }
func (d *mapDictionary) get(i int) *[64]byte    { v, _ := d.Get(i); return v }

// TestReleasesValues deletes keys and checks with the garbage collector that the tree does
// not keep their values in unused slots of a leaf.
func TestReleasesValues(t *testing.T) {
	for _, d := range []dictionary{&mapDictionary{}} {
		const n = 100
		var values [n]weak.Pointer[[64]byte]
		for x := range n { // not ascending, so that the leaf splits in the middle
			i := x * 29 % n
			v := new([64]byte)
			values[i] = weak.Make(v)
			d.set(i, v)
		}
		gone := func(i int) bool { return i >= n-6 || i%20 == 3 } // also the last of a leaf
		for i := range n {
			if gone(i) {
				d.remove(i)
			}
		}
		runtime.GC()
		for i, v := range values {
			if held := v.Value() != nil; held == gone(i) {
				t.Errorf("%T: value %d reachable: %v, deleted: %v", d, i, held, gone(i))
			}
			if (d.get(i) == nil) != gone(i) {
				t.Errorf("%T: Get(%d) is wrong", d, i)
			}
		}
	}
}

// TestReleasesOutsideValues deletes and overwrites values that are not in a blob.
func TestReleasesOutsideValues(t *testing.T) {
	const n = 100
	tree, values := NewPairs(), [n]weak.Pointer[byte]{}
	long := Value{Bytes: make([]byte, maxInline+1)}
	for x := range n {
		i := x * 29 % n
		tree.Set([]byte{byte(i)}, long)
	}
	for i := range n {
		v, _ := tree.Get([]byte{byte(i)})
		values[i] = weak.Make(&v.Bytes[0])
	}
	gone := func(i int) bool { return i%4 != 0 }
	for i := range n {
		switch i % 4 {
		case 1:
			tree.Delete([]byte{byte(i)})
		case 2:
			tree.Set([]byte{byte(i)}, long)
		case 3:
			tree.Set([]byte{byte(i)}, Value{})
		}
	}
	runtime.GC()
	for i, v := range values {
		if held := v.Value() != nil; held == gone(i) {
			t.Errorf("value %d reachable: %v, replaced or deleted: %v", i, held, gone(i))
		}
	}
	if err := tree.Check(); err != nil {
		t.Error(err)
	}
}
