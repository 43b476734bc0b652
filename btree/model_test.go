package btree

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// tree is what a Pairs with numbers as values and a Map have in common. T is the type itself.
type tree[K, T any] interface {
	Len() int
	Get(key K) (int, bool)
	Set(key K, v int) (int, bool)
	Delete(key K) (int, bool)
	At(i int) (K, int, bool)
	Rank(key K) int
	Seek(key K) (K, int, bool)
	Ascend(lo, hi K) iter.Seq2[K, int]
	Descend(lo, hi K) iter.Seq2[K, int]
	Load(seq iter.Seq2[K, int]) error
	Clone() T
	Check() error
}

// numbers is what only a Map has. The loops of a Pairs take nil for no bound.
type numbers[K any] interface {
	SeekBack(key K) (K, int, bool)
	All() iter.Seq2[K, int]
	Backward() iter.Seq2[K, int]
	AscendFrom(lo K) iter.Seq2[K, int]
	DescendFrom(hi K) iter.Seq2[K, int]
}

// pairOf is one entry of a model.
type pairOf[K any] struct {
	key K
	val int
}

// modelOf is the expected contents of a tree: a sorted slice.
type modelOf[K any] []pairOf[K]

// clonedOf is a clone and its expected contents.
type clonedOf[K any, T tree[K, T]] struct {
	tree T
	want modelOf[K]
}

type (
	pair   = pairOf[[]byte]
	model  = modelOf[[]byte]
	cloned = clonedOf[[]byte, *ints]
)

// compare compares two keys, which are byte strings or numbers.
func compare[K any](a, b K) int {
	v, w := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case v.Kind() == reflect.Slice:
		return bytes.Compare(v.Bytes(), w.Bytes())
	case v.CanInt():
		return cmp.Compare(v.Int(), w.Int())
	case v.CanUint():
		return cmp.Compare(v.Uint(), w.Uint())
	}
	return cmp.Compare(v.Float(), w.Float())
}

func (m modelOf[K]) search(key K) (int, bool) {
	return slices.BinarySearchFunc(m, key, func(p pairOf[K], k K) int { return compare(p.key, k) })
}

func (m *modelOf[K]) set(key K, v int) (old int, replaced bool) {
	i, ok := m.search(key)
	if ok {
		old, (*m)[i].val = (*m)[i].val, v
		return old, true
	}
	if b, ok := any(key).([]byte); ok {
		key = any(bytes.Clone(b)).(K)
	}
	*m = slices.Insert(*m, i, pairOf[K]{key, v})
	return 0, false
}

func (m *modelOf[K]) delete(key K) (old int, ok bool) {
	i, ok := m.search(key)
	if !ok {
		return 0, false
	}
	old = (*m)[i].val
	*m = slices.Delete(*m, i, i+1)
	return old, true
}

func (m modelOf[K]) all() iter.Seq2[K, int] {
	return func(yield func(K, int) bool) {
		for _, p := range m {
			if !yield(p.key, p.val) {
				return
			}
		}
	}
}

// same compares everything that the tree yields with the model, and verifies the
// invariants of the tree.
func same[K any, T tree[K, T]](tree T, m modelOf[K]) error {
	if err := tree.Check(); err != nil {
		return err
	}
	if tree.Len() != len(m) {
		return fmt.Errorf("Len is %d, want %d", tree.Len(), len(m))
	}
	up, down := scans[K](tree)
	return cmp.Or(yields("the scan", up, m, false), yields("the scan back", down, m, true))
}

// scans returns the loops over the whole tree, up and down.
func scans[K any, T tree[K, T]](tree T) (up, down iter.Seq2[K, int]) {
	if n, ok := any(tree).(numbers[K]); ok {
		return n.All(), n.Backward()
	}
	var none K
	return tree.Ascend(none, none), tree.Descend(none, none)
}

// yields compares what a loop yields with a part of the model.
func yields[K any](what string, seq iter.Seq2[K, int], want modelOf[K], back bool) error {
	i := 0
	for k, v := range seq {
		at := i
		if back {
			at = len(want) - 1 - i
		}
		if i >= len(want) || compare(k, want[at].key) != 0 || v != want[at].val {
			return fmt.Errorf("%s differs at %d: %v=%d", what, i, k, v)
		}
		i++
	}
	if i != len(want) {
		return fmt.Errorf("%s yields %d, want %d", what, i, len(want))
	}
	return nil
}

// sameSpan compares a range in both directions, and for a Map those that begin or end at lo.
func sameSpan[K any, T tree[K, T]](tree T, m modelOf[K], lo, hi K) error {
	from, there := m.search(lo)
	to, _ := m.search(hi)
	want := m[from:max(from, to)]
	if err := cmp.Or(yields("Ascend", tree.Ascend(lo, hi), want, false), yields("Descend", tree.Descend(lo, hi), want, true)); err != nil {
		return fmt.Errorf("%v to %v: %w", lo, hi, err)
	}
	n, ok := any(tree).(numbers[K])
	if !ok {
		return nil
	}
	end := from
	if there {
		end++
	}
	return cmp.Or(yields("AscendFrom", n.AscendFrom(lo), m[from:], false), yields("DescendFrom", n.DescendFrom(lo), m[:end], true))
}

