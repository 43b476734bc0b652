package client_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/client"
)

// tally counts how calls ended, and detects calls that ended twice.
type tally struct {
	ok, unknown, other, twice atomic.Int64
	all                       sync.WaitGroup
	first                     atomic.Pointer[error] // of other
}

func (s *tally) callback() func(client.Result, error) {
	s.all.Add(1)
	var ended atomic.Bool
	return func(_ client.Result, err error) {
		if ended.Swap(true) {
			s.twice.Add(1)
			return
		}
		switch {
		case err == nil:
			s.ok.Add(1)
		case errors.Is(err, client.ErrOutcomeUnknown):
			s.unknown.Add(1)
		default:
			s.first.CompareAndSwap(nil, &err)
			s.other.Add(1)
		}
		s.all.Done()
	}
}

// check compares the number of acknowledged calls with the server's count.
func (s *tally) check(t *testing.T, calls int64, total int64) {
	t.Helper()
	ok, unknown := s.ok.Load(), s.unknown.Load()
	t.Logf("%d ok, %d unknown, %d other; the server counted %d", ok, unknown, s.other.Load(), total)
	if s.other.Load() > 0 {
		t.Errorf("a call failed: %v", *s.first.Load())
	}
	if s.twice.Load() > 0 || ok+unknown+s.other.Load() != calls {
		t.Errorf("of %d calls %d have ended, %d of them twice", calls, ok+unknown+s.other.Load(), s.twice.Load())
	}
	if total < ok || total > ok+unknown {
		t.Errorf("the server counted %d, want %d to %d", total, ok, ok+unknown)
	}
}

func count(t *testing.T, c *client.Client, key string) int64 {
	t.Helper()
	res, err := c.Do(background, "GET", key)
	if err != nil {
		t.Fatal(err)
	}
	n, err := res.Int()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLeaderChanges moves the leadership, and then stops the leader, with 100,000 calls in
// flight. Each call ends exactly once, and acknowledged calls have run.
func TestLeaderChanges(t *testing.T) {
	noLeaks(t)
	calls := 100_000
	if testing.Short() || raceEnabled {
		calls = 20_000
	}
	list := startCluster(t)
	c := open(t, client.Options{Addrs: []string{list[1].addr, list[2].addr}, Timeout: patience})
	for range 1000 { // the first calls go through the known node
		if _, err := c.Call(background, "add", "warm", 1); err != nil {
			t.Fatal(err)
		}
		if c.Stats().Leader == list[leader(t, list)].addr {
			break
		}
	}
	if got, want := c.Stats().Leader, list[leader(t, list)].addr; got != want {
		t.Errorf("calls go to %s, the leader is %s", got, want)
	}
	var plain, once tally
	send := func(n int) {
		for range n {
			if err := c.CallAsync(background, plain.callback(), "add", "plain", 1); err != nil {
				t.Fatal(err)
			}
			if err := c.CallOnceAsync(background, once.callback(), client.NewKey(), "add", "once", 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(calls / 4)
	list[leader(t, list)].db.HandOver()
	send(calls / 8)
	list[leader(t, list)].stop()
	send(calls / 8)
	plain.all.Wait()
	once.all.Wait()
	plain.check(t, int64(calls/2), count(t, c, "plain"))
	once.check(t, int64(calls/2), count(t, c, "once"))
	if once.unknown.Load() > 0 {
		t.Errorf("%d calls with a key have an unknown outcome", once.unknown.Load())
	}
	eventually.True(t, "the client goes to the new leader", func() bool {
		if _, err := c.Call(background, "add", "warm", 1); err != nil {
			t.Fatal(err)
		}
		return c.Stats().Leader == list[leader(t, list)].addr
	})
	t.Logf("%d calls were sent again", c.Stats().Retries)
}

// TestReadsFromFollowers checks that calls that only read go to the nodes that the option
// selects.
func TestReadsFromFollowers(t *testing.T) {
	noLeaks(t)
	list := startCluster(t)
	c := open(t, client.Options{Addrs: []string{list[0].addr}, ReadFrom: client.ReadFollowers, Timeout: patience})
	eventually.True(t, "all nodes are connected", func() bool {
		up := 0
		for _, n := range c.Stats().Nodes {
			up += n.Connected
		}
		return up == 3
	})
	for range 30 {
		res, err := c.CallRead(background, "echo", "x")
		echoed(t, res, err, "x")
	}
	at := list[leader(t, list)].addr
	for _, n := range c.Stats().Nodes {
		for _, p := range n.Procedures {
			if p.Name == "echo" && n.Addr == at {
				t.Errorf("the leader had %d reads", p.Calls)
			}
		}
	}
}
