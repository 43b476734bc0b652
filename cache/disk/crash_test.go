package disk

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestPowerLoss cuts the power or makes the disk fail at random changes, in stores so
// small that segments are dropped all the time, and checks the rule after each restart.
func TestPowerLoss(t *testing.T) {
	first := seed.Of(t)
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	warm := 0
	for i := range rounds {
		warm += powerLoss(t, first+uint64(i))
	}
	t.Logf("%d of %d restarts found entries", warm, 3*rounds)
}

// powerLoss returns how many restarts found entries.
func powerLoss(t *testing.T, n uint64) (warm int) {
	r := rand.New(rand.NewPCG(n, 0))
	fsys := memfs.New(r.Uint64())
	o := options(fsys)
	o.MaxBytes = minBytes << r.IntN(3)
	o.BatchEntries = 1 + r.IntN(30)
	g := newGenerator(r.Uint64())
	durable := ""
	for range 4 {
		if r.IntN(3) == 0 { // the power fails during a start
			fsys.StopAfter(r.IntN(8))
			if s, err := Open(o); err == nil {
				fsys.StopAfter(0)
				s.Close() // fails
			}
			fsys.Crash()
		}
		s := reopen(t, o)
		g.check(t, s)
		if m := s.Marked(); durable != "" && (m == "" || number(m) < number(durable)) {
			t.Errorf("mark %s was durable, and %q came back", durable, m)
		}
		if t.Failed() {
			t.Fatalf("failed with SKERRY_SEED=%d", n)
		}
		if s.Stats().Entries > 0 {
			warm++
		}
		faulty := breakDisk(r, fsys)
		g.resume(s)
		durable = ""
		for range 50 + r.IntN(600) {
			g.next(s)
			st := s.Stats()
			if g.steps[len(g.steps)-1].kind == 'f' {
				durable = ""
			} else if st.Mark != "" {
				durable = st.Mark
			}
			if st.Bytes > o.MaxBytes {
				t.Fatalf("failed with SKERRY_SEED=%d: %+v", n, st)
			}
		}
		if faulty {
			durable = "" // the store has removed its files
		}
		fsys.StopAfter(0)
		s.Close() // fails
		if r.IntN(4) == 0 {
			fsys.Kill()
		} else {
			fsys.Crash()
		}
	}
	return warm
}

// breakDisk plans how the disk will fail, and returns false if it is just the power.
func breakDisk(r *rand.Rand, fsys *memfs.FS) bool {
	switch r.IntN(8) {
	case 0:
		fsys.FailSync(1 + r.IntN(60))
	case 1:
		fsys.LimitSpace(int64(r.IntN(100 << 10)))
	case 2:
		fsys.ShortWrite(1+r.IntN(60), r.IntN(600))
	case 3, 4, 5:
		fsys.StopAfter(r.IntN(120))
		return false
	default:
		return false
	}
	return true
}

func number(position string) int {
	n, _ := strconv.Atoi(position) // "" is 0
	return n
}

func reopen(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
