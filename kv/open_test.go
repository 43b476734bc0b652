package kv_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/kv"
)

// start is the manual clock's first reading: a whole second.
var start = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// clock is a manual clock.
type clock struct{ us atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.us.Store(start.UnixMicro())
	return c
}

func (c *clock) Now() time.Time      { return time.UnixMicro(c.us.Load()).UTC() }
func (c *clock) Add(d time.Duration) { c.us.Add(d.Microseconds()) }
func (c *clock) Set(at time.Time)    { c.us.Store(at.UnixMicro()) }

// open returns a store on a fresh engine with a manual clock. When the test ends, the
// indexes are checked.
func open(t testing.TB) (*kv.Store, engine.Engine, *clock) {
	t.Helper()
	c := newClock()
	eng := openEngine(t, c)
	o := kv.Options{ExpireEvery: time.Millisecond}
	if eng.Promises().Feed {
		o.Feed = follow(t, eng, feed.Options{})
	}
	if eng.Promises().Ordered {
		t.Cleanup(func() { checkIndex(t, eng) })
	}
	s, err := kv.New(eng, o)
	if err != nil {
		t.Fatal(err)
	}
	return s, eng, c
}

// follow returns a feed on eng, which runs until the test ends.
func follow(t testing.TB, eng engine.Engine, o feed.Options) *feed.Feed {
	t.Helper()
	f, err := feed.New(eng, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = f.Run(ctx) // its context ends
	}()
	t.Cleanup(func() { stop(); <-ended })
	if err := f.Wait(ctx, 0); err != nil {
		t.Fatal(err)
	}
	return f
}

// openEngine returns a fresh engine, which is closed when the test ends.
func openEngine(t testing.TB, c *clock) engine.Engine {
	t.Helper()
	return testengine.Open(t, testengine.Options{Now: c.Now})
}

// update runs fn as a transaction of space 0 that must succeed.
func update(t testing.TB, s *kv.Store, fn func(tx *kv.Tx) error) engine.Position {
	t.Helper()
	pos, err := s.Update(t.Context(), 0, fn)
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	return pos
}

// set sets a key in its own transaction and returns its revision.
func set(t testing.TB, s *kv.Store, key, val string, o kv.SetOptions) kv.Revision {
	t.Helper()
	res, _, err := s.Set(t.Context(), 0, []byte(key), []byte(val), o)
	if err != nil || !res.Written {
		t.Fatalf("set %q: written %v, error %v", key, res.Written, err)
	}
	return res.Rev
}

func get(t testing.TB, s *kv.Store, key string) (kv.Entry, bool) {
	t.Helper()
	e, ok, _, err := s.Get(t.Context(), engine.Read{}, 0, []byte(key))
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	return e, ok
}

// checkIndex reads everything in the engine and compares the index entries with those that
// the records require. It parses by DESIGN.md's table and not with the package's code, so
// that a change of the layout fails here.
func checkIndex(t testing.TB, eng engine.Engine) {
	t.Helper()
	// Not the test's context, which has ended when its cleanup runs.
	ctx := context.Background()
	want, have := map[string]bool{}, map[string]bool{}
	_, err := eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		for p, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			switch p.Key[0] {
			case 'k':
				if idx := wantIndex(t, p); idx != "" {
					want[idx] = true
				}
			case 'x', 'y':
				if len(p.Val) != 0 {
					t.Errorf("index entry %q has a value", p.Key)
				}
				have[string(p.Key)] = true
			default:
				t.Errorf("unknown engine key %q", p.Key)
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("scan engine: %v", err)
	}
	for k := range want {
		if !have[k] {
			t.Errorf("index entry %q is missing", k)
		}
	}
	for k := range have {
		if !want[k] {
			t.Errorf("index entry %q belongs to no record", k)
		}
	}
}

// wantIndex returns the index key that a record requires, or "" if none.
func wantIndex(t testing.TB, p engine.Pair) string {
	t.Helper()
	flags, rev := p.Val[0], binary.BigEndian.Uint64(p.Val[1:])
	due, prefix := uint64(0), byte(0)
	switch {
	case flags&2 != 0:
		prefix, due = 'y', rev/1000+1
		if flags&1 != 0 || len(bytes.TrimPrefix(p.Val, p.Val[:9])) > 8 {
			t.Errorf("tombstone %q has more than a revision: %x", p.Key, p.Val)
		}
	case flags&1 != 0:
		prefix, due = 'x', binary.BigEndian.Uint64(p.Val[9:])
	default:
		return ""
	}
	return fmt.Sprintf("%c%s%s", prefix, binary.BigEndian.AppendUint64(nil, due), p.Key[1:])
}
