package gremlin_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	lang "github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
	"github.com/skerrydb/skerry/web/gremlin"
)

// in sends bytecode in a session.
func (c *client) in(session string, vals ...any) value.UUID {
	c.t.Helper()
	return c.send("bytecode", "session", "gremlin", traversal(vals...), "session", session, "aliases", value.MapOf("g", "social"))
}

// tx sends what drivers send for tx().commit() and tx().rollback().
func (c *client) tx(session, what string) value.UUID {
	c.t.Helper()
	t := &lang.Traversal{Source: []lang.Call{{Name: "tx", Args: []any{what}}}}
	return c.send("bytecode", "session", "gremlin", t, "session", session)
}

func (f *fake) all() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.events, ", ")
}

// TestSession: a transaction lasts until it is committed or rolled back, and the
// session can have another one.
func TestSession(t *testing.T) {
	back := newFake()
	d := newSite(t, gremlin.Options{Backend: back}).dial()
	if p := d.expect(d.in("s", int32(1)), 200); value.Text(p.Result.(value.List)[0].(message.Traverser).Val) != "1" {
		t.Errorf("a session yields %v", p.Result)
	}
	d.expect(d.in("s"), 204)
	d.expect(d.tx("s", "commit"), 204)
	d.expect(d.tx("s", "commit"), 204) // of nothing
	d.expect(d.in("s"), 204)
	d.expect(d.tx("s", "rollback"), 204)
	d.expect(d.send("eval", "session", "session", "s", "gremlin", "g.tx().begin()"), 204)
	d.expect(d.send("eval", "session", "session", "s", "gremlin", "g.inject(1)"), 200)
	d.expect(d.send("eval", "session", "session", "s", "gremlin", "g.tx().commit()"), 204)
	d.expect(d.send("eval", "session", "session", "s", "gremlin", "g.inject(1)", "manageTransaction", true), 200)
	if p := d.expect(d.tx("s", "explode"), 499); !strings.Contains(p.Message, "expected commit or rollback") {
		t.Error(p.Message)
	}
	if got, want := back.all(), "begin social, commit, begin social, rollback, begin g, commit, begin g, commit"; got != want {
		t.Errorf("transactions: %s, want %s", got, want)
	}
}

// TestSessionEnds: what is open is rolled back when the session is closed, its
// connection ends, a traversal panics, or the server stops.
func TestSessionEnds(t *testing.T) {
	back := newFake()
	s := newSite(t, gremlin.Options{Backend: back})
	d := s.dial()
	d.expect(d.in("s"), 204)
	d.expect(d.send("close", "session", "session", "s"), 204)
	back.await(t, "rollback")
	d.expect(d.send("close", "session", "session", "s"), 204)

	d.expect(d.in("s"), 204)
	_ = d.ws.CloseNow()
	back.await(t, "rollback")

	d = s.dial()
	back.submit = func(context.Context, gremlin.Request, func(any, int64) error) error { panic("in a session") }
	d.expect(d.in("s"), 500)
	back.await(t, "rollback")
	back.submit = nil
	for _, id := range []value.UUID{d.in("s"), d.tx("s", "commit"), d.in("s")} { // no new transaction takes its place
		if p := d.expect(id, 500); !strings.Contains(p.Message, "was rolled back after an internal error") {
			t.Error(p.Message)
		}
	}
	d.expect(d.tx("s", "rollback"), 204)
	back.submit = func(_ context.Context, r gremlin.Request, _ func(any, int64) error) error {
		return &gremlin.Error{Status: 500, Msg: "no"}
	}
	d.expect(d.in("s"), 500)
	d.expect(d.send("bytecode", "session", "gremlin", traversal(), "session", "s", "manageTransaction", true), 500)
	back.await(t, "rollback")
	d.expect(d.in("s"), 500)
	go d.ws.Read(t.Context()) // answers that the connection is closed
	s.h.Close()
	back.await(t, "rollback")
}

