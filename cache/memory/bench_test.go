package memory

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// BenchmarkGet reads entries of 1.9 kB that are there: few, which the processor has in its caches, and many.
func BenchmarkGet(b *testing.B) {
	for _, n := range []int{200, 50_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			c, err := New(Options{MaxBytes: 256 << 20})
			if err != nil {
				b.Fatal(err)
			}
			keys := make([]string, n)
			for i := range keys {
				keys[i] = "department-" + strconv.Itoa(i)
				c.Set(keys[i], make([]byte, 1900))
			}
			b.RunParallel(func(p *testing.PB) {
				r := rand.New(rand.NewPCG(1, rand.Uint64()))
				var buf []byte
				for p.Next() {
					buf, _ = c.Get(buf[:0], keys[r.IntN(n)])
				}
			})
		})
	}
}

// BenchmarkSet sets entries of 1.9 kB in a full cache.
func BenchmarkSet(b *testing.B) {
	c, err := New(Options{MaxBytes: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	v := make([]byte, 1900)
	b.RunParallel(func(p *testing.PB) {
		r := rand.New(rand.NewPCG(1, rand.Uint64()))
		for p.Next() {
			c.Set("department-"+strconv.Itoa(r.IntN(1_000_000)), v)
		}
	})
}
