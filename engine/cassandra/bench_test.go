package cassandra

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/ci/cassandraserver"
	"github.com/skerrydb/skerry/engine"
)

// BenchmarkEngine measures transactions and views of one key of 100 bytes.
func BenchmarkEngine(b *testing.B) {
	s := cassandraserver.Shared(b)
	keyspace, done := cassandraserver.Keyspace(b, "meta")
	defer done()
	eng := open1(b, s.URL(keyspace), Options{})
	defer eng.Close()
	val := make([]byte, 100)
	update := func(key []byte) error {
		_, err := eng.Update(b.Context(), func(tx engine.Tx) error {
			if _, _, err := tx.Get(key); err != nil {
				return err
			}
			return tx.Put(key, val)
		})
		return err
	}
	view := func(level engine.Level) func(key []byte) error {
		return func(key []byte) error {
			_, err := eng.View(b.Context(), engine.Read{Level: level}, func(tx engine.Tx) error {
				_, _, err := tx.Get(key)
				return err
			})
			return err
		}
	}
	for i := range 2000 { // Java compiles what runs often
		if err := update(fmt.Appendf(nil, "k%d", i%1000)); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		keys int64
		do   func(key []byte) error
	}{
		{"update", 1000, update}, {"update-one-partition", 1, update},
		{"view", 1000, view(engine.Linearizable)}, {"view-session", 1000, view(engine.Session)}, {"view-local", 1000, view(engine.Local)},
	} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d", c.name, callers), func(b *testing.B) {
				var n atomic.Int64
				b.SetParallelism(max(1, callers/2))
				work := func() {
					if err := c.do(fmt.Appendf(nil, "k%d", n.Add(1)%c.keys)); err != nil {
						b.Error(err)
					}
				}
				if callers == 1 {
					for b.Loop() {
						work()
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						work()
					}
				})
			})
		}
	}
}
