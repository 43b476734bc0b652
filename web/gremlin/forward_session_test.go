package gremlin_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
	"github.com/skerrydb/skerry/web/gremlin"
)

// TestForwardedSession: a transaction that begins on a follower is at the leader as a
// whole, and ends there in each of the ways in which sessions end.
func TestForwardedSession(t *testing.T) {
	f := newFleet(t, 2, gremlin.Options{})
	back, d := f.nodes[1].back, f.nodes[2].dial()
	d.expect(d.in("s", int32(1)), 200)
	d.expect(d.in("s"), 204)
	d.expect(d.tx("s", "commit"), 204)
	d.expect(d.tx("s", "commit"), 204) // of nothing
	d.expect(d.in("s"), 204)
	d.expect(d.tx("s", "rollback"), 204)
	d.expect(d.send("eval", "session", "session", "s", "gremlin", "g.tx().begin()"), 204)
	d.expect(d.send("eval", "session", "session", "s", "gremlin", "g.inject(1)"), 200)
	d.expect(d.send("eval", "session", "session", "s", "gremlin", "g.tx().commit()"), 204)
	d.expect(d.send("eval", "session", "session", "s", "gremlin", "g.inject(1)", "manageTransaction", true), 200)
	d.expect(d.in("s"), 204)
	d.expect(d.send("close", "session", "session", "s"), 204)
	d.expect(d.in("s"), 204)
	_ = d.ws.CloseNow()
	want := "begin social, commit, begin social, rollback, begin g, commit, begin g, commit, begin social, rollback, begin social, rollback"
	for range strings.Count(want, "rollback") {
		back.await(t, "rollback")
	}
	if got := back.all(); got != want {
		t.Errorf("transactions at the leader: %s, want %s", got, want)
	}
	if got := f.nodes[2].back.all(); got != "" {
		t.Errorf("transactions at the follower: %s", got)
	}
}

// TestForwardedSessionErrors: an error of a request leaves the session's transaction
// open, and a panic ends it.
func TestForwardedSessionErrors(t *testing.T) {
	f := newFleet(t, 2, gremlin.Options{})
	back, d := f.nodes[1].back, f.nodes[2].dial()
	back.submit = func(context.Context, gremlin.Request, func(any, int64) error) error {
		return &gremlin.Error{Status: 500, Msg: "no"}
	}
	d.expect(d.in("s"), 500)
	back.submit = nil
	d.expect(d.in("s"), 204)
	d.expect(d.tx("s", "commit"), 204)
	if got := back.all(); got != "begin social, commit" {
		t.Errorf("after an error: %s", got)
	}
	back.submit = func(context.Context, gremlin.Request, func(any, int64) error) error { panic("in a session") }
	d.expect(d.in("s"), 500)
	back.await(t, "rollback")
	back.submit = nil
	for _, id := range []value.UUID{d.in("s"), d.tx("s", "commit")} { // no new transaction takes its place
		if p := d.expect(id, 500); !strings.Contains(p.Message, "was rolled back after an internal error") {
			t.Error(p.Message)
		}
	}
	d.expect(d.in("s"), 204)
	d.expect(d.tx("s", "commit"), 204)
}

// TestForwardedSessionBreaks: a session whose connection breaks is rolled back, and
// nothing takes its place until the client rolls back. A commit that breaks leaves the
// outcome unknown.
func TestForwardedSessionBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, gremlin.Options{PingEvery: time.Hour})
		back, d := f.nodes[1].back, f.nodes[3].dial()
		d.expect(d.in("s"), 204)
		f.cut()
		back.await(t, "rollback")
		synctest.Wait()
		d.expectCode(d.in("s"), engine.CodeNotLeader)
		d.expectCode(d.in("s"), engine.CodeNotLeader)
		d.expect(d.tx("s", "rollback"), 204)
		d.expect(d.in("s"), 204)
		f.cut()
		synctest.Wait()
		d.expectCode(d.tx("s", "commit"), engine.CodeNotLeader) // it was not sent

		d.expect(d.in("s"), 204)
		back.submit = back.blocked
		q := d.in("s")
		back.await(t, "running")
		f.lead(2) // and node 1 does not answer
		d.expectCode(q, engine.CodeNotLeader)
		back.await(t, "rollback")
		d.expect(d.tx("s", "rollback"), 204)

		next := f.nodes[2].back
		d.expect(d.in("s"), 204)
		next.committing = func(ctx context.Context) error {
			next.note("committing")
			<-ctx.Done()
			return ctx.Err()
		}
		q = d.tx("s", "commit")
		next.await(t, "committing")
		f.cut()
		d.expectCode(q, engine.CodeOutcomeUnknown)
	})
}

