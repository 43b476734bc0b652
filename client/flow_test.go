package client_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/resp/wire"
)

// patience is how long a test waits for an event on a slow machine.
const patience = 60 * time.Second

// noLeaks fails the test if goroutines of the client are left when the test and its
// cleanups have ended. It is called first, so that it checks last.
func noLeaks(tb testing.TB) {
	tb.Helper()
	tb.Cleanup(func() {
		buf := make([]byte, 1<<20)
		eventually.True(tb, "the client's goroutines end", func() bool {
			for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
				if strings.Contains(g, "skerry/client.(*") && !strings.Contains(g, "noLeaks") {
					return false
				}
			}
			return true
		})
	})
}

// gate replies to each command with its last word once it is open.
type gate struct {
	open chan struct{}
	seen atomic.Int64
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) answer(w *wire.Writer, _ int, args [][]byte) bool {
	g.seen.Add(1)
	<-g.open
	return last(w, 0, args)
}

// echoed checks that a result is the reply to the call with the word want.
func echoed(tb testing.TB, res client.Result, err error, want string) {
	tb.Helper()
	if got, e := res.Text(); err != nil || e != nil || got != want {
		tb.Errorf("the reply to %s is %q, %v, %v", want, got, err, e)
	}
}

// TestCancelNeverCrosses checks that calls given up before or after they were sent do not
// mix up the replies of the others.
func TestCancelNeverCrosses(t *testing.T) {
	noLeaks(t)
	g := newGate()
	f := startFake(t, g.answer)
	c := open(t, client.Options{Addrs: []string{f.addr()}})
	ctx, cancel := context.WithCancel(background)
	blocked := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, "echo", "blocked")
		blocked <- err
	}()
	eventually.True(t, "the first call arrives", func() bool { return g.seen.Load() == 1 })
	var kept, gone sync.WaitGroup
	for i := range 100 {
		word := fmt.Sprint("kept", i)
		kept.Add(1)
		if err := c.CallAsync(background, func(res client.Result, err error) {
			echoed(t, res, err, word)
			kept.Done()
		}, "echo", word); err != nil {
			t.Fatal(err)
		}
		gone.Add(1)
		if err := c.CallAsync(ctx, func(_ client.Result, err error) {
			if !errors.Is(err, context.Canceled) || !errors.Is(err, client.ErrOutcomeUnknown) && !errors.Is(err, client.ErrCancelled) {
				t.Errorf("a cancelled call ended with %v", err)
			}
			gone.Done()
		}, "echo", "gone"); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	gone.Wait()
	if err := <-blocked; !errors.Is(err, client.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("the blocked call ended with %v", err)
	}
	if _, err := c.Call(ctx, "echo", "never"); !errors.Is(err, client.ErrCancelled) {
		t.Errorf("a call with an ended context: %v", err)
	}
	close(g.open)
	kept.Wait()
	res, err := c.Call(background, "echo", "after")
	echoed(t, res, err, "after")
	eventually.True(t, "nothing is in flight", func() bool { return c.Stats().InFlight == 0 })
}

// TestTimeouts lets calls time out that were sent, that only read, and that found no node.
func TestTimeouts(t *testing.T) {
	noLeaks(t)
	g := newGate()
	f := startFake(t, g.answer)
	c := open(t, client.Options{Addrs: []string{f.addr()}, Timeout: 50 * time.Millisecond})
	if _, err := c.Call(background, "echo", "a"); !errors.Is(err, client.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that was sent: %v", err)
	}
	if _, err := c.CallRead(background, "echo", "b"); !errors.Is(err, client.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that only reads: %v", err)
	}
	ended := make(chan error, 1)
	if err := c.CallAsync(background, func(_ client.Result, err error) { ended <- err }, "echo", "c"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("a call with a callback: %v", err)
	}
	if s := c.Stats(); s.TimedOut != 3 || s.Unknown != 2 || s.InFlight != 3 {
		t.Errorf("timed out %d, unknown %d, in flight %d; want 3, 2, 3", s.TimedOut, s.Unknown, s.InFlight)
	}
	close(g.open)
	eventually.True(t, "the late replies are discarded", func() bool { return c.Stats().InFlight == 0 })

	nobody := open(t, client.Options{Addrs: []string{unused(t)}, Timeout: -1})
	ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	if err := nobody.CallAsync(ctx, func(_ client.Result, err error) { ended <- err }, "echo", "c"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("a call without a node: %v", err)
	}
}

// unused returns an address that refuses connections.
func unused(tb testing.TB) string {
	tb.Helper()
	l := listen(tb)
	defer l.Close()
	return l.Addr().String()
}

