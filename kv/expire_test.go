package kv_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// stored counts the engine keys under a prefix.
func stored(t testing.TB, eng engine.Engine, prefix string) (n int) {
	t.Helper()
	_, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		n = 0
		for p, err := range tx.Scan([]byte(prefix), nil) {
			if err != nil {
				return err
			}
			if strings.HasPrefix(string(p.Key), prefix) {
				n++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// fill sets n keys in transactions of 1,000.
func fill(t testing.TB, s *kv.Store, space uint8, n int, o kv.SetOptions) {
	t.Helper()
	for i := 0; i < n; i += 1000 {
		_, err := s.Update(t.Context(), space, func(tx *kv.Tx) error {
			for j := i; j < min(n, i+1000); j++ {
				if _, err := tx.Set(fmt.Appendf(nil, "key %06d", j), []byte("v"), o); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestExpireSteps(t *testing.T) {
	s, eng, c := open(t)
	const n = 2*kv.MaxExpirePerTx + 10
	fill(t, s, 3, n, kv.SetOptions{TTL: time.Minute})
	fill(t, s, 4, 10, kv.SetOptions{TTL: time.Hour})
	step := func(left int, more bool) {
		t.Helper()
		got, err := s.ExpireStep(t.Context())
		if err != nil || got != more {
			t.Errorf("step: more %v, %v", got, err)
		}
		if k, x := stored(t, eng, "k\x03"), stored(t, eng, "x"); k != left || x != left+10 {
			t.Errorf("%d keys and %d index entries are left, want %d and 10 more", k, x, left)
		}
	}
	step(n, false)
	e, _, _, err := s.Get(t.Context(), engine.Read{}, 3, []byte("key 000000"))
	if err != nil {
		t.Fatal(err)
	}
	c.Set(e.Expires) // to the millisecond
	step(n-kv.MaxExpirePerTx, true)
	c.Add(time.Millisecond)
	c.Add(-time.Hour) // for writers, an expired key stays expired
	step(10, true)
	step(0, false)
	step(0, false)
}

// TestExpireLongKeys checks that a step is bounded in bytes too.
func TestExpireLongKeys(t *testing.T) {
	s, eng, c := open(t)
	for i := range 200 {
		set(t, s, fmt.Sprintf("%0*d", kv.MaxKeyBytes, i), "", kv.SetOptions{TTL: time.Second})
	}
	c.Add(time.Minute)
	more, err := s.ExpireStep(t.Context())
	if n := stored(t, eng, "k"); err != nil || !more || n == 0 || n == 200 {
		t.Errorf("one step left %d keys, more %v, %v", n, more, err)
	}
}

// unviewed is an engine of which no view is expected.
type unviewed struct {
	engine.Engine
	t *testing.T
}

func (e unviewed) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	e.t.Error("a view")
	return e.Engine.View(ctx, r, fn)
}

// TestExpireWithoutViews: looking for expired keys does not make the engine keep a state.
func TestExpireWithoutViews(t *testing.T) {
	c := newClock()
	s, err := kv.New(unviewed{openEngine(t, c), t}, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set(t, s, "k", "v", kv.SetOptions{TTL: time.Second})
	for range 2 { // nothing is due; then a key is
		if _, err := s.ExpireStep(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Add(2 * time.Second)
	}
	if n := s.Expired(); n != 1 {
		t.Errorf("%d keys have expired, want 1", n)
	}
}

// unsure is an engine whose first transactions are committed, and then nobody knows.
type unsure struct {
	engine.Engine
	left atomic.Int32
}

func (e *unsure) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	pos, err := e.Engine.Update(ctx, fn)
	if err == nil && e.left.Add(-1) >= 0 {
		return 0, engine.ErrOutcomeUnknown
	}
	return pos, err
}

// TestRunUnsure: a leader that is deposed while keys expire goes on when it has been elected again.
func TestRunUnsure(t *testing.T) {
	c := newClock()
	eng := &unsure{Engine: openEngine(t, c)}
	s, err := kv.New(eng, kv.Options{ExpireEvery: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 0, 10, kv.SetOptions{TTL: time.Second})
	eng.left.Store(3)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	eventually.True(t, "three transactions of unknown outcome", func() bool { return eng.left.Load() <= 0 || len(ended) > 0 })
	c.Add(2 * time.Second)
	eventually.True(t, "the keys have expired", func() bool { return stored(t, eng, "k") == 0 || len(ended) > 0 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
}

// TestRun checks that Run deletes expired keys while others write, and ends with its
// context.
func TestRun(t *testing.T) {
	s, eng, c := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	set(t, s, "other", "v", kv.SetOptions{}) // all of those below may expire before the loop looks
	fill(t, s, 0, 2000, kv.SetOptions{TTL: time.Second})
	c.Add(2 * time.Second)
	for deadline := time.Now().Add(10 * time.Second); stored(t, eng, "x") > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d index entries are left", stored(t, eng, "x"))
		}
		set(t, s, "other", "v", kv.SetOptions{})
	}
	if n := stored(t, eng, "k"); n != 1 {
		t.Errorf("%d keys are left, want 1", n)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
}

func TestRunEndsWithEngine(t *testing.T) {
	eng := openEngine(t, newClock())
	s, err := kv.New(eng, kv.Options{ExpireEvery: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Run(t.Context()) }()
	set(t, s, "k", "v", kv.SetOptions{})
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, engine.ErrClosed) {
		t.Errorf("run: %v", err)
	}
}

func TestFlush(t *testing.T) {
	s, eng, c := open(t)
	const n = 3*kv.MaxFlushPerTx + 5
	fill(t, s, 0, n, kv.SetOptions{})
	fill(t, s, 1, 10, kv.SetOptions{TTL: time.Hour})
	// There are also older keys whose revision is far ahead of the clock.
	update(t, s, func(tx *kv.Tx) error {
		for range 5000 {
			if _, err := tx.Add([]byte("z ahead"), 1); err != nil {
				return err
			}
			if _, err := tx.Set([]byte("z marked"), nil, kv.SetOptions{Mark: 1}); err != nil {
				return err
			}
		}
		return nil
	})
	rest, done, err := s.FlushTo(t.Context(), 0, 2)
	if done || err != nil {
		t.Fatalf("flush was done after two steps: %v %v", done, err)
	}
	later(t, s, eng, c)
	c.Add(-time.Hour)
	for _, k := range []string{"a new", "key 000003", fmt.Sprintf("key %06d", n-1), "z new"} {
		set(t, s, k, "new", kv.SetOptions{})
	}
	update(t, s, func(tx *kv.Tx) error { // and one that is written after it was deleted and before
		for range 3 {
			if _, err := tx.Add([]byte("z counter"), 1); err != nil {
				return err
			}
		}
		return nil
	})
	if rest() == 0 {
		t.Error("flush was done after two steps")
	}
	if _, ok := get(t, s, "z ahead"); ok {
		t.Error("a key that ran ahead of the clock is left")
	}
	if _, ok := get(t, s, "z marked"); ok {
		t.Error("a marked key that ran ahead of the clock is left")
	}
	if e, ok := get(t, s, "z counter"); !ok || string(e.Val) != "3" {
		t.Errorf("a counter written meanwhile is %q, %v", e.Val, ok)
	}
	page, _, err := s.List(t.Context(), engine.Read{}, 0, kv.ListOptions{Limit: 100})
	if err != nil || len(page.Items) != 5 {
		t.Errorf("flush left %d keys, want the 5 written meanwhile: %v", len(page.Items), err)
	}
	if _, err := s.Flush(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Flush(t.Context(), 7); err != nil {
		t.Errorf("flush of an empty space: %v", err)
	}
	c.Add(3 * time.Hour)
	for more := true; more; {
		if more, err = s.ExpireStep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if k, y := stored(t, eng, "k\x00"), stored(t, eng, "y"); k != 0 || y != 0 {
		t.Errorf("%d keys and %d tombstones are left", k, y)
	}
	if k := stored(t, eng, "k\x01"); k != 0 {
		t.Errorf("space 1 was due as well: %d are left", k)
	}
}

// later advances the engine's time if transactions share times.
func later(t *testing.T, s *kv.Store, eng engine.Engine, c *clock) {
	t.Helper()
	if eng.Promises().DistinctTimes {
		return
	}
	c.Add(time.Second)
	if _, _, err := s.Set(t.Context(), 2, []byte("k"), nil, kv.SetOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestFlushSteps checks that keys that stay count for a step as well.
func TestFlushSteps(t *testing.T) {
	s, eng, c := open(t)
	set(t, s, "a", "v", kv.SetOptions{})
	for i := range kv.MaxFlushPerTx {
		set(t, s, fmt.Sprint("b", i), "v", kv.SetOptions{})
	}
	rest, done, err := s.FlushTo(t.Context(), 0, 1)
	if done || err != nil {
		t.Fatalf("flush of one key too many was done in one step: %v", err)
	}
	later(t, s, eng, c)
	update(t, s, func(tx *kv.Tx) error {
		for i := range 2 * kv.MaxFlushPerTx {
			if _, err := tx.Set(fmt.Appendf(nil, "c%d", i), nil, kv.SetOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	if n := rest(); n != 3 {
		t.Errorf("flush took %d more steps, want 3", n)
	}
	update(t, s, func(tx *kv.Tx) error {
		n := 0
		for _, err := range tx.Scan(nil, nil) {
			if n++; err != nil {
				return err
			}
		}
		if n != 2*kv.MaxFlushPerTx {
			t.Errorf("flush left %d keys", n)
		}
		return nil
	})
}

func TestFlushEnds(t *testing.T) {
	s, _, _ := open(t)
	fill(t, s, 0, 10, kv.SetOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Flush(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("flush: %v", err)
	}
}
