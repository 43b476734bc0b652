package redis

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/engine"
)

// BenchmarkUpdate and BenchmarkGet run on a server with appendfsync always; p is the callers at a time.
func BenchmarkUpdate(b *testing.B) {
	callers(b, func(eng engine.Engine, key []byte) error {
		_, err := eng.Update(b.Context(), func(tx engine.Tx) error {
			if _, _, err := tx.Get(key); err != nil {
				return err
			}
			return tx.Put(key, make([]byte, 100))
		})
		return err
	})
}

func BenchmarkGet(b *testing.B) {
	callers(b, func(eng engine.Engine, key []byte) error {
		_, err := eng.View(b.Context(), engine.Read{}, func(tx engine.Tx) error {
			_, _, err := tx.Get(key)
			return err
		})
		return err
	})
}

func callers(b *testing.B, call func(eng engine.Engine, key []byte) error) {
	for _, keys := range []int{1000, 10_000_000} {
		for _, p := range []int{1, 64} {
			b.Run(fmt.Sprintf("keys=%d/p=%d", keys, p), func(b *testing.B) {
				eng := open(b, at(Scheme, redisserver.Start(b), newPrefix()), Options{})
				defer eng.Close()
				work := make(chan int)
				errs := make(chan error, p)
				for range p {
					go func() {
						var err error
						for range work {
							if e := call(eng, fmt.Appendf(nil, "key%012d", rand.IntN(keys))); e != nil {
								err = e
							}
						}
						errs <- err
					}()
				}
				for i := range b.N {
					work <- i
				}
				close(work)
				for range p {
					if err := <-errs; err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
