// Package postgres is the engine contract on a database of PostgreSQL.
//
// It knows PostgreSQL and how transactions over keys become its rows; it must not know
// what the keys mean. DESIGN.md has the invariants.
package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skerrydb/skerry/engine"
)

// DB is an open database. It implements engine.Engine, Eacher, Positioner, Raiser and Meter.
type DB struct {
	o      Options
	cfg    *pgx.ConnConfig
	schema string
	ident  string // schema, quoted
	sql    statements
	server server // as it was when the engine was opened

	views   *pool // of View
	work    *pool // of Changes and of trimming
	queue   chan *call
	trimNow chan struct{}
	sole    atomic.Bool  // no pooler shares the sessions with others
	asOf    atomic.Int64 // latest time that a transaction of this process has got, in microseconds

	ctx     context.Context // of everything that is shared; it ends when Close has waited long enough
	stop    context.CancelFunc
	closing chan struct{} // closed by Close
	bg      sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	pos    engine.Position
	moved  chan struct{} // closed when pos or broken changes
	broken error         // why the position cannot be read, if waiting does not help
	closed bool
	epochs []epoch

	counters
}

// statements are those that are sent again and again.
type statements struct {
	lock, head, pos, get, getFirst, many, put, del, change, moved, notify, changes string
}

const (
	clockSQL = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
	beginSQL = "BEGIN ISOLATION LEVEL READ COMMITTED" // it is read-only if an operator wants that
	viewSQL  = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
	// With it, statements that are sent together see one snapshot without BEGIN and COMMIT.
	snapshotSQL = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
)

func newDB(cfg *pgx.ConnConfig, schema string, o Options) *DB {
	d := &DB{
		o: o, cfg: cfg, schema: schema, ident: quoteIdent(schema), queue: make(chan *call, o.Queue),
		closing: make(chan struct{}), moved: make(chan struct{}), trimNow: make(chan struct{}, 1),
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	valid := cfg.ValidateConnect
	cfg.ValidateConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		if valid != nil {
			if err := valid(ctx, c); err != nil {
				return err
			}
		}
		return d.notOld(ctx, c)
	}
	cfg.AfterConnect, cfg.OnNotice = d.pin, noted
	d.views, d.work = newPool(d, o.ViewConns, snapshotSQL), newPool(d, o.FeedConns, "")
	d.sql = statements{
		// The clock is read once the lock is held.
		lock:     "WITH p AS MATERIALIZED (SELECT pos, at, bytes FROM SCHEMA.pos FOR UPDATE) SELECT pos, at, bytes, " + clockSQL + " FROM p",
		head:     "SELECT pos, at, " + clockSQL + " FROM SCHEMA.pos",
		pos:      "SELECT pos FROM SCHEMA.pos",
		get:      "SELECT v FROM SCHEMA.kv WHERE k = $1",
		getFirst: "SELECT p.pos, p.at, " + clockSQL + ", kv.v FROM SCHEMA.pos p LEFT JOIN SCHEMA.kv ON kv.k = $1",
		many:     "SELECT k, v FROM SCHEMA.kv WHERE k = ANY($1)",
		put:      "INSERT INTO SCHEMA.kv (k, v) SELECT * FROM unnest($1::bytea[], $2::bytea[]) ON CONFLICT (k) DO UPDATE SET v = excluded.v",
		del:      "DELETE FROM SCHEMA.kv WHERE k = ANY($1)",
		change: "INSERT INTO SCHEMA.change (pos, at, bytes, batch, writes) SELECT p, a, b, $5, w" +
			" FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) AS c (p, a, b, w)",
		moved:  "UPDATE SCHEMA.pos SET pos = $1, at = $2, bytes = $3",
		notify: "SELECT pg_notify($1, $2)",
		// What one page of changes holds is bounded by rows and by bytes.
		changes: "SELECT pos, at, writes FROM (SELECT pos, at, writes, bytes, min(bytes) OVER () AS least FROM SCHEMA.change" +
			" WHERE pos > $1 ORDER BY pos LIMIT 500) AS c WHERE bytes - least < 4194304 ORDER BY pos",
	}
	for _, s := range []*string{
		&d.sql.lock, &d.sql.head, &d.sql.pos, &d.sql.get, &d.sql.getFirst, &d.sql.many, &d.sql.put, &d.sql.del, &d.sql.change, &d.sql.moved, &d.sql.changes,
	} {
		*s = d.rewrite(*s)
	}
	return d
}

// Promises implements engine.Engine.
func (d *DB) Promises() engine.Promises {
	return engine.Promises{
		Atomic: engine.AllKeys, Serializable: true, Ordered: true, Feed: true, Durable: d.server.weak() == "",
		Snapshot: true, Clock: true, Positions: true, ExactPositions: true, DistinctTimes: true, Fence: true,
		MaxKeyBytes: MaxKeyBytes, MaxValBytes: MaxValBytes, MaxTxBytes: MaxTxBytes,
	}
}

// Views returns how many views can be open at once: each has a connection.
func (d *DB) Views() int { return d.o.ViewConns }

// Position implements engine.Positioner.
func (d *DB) Position() engine.Position {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pos
}

// advance notes that a position is committed and visible.
func (d *DB) advance(p engine.Position) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p > d.pos {
		d.pos = p
		d.wake()
	}
}

// wake wakes those who wait for the position. d.mu is held.
func (d *DB) wake() {
	close(d.moved)
	d.moved = make(chan struct{})
}

// setBroken notes that readers of changes need not wait, or with nil that they may.
func (d *DB) setBroken(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken = err; err != nil {
		d.wake()
	}
}

// now returns the known position, and a channel that is closed when it changes.
func (d *DB) now() (engine.Position, <-chan struct{}, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, nil, engine.ErrClosed
	}
	return d.pos, d.moved, d.broken
}

func (d *DB) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// head is the state of the row of table pos in one snapshot.
type head struct {
	pos   engine.Position
	at    int64 // of the last commit, in microseconds
	clock int64 // the server's
}

func (d *DB) readHead(ctx context.Context, conn *pgx.Conn) (h head, err error) {
	err = conn.QueryRow(ctx, d.sql.head).Scan(&h.pos, &h.at, &h.clock)
	return h, err
}

// time returns the time of a transaction that begins now: not before at, nor before any time
// that a transaction of this process has got.
func (d *DB) time(clock, at int64) int64 {
	if d.o.Now != nil {
		clock = d.o.Now().UnixMicro()
	}
	for {
		last := d.asOf.Load()
		if t := max(clock, at, last); t == last || d.asOf.CompareAndSwap(last, t) {
			return t
		}
	}
}

// Close implements engine.Engine.
func (d *DB) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	close(d.closing)
	d.mu.Unlock()
	timer := time.AfterFunc(closeGrace, d.stop)
	d.bg.Wait()
	timer.Stop()
	d.stop()
	d.views.close()
	d.work.close()
	return nil
}
