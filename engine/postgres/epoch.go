package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skerrydb/skerry/engine"
)

// A server that was promoted from an asynchronous standby, or restored, may lack the last
// commits. Whoever connects to it first, an executor or a listener, begins a new epoch, so that
// no position has two meanings (docs/decisions/0033). It recognises such a server by its
// timeline, and a copy of the tables in another cluster of databases by the identifier of that.
//
// The server that failed may come back and take itself for the primary. Nothing here can keep
// processes that know no other server from writing to it. A process that has seen a later epoch
// does not: notOld refuses the connection, and behind what such a connection still returns.

// epochBits is how many bits of a position count commits. The others are the epoch.
const epochBits = 48

// maxPosition is the last that Raise accepts: positions are a bigint, and another epoch must be
// able to follow.
const maxPosition = engine.Position(1<<15-2)<<epochBits - 1

// epoch is one that is not the first.
type epoch struct {
	first engine.Position // the position with which it begins; it has no change
	fork  engine.Position // the last one of the epochs before that was kept; first: Raise has begun it
}

const placeSQL = `SELECT (SELECT system_identifier FROM pg_control_system()), ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint`

// beginEpoch begins an epoch if the server is not the one that committed the last batch.
func (d *DB) beginEpoch(ctx context.Context, conn *pgx.Conn) error {
	var id, timeline, oldID, oldTimeline int64
	if err := conn.QueryRow(ctx, placeSQL).Scan(&id, &timeline); err != nil {
		if lost(err) {
			return err
		}
		d.o.Logger.Warn("postgres: the server does not show its timeline, so a failover that loses commits would not be noticed", "error", err)
		return nil
	}
	if err := conn.QueryRow(ctx, d.rewrite("SELECT server, timeline FROM SCHEMA.pos")).Scan(&oldID, &oldTimeline); err != nil {
		return err
	}
	if oldID == id && oldTimeline == timeline {
		return nil
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var pos, at int64
		if err := tx.QueryRow(ctx, d.rewrite("SELECT pos, at, server, timeline FROM SCHEMA.pos FOR UPDATE")).Scan(&pos, &at, &oldID, &oldTimeline); err != nil {
			return err
		}
		if oldID == id && oldTimeline == timeline { // another process was faster
			return nil
		}
		if oldID != 0 {
			fork := pos
			pos = (pos>>epochBits+1)<<epochBits | pos&(1<<epochBits-1)
			at++
			if _, err := tx.Exec(ctx, d.rewrite("INSERT INTO SCHEMA.epoch (first, fork, at) VALUES ($1, $2, $3)"), pos, fork, at); err != nil {
				return err
			}
			d.o.Logger.Warn("postgres: another server has taken over, or data was restored; commits that it does not have are lost",
				"last_position_kept", fork, "next_position", pos+1)
		}
		if _, err := tx.Exec(ctx, d.rewrite("UPDATE SCHEMA.pos SET pos = $1, at = $2, server = $3, timeline = $4"), pos, at, id, timeline); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, d.sql.notify, d.channel(), strconv.FormatInt(pos, 10))
		return err
	})
}

// notOld refuses a server whose epoch is older than one that this process has seen. pgx then
// tries the next host of the URL.
func (d *DB) notOld(ctx context.Context, c *pgconn.PgConn) error {
	seen := d.Position() >> epochBits
	if seen == 0 {
		return nil
	}
	r := c.ExecParams(ctx, d.sql.pos, nil, nil, nil, nil).Read()
	if r.Err != nil {
		return r.Err
	}
	if len(r.Rows) == 0 {
		return nil // begin names it
	}
	pos, err := strconv.ParseUint(string(r.Rows[0][0]), 10, 64)
	if err != nil {
		return err
	}
	if epoch := engine.Position(pos) >> epochBits; epoch < seen {
		return engine.Errorf(engine.CodeUnavailable, "postgres: this server is an old primary: it is at epoch %d of the data, but another server has begun epoch %d. Stop it, and make it a standby of the new primary", epoch, seen)
	}
	return nil
}

