package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/resp/wire"
)

// twoNodes is a cluster of two fakes that report the topology that a test chooses.
type twoNodes struct {
	list  [2]*fake
	seen  [2]atomic.Int64
	reply [2]atomic.Pointer[func(w *wire.Writer)] // writes something before a reply, or in place of it
}

func startTwo(tb testing.TB) *twoNodes {
	n := &twoNodes{}
	for i := range n.list {
		n.list[i] = startFake(tb, func(w *wire.Writer, _ int, args [][]byte) bool {
			n.seen[i].Add(1)
			if fn := n.reply[i].Swap(nil); fn != nil {
				length := len(w.Buf)
				if (*fn)(w); w.Buf[length] != wire.KindPush {
					return true
				}
			}
			return last(w, 0, args)
		})
	}
	n.tell(0)
	return n
}

// tell makes both report node i as the leader.
func (n *twoNodes) tell(i int) {
	for me, f := range n.list {
		text := ""
		for k, other := range n.list {
			flags := "slave"
			if k == i {
				flags = "master"
			}
			if k == me {
				flags = "myself," + flags
			}
			text += fmt.Sprintf("%040d %s@0 %s - 0 0 1 connected\n", k, other.addr(), flags)
		}
		f.nodes.Store(text)
	}
}

func (n *twoNodes) next(i int, fn func(w *wire.Writer)) { n.reply[i].Store(&fn) }

// pushLeader appends the push that names a new leader.
func pushLeader(w *wire.Writer, addr string) {
	host, port, _ := net.SplitHostPort(addr)
	p, _ := strconv.Atoi(port) // of a listener
	w.Push(4)
	w.BulkString("leader")
	w.BulkString("id")
	w.BulkString(host)
	w.Int(int64(p))
}

func echo(tb testing.TB, c *client.Client, word string) {
	tb.Helper()
	res, err := c.Call(background, "echo", word)
	echoed(tb, res, err, word)
}

// TestAffinity checks that calls go to the node that is reported as the leader.
func TestAffinity(t *testing.T) {
	noLeaks(t)
	n := startTwo(t)
	n.tell(1)
	c := open(t, client.Options{Addrs: []string{n.list[0].addr()}})
	eventually.True(t, "it goes to the leader that was learned", func() bool { return c.Stats().Leader == n.list[1].addr() })
	echo(t, c, "a")
	if n.seen[0].Load() != 0 || n.seen[1].Load() != 1 {
		t.Errorf("the nodes saw %d and %d calls", n.seen[0].Load(), n.seen[1].Load())
	}
	n.next(1, func(w *wire.Writer) { pushLeader(w, n.list[0].addr()) })
	echo(t, c, "b")
	if got := c.Stats().Leader; got != n.list[0].addr() {
		t.Errorf("after the push calls go to %s", got)
	}
	echo(t, c, "c")
	if n.seen[0].Load() != 1 {
		t.Error("the call after the push did not go to the new leader")
	}
	// A leader that cannot be reached: the node that forwards keeps the calls.
	n.next(0, func(w *wire.Writer) { pushLeader(w, unused(t)) })
	echo(t, c, "d")
	echo(t, c, "e")
	if n.seen[0].Load() != 3 {
		t.Error("calls do not go to the node that can be reached")
	}
	// "not the leader" is retried on the leader.
	n.tell(1)
	n.next(0, func(w *wire.Writer) { w.Error("CLUSTERDOWN this node does not lead [not_leader]") })
	echo(t, c, "f")
	eventually.True(t, "it has found the leader", func() bool { return c.Stats().Leader == n.list[1].addr() })
	if got := c.Stats().Retries; got == 0 {
		t.Error("no call was sent again")
	}
	// Without time left, the call returns the error itself.
	n.tell(0)
	short := open(t, client.Options{Addrs: []string{n.list[0].addr()}, Timeout: time.Nanosecond})
	n.next(0, func(w *wire.Writer) { w.Error("CLUSTERDOWN this node does not lead [not_leader]") })
	if err := short.Ping(background); err == nil {
		t.Error("no error without time")
	}
}

