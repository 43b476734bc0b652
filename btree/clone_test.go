package btree

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
)

// TestForcedInterleavings writes a tree and clones of it, and of clones, in every
// order of four steps of eight kinds, and then checks what each of them holds.
// The tree has a few leaves below one inner node, so that both kinds are shared.
func TestForcedInterleavings(t *testing.T) {
	const kinds = 8
	steps := 4
	if testing.Short() {
		steps = 3
	}
	key := func(i int) []byte { return binary.BigEndian.AppendUint16([]byte("key"), uint16(i)) }
	base, baseModel := newInts(), model{}
	for i := range 3 * leafKeys {
		base.Set(key(2*i), i)
		baseModel.set(key(2*i), i)
	}
	total := 1
	for range steps {
		total *= kinds
	}
	for order := range total {
		sides := []cloned{{base.Clone(), slices.Clone(baseModel)}}
		for s, x := 0, order; s < steps; s, x = s+1, x/kinds {
			side := &sides[0]
			if x%2 == 1 {
				side = &sides[len(sides)-1]
			}
			k := key(2*leafKeys + s)
			switch x % kinds / 2 {
			case 0: // a new or old key of one leaf
				side.tree.Find(k)
				side.tree.Set(k, -s)
				side.want.set(k, -s)
				side.tree.Find(key(2*s + 2)) // for the next step, if it is a Delete
			case 1:
				side.tree.Delete(key(2 * s))
				side.want.delete(key(2 * s))
			case 2:
				sides = append(sides, cloned{side.tree.Clone(), slices.Clone(side.want)})
			case 3: // enough to split leaves
				for i := range leafKeys {
					side.tree.Set(key(2*i+1), order)
					side.want.set(key(2*i+1), order)
				}
			}
		}
		for i, side := range append(sides, cloned{base, baseModel}) {
			if err := same(side.tree, side.want); err != nil {
				t.Fatalf("order %d, side %d of %d: %v", order, i, len(sides), err)
			}
		}
	}
}

func TestReadersOfClones(t *testing.T) {
	t.Run("bytes", func(t *testing.T) {
		testReaders(t, newInts(), func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) },
			func(k []byte) int { return int(binary.BigEndian.Uint32(k)) })
	})
	t.Run("map", func(t *testing.T) {
		testReaders(t, NewMap[uint32, int](), func(n uint32) uint32 { return n }, func(k uint32) int { return int(k) })
	})
}

// testReaders lets goroutines read clones, and clone them further, while the original and
// a clone are written. Every clone must stay unchanged. The race detector finds
// unsynchronised sharing.
func testReaders[K any, T tree[K, T]](t *testing.T, tree T, key func(uint32) K, number func(K) int) {
	r := seed.Rand(t)
	type view struct {
		tree     T
		sum, len int
	}
	sumOf := func(tree T) (sum int) {
		up, _ := scans[K](tree)
		for k, v := range up {
			sum += v ^ number(k)
		}
		return sum
	}
	views := make(chan view, 4)
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for v := range views {
				if got := sumOf(v.tree); got != v.sum || v.tree.Len() != v.len {
					t.Errorf("clone has sum %d of %d keys, want %d of %d", got, v.tree.Len(), v.sum, v.len)
				}
				own := v.tree.Clone() // a reader may write a clone of its own
				for i := range uint32(50) {
					own.Set(key(i*97), 0)
					own.Delete(key(i * 89))
				}
				if err := own.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	end := time.Now().Add(600 * time.Millisecond)
	for round := 0; time.Now().Before(end); round++ {
		for range 1 + r.IntN(300) {
			k := key(r.Uint32N(5000))
			if r.IntN(3) == 0 {
				tree.Delete(k)
			} else {
				tree.Set(k, r.Int())
			}
		}
		v := view{tree.Clone(), sumOf(tree), tree.Len()}
		views <- v
		views <- v // two readers of one clone
		if round%5 == 0 {
			tree = tree.Clone() // continue with a clone; the original is dropped
		}
	}
	close(views)
	readers.Wait()
}

// TestYieldedKeysOfAClone keeps keys of a clone while the original changes, and
// gives keys of a tree back to that tree.
func TestYieldedKeysOfAClone(t *testing.T) {
	tree := newInts()
	for i := range 500 {
		tree.Set(fmt.Appendf(nil, "key%03d", 2*i), i)
	}
	clone := tree.Clone()
	var kept [][]byte
	for k := range clone.Ascend(nil, nil) {
		kept = append(kept, k)
	}
	for i := range 500 {
		tree.Delete(fmt.Appendf(nil, "key%03d", 2*i))
		tree.Set(fmt.Appendf(nil, "key%03d", 2*i+1), i)
	}
	for i, k := range kept {
		if string(k) != fmt.Sprintf("key%03d", 2*i) {
			t.Fatalf("key %d became %q", i, k)
		}
	}
	if k := kept[0]; cap(k) != len(k) {
		t.Errorf("append to a yielded key would overwrite the next: cap %d", cap(k))
	}
	want := tree.Len()
	for range 60 { // parts of own keys as new keys, which move the bytes they are made of
		k, _, _ := tree.At(tree.Len() / 2)
		s := string(k[:len(k)-1])
		_, replaced := tree.Set(k[:len(k)-1], 1)
		if v, ok := tree.Get([]byte(s)); !ok || v != 1 {
			t.Fatalf("a part of an own key, %q, was not set", s)
		}
		if !replaced {
			want++
		}
		tree.Set([]byte(s+"~~"), 2)
		want++
		tree.Delete([]byte(s + "~~"))
		want--
	}
	if tree.Len() != want {
		t.Errorf("Len is %d, want %d", tree.Len(), want)
	}
	if err := tree.Check(); err != nil {
		t.Error(err)
	}
}
