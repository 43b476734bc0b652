package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/engine"
)

// maxConnAge is after how long a pooled connection is replaced, so that a server's changed
// settings and addresses are noticed.
const maxConnAge = time.Hour

// pool lends connections for reading. The last one returned is lent first.
type pool struct {
	d     *DB
	setup string        // run on each new connection, unless it is empty
	slots chan struct{} // one for each connection that is lent

	mu     sync.Mutex // guards the fields below
	idle   []*pooled
	closed bool
}

type pooled struct {
	*pgx.Conn
	born  time.Time
	epoch engine.Position // that was known then
}

func newPool(d *DB, size int, setup string) *pool {
	return &pool{d: d, setup: setup, slots: make(chan struct{}, size)}
}

// get lends a connection, for which it waits until ctx ends.
func (p *pool) get(ctx context.Context) (*pooled, error) {
	select {
	case p.slots <- struct{}{}:
	default:
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.d.closing:
			return nil, engine.ErrClosed
		}
	}
	p.mu.Lock()
	epoch := p.d.Position() >> epochBits
	if n := len(p.idle); n > 0 && !p.closed && p.idle[n-1].epoch == epoch {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	conn, err := p.d.connect(ctx)
	if err == nil && p.setup != "" {
		if _, err = conn.Exec(ctx, p.setup); err != nil {
			closeConn(conn)
		}
	}
	if err != nil {
		<-p.slots
		return nil, err
	}
	return &pooled{conn, time.Now(), epoch}, nil
}

// put takes a connection back, which must not be within a transaction.
func (p *pool) put(c *pooled) {
	p.mu.Lock()
	keep := !p.closed && !c.IsClosed() && c.epoch == p.d.Position()>>epochBits && time.Since(c.born) < maxConnAge
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep {
		closeConn(c.Conn)
	}
	<-p.slots
}

// drop closes a connection instead of taking it back.
func (p *pool) drop(c *pooled) {
	closeConn(c.Conn)
	<-p.slots
}

// purge closes all connections that are not lent: the server has gone.
func (p *pool) purge() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		closeConn(c.Conn)
	}
}

// distrust closes all connections that are not lent after an error that passes: they are to the
// same server. If that has no room for more connections, those at hand are kept.
func (p *pool) distrust(err error) {
	if sqlState(err) != stateNoRoom {
		p.purge()
	}
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.purge()
}

// closeConn says goodbye, but does not wait for long.
func closeConn(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = c.Close(ctx) // nothing can be done about it
}
