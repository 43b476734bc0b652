package embedded

import (
	"context"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/engine"
)

func benchDB(b *testing.B, keys int) *DB {
	b.Helper()
	db, err := Open(b.TempDir(), Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	val := make([]byte, 100)
	for at := 0; at < keys; {
		n := min(1000, keys-at)
		if _, err := db.UpdateEach(context.Background(), n, func(tx engine.Tx, i int) error {
			return tx.Put(benchKey(at+i), val)
		}); err != nil {
			b.Fatal(err)
		}
		at += n
	}
	b.ResetTimer()
	return db
}

func benchKey(i int) []byte {
	k := make([]byte, 0, 16)
	k = binary.BigEndian.AppendUint64(k, uint64(i)*0x9e3779b97f4a7c15)
	return binary.BigEndian.AppendUint64(k, uint64(i))
}

func BenchmarkPutAlone(b *testing.B) {
	db := benchDB(b, 100_000)
	val := make([]byte, 100)
	for i := range b.N {
		if _, err := db.Update(context.Background(), func(tx engine.Tx) error {
			return tx.Put(benchKey(i%100_000), val)
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPut64 is 8 callers, each with 64 transactions at a time, over 1 M keys.
func BenchmarkPut64(b *testing.B) {
	const keys = 1_000_000
	db := benchDB(b, keys)
	val := make([]byte, 100)
	var seq atomic.Uint64
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		rng := rand.New(rand.NewPCG(seq.Add(1), 0))
		for n := 0; ; {
			for n = 0; n < 64 && pb.Next(); n++ {
			}
			if n == 0 {
				return
			}
			if _, err := db.UpdateEach(context.Background(), n, func(tx engine.Tx, _ int) error {
				k := benchKey(rng.IntN(keys))
				if _, _, err := tx.Get(k); err != nil {
					return err
				}
				return tx.Put(k, val)
			}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkGet(b *testing.B) {
	const keys = 1_000_000
	db := benchDB(b, keys)
	b.RunParallel(func(pb *testing.PB) {
		rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
		for pb.Next() {
			if _, err := db.View(context.Background(), engine.Read{}, func(tx engine.Tx) error {
				_, _, err := tx.Get(benchKey(rng.IntN(keys)))
				return err
			}); err != nil {
				b.Error(err)
			}
		}
	})
}
