package feed_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/feed"
)

// TestResumeEdges resumes after every possible position: those no longer available, the
// oldest available, the newest, and the next one.
func TestResumeEdges(t *testing.T) {
	eng := open(t, testengine.Options{HistoryBytes: 200})
	f := start(t, eng, feed.Options{})
	var last engine.Position
	for range 30 {
		last = put(t, eng, "k")
	}
	if err := f.Wait(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	gone := 0
	for after := engine.Position(0); after <= last; after++ {
		s := subscribe(t, f, after, "")
		want := after + 1
		for ; want <= last; want++ {
			c, ok := next(t, s)
			if !ok && want == after+1 && errors.Is(s.Err(), engine.ErrTruncated) {
				if after > engine.Position(gone) {
					t.Fatalf("the changes after %d are gone, those after %d were kept", after, gone)
				}
				gone++
				break
			}
			if !ok || c.Pos != want {
				t.Fatalf("after %d: change %d, want %d (%v)", after, c.Pos, want, s.Err())
			}
		}
		if want > last && len(s.C) > 0 {
			t.Errorf("after %d more comes than there is", after)
		}
		s.Close()
	}
	if gone == 0 || gone >= int(last) {
		t.Errorf("%d of %d positions are gone: this tests no edge", gone, last)
	}
	if _, err := f.Subscribe(feed.Filter{Prefixes: [][]byte{nil}}, last+1); !errors.Is(err, engine.ErrTruncated) {
		t.Errorf("subscribe after the position that is next: %v", err)
	}
}

// TestBufferEdges fills a buffer completely, in changes and in bytes. Only what exceeds it
// ends the subscription. A heartbeat does not use the room of a change.
func TestBufferEdges(t *testing.T) {
	change := func(pos engine.Position, key string, bytes int) engine.Change {
		return engine.Change{Pos: pos, Time: time.UnixMicro(int64(pos)), Writes: []engine.Write{{Key: []byte(key), Val: []byte(strings.Repeat("v", bytes-len(key)))}}}
	}
	for name, o := range map[string]feed.Options{"changes": {Buffer: 3}, "bytes": {BufferBytes: 300}} {
		t.Run(name, func(t *testing.T) {
			f := create(t, open(t, testengine.Options{}), o)
			f.Begin()
			s := subscribe(t, f, 0, "k")
			feed.Deliver(f, change(1, "k", 100))
			feed.Deliver(f, change(2, "other", 100))
			f.Beat() // now it is quiet
			f.Beat()
			feed.Deliver(f, change(3, "k", 100))
			feed.Deliver(f, change(4, "k", 100))
			wantNext(t, s, 1, "k")
			feed.Deliver(f, change(5, "k", 100))
			if len(s.C) != 3 || s.Err() != nil {
				t.Fatalf("%d changes are in the buffer (%v), 3 fit", len(s.C), s.Err())
			}
			feed.Deliver(f, change(6, "k", 1))
			for _, pos := range []engine.Position{3, 4, 5} {
				wantNext(t, s, pos, "k")
			}
			wantEnd(t, s, engine.ErrTruncated)
		})
	}
}

// TestTailWithoutPosition checks that between the loss of the tail's position and its
// restart no subscription joins it at the old position, because the changes in between
// would be missing.
func TestTailWithoutPosition(t *testing.T) {
	eng := open(t, testengine.Options{})
	f := create(t, eng, feed.Options{Heartbeat: time.Hour})
	for range 5 {
		put(t, eng, "k")
	}
	f.BeginAt(3)
	f.CutAll()
	s := subscribe(t, f, 3, "")
	f.BeginAt(5)
	wantNext(t, s, 4, "k")
	wantNext(t, s, 5, "k")
}

// TestAheadWithoutLeader checks that a subscription can begin at a position that this node
// has committed even while reads fail, as in a cluster without a leader.
func TestAheadWithoutLeader(t *testing.T) {
	eng := open(t, testengine.Options{})
	p, ok := eng.(engine.Positioner)
	if !ok {
		t.Skip("the engine does not report what this node has committed")
	}
	f := create(t, leaderless{eng, p}, feed.Options{})
	f.Begin()
	last := put(t, eng, "k")
	subscribe(t, f, last, "")
	if _, err := f.Subscribe(feed.Filter{Prefixes: [][]byte{nil}}, last+1); !errors.Is(err, engine.ErrNotLeader) {
		t.Errorf("subscribe after a position that this node does not know: %v", err)
	}
}

// leaderless is an engine that does not know what others have committed.
type leaderless struct {
	engine.Engine
	engine.Positioner
}

func (leaderless) View(context.Context, engine.Read, func(engine.Tx) error) (engine.Position, error) {
	return 0, engine.ErrNotLeader
}

// TestLongReplayTellsAgain checks that a long replay without a match reports its position
// more than once.
func TestLongReplayTellsAgain(t *testing.T) {
	eng := open(t, testengine.Options{})
	_, err := engine.UpdateEach(t.Context(), eng, 10_000, func(tx engine.Tx, _ int) error { return tx.Put([]byte("other"), nil) })
	if err != nil {
		t.Fatal(err)
	}
	s := subscribe(t, create(t, eng, feed.Options{Heartbeat: time.Hour}), 0, "quiet") // no tail is running that it could join
	for _, want := range []engine.Position{4096, 8192} {
		select {
		case c := <-s.C:
			if c.Pos != want || len(c.Writes) > 0 {
				t.Errorf("got %+v, want a heartbeat of %d", c, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no heartbeat of %d", want)
		}
	}
}

// TestWaitLeavesNothing checks that calls of Wait that gave up no longer count.
func TestWaitLeavesNothing(t *testing.T) {
	f := create(t, open(t, testengine.Options{}), feed.Options{})
	f.Begin()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for pos := range engine.Position(3) {
		if err := f.Wait(ctx, pos+1); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled wait: %v", err)
		}
	}
	if n := f.Waiting(); n != 0 {
		t.Errorf("%d calls still count as waiting", n)
	}
}
