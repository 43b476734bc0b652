package client_test

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/resp/wire"
)

// ends counts how many times and how each of many calls ended.
type ends struct {
	times   []atomic.Int32
	left    sync.WaitGroup
	wrong   atomic.Int64
	example atomic.Pointer[string]
}

func newEnds(n int) *ends {
	e := &ends{times: make([]atomic.Int32, n)}
	e.left.Add(n)
	return e
}

// callback returns the callback of call i, which must end as want accepts.
func (e *ends) callback(i int, want func(res client.Result, err error) bool) func(client.Result, error) {
	return func(res client.Result, err error) {
		if !want(res, err) {
			e.wrong.Add(1)
			text := strconv.Itoa(i) + ": " + string(res.Raw())
			if err != nil {
				text += err.Error()
			}
			e.example.CompareAndSwap(nil, &text)
		}
		if e.times[i].Add(1) == 1 {
			e.left.Done()
		}
	}
}

func (e *ends) check(tb testing.TB, what string) {
	tb.Helper()
	over := make(chan struct{})
	go func() {
		e.left.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(patience):
		tb.Error(what + ": some calls have not ended")
	}
	once := 0
	for i := range e.times {
		if e.times[i].Load() == 1 {
			once++
		}
	}
	if once != len(e.times) {
		tb.Errorf("%s: %d of %d calls ended once", what, once, len(e.times))
	}
	if n := e.wrong.Load(); n > 0 {
		tb.Errorf("%s: %d ended in the wrong way, one of them %s", what, n, *e.example.Load())
	}
}

// TestCutWithAllOut has a server read 100,000 calls, reply to none and disconnect. Plain
// calls end once as unknown and are not sent again. Calls that read or have a key are sent
// unchanged to the next server and get their own replies.
func TestCutWithAllOut(t *testing.T) {
	noLeaks(t)
	const calls = 99_999 // a third of each kind
	var read, plainAgain atomic.Int64
	first := startFake(t, func(*wire.Writer, int, [][]byte) bool {
		read.Add(1)
		return true
	})
	second := startFake(t, func(w *wire.Writer, _ int, args [][]byte) bool {
		if string(args[0]) == "CALL" {
			plainAgain.Add(1)
		}
		return last(w, 0, args)
	})
	away := &detour{from: second.addr(), to: second.addr()}
	away.closed.Store(true)
	c := open(t, client.Options{Addrs: []string{first.addr(), second.addr()}, Dial: away.dial, Timeout: 2 * patience, DeadAfter: -1, MaxBackoff: 20 * time.Millisecond})
	e := newEnds(calls)
	unknown := func(_ client.Result, err error) bool {
		return errors.Is(err, client.ErrOutcomeUnknown) && !errors.Is(err, client.ErrClosed)
	}
	for i := range calls {
		own := func(res client.Result, err error) bool {
			n, e := res.Int()
			return err == nil && e == nil && n == int64(i)
		}
		var err error
		switch i % 3 {
		case 0:
			err = c.CallAsync(background, e.callback(i, unknown), "p", i)
		case 1:
			err = c.CallOnceAsync(background, e.callback(i, own), strconv.Itoa(i), "p", i)
		default:
			err = c.CallReadAsync(background, e.callback(i, own), "p", i)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, "all calls arrive", func() bool { return read.Load() == calls })
	if n := c.Stats().InFlight; n != calls {
		t.Errorf("%d calls are in flight, want %d", n, calls)
	}
	first.l.Close()
	first.cut()
	eventually.True(t, "the plain calls end", func() bool { return c.Stats().Unknown == calls/3 })
	away.closed.Store(false)
	e.check(t, "cut")
	eventually.True(t, "nothing is in flight", func() bool { return c.Stats().InFlight == 0 })
	if n := plainAgain.Load(); n > 0 {
		t.Errorf("%d plain calls were sent again", n)
	}
	if n := c.Stats().Retries; n != 2*calls/3 {
		t.Errorf("%d calls were sent again, want %d", n, 2*calls/3)
	}
}

// TestCloseWithAllOut calls Close while 100,000 calls are in flight, from a callback of one
// of them. Each of the others ends once.
func TestCloseWithAllOut(t *testing.T) {
	noLeaks(t)
	const calls = 100_000
	g := newGate()
	f := startFake(t, func(w *wire.Writer, n int, args [][]byte) bool {
		if g.seen.Add(1) > 1 {
			return true // withheld
		}
		<-g.open
		return last(w, 0, args)
	})
	c := open(t, client.Options{Addrs: []string{f.addr()}, Timeout: 2 * patience, DeadAfter: -1})
	e := newEnds(calls)
	for i := range calls {
		want := func(_ client.Result, err error) bool { return errors.Is(err, client.ErrClosed) }
		if i == 0 {
			want = func(_ client.Result, err error) bool {
				c.Close()
				return err == nil
			}
		}
		if err := c.CallAsync(background, e.callback(i, want), "p", i); err != nil {
			t.Fatal(err)
		}
	}
	close(g.open)
	e.check(t, "closed")
}

// TestCloseManyTimes checks that closing a client at any moment ends its calls.
func TestCloseManyTimes(t *testing.T) {
	noLeaks(t)
	f := startFake(t, func(*wire.Writer, int, [][]byte) bool { return true })
	for i := range 300 {
		c := open(t, client.Options{Addrs: []string{f.addr()}, Timeout: 2 * patience})
		if i%2 == 0 {
			eventually.True(t, "it is connected", func() bool { return c.Stats().Nodes[0].Connected == 1 })
		}
		e := newEnds(3)
		for k := range e.times {
			if err := c.CallAsync(background, e.callback(k, func(_ client.Result, err error) bool { return errors.Is(err, client.ErrClosed) }), "p"); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		for k := range e.times {
			if n := e.times[k].Load(); n != 1 {
				t.Fatalf("round %d: after Close call %d was ended %d times", i, k, n)
			}
		}
		if e.wrong.Load() > 0 {
			t.Fatalf("round %d: a call ended with %s", i, *e.example.Load())
		}
	}
}
