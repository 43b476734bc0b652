package archive_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/archive"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// BenchmarkWriters measures what an archive costs writers, on one real disk for
// both: 64 of them, 16-byte keys, 100-byte values, a transaction each.
func BenchmarkWriters(b *testing.B) {
	for _, with := range []bool{false, true} {
		b.Run(fmt.Sprintf("archive=%v", with), func(b *testing.B) {
			dir := b.TempDir()
			db, err := embedded.Open(filepath.Join(dir, "data"), embedded.Options{Logger: quiet})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close() // it is thrown away
			behind := func() {}
			if with {
				a, err := archive.Open(filepath.Join(dir, "archive"), archive.Options{Verify: verify, Logger: quiet})
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error, 1)
				go func() { ended <- a.Run(ctx, db) }()
				eventually.True(b, "a base", func() bool { return a.Status().Bases > 0 })
				behind = func() {
					cancel()
					<-ended
					b.ReportMetric(float64(a.Status().Lost), "gaps")
					a.Close() // it is thrown away
				}
			}
			var n atomic.Uint64
			val := make([]byte, 100)
			b.SetParallelism(32)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					key := fmt.Appendf(nil, "%016d", n.Add(1)%200_000)
					if _, err := db.Update(context.Background(), func(tx engine.Tx) error { return tx.Put(key, val) }); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			behind()
		})
	}
}
