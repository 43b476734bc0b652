package embedded

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
)

// gate is a committer that waits for the test to set the outcome of each batch, so that
// tests decide what happens while a batch is being committed.
type gate struct {
	begun chan *batch
	let   chan error

	mu   sync.Mutex // guards snap
	snap *snapshot
}

func (g *gate) commit(b *batch) error {
	if b.empty() {
		return nil
	}
	g.begun <- b
	return <-g.let
}

func (g *gate) admit() error        { return nil }
func (g *gate) gathers(*batch) bool { return false }
func (g *gate) seal(*batch)         {}
func (g *gate) waits() bool         { return true }

func (g *gate) current() *snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.snap
}

func (g *gate) show(s *snapshot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.snap = s
}

func gated(t *testing.T, o Options) (*executor, *gate) {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{
		begun: make(chan *batch), let: make(chan error),
		snap: &snapshot{},
	}
	t.Cleanup(func() { close(g.begun) }) // which ends pass
	x := newExecutor(o, g, &snapshot{tree: btree.NewPairs()})
	x.overtake, x.record, x.visible, x.show, x.fail = func(*batch) {}, func(*batch) {}, g.current, g.show, func(error) {}
	return x, g
}

// start runs fn through x in the background.
func start(ctx context.Context, x *executor, fn func(engine.Tx) error) <-chan error {
	out := make(chan error, 1)
	go func() {
		c := x.take()
		c.one = fn
		err := x.do(ctx, c)
		if err == nil {
			err = c.err
		}
		out <- err
	}()
	return out
}

func putting(key, val string) func(engine.Tx) error {
	return func(tx engine.Tx) error { return tx.Put([]byte(key), []byte(val)) }
}

// settled fails the test if done is false once everything in the bubble waits.
func settled(t *testing.T, x *executor, done func() bool) {
	t.Helper()
	synctest.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	if !done() {
		t.Fatal("the executor waits, and is not where the test needs it")
	}
}

func pending(t *testing.T, what string, c <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-c:
		t.Fatalf("%s was answered (%v) too early", what, err)
	default:
	}
}

// TestReadersOfSpeculationWait: a call that wrote nothing, or failed, returns only when
// what it saw is durable.
func TestReadersOfSpeculationWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, g := gated(t, Options{})
		write := start(t.Context(), x, putting("k", "1"))
		<-g.begun
		errMine := errors.New("mine")
		var saw string
		read := start(t.Context(), x, func(tx engine.Tx) error {
			val, _, err := tx.Get([]byte("k"))
			saw = string(val)
			return err
		})
		fail := start(t.Context(), x, func(engine.Tx) error { return errMine })
		settled(t, x, func() bool { return !x.running && len(x.open.calls) == 2 })
		pending(t, "the write", write)
		pending(t, "the read", read)
		pending(t, "the failing call", fail)
		g.let <- nil
		if err := errors.Join(<-write, <-read); err != nil || saw != "1" {
			t.Errorf("err %v, read %q", err, saw)
		}
		if err := <-fail; err != errMine {
			t.Errorf("the function's own error came back as %v", err)
		}
		x.close(engine.ErrClosed)
	})
}

// TestLostBatch: when the disk refuses a batch, all that was built on it is
// refused too, and what comes after starts from the committed state.
func TestLostBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, g := gated(t, Options{})
		first := start(t.Context(), x, putting("a", "1"))
		<-g.begun
		second := start(t.Context(), x, putting("b", "2"))
		settled(t, x, func() bool { return !x.running && len(x.open.calls) == 1 })
		g.let <- engine.ErrDiskFull
		for _, c := range []<-chan error{first, second} {
			if err := <-c; !errors.Is(err, engine.ErrDiskFull) || !engine.Retryable(err) {
				t.Errorf("lost call: %v", err)
			}
		}
		third := start(t.Context(), x, func(tx engine.Tx) error {
			for _, k := range []string{"a", "b"} {
				if _, ok, _ := tx.Get([]byte(k)); ok {
					t.Errorf("%s of a lost batch is still there", k)
				}
			}
			return tx.Put([]byte("c"), nil)
		})
		b := <-g.begun
		if b.base != 0 || b.last != 1 {
			t.Errorf("the batch after the lost ones holds positions %d–%d, want 1", b.base+1, b.last)
		}
		g.let <- nil
		if err := <-third; err != nil {
			t.Error(err)
		}
		x.close(engine.ErrClosed)
	})
}

