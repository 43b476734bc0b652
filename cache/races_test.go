package cache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/engine"
)

// script is a feed that does what a test tells it.
type script struct {
	runs chan cache.Sink // one for each run
	ends chan error      // ends a run
}

func newScript() *script { return &script{make(chan cache.Sink), make(chan error)} }

func (f *script) Run(ctx context.Context, s cache.Sink) error {
	select {
	case f.runs <- s:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-f.ends:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gate is a source whose loads a test lets through one by one.
type gate struct {
	mu     sync.Mutex // guards values
	values map[string]string
	asked  chan []string // keys of a load that has read its values
	pass   chan struct{} // lets the load return
}

func newGate() *gate {
	return &gate{values: map[string]string{}, asked: make(chan []string), pass: make(chan struct{})}
}

func (g *gate) set(key, value string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.values[key] = value
}

func (g *gate) Load(ctx context.Context, keys []string) ([]cache.Entry, error) {
	entries := make([]cache.Entry, len(keys))
	g.mu.Lock()
	for i, key := range keys {
		v, ok := g.values[key]
		entries[i] = cache.Entry{Body: []byte(v), Type: "text/plain", Missing: !ok}
	}
	g.mu.Unlock()
	select {
	case g.asked <- keys:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-g.pass:
		return entries, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rig is a cache on a script and a gate.
type rig struct {
	t      *testing.T
	c      *cache.Cache
	feed   *script
	source *gate
	sink   cache.Sink
	close  func()
}

// inRig runs fn in a bubble with a cache whose feed has begun at position 1.
func inRig(t *testing.T, o cache.Options, fn func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, feed: newScript(), source: newGate()}
		o.Source, o.Feed = r.source, r.feed
		r.open(o)
		r.sink.Begin("h", 1, false)
		r.prove(1)
		fn(r)
		r.close()
	})
}

// open runs the cache until close, and waits for its feed to be run.
func (r *rig) open(o cache.Options) {
	r.t.Helper()
	var err error
	if r.c, err = cache.New(o); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error)
	go func() { ended <- r.c.Run(ctx) }()
	r.close = func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			r.t.Errorf("Run returned %v", err)
		}
	}
	r.sink = <-r.feed.runs
}

// prove makes the cache fresh.
func (r *rig) prove(pos cache.Position) { r.sink.Reached(pos, time.Now()) }

// read is the result of a Get in the background.
type read chan string

// get starts a read, and returns once it waits.
func (r *rig) get(key string, atLeast cache.Position) read {
	result := make(read, 1)
	go func() {
		e, err := r.c.Get(r.t.Context(), key, cache.Read{AtLeast: atLeast})
		if err != nil {
			result <- "error " + string(engine.CodeOf(err))
			return
		}
		result <- string(e.Body)
	}()
	synctest.Wait()
	return result
}

// expect fails unless the read has ended with want.
func (r *rig) expect(result read, want string) {
	r.t.Helper()
	synctest.Wait()
	select {
	case got := <-result:
		if got != want {
			r.t.Fatalf("a read returned %q, want %q", got, want)
		}
	default:
		r.t.Fatalf("a read that should return %q still waits", want)
	}
}

// waiting fails if the read has ended.
func (r *rig) waiting(result read) {
	r.t.Helper()
	synctest.Wait()
	if len(result) > 0 {
		r.t.Fatalf("a read that should wait returned %q", <-result)
	}
}

// cached fails unless the memory tier answers with want; "" is that it does not answer.
func (r *rig) cached(key, want string) {
	r.t.Helper()
	v, ok := r.c.Peek(nil, key, cache.Read{})
	if got := string(v.Body); ok != (want != "") || got != want {
		r.t.Fatalf("the memory tier has %q (%v), want %q", got, ok, want)
	}
}

// load lets one load of the source read, and returns its keys.
func (r *rig) load() []string {
	r.t.Helper()
	synctest.Wait()
	select {
	case keys := <-r.source.asked:
		return keys
	default:
		r.t.Fatal("nothing is loaded")
		return nil
	}
}

func (r *rig) idle() {
	r.t.Helper()
	synctest.Wait()
	select {
	case keys := <-r.source.asked:
		r.t.Fatalf("%q is loaded without need", keys)
	default:
	}
}

// TestForcedKeep: what nobody changes is loaded once for all readers, and kept.
func TestForcedKeep(t *testing.T) {
	t.Parallel()
	inRig(t, cache.Options{}, func(r *rig) {
		r.source.set("k", "v1")
		a, b := r.get("k", 0), r.get("k", 0)
		r.load()
		d := r.get("k", 0)
		r.source.pass <- struct{}{}
		for _, x := range []read{a, b, d} {
			r.expect(x, "v1")
		}
		r.cached("k", "v1")
		r.expect(r.get("k", 0), "v1")
		r.idle()
	})
}

