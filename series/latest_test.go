package series

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
)

// TestLatest: the newest sample of each series is the last one of a query, with samples of any order, in memory and in parts,
// and of the same time.
func TestLatest(t *testing.T) {
	rng := seed.Rand(t)
	e := newExpiring(t, Collection{Name: "c", Retention: 30 * day})
	for round := range 60 {
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		ids := e.define(names...)
		for range rng.IntN(4) {
			var b Batch
			for range rng.IntN(15) {
				i := rng.IntN(len(ids))
				age := time.Duration(rng.IntN(1+20*i)) * 10 * time.Minute // those of the first series are all new
				if rng.IntN(10) == 0 {
					age = -time.Minute
				}
				b.Add(ids[i], nanos(e.at.now().Add(-age)), rng.Float64())
			}
			if _, err := e.s.Append(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
		}
		if rng.IntN(3) == 0 {
			e.work()
		}
		if rng.IntN(10) == 0 {
			e.reopen()
		}
		if rng.IntN(10) == 0 {
			if _, _, err := e.s.Delete(t.Context(), match(t, names[rng.IntN(8)])); err != nil {
				t.Fatal(err)
			}
		}
		e.at.forward(time.Duration(rng.IntN(3)) * 20 * time.Minute)
		for _, since := range []time.Duration{0, time.Minute, time.Hour, 3 * day, 100 * day} {
			got, err := e.s.Latest(t.Context(), nil, since, engine.Read{})
			if err != nil {
				t.Fatal(err)
			}
			if since == 0 {
				since = day
			}
			want, err := e.s.Select(t.Context(), Query{From: e.at.now().Add(-since)})
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(want) {
				t.Fatalf("round %d: %d series have a sample since %s, want %d", round, len(got), since, len(want))
			}
			for i, x := range want {
				n := len(x.Times) - 1
				if g := got[i]; g.ID != x.ID || !slices.Equal(g.Labels, x.Labels) || !slices.Equal(g.Times, x.Times[n:]) || math.Float64bits(g.Values[0]) != math.Float64bits(x.Values[n]) {
					t.Fatalf("round %d: the newest since %s is %v, want %v of %v", round, since, g, x.Times[n], x)
				}
			}
		}
	}
}

// TestLatestOfMany: the last chunk of a series counts, also if its chunks fill blocks, and blocks begin and end with it.
func TestLatestOfMany(t *testing.T) {
	rng := seed.Rand(t)
	e := newExpiring(t, Collection{Name: "c"})
	_, err := e.eng.Update(t.Context(), func(tx engine.Tx) error {
		w := &partWriter{part: part{no: 5}, coll: 1, out: tx.Put}
		for id := uint32(2); id < 60; id += 1 + uint32(rng.IntN(2)) {
			for n := range 1 + rng.IntN(4) {
				if err := w.add(id, &columns{[]int64{int64(n)}, []float64{float64(id)}}); err != nil {
					return err
				}
				if rng.IntN(3) == 0 {
					if err := w.flush(); err != nil {
						return err
					}
				}
			}
		}
		return w.flush()
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		all, some := &partReader{part: part{no: 5}, coll: 1}, &partReader{part: part{no: 5}, coll: 1}
		for id := uint32(1); id < 65; id++ {
			var want []byte
			if err := all.chunks(tx, id, func(data []byte) error { want = data; return nil }); err != nil {
				return err
			}
			if rng.IntN(3) == 0 {
				continue
			}
			got, err := some.last(tx, id)
			if err != nil {
				return err
			}
			if !slices.Equal(got, want) || (got == nil) != (want == nil) {
				t.Errorf("the last chunk of series %d is %x, want %x", id, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
