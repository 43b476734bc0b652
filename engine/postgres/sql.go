package postgres

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/engine"
)

// Querier is satisfied by the Tx of View and of Update on PostgreSQL.
type Querier interface {
	// Query runs a statement that only reads, in the transaction's snapshot. In Update it
	// sees what was queued before, by this transaction and by those before it in the same
	// batch. It does not see what Put and Delete wrote, so it must not read the tables of the
	// engine's own schema. The rows must be closed before the next use of the transaction,
	// and are closed when it ends. If the statement fails, so does the transaction, even if
	// its function returns nil.
	Query(sql string, args ...any) (pgx.Rows, error)
}

// SQL is satisfied by the Tx of Update on PostgreSQL: statements travel with the batch and
// are committed or undone with the transaction. They must not write to the tables of the
// engine's own schema, nor end the transaction.
type SQL interface {
	Querier

	// Queue adds a statement that writes. It is sent before the next Query of any transaction
	// of the batch, and otherwise with the commit, so that it needs no round trip. Arguments
	// must not be modified afterwards. If the statement fails, Update or UpdateEach does, with
	// nothing of its last batch written. A savepoint, and an error of the function, undo it.
	Queue(sql string, args ...any) error

	// Publish adds writes to the Change of the transaction without storing them as keys, for
	// what statements have stored elsewhere. They count against the limit of a transaction.
	// The last write of a key counts.
	Publish(writes ...engine.Write) error

	// Quietly runs fn. What fn puts, deletes or publishes is not in the Change of the
	// transaction: it is for those who store again, in another place, what is stored already. A
	// key that is also written outside of Quietly is in the Change.
	Quietly(fn func() error) error

	// Again reports whether the transaction is run again, whatever its function returns, because another program has
	// changed what it has read. After some times it returns false.
	Again() bool
}

// queued is a statement that was not sent yet.
type queued struct {
	sql  string
	args []any
	c    *call // whose it is
	void bool  // it turned out to be of no use
}

// statementQueue is what a batch knows about the statements of its transactions.
type statementQueue struct {
	pending []queued
	sent    int // how many entries were sent before those pending

	rows    pgx.Rows // that somebody reads; nil: none
	results pgx.BatchResults
	cancel  context.CancelFunc
}

// Query implements SQL.
func (t *writeTx) Query(sql string, args ...any) (pgx.Rows, error) {
	if t.ended {
		return nil, errEnded
	}
	return t.b.queryRows(sql, args)
}

// queryRows sends what is queued, and a statement whose rows it returns.
func (b *batch) queryRows(sql string, args []any) (pgx.Rows, error) {
	if err := b.closeRows(); err != nil {
		return nil, err
	}
	q := &b.queue
	ctx, cancel := b.x.d.within()
	b.x.d.reads.Add(1)
	var send pgx.Batch
	owners := q.addTo(&send)
	send.Queue(sql, args...)
	q.results, q.cancel = b.x.conn.SendBatch(ctx, &send), cancel
	for _, c := range owners {
		if _, err := q.results.Exec(); err != nil {
			b.culprit, b.failed = c, err
			_ = b.closeRows() // the first error counts
			return nil, b.x.d.fault(err)
		}
	}
	rows, err := q.results.Query()
	q.rows = rows
	if err != nil {
		b.failed = err
		_ = b.closeRows()
		return nil, b.x.d.fault(err)
	}
	return rows, nil
}

// addTo moves the pending statements to send, and returns whose they are.
func (q *statementQueue) addTo(send *pgx.Batch) (owners []*call) {
	for _, s := range q.pending {
		if !s.void {
			send.Queue(s.sql, s.args...)
			owners = append(owners, s.c)
		}
	}
	q.sent += len(q.pending)
	q.pending = q.pending[:0]
	return owners
}

// closeRows makes the session free, and returns the error of the batch.
func (b *batch) closeRows() error {
	q := &b.queue
	if q.results != nil {
		var err error
		if q.rows != nil {
			q.rows.Close()
			err = q.rows.Err()
		}
		if cerr := q.results.Close(); err == nil {
			err = cerr
		}
		q.cancel()
		q.rows, q.results, q.cancel = nil, nil, nil
		if err != nil && b.failed == nil {
			b.failed = err
		}
	}
	if b.failed != nil {
		return b.x.d.fault(b.failed)
	}
	return nil
}

