package client_test

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/resp/wire"
)

// TestCloseWhileGreeting checks that Close does not wait for a server that does not greet.
func TestCloseWhileGreeting(t *testing.T) {
	noLeaks(t)
	addr, seen := startText(t, "")
	c := open(t, client.Options{Addrs: []string{addr}, DialTimeout: time.Hour, Timeout: -1})
	f := c.Go(background, "echo", "x")
	eventually.True(t, "it connects", func() bool { return seen.Load() > 0 })
	closed := make(chan struct{})
	go func() {
		c.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("Close waits for the greeting")
	}
	if _, err := f.Wait(background); !errors.Is(err, client.ErrClosed) || errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("a call that was not sent: %v", err)
	}
}

// TestPermitsWithoutConnection checks that calls that time out return their permits, even
// while a node neither rejects nor accepts the connection.
func TestPermitsWithoutConnection(t *testing.T) {
	noLeaks(t)
	addr, _ := startText(t, "")
	c := open(t, client.Options{Addrs: []string{addr}, DialTimeout: time.Hour, Timeout: 20 * time.Millisecond, MaxInFlight: 4, Full: client.Fail})
	for range 4 {
		if err := c.CallAsync(background, func(_ client.Result, err error) {
			if !errors.Is(err, client.ErrUnavailable) {
				t.Errorf("a call without a connection: %v", err)
			}
		}, "echo", "x"); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, "the permits are free", func() bool { return c.Stats().InFlight == 0 })
}

// TestWaitInCallback: a callback that waited for a call on its own connection would wait
// for itself.
func TestWaitInCallback(t *testing.T) {
	noLeaks(t)
	f := startFake(t, one)
	c := open(t, client.Options{Addrs: []string{f.addr()}})
	got := make(chan error, 1)
	if err := c.CallAsync(background, func(client.Result, error) {
		_, err := c.Go(background, "echo", "x").Wait(background)
		got <- err
	}, "echo", "x"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-got:
		if !errors.Is(err, client.ErrInCallback) {
			t.Errorf("Wait in a callback: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Wait in a callback waits for itself")
	}
}

// TestEndlessTimeout checks that the longest timeout does not overflow to a short one.
func TestEndlessTimeout(t *testing.T) {
	g := newGate()
	f := startFake(t, g.answer)
	c := open(t, client.Options{Addrs: []string{f.addr()}, Timeout: math.MaxInt64, DialTimeout: math.MaxInt64, DeadAfter: math.MaxInt64, MaxBackoff: math.MaxInt64})
	call := c.Go(background, "echo", "x")
	eventually.True(t, "the call arrives", func() bool { return g.seen.Load() == 1 })
	time.Sleep(50 * time.Millisecond) // several checks of timeouts
	close(g.open)
	res, err := call.Wait(background)
	echoed(t, res, err, "x")
}

// TestPasswordInGreeting: servers that do not know HELLO repeat what they were sent.
func TestPasswordInGreeting(t *testing.T) {
	noLeaks(t)
	addr, _ := startText(t, "-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `hunter2`, \r\n")
	c := open(t, client.Options{Addrs: []string{addr}, Password: "hunter2", Timeout: 200 * time.Millisecond})
	err := c.Ping(background)
	if !errors.Is(err, client.ErrUnavailable) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a server that repeats the password: %v", err)
	}
}

// TestIdleConnectionTakesOldCalls checks that calls that waited a long time for a dead node
// do not make the idle connection that takes them over look dead.
func TestIdleConnectionTakesOldCalls(t *testing.T) {
	noLeaks(t)
	const deadAfter = 500 * time.Millisecond
	g := newGate()
	stuck := startFake(t, g.answer)
	defer close(g.open)
	var seen atomic.Int64
	live := startFake(t, func(w *wire.Writer, _ int, args [][]byte) bool {
		seen.Add(1)
		time.Sleep(50 * time.Millisecond) // several ticks of the sweeper
		return last(w, 0, args)
	})
	d := &detour{from: live.addr(), to: live.addr()}
	d.closed.Store(true)
	c := open(t, client.Options{Addrs: []string{stuck.addr(), live.addr()}, Dial: d.dial, DeadAfter: deadAfter, Timeout: patience, MaxBackoff: 20 * time.Millisecond})
	up := func(n int) func() bool {
		return func() bool { return c.Stats().Nodes[n].Connected == 1 }
	}
	eventually.True(t, "the stuck node is connected, where calls go", up(0))
	d.closed.Store(false)
	eventually.True(t, "the live node is connected", up(1))
	time.Sleep(deadAfter) // it has been silent for this long
	started := make(chan error, 1)
	stuck.l.Close() // it accepts no second connection
	began := time.Now()
	if err := c.CallOnceAsync(background, func(_ client.Result, err error) { started <- err }, client.NewKey(), "echo", "x"); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < deadAfter {
		t.Fatalf("the call took %v, so it was not with the stuck node", took)
	}
	if n := live.connections(); n != 1 || seen.Load() != 1 {
		t.Errorf("the live node had %d connections and %d calls, want 1 and 1", n, seen.Load())
	}
}

