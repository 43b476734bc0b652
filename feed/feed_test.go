package feed_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/feed"
)

func TestPrefixes(t *testing.T) {
	eng := open(t, testengine.Options{})
	f := start(t, eng, feed.Options{})
	all := subscribe(t, f, 0, "")
	a := subscribe(t, f, 0, "a/")
	both := subscribe(t, f, 0, "b", "a/1", "a/", "a/", "")
	two := subscribe(t, f, 0, "b", "a/1", "a/")
	one := subscribe(t, f, 0, "a/1/long")
	gone := subscribe(t, f, 0, "a/")
	gone.Close()
	p1 := put(t, eng, "a/1", "a/2", "b", "c", "a")
	p2 := put(t, eng, "c")
	p3 := put(t, eng, "a/1/long")
	for _, s := range []*feed.Sub{all, both} {
		wantNext(t, s, p1, "a/1", "a/2", "b", "c", "a")
		wantNext(t, s, p2, "c")
		wantNext(t, s, p3, "a/1/long")
	}
	wantNext(t, a, p1, "a/1", "a/2")
	wantNext(t, a, p3, "a/1/long")
	wantNext(t, two, p1, "a/1", "a/2", "b")
	wantNext(t, two, p3, "a/1/long")
	wantNext(t, one, p3, "a/1/long")
	wantEnd(t, gone, nil)
	// The same from a replay.
	old := subscribe(t, f, 0, "b", "a/1", "a/")
	wantNext(t, old, p1, "a/1", "a/2", "b")
	wantNext(t, old, p3, "a/1/long")
	late := subscribe(t, f, f.Position(), "")
	wantNext(t, late, put(t, eng, "new"), "new")
}

func TestBadInput(t *testing.T) {
	eng := open(t, testengine.Options{})
	for _, o := range []feed.Options{{Buffer: -1}, {BufferBytes: -1}, {Heartbeat: -1}} {
		if _, err := feed.New(eng, o); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("options %+v: %v", o, err)
		}
	}
	if _, err := feed.New(eng, feed.Options{Buffer: feed.MaxBuffer + 1}); !errors.Is(err, engine.ErrLimit) {
		t.Errorf("buffer over the limit: %v", err)
	}
	f := start(t, eng, feed.Options{})
	if _, err := f.Subscribe(feed.Filter{}, 0); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("no prefix: %v", err)
	}
	if _, err := f.Subscribe(feed.Filter{Prefixes: make([][]byte, feed.MaxPrefixes+1)}, 0); !errors.Is(err, engine.ErrLimit) {
		t.Errorf("too many prefixes: %v", err)
	}
	every := feed.Filter{Prefixes: [][]byte{nil}}
	if _, err := f.Subscribe(every, put(t, eng, "k")+100); !errors.Is(err, engine.ErrTruncated) {
		t.Errorf("a position of another history: %v", err)
	}
	leave := f.Crowd(max(feed.MaxSubs, feed.MaxWaiters))
	if _, err := f.Subscribe(every, 0); !errors.Is(err, engine.ErrLimit) {
		t.Errorf("too many subscriptions: %v", err)
	}
	if err := f.Wait(t.Context(), 1000); !errors.Is(err, engine.ErrLimit) {
		t.Errorf("too many waits: %v", err)
	}
	leave()
	if err := f.Run(t.Context()); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("second run: %v", err)
	}
}

// noFeed is an engine without a change feed.
type noFeed struct{ engine.Engine }

func (noFeed) Promises() engine.Promises { return engine.Promises{} }

