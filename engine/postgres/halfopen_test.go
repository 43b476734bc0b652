package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
)

// stuckable is a proxy that passes connections on to a server. A connection that is stuck passes nothing on, and nobody
// learns that.
type stuckable struct {
	net.Listener
	to string

	mu    sync.Mutex // guards the fields below
	stuck chan struct{}
	later bool // connections that begin while others are stuck are stuck too
	conns []net.Conn
}

func newStuckable(t *testing.T, to string) *stuckable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &stuckable{Listener: l, to: to}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	t.Cleanup(func() {
		p.free()
		p.cut()
		_ = l.Close()
	})
	return p
}

func (p *stuckable) serve(c net.Conn) {
	s, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = c.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, c, s)
	spared := p.stuck != nil && !p.later
	p.mu.Unlock()
	go p.copy(s, c, spared)
	p.copy(c, s, spared)
}

func (p *stuckable) copy(to, from net.Conn, spared bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		stuck := p.stuck
		if spared {
			stuck = nil
		}
		p.mu.Unlock()
		if stuck != nil {
			<-stuck // what was read is lost
			err = io.EOF
		} else if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			_, _ = to.Close(), from.Close()
			return
		}
	}
}

// stick makes the proxy swallow everything, also of later connections or not.
func (p *stuckable) stick(later bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck, p.later = make(chan struct{}), later
}

// free ends that. Connections that swallowed something end.
func (p *stuckable) free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stuck != nil {
		close(p.stuck)
		p.stuck = nil
	}
}

func (p *stuckable) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// TestHalfOpen lets a network swallow everything. Calls end when their contexts do, and the engine recovers.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgserver.Shared(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	p := newStuckable(t, u.Host)
	u.Host = p.Addr().String()
	d := openT(t, u.String(), Options{})
	put(t, d, "a", "1")
	if _, _, err := get(t.Context(), d, engine.Read{}, "a"); err != nil {
		t.Fatal(err)
	}
	p.stick(true)
	const bound = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	begun := time.Now()
	if _, _, err := get(ctx, d, engine.Read{}, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a view on a stuck network: %v", err)
	}
	_, err = d.Update(ctx, func(tx engine.Tx) error { return tx.Put([]byte("a"), []byte("2")) })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an update on a stuck network: %v", err)
	}
	if took := time.Since(begun); took > bound+statementTime/2 {
		t.Errorf("the calls took %v, their bound was %v", took, bound)
	}
	p.free()
	p.cut()
	put(t, d, "a", "3")
	if val, _, err := get(t.Context(), d, engine.Read{}, "a"); val != "3" || err != nil {
		t.Errorf("after the network came back: %q, %v", val, err)
	}
}

// TestHalfOpenConnections lets the network lose all connections, but not those that begin later. Calls without a
// deadline notice that, and so does the reader of changes.
func TestHalfOpenConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	at := pgserver.Shared(t).Database(t)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	p := newStuckable(t, u.Host)
	u.Host = p.Addr().String()
	d := openT(t, u.String(), Options{Patience: time.Minute, limits: limits{statement: 2 * time.Second, idle: idleTime, lock: lockTime, probe: 2 * time.Second}})
	other := openT(t, at, Options{})
	put(t, d, "a", "1")
	if err := d.try(t.Context(), "view"); err != nil { // so that there is a session for views
		t.Fatal(err)
	}
	for _, what := range []string{"changes", "view", "update"} {
		p.stick(false)
		last := put(t, other, "a", what)
		switch what {
		case "changes":
			if _, err := collect(t, d, last-1, last); err != nil {
				t.Errorf("changes after connections were lost: %v", err)
			}
		case "view":
			if val, _, err := get(t.Context(), d, engine.Read{}, "a"); val != what || err != nil {
				t.Errorf("a view after connections were lost: %q, %v", val, err)
			}
		case "update":
			if err := d.try(t.Context(), what); err != nil {
				t.Errorf("an update after connections were lost: %v", err)
			}
		}
		p.free()
	}
}

// TestOpenHalfOpen opens a server that accepts connections and never replies.
func TestOpenHalfOpen(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgserver.Shared(t).URL("postgres") + "&connect_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	p := newStuckable(t, u.Host)
	u.Host = p.Addr().String()
	p.stick(true)
	d, err := Open(t.Context(), u, Options{})
	if err == nil {
		_ = d.Close()
	}
	wantCode(t, err, engine.CodeUnavailable, "the server did not reply in time")
	wantCode(t, err, engine.CodeUnavailable, u.Host)
}