// TestForcedChangeWhileLoading: a value that changes while it is loaded goes to those who asked before the
// change, is not kept, and later readers get the newer one.
func TestForcedChangeWhileLoading(t *testing.T) {
	t.Parallel()
	inRig(t, cache.Options{}, func(r *rig) {
		r.source.set("k", "old")
		a := r.get("k", 0)
		r.load()
		r.source.set("k", "new")
		r.sink.Changed("k")
		r.prove(2)
		b := r.get("k", 0)
		r.waiting(b)
		r.source.pass <- struct{}{}
		r.expect(a, "old")
		r.cached("k", "")
		r.load()
		r.source.pass <- struct{}{}
		r.expect(b, "new")
		r.cached("k", "new")
	})
}

// TestForcedChangeBeforeLoad: a load that has not read its value yet may be joined and kept.
func TestForcedChangeBeforeLoad(t *testing.T) {
	t.Parallel()
	inRig(t, cache.Options{Loads: 1}, func(r *rig) {
		r.source.set("other", "x")
		other := r.get("other", 0)
		r.load()
		r.source.set("k", "old")
		a := r.get("k", 0) // queued
		r.source.set("k", "new")
		r.sink.Changed("k")
		r.prove(2)
		b := r.get("k", 2)
		r.source.pass <- struct{}{}
		r.expect(other, "x")
		r.load()
		r.source.pass <- struct{}{}
		r.expect(a, "new")
		r.expect(b, "new")
		r.cached("k", "new")
	})
}

// TestForcedSecondChange: the second report of a change drops what was loaded after the first one, because
// that load may not have seen the change.
func TestForcedSecondChange(t *testing.T) {
	t.Parallel()
	inRig(t, cache.Options{}, func(r *rig) {
		r.source.set("k", "old")
		r.sink.Changed("k")
		a := r.get("k", 0)
		r.load()
		r.source.pass <- struct{}{}
		r.expect(a, "old") // as old as the proof allows
		r.source.set("k", "new")
		r.sink.Changed("k")
		r.prove(2)
		r.cached("k", "")
	})
}

// TestForcedOwnWrite: a reader waits for the position of its write, at most Options.Wait.
func TestForcedOwnWrite(t *testing.T) {
	t.Parallel()
	inRig(t, cache.Options{Wait: time.Second, Staleness: time.Minute}, func(r *rig) {
		r.source.set("k", "old")
		a := r.get("k", 0)
		r.load()
		r.source.pass <- struct{}{}
		r.expect(a, "old")
		r.source.set("k", "new")
		b := r.get("k", 5)
		r.waiting(b)
		r.sink.Changed("k")
		r.sink.Reached(4, time.Time{})
		r.waiting(b)
		r.sink.Reached(5, time.Time{})
		r.load()
		r.source.pass <- struct{}{}
		r.expect(b, "new")
		late := r.get("k", 6)
		time.Sleep(2 * time.Second)
		r.expect(late, "error position_timeout")
	})
}

// TestForcedSilence: without a proof for longer than Staleness, each read is answered by a load that began after
// it; the entries are still there when the proof comes.
func TestForcedSilence(t *testing.T) {
	t.Parallel()
	inRig(t, cache.Options{Staleness: time.Second}, func(r *rig) {
		r.source.set("k", "old")
		a := r.get("k", 0)
		r.load()
		r.source.pass <- struct{}{}
		r.expect(a, "old")
		time.Sleep(time.Second)
		r.cached("k", "old")
		time.Sleep(time.Nanosecond)
		r.cached("k", "")
		b := r.get("k", 0)
		r.load()
		r.source.set("k", "new") // the feed does not report it yet
		d, e := r.get("k", 0), r.get("k", 7)
		r.source.pass <- struct{}{}
		r.expect(b, "old")
		r.waiting(d)
		r.load()
		r.source.pass <- struct{}{}
		r.expect(d, "new")
		r.expect(e, "new")
		r.prove(2)
		r.cached("k", "new")
	})
}

// TestForcedLateProof: a proof counts from when the source was asked, and only from a feed that still runs.
func TestForcedLateProof(t *testing.T) {
	t.Parallel()
	inRig(t, cache.Options{Staleness: time.Second}, func(r *rig) {
		r.source.set("k", "old")
		a := r.get("k", 0)
		r.load()
		r.source.pass <- struct{}{}
		r.expect(a, "old")
		asked := time.Now()
		time.Sleep(900 * time.Millisecond)
		r.sink.Reached(1, asked)
		time.Sleep(200 * time.Millisecond)
		r.cached("k", "")
		r.sink.Reached(1, time.Now().Add(time.Hour)) // a proof from the future is one of now
		r.cached("k", "old")
		time.Sleep(1001 * time.Millisecond)
		r.cached("k", "")
		r.feed.ends <- errors.New("cut")
		late := r.sink
		r.sink = <-r.feed.runs
		late.Reached(1, time.Now())
		r.cached("k", "")
	})
}