// TestAttributes checks that an attribute before a reply or a push is ignored.
func TestAttributes(t *testing.T) {
	noLeaks(t)
	n := startTwo(t)
	c := open(t, client.Options{Addrs: []string{n.list[0].addr()}})
	const attribute = "|1\r\n+ttl\r\n:5\r\n"
	n.next(0, func(w *wire.Writer) { w.RawString(attribute + "-ERR no [mine]\r\n") })
	if _, err := c.Call(background, "echo", "a"); !errors.Is(err, &client.Error{Code: "mine"}) {
		t.Errorf("an error behind an attribute: %v", err)
	}
	n.next(0, func(w *wire.Writer) { w.RawString(attribute + ">2\r\n+news\r\n:1\r\n:7\r\n") })
	if res, err := c.Call(background, "echo", "b"); err != nil || string(res.Raw()) != ":7\r\n" {
		t.Errorf("behind a push with an attribute: %q, %v", res.Raw(), err)
	}
}

// TestNonsenseIsUnknown checks that after an unreadable reply the outcome of a write is
// unknown.
func TestNonsenseIsUnknown(t *testing.T) {
	noLeaks(t)
	var seen atomic.Int64
	f := startFake(t, func(w *wire.Writer, _ int, args [][]byte) bool {
		seen.Add(1)
		w.RawString("hello\r\n")
		return true
	})
	c := open(t, client.Options{Addrs: []string{f.addr()}, Timeout: patience})
	if _, err := c.Call(background, "p"); !errors.Is(err, client.ErrOutcomeUnknown) || !errors.Is(err, client.ErrLimit) {
		t.Errorf("a write: %v", err)
	}
	if _, err := c.CallRead(background, "p"); !errors.Is(err, client.ErrLimit) || errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("a read: %v", err)
	}
	if seen.Load() != 2 {
		t.Errorf("the server saw %d calls, want 2", seen.Load())
	}
}

// TestTwoNames checks that a node known by two names loses one of them without losing its
// calls in flight.
func TestTwoNames(t *testing.T) {
	noLeaks(t)
	g := newGate()
	late := startFake(t, g.answer)
	host, port, _ := net.SplitHostPort(late.addr())
	list := fmt.Sprintf("%040d %s:%s@0 %%smaster - 0 0 1 connected\n", 1, host, port)
	late.nodes.Store(fmt.Sprintf(list, "myself,"))
	first := startFake(t, one)
	first.nodes.Store(fmt.Sprintf(list, "") + fmt.Sprintf("%040d %s@0 myself,slave - 0 0 1 connected\n", 0, first.addr()))
	named := "named:" + port
	ch := &detour{from: named, to: late.addr()}
	ch.closed.Store(true)
	c := open(t, client.Options{Addrs: []string{first.addr(), named}, Dial: ch.dial, Timeout: patience, MaxBackoff: 20 * time.Millisecond})
	eventually.True(t, "the leader is learned", func() bool { return c.Stats().Leader == late.addr() })
	sent := c.Go(background, "echo", "x")
	eventually.True(t, "the call arrives", func() bool { return g.seen.Load() == 1 })
	ch.closed.Store(false)
	eventually.True(t, "the name is reached", func() bool { return c.Stats().Leader == named })
	close(g.open)
	res, err := sent.Wait(background)
	echoed(t, res, err, "x")
	eventually.True(t, "the other name is forgotten", func() bool {
		echo(t, c, "y")
		return len(c.Stats().Nodes) == 2
	})
}

// TestNamelessNodes checks that a node without an address, in Redis's format, is not
// mistaken for one that has not reported its own.
func TestNamelessNodes(t *testing.T) {
	noLeaks(t)
	a, b := startFake(t, one), startFake(t, one)
	a.nodes.Store(fmt.Sprintf("%040d %s@0 myself,slave - 0 0 1 connected\n%040d %s@0 slave - 0 0 1 connected\n%040d :0@0 master,noaddr - 0 0 1 connected\n",
		1, a.addr(), 2, b.addr(), 3))
	c := open(t, client.Options{Addrs: []string{a.addr()}, MaxBackoff: 20 * time.Millisecond})
	eventually.True(t, "both are connected", func() bool {
		s := c.Stats()
		return len(s.Nodes) == 2 && s.Nodes[0].Connected+s.Nodes[1].Connected == 2
	})
	if got := c.Stats().Leader; got != a.addr() {
		t.Errorf("calls go to %s", got)
	}
}

// TestClientWords checks that commands that would change the shared connection are
// rejected, regardless of the type of their words.
func TestClientWords(t *testing.T) {
	f := startFake(t, one)
	c := open(t, client.Options{Addrs: []string{f.addr()}})
	off := "REPLY"
	for _, word := range []any{"reply", []byte("Reply"), &off, client.JSON(1)} {
		if _, err := c.Do(background, "CLIENT", word, "OFF"); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("CLIENT %v: %v", word, err)
		}
	}
	if _, err := c.Do(background, "CLIENT", "LIST"); err != nil {
		t.Error(err)
	}
}
