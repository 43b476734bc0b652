package resp_test

import (
	"io"
	"net"
	"strconv"
	"testing"

	"github.com/skerrydb/skerry/resp"
)

// TestTrackingWithinPipeline checks that a key that is read and then written in one
// pipeline is invalidated, because the client has read the old value.
func TestTrackingWithinPipeline(t *testing.T) {
	t.Parallel()
	c, err := net.Dial("tcp", startSkerry(t, resp.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := newPeer(c)
	for _, cmd := range [][]string{{"HELLO", "3"}, {"CLIENT", "TRACKING", "ON"}} {
		if v, err := p.do(cmd...); err != nil || v.kind == '-' {
			t.Fatal(v, err)
		}
	}
	for range 20 {
		if _, err := io.WriteString(c, "SET a 1\r\nGET k\r\nSET k 2\r\nSET b 1\r\n"); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if v, err := p.receive(); err != nil || v.kind == '-' {
				t.Fatal(v, err)
			}
		}
		if _, pushed, err := p.push(true); err != nil || !pushed {
			t.Fatalf("no word of a key that was read and then written: %v", err)
		}
	}
}

// TestBarrierOnFollower checks that a write that was forwarded to the leader and
// acknowledged has caused its invalidation on this node before a later reply, though this
// node may receive the change later.
func TestBarrierOnFollower(t *testing.T) {
	t.Parallel()
	nd := startNodes(t, 2, resp.Options{}).list[1]
	nd.lags.Store(true)
	dial := func() *peer {
		c, err := net.Dial("tcp", nd.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return newPeer(c)
	}
	do := func(p *peer, words ...string) {
		if v, err := p.do(words...); err != nil || v.kind == '-' {
			t.Fatal(words, v, err)
		}
	}
	writer, reader := dial(), dial()
	do(reader, "HELLO", "3")
	do(reader, "CLIENT", "TRACKING", "ON")
	for i := range 300 {
		do(reader, "GET", "k")
		do(writer, "SET", "k", strconv.Itoa(i))
		do(reader, "PING")
		select {
		case <-reader.pushes: // the stream is read in order, so the push came before the reply
		default:
			t.Fatalf("round %d: PONG came before the invalidation", i)
		}
	}
}
