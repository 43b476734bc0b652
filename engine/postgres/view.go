package postgres

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/engine"
)

// View implements engine.Engine.
//
// Its first read also reads the row of table pos and the announced keys, in the same snapshot,
// so that a view of one read is one round trip and its position is exact. The second read
// begins a REPEATABLE READ transaction. If that shows another position, fn runs again, from
// the start in such a transaction. It also does, once, if a table is not there: no snapshot keeps a dropped table.
func (d *DB) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if d.server.standby && r.Level == engine.Linearizable {
		return 0, engine.Errorf(engine.CodeUnsupported, "postgres: a standby may be behind, so it cannot serve linearizable reads: ask for a session or local one, or read from the primary")
	}
	giveUp := time.Now().Add(d.o.Patience)
	whole, gone := false, false
	for try := 1; ; try++ {
		if err := d.await(ctx, r.AtLeast); err != nil {
			return 0, err
		}
		t := &viewTx{d: d, ctx: ctx, r: r, whole: whole, least: d.Position()}
		err := t.run(fn)
		switch {
		case t.stale:
			whole = true
			d.rerun.Add(1)
		case !gone && sqlState(t.failed) == stateNoTable: // what says that there is one may be gone too by now
			gone = true
			d.rerun.Add(1)
		case t.failed == nil && t.pos < r.AtLeast && err == nil:
			// A standby, or one that was promoted, has not got there: await asks the server.
		case t.failed == nil:
			return t.pos, err
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case !passing(t.failed):
			return 0, d.explain(ctx, t.failed)
		default:
			if d.views.distrust(t.failed); try >= maxTries || time.Now().After(giveUp) {
				return 0, d.explain(ctx, t.failed)
			}
			if err := d.backoff(ctx, try); err != nil {
				return 0, err
			}
		}
	}
}

// backoff waits before a read is tried again.
func (d *DB) backoff(ctx context.Context, try int) error {
	if try == 1 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-d.closing:
		return engine.ErrClosed
	case <-time.After(min(5*time.Millisecond<<try, time.Second)):
		return nil
	}
}

// viewTx is a transaction of View.
type viewTx struct {
	d     *DB
	ctx   context.Context
	r     engine.Read
	whole bool // begin with a REPEATABLE READ transaction

	head
	least   engine.Position  // what this process had seen before
	began   bool             // head is set
	conn    *pooled          // within a transaction; nil: none was begun
	alone   *pooled          // of rows, if these were read without a transaction
	rows    pgx.Rows         // of Query; nil: none
	results pgx.BatchResults // which rows are part of; nil: none
	cancel  func()           // ends the context of rows and results
	now     int64            // 0: not decided yet
	ended   bool

	ahead [][]byte          // announced keys that are to be read with the next Get or the first read
	known map[string][]byte // values of announced keys; nil: there is none

	stale  bool  // the transaction shows another position than the first read
	failed error // of the session
}

var errStale = engine.Errorf(engine.CodeConflict, "the view runs again: its first read was of an older position")

func (t *viewTx) run(fn func(engine.Tx) error) error {
	defer t.end()
	if err := fn(t); err != nil {
		return err
	}
	if t.closeRows(); t.failed != nil {
		return t.d.fault(t.failed)
	}
	return t.begin()
}

// end gives the connection back. Nobody waits for its transaction to end.
func (t *viewTx) end() {
	t.ended = true
	t.closeRows()
	c := t.conn
	if c == nil {
		return
	}
	if t.failed != nil {
		t.d.views.drop(c)
		return
	}
	go func() {
		ctx, cancel := t.d.within()
		defer cancel()
		if _, err := c.Exec(ctx, "COMMIT"); err != nil {
			t.d.views.drop(c)
		} else {
			t.d.views.put(c)
		}
	}()
}

// fail notes why the session is of no use any more.
func (t *viewTx) fail(err error) error {
	t.failed = err
	return t.d.fault(err)
}

// usable returns an error if nothing can be read.
func (t *viewTx) usable() error {
	switch {
	case t.ended:
		return errEnded
	case t.stale:
		return errStale
	case t.failed != nil:
		return t.d.fault(t.failed)
	}
	return nil
}

// begin reads the head, if nothing was read.
func (t *viewTx) begin() error {
	if err := t.usable(); err != nil || t.began {
		return err
	}
	return t.single(t.d.sql.head, nil, nil)
}