// TestForwardedSessionStops: a leader that stops says so to the sessions that it has.
func TestForwardedSessionStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, gremlin.Options{PingEvery: time.Hour})
		back, d := f.nodes[1].back, f.nodes[3].dial()
		d.expect(d.in("a"), 204)
		d.expect(d.in("b"), 204)
		go f.nodes[1].stop()
		back.await(t, "rollback")
		back.await(t, "rollback")
		f.lead(2)
		d.expectCode(d.tx("a", "commit"), engine.CodeNotLeader)
		d.expectCode(d.in("b"), engine.CodeNotLeader)
		d.expectCode(d.tx("b", "commit"), engine.CodeNotLeader)
		d.expect(d.in("a"), 204)
		d.expect(d.tx("a", "commit"), 204)
		if got := f.nodes[2].back.all(); got != "begin social, commit" {
			t.Errorf("at the new leader: %s", got)
		}
	})
}

// TestForwardedSessionTimes: the follower keeps the times of sessions.
func TestForwardedSessionTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, gremlin.Options{PingEvery: time.Hour, SessionIdle: time.Minute, SessionLife: 3 * time.Minute})
		back, d := f.nodes[1].back, f.nodes[2].dial()
		d.expect(d.in("s"), 204)
		back.await(t, "rollback")
		synctest.Wait()
		if p := d.expect(d.in("s"), 500); !strings.Contains(p.Message, "no requests for 1m0s") {
			t.Error(p.Message)
		}
		d.expect(d.tx("s", "rollback"), 204)
		back.submit = back.blocked
		q := d.send("eval", "session", "session", "s", "gremlin", "g.inject(1)", "evaluationTimeout", int32(0))
		if p := d.expect(q, 500); !strings.Contains(p.Message, "open for 3m0s") {
			t.Error(p.Message)
		}
		back.await(t, "rollback")
	})
}

// TestForwardedSessionsBound: the leader bounds the sessions of all nodes.
func TestForwardedSessionsBound(t *testing.T) {
	f := newFleet(t, 3, gremlin.Options{MaxSessions: 2})
	a, b := f.nodes[2].dial(), f.nodes[3].dial()
	a.expect(a.in("x"), 204)
	a.expect(a.in("y"), 204)
	b.expect(b.in("x"), 429)
	a.expect(a.tx("x", "commit"), 204)
	b.expect(b.in("x"), 204)
	_ = a.ws.CloseNow()
	f.nodes[1].back.await(t, "rollback")
}

// TestForwardUpstreams: requests beyond the bound of connections wait.
func TestForwardUpstreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, gremlin.Options{PingEvery: time.Hour, Upstreams: 2})
		d, back, leave := f.nodes[2].dial(), f.nodes[1].back, make(chan struct{})
		back.submit = func(context.Context, gremlin.Request, func(any, int64) error) error {
			<-leave
			return nil
		}
		for range 5 {
			d.inject()
		}
		synctest.Wait()
		if got := f.nodes[1].runs(); got != 2 {
			t.Errorf("%d requests run, want 2", got)
		}
		close(leave)
		for range 5 {
			if p := d.receive(); p.Status != 204 {
				t.Errorf("%d %s", p.Status, p.Message)
			}
		}
	})
}

