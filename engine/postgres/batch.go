package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
)

// batch is what one transaction of PostgreSQL is made of.
type batch struct {
	x     *executor
	base  engine.Position // before it
	pos   engine.Position // after its last transaction
	at    int64           // time of its last transaction, in microseconds
	total int64           // bytes of all changes up to there
	clock int64           // the server's when the lock was taken
	begun time.Time

	over  *btree.Pairs      // what was written; a marked value is a deletion
	known map[string][]byte // of the executor; nil: there is no such key
	ahead [][]byte          // announced keys that are to be read with the next read
	bytes int               // written by transactions that are to be committed
	fence fence

	queue   statementQueue
	failed  error // of the session, in a read: the batch cannot be committed
	culprit *call // who sent the statement that failed, if that is not the one that ran last

	// One element for each transaction that wrote.
	poss, ats, totals []int64
	writes            [][]byte
}

// fence says whether engine.FenceKey has a value.
type fence uint8

const (
	fenceUnknown fence = iota
	fenceDown
	fenceUp
)

// errAgain is why a batch fails for writeTx.Again.
var errAgain = errors.New("another program has changed what a transaction has read")

// errBlamed says that a batch must be tried again without the calls that have an error.
var errBlamed = errors.New("a call of the batch failed")

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// within returns a context for one round trip.
func (d *DB) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(d.ctx, d.o.limits.statement)
}

// bounded returns a context for one round trip, which also ends with ctx.
func (d *DB) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, d.o.limits.statement)
	stop := context.AfterFunc(d.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// batch runs and commits pending calls. If it returns an error, nothing was committed and the
// calls are still pending, except that an unknown outcome has been reported to them.
func (x *executor) batch() error {
	b, err := x.begin()
	if err != nil {
		return err
	}
	var run []*call
	for _, c := range x.pending {
		if b.bytes >= maxBatchBytes || b.failed != nil {
			break
		}
		if !c.claim() {
			c.next = c.n // nobody waits for it
			continue
		}
		b.run(c)
		c.pos = b.pos
		c.rest()
		run = append(run, c)
	}
	if b.failed != nil {
		return b.blame(run)
	}
	if err := b.commit(); err != nil {
		return err
	}
	for _, c := range run {
		if c.committed = c.next; c.over() {
			c.finish()
		}
	}
	x.forget((*call).over)
	return nil
}

// begin takes the lock.
func (x *executor) begin() (*batch, error) {
	ctx, cancel := x.d.within()
	defer cancel()
	b := &batch{x: x, over: btree.NewPairs()}
	var send pgx.Batch
	send.Queue(beginSQL)
	send.Queue(x.d.sql.lock).QueryRow(func(row pgx.Row) error {
		if err := row.Scan(&b.base, &b.at, &b.total, &b.clock); err != nil {
			return err
		}
		b.known = x.known.at(b.base)
		return nil
	})
	if x.d.o.Attached != nil { // its statements may meet locks of other programs
		send.Queue("SELECT set_config('lock_timeout', $1, true)", millis(rowLockTime))
	}
	if ask := x.expected(); len(ask) > 0 {
		send.Queue(x.d.sql.many, ask).Query(func(rows pgx.Rows) error {
			for _, key := range ask {
				x.known.set(string(key), nil)
			}
			var k, v []byte
			_, err := pgx.ForEachRow(rows, []any{&k, &v}, func() error { x.known.set(string(k), notNil(v)); return nil })
			return err
		})
	}
	if err := x.conn.SendBatch(ctx, &send).Close(); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, x.d.fault(err)
		}
		return nil, err
	}
	b.pos, b.begun = b.base, time.Now()
	return b, x.d.behind(b.base, x.d.Position())
}

// blame finds out, after a statement has failed, whether a call is the reason.
func (b *batch) blame(run []*call) error {
	culprit := b.culprit
	if culprit == nil {
		culprit = run[len(run)-1]
	}
	switch state := sqlState(b.failed); {
	case errors.Is(b.failed, errAgain):
	case (state == stateLockTimeout || state == stateUnique && culprit.again == 0) && culprit.runAgain(): // it will see what another program did
	case state == stateLockTimeout:
		culprit.err = locked(b.failed)
	case passing(b.failed) || lost(b.failed):
		return b.failed
	default:
		culprit.err = b.x.d.explain(b.x.d.ctx, b.failed)
	}
	return errBlamed
}

// run runs the transactions of a call in a goroutine that they may end.
func (b *batch) run(c *call) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		var tx *writeTx
		returned := false
		defer func() {
			if !returned {
				tx.undo(0)
				tx.ended, c.exited = true, true
			}
		}()
		for c.next < c.n && b.bytes < maxBatchBytes && b.failed == nil && c.panicked == nil {
			tx = b.newTx(c)
			b.transact(c, tx)
			c.next++
		}
		returned = true
	}()
	<-done
	_ = b.closeRows() // an error fails the batch
}