func TestNeedsFeed(t *testing.T) {
	if _, err := feed.New(noFeed{}, feed.Options{}); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

// TestSlow checks that a subscriber that does not read is cut off when its buffer is full,
// and that nobody else is affected.
func TestSlow(t *testing.T) {
	eng := open(t, testengine.Options{})
	f := start(t, eng, feed.Options{Buffer: 4, Heartbeat: time.Millisecond})
	slow := subscribe(t, f, 0, "")
	other := subscribe(t, f, 0, "other")
	var pos []engine.Position
	for i := range 10 {
		pos = append(pos, put(t, eng, fmt.Sprint("k", i)))
		if err := f.Wait(t.Context(), pos[i]); err != nil {
			t.Fatal(err)
		}
	}
	wantNext(t, other, put(t, eng, "other"), "other")
	for i := range 4 {
		wantNext(t, slow, pos[i], fmt.Sprint("k", i))
	}
	wantEnd(t, slow, engine.ErrTruncated)
	slow.Close()
	if !errors.Is(slow.Err(), engine.ErrTruncated) {
		t.Errorf("after Close: %v", slow.Err())
	}
	// It resumes at its position without a gap while the history is available.
	again := subscribe(t, f, pos[3], "k")
	for i := 4; i < 10; i++ {
		wantNext(t, again, pos[i], fmt.Sprint("k", i))
	}
}

func TestSlowInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // with a fake clock
		eng := open(t, testengine.Options{})
		f := start(t, eng, feed.Options{BufferBytes: 100})
		s := subscribe(t, f, 0, "")
		large := strings.Repeat("k", 200)
		for range 3 { // one always fits
			wantNext(t, s, put(t, eng, large), large)
		}
		first := put(t, eng, strings.Repeat("a", 60))
		last := put(t, eng, strings.Repeat("b", 60))
		if err := f.Wait(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		wantNext(t, s, first, strings.Repeat("a", 60))
		wantEnd(t, s, engine.ErrTruncated)
		// A replay waits instead.
		r := subscribe(t, f, 0, "a", "b", "k")
		for range 30 { // the replay checks for room every millisecond
			time.Sleep(time.Millisecond)
			if n := len(r.C); n > 1 {
				t.Fatalf("%d changes of 200 bytes are in a buffer of 100", n)
			}
		}
		for pos := engine.Position(1); pos <= last; pos++ {
			if c, ok := next(t, r); !ok || c.Pos != pos {
				t.Fatalf("replay: position %d, want %d (%v)", c.Pos, pos, r.Err())
			}
		}
	})
}

// TestRoom checks that reading frees room, however much came before.
func TestRoom(t *testing.T) {
	eng := open(t, testengine.Options{})
	f := start(t, eng, feed.Options{BufferBytes: 200})
	s := subscribe(t, f, 0, "")
	key := strings.Repeat("k", 60)
	first := put(t, eng, key)
	for i := range engine.Position(50) {
		if err := f.Wait(t.Context(), put(t, eng, key)); err != nil {
			t.Fatal(err)
		}
		wantNext(t, s, first+i, key)
	}
}