// TestNodeFrames: what no node sends closes the connection, and a request of a form
// that is not known is refused.
func TestNodeFrames(t *testing.T) {
	f := newFleet(t, 1, gremlin.Options{MaxMessageBytes: 1000})
	frame := func(body ...byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	for name, c := range map[string]struct {
		sent   []byte
		closed bool
	}{
		"ping":                   {frame('p', 0, 0, 0, 0, 0), false},
		"an unknown form":        {frame('s', 99, 0, 0, 0, 0), false},
		"a malformed request":    {frame('s', 1, 0, 0, 0, 0, 1, 2, 3), false},
		"a malformed POST":       {frame('s', 0x12, 0, 0, 0, 0, '['), false},
		"a POST of 4.0":          {frame('s', 0x15, 0, 0, 0, 0, '{', '}'), false},
		"4.0, but no POST":       {frame('s', 5, 0, 0, 0, 0, 0x84, 0, 0, 0, 0, 0, 0, 0, 1, 'g'), false},
		"in no session":          {frame('t', 2, 0, 0, 0, 0, '{', '}'), false},
		"commit of nothing":      {frame('c', 0, 0, 0, 0, 0), false},
		"rollback of nothing":    {frame('r', 0, 0, 0, 0, 0), false},
		"an unknown kind":        {frame('?', 0, 0, 0, 0, 0), true},
		"nothing":                {append(frame(), 's'), true},
		"no fields":              {frame('s'), true},
		"a text that is missing": {frame('s', 1, 0, 0, 200, 1), true},
		"too long":               {frame(append([]byte("s"), make([]byte, 100_000)...)...), true},
		"a huge number":          {frame(append([]byte("s"), bytes.Repeat([]byte{0xff}, 20)...)...), true},
		"the end of the world":   {[]byte{0xff, 0xff, 0xff, 0xff, 's'}, true},
	} {
		c1, err := f.nodes[1].ln.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		go c1.Write(c.sent)
		var head [4]byte
		_, err = io.ReadFull(c1, head[:])
		if closed := err == io.EOF || err == io.ErrClosedPipe; closed != c.closed {
			t.Errorf("%s: %v, want closed %v", name, err, c.closed)
		}
		c1.Close()
	}
}

// fakeAnswers serves connections of nodes as no node does. After the answers it closes
// them, or is silent.
func fakeAnswers(t *testing.T, f *fleet, node uint64, silent bool, answers ...[]byte) {
	t.Helper()
	f.nodes[node].stop()
	ln := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	f.nodes[node].ln = ln
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 1<<20)
				for _, b := range answers {
					if _, err := c.Read(buf); err != nil {
						return
					}
					if _, err := c.Write(b); err != nil {
						return
					}
				}
				if silent {
					_, _ = io.Copy(io.Discard, c)
				}
			}()
		}
	}()
}

var pong = []byte{0, 0, 0, 7, 'e', 0xcc, 0x01, 0, 0, 0, 0}

// TestForwardIdle: a connection that was idle has to answer a ping, so that a write is
// not lost on one that no longer works. One that is idle for long is closed.
func TestForwardIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, gremlin.Options{PingEvery: time.Hour})
		fakeAnswers(t, f, 1, true, pong, pong) // a ping and one request
		d := f.nodes[2].dial()
		for _, c := range []struct{ after, takes time.Duration }{{0, 0}, {time.Second, 3 * time.Second}, {time.Minute, 0}} {
			time.Sleep(c.after)
			begin := time.Now()
			d.expect(d.inject(), 204)
			if took := time.Since(begin); took < c.takes || took > c.takes+time.Second/2 {
				t.Errorf("a write after %v took %v, want %v", c.after, took, c.takes)
			}
		}
	})
}

// TestNodeAnswers: what no leader answers leaves the outcome unknown.
func TestNodeAnswers(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing":         nil,
		"an unknown kind": {0, 0, 0, 7, '?', 0xcc, 0x01, 0, 0, 0, 0},
		"no fields":       {0, 0, 0, 1, 'e'},
		"half":            {0, 0, 0, 7, 'e', 0xcc},
		"too long":        {0xff, 0xff, 0xff, 0xff, 'e'},
	} {
		f := newFleet(t, 2, gremlin.Options{})
		fakeAnswers(t, f, 1, false, pong, b)
		d := f.nodes[2].dial()
		p := d.expectCode(d.inject(), engine.CodeOutcomeUnknown)
		if !strings.Contains(p.Message, "may or may not") {
			t.Errorf("%s: %s", name, p.Message)
		}
	}
}

// TestNodeParts: a node that stops says so, and does not look at what was sent to it
// meanwhile.
func TestNodeParts(t *testing.T) {
	f := newFleet(t, 1, gremlin.Options{})
	c, err := f.nodes[1].ln.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	read := func() string {
		t.Helper()
		var head [4]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	send := func(b string) {
		t.Helper()
		if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)); err != nil {
			t.Fatal(err)
		}
	}
	send("p\x00\x00\x00\x00\x00")
	if got := read(); got != string(pong[4:]) {
		t.Errorf("a ping is answered with %q", got)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		f.nodes[1].stop()
	}()
	if got := read(); !strings.Contains(got, string(engine.CodeNotLeader)) {
		t.Errorf("it says %q", got)
	}
	send("s\x12\x00\x00\x00\x00" + `{"gremlin": "g.inject(1)"}`)
	c.Close()
	<-stopped
	if got := f.nodes[1].back.all(); got != "" {
		t.Errorf("it ran: %s", got)
	}
}
