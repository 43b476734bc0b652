package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestExpectReadsNoFiles announces keys whose values are in files.
func TestExpectReadsNoFiles(t *testing.T) {
	o := spilling(memfs.New(1))
	o.aheadFrom = 20
	db := open(t, "data", o)
	var keys [][]byte
	for i := range 20 {
		keys = append(keys, fmt.Appendf(nil, "key %02d", i))
		put(t, db, string(keys[i]), long(i))
	}
	awaitInFiles(t, db, 20)
	before := db.spill.reads.Load()
	expect := func(tx engine.Tx) error {
		e := tx.(engine.Expecter)
		if !e.Expects() {
			t.Errorf("%T does not expect keys", tx)
		}
		e.Expect(keys)
		return nil
	}
	if _, err := db.Update(t.Context(), expect); err != nil {
		t.Fatal(err)
	}
	if _, err := db.View(t.Context(), engine.Read{}, expect); err != nil {
		t.Fatal(err)
	}
	if n := db.spill.reads.Load() - before; n != 0 {
		t.Errorf("%d values were read", n)
	}
	want(t, db, "key 07", long(7))
	if n := db.spill.reads.Load() - before; n != 1 {
		t.Errorf("%d values were read by one Get", n)
	}
	if _, err := db.Update(t.Context(), func(tx engine.Tx) error {
		if err := tx.Delete(keys[0]); err != nil {
			return err
		}
		if tx.(engine.Expecter).Expects() {
			t.Error("a map below the threshold expects keys")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkAhead has 8 callers, each with 64 transactions at a time that get and put a
// random key, with and without announcing the keys, by turns.
func BenchmarkAhead(b *testing.B) {
	for _, keys := range []int{10_000, 100_000, 1_000_000} {
		db, err := Open(b.TempDir(), Options{aheadFrom: -1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		val := make([]byte, 100)
		for at := 0; at < keys; at += 1000 {
			if _, err := db.UpdateEach(b.Context(), 1000, func(tx engine.Tx, i int) error {
				return tx.Put(benchKey(at+i), val)
			}); err != nil {
				b.Fatal(err)
			}
		}
		for turn := range 6 {
			name := [...]string{"off", "on"}[turn%2]
			b.Run(fmt.Sprintf("%d/%s", keys, name), func(b *testing.B) {
				start := cpuTime(b)
				var work sync.WaitGroup
				for w := range 8 {
					work.Go(func() { putAhead(b, db, rand.New(rand.NewPCG(uint64(w), uint64(b.N))), keys, name == "on") })
				}
				work.Wait()
				b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/float64(b.N), "cpu-ns/op")
			})
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// putAhead is one caller of 8, which together put b.N values.
func putAhead(b *testing.B, db *DB, rng *rand.Rand, keys int, ahead bool) {
	const each = 64
	var next [each][]byte
	val := make([]byte, 100)
	for range b.N/8/each + 1 {
		for i := range next {
			next[i] = benchKey(rng.IntN(keys))
		}
		if _, err := db.UpdateEach(context.Background(), each, func(tx engine.Tx, i int) error {
			if e := tx.(engine.Expecter); ahead && i == 0 && e.Expects() {
				e.Expect(next[:])
			}
			if _, _, err := tx.Get(next[i]); err != nil {
				return err
			}
			return tx.Put(next[i], val)
		}); err != nil {
			b.Error(err)
			return
		}
	}
}