// TestLostBatchWhileRunning: the batch is lost while a transaction runs; that
// transaction, though it began on the lost state, must not be committed.
func TestLostBatchWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, g := gated(t, Options{})
		first := start(t.Context(), x, putting("a", "1"))
		<-g.begun
		inside, goOn := make(chan struct{}), make(chan struct{})
		second := start(t.Context(), x, func(tx engine.Tx) error {
			close(inside)
			<-goOn
			return tx.Put([]byte("b"), []byte("2"))
		})
		<-inside
		g.let <- engine.ErrDiskFull
		if err := <-first; !errors.Is(err, engine.ErrDiskFull) {
			t.Fatal(err)
		}
		settled(t, x, func() bool { return x.broken != nil })
		close(goOn)
		if err := <-second; !errors.Is(err, engine.ErrDiskFull) {
			t.Errorf("a transaction built on a lost batch: %v", err)
		}
		if n := g.current().tree.Len(); n != 0 {
			t.Errorf("%d keys were published", n)
		}
		x.close(engine.ErrClosed)
	})
}

// TestDiskFailureStops: after any other disk error the outcome is unknown for
// what was being written, and nothing more is accepted.
func TestDiskFailureStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, g := gated(t, Options{})
		var stopped error
		x.fail = func(err error) { stopped = err }
		first := start(t.Context(), x, putting("a", "1"))
		<-g.begun
		second := start(t.Context(), x, putting("b", "2"))
		settled(t, x, func() bool { return !x.running && len(x.open.calls) == 1 })
		broken := errors.New("input/output error")
		g.let <- broken
		if err := <-first; !errors.Is(err, engine.ErrOutcomeUnknown) || !errors.Is(err, broken) {
			t.Errorf("the call being written: %v", err)
		}
		if err := <-second; !errors.Is(err, engine.ErrStopped) {
			t.Errorf("the call behind it: %v", err)
		}
		if err := <-start(t.Context(), x, putting("c", "3")); !errors.Is(err, engine.ErrStopped) {
			t.Errorf("a later call: %v", err)
		}
		if stopped == nil {
			t.Error("the executor did not stop the node")
		}
		x.close(engine.ErrClosed)
	})
}

func TestQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, g := gated(t, Options{QueueCalls: 2})
		inside, goOn := make(chan struct{}), make(chan struct{})
		first := start(t.Context(), x, func(engine.Tx) error { close(inside); <-goOn; return nil })
		<-inside
		second := start(t.Context(), x, putting("a", "1"))
		third := start(t.Context(), x, putting("b", "2"))
		settled(t, x, func() bool { return len(x.queue) == 2 })
		if err := <-start(t.Context(), x, putting("c", "3")); !errors.Is(err, engine.ErrQueueFull) || !engine.Retryable(err) {
			t.Errorf("one call too many: %v", err)
		}
		close(goOn)
		b := <-g.begun
		if b.last != 2 {
			t.Errorf("batch ends at %d, want 2", b.last)
		}
		g.let <- nil
		if err := errors.Join(<-first, <-second, <-third); err != nil {
			t.Error(err)
		}
		x.close(engine.ErrClosed)
	})
}

// TestYield: after a batch of several callers the runner lets them call again before it
// commits, once; after a batch of one caller it does not.
func TestYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x *executor
		var late <-chan error
		yields, calls := 0, 0
		yield := func() {
			if yields++; calls > 0 {
				calls--
				late = start(t.Context(), x, putting("late", "1"))
			}
			synctest.Wait()
		}
		x, g := gated(t, Options{yield: yield})
		commits := func(batch string, callers, yielded int) {
			t.Helper()
			if b := <-g.begun; len(b.calls) != callers || yields != yielded {
				t.Errorf("%s: %d callers, %d yields, want %d and %d", batch, len(b.calls), yields, callers, yielded)
			}
			g.let <- nil
		}
		inside, goOn := make(chan struct{}), make(chan struct{})
		first := start(t.Context(), x, func(engine.Tx) error { close(inside); <-goOn; return nil })
		<-inside
		second, third := start(t.Context(), x, putting("a", "1")), start(t.Context(), x, putting("b", "1"))
		settled(t, x, func() bool { return len(x.queue) == 2 })
		close(goOn)
		commits("two calls", 2, 0)
		err := errors.Join(<-first, <-second, <-third)
		calls = 1
		third = start(t.Context(), x, putting("a", "2"))
		commits("with one that comes at the yield", 2, 1)
		err = errors.Join(err, <-third, <-late)
		third = start(t.Context(), x, putting("a", "3"))
		commits("nobody comes", 1, 2)
		err = errors.Join(err, <-third)
		third = start(t.Context(), x, putting("a", "4"))
		commits("after one caller", 1, 2)
		if err = errors.Join(err, <-third); err != nil {
			t.Error(err)
		}
		x.close(engine.ErrClosed)
	})
}

