package client_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/resp/wire"
)

// killers starts n servers that seem to crash when they are sent a call of the procedure
// killer; they reply to anything else. It returns their addresses and the number of
// crashes.
func killers(tb testing.TB, n int) (addrs []string, deaths *atomic.Int64) {
	tb.Helper()
	deaths = new(atomic.Int64)
	for range n {
		addrs = append(addrs, startFake(tb, func(w *wire.Writer, _ int, args [][]byte) bool {
			if slices.ContainsFunc(args, func(a []byte) bool { return string(a) == "killer" }) {
				deaths.Add(1)
				return false
			}
			return last(w, 0, args)
		}).addr())
	}
	return addrs, deaths
}

// TestSuspect checks that a call that crashes every server is sent to only MaxBrokenSends
// servers, whether it has a key or only reads. Commands that only read are sent on.
func TestSuspect(t *testing.T) {
	noLeaks(t)
	addrs, deaths := killers(t, 5)
	c := open(t, client.Options{Addrs: addrs, Timeout: patience})
	const text = "the connection broke twice after the call was sent: it may be the call that crashes the server"
	check := func(what string, err error, want *client.Error) {
		t.Helper()
		if !errors.Is(err, want) || !strings.Contains(err.Error(), text) || strings.Count(err.Error(), "[") != 1 {
			t.Errorf("%s: %v", what, err)
		}
		if n := deaths.Swap(0); n != client.MaxBrokenSends {
			t.Errorf("%s: %d servers ended, want %d", what, n, client.MaxBrokenSends)
		}
	}
	_, err := c.CallOnce(background, client.NewKey(), "killer")
	check("with a key", err, client.ErrOutcomeUnknown)
	ended := make(chan error, 1)
	if err := c.CallOnceAsync(background, func(_ client.Result, err error) { ended <- err }, client.NewKey(), "killer"); err != nil {
		t.Fatal(err)
	}
	check("with a key and a callback", <-ended, client.ErrOutcomeUnknown)
	_, err = c.CallRead(background, "killer")
	check("a read", err, client.ErrUnavailable)
	eventually.True(t, "nothing is in flight", func() bool { return c.Stats().InFlight == 0 })
	res, err := c.CallOnce(background, client.NewKey(), "echo", "x")
	echoed(t, res, err, "x")
}

// TestBreaksOnce checks that one broken connection does not make the client give up a call
// with a key, nor do many for a command that only reads.
func TestBreaksOnce(t *testing.T) {
	noLeaks(t)
	var left atomic.Int64
	f := startFake(t, func(w *wire.Writer, _ int, args [][]byte) bool {
		if left.Add(-1) >= 0 {
			return false
		}
		return last(w, 0, args)
	})
	c := open(t, client.Options{Addrs: []string{f.addr()}, Timeout: patience})
	left.Store(client.MaxBrokenSends - 1)
	res, err := c.CallOnce(background, client.NewKey(), "echo", "x")
	echoed(t, res, err, "x")
	left.Store(client.MaxBrokenSends + 1)
	res, err = c.Do(background, "GET", "y")
	echoed(t, res, err, "y")
}

// TestSuspectForwarded: a server that forwards reports that the connection to the leader
// broke. That counts as a break, regardless of the text, as does every unknown outcome of
// older servers.
func TestSuspectForwarded(t *testing.T) {
	noLeaks(t)
	var seen atomic.Int64
	f := startFake(t, func(w *wire.Writer, _ int, _ [][]byte) bool {
		seen.Add(1)
		w.Error("ERR it may or may not have run [outcome_unknown]")
		return true
	})
	c := open(t, client.Options{Addrs: []string{f.addr()}, Timeout: patience})
	if _, err := c.CallOnce(background, client.NewKey(), "p"); !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("it ended with %v", err)
	}
	if n := seen.Load(); n != client.MaxBrokenSends {
		t.Errorf("it was sent %d times, want %d", n, client.MaxBrokenSends)
	}
}

// TestUnknownOfLiveNode: a node that does not know the outcome but is still running was not
// crashed by the call, so the call is sent again as often as needed.
func TestUnknownOfLiveNode(t *testing.T) {
	noLeaks(t)
	var left atomic.Int64
	left.Store(2 * client.MaxBrokenSends)
	f := startFake(t, func(w *wire.Writer, _ int, args [][]byte) bool {
		if left.Add(-1) >= 0 {
			w.Error("UNKNOWN the connection to the node that leads broke before its reply [outcome_unknown]")
			return true
		}
		return last(w, 0, args)
	})
	c := open(t, client.Options{Addrs: []string{f.addr()}, Timeout: patience})
	res, err := c.CallOnce(background, client.NewKey(), "echo", "x")
	echoed(t, res, err, "x")
}