// TestFailOver checks that the calls of a node that dies move to the other one.
func TestFailOver(t *testing.T) {
	noLeaks(t)
	n := startTwo(t)
	c := open(t, client.Options{Addrs: []string{n.list[0].addr(), n.list[1].addr()}})
	echo(t, c, "a")
	n.tell(1)
	n.list[0].l.Close()
	n.list[0].cut()
	eventually.True(t, "the other node is used", func() bool {
		res, err := c.Call(background, "echo", "b")
		if err != nil && !errors.Is(err, client.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		got, _ := res.Text()
		return got == "b" && c.Stats().Leader == n.list[1].addr()
	})
}

// TestHugeReply checks that a reply over the limit fails its call, and that the next
// connection works.
func TestHugeReply(t *testing.T) {
	noLeaks(t)
	f := startFake(t, func(w *wire.Writer, _ int, args [][]byte) bool {
		if words(args) == "CALL huge" {
			w.Bulk(make([]byte, 2<<20))
			return true
		}
		return last(w, 0, args)
	})
	c := open(t, client.Options{Addrs: []string{f.addr()}, MaxReplyBytes: 1 << 20})
	if _, err := c.Call(background, "huge"); !errors.Is(err, client.ErrLimit) {
		t.Errorf("a huge reply: %v", err)
	}
	echo(t, c, "after")
	large := open(t, client.Options{Addrs: []string{f.addr()}})
	if res, err := large.Call(background, "huge"); err != nil || len(res.Raw()) < 2<<20 {
		t.Errorf("within the limit: %d bytes, %v", len(res.Raw()), err)
	}
}

// TestDeadPeer checks that a node that stops responding loses its calls in time.
func TestDeadPeer(t *testing.T) {
	noLeaks(t)
	g := newGate()
	defer close(g.open)
	f := startFake(t, g.answer)
	c := open(t, client.Options{Addrs: []string{f.addr()}, DeadAfter: 30 * time.Millisecond, Timeout: patience})
	if _, err := c.Call(background, "echo", "x"); !errors.Is(err, client.ErrOutcomeUnknown) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call to a dead node: %v", err)
	}
	eventually.True(t, "it connects again", func() bool { return f.connections() >= 2 })
}

// TestGarbage connects to a server that does not use RESP, and to one that sends unexpected
// replies.
func TestGarbage(t *testing.T) {
	noLeaks(t)
	for _, text := range []string{"HTTP/1.1 400 Bad Request\r\n\r\n", "+OK\r\n+OK\r\n+OK\r\n", "$9\r\nabc", ""} {
		f := startFake(t, func(w *wire.Writer, _ int, _ [][]byte) bool {
			w.RawString(text)
			return text != ""
		})
		c := open(t, client.Options{Addrs: []string{f.addr()}, Timeout: 100 * time.Millisecond})
		for range 3 {
			_, err := c.Call(background, "p")
			if _, ok := errors.AsType[*client.Error](err); err != nil && !ok {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}

// TestLeaderNamedBefore checks that when the leader is lost, calls go to the node that
// their new node named last. It would not name the same one again.
func TestLeaderNamedBefore(t *testing.T) {
	noLeaks(t)
	n := startTwo(t)
	n.tell(1)
	c := open(t, client.Options{Addrs: []string{n.list[0].addr()}})
	eventually.True(t, "it goes to the leader that was learned", func() bool { return c.Stats().Leader == n.list[1].addr() })
	third := startFake(t, last)
	n.next(1, func(w *wire.Writer) { pushLeader(w, third.addr()) })
	echo(t, c, "a")
	eventually.True(t, "it goes to the third", func() bool { return c.Stats().Leader == third.addr() })
	third.l.Close()
	third.cut()
	eventually.True(t, "it goes to the one before", func() bool { return c.Stats().Leader == n.list[1].addr() })
	echo(t, c, "b")
}
