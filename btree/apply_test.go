package btree

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
)

// TestApply compares batches, sorted and not, with single writes of a model, and a clone from
// before each batch with what it had.
func TestApply(t *testing.T) {
	for _, kind := range slices.Sorted(maps.Keys(keyKinds)) {
		t.Run(kind, func(t *testing.T) {
			r := seed.Rand(t)
			tree, m := newInts(), model{}
			for round := range rounds(30) {
				kept, was := tree.Clone(), slices.Clone(m)
				if r.IntN(2) == 0 {
					kept = tree.Clone() // and the other way around
					tree, kept = kept, tree
				}
				batch, want := randomBatch(r, keyKinds[kind], &m, round%10 < 6)
				tree.Find(batch[0].Key)
				tree.p.apply(batch, round%2*touchFrom)
				for i, w := range batch {
					if w.Old != want[i] {
						t.Fatalf("write %d of %d, %q, delete %v: old is %d, want %d", i, len(batch), w.Key, w.Delete, w.Old, want[i])
					}
				}
				for _, side := range []cloned{{tree, m}, {kept, was}} {
					if err := same(side.tree, side.want); err != nil {
						t.Fatalf("round %d: %v", round, err)
					}
				}
			}
		})
	}
}

// rounds returns a third of n for short tests, because the race detector is slow on long keys.
func rounds(n int) int {
	if testing.Short() {
		return n / 3
	}
	return n
}

// randomBatch returns writes and the old length of each, and does them in the model.
func randomBatch(r *rand.Rand, gen func(*rand.Rand) []byte, m *model, growing bool) (batch []Write, old []int) {
	vals := map[*byte]int{}
	for range 1 + r.IntN(300) {
		w := Write{Key: gen(r), Delete: growing == (r.IntN(4) == 0)}
		if !w.Delete {
			v := r.Int()
			w.Value = encode(v)
			vals[&w.Value.Bytes[0]] = v
		}
		batch = append(batch, w)
	}
	if r.IntN(4) > 0 { // equal keys keep their order
		slices.SortStableFunc(batch, func(a, b Write) int { return bytes.Compare(a.Key, b.Key) })
	}
	for _, w := range batch {
		var was int
		var had bool
		if w.Delete {
			was, had = m.delete(w.Key)
		} else {
			was, had = m.set(w.Key, vals[&w.Value.Bytes[0]])
		}
		if old = append(old, -1); had {
			old[len(old)-1] = len(encode(was).Bytes)
		}
	}
	return batch, old
}

func TestGetMany(t *testing.T) {
	for _, kind := range slices.Sorted(maps.Keys(keyKinds)) {
		r := seed.Rand(t)
		tree := NewPairs()
		for range rounds(20) {
			keys := make([][]byte, r.IntN(3*manyKeys))
			for i := range keys {
				keys[i] = keyKinds[kind](r)
			}
			vals := make([]Value, len(keys)+2)
			for i := range vals {
				vals[i].Bytes = []byte("before")
			}
			tree.GetMany(keys, vals)
			for i, key := range keys {
				want, ok := tree.Get(key)
				if !vals[i].Equal(want) || ok != (vals[i].Bytes != nil) {
					t.Errorf("%s: %q is %v, want %v", kind, key, vals[i], want)
				}
			}
			if string(vals[len(keys)].Bytes) != "before" {
				t.Errorf("%s: a value beyond the keys was set", kind)
			}
			for range 200 {
				tree.Set(keyKinds[kind](r), Value{make([]byte, r.IntN(20)), r.IntN(2) == 0})
			}
			for i := range keys {
				if i%2 == 0 {
					tree.Set(keys[i], Value{})
				}
			}
		}
	}
}