// Queue implements SQL.
func (t *writeTx) Queue(sql string, args ...any) error {
	if t.ended {
		return errEnded
	}
	if err := t.passFence(nil); err != nil {
		return err
	}
	if n := len(t.points); n == 0 || t.points[n-1] < t.mark {
		t.points = append(t.points, t.mark)
		t.push(fmt.Sprint("SAVEPOINT skerry_", t.mark), nil)
	}
	t.push(sql, args)
	return nil
}

func (t *writeTx) push(sql string, args []any) {
	q := &t.b.queue
	t.steps = append(t.steps, step{kind: stepSQL, seq: q.sent + len(q.pending)})
	q.pending = append(q.pending, queued{sql: sql, args: args, c: t.c})
}

// unqueue undoes a statement. It returns false if that was sent.
func (q *statementQueue) unqueue(s step) bool {
	if s.seq < q.sent {
		return false
	}
	q.pending = q.pending[:s.seq-q.sent]
	return true
}

// rollBack undoes, in the database, the statements since the transaction had n steps.
func (t *writeTx) rollBack(n int) {
	q := &t.b.queue
	for _, p := range t.points {
		if p >= n {
			q.pending = append(q.pending, queued{sql: fmt.Sprint("ROLLBACK TO SAVEPOINT skerry_", p), c: t.c})
			return
		}
	}
	t.broken = engine.Errorf(engine.CodeInvalid, "the transaction was rolled back to %d, which is no savepoint", n)
}

// keepSQL is called when the transaction is to be committed: it needs its savepoints no more.
func (t *writeTx) keepSQL() {
	if len(t.points) == 0 {
		return
	}
	q := &t.b.queue
	anySent := false
	for _, s := range t.steps {
		anySent = anySent || s.kind == stepSQL && s.seq < q.sent
	}
	if anySent {
		q.pending = append(q.pending, queued{sql: fmt.Sprint("RELEASE SAVEPOINT skerry_", t.points[0]), c: t.c})
		return
	}
	for i := len(q.pending) - 1; i >= 0 && q.pending[i].c == t.c; i-- {
		if s := &q.pending[i]; len(s.args) == 0 && len(s.sql) > 17 && s.sql[:17] == "SAVEPOINT skerry_" {
			s.void = true
		}
	}
}

// Publish implements SQL.
func (t *writeTx) Publish(writes ...engine.Write) error {
	if t.ended {
		return errEnded
	}
	size := 0
	for _, w := range writes {
		if len(w.Key) == 0 {
			return engine.ErrKeyEmpty
		}
		size += len(w.Key) + len(w.Val)
	}
	if t.size+size > MaxTxBytes {
		return engine.ErrTxTooLarge
	}
	if err := t.passFence(nil); err != nil {
		return err
	}
	if t.quiet {
		return nil
	}
	t.size += size
	for _, w := range writes {
		t.published = append(t.published, engine.Write{Key: bytes.Clone(w.Key), Val: bytes.Clone(w.Val), Deleted: w.Deleted})
		t.steps = append(t.steps, step{kind: stepPublish})
	}
	return nil
}

// Quietly implements SQL.
func (t *writeTx) Quietly(fn func() error) error {
	was := t.quiet
	t.quiet = true
	defer func() { t.quiet = was }()
	return fn()
}

// silent returns the keys that were only written within Quietly.
func (t *writeTx) silent() map[string]bool {
	var all map[string]bool
	for _, s := range t.steps {
		if s.kind != stepWrite || !s.quiet {
			continue
		}
		if all == nil {
			all = map[string]bool{}
		}
		all[string(s.key)] = true
	}
	for _, s := range t.steps {
		if all != nil && s.kind == stepWrite && !s.quiet {
			delete(all, string(s.key))
		}
	}
	return all
}

// Again implements SQL.
func (t *writeTx) Again() bool {
	if t.ended || t.b.failed != nil || !t.c.runAgain() {
		return false
	}
	t.b.failed = errAgain
	return true
}

