package btree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
)

// keyKinds are generators of keys that are hard in different ways.
var keyKinds = map[string]func(r *rand.Rand) []byte{
	"random": func(r *rand.Rand) []byte {
		k := make([]byte, 16+r.IntN(9))
		for i := range k {
			k[i] = byte(r.Uint32())
		}
		return k[:len(k)-r.IntN(3)]
	},
	"counter": func(r *rand.Rand) []byte {
		return binary.BigEndian.AppendUint64(nil, uint64(r.IntN(4000)))
	},
	"zeros": func(r *rand.Rand) []byte { // also the empty key, and prefixes of each other
		return make([]byte, r.IntN(600))
	},
	"zeros and ff": func(r *rand.Rand) []byte {
		k := make([]byte, r.IntN(13))
		for i := range k {
			k[i] = byte(-(r.IntN(2)))
		}
		return k
	},
	"composite": func(r *rand.Rand) []byte {
		return fmt.Appendf(nil, "tenant-%04d/orders/%08d/line-%02d", r.IntN(3), r.IntN(300), r.IntN(9))
	},
	"long prefix": func(r *rand.Rand) []byte {
		return append(bytes.Repeat([]byte{'p'}, 4096-8), binary.AppendUvarint(nil, r.Uint64N(3000))...)
	},
	"4 KiB": func(r *rand.Rand) []byte {
		return bytes.Repeat([]byte{byte(r.IntN(3)), byte(r.IntN(30)), byte(r.IntN(3))}, 1366)[:4096-r.IntN(4)]
	},
	"any length": func(r *rand.Rand) []byte { // leaves that are full of bytes, not of keys
		n := r.IntN(40)
		if r.IntN(3) == 0 {
			n = MaxKeyBytes - r.IntN(3)*9000
		}
		return append(bytes.Repeat([]byte{'x'}, n-min(n, 2)), byte(r.Uint32()), byte(r.Uint32()))[:n]
	},
}

// TestAgainstModel compares trees and their clones with sorted slices.
func TestAgainstModel(t *testing.T) {
	for _, kind := range slices.Sorted(maps.Keys(keyKinds)) {
		t.Run(kind, func(t *testing.T) { testModel(t, seed.Rand(t), newInts(), keyKinds[kind], 400) })
	}
}

func TestEmpty(t *testing.T) {
	tree := &ints{new(Pairs)}
	for _, clone := range []*ints{tree, tree.Clone(), newInts()} {
		if err := same(clone, nil); err != nil {
			t.Error(err)
		}
		if err := samePoint(clone, nil, []byte("x")); err != nil {
			t.Error(err)
		}
		if _, ok := clone.Delete(nil); ok {
			t.Error("Delete of nothing")
		}
	}
}

func TestOneKey(t *testing.T) {
	for _, key := range [][]byte{nil, {0}, {0, 0, 0, 0, 0, 0, 0, 0}, {255}, bytes.Repeat([]byte{255}, 99)} {
		tree := newInts()
		tree.Set(key, 7)
		if err := same(tree, model{{key, 7}}); err != nil {
			t.Errorf("%q: %v", key, err)
		}
		for _, k := range [][]byte{nil, {0}, {0, 0}, {1}, {255}, {255, 0}, {255, 255}} {
			if err := samePoint(tree, model{{key, 7}}, k); err != nil {
				t.Errorf("%q: %v", key, err)
			}
		}
		if old, ok := tree.Delete(key); old != 7 || !ok {
			t.Errorf("Delete(%q) = %d, %v", key, old, ok)
		}
		if err := same(tree, nil); err != nil {
			t.Error(err)
		}
	}
}

// TestScanStops ends scans early at every possible place.
func TestScanStops(t *testing.T) {
	tree := newInts()
	for i := range 300 {
		tree.Set(binary.BigEndian.AppendUint16(nil, uint16(i)), i)
	}
	for stop := range 300 {
		n := 0
		for _, v := range tree.Ascend(nil, nil) {
			if n++; v == stop {
				break
			}
		}
		m := 300
		for _, v := range tree.Descend(nil, nil) {
			if m--; v == stop {
				break
			}
		}
		if n != stop+1 || m != stop {
			t.Fatalf("stop at %d: %d up, %d down", stop, n, m)
		}
	}
}

func TestLoad(t *testing.T) {
	r := seed.Rand(t)
	for _, kind := range slices.Sorted(maps.Keys(keyKinds)) {
		for _, n := range []int{0, 1, 29, 30, 31, 60, 61, 899, 900, 901, 3000} {
			var m model
			for range n {
				m.set(keyKinds[kind](r), r.Int())
			}
			testLoad(t, r, newInts(), []byte("before"), m, keyKinds[kind], 200)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	tree := newInts()
	tree.Set([]byte("stays"), 1)
	var m model
	for i := range 100 {
		m = append(m, pair{binary.BigEndian.AppendUint16(nil, uint16(i)), i})
	}
	for _, at := range []int{1, 29, 30, 31, 99} {
		for _, bad := range [][]byte{m[at-1].key, m[0].key[:1]} {
			list := slices.Clone(m)
			list[at].key = bad
			var order *OrderError
			if err := tree.Load(list.all()); !errors.As(err, &order) || order.Index != at {
				t.Errorf("key %d out of order: %v", at, err)
			}
		}
	}
	long := model{{make([]byte, MaxKeyBytes), 1}, {make([]byte, MaxKeyBytes+1), 1}}
	if err := tree.Load(long.all()); !errors.Is(err, ErrKeyTooLong) {
		t.Errorf("key too long: %v", err)
	}
	if err := same(tree, model{{[]byte("stays"), 1}}); err != nil {
		t.Errorf("refused input changed the tree: %v", err)
	}
	if err := tree.Load(long[:1].all()); err != nil {
		t.Errorf("longest key: %v", err)
	}
}

func TestSetRefusesLongKey(t *testing.T) {
	tree := newInts()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
		if err := same(tree, nil); err != nil {
			t.Error(err)
		}
	}()
	tree.Set(make([]byte, MaxKeyBytes+1), 1)
}
