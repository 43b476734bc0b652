package cli

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/client"
)

// greetings are calls of the procedure greet in the name of one visitor, whose
// visits the servers count.
type greetings struct {
	t     *testing.T
	c     *client.Client
	name  string
	times []atomic.Int32 // how often each call was answered
	left  sync.WaitGroup

	acked, unknown atomic.Int64
	failed         atomic.Pointer[error]
}

// send makes n calls without waiting for their replies, each with a key if once is set.
func (g *greetings) send(n int, once bool) {
	g.times = make([]atomic.Int32, n)
	g.left.Add(n)
	for i := range n {
		done := func(_ client.Result, err error) { g.ended(i, err) }
		var err error
		if once {
			err = g.c.CallOnceAsync(context.Background(), done, client.NewKey(), "greet", g.name)
		} else {
			err = g.c.CallAsync(context.Background(), done, "greet", g.name)
		}
		if err != nil {
			g.ended(i, err)
		}
	}
}

func (g *greetings) ended(i int, err error) {
	switch {
	case err == nil:
		g.acked.Add(1)
	case errors.Is(err, client.ErrOutcomeUnknown):
		g.unknown.Add(1)
	default:
		g.failed.CompareAndSwap(nil, &err)
	}
	if g.times[i].Add(1) == 1 {
		g.left.Done()
	}
}

// check waits for all replies and compares them with the counts.
func (g *greetings) check() {
	g.t.Helper()
	g.left.Wait() // every call has a time limit
	if err := g.failed.Load(); err != nil {
		g.t.Errorf("%s: a call failed: %v", g.name, *err)
	}
	for i := range g.times {
		if n := g.times[i].Load(); n != 1 {
			g.t.Fatalf("%s: call %d was answered %d times", g.name, i, n)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), healWait)
	defer cancel()
	res, err := g.c.Do(ctx, "GET", "visits:"+g.name)
	if err != nil {
		g.t.Fatal(err)
	}
	counted := int64(0)
	if !res.IsNull() {
		if counted, err = res.Int(); err != nil {
			g.t.Fatal(err)
		}
	}
	acked, unknown := g.acked.Load(), g.unknown.Load()
	g.t.Logf("%s: %d acknowledged, %d unknown, %d counted", g.name, acked, unknown, counted)
	if counted < acked || counted > acked+unknown {
		g.t.Errorf("%s: %d counted, want %d to %d", g.name, counted, acked, acked+unknown)
	}
}

// TestLeaderDiesWithCallsOut kills the process of the leader while 100,000 calls of one client are under way.
// Each gets one result. For plain calls, the servers have counted the acknowledged ones and at most those of
// unknown outcome; with keys no outcome is unknown and the count is exact.
func TestLeaderDiesWithCallsOut(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three processes and an election")
	}
	const calls = 100_000
	f := newFleetOf(t, "greeter")
	var addrs []string
	for _, n := range f.nodes {
		addrs = append(addrs, n.resp)
	}
	c, err := client.Open(client.Options{Addrs: addrs, Timeout: healWait})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var leader *fleetNode // to which calls go: if another one leads by now, that is a fault more
	f.await("calls go to the leader", func() bool {
		leader, _ = f.leader()
		_, err := c.Call(context.Background(), "greet", "nobody")
		return err == nil && c.Stats().Leader == leader.resp
	})
	plain, once := &greetings{t: t, c: c, name: "plain"}, &greetings{t: t, c: c, name: "once"}
	f.signal(leader, syscall.SIGSTOP) // so that none is answered before all are out
	var both sync.WaitGroup
	both.Go(func() { plain.send(calls/2, false) })
	both.Go(func() { once.send(calls/2, true) })
	both.Wait()
	out := c.Stats().InFlight
	f.signal(leader, syscall.SIGCONT)
	f.await("some are answered", func() bool { return plain.acked.Load() > 100 && once.acked.Load() > 100 })
	f.signal(leader, syscall.SIGKILL)
	killed := time.Now()
	plain.check()
	once.check()
	t.Logf("%d calls were out; all were answered %v after the leader died; %d were sent again", out, time.Since(killed), c.Stats().Retries)
	if out != calls {
		t.Errorf("%d calls were out, want %d", out, calls)
	}
	if once.unknown.Load() > 0 || once.acked.Load() != calls/2 {
		t.Errorf("with keys %d are unknown and %d acknowledged, of %d", once.unknown.Load(), once.acked.Load(), calls/2)
	}
}
