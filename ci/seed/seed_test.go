package seed

import (
	"math/rand/v2"
	"testing"
)

func TestSeed(t *testing.T) {
	t.Setenv("SKERRY_SEED", "42")
	if got := Of(t); got != 42 {
		t.Errorf("seed %d, want 42", got)
	}
	if got, want := Rand(t).Uint64(), rand.New(rand.NewPCG(42, 0)).Uint64(); got != want {
		t.Errorf("the source gives %d, want %d", got, want)
	}
	t.Setenv("SKERRY_SEED", "")
	if a, b := Of(t), Of(t); a == b {
		t.Errorf("two seeds are %d", a)
	}
}