// TestCancel: a call that has not run never runs; one that is being committed
// has an unknown outcome.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, g := gated(t, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		inside, goOn := make(chan struct{}), make(chan struct{})
		first := start(t.Context(), x, func(tx engine.Tx) error { close(inside); <-goOn; return nil })
		<-inside
		ran := false
		second := start(ctx, x, func(engine.Tx) error { ran = true; return nil })
		settled(t, x, func() bool { return len(x.queue) == 1 })
		cancel()
		if err := <-second; err != context.Canceled {
			t.Errorf("cancelled while queued: %v", err)
		}
		close(goOn)
		if err := <-first; err != nil || ran {
			t.Errorf("err %v, the cancelled call ran: %v", err, ran)
		}
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		inline := start(t.Context(), x, putting("a", "1"))
		<-g.begun
		third := start(ctx, x, putting("b", "2"))
		settled(t, x, func() bool { return !x.running && len(x.open.calls) == 1 })
		cancel()
		if err := <-third; !errors.Is(err, engine.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled while committing: %v", err)
		}
		g.let <- nil
		<-g.begun
		g.let <- nil
		if err := <-inline; err != nil {
			t.Error(err)
		}
		x.close(engine.ErrClosed)
	})
}

// TestCancelWhileRunning: the call does not return while its function, which
// another goroutine runs, still uses what belongs to the caller.
func TestCancelWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, g := gated(t, Options{})
		go g.pass()
		hold, goOn := make(chan struct{}), make(chan struct{})
		first := start(t.Context(), x, func(engine.Tx) error { close(hold); <-goOn; return nil })
		<-hold
		ctx, cancel := context.WithCancel(t.Context())
		inside, end := make(chan struct{}), make(chan struct{})
		second := start(ctx, x, func(engine.Tx) error { close(inside); <-end; return nil })
		settled(t, x, func() bool { return len(x.queue) == 1 })
		close(goOn)
		<-inside
		cancel()
		pending(t, "the cancelled call", second)
		close(end)
		if err := <-second; err != nil && !errors.Is(err, engine.ErrOutcomeUnknown) {
			t.Error(err)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		x.close(engine.ErrClosed)
	})
}

// TestFullBatch: batches stay near batchBytes however many calls are queued.
func TestFullBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, g := gated(t, Options{})
		inside, goOn := make(chan struct{}), make(chan struct{})
		hold := start(t.Context(), x, func(engine.Tx) error { close(inside); <-goOn; return nil })
		<-inside
		val := string(make([]byte, 1<<20))
		var calls []<-chan error
		for i := range 20 {
			calls = append(calls, start(t.Context(), x, putting(string(rune('a'+i)), val)))
		}
		settled(t, x, func() bool { return len(x.queue) == 20 })
		close(goOn)
		for n := 0; n < 20; {
			b := <-g.begun
			if len(b.buf) > batchBytes+2<<20 {
				t.Errorf("a batch of %d bytes", len(b.buf))
			}
			n += int(b.last - b.base)
			g.let <- nil
		}
		for _, c := range append(calls, hold) {
			if err := <-c; err != nil {
				t.Error(err)
			}
		}
		x.close(engine.ErrClosed)
	})
}

func TestPanic(t *testing.T) {
	db := open(t, t.TempDir(), Options{})
	func() {
		defer func() {
			if v := recover(); v != "mine" {
				t.Errorf("recovered %v", v)
			}
		}()
		_, _ = db.Update(t.Context(), func(tx engine.Tx) error {
			_ = tx.Put([]byte("half"), nil)
			panic("mine")
		})
	}()
	put(t, db, "k", "v")
	if _, ok := get(t, db, "half"); ok {
		t.Error("half a transaction was committed")
	}
}