// changeOf returns the row for table change.
func (b *batch) changeOf(t *writeTx) (writes []byte) {
	last := make(map[string]int, len(t.published))
	for i, w := range t.published {
		last[string(w.Key)] = i
	}
	silent := t.silent()
	for _, key := range t.touched {
		if _, again := last[string(key)]; !again && !silent[string(key)] {
			v, _ := b.over.Get(key)
			writes = appendWrite(writes, key, v.Bytes, v.Marked)
		}
	}
	for i, w := range t.published {
		if last[string(w.Key)] == i {
			writes = appendWrite(writes, w.Key, w.Val, w.Deleted)
		}
	}
	return writes
}

// Query implements Querier.
func (t *viewTx) Query(sql string, args ...any) (pgx.Rows, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if t.closeRows(); t.failed != nil {
		return nil, t.d.fault(t.failed)
	}
	if t.conn != nil {
		var ctx context.Context
		ctx, t.cancel = t.d.bounded(t.ctx)
		rows, err := t.conn.Query(ctx, sql, args...)
		if err != nil {
			return nil, t.fail(err)
		}
		t.rows = rows
		return rows, nil
	}
	c, err := t.d.views.get(t.ctx)
	if err != nil {
		return nil, t.fail(err)
	}
	var send pgx.Batch
	begin := t.began || t.whole
	if begin {
		t.conn = c
		send.Queue(viewSQL)
	} else {
		t.alone = c
	}
	ahead := t.ahead
	t.ahead = nil
	if len(ahead) == 1 { // as the epoch of the collections of records
		send.Queue(t.d.sql.getFirst, ahead[0])
	} else {
		send.Queue(t.d.sql.head)
		if len(ahead) > 0 {
			send.Queue(t.d.sql.many, ahead)
		}
	}
	send.Queue(sql, args...)
	var ctx context.Context
	ctx, t.cancel = t.d.bounded(t.ctx)
	t.results = c.SendBatch(ctx, &send)
	if err := t.open(begin, ahead); err != nil {
		if t.stale {
			return nil, err
		}
		return nil, t.fail(err)
	}
	return t.rows, nil
}

// open reads the results of a batch up to the rows of its last statement.
func (t *viewTx) open(begun bool, ahead [][]byte) error {
	if begun {
		if _, err := t.results.Exec(); err != nil {
			return err
		}
	}
	var h head
	var val []byte
	into := []any{&h.pos, &h.at, &h.clock}
	if len(ahead) == 1 {
		into = append(into, &val)
	}
	if err := t.results.QueryRow().Scan(into...); err != nil {
		return err
	}
	if t.stale = t.began && h.pos != t.pos; t.stale {
		return errStale
	}
	if !t.began {
		if err := t.d.behind(h.pos, t.least); err != nil {
			return err
		}
		t.head = h
		t.seen()
	}
	if len(ahead) == 1 {
		t.known[string(ahead[0])] = val
	} else if len(ahead) > 1 {
		for _, key := range ahead {
			t.known[string(key)] = nil
		}
		rows, err := t.results.Query()
		if err != nil {
			return err
		}
		var k, v []byte
		if _, err := pgx.ForEachRow(rows, []any{&k, &v}, func() error { t.known[string(k)] = v; v = nil; return nil }); err != nil {
			return err
		}
	}
	rows, err := t.results.Query()
	t.rows = rows
	return err
}

// closeRows makes the session free.
func (t *viewTx) closeRows() {
	var err error
	if t.rows != nil {
		t.rows.Close()
		err = t.rows.Err()
	}
	if t.results != nil {
		if cerr := t.results.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil && t.failed == nil {
		t.failed = err
	}
	if t.alone != nil {
		if t.failed == nil {
			t.d.views.put(t.alone)
		} else {
			t.d.views.drop(t.alone)
		}
	}
	if t.cancel != nil {
		t.cancel()
	}
	t.rows, t.results, t.alone, t.cancel = nil, nil, nil, nil
}

// Attached implements engine.Attacher.
func (t *writeTx) Attached() any { return t.b.x.d.o.Attached }

// Attached implements engine.Attacher.
func (t *viewTx) Attached() any { return t.d.o.Attached }

var (
	_ SQL             = (*writeTx)(nil)
	_ Querier         = (*viewTx)(nil)
	_ engine.Attacher = (*writeTx)(nil)
	_ engine.Attacher = (*viewTx)(nil)
)
