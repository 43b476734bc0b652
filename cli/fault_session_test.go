package cli

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/workload/history"
)

// sessionStep follows one session from node to node: what it has written and read
// it reads again, though it reads at level session.
func sessionStep(addrs []string, rng *rand.Rand) func(*worker, context.Context) {
	s := &sessionClient{addrs: addrs, at: rng.IntN(len(addrs))}
	return func(w *worker, ctx context.Context) {
		if err := s.step(w, ctx); err != nil {
			s.c.close()
			s.at = (s.at + 1) % len(addrs)
		}
		if w.rng.IntN(20) == 0 {
			s.c.close()
			s.at = w.rng.IntN(len(addrs))
		}
	}
}

type sessionClient struct {
	c     plainClient
	addrs []string
	at    int
	pos   int64
	sent  int
	view  sessionView
}

func (s *sessionClient) step(w *worker, ctx context.Context) error {
	key := fmt.Sprintf("session/%d", w.id)
	if s.c.conn == nil {
		s.c.addr = s.addrs[s.at]
		s.view.resume()
		for _, args := range [][]string{{"CLIENT", "READ", "SESSION"}, {"CLIENT", "POSITION", fmt.Sprint(s.pos)}} {
			if _, err := s.c.do(ctx, args...); err != nil {
				return err
			}
		}
	}
	if w.rng.IntN(2) == 0 {
		call := int64(time.Since(w.began))
		s.sent++
		if _, err := s.c.do(ctx, "SET", key, fmt.Sprint(s.sent)); err != nil {
			if out, known := outcomeOf(err); !known {
				w.fault("%s: SET: %v", w.name, err)
			} else if out == history.Unknown {
				s.view.unanswered(s.sent)
				w.unk++
			}
			return err
		}
		s.view.wrote(s.sent)
		w.ok++
		w.wrote(call)
	} else {
		v, err := s.c.do(ctx, "GET", key)
		if err != nil {
			return err
		}
		n := 0
		fmt.Sscan(valueOf(v).Text, &n)
		if !s.view.read(n) {
			w.fault("%s: node %d shows %d after position %d; the session allows %v", w.name, s.at+1, n, s.pos, &s.view)
		}
	}
	v, err := s.c.do(ctx, "CLIENT", "POSITION")
	if err != nil {
		return err
	}
	s.pos = v.(int64)
	s.view.keep()
	return nil
}

// sessionView is what a session may read from the one key that only it writes, each time another number. A
// write without an answer may take effect at any later time, even after an answered one: a node that waits for
// a leader longer than its client waits for the reply passes it on late.
type sessionView struct {
	last    int          // the value last written or read
	pending map[int]bool // writes without an answer whose value was not read
	kept    int          // last at the position that the session resumes from
	since   []int        // what was written or read since that position
}

func (v *sessionView) String() string {
	return fmt.Sprintf("%d, or %v of writes without an answer", v.last, slices.Sorted(maps.Keys(v.pending)))
}

func (v *sessionView) wrote(n int) {
	v.last = n
	v.since = append(v.since, n)
}

func (v *sessionView) unanswered(n int) {
	if v.pending == nil {
		v.pending = map[int]bool{}
	}
	v.pending[n] = true
}

// read takes a value that was read, and reports whether the session may see it.
func (v *sessionView) read(n int) bool {
	if n == v.last {
		return true
	}
	if !v.pending[n] {
		return false
	}
	delete(v.pending, n)
	v.wrote(n)
	return true
}

// keep notes that the session has the position of everything it has written and read.
func (v *sessionView) keep() { v.kept, v.since = v.last, v.since[:0] }

// resume goes back to the last position. What was written or read after it may be seen again, or not yet.
func (v *sessionView) resume() {
	for _, n := range v.since {
		v.unanswered(n)
	}
	v.last, v.since = v.kept, v.since[:0]
}

func TestSessionView(t *testing.T) {
	var v sessionView
	want := func(n int, ok bool) {
		t.Helper()
		if v.read(n) != ok {
			t.Fatalf("reading %d: want %v; the session allows %v", n, ok, &v)
		}
	}
	want(0, true)
	v.wrote(1)
	want(0, false)
	want(1, true)
	v.keep()
	v.unanswered(2)
	v.wrote(3)
	want(1, false)
	want(3, true)
	want(2, true) // late
	want(3, false)
	want(2, true)
	v.keep()
	v.wrote(4)
	v.resume() // 4 was answered, but its position is not known
	want(2, true)
	want(4, true)
	want(2, false)
	v.resume() // nor is the position of the read
	want(2, true)
	want(4, true)
	want(3, false)
}