func TestTruncatedHistory(t *testing.T) {
	eng := open(t, testengine.Options{HistoryBytes: 1})
	for range 5 {
		put(t, eng, "k")
	}
	f := start(t, eng, feed.Options{})
	wantEnd(t, subscribe(t, f, 1, ""), engine.ErrTruncated)
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // with a fake clock
		eng := open(t, testengine.Options{})
		f := start(t, eng, feed.Options{Heartbeat: time.Millisecond})
		quiet := subscribe(t, f, 0, "quiet")
		for range 3 {
			want := put(t, eng, "other")
			for got := engine.Position(0); got < want; {
				select {
				case c := <-quiet.C:
					if len(c.Writes) > 0 || c.Pos <= got || c.Time.IsZero() {
						t.Fatalf("got %+v after position %d", c, got)
					}
					got = c.Pos
				case <-time.After(10 * time.Second):
					t.Fatalf("no heartbeat of position %d", want)
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
		select {
		case c := <-quiet.C:
			t.Errorf("a heartbeat without a new position: %+v", c)
		default:
		}
		// A replay that ends with changes outside the filter gets their position from the
		// tail.
		last := put(t, eng, "other")
		if err := f.Wait(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		if c := <-subscribe(t, f, 0, "quiet").C; c.Pos != last || len(c.Writes) > 0 {
			t.Errorf("after a replay: %+v, want position %d", c, last)
		}
		// A long replay without a match reports its position, too.
		_, err := engine.UpdateEach(t.Context(), eng, 10_000, func(tx engine.Tx, _ int) error { return tx.Put([]byte("other"), nil) })
		if err != nil {
			t.Fatal(err)
		}
		g := create(t, eng, feed.Options{Heartbeat: time.Hour})
		if c := <-subscribe(t, g, 0, "quiet").C; c.Pos == 0 || len(c.Writes) > 0 {
			t.Errorf("replay: %+v", c)
		}
	})
}

// TestHeartbeatAfterEvent checks that a subscriber that received a change later gets the
// position of what followed.
func TestHeartbeatAfterEvent(t *testing.T) {
	eng := open(t, testengine.Options{})
	f := start(t, eng, feed.Options{Heartbeat: 30 * time.Millisecond})
	s := subscribe(t, f, 0, "quiet")
	wantNext(t, s, put(t, eng, "quiet"), "quiet")
	last := put(t, eng, "other")
	for c := range s.C {
		if c.Pos >= last {
			break
		}
	}
}

func TestWait(t *testing.T) {
	eng := open(t, testengine.Options{})
	f := create(t, eng, feed.Options{})
	before := make(chan error, 1)
	go func() { before <- f.Wait(context.Background(), 0) }()
	stop := run(t, f)
	if err := <-before; err != nil {
		t.Errorf("wait before Run: %v", err)
	}
	if err := f.Wait(t.Context(), put(t, eng, "k")); err != nil {
		t.Errorf("wait: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := f.Wait(ctx, 100); !errors.Is(err, engine.ErrPositionTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait past its deadline: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := f.Wait(ctx, 100); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled wait: %v", err)
	}
	results := make(chan engine.Position, 10)
	for _, p := range []engine.Position{4, 2, 3, 5, 3} {
		go func() {
			if err := f.Wait(context.Background(), p); err == nil {
				results <- p
			}
		}()
	}
	for want := engine.Position(2); want <= 5; want++ {
		put(t, eng, "k")
		got := <-results
		if want == 3 {
			got = min(got, <-results)
		}
		if got != want {
			t.Errorf("position %d released the wait for %d", want, got)
		}
	}
	go func() { before <- f.Wait(context.Background(), 100) }()
	stop()
	if err := <-before; !errors.Is(err, engine.ErrClosed) {
		t.Errorf("wait at the end: %v", err)
	}
	if err := f.Wait(t.Context(), 100); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("wait after the end: %v", err)
	}
}

func TestEnd(t *testing.T) {
	eng := open(t, testengine.Options{})
	put(t, eng, "k")
	f := create(t, eng, feed.Options{Buffer: 1})
	early := subscribe(t, f, 0, "") // before Run: it follows the engine itself
	wantNext(t, early, 1, "k")
	stop := run(t, f)
	live := subscribe(t, f, f.Position(), "")
	var last engine.Position
	for range 3 {
		last = put(t, eng, "k")
	}
	if err := f.Wait(t.Context(), last); err != nil { // otherwise it could join before them
		t.Fatal(err)
	}
	stuck := subscribe(t, f, 0, "") // a replay that nobody reads
	stop()
	for _, s := range []*feed.Sub{early, live, stuck} {
		for range s.C { // buffered changes
			continue
		}
		if s.Err() == nil {
			t.Error("a subscription has no reason for its end")
		}
	}
	if !errors.Is(stuck.Err(), engine.ErrClosed) {
		t.Errorf("replay ended with %v", stuck.Err())
	}
	if _, err := f.Subscribe(feed.Filter{Prefixes: [][]byte{nil}}, 0); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("subscribe after the end: %v", err)
	}
	for range 3 {
		stuck.Close()
	}
}

func TestEngineCloses(t *testing.T) {
	eng, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	f := create(t, eng, feed.Options{})
	ended := make(chan error)
	go func() { ended <- f.Run(t.Context()) }()
	if err := f.Wait(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	s := subscribe(t, f, 0, "")
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, engine.ErrClosed) {
		t.Errorf("run: %v", err)
	}
	wantEnd(t, s, engine.ErrClosed)
	noGoroutines(t)
}

// TestTailFails checks that a temporary error leaves no gap. A tail that fell behind the
// history cuts off all subscriptions and starts over.
func TestTailFails(t *testing.T) {
	eng := &faulty{Engine: open(t, testengine.Options{})}
	f := start(t, eng, feed.Options{})
	s := subscribe(t, f, 0, "")
	wantNext(t, s, put(t, eng, "a"), "a")
	eng.fail(1, engine.ErrNotLeader)
	wantNext(t, s, put(t, eng, "b"), "b")
	wantNext(t, s, put(t, eng, "c"), "c")
	wantNext(t, s, put(t, eng, "d"), "d")
	eng.fail(0, engine.ErrNotLeader)
	eng.truncate(5)
	last := put(t, eng, "e")
	wantEnd(t, s, engine.ErrTruncated)
	if err := f.Wait(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	again := subscribe(t, f, f.Position(), "")
	wantNext(t, again, put(t, eng, "f"), "f")
}
