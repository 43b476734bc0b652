package workload

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// scripted is a workload whose steps return what step says; it has no engine.
type scripted struct {
	n    atomic.Int64
	step func(ctx context.Context, n int64) error
}

func (s *scripted) Name() string                               { return "scripted" }
func (s *scripted) Needs() engine.Promises                     { return engine.Promises{} }
func (s *scripted) Setup(context.Context, engine.Engine) error { return nil }
func (s *scripted) Check(context.Context, engine.Engine) error { return nil }
func (s *scripted) Step(ctx context.Context, _ engine.Engine, _ *rand.Rand) error {
	return s.step(ctx, s.n.Add(1))
}

func TestLoadCounts(t *testing.T) {
	w := &scripted{step: func(_ context.Context, n int64) error {
		return []error{nil, nil, engine.ErrQueueFull, engine.ErrOutcomeUnknown, context.DeadlineExceeded}[n%5]
	}}
	s, err := Load(t.Context(), nil, w, Options{Clients: 3, Steps: 50, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	if s.OK != 20 || s.Failed != 20 || s.Unknown != 10 || s.Codes[engine.CodeQueueFull] != 10 || len(s.Codes) != 2 {
		t.Errorf("stats are %+v", s)
	}
	if s.Seed != 7 || s.Clients != 3 || !strings.Contains(s.String(), "seed 7") {
		t.Errorf("stats are %v", s)
	}
}

func TestLoadEndsAtWhatCannotBeMended(t *testing.T) {
	for _, bad := range []error{engine.ErrUnsupported, violation("x", "y"), errors.New("disk of the ledger")} {
		w := &scripted{step: func(ctx context.Context, n int64) error {
			if n == 10 {
				return bad
			}
			return nil
		}}
		s, err := Load(t.Context(), nil, w, Options{Steps: 1 << 30})
		if !errors.Is(err, bad) {
			t.Errorf("load ended with %v, want %v", err, bad)
		}
		if s.OK < 9 {
			t.Errorf("only %d good steps", s.OK)
		}
	}
}

func TestLoadEndsInTime(t *testing.T) {
	w := &scripted{step: func(context.Context, int64) error { time.Sleep(time.Millisecond); return nil }}
	var reports atomic.Int64
	s, err := Load(t.Context(), nil, w, Options{Duration: 1200 * time.Millisecond, OnStats: func(Stats) { reports.Add(1) }})
	if err != nil || s.Elapsed < time.Second || reports.Load() != 1 || s.P50 < time.Millisecond || s.P99 > s.Max {
		t.Errorf("%d reports, %v, %+v", reports.Load(), err, s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Load(ctx, nil, w, Options{Duration: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a load whose ctx ended returned %v", err)
	}
}

func TestNew(t *testing.T) {
	for _, w := range All() {
		if got, err := New(w.Name()); err != nil || got.Name() != w.Name() {
			t.Errorf("New(%q) = %v, %v", w.Name(), got, err)
		}
	}
	if _, err := New("banks"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("New of an unknown name: %v", err)
	}
}

func TestHistogram(t *testing.T) {
	for ns := range uint64(5000) {
		checkBucket(t, ns)
	}
	for shift := range 64 {
		for d := range uint64(3) {
			checkBucket(t, uint64(1)<<shift+d-1)
		}
	}
	var h histogram
	if h.percentile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
	var all []time.Duration
	rng := rand.New(rand.NewPCG(1, 1))
	for range 10000 {
		d := time.Duration(rng.ExpFloat64() * float64(time.Millisecond))
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, p := range []float64{0, 0.5, 0.9, 0.99, 1} {
		want := all[max(0, int(p*10000)-1)]
		got := h.percentile(p)
		if got < want || float64(got) > float64(want)*(1+1.0/16)+1 {
			t.Errorf("p%v is %v, want %v", p*100, got, want)
		}
	}
}

func checkBucket(t *testing.T, ns uint64) {
	t.Helper()
	i := bucket(ns)
	if i < 0 || i >= numBuckets {
		t.Fatalf("%d is in bucket %d of %d", ns, i, numBuckets)
	}
	if ns > bucketEnd(i) || i > 0 && ns <= bucketEnd(i-1) {
		t.Fatalf("%d is in bucket %d, of (%d, %d]", ns, i, bucketEnd(i-1), bucketEnd(i))
	}
}
