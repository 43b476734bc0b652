package btree

import (
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
)

type named int16

// TestMapAgainstModel compares maps and their clones with sorted slices.
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
	testModel(t, seed.Rand(t), NewMap[K, int](), gen, 1200)
}

func TestMapLoad(t *testing.T) {
	r := seed.Rand(t)
	for _, n := range []int{0, 1, 57, 58, 59, 116, 117, 1739, 1740, 1741, 4000} {
		var m modelOf[int64]
		for i := range n {
			m = append(m, pairOf[int64]{int64(i * 3), i})
		}
		testLoad(t, r, NewMap[int64, int](), -1, m, func(r *rand.Rand) int64 { return r.Int64N(9000) }, 500)
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
		if err := same(tree, modelOf[float64]{{7, 1}}); err != nil {
			t.Errorf("a refused call changed the map: %v", err)
		}
	}()
	tree.Set(math.NaN(), 1)
}
