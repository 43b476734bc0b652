package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/resp/wire"
)

// chaos makes connections that break at random points.
type chaos struct {
	mu   sync.Mutex
	rng  *rand.Rand
	off  atomic.Bool
	cuts atomic.Int64
}

func (c *chaos) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

func (c *chaos) dial(ctx context.Context, addr string) (net.Conn, error) {
	if !c.off.Load() && c.draw(4) == 0 {
		return nil, fmt.Errorf("chaos: no connection today")
	}
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &brittle{Conn: nc, c: c}, nil
}

// brittle is a connection that breaks.
type brittle struct {
	net.Conn
	c      *chaos
	writes atomic.Int64
}

func (b *brittle) Write(p []byte) (int, error) {
	if b.writes.Add(1) > 1 && !b.c.off.Load() && b.c.draw(8) == 0 {
		b.c.cuts.Add(1)
		n, _ := b.Conn.Write(p[:b.c.draw(len(p)+1)])
		b.Conn.Close()
		return n, fmt.Errorf("chaos: cut after %d bytes", n)
	}
	return b.Conn.Write(p)
}

func (b *brittle) Read(p []byte) (int, error) {
	if !b.c.off.Load() {
		p = p[:1+b.c.draw(len(p))]
	}
	n, err := b.Conn.Read(p)
	if n > 0 && b.writes.Load() > 1 && !b.c.off.Load() && b.c.draw(40) == 0 {
		b.c.cuts.Add(1)
		b.Conn.Close()
		return b.c.draw(n), fmt.Errorf("chaos: cut while reading")
	}
	return n, err
}

// ledger is shared by the servers of TestChaos and counts how often each call ran.
type ledger struct {
	mu   sync.Mutex
	ran  map[string]int
	rng  *rand.Rand
	keys map[string]bool
}

func (l *ledger) answer(w *wire.Writer, _ int, args [][]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := args[len(args)-1]
	chance := l.rng.IntN(50)
	switch chance {
	case 0:
		w.Error("CLUSTERDOWN nobody leads; nothing was written [not_leader]")
		return true
	case 1:
		w.Push(2) // of an unknown kind
		w.BulkString("news")
		w.Int(1)
	}
	if string(args[0]) != "CALLONCE" || !l.keys[string(args[1])] {
		l.ran[string(last)]++
	}
	if string(args[0]) == "CALLONCE" {
		l.keys[string(args[1])] = true
	}
	if chance == 2 { // as from a deposed leader
		w.Error("UNKNOWN it may or may not have run [outcome_unknown]")
		return true
	}
	w.Bulk(last)
	return true
}

// TestChaos breaks connections at arbitrary bytes. Every call ends once, with its own reply
// or an error. No call runs twice, acknowledged calls have run, and calls reported as not
// sent have not. All calls with a key succeed, except those that broke MaxBrokenSends
// connections.
func TestChaos(t *testing.T) {
	noLeaks(t)
	s := seed.Of(t)
	l := &ledger{ran: map[string]int{}, keys: map[string]bool{}, rng: rand.New(rand.NewPCG(s, 1))}
	ch := &chaos{rng: rand.New(rand.NewPCG(s, 2))}
	var addrs []string
	for range 3 {
		addrs = append(addrs, startFake(t, l.answer).addr())
	}
	c := open(t, client.Options{Addrs: addrs, Conns: 2, MaxInFlight: 500, Dial: ch.dial, Timeout: patience, MaxBackoff: 20 * time.Millisecond})
	var plain, once tally
	var suspects atomic.Int64
	var mu sync.Mutex
	acked := map[string]bool{}
	const callers, each = 8, 500
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for k := range each {
				word := fmt.Sprint(i, "-", k)
				done := plain.callback()
				then := func(res client.Result, err error) {
					if got, _ := res.Bytes(); err == nil && !bytes.Equal(got, []byte(word)) {
						t.Errorf("%s got the reply %q", word, got)
					}
					mu.Lock()
					acked[word] = err == nil
					mu.Unlock()
					done(res, err)
				}
				switch k % 3 {
				case 0:
					if err := c.CallAsync(background, then, "p", word); err != nil {
						t.Error(err)
					}
				case 1:
					res, err := c.Call(background, "p", word)
					then(res, err)
				default:
					key := client.NewKey()
					ended := once.callback()
					if err := c.CallOnceAsync(background, func(res client.Result, err error) {
						then(res, err)
						if errors.Is(err, client.ErrOutcomeUnknown) && strings.Contains(err.Error(), "the connection broke twice") {
							suspects.Add(1)
						}
						ended(res, err)
					}, key, "p", word); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	plain.all.Wait()
	once.all.Wait()
	ch.off.Store(true)
	checkLedger(t, l, acked, &plain, callers*each)
	if once.unknown.Load() != suspects.Load() || once.other.Load() > 0 {
		t.Errorf("%d calls with a key have an unknown outcome, %d for two breaks, %d failed", once.unknown.Load(), suspects.Load(), once.other.Load())
	}
	st := c.Stats()
	t.Logf("%d cuts, %d ok, %d unknown, %d sent again", ch.cuts.Load(), plain.ok.Load(), plain.unknown.Load(), st.Retries)
	if ch.cuts.Load() < 10 || plain.unknown.Load() == 0 || st.Retries == 0 {
		t.Error("too few cuts, unknown outcomes or retries for the test to mean anything")
	}
}

func checkLedger(t *testing.T, l *ledger, acked map[string]bool, s *tally, calls int64) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for word, n := range l.ran {
		if n > 1 {
			t.Errorf("%s ran %d times", word, n)
		}
	}
	for word, ok := range acked {
		if ok && l.ran[word] == 0 {
			t.Errorf("%s was acknowledged and did not run", word)
		}
	}
	if s.twice.Load() > 0 || s.ok.Load()+s.unknown.Load() != calls {
		t.Errorf("%d ok, %d unknown, %d other, %d twice, of %d", s.ok.Load(), s.unknown.Load(), s.other.Load(), s.twice.Load(), calls)
	}
}
