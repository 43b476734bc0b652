package disk

import (
	"math/rand/v2"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestPowerLoss cuts the power at random changes of the disk, in stores so small that
// segments are dropped all the time, and checks the rule after each restart.
func TestPowerLoss(t *testing.T) {
	first := seed.Of(t)
	rounds := 100
	if testing.Short() {
		rounds = 20
	}
	warm := 0
	for i := range rounds {
		warm += powerLoss(t, first+uint64(i))
	}
	if warm == 0 {
		t.Error("no restart found anything: the test shows nothing")
	}
}

// powerLoss returns how many restarts found entries.
func powerLoss(t *testing.T, n uint64) (warm int) {
	r := rand.New(rand.NewPCG(n, 0))
	fsys := memfs.New(r.Uint64())
	o := options(fsys)
	o.MaxBytes = minBytes << r.IntN(3)
	o.BatchEntries = 1 + r.IntN(30)
	g := newGenerator(r.Uint64())
	for range 3 {
		s := reopen(t, o)
		g.check(t, s)
		if t.Failed() {
			t.Fatalf("failed with SKERRY_SEED=%d", n)
		}
		if s.Stats().Entries > 0 {
			warm++
		}
		if r.IntN(2) == 0 {
			fsys.StopAfter(r.IntN(120))
		}
		g.resume(s)
		for range 50 + r.IntN(1000) {
			g.next(s)
		}
		if r.IntN(4) == 0 {
			fsys.Kill()
		} else {
			fsys.Crash()
		}
		s.Close() // fails: its files are gone
	}
	return warm
}

func reopen(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
