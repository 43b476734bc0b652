package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/skerrydb/skerry/engine"
)

// channel is the name for LISTEN. Its notifications only save waiting: the position is also
// read every pollEvery.
func (d *DB) channel() string { return "skerry " + d.schema }

// listen follows the position. The result of the first attempt goes to ready.
func (d *DB) listen(ready chan<- error) {
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	d.bg.Go(func() {
		select {
		case <-d.closing:
			cancel()
		case <-ctx.Done():
		}
	})
	said := ""
	for try := 1; ; try++ {
		err := d.follow(ctx, func() {
			try, said = 0, ""
			d.setBroken(nil)
			if ready != nil {
				ready <- nil
				ready = nil
			}
		})
		if ready != nil {
			ready <- err
			return
		}
		if ctx.Err() != nil {
			return
		}
		err = d.explain(ctx, err)
		if engine.CodeOf(err) == engine.CodeCorrupt {
			d.setBroken(err)
		}
		if code := string(engine.CodeOf(err)); try > 1 && code != said { // most often it was only this session
			said = code
			d.o.Logger.Warn("postgres: the position cannot be followed; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(10*time.Millisecond<<min(try, 10), time.Second)):
		}
	}
}

// follow follows the position on one connection until that is lost.
func (d *DB) follow(ctx context.Context, listening func()) error {
	cfg := d.cfg.Copy()
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler { // waiting must end at once
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
	}
	conn, err := d.connectWith(ctx, cfg)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	every := pollEvery
	if d.server.standby {
		every = standbyPoll // LISTEN needs a primary
	} else if err := d.startListening(ctx, conn); err != nil {
		return err
	}
	for first := true; ; first = false {
		if err := d.probe(ctx, conn); err != nil {
			return err
		}
		if first {
			listening()
		}
		if err := d.notifications(ctx, conn, every); err != nil {
			return err
		}
	}
}

func (d *DB) startListening(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	if _, err := conn.Exec(ctx, "LISTEN "+quoteIdent(d.channel())); err != nil {
		return err
	}
	return d.beginEpoch(ctx, conn)
}

// probe reads the position. A connection that has died silently is noticed by that.
func (d *DB) probe(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, d.o.limits.probe)
	defer cancel()
	seen := d.Position()
	h, err := d.readHead(ctx, conn)
	if err == nil {
		err = d.behind(h.pos, seen)
	}
	if err == nil {
		d.advance(h.pos)
	}
	return err
}

// notifications receives notifications for some time.
func (d *DB) notifications(ctx context.Context, conn *pgx.Conn, some time.Duration) error {
	until, cancel := context.WithTimeout(ctx, some)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(until)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && until.Err() != nil && !conn.IsClosed():
			return nil
		case err != nil:
			return err
		}
		if p, err := strconv.ParseUint(n.Payload, 10, 64); err == nil {
			d.advance(engine.Position(p))
		}
	}
}

// trimChunk is how many changes one statement deletes at most.
const trimChunk = 5000

// trim deletes changes that need not be kept, from time to time.
func (d *DB) trim() {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	every := uint64(max(1, min(d.o.History/8, trimChunk)))
	for last := uint64(0); ; {
		select {
		case <-d.closing:
			return
		case <-tick.C:
		case <-d.trimNow:
			if d.changesMade.Load() < last+every {
				continue
			}
		}
		last = d.changesMade.Load()
		for n := int64(trimChunk); n == trimChunk && !d.isClosed(); {
			var err error
			if n, err = d.trimSome(); err != nil && !d.isClosed() {
				d.o.Logger.Warn("postgres: delete old changes", "error", d.fault(err))
			}
			d.trimmed.Add(uint64(n))
		}
	}
}

// trimSome deletes up to trimChunk changes.
func (d *DB) trimSome() (int64, error) {
	ctx, cancel := d.within()
	defer cancel()
	c, err := d.work.get(ctx)
	if err != nil {
		return 0, err
	}
	var done pgconn.CommandTag
	done, err = c.Exec(ctx, d.rewrite(`DELETE FROM SCHEMA.change WHERE pos IN (SELECT pos FROM SCHEMA.change ORDER BY pos LIMIT $1) AND EXISTS (
		SELECT FROM SCHEMA.pos p WHERE change.pos < p.pos AND ((p.pos & $5::bigint) - (change.pos & $5::bigint) >= $2::bigint OR change.bytes <= p.bytes - $3 OR change.at < `+clockSQL+` - $4))`),
		trimChunk, d.o.History, d.o.HistoryBytes, d.o.HistoryAge.Microseconds(), int64(1)<<epochBits-1)
	if err != nil {
		d.work.drop(c)
		return 0, err
	}
	d.work.put(c)
	return done.RowsAffected(), nil
}

var errDenied = &pgconn.PgError{Severity: "ERROR", Code: stateNoRight, Message: "permission denied"}