// behind returns an error if a server that was a primary shows an older position than this
// process had seen before it asked.
func (d *DB) behind(pos, seen engine.Position) error {
	if pos >= seen || d.server.standby && pos>>epochBits == seen>>epochBits {
		return nil
	}
	return engine.Errorf(engine.CodeUnavailable, "postgres: the server is at position %d, but this process has seen position %d: it is an old primary, or was restored. Stop it if it is an old primary; restart this process if it was restored", pos, seen)
}

// loadEpochs returns the epochs in order. They are read again if there is a newer one than
// those known.
func (d *DB) loadEpochs(ctx context.Context) ([]epoch, error) {
	d.mu.Lock()
	now, known := d.pos>>epochBits, d.epochs
	d.mu.Unlock()
	if now == 0 || len(known) > 0 && known[len(known)-1].first>>epochBits >= now {
		return known, nil
	}
	c, err := d.work.get(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	rows, err := c.Query(ctx, d.rewrite("SELECT first, fork FROM SCHEMA.epoch ORDER BY first"))
	if err == nil {
		known, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e epoch, err error) {
			err = row.Scan(&e.first, &e.fork)
			return e, err
		})
	}
	if err != nil {
		d.work.drop(c)
		return nil, err
	}
	d.work.put(c)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.epochs = known
	return known, nil
}

// isLost reports whether p is the position of a commit that was lost.
func isLost(epochs []epoch, p engine.Position) bool {
	for _, e := range epochs {
		if p < e.first {
			return p > e.fork
		}
	}
	return false
}

// following returns the position of the first change after p, which is not lost.
func following(epochs []epoch, p engine.Position) engine.Position {
	for _, e := range epochs {
		if p == e.fork {
			p = e.first
		}
	}
	return p + 1
}

// isRaised reports whether positions were raised after p.
func isRaised(epochs []epoch, p engine.Position) bool {
	for _, e := range epochs {
		if e.fork == e.first && p < e.first {
			return true
		}
	}
	return false
}

// Raise implements engine.Raiser. It always begins an epoch, so that every process learns of it.
func (d *DB) Raise(ctx context.Context, p engine.Position) (engine.Position, error) {
	switch {
	case d.server.standby:
		return 0, errStandby
	case p > maxPosition:
		return 0, engine.Errorf(engine.CodeInvalid, "postgres: positions cannot be raised to %d: that leaves no room for later ones", p)
	}
	giveUp := time.Now().Add(d.o.Patience)
	for try := 1; ; try++ {
		pos, err := d.raise(ctx, p)
		switch {
		case err == nil:
			d.advance(pos)
			return pos, nil
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case !passing(err) || final(err) || try >= maxTries || time.Now().After(giveUp):
			return 0, d.fault(err)
		}
		if err := d.backoff(ctx, try); err != nil {
			return 0, err
		}
	}
}

// raise is one attempt of Raise.
func (d *DB) raise(ctx context.Context, p engine.Position) (pos engine.Position, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	conn, err := d.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer closeConn(conn)
	if err := d.beginEpoch(ctx, conn); err != nil {
		return 0, err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var at int64
		if err := tx.QueryRow(ctx, d.rewrite("SELECT pos, at FROM SCHEMA.pos FOR UPDATE")).Scan(&pos, &at); err != nil {
			return err
		}
		if pos >= p {
			return nil
		}
		// The count of commits does not go back, because trim compares it.
		const count = 1<<epochBits - 1
		pos = max(pos>>epochBits+1, p>>epochBits)<<epochBits | max(pos&count, p&count)
		at++
		if _, err := tx.Exec(ctx, d.rewrite("DELETE FROM SCHEMA.epoch")); err != nil { // what they lost has become what a View may ask for
			return err
		}
		if _, err := tx.Exec(ctx, d.rewrite("INSERT INTO SCHEMA.epoch (first, fork, at) VALUES ($1, $1, $2)"), pos, at); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, d.rewrite("UPDATE SCHEMA.pos SET pos = $1, at = $2"), pos, at); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, d.sql.notify, d.channel(), strconv.FormatUint(uint64(pos), 10))
		return err
	})
	return pos, err
}

var _ engine.Raiser = (*DB)(nil)
