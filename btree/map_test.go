package btree

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
)

// numPair is one entry of the model of a Map.
type numPair[K Fixed] struct {
	key K
	val int
}

// numModel is the model of a Map: a sorted slice.
type numModel[K Fixed] []numPair[K]

func (m numModel[K]) search(key K) (int, bool) {
	return slices.BinarySearchFunc(m, key, func(p numPair[K], k K) int {
		switch {
		case p.key < k:
			return -1
		case p.key > k:
			return 1
		}
		return 0
	})
}

func (m *numModel[K]) set(key K, v int) (old int, replaced bool) {
	i, ok := m.search(key)
	if ok {
		old, (*m)[i].val = (*m)[i].val, v
		return old, true
	}
	*m = slices.Insert(*m, i, numPair[K]{key, v})
	return 0, false
}

func (m *numModel[K]) delete(key K) (old int, ok bool) {
	i, ok := m.search(key)
	if !ok {
		return 0, false
	}
	old = (*m)[i].val
	*m = slices.Delete(*m, i, i+1)
	return old, true
}

// yields compares what a loop yields with a part of the model.
func yields[K Fixed](what string, seq iter.Seq2[K, int], want numModel[K], back bool) error {
	want = slices.Clone(want)
	if back {
		slices.Reverse(want)
	}
	i := 0
	for k, v := range seq {
		if i >= len(want) || want[i] != (numPair[K]{k, v}) {
			return fmt.Errorf("%s differs at %d: %v=%d", what, i, k, v)
		}
		i++
	}
	if i != len(want) {
		return fmt.Errorf("%s yields %d, want %d", what, i, len(want))
	}
	return nil
}

func sameMap[K Fixed](tree *Map[K, int], m numModel[K]) error {
	if tree.Len() != len(m) {
		return fmt.Errorf("Len is %d, want %d", tree.Len(), len(m))
	}
	return errors.Join(tree.Check(), yields("All", tree.All(), m, false), yields("Backward", tree.Backward(), m, true))
}

// sameNumber compares the results of all methods for one or two keys.
func sameNumber[K Fixed](tree *Map[K, int], m numModel[K], key, hi K) error {
	i, there := m.search(key)
	v, ok := tree.Get(key)
	if ok != there || ok && v != m[i].val {
		return fmt.Errorf("Get(%v) = %d, %v", key, v, ok)
	}
	if r := tree.Rank(key); r != i {
		return fmt.Errorf("Rank(%v) = %d, want %d", key, r, i)
	}
	k, v, ok := tree.Seek(key)
	if err := sameNumEntry(m, i, k, v, ok); err != nil {
		return fmt.Errorf("Seek(%v): %w", key, err)
	}
	k, v, ok = tree.At(i)
	if err := sameNumEntry(m, i, k, v, ok); err != nil {
		return fmt.Errorf("At(%d): %w", i, err)
	}
	last := i
	if !there {
		last--
	}
	k, v, ok = tree.SeekBack(key)
	if err := sameNumEntry(m, last, k, v, ok); err != nil {
		return fmt.Errorf("SeekBack(%v): %w", key, err)
	}
	j, _ := m.search(hi)
	j = max(i, j)
	return errors.Join(
		yields("Ascend", tree.Ascend(key, hi), m[i:j], false),
		yields("Descend", tree.Descend(key, hi), m[i:j], true),
		yields("AscendFrom", tree.AscendFrom(key), m[i:], false),
		yields("DescendFrom", tree.DescendFrom(key), m[:last+1], true))
}

func sameNumEntry[K Fixed](m numModel[K], i int, k K, v int, ok bool) error {
	there := i >= 0 && i < len(m)
	if ok != there || ok && m[i] != (numPair[K]{k, v}) {
		return fmt.Errorf("entry %d of %d is %v=%d, %v", i, len(m), k, v, ok)
	}
	return nil
}

type named int16

// TestMapAgainstModel runs random operations on maps and their clones and compares them
// with sorted slices.
func TestMapAgainstModel(t *testing.T) {
	t.Run("int64", func(t *testing.T) {
		testMap(t, func(r *rand.Rand) int64 { return int64(r.Uint64()) >> r.IntN(64) })
	})
	t.Run("int", func(t *testing.T) { testMap(t, func(r *rand.Rand) int { return r.IntN(5000) }) })
	t.Run("uint64", func(t *testing.T) {
		testMap(t, func(r *rand.Rand) uint64 { return math.MaxUint64 - r.Uint64N(3000) })
	})
	t.Run("uint8", func(t *testing.T) { testMap(t, func(r *rand.Rand) uint8 { return uint8(r.Uint32()) }) })
	t.Run("int8", func(t *testing.T) { testMap(t, func(r *rand.Rand) int8 { return int8(r.Uint32()) }) })
	t.Run("named", func(t *testing.T) { testMap(t, func(r *rand.Rand) named { return named(r.Uint32()) }) })
	t.Run("float32", func(t *testing.T) { testMap(t, func(r *rand.Rand) float32 { return r.Float32() }) })
	t.Run("float64", func(t *testing.T) {
		special := []float64{0, math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64}
		testMap(t, func(r *rand.Rand) float64 {
			if r.IntN(20) == 0 {
				return special[r.IntN(len(special))]
			}
			return r.NormFloat64()
		})
	})
}