// transact runs one transaction.
func (b *batch) transact(c *call, tx *writeTx) {
	returned := false
	defer func() {
		if tx.fencing {
			b.fence = fenceUnknown
		}
		if returned {
			return
		}
		if v := recover(); v != nil {
			tx.undo(0)
			tx.ended = true
			c.panicked = &panicked{v}
			b.x.d.o.Logger.Error("a transaction panicked; it was undone", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	err := c.fn(tx, c.next)
	returned = true
	_ = b.closeRows() // the function may have kept them
	if err == nil {
		err = tx.broken
	}
	tx.ended = true
	b.x.d.transactions.Add(1)
	if err != nil {
		tx.undo(0)
		if !c.each {
			c.fnErr = err
		}
		return
	}
	if len(tx.steps) > 0 {
		b.add(tx)
	}
}

// add takes a transaction that wrote into the batch.
func (b *batch) add(tx *writeTx) {
	tx.keepSQL()
	writes := notNil(b.changeOf(tx))
	b.pos++
	b.at = tx.now
	b.bytes += tx.size
	b.total += int64(len(writes))
	b.poss, b.ats, b.totals = append(b.poss, int64(b.pos)), append(b.ats, b.at), append(b.totals, b.total)
	b.writes = append(b.writes, writes)
}

// commit ends the transaction. If it returns an error, nothing was committed, unless that is
// ErrOutcomeUnknown.
func (b *batch) commit() error {
	d := b.x.d
	ctx, cancel := d.within()
	defer cancel()
	d.batches.Add(1)
	if len(b.poss) == 0 {
		d.advance(b.base)
		if _, err := b.x.conn.Exec(ctx, "ROLLBACK"); err != nil {
			b.x.disconnect()
		}
		return nil
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // it never fails
	send, owners, rows := b.statements(id)
	results := b.x.conn.SendBatch(ctx, send)
	var err, ignored error
	for i := 0; i < send.Len() && err == nil; i++ {
		var tag pgconn.CommandTag
		if tag, err = results.Exec(); err != nil && i < len(owners) && !lost(err) && (!passing(err) || sqlState(err) == stateLockTimeout) {
			b.failed, b.culprit = err, owners[i]
		}
		if n, ok := rows[i]; ok && err == nil && tag.RowsAffected() != n {
			ignored = engine.Errorf(engine.CodeCorrupt, "postgres: the server has written %d of %d rows of a table in schema %s and reported no error: a trigger or rule was added by hand. Remove it, and restore the schema from a backup: what was written since may be incomplete",
				tag.RowsAffected(), n, d.schema)
		}
	}
	if cerr := results.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = synced(b.x.conn)
	}
	switch {
	case b.failed != nil:
		return b.blame(nil)
	case err != nil && lost(err):
		return b.settle(id, err)
	case err != nil:
		return err
	case ignored != nil: // the rest is committed, but must not be taken for what was asked for
		return ignored
	}
	b.committed()
	return nil
}

// committed tells everybody in this process.
func (b *batch) committed() {
	b.x.known.keep(b)
	b.x.d.advance(b.pos)
	b.x.d.changesMade.Add(uint64(len(b.poss)))
	select {
	case b.x.d.trimNow <- struct{}{}:
	default:
	}
}

// statements returns what is sent at the end, whose the first of them are, and how many rows
// some of them must write.
func (b *batch) statements(id []byte) (send *pgx.Batch, owners []*call, rows map[int]int64) {
	d := b.x.d
	var puts, vals, dels [][]byte
	for k, v := range b.over.Ascend(nil, nil) {
		if v.Marked {
			dels = append(dels, k)
		} else {
			puts, vals = append(puts, k), append(vals, notNil(v.Bytes))
		}
	}
	send, rows = &pgx.Batch{}, map[int]int64{}
	owners = b.queue.addTo(send)
	if len(dels) > 0 {
		send.Queue(d.sql.del, dels)
	}
	if len(puts) > 0 {
		rows[send.Len()] = int64(len(puts))
		send.Queue(d.sql.put, puts, vals)
	}
	rows[send.Len()] = int64(len(b.poss))
	send.Queue(d.sql.change, b.poss, b.ats, b.totals, b.writes, id)
	rows[send.Len()] = 1
	send.Queue(d.sql.moved, int64(b.pos), b.at, b.total)
	send.Queue(d.sql.notify, d.channel(), strconv.FormatUint(uint64(b.pos), 10))
	send.Queue("COMMIT")
	return send, owners, rows
}

// notNil returns b, which PostgreSQL must not take for NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