// sameFind compares the result of Find for a key.
func sameFind(tree *ints, m model, key []byte) error {
	i, there := m.search(key)
	v, ok := tree.Find(key)
	if ok != there || ok && v != m[i].val {
		return fmt.Errorf("Find(%q) = %d, %v", key, v, ok)
	}
	return nil
}

// samePoint compares the results of all methods for one key, which need not exist.
func samePoint[K any, T tree[K, T]](tree T, m modelOf[K], key K) error {
	i, there := m.search(key)
	v, ok := tree.Get(key)
	if ok != there || ok && v != m[i].val {
		return fmt.Errorf("Get(%v) = %d, %v", key, v, ok)
	}
	if r := tree.Rank(key); r != i {
		return fmt.Errorf("Rank(%v) = %d, want %d", key, r, i)
	}
	k, v, ok := tree.Seek(key)
	if err := sameEntry(m, i, k, v, ok); err != nil {
		return fmt.Errorf("Seek(%v): %w", key, err)
	}
	k, v, ok = tree.At(i)
	if err := sameEntry(m, i, k, v, ok); err != nil {
		return fmt.Errorf("At(%d): %w", i, err)
	}
	n, isMap := any(tree).(numbers[K])
	if !isMap {
		return nil
	}
	if !there {
		i--
	}
	k, v, ok = n.SeekBack(key)
	if err := sameEntry(m, i, k, v, ok); err != nil {
		return fmt.Errorf("SeekBack(%v): %w", key, err)
	}
	return nil
}

// sameEntry compares a result with entry i of the model, which need not exist.
func sameEntry[K any](m modelOf[K], i int, k K, v int, ok bool) error {
	there := i >= 0 && i < len(m)
	if ok != there || ok && (compare(k, m[i].key) != 0 || v != m[i].val) {
		return fmt.Errorf("entry %d of %d is %v=%d, %v", i, len(m), k, v, ok)
	}
	return nil
}

// testModel runs random operations on trees and their clones and compares them with
// sorted slices. A round has up to steps operations.
func testModel[K any, T tree[K, T]](t *testing.T, r *rand.Rand, tree T, gen func(*rand.Rand) K, steps int) {
	t.Helper()
	var kept []clonedOf[K, T]
	m := modelOf[K]{}
	for round := range 24 {
		growing := round%6 < 3
		for range 1 + r.IntN(steps) {
			step(t, r, tree, &m, gen, growing)
		}
		if err := same(tree, m); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		kept = append(kept, clonedOf[K, T]{tree.Clone(), slices.Clone(m)})
		if r.IntN(3) == 0 { // go on with some clone; the other side stays
			i := r.IntN(len(kept))
			kept[i].tree, tree = tree, kept[i].tree
			kept[i].want, m = m, slices.Clone(kept[i].want)
		}
	}
	for i, c := range kept {
		if err := same(c.tree, c.want); err != nil {
			t.Fatalf("clone %d: %v", i, err)
		}
	}
}

// step runs one random operation on both sides and compares the results.
func step[K any, T tree[K, T]](t *testing.T, r *rand.Rand, tree T, m *modelOf[K], gen func(*rand.Rand) K, growing bool) {
	t.Helper()
	key := gen(r)
	if len(*m) > 0 && r.IntN(2) == 0 {
		key = (*m)[r.IntN(len(*m))].key
	}
	if b, ok := any(tree).(*ints); ok {
		for range r.IntN(3) { // what Find leaves is for one key only
			found := key
			if r.IntN(4) == 0 {
				found = gen(r)
			}
			if err := sameFind(b, any(*m).(model), any(found).([]byte)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r.IntN(20) == 0 {
		tree.Clone() // the write has to copy its way
	}
	x := r.IntN(20)
	switch {
	case x == 0:
		if err := samePoint(tree, *m, key); err != nil {
			t.Fatal(err)
		}
	case x == 1:
		if err := sameSpan(tree, *m, key, gen(r)); err != nil {
			t.Fatal(err)
		}
	case growing == (x < 15):
		v := r.Int()
		old, ok := tree.Set(key, v)
		if want, there := m.set(key, v); old != want || ok != there {
			t.Fatalf("Set(%v) = %d, %v, want %d, %v", key, old, ok, want, there)
		}
	default:
		old, ok := tree.Delete(key)
		if want, there := m.delete(key); old != want || ok != there {
			t.Fatalf("Delete(%v) = %d, %v, want %d, %v", key, old, ok, want, there)
		}
	}
}

// testLoad loads m into tree, in place of the key before, and then runs n operations.
func testLoad[K any, T tree[K, T]](t *testing.T, r *rand.Rand, tree T, before K, m modelOf[K], gen func(*rand.Rand) K, n int) {
	t.Helper()
	tree.Set(before, 1)
	clone := tree.Clone()
	if err := tree.Load(m.all()); err != nil {
		t.Fatalf("%d keys: %v", len(m), err)
	}
	if err := same(tree, m); err != nil {
		t.Fatalf("%d keys: %v", len(m), err)
	}
	for range n { // a loaded tree can be written
		step(t, r, tree, &m, gen, r.IntN(2) == 0)
	}
	if err := same(tree, m); err != nil {
		t.Fatalf("%d keys, then writes: %v", len(m), err)
	}
	if err := same(clone, modelOf[K]{{before, 1}}); err != nil {
		t.Fatalf("clone from before: %v", err)
	}
}
