package kv_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/kv"
)

// TestWatchFallsBehind forces every order of five writes and five steps of a watcher whose
// subscription has room for one change. Wherever it falls behind the tail, it continues
// from the history, joins the tail again, and yields every event exactly once.
func TestWatchFallsBehind(t *testing.T) {
	const writes = 5
	eng := openEngine(t, newClock())
	f := follow(t, eng, feed.Options{Buffer: 1})
	s, err := kv.New(eng, kv.Options{Feed: f})
	if err != nil {
		t.Fatal(err)
	}
	for order := range uint(1 << (2 * writes)) {
		if bits.OnesCount(order) != writes {
			continue
		}
		watched(t, s, f, order)
	}
}

// watched runs one order, in which a set bit is a write and a clear bit waits for an event,
// and then reads the rest.
func watched(t *testing.T, s *kv.Store, f *feed.Feed, order uint) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	written, read := 0, 0
	write := func() {
		_, pos, err := s.Set(ctx, 0, fmt.Appendf(nil, "%d", written), nil, kv.SetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Wait(ctx, pos); err != nil {
			t.Fatal(err)
		}
		written++
	}
	pos := f.Position()
	next, stop := iter.Pull2(s.Watch(ctx, 0, nil, pos))
	defer stop()
	step := func() {
		e, err, ok := next()
		if !ok || err != nil || string(e.Key) != fmt.Sprint(read) {
			t.Fatalf("order %b: event %d is %q (%v)", order, read, e.Key, err)
		}
		read++
	}
	for rest := order; rest > 0 || read < written; rest >>= 1 {
		if rest&1 == 1 {
			write()
		} else if read < written {
			step()
		}
	}
	write() // no event comes twice at the end
	step()
}

// TestWatchTruncated checks that a watcher that stops reading until the history it needs is
// gone gets ErrTruncated after the events that were buffered for it.
func TestWatchTruncated(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{HistoryBytes: 200})
	f := follow(t, eng, feed.Options{Buffer: 2})
	s, err := kv.New(eng, kv.Options{Feed: f})
	if err != nil {
		t.Fatal(err)
	}
	set(t, s, "0", "", kv.SetOptions{})
	events := 0
	for e, err := range s.Watch(t.Context(), 0, nil, 0) {
		if err != nil {
			if !errors.Is(err, engine.ErrTruncated) || events > 4 {
				t.Errorf("after %d events: %v", events, err)
			}
			return
		}
		if string(e.Key) != fmt.Sprint(events) {
			t.Fatalf("event %d is of %q", events, e.Key)
		}
		if events++; events > 1 {
			continue
		}
		for i := range 30 {
			_, pos, err := s.Set(t.Context(), 0, fmt.Append(nil, i+1), nil, kv.SetOptions{})
			if err = errors.Join(err, f.Wait(t.Context(), pos)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Error("the watch ended without an error")
}

// TestWatchEndsWithFeed checks that a watch ends with ErrClosed when the feed does.
func TestWatchEndsWithFeed(t *testing.T) {
	eng := openEngine(t, newClock())
	f, err := feed.New(eng, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := kv.New(eng, kv.Options{Feed: f})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Run(context.Background()) }()
	set(t, s, "k", "", kv.SetOptions{})
	for e, err := range s.Watch(t.Context(), 0, nil, 0) {
		if e.Pos == 1 {
			if err := eng.Close(); err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if err := <-ended; !errors.Is(err, engine.ErrClosed) {
		t.Error(err)
	}
}
