package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/resp/wire"
)

// TestGivenUpBetweenAttempts checks that a call that is given up while it waits to be sent
// again releases its slot and leaves nothing behind that another call could get.
func TestGivenUpBetweenAttempts(t *testing.T) {
	noLeaks(t)
	var refuse atomic.Bool
	f := startFake(t, func(w *wire.Writer, _ int, args [][]byte) bool {
		if last := args[len(args)-1]; string(last) != "old" || !refuse.Load() {
			w.Bulk(last)
		} else {
			w.Error("CLUSTERDOWN nobody leads [not_leader]")
		}
		return true
	})
	c := open(t, client.Options{Addrs: []string{f.addr()}, Timeout: patience})
	for round := range 3 {
		refuse.Store(true)
		ctx, cancel := context.WithCancel(background)
		ended := make(chan error)
		go func() {
			_, err := c.Call(ctx, "echo", "old")
			ended <- err
		}()
		before := c.Stats().Retries
		eventually.True(t, "it is sent again with long pauses", func() bool { return c.Stats().Retries >= before+6 })
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatalf("the cancelled call: %v", err)
		}
		refuse.Store(false)
		eventually.True(t, "nothing is in flight", func() bool { return c.Stats().InFlight == 0 })
		for i := range 20 {
			echo(t, c, fmt.Sprint(round, "-", i))
		}
	}
}

// TestCutAfterCaching breaks the connection after the reply to the CLIENT CACHING before a
// read, and before the reply to the read. On the next connection both are sent, and the
// second one counts.
func TestCutAfterCaching(t *testing.T) {
	noLeaks(t)
	var f *fake
	var cuts atomic.Int64
	f = startFake(t, func(w *wire.Writer, _ int, args [][]byte) bool {
		if string(args[0]) == "CLIENT" {
			w.OK()
			return true
		}
		if cuts.Add(1) == 1 {
			f.mu.Lock()
			defer f.mu.Unlock()
			_, _ = f.conns[0].Write([]byte("+OK\r\n")) // for CLIENT CACHING; the test fails without it
			return false
		}
		w.BulkString("value")
		return true
	})
	c := open(t, client.Options{Addrs: []string{f.addr()}, CacheBytes: 1 << 20, Timeout: patience})
	eventually.True(t, "it is connected", func() bool { return c.Stats().Nodes[0].Connected == 1 })
	cached(t, c, "k", "value")
	cached(t, c, "k", "value")
	if cuts.Load() < 2 {
		t.Error("the connection was not cut")
	}
}

// TestCutAfterTimeout checks that calls that timed out after they were sent keep their
// permits until the connection ends, because their replies never come.
func TestCutAfterTimeout(t *testing.T) {
	noLeaks(t)
	var seen atomic.Int64
	f := startFake(t, func(*wire.Writer, int, [][]byte) bool {
		seen.Add(1)
		return true
	})
	c := open(t, client.Options{Addrs: []string{f.addr()}, Timeout: 30 * time.Millisecond})
	eventually.True(t, "it is connected", func() bool { return c.Stats().Nodes[0].Connected == 1 })
	done := func(client.Result, error) {}
	for i := range 30 {
		if err := errors.Join(c.CallAsync(background, done, "p", i), c.CallReadAsync(background, done, "p", i)); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, "all are given up", func() bool { return c.Stats().TimedOut == 60 })
	if seen.Load() > 0 && c.Stats().InFlight == 0 {
		t.Error("no reply is awaited any more")
	}
	f.cut()
	eventually.True(t, "nothing is in flight", func() bool { return c.Stats().InFlight == 0 })
}
