package embedded

import (
	"fmt"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/engine"
)

// BenchmarkClusterUpdate writes through the leader of three nodes in one process:
// what a write costs all of them together.
func BenchmarkClusterUpdate(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			c := newTrio(b, 3)
			db := c.leader()
			val := make([]byte, 100)
			const each = 64
			b.ResetTimer()
			var work sync.WaitGroup
			for w := range callers {
				work.Go(func() {
					key := []byte(fmt.Sprintf("key%012d", w))
					for range b.N / callers / each {
						_, err := db.UpdateEach(b.Context(), each, func(tx engine.Tx, i int) error {
							key[4] = byte(i)
							return tx.Put(key, val)
						})
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			work.Wait()
		})
	}
}
