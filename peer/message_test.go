package peer

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/ports"
)

// TestMessages: what one node sends arrives at the other, once and in order,
// short and long, both ways, although the memory of each is used again at once.
func TestMessages(t *testing.T) {
	ids := identities(t, 2)
	var written atomic.Int64
	reuse := func(o *Options) {
		o.Written = func(msg []byte) {
			for i := range msg {
				msg[i] = 0xdb
			}
			written.Add(1)
		}
	}
	a, b := open(t, ids[0], reuse), open(t, ids[1], reuse)
	join(t, a, b)
	sizes := []int{0, 1, 100, recordBytes, pieceBytes - 1, pieceBytes, pieceBytes + 1, 3*pieceBytes + 5, 9 << 20}
	var want [][]byte
	for round := range 200 {
		n := round
		if round < len(sizes) {
			n = sizes[round]
		}
		want = append(want, pattern(n))
	}
	for _, m := range want {
		eventually.True(t, "room at a", func() bool { return a.Send(2, bytes.Clone(m)) })
		eventually.True(t, "room at b", func() bool { return b.Send(1, bytes.Clone(m)) })
	}
	for _, r := range []struct {
		at   *running
		from uint64
	}{{a, 2}, {b, 1}} {
		eventually.True(t, "all messages", func() bool { return len(r.at.from(r.from)) >= len(want) })
		for i, m := range r.at.from(r.from) {
			if !bytes.Equal(m, want[i]) {
				t.Fatalf("message %d from node %d: %d bytes, want %d", i, r.from, len(m), len(want[i]))
			}
		}
	}
	eventually.True(t, "the memory of all messages", func() bool { return written.Load() == 2*int64(len(want)) })
	eventually.True(t, "the metrics", func() bool { return a.state(2).Sent == uint64(len(want)) })
	if s := b.state(1); s.Received != uint64(len(want)) || s.ReceivedBytes != a.state(2).SentBytes {
		t.Errorf("received %d messages with %d bytes, sent %d with %d", s.Received, s.ReceivedBytes, len(want), a.state(2).SentBytes)
	}
}

// TestQueueLimits: over a limit Send refuses, and one message always fits.
func TestQueueLimits(t *testing.T) {
	ids := identities(t, 2)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	a := open(t, ids[0], func(o *Options) { o.Queue, o.QueueBytes, o.MessageBytes = 3, 1000, 5000 })
	if a.Send(2, []byte("x")) {
		t.Error("a message for an unknown node was accepted")
	}
	a.SetPeers(map[uint64]string{2: silent.Addr().String()})
	for i, c := range []struct {
		bytes int
		want  bool
	}{{5001, false}, {5000, true}, {1, false}} {
		if a.Send(2, make([]byte, c.bytes)) != c.want {
			t.Errorf("message %d of %d bytes: accepted is %v", i, c.bytes, !c.want)
		}
	}
	if s := a.state(2); s.Queue != 1 || s.QueueBytes != 5000 || s.Dropped != 1 {
		t.Errorf("queue %d, %d bytes, %d dropped", s.Queue, s.QueueBytes, s.Dropped)
	}
	a.SetPeers(nil)
	a.SetPeers(map[uint64]string{2: silent.Addr().String()})
	for i, want := range []bool{true, true, true, false} {
		if a.Send(2, []byte("x")) != want {
			t.Errorf("message %d of a queue of three: accepted is %v", i, !want)
		}
	}
}

// TestMessageTooLong: a receiver with a lower limit ends the connection and says
// why in its log; it does not take the message in.
func TestMessageTooLong(t *testing.T) {
	ids := identities(t, 2)
	a, b := open(t, ids[0], nil), open(t, ids[1], func(o *Options) { o.MessageBytes = 1 << 20 })
	join(t, a, b)
	if !a.Send(2, make([]byte, 2<<20)) {
		t.Fatal("not accepted")
	}
	eventually.True(t, "the log", func() bool { return b.log.has("a message has 2097152 bytes, at most 1048576") })
	eventually.True(t, "the loss", func() bool { return a.downs(2) == 1 })
	eventually.True(t, "the next connection", func() bool { return a.Send(2, []byte("short")) })
	eventually.True(t, "the next message", func() bool { return len(b.from(1)) == 1 })
}

// TestUrgent: a small message goes out between the pieces of a long one.
func TestUrgent(t *testing.T) {
	ids := identities(t, 2)
	a, b := open(t, ids[0], nil), open(t, ids[1], nil)
	join(t, a, b)
	for round := 0; ; round++ {
		before := len(b.from(1))
		if !a.Send(2, make([]byte, 48<<20)) {
			t.Fatal("the long message was not accepted")
		}
		eventually.True(t, "the long message to be begun", func() bool { return a.state(2).Queue == 0 })
		if !a.Urgent(2, []byte("now")) {
			t.Fatal("the urgent message was not accepted")
		}
		eventually.True(t, "both", func() bool { return len(b.from(1)) == before+2 })
		if string(b.from(1)[before]) == "now" {
			return
		}
		if round == 10 { // the long one may have been quicker once
			t.Fatal("the urgent message came last ten times")
		}
	}
}

