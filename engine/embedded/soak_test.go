package embedded

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
)

// fragmenter writes values whose sizes change.
type fragmenter struct {
	t      *testing.T
	db     *DB
	random *rand.Rand
	keys   int
	value  []byte
	sizes  map[int]int // what must be there, by key
}

// round writes each key about once, with values up to most bytes; deletes is the share of
// keys that are deleted instead.
func (f *fragmenter) round(most int, deletes float64) {
	const perCall = 64
	for range f.keys / perCall {
		_, err := f.db.Update(f.t.Context(), func(tx engine.Tx) error {
			for range perCall {
				k := f.random.IntN(f.keys)
				key := fmt.Appendf(nil, "key %08d", k)
				if f.random.Float64() < deletes {
					delete(f.sizes, k)
					if err := tx.Delete(key); err != nil {
						return err
					}
					continue
				}
				f.sizes[k] = f.random.IntN(most + 1)
				if err := tx.Put(key, f.value[:f.sizes[k]]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// read scans from random keys until stop is closed.
func (f *fragmenter) read(stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		from := fmt.Appendf(nil, "key %08d", n*7919%f.keys)
		_, err := f.db.View(f.t.Context(), engine.Read{}, func(tx engine.Tx) error {
			left := 100
			for p, err := range tx.Scan(from, nil) {
				if err != nil {
					return err
				}
				if !bytes.Equal(p.Val, f.value[:len(p.Val)]) {
					f.t.Errorf("%s has other bytes than were written", p.Key)
				}
				if left--; left == 0 {
					break
				}
			}
			return nil
		})
		if err != nil {
			f.t.Errorf("read: %v", err)
			return
		}
	}
}

// check compares the keys and the sizes of their values with those written.
func (f *fragmenter) check() {
	f.t.Helper()
	_, err := f.db.View(f.t.Context(), engine.Read{}, func(tx engine.Tx) error {
		n := 0
		for p, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			var k int
			if _, err := fmt.Sscanf(string(p.Key), "key %d", &k); err != nil {
				return err
			}
			if size, ok := f.sizes[k]; !ok || size != len(p.Val) {
				f.t.Fatalf("%s has %d bytes, want %d, %v", p.Key, len(p.Val), size, ok)
			}
			n++
		}
		if n != len(f.sizes) {
			f.t.Fatalf("%d keys, want %d", n, len(f.sizes))
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// TestFragmentation: with values that grow and shrink, and keys that go and come, the
// tree stays within twice its records. With SKERRY_SOAK it goes on for that long, with
// more data, and the process stays within 1.5 times its live heap.
func TestFragmentation(t *testing.T) {
	keys, until := 1_000, time.Time{}
	if v := os.Getenv("SKERRY_SOAK"); v != "" {
		long, err := time.ParseDuration(v)
		if err != nil {
			t.Fatal(err)
		}
		keys, until = 60_000, time.Now().Add(long)
		defer debug.SetGCPercent(debug.SetGCPercent(30)) // as a server has with much data
	}
	f := &fragmenter{
		t: t, random: seed.Rand(t), keys: keys, value: bytes.Repeat([]byte("0123456789"), 2_000), sizes: map[int]int{},
		db: open(t, t.TempDir(), Options{}),
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() { f.read(stop) })
	for round := 1; round <= 3 || time.Now().Before(until); round++ {
		f.round(20_000, 0.1)
		f.round(100, 0.5)
		f.round(700, 0)
		f.round(20_000, 0.3)
		f.round(20_000, 0)
		f.check()
		state := visible(f.db)
		tree := state.tree.Stats()
		if most := 2*(tree.Records+tree.Outside) + int64(keys)*100; tree.Allocated > most {
			t.Errorf("round %d: the tree takes %d bytes for %d of records and %d outside", round, tree.Allocated, tree.Records, tree.Outside)
		}
		if until.IsZero() {
			continue
		}
		runtime.GC()
		live, first := liveHeap(), residentBytes(t)
		resident := first
		settled := eventually.Within(scavengeWait, func() bool { resident = residentBytes(t); return resident <= live*3/2 })
		t.Logf("round %d: data %d MiB, tree %d MiB (dead %d, room %d), live heap %d MiB, resident %d MiB, then %d, %.2f times that",
			round, state.bytes>>20, tree.Allocated>>20, tree.Dead>>20, tree.Room>>20, live>>20, first>>20, resident>>20, float64(resident)/float64(live))
		if round > 2 && !settled {
			t.Errorf("round %d: %d bytes are resident for %d live", round, resident, live)
		}
	}
	close(stop)
	readers.Wait()
}

// scavengeWait is how long the runtime may take to give back what it keeps beyond a tenth
// over its goal, which is 1.3 times the live heap here. It does so in the background, with
// little CPU time. That bound, 1.43 times, and what is no heap, some 20 MiB, leave a margin
// only if there is enough data.
const scavengeWait = 30 * time.Second

// residentBytes returns the resident memory of this process. Source: proc(5), VmRSS.
func residentBytes(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	var kib int64
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
