package resp

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/resp/wire"
)

// TestNodeLimits checks that connections between nodes over the limits are rejected, and
// that commands wait as for an election.
func TestNodeLimits(t *testing.T) {
	none := struct{ engine.Cluster }{} // its methods are not called: nothing is dialed
	srv := newTestServer(t, openEngine(t), nil, Options{Cluster: none, ElectionWait: 20 * time.Millisecond})
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := newConn(srv, ours, 1, fromClient)
	defer c.kill()
	for range MaxUpstreams {
		srv.ups.slots <- struct{}{}
	}
	if _, err := srv.ups.get(c, 2); engine.CodeOf(err) != engine.CodeNotLeader || !engine.Retryable(err) {
		t.Errorf("over the limit of upstreams: %v", err)
	}
	for i := range int64(MaxNodeConns - 1) {
		srv.nodeConns[-1-i] = nil
	}
	for _, want := range []bool{true, false} {
		ours, theirs := net.Pipe()
		c := srv.newNodeConn(ours)
		if (c != nil) != want {
			t.Fatalf("accepted: %v, want %v", c != nil, want)
		}
		if c == nil {
			if _, err := theirs.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("a refused connection: %v", err)
			}
		}
		theirs.Close()
	}
}

// TestHeldChanges: while a write is forwarded, it is not known who made a change. The
// change is reported afterwards if it was another client's.
func TestHeldChanges(t *testing.T) {
	x := newTrackerTest(t)
	x.s.noloop = true
	x.c.track.noloop, x.c.track.session = true, x.s
	read := func() {
		x.begin("k")
		x.confirm("k", 1)
	}
	read()
	x.c.track.bufferChanges()
	x.change("k", 5)
	x.want("a change while a write is forwarded", 0)
	x.c.track.wroteMicro(5)
	x.c.releaseBuffered()
	x.want("it was made by the connection itself", 0)
	read()
	x.c.track.bufferChanges()
	x.change("k", 6)
	x.c.releaseBuffered()
	x.want("it was made by another client", 1)
	x.c.track.bufferChanges()
	for i := range engine.Position(maxBuffered + 1) {
		read()
		x.change("k", 10+i)
	}
	x.want("a change too many to be buffered", 1)
	x.c.releaseBuffered()
	x.want("and those that were buffered", maxBuffered)
}

// TestGoodbyeBeforeReply: a node that leaves sends one goodbye. It can arrive where the
// reply to a HELLO or SELECT was expected, and still counts as the reply.
func TestGoodbyeBeforeReply(t *testing.T) {
	for skips := range 4 {
		ours, theirs := net.Pipe()
		u := &upstream{nc: ours, rd: wire.NewReplies(ours, new(wire.Buffers), 0), skips: []int{skips}}
		go func() {
			var w wire.Writer
			if skips == 3 {
				w.OK()
			}
			w.Error("CLUSTERDOWN this node does not lead [not_leader]")
			theirs.Write(w.Buf)
			theirs.Close()
		}()
		if reply, err := u.replyTo(nil, 0); err != nil || !isNotLeader(reply) {
			t.Errorf("after %d others: %q, %v", skips, reply, err)
		}
		u.close()
	}
}
