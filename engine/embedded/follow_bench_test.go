package embedded

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
)

// BenchmarkFollow decodes and applies batches of 512 transactions to a tree: by way of
// changes, one write after the other, sorted by key, and as followers do. The time is
// that of one write.
func BenchmarkFollow(b *testing.B) {
	for _, keys := range []int{100_000, 1_000_000} {
		rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not for secrets
		val := make([]byte, 100)
		tree := btree.NewPairs()
		for i := range keys {
			tree.Set(fmt.Appendf(nil, "key:%012d", i), btree.Value{Bytes: val})
		}
		var batches [][]byte
		var scratch []engine.Write
		var round gathered
		for range 64 {
			batch := newBatch(0, 0)
			for i := range 512 {
				batch.add(int64(1_000_000+i), 1)
				batch.put(fmt.Appendf(nil, "key:%012d", rng.IntN(keys)), val)
			}
			batches = append(batches, batch.buf)
		}
		state := snapshot{tree: tree}
		ways := map[string]func(batch []byte) error{
			"changes": func(batch []byte) error {
				for c, err := range changes(batch) {
					if err != nil {
						return err
					}
					state.apply(c)
				}
				return nil
			},
			"writes": func(batch []byte) (err error) {
				writes, _, _, err := decodeWrites(scratch[:0], batch)
				for _, w := range writes {
					state.write(w.Key, w.Val, w.Deleted)
				}
				scratch = writes
				return err
			},
		}
		var run []btree.Write
		ways["sorted"] = func(batch []byte) error {
			round.reset()
			run = run[:0]
			_, _, err := round.add(batch)
			round.sort()
			run = round.decode(run, round.writes)
			tree.Apply(run)
			return err
		}
		var warm warmer
		ways["warmed"] = func(batch []byte) (err error) {
			scratch, _, _, err = decodeWrites(scratch[:0], batch)
			warm.apply(&state, scratch, aheadFrom)
			return err
		}
		for _, way := range []string{"changes", "writes", "sorted", "warmed", "writes", "sorted", "warmed"} {
			b.Run(fmt.Sprintf("%d/%s", keys, way), func(b *testing.B) {
				start := cpuTime(b)
				for n := 0; n < b.N; n += 512 {
					if err := ways[way](batches[n/512%len(batches)]); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64((cpuTime(b)-start).Nanoseconds())/float64(b.N), "cpu-ns/op")
			})
		}
	}
}
