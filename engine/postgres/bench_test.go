package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

// benchKeys is how many keys the benchmarks use.
const benchKeys = 100_000

func benchDB(b *testing.B) *DB {
	b.Helper()
	d := open(enginetest.Adapt(b), pgserver.Shared(b).Database(b), Options{})
	b.Cleanup(func() { _ = d.Close() })
	val := make([]byte, 100)
	if _, err := d.UpdateEach(b.Context(), benchKeys, func(tx engine.Tx, i int) error { return tx.Put(benchKey(i), val) }); err != nil {
		b.Fatal(err)
	}
	return d
}

func benchKey(i int) []byte { return fmt.Appendf(nil, "key%08d", i) }

// callers runs fn b.N times by n goroutines.
func callers(b *testing.B, n int, fn func() error) {
	b.Helper()
	b.SetParallelism((n + 1) / 2) // of two processors
	var failed atomic.Pointer[error]
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := fn(); err != nil {
				failed.CompareAndSwap(nil, &err)
				return
			}
		}
	})
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
}

// BenchmarkUpdate reads and writes one key, as a SET does.
func BenchmarkUpdate(b *testing.B) {
	val := make([]byte, 100)
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := benchDB(b)
			callers(b, n, func() error {
				key := benchKey(rand.IntN(benchKeys))
				_, err := d.Update(context.Background(), func(tx engine.Tx) error {
					if _, _, err := tx.Get(key); err != nil {
						return err
					}
					return tx.Put(key, val)
				})
				return err
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
		})
	}
}

// BenchmarkGet reads one key in a view; "bare" is the prepared SELECT alone.
func BenchmarkGet(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := benchDB(b)
			callers(b, n, func() error {
				key := benchKey(rand.IntN(benchKeys))
				_, err := d.View(context.Background(), engine.Read{}, func(tx engine.Tx) error { _, _, err := tx.Get(key); return err })
				return err
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
		})
		b.Run(fmt.Sprint("bare", n), func(b *testing.B) {
			d := benchDB(b)
			callers(b, n, func() error {
				c, err := d.views.get(context.Background())
				if err != nil {
					return err
				}
				defer d.views.put(c)
				var val []byte
				return c.QueryRow(context.Background(), d.sql.get, benchKey(rand.IntN(benchKeys))).Scan(&val)
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
		})
	}
}