// TestForcedGap: a feed that cannot say what changed empties the cache, and what is being loaded is not kept.
func TestForcedGap(t *testing.T) {
	t.Parallel()
	inRig(t, cache.Options{}, func(r *rig) {
		r.source.set("k", "old")
		a := r.get("k", 0)
		r.load()
		r.source.pass <- struct{}{}
		r.expect(a, "old")
		r.source.set("l", "old")
		b := r.get("l", 0)
		r.load()
		first := r.sink
		r.feed.ends <- errors.New("cut")
		r.sink = <-r.feed.runs
		history, pos := r.sink.Resume()
		if history != "h" || pos != 1 {
			t.Fatalf("Resume returned %q, %d", history, pos)
		}
		r.source.set("k", "new")
		r.source.set("l", "new")
		r.sink.Begin("h", 9, true) // not where the cache was
		r.source.pass <- struct{}{}
		r.expect(b, "old")
		first.Reached(10, time.Now()) // of a run that has ended
		r.cached("k", "")
		r.prove(9)
		r.cached("k", "")
		r.cached("l", "")
	})
}

// TestForcedResume: a feed that goes on where it was keeps the entries, and reports what changed meanwhile.
func TestForcedResume(t *testing.T) {
	t.Parallel()
	inRig(t, cache.Options{}, func(r *rig) {
		for _, k := range []string{"k", "l"} {
			r.source.set(k, "old")
			a := r.get(k, 0)
			r.load()
			r.source.pass <- struct{}{}
			r.expect(a, "old")
		}
		r.feed.ends <- errors.New("cut")
		r.sink = <-r.feed.runs
		r.source.set("k", "new")
		r.sink.Begin("h", 1, true)
		r.sink.Changed("k")
		r.prove(3)
		r.cached("k", "")
		r.cached("l", "old")
	})
}

// TestForcedFlush: Flush keeps a load that is under way from being kept.
func TestForcedFlush(t *testing.T) {
	t.Parallel()
	for name, flush := range map[string]func(*rig){
		"Flush":      func(r *rig) { r.c.Flush() },
		"ChangedAll": func(r *rig) { r.sink.ChangedAll("test") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inRig(t, cache.Options{}, func(r *rig) {
				r.source.set("k", "old")
				a := r.get("k", 0)
				r.load()
				flush(r)
				r.source.pass <- struct{}{}
				r.expect(a, "old")
				r.cached("k", "")
			})
		})
	}
}

// TestForcedLateAnswer: the answer of a source that took too long is not used, and holds its place until it comes.
func TestForcedLateAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang, asked := make(chan struct{}), 0
		c, err := cache.New(cache.Options{TTL: time.Hour, LoadTimeout: time.Second, Loads: 1, Queued: 1, Source: cache.Func(func(ctx context.Context, key string) (cache.Entry, error) {
			if asked++; asked == 1 {
				<-hang // deaf to ctx
			}
			return cache.Entry{Body: fmt.Append(nil, key, asked)}, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Get(t.Context(), "k", cache.Read{})
		if engine.CodeOf(err) != engine.CodeUnavailable {
			t.Fatalf("a source that hangs: %v", err)
		}
		result := make(chan string, 1)
		go func() {
			e, err := c.Get(t.Context(), "k", cache.Read{})
			result <- fmt.Sprint(string(e.Body), err)
		}()
		synctest.Wait()
		if _, err := c.Get(t.Context(), "l", cache.Read{}); engine.CodeOf(err) != engine.CodeQueueFull {
			t.Fatalf("one key more than may wait: %v", err)
		}
		close(hang)
		if got := <-result; got != "k2<nil>" {
			t.Fatalf("the next load returned %s", got)
		}
		c.Close()
	})
}

// TestForcedRestart: a cache that is opened again resumes its feed where the disk tier was, drops what has changed
// since, and has the rest. A feed that cannot resume empties it.
func TestForcedRestart(t *testing.T) {
	t.Parallel()
	for _, resumed := range []bool{true, false} {
		o := cache.Options{Dir: t.TempDir(), DiskBytes: 1 << 20, Identity: "test"}
		inRig(t, o, func(r *rig) {
			for _, k := range []string{"k", "l"} {
				r.source.set(k, "old")
				a := r.get(k, 0)
				r.load()
				r.source.pass <- struct{}{}
				r.expect(a, "old")
			}
			r.sink.Reached(7, time.Now())
		})
		synctest.Test(t, func(t *testing.T) {
			r := &rig{t: t, feed: newScript(), source: newGate()}
			o.Source, o.Feed = r.source, r.feed
			r.open(o)
			if history, pos := r.sink.Resume(); history != "h" || pos != 7 {
				t.Fatalf("Resume returned %q, %d", history, pos)
			}
			r.source.set("k", "new")
			r.source.set("l", "new")
			r.sink.Begin("h", 7, resumed)
			r.sink.Changed("k")
			r.prove(9)
			for key, want := range map[string]string{"k": "new", "l": map[bool]string{true: "old", false: "new"}[resumed]} {
				a := r.get(key, 0)
				if want == "new" {
					r.load()
					r.source.pass <- struct{}{}
				}
				r.expect(a, want)
				r.idle()
			}
			r.close()
		})
	}
}
