package series

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/feed"
)

// faulty is an engine whose updates sometimes fail, before or after they are committed.
type faulty struct {
	engine.Engine
	mu  sync.Mutex // guards rng
	rng *rand.Rand
	in  int // one of so many fails; 0: none
}

func (f *faulty) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	f.mu.Lock()
	fails, after := f.in > 0 && f.rng.IntN(f.in) == 0, f.rng.IntN(2) == 0
	f.mu.Unlock()
	if fails && !after {
		return 0, engine.ErrUnavailable
	}
	pos, err := f.Engine.Update(ctx, fn)
	if fails && err == nil {
		return 0, engine.ErrOutcomeUnknown
	}
	return pos, err
}

func (f *faulty) mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.in = 0
}

// TestFaults: whatever step of sealing and merging fails, nothing is lost, doubled or left over, and another process
// that takes over continues.
func TestFaults(t *testing.T) {
	rng := seed.Rand(t)
	eng := &faulty{Engine: testengine.Open(t, testengine.Options{}), rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), in: 4}
	o := Options{generation: 100, fanIn: 2, lease: time.Millisecond, pause: time.Millisecond}
	m := model{}
	var s *Store
	var stops []func()
	var ids []ID
	var names []Labels
	for i := range 8 {
		names = append(names, labels(t, "m", "i", fmt.Sprint(i)))
	}
	for round := range 80 {
		if round%20 == 0 { // another process, beside those before
			stores, stop := openUntil(t, eng, o, Collection{Name: "c"})
			s, stops = stores[0], append(stops, stop)
			again(t, func() (err error) { ids, err = s.Define(t.Context(), names); return err })
		}
		var b Batch
		for range 1 + rng.IntN(60) {
			i := rng.IntN(len(ids))
			at := now.Add(-time.Duration(rng.IntN(300)) * 10 * time.Minute).UnixNano()
			v := value(rng)
			b.Add(ids[i], at, v)
			name := names[i].String()
			if m[name] == nil {
				m[name] = map[int64]uint64{}
			}
			m[name][at] = math.Float64bits(v)
		}
		again(t, func() error { _, err := s.Append(t.Context(), &b); return err })
		if round%8 == 7 {
			m.check(t, s, Query{}, nil)
		}
	}
	eng.mend()
	for _, stop := range stops[:len(stops)-1] {
		stop()
	}
	var last string
	eventually.True(t, "all that is full is sealed and merged, and nothing is left over", func() bool {
		last = leftovers(t, s)
		return last == "" && s.Stats().Unsealed < 200 && s.Stats().Parts < 12
	})
	m.check(t, s, Query{}, nil)
}

// again repeats a call while it fails as a faulty engine does.
func again(t *testing.T, call func() error) {
	t.Helper()
	for range 1000 {
		err := call()
		if err == nil {
			return
		}
		if !errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, engine.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
	}
	t.Fatal("it fails always")
}

// TestFallsBehind: a node that misses changes reads everything again, and its watches learn that they missed some.
func TestFallsBehind(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{})
	f, err := feed.New(eng, feed.Options{Buffer: 1})
	if err != nil {
		t.Fatal(err)
	}
	db, err := New(eng, Options{Feed: f, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Use(Collection{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = f.Run(ctx) })
	work.Go(func() { _ = db.Run(ctx) })
	defer work.Wait()
	defer cancel()
	ids, err := s.Define(t.Context(), []Labels{labels(t, "m")})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Watch(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	_, h := s.state()
	h.mu.Lock() // the node applies nothing
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			var b Batch
			b.Add(ids[0], now.UnixNano()+int64(i), float64(i))
			raw(t, s, &b)
		})
	}
	calls.Wait()
	h.mu.Unlock()
	list, err := s.Select(t.Context(), Query{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || len(list[0].Times) != 20 {
		t.Fatalf("got %v, want 20 samples of one series", list)
	}
	for _, err := range w.All(t.Context()) {
		if err != nil {
			if !errors.Is(err, engine.ErrTruncated) {
				t.Errorf("the watch ends with %v, want truncated", err)
			}
			return
		}
	}
}

// raw stores a batch as Append does, without waiting for this node.
func raw(t *testing.T, s *Store, b *Batch) {
	no, _ := s.state()
	val := append(b.encodeHeader(), b.data...)
	_, err := s.db.eng.Update(t.Context(), func(tx engine.Tx) error { return s.put(tx, no, val, b, 0) })
	if err != nil {
		t.Error(err)
	}
}