// TestRestart: a node that restarts is connected again at once, and the loss of the
// connection is reported.
func TestRestart(t *testing.T) {
	ids, addr := identities(t, 2), ports.Addr(t)
	at := func(o *Options) { o.Addr = addr }
	a, b := open(t, ids[0], nil), open(t, ids[1], at)
	join(t, a, b)
	b.Close()
	eventually.True(t, "the loss", func() bool { return a.downs(2) == 1 && !a.state(2).Connected })
	if a.Send(2, []byte("lost")) {
		t.Error("a message for a lost node was accepted")
	}
	if s := a.state(2); s.Error == "" || s.Since.IsZero() || s.Dropped != 1 {
		t.Errorf("%+v", s)
	}
	b2 := open(t, ids[1], at)
	join(t, a, b2)
	if !a.Send(2, []byte("again")) {
		t.Fatal("not accepted")
	}
	eventually.True(t, "the message", func() bool { return len(b2.from(1)) == 1 })
	if n := a.downs(2); n != 1 {
		t.Errorf("one loss was reported %d times", n)
	}
}

// TestRemoved: a node that is no longer in the table is cut off.
func TestRemoved(t *testing.T) {
	ids := identities(t, 2)
	a := open(t, ids[0], nil)
	removed := make(chan struct{})
	b := open(t, ids[1], func(o *Options) {
		o.Check = func(h Hello) error {
			select {
			case <-removed:
				return errRemoved
			default:
				return nil
			}
		}
	})
	join(t, a, b)
	close(removed)
	b.SetPeers(map[uint64]string{})
	eventually.True(t, "the refusal", func() bool { return a.state(2).Error != "" && !a.state(2).Connected })
	eventually.True(t, "its text", func() bool { return a.log.has("refused by the other node: node 1 was removed") })
	if b.Send(1, []byte("x")) {
		t.Error("a message for a removed node was accepted")
	}
}

type constError string

func (e constError) Error() string { return string(e) }

const errRemoved = constError("node 1 was removed")

// TestHalfOpen: a connection through which nothing comes any more is given up by
// both ends, in both directions, though nobody has closed it.
func TestHalfOpen(t *testing.T) {
	ids := identities(t, 2)
	quick := func(o *Options) { o.IdleTimeout = 600 * time.Millisecond }
	a, b := open(t, ids[0], quick), open(t, ids[1], quick)
	toB := newProxy(t, b.Addr())
	a.SetPeers(map[uint64]string{2: toB.Addr().String()})
	eventually.True(t, "the connection", func() bool { return a.state(2).Connected && b.state(1).Inbound })
	eventually.True(t, "the round trip", func() bool { return a.state(2).RTT > 0 })
	toB.hold(true)
	eventually.True(t, "the sender to give up", func() bool { return a.downs(2) > 0 })
	eventually.True(t, "the receiver to give up", func() bool { return !b.state(1).Inbound })
	toB.hold(false)
	eventually.True(t, "the next connection", func() bool { return a.state(2).Connected && b.state(1).Inbound })
}

// TestIdle: a connection without messages stays, because both sides show that
// they are alive.
func TestIdle(t *testing.T) {
	ids := identities(t, 2)
	quick := func(o *Options) { o.IdleTimeout = 3 * time.Second } // shorter, a starved machine looks like a silent peer
	a, b := open(t, ids[0], quick), open(t, ids[1], quick)
	join(t, a, b)
	rtt, changed := a.state(2).RTT, 0
	eventually.True(t, "seven beats, each a sixth of the timeout", func() bool {
		if now := a.state(2).RTT; now != rtt {
			rtt = now
			changed++
		}
		return changed == 7
	})
	if a.downs(2)+b.downs(1) > 0 {
		t.Error("an idle connection was given up")
	}
}

// TestTable: links whose address stays the same are not touched, others are replaced.
func TestTable(t *testing.T) {
	ids := identities(t, 3)
	a, b, c := open(t, ids[0], nil), open(t, ids[1], nil), open(t, ids[2], nil)
	join(t, a, b, c)
	before := a.link(2)
	a.SetPeers(map[uint64]string{1: a.Addr(), 2: b.Addr(), 3: newProxy(t, c.Addr()).Addr().String()})
	if a.link(2) != before {
		t.Error("an unchanged link was replaced")
	}
	eventually.True(t, "the new address", func() bool { return a.state(3).Connected })
	for i := range uint32(1000) {
		if !a.Send(3, binary.BigEndian.AppendUint32(nil, i)) {
			t.Fatal("not accepted")
		}
	}
	eventually.True(t, "all messages", func() bool { return len(c.from(1)) == 1000 })
	for i, m := range c.from(1) {
		if binary.BigEndian.Uint32(m) != uint32(i) {
			t.Fatalf("message %d is %d", i, binary.BigEndian.Uint32(m))
		}
	}
}
