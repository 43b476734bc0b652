package btree

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestClaimsDoNotOverlap lets two copies of a leaf claim the room behind its records at the
// same moment, many times. One of them must move to a blob of its own.
func TestClaimsDoNotOverlap(t *testing.T) {
	rounds := 30_000
	if testing.Short() {
		rounds = 3000
	}
	key := []byte("key")
	for range rounds {
		base := newLeaf(new(token), 16, 1000)
		base.insert(0, key, Value{Bytes: []byte("base")})
		var ready atomic.Int32
		var done sync.WaitGroup
		var copies [2]*leaf
		for i := range copies {
			done.Go(func() {
				c := base.copy(new(token))
				ready.Add(1)
				for spins := 0; ready.Load() < int32(len(copies)); spins++ {
					if spins > 5000 {
						runtime.Gosched()
					}
				}
				c.replace(0, Value{Bytes: []byte{byte(i), byte(i), byte(i), byte(i), byte(i)}})
				copies[i] = c
			})
		}
		done.Wait()
		if &copies[0].blob[0] == &copies[1].blob[0] {
			t.Fatal("both copies of a leaf appended to its blob")
		}
		for i, c := range copies {
			if v := c.val(0).Bytes; v[0] != byte(i) || v[4] != byte(i) {
				t.Fatalf("copy %d has the value %v", i, v)
			}
		}
	}
}
