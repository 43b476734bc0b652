package kv_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
	"github.com/skerrydb/skerry/kv"
)

// plainly runs a test on engines that are atomic over one key and over one partition.
func plainly(t *testing.T, test func(t *testing.T, s *kv.Store, inner engine.Engine, c *clock)) {
	for _, scope := range []engine.Scope{engine.OneKey, engine.OnePartition} {
		t.Run(scope.String(), func(t *testing.T) {
			c := newClock()
			inner := openEngine(t, c)
			s, err := kv.New(enginetest.Within(inner, scope), kv.Options{})
			if err != nil {
				t.Fatal(err)
			}
			test(t, s, inner, c)
			for _, prefix := range []string{"x", "y"} {
				if n := stored(t, inner, prefix); n != 0 {
					t.Errorf("%d entries of an index %q", n, prefix)
				}
			}
		})
	}
}

// TestPlainKeys checks that get, set, compare-and-set, counters and deletion work one key
// at a time.
func TestPlainKeys(t *testing.T) {
	plainly(t, func(t *testing.T, s *kv.Store, _ engine.Engine, _ *clock) {
		last := set(t, s, "k", "1", kv.SetOptions{})
		if e, ok := get(t, s, "k"); !ok || string(e.Val) != "1" || e.Rev != last {
			t.Errorf("get: %+v, %v", e, ok)
		}
		if _, _, err := s.Set(t.Context(), 0, []byte("k"), nil, kv.SetOptions{IfRev: last + 1}); !errors.Is(err, engine.ErrPreconditionFailed) {
			t.Errorf("set of another revision: %v", err)
		}
		for i := range 20 { // the clock occasionally goes back
			rev := set(t, s, "k", fmt.Sprint(i), kv.SetOptions{IfRev: last})
			if rev <= last {
				t.Fatalf("revision %d after %d", rev, last)
			}
			last = rev
			if i%3 == 0 {
				if ok, _, err := s.Delete(t.Context(), 0, []byte("k"), rev); !ok || err != nil {
					t.Fatalf("delete: %v, %v", ok, err)
				}
				if _, ok := get(t, s, "k"); ok {
					t.Fatal("a deleted key is there")
				}
				if last = set(t, s, "k", "again", kv.SetOptions{OnlyNew: true}); last <= rev {
					t.Fatalf("revision %d after a deletion at %d", last, rev)
				}
			}
		}
		errs := make(chan error, 4)
		for range cap(errs) {
			go func() {
				var err error
				for i := 0; i < 25 && err == nil; i++ {
					_, err = s.Update(t.Context(), 0, func(tx *kv.Tx) error { _, err := tx.Add([]byte("n"), 1); return err })
				}
				errs <- err
			}()
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if e, _ := get(t, s, "n"); string(e.Val) != "100" {
			t.Errorf("the counter is %q", e.Val)
		}
	})
}

// TestPlainExpiry checks that an expired key is absent on every read, though nobody deletes
// it.
func TestPlainExpiry(t *testing.T) {
	plainly(t, func(t *testing.T, s *kv.Store, inner engine.Engine, c *clock) {
		set(t, s, "k", "1", kv.SetOptions{Expires: start.Add(time.Minute)})
		if _, ok := get(t, s, "k"); !ok {
			t.Error("expired early")
		}
		c.Add(2 * time.Minute)
		if _, ok := get(t, s, "k"); ok {
			t.Error("an expired key is there")
		}
		if n := stored(t, inner, "k"); n != 1 {
			t.Errorf("%d records, want that of the expired key", n)
		}
		rev := set(t, s, "k", "2", kv.SetOptions{OnlyNew: true})
		if e, ok := get(t, s, "k"); !ok || e.Rev != rev || !e.Expires.IsZero() {
			t.Errorf("set over an expired key: %+v, %v", e, ok)
		}
	})
}

// TestPlainRefuses checks that operations on several keys and scans return ErrUnsupported
// and change nothing.
func TestPlainRefuses(t *testing.T) {
	plainly(t, func(t *testing.T, s *kv.Store, _ engine.Engine, _ *clock) {
		set(t, s, "k", "1", kv.SetOptions{})
		_, _, list := s.List(t.Context(), engine.Read{}, 0, kv.ListOptions{})
		_, flush := s.Flush(t.Context(), 0)
		_, count := s.View(t.Context(), engine.Read{}, 0, func(tx *kv.Tx) error { _, err := tx.Count(); return err })
		_, at := s.View(t.Context(), engine.Read{}, 0, func(tx *kv.Tx) error { _, _, err := tx.At(0); return err })
		for name, err := range map[string]error{"list": list, "flush": flush, "count": count, "at": at} {
			if !errors.Is(err, engine.ErrUnsupported) || err.Error() != s.Lacks().Error() {
				t.Errorf("%s: %v, want %v", name, err, s.Lacks())
			}
		}
		pairs := []engine.Pair{{Key: []byte("k"), Val: []byte("2")}, {Key: []byte("other"), Val: []byte("2")}}
		if _, err := s.MSet(t.Context(), 0, pairs); !errors.Is(err, engine.ErrCrossPartition) {
			t.Errorf("mset: %v", err)
		}
		_, err := s.Update(t.Context(), 0, func(tx *kv.Tx) error {
			if _, err := tx.Set([]byte("k"), []byte("2"), kv.SetOptions{}); err != nil {
				return err
			}
			return tx.Remember([]byte("request"), kv.Answered{}, time.Hour)
		})
		if !errors.Is(err, engine.ErrCrossPartition) {
			t.Errorf("remember beside a set: %v", err)
		}
		if e, _ := get(t, s, "k"); string(e.Val) != "1" {
			t.Errorf("refused, and k is %q", e.Val)
		}
		es, _, err := s.MGet(t.Context(), engine.Read{}, 0, [][]byte{[]byte("k"), []byte("other")})
		if err != nil || string(es[0].Val) != "1" || es[1].Rev != 0 {
			t.Errorf("mget: %+v, %v", es, err)
		}
	})
}

// TestPlainPartition checks that keys with one tag change together if the engine supports
// it.
func TestPlainPartition(t *testing.T) {
	plainly(t, func(t *testing.T, s *kv.Store, _ engine.Engine, _ *clock) {
		pairs := []engine.Pair{{Key: []byte("{42}name"), Val: []byte("2")}, {Key: []byte("{42}mail"), Val: []byte("2")}}
		_, err := s.MSet(t.Context(), 0, pairs)
		if can := s.Promises().Atomic == engine.OnePartition; can != (err == nil) || !can && !errors.Is(err, engine.ErrCrossPartition) {
			t.Errorf("mset within one partition: %v", err)
		}
	})
}

// expirer is an engine that can remove keys by itself. It records when it would.
type expirer struct {
	engine.Engine
	until map[string]time.Time
}

func (x expirer) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return x.Engine.Update(ctx, func(tx engine.Tx) error { return fn(expirerTx{tx, x.until}) })
}

type expirerTx struct {
	engine.Tx
	until map[string]time.Time
}

func (x expirerTx) PutUntil(key, val []byte, until time.Time) error {
	x.until[string(key)] = until
	return x.Put(key, val)
}

// TestPlainExpirer checks that the engine may remove a record, including its revision, once
// nobody needs it.
func TestPlainExpirer(t *testing.T) {
	c := newClock()
	until := map[string]time.Time{}
	s, err := kv.New(enginetest.Within(expirer{openEngine(t, c), until}, engine.OneKey), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	end := start.Add(time.Hour)
	set(t, s, "stays", "1", kv.SetOptions{})
	set(t, s, "expires", "1", kv.SetOptions{Expires: end})
	set(t, s, "deleted", "1", kv.SetOptions{})
	if ok, _, err := s.Delete(t.Context(), 0, []byte("deleted"), 0); !ok || err != nil {
		t.Fatalf("delete: %v, %v", ok, err)
	}
	if len(until) != 2 || until["k\x00expires"].Before(end) || until["k\x00deleted"].Before(start.Add(time.Hour)) {
		t.Errorf("the engine may remove keys at %v", until)
	}
}
