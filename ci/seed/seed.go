// Package seed provides the seeds of random tests, so that failures can be repeated.
//
// It knows SKERRY_SEED. It must not know what is tested.
package seed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Of returns the seed of a random test, from SKERRY_SEED if it is set, and logs it.
func Of(tb testing.TB) uint64 {
	tb.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("SKERRY_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			tb.Fatalf("SKERRY_SEED: %v", err)
		}
	}
	tb.Logf("SKERRY_SEED=%d", seed)
	return seed
}

// Rand returns a random source with the seed of Of.
func Rand(tb testing.TB) *rand.Rand {
	tb.Helper()
	return rand.New(rand.NewPCG(Of(tb), 0))
}