// single reads the head with one more value in one statement, without a transaction.
func (t *viewTx) single(sql string, args []any, into *[]byte) error {
	c, err := t.d.views.get(t.ctx)
	if err != nil {
		return t.fail(err)
	}
	to := []any{&t.pos, &t.at, &t.clock, into}
	if into == nil {
		to = to[:3]
	}
	ctx, cancel := t.d.bounded(t.ctx)
	defer cancel()
	err = c.QueryRow(ctx, sql, args...).Scan(to...)
	if err == nil {
		err = t.d.behind(t.pos, t.least)
	}
	if err != nil {
		t.d.views.drop(c)
		return t.fail(err)
	}
	t.d.views.put(c)
	t.seen()
	return nil
}

// seen is called once the head is known.
func (t *viewTx) seen() {
	t.began = true
	t.d.advance(t.pos)
}

// Get implements engine.Tx.
func (t *viewTx) Get(key []byte) (val []byte, ok bool, err error) {
	if err := t.usable(); err != nil {
		return nil, false, err
	}
	if v, ok := t.known[string(key)]; ok {
		return v, v != nil, nil
	}
	ask := append(slices.DeleteFunc(t.ahead, func(k []byte) bool { return bytes.Equal(k, key) }), key)
	if t.ahead = nil; len(ask) > 1 {
		vals, err := t.GetMany(ask)
		if err != nil {
			return nil, false, err
		}
		for i, v := range vals {
			t.known[string(ask[i])] = v
		}
		val = vals[len(vals)-1]
		return val, val != nil, nil
	}
	if !t.began && !t.whole {
		err := t.single(t.d.sql.getFirst, []any{notNil(key)}, &val)
		return val, val != nil, err
	}
	err = t.query(t.d.sql.get, []any{notNil(key)}, []any{&val}, func() error { ok = true; return nil })
	return val, ok, err
}

// GetMany implements engine.ManyGetter.
func (t *viewTx) GetMany(keys [][]byte) ([][]byte, error) {
	if len(keys) == 1 {
		val, _, err := t.Get(keys[0])
		return [][]byte{val}, err
	}
	found := make(map[string][]byte, len(keys))
	ask := make([][]byte, len(keys))
	for i, key := range keys {
		ask[i] = notNil(key)
	}
	var k, v []byte
	if err := t.query(t.d.sql.many, []any{ask}, []any{&k, &v}, func() error { found[string(k)] = v; return nil }); err != nil {
		return nil, err
	}
	vals := make([][]byte, len(keys))
	for i, key := range keys {
		vals[i] = found[string(key)]
	}
	return vals, nil
}

// Expects implements engine.Expecter.
func (t *viewTx) Expects() bool { return !t.ended }

// Expect implements engine.Expecter: the keys are read with the next Get of an unknown key.
func (t *viewTx) Expect(keys [][]byte) {
	if t.ended {
		return
	}
	if t.known == nil {
		t.known = map[string][]byte{}
	}
	for _, key := range keys {
		if _, ok := t.known[string(key)]; !ok && len(t.ahead) < maxAhead {
			t.ahead = append(t.ahead, bytes.Clone(key))
		}
	}
}

// query calls each for the rows of a statement, scanned into into.
func (t *viewTx) query(sql string, args, into []any, each func() error) error {
	rows, err := t.Query(sql, args...)
	if err != nil {
		return err
	}
	if _, err := pgx.ForEachRow(rows, into, each); err != nil {
		return t.fail(err)
	}
	if t.closeRows(); t.failed != nil {
		return t.d.fault(t.failed)
	}
	return nil
}

// Put implements engine.Tx.
func (t *viewTx) Put(_, _ []byte) error { return engine.ErrReadOnly }

// Delete implements engine.Tx.
func (t *viewTx) Delete([]byte) error { return engine.ErrReadOnly }

// Scan implements engine.Tx.
func (t *viewTx) Scan(lo, hi []byte) iter.Seq2[engine.Pair, error] {
	return pages(t.d, t.query, lo, hi, false)
}

// ScanBack implements engine.Tx.
func (t *viewTx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] {
	return pages(t.d, t.query, lo, hi, true)
}

// Now implements engine.Tx.
func (t *viewTx) Now() time.Time {
	if t.now == 0 {
		_ = t.begin() // the next read, or the end, returns the error
		t.now = t.d.time(t.clock, t.at)
	}
	return time.UnixMicro(t.now)
}

// AsOf implements engine.Tx. A weaker read than a linearizable one takes the time of its
// position, which is the same in every process.
func (t *viewTx) AsOf() time.Time {
	if t.r.Level == engine.Linearizable {
		return t.Now()
	}
	t.Now()
	return time.UnixMicro(t.at)
}

var (
	_ engine.ManyGetter = (*viewTx)(nil)
	_ engine.Expecter   = (*viewTx)(nil)
)