func testMap[K Fixed](t *testing.T, gen func(*rand.Rand) K) {
	type cloned struct {
		tree *Map[K, int]
		want numModel[K]
	}
	r := seed.Rand(t)
	var kept []cloned
	tree, m := NewMap[K, int](), numModel[K]{}
	for round := range 24 {
		growing := round%6 < 3
		for range 1 + r.IntN(1200) {
			mapStepBoth(t, r, tree, &m, gen, growing)
		}
		if err := sameMap(tree, m); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		kept = append(kept, cloned{tree.Clone(), slices.Clone(m)})
		if r.IntN(3) == 0 { // go on with some clone; the other side stays
			i := r.IntN(len(kept))
			kept[i].tree, tree = tree, kept[i].tree
			kept[i].want, m = m, slices.Clone(kept[i].want)
		}
	}
	for i, c := range kept {
		if err := sameMap(c.tree, c.want); err != nil {
			t.Fatalf("clone %d: %v", i, err)
		}
	}
}

// mapStepBoth runs one random operation on both sides and compares the results.
func mapStepBoth[K Fixed](t *testing.T, r *rand.Rand, tree *Map[K, int], m *numModel[K], gen func(*rand.Rand) K, growing bool) {
	t.Helper()
	key := gen(r)
	if len(*m) > 0 && r.IntN(2) == 0 {
		key = (*m)[r.IntN(len(*m))].key
	}
	x := r.IntN(50)
	switch {
	case x == 0:
		if err := sameNumber(tree, *m, key, gen(r)); err != nil {
			t.Fatal(err)
		}
	case growing == (x < 40):
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

func TestMapLoad(t *testing.T) {
	r := seed.Rand(t)
	for _, n := range []int{0, 1, 57, 58, 59, 116, 117, 1739, 1740, 1741, 4000} {
		var m numModel[int64]
		for i := range n {
			m = append(m, numPair[int64]{int64(i * 3), i})
		}
		seq := func(yield func(int64, int) bool) {
			for _, p := range m {
				if !yield(p.key, p.val) {
					return
				}
			}
		}
		tree := NewMap[int64, int]()
		tree.Set(-1, 1)
		before := tree.Clone()
		if err := tree.Load(seq); err != nil {
			t.Fatalf("%d keys: %v", n, err)
		}
		if err := sameMap(tree, m); err != nil {
			t.Fatalf("%d keys: %v", n, err)
		}
		for range 500 { // a loaded tree can be written
			mapStepBoth(t, r, tree, &m, func(r *rand.Rand) int64 { return r.Int64N(9000) }, r.IntN(2) == 0)
		}
		if err := sameMap(tree, m); err != nil {
			t.Fatalf("%d keys, then writes: %v", n, err)
		}
		if err := sameMap(before, numModel[int64]{{-1, 1}}); err != nil {
			t.Fatalf("clone from before: %v", err)
		}
	}
}

func TestMapRefuses(t *testing.T) {
	tree := NewMap[float64, int]()
	tree.Set(7, 1)
	list := func(keys ...float64) iter.Seq2[float64, int] {
		return func(yield func(float64, int) bool) {
			for i, k := range keys {
				if !yield(k, i) {
					return
				}
			}
		}
	}
	var order *OrderError
	if err := tree.Load(list(1, 2, 2)); !errors.As(err, &order) || order.Index != 2 {
		t.Errorf("equal keys: %v", err)
	}
	if err := tree.Load(list(1, 0)); !errors.As(err, &order) || order.Index != 1 {
		t.Errorf("descending keys: %v", err)
	}
	if err := tree.Load(list(1, math.NaN())); !errors.Is(err, ErrNotANumber) {
		t.Errorf("NaN: %v", err)
	}
	if _, ok := tree.Get(math.NaN()); ok {
		t.Error("found NaN")
	}
	if _, ok := tree.Delete(math.NaN()); ok {
		t.Error("deleted NaN")
	}
	defer func() {
		if recover() == nil {
			t.Error("Set(NaN) did not panic")
		}
		if err := sameMap(tree, numModel[float64]{{7, 1}}); err != nil {
			t.Errorf("what was refused changed the map: %v", err)
		}
	}()
	tree.Set(math.NaN(), 1)
}
