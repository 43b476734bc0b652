package feed_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/feed"
)

// open returns a fresh engine, which is closed when the test ends.
func open(t testing.TB, o testengine.Options) engine.Engine {
	t.Helper()
	return testengine.Open(t, o)
}

// start runs a feed on eng. When the test ends, the feed is stopped and must not leave a
// goroutine behind.
func start(t testing.TB, eng engine.Engine, o feed.Options) *feed.Feed {
	t.Helper()
	f := create(t, eng, o)
	run(t, f)
	return f
}

func create(t testing.TB, eng engine.Engine, o feed.Options) *feed.Feed {
	t.Helper()
	f, err := feed.New(eng, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// run runs f until the test ends, or until the function that it returns is called.
func run(t testing.TB, f *feed.Feed) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, engine.ErrClosed) {
			t.Errorf("run: %v", err)
		}
		noGoroutines(t)
	})
	t.Cleanup(stop)
	if err := f.Wait(ctx, 0); err != nil {
		t.Fatal(err)
	}
	return stop
}

// noGoroutines fails if a goroutine is running a method of this package.
func noGoroutines(t testing.TB) {
	t.Helper()
	buf := make([]byte, 1<<20)
	if !eventually.Within(time.Second, func() bool {
		stacks := string(buf[:runtime.Stack(buf, true)])
		return !strings.Contains(stacks, "feed.(*Feed).") && !strings.Contains(stacks, "feed.(*Sub).")
	}) {
		t.Errorf("goroutines are left:\n%s", buf[:runtime.Stack(buf, true)])
	}
}

// put commits the keys as one transaction.
func put(t testing.TB, eng engine.Engine, keys ...string) engine.Position {
	t.Helper()
	pos, err := eng.Update(context.Background(), func(tx engine.Tx) error {
		for _, k := range keys {
			if err := tx.Put([]byte(k), []byte("v")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	return pos
}

func subscribe(t testing.TB, f *feed.Feed, after engine.Position, prefixes ...string) *feed.Sub {
	t.Helper()
	var fi feed.Filter
	for _, p := range prefixes {
		fi.Prefixes = append(fi.Prefixes, []byte(p))
	}
	s, err := f.Subscribe(fi, after)
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// next returns the next change that is not a heartbeat. ok is false once C is closed.
func next(t testing.TB, s *feed.Sub) (c engine.Change, ok bool) {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		select {
		case c, ok := <-s.C:
			if !ok || len(c.Writes) > 0 {
				return c, ok
			}
		case <-late:
			t.Fatal("nothing comes")
		}
	}
}

// wantNext fails unless the next change is at pos and has exactly these keys.
func wantNext(t testing.TB, s *feed.Sub, pos engine.Position, keys ...string) {
	t.Helper()
	c, ok := next(t, s)
	if !ok {
		t.Fatalf("the subscription ended before position %d: %v", pos, s.Err())
	}
	have := map[string]bool{}
	for _, w := range c.Writes {
		have[string(w.Key)] = true
	}
	good := c.Pos == pos && len(c.Writes) == len(keys)
	for _, k := range keys {
		good = good && have[k]
	}
	if !good {
		t.Errorf("got position %d with %+v, want %d with %q", c.Pos, c.Writes, pos, keys)
	}
}

// wantEnd fails unless the subscription has ended with err.
func wantEnd(t testing.TB, s *feed.Sub, err error) {
	t.Helper()
	if c, ok := next(t, s); ok {
		t.Errorf("got %+v, want the end", c)
	} else if !errors.Is(s.Err(), err) || err == nil && s.Err() != nil {
		t.Errorf("ended with %v, want %v", s.Err(), err)
	}
}

// stepped is an engine whose readers of changes advance only on demand.
type stepped struct {
	engine.Engine
	readers chan *reader // one per call of Changes
}

// reader is one call of Changes.
type reader struct {
	step  chan struct{} // each token releases one change
	after chan bool     // the change was handled; false: the reader wants no more
	over  bool
}

// next lets the reader handle one change and waits until it has.
func (r *reader) next() {
	if r.over {
		return
	}
	r.step <- struct{}{}
	r.over = !<-r.after
}

func (e *stepped) Changes(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
	return func(yield func(engine.Change, error) bool) {
		r := &reader{step: make(chan struct{}), after: make(chan bool, 1)}
		e.readers <- r
		for c, err := range e.Engine.Changes(ctx, after) {
			select {
			case <-r.step:
			case <-ctx.Done():
				return
			}
			more := yield(c, err)
			r.after <- more
			if !more {
				return
			}
		}
	}
}

// faulty is an engine whose Changes fail with err once after some changes, and which has no
// changes up to position floor.
type faulty struct {
	engine.Engine
	mu    sync.Mutex
	n     int
	err   error
	floor engine.Position
}

func (e *faulty) truncate(floor engine.Position) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.floor = floor
}

func (e *faulty) fail(n int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n, e.err = n, err
}

func (e *faulty) due(after engine.Position) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if after < e.floor {
		return engine.ErrTruncated
	}
	if e.err == nil || e.n > 0 {
		e.n--
		return nil
	}
	err := e.err
	e.err = nil
	return err
}

func (e *faulty) Changes(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
	return func(yield func(engine.Change, error) bool) {
		for c, err := range e.Engine.Changes(ctx, after) {
			if bad := e.due(after); bad != nil {
				yield(engine.Change{}, bad)
				return
			}
			if !yield(c, err) {
				return
			}
		}
	}
}