// TestFull checks that over MaxInFlight a call fails or waits, as configured; in a callback
// it fails.
func TestFull(t *testing.T) {
	noLeaks(t)
	g := newGate()
	f := startFake(t, g.answer)
	fails := open(t, client.Options{Addrs: []string{f.addr()}, MaxInFlight: 10, Full: client.Fail})
	waits := open(t, client.Options{Addrs: []string{f.addr()}, MaxInFlight: 10})
	var all sync.WaitGroup
	done := func(client.Result, error) { all.Done() }
	for _, c := range []*client.Client{fails, waits} {
		for range 10 {
			all.Add(1)
			if err := c.CallAsync(background, done, "echo", "x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := fails.CallAsync(background, done, "echo", "x"); !errors.Is(err, client.ErrTooManyInFlight) {
		t.Errorf("the eleventh call: %v", err)
	}
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	if _, err := waits.Call(ctx, "echo", "x"); !errors.Is(err, client.ErrTimeout) {
		t.Errorf("waiting for a permit beyond the deadline: %v", err)
	}
	for range 50 {
		all.Add(1)
		go func() {
			if err := waits.CallAsync(background, done, "echo", "x"); err != nil {
				t.Error(err)
				all.Done()
			}
		}()
	}
	close(g.open)
	all.Wait()
}

// TestCallsInCallbacks checks that a callback may make as many calls as there are permits,
// gets ErrTooManyInFlight instead of waiting for itself, and may not block.
func TestCallsInCallbacks(t *testing.T) {
	noLeaks(t)
	g := newGate()
	close(g.open)
	f := startFake(t, g.answer)
	c := open(t, client.Options{Addrs: []string{f.addr()}, MaxInFlight: 8})
	ended := make(chan error, 1)
	err := c.CallAsync(background, func(client.Result, error) {
		if _, err := c.Call(background, "echo", "x"); !errors.Is(err, client.ErrInCallback) {
			t.Errorf("a blocking call in a callback: %v", err)
		}
		for i := 0; ; i++ {
			err := c.CallAsync(background, func(client.Result, error) {}, "echo", "x")
			if err != nil {
				if i < 8 {
					t.Errorf("%d calls fit, want 8", i)
				}
				ended <- err
				return
			}
		}
	}, "echo", "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, client.ErrTooManyInFlight) {
		t.Errorf("the ninth call: %v", err)
	}
	// A chain: each callback issues the next call, with all permits used.
	var left atomic.Int64
	left.Store(2000)
	var all sync.WaitGroup
	var next func(client.Result, error)
	next = func(client.Result, error) {
		defer all.Done()
		if left.Add(-1) < 0 {
			return
		}
		all.Add(1)
		if err := c.CallAsync(background, next, "echo", "x"); err != nil {
			t.Errorf("in the chain: %v", err)
			all.Done()
		}
	}
	eventually.True(t, "nothing is in flight", func() bool { return c.Stats().InFlight == 0 })
	for range 8 {
		all.Add(1)
		if err := c.CallAsync(background, next, "echo", "x"); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
}

// TestClose checks that Close ends calls in flight with ErrClosed, even when called in a
// callback.
func TestClose(t *testing.T) {
	noLeaks(t)
	g := newGate()
	f := startFake(t, g.answer)
	c := open(t, client.Options{Addrs: []string{f.addr()}})
	future := c.Go(background, "echo", "x")
	eventually.True(t, "the call arrives", func() bool { return g.seen.Load() == 1 })
	c.Close()
	if _, err := future.Wait(background); !errors.Is(err, client.ErrOutcomeUnknown) || !errors.Is(err, client.ErrClosed) {
		t.Errorf("a call that was sent: %v", err)
	}
	if _, err := c.Call(background, "echo", "x"); !errors.Is(err, client.ErrClosed) || errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("a call afterwards: %v", err)
	}
	if err := c.CallAsync(background, func(client.Result, error) { t.Error("called") }, "echo", "x"); !errors.Is(err, client.ErrClosed) {
		t.Errorf("a call afterwards: %v", err)
	}
	c.Close()
	close(g.open)

	waiting := open(t, client.Options{Addrs: []string{unused(t)}})
	future = waiting.Go(background, "echo", "x")
	go waiting.Close()
	if _, err := future.Wait(background); !errors.Is(err, client.ErrClosed) || errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("a call that was not sent: %v", err)
	}

	inside := open(t, client.Options{Addrs: []string{f.addr()}})
	closed := make(chan struct{})
	if err := inside.CallAsync(background, func(client.Result, error) {
		inside.Close()
		close(closed)
	}, "echo", "x"); err != nil {
		t.Fatal(err)
	}
	<-closed
}

// TestMemory measures the memory of 100,000 calls in flight to a server that withholds
// replies.
func TestMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	const calls = 100_000
	g := newGate()
	f := startFake(t, g.answer)
	c := open(t, client.Options{Addrs: []string{f.addr()}, Timeout: -1})
	if err := c.CallAsync(background, func(client.Result, error) {}, "echo", "x"); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the first call arrives", func() bool { return g.seen.Load() == 1 })
	var all sync.WaitGroup
	all.Add(calls)
	done := func(client.Result, error) { all.Done() }
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range calls {
		if err := c.CallAsync(background, done, "vote", "7145551234", i%12+1, 2); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	per := float64(after.HeapAlloc-before.HeapAlloc) / calls
	claimed := float64(after.Sys-before.Sys) / calls
	t.Logf("%.0f bytes of heap a call in flight, %.0f claimed from the system", per, claimed)
	if per > 400 {
		t.Errorf("%.0f bytes a call in flight, want 400 at most", per)
	}
	close(g.open)
	all.Wait()
}