// TestSessionOrder: requests of a session run one after the other, those of others
// at the same time.
func TestSessionOrder(t *testing.T) {
	back, leave := newFake(), make(chan struct{})
	back.submit = func(_ context.Context, r gremlin.Request, _ func(any, int64) error) error {
		name := r.Traversal.Steps[0].Args[0].(string)
		back.note(name)
		if name == "a1" {
			<-leave
		}
		return nil
	}
	d := newSite(t, gremlin.Options{Backend: back}).dial()
	a := []value.UUID{d.in("a", "a1"), d.in("a", "a2"), d.in("a", "a3"), d.tx("a", "commit")}
	back.await(t, "a1")
	d.expect(d.in("b", "b"), 204)
	d.expect(d.inject("none"), 204)
	if got := back.all(); strings.Contains(got, "a2") {
		t.Errorf("a request runs before the one before it has ended: %s", got)
	}
	close(leave)
	for _, id := range a {
		d.expect(id, 204)
	}
	var order []string
	for _, e := range strings.Split(back.all(), ", ") {
		if strings.HasPrefix(e, "a") || e == "commit" {
			order = append(order, e)
		}
	}
	if got := strings.Join(order, " "); got != "a1 a2 a3 commit" {
		t.Errorf("order: %s", got)
	}
}

// TestSessionLimits: a connection and a server have so many sessions.
func TestSessionLimits(t *testing.T) {
	s := newSite(t, gremlin.Options{SessionsEach: 2, MaxSessions: 3})
	one, two := s.dial(), s.dial()
	one.expect(one.in("a"), 204)
	one.expect(one.in("b"), 204)
	if p := one.expect(one.in("c"), 429); !strings.Contains(p.Message, "a connection has at most 2 sessions") {
		t.Error(p.Message)
	}
	two.expect(two.in("a"), 204) // which is not the other's
	if p := two.expect(two.in("b"), 429); !strings.Contains(p.Message, "the server has at most 3 sessions") {
		t.Error(p.Message)
	}
	one.expect(one.send("close", "session", "session", "a"), 204)
	two.expect(two.in("b"), 204)
}

// TestSessionIdle: a session without requests is rolled back, and the client is
// told so until it starts anew.
func TestSessionIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := newFake()
		d := newSite(t, gremlin.Options{Backend: back, SessionIdle: time.Minute, PingEvery: time.Hour, SessionLife: time.Hour}).dial()
		began := time.Now()
		d.expect(d.in("s"), 204)
		time.Sleep(59 * time.Second)
		d.expect(d.in("s"), 204)
		back.await(t, "rollback")
		if took := time.Since(began); took != 119*time.Second {
			t.Errorf("rolled back after %v", took)
		}
		for _, id := range []value.UUID{d.in("s"), d.tx("s", "commit")} {
			if p := d.expect(id, 500); !strings.Contains(p.Message, "rolled back: it had no requests for 1m0s") {
				t.Error(p.Message)
			}
		}
		d.expect(d.tx("s", "rollback"), 204)
		d.expect(d.in("s"), 204)
		d.expect(d.tx("s", "commit"), 204)
		time.Sleep(2 * time.Minute) // a session without a transaction is forgotten
		d.expect(d.in("s"), 204)
		if got, want := back.all(), "begin social, rollback, begin social, commit, begin social"; got != want {
			t.Errorf("transactions: %s, want %s", got, want)
		}
	})
}

// TestSessionLife: a transaction that is open for long is stopped and rolled back.
func TestSessionLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := newFake()
		d := newSite(t, gremlin.Options{Backend: back, SessionIdle: time.Hour, SessionLife: time.Minute, Timeout: time.Hour, MaxTimeout: time.Hour, PingEvery: 2 * time.Hour}).dial()
		began := time.Now()
		d.expect(d.in("s"), 204)
		time.Sleep(30 * time.Second)
		back.submit = back.blocked
		id, next := d.in("s"), d.in("s")
		for _, id := range []value.UUID{id, next} {
			if p := d.expect(id, 500); !strings.Contains(p.Message, "rolled back: it was open for 1m0s") {
				t.Error(p.Message)
			}
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("stopped after %v", took)
		}
		back.await(t, "rollback")
		d.expect(d.send("close", "session", "session", "s"), 204)
		back.submit = nil
		d.expect(d.in("s"), 204)
		d.expect(d.tx("s", "commit"), 204)
		time.Sleep(2 * time.Minute) // the time of a transaction ends with it
		d.expect(d.in("s"), 204)
	})
}
