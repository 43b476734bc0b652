package postgres

import (
	"bytes"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/overlay"
)

var errEnded = engine.Errorf(engine.CodeInvalid, "the transaction has ended")

// maxAhead is how many announced keys are read at once.
const maxAhead = 1024

// writeTx is a transaction of Update. It writes to the batch's overlay and can undo that.
type writeTx struct {
	b     *batch
	c     *call // whose function it runs
	now   int64 // in microseconds
	size  int   // of the keys and values written
	scans int   // under way
	ended bool

	touched [][]byte            // keys written, in the order of their first writes
	mine    map[string]struct{} // the same
	steps   []step
	saving  bool // Savepoint was called
	fencing bool // it has written engine.FenceKey

	mark      int            // steps when Savepoint was called last
	points    []int          // marks for which a SAVEPOINT was queued
	published []engine.Write // of Publish
	quiet     bool           // within Quietly

	broken   error // of Break
	brokenAt int   // steps then
}

type stepKind uint8

const (
	stepWrite stepKind = iota
	stepSQL
	stepPublish
)

// step is one thing that can be undone.
type step struct {
	kind stepKind
	seq  int // of a statement, in the batch

	// Of a write, with what the overlay had before.
	key   []byte
	old   btree.Value
	had   bool
	first bool // of the transaction, to that key
	quiet bool
}

func (b *batch) newTx(c *call) *writeTx {
	clock := b.clock + time.Since(b.begun).Microseconds()
	return &writeTx{b: b, c: c, now: b.x.d.time(clock, b.at+1)}
}

// Get implements engine.Tx.
func (t *writeTx) Get(key []byte) ([]byte, bool, error) {
	if t.ended {
		return nil, false, errEnded
	}
	if v, ok := t.b.over.Get(key); ok {
		return notNil(v.Bytes), !v.Marked, nil
	}
	if v, ok := t.b.known[string(key)]; ok {
		return v, v != nil, nil
	}
	if len(key) == 0 || len(key) > MaxKeyBytes {
		return nil, false, nil
	}
	if err := t.b.read(key); err != nil {
		return nil, false, err
	}
	v := t.b.known[string(key)]
	return v, v != nil, nil
}

// read reads keys, and those announced, from the table.
func (b *batch) read(keys ...[]byte) error {
	ahead := b.ahead
	b.ahead = nil
	ask := make([][]byte, 0, len(keys)+len(ahead))
	for _, list := range [][][]byte{keys, ahead} {
		for _, key := range list {
			if _, ok := b.known[string(key)]; !ok {
				b.x.known.set(string(key), nil)
				ask = append(ask, key)
			}
		}
	}
	sql, arg := b.x.d.sql.many, any(ask)
	var k, v []byte
	into := []any{&k, &v}
	if len(ask) == 1 {
		sql, arg, k, into = b.x.d.sql.get, ask[0], ask[0], into[1:]
	}
	return b.query(sql, []any{arg}, into, func() error {
		b.x.known.set(string(k), notNil(v))
		return nil
	})
}

// query reads within the transaction of the batch.
func (b *batch) query(sql string, args, into []any, each func() error) error {
	if err := b.closeRows(); err != nil {
		return err
	}
	ctx, cancel := b.x.d.within()
	defer cancel()
	b.x.d.reads.Add(1)
	rows, err := b.x.conn.Query(ctx, sql, args...)
	if err == nil {
		_, err = pgx.ForEachRow(rows, into, each)
	}
	if err != nil {
		b.failed = err
		return b.x.d.fault(err)
	}
	return nil
}

// GetMany implements engine.ManyGetter.
func (t *writeTx) GetMany(keys [][]byte) ([][]byte, error) {
	if t.ended {
		return nil, errEnded
	}
	var ask [][]byte
	for _, key := range keys {
		if t.missing(key) {
			ask = append(ask, key)
		}
	}
	if len(ask) > 0 {
		if err := t.b.read(ask...); err != nil {
			return nil, err
		}
	}
	vals := make([][]byte, len(keys))
	for i, key := range keys {
		v, ok, err := t.Get(key)
		if err != nil {
			return nil, err
		}
		if ok {
			vals[i] = v
		}
	}
	return vals, nil
}

// missing reports whether the table must be asked for key.
func (t *writeTx) missing(key []byte) bool {
	if len(key) == 0 || len(key) > MaxKeyBytes {
		return false
	}
	if _, ok := t.b.known[string(key)]; ok {
		return false
	}
	_, ok := t.b.over.Get(key)
	return !ok
}

// Expects implements engine.Expecter.
func (t *writeTx) Expects() bool { return !t.ended }

// Expect implements engine.Expecter: the keys are read with the next Get that needs the table.
func (t *writeTx) Expect(keys [][]byte) {
	if t.ended {
		return
	}
	for _, key := range keys {
		if len(t.b.ahead) < maxAhead && t.missing(key) {
			t.b.ahead = append(t.b.ahead, bytes.Clone(key))
		}
	}
}

// Put implements engine.Tx.
func (t *writeTx) Put(key, val []byte) error {
	switch {
	case t.ended:
		return errEnded
	case len(key) == 0:
		return engine.ErrKeyEmpty
	case len(key) > MaxKeyBytes:
		return engine.ErrKeyTooLarge
	case len(val) > MaxValBytes:
		return engine.ErrValueTooLarge
	case t.size+len(key)+len(val) > MaxTxBytes:
		return engine.ErrTxTooLarge
	}
	if err := t.passFence(key); err != nil {
		return err
	}
	t.size += len(key) + len(val)
	t.set(key, btree.Value{Bytes: val})
	return nil
}

// Delete implements engine.Tx.
func (t *writeTx) Delete(key []byte) error {
	switch {
	case t.ended:
		return errEnded
	case len(key) == 0 || len(key) > MaxKeyBytes:
		return nil // there is no such key
	case t.size+len(key) > MaxTxBytes:
		return engine.ErrTxTooLarge
	}
	if err := t.passFence(key); err != nil {
		return err
	}
	t.size += len(key)
	t.set(key, btree.Value{Marked: true})
	return nil
}

// passFence returns an error if a fence stops the write of key.
func (t *writeTx) passFence(key []byte) error {
	switch {
	case string(key) == engine.FenceKey:
		t.fencing = true
		return nil
	case t.fencing:
		return nil
	}
	if t.b.fence == fenceUnknown {
		_, up, err := t.Get([]byte(engine.FenceKey))
		if err != nil {
			return err
		}
		if t.b.fence = fenceDown; up {
			t.b.fence = fenceUp
		}
	}
	if t.b.fence == fenceUp {
		return engine.ErrFenced
	}
	return nil
}

func (t *writeTx) set(key []byte, v btree.Value) {
	s := step{key: bytes.Clone(key), quiet: t.quiet}
	if s.old, s.had = t.b.over.Get(key); s.had {
		s.old.Bytes = bytes.Clone(s.old.Bytes)
	}
	if t.mine == nil {
		t.mine = map[string]struct{}{}
	}
	if _, again := t.mine[string(key)]; !again {
		s.first = true
		t.mine[string(key)] = struct{}{}
		t.touched = append(t.touched, s.key)
	}
	t.steps = append(t.steps, s)
	t.b.over.Set(key, v)
}

// undo takes back all writes but the first n.
func (t *writeTx) undo(n int) {
	sent := false // statements were
	for i := len(t.steps) - 1; i >= n; i-- {
		switch s := t.steps[i]; s.kind {
		case stepWrite:
			t.unwrite(s)
		case stepSQL:
			sent = !t.b.queue.unqueue(s) || sent
		case stepPublish:
			t.published = t.published[:len(t.published)-1]
		}
	}
	t.steps = t.steps[:n]
	if sent {
		t.rollBack(n)
	}
	for len(t.points) > 0 && t.points[len(t.points)-1] >= n {
		t.points = t.points[:len(t.points)-1]
	}
	t.mark = min(t.mark, n)
}

func (t *writeTx) unwrite(s step) {
	if s.had {
		t.b.over.Set(s.key, s.old)
	} else {
		t.b.over.Delete(s.key)
	}
	if s.first {
		delete(t.mine, string(s.key))
		t.touched = t.touched[:len(t.touched)-1]
	}
}

// Savepoint implements engine.Savepointer.
func (t *writeTx) Savepoint() int {
	t.saving, t.mark = true, len(t.steps)
	return len(t.steps)
}

// RollbackTo implements engine.Savepointer.
func (t *writeTx) RollbackTo(mark int) error {
	switch {
	case t.ended:
		return errEnded
	case mark < 0 || mark > len(t.steps) || !t.saving:
		return engine.Errorf(engine.CodeInvalid, "the transaction has no savepoint %d", mark)
	case mark == len(t.steps):
		return nil
	case t.scans > 0:
		return engine.Errorf(engine.CodeInvalid, "a transaction must not undo writes while it scans")
	}
	if t.undo(mark); mark < t.brokenAt {
		t.broken = nil
	}
	return nil
}

// Break implements engine.Breaker.
func (t *writeTx) Break(err error) {
	if t.broken == nil && !t.ended {
		t.broken, t.brokenAt = err, len(t.steps)
	}
}

// Now implements engine.Tx.
func (t *writeTx) Now() time.Time { return time.UnixMicro(t.now) }

// AsOf implements engine.Tx.
func (t *writeTx) AsOf() time.Time { return t.Now() }

// Scan implements engine.Tx.
func (t *writeTx) Scan(lo, hi []byte) iter.Seq2[engine.Pair, error] { return t.merged(lo, hi, false) }

// ScanBack implements engine.Tx.
func (t *writeTx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] {
	return t.merged(lo, hi, true)
}

// merged yields the pairs of the table under those of the overlay.
func (t *writeTx) merged(lo, hi []byte, back bool) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) {
		if t.ended {
			yield(engine.Pair{}, errEnded)
			return
		}
		if hi != nil && bytes.Compare(lo, hi) >= 0 {
			return
		}
		t.scans++
		defer func() { t.scans-- }()
		overlay.Merge(t.b.over, lo, hi, back, pages(t.b.x.d, t.b.query, lo, hi, back))(yield)
	}
}

// querier runs each for every row of a query, within one transaction.
type querier func(sql string, args, into []any, each func() error) error

// Sizes of the pages of a scan, in rows and, as far as can be guessed from the page before,
// in bytes.
const (
	firstPage    = 32
	maxPage      = 1024
	maxPageBytes = 4 << 20
)

// pages scans the table in pages, so that the session is free between them.
func pages(d *DB, q querier, lo, hi []byte, back bool) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) {
		if hi != nil && bytes.Compare(lo, hi) >= 0 {
			return
		}
		lo, hi, above := notNil(bytes.Clone(lo)), bytes.Clone(hi), false
		for limit := firstPage; ; {
			var p engine.Pair
			var page []engine.Pair
			size := 0
			sql, args := d.pageSQL(lo, hi, above, back, limit)
			err := q(sql, args, []any{&p.Key, &p.Val}, func() error {
				page = append(page, p)
				size += len(p.Key) + len(p.Val)
				return nil
			})
			if err != nil {
				yield(engine.Pair{}, err)
				return
			}
			for _, p := range page {
				if !yield(p, nil) {
					return
				}
			}
			if len(page) < limit {
				return
			}
			if last := page[limit-1].Key; back {
				hi = last
			} else {
				lo, above = last, true
			}
			limit = max(1, min(2*limit, maxPage, maxPageBytes/(1+size/limit)))
		}
	}
}

func (d *DB) pageSQL(lo, hi []byte, above, back bool, limit int) (string, []any) {
	sql, args := "SELECT k, v FROM "+d.ident+".kv WHERE k >= $2", []any{limit, lo}
	if above {
		sql = "SELECT k, v FROM " + d.ident + ".kv WHERE k > $2"
	}
	if hi != nil {
		sql, args = sql+" AND k < $3", append(args, hi)
	}
	if back {
		return sql + " ORDER BY k DESC LIMIT $1", args
	}
	return sql + " ORDER BY k LIMIT $1", args
}

var (
	_ engine.Savepointer = (*writeTx)(nil)
	_ engine.Breaker     = (*writeTx)(nil)
	_ engine.ManyGetter  = (*writeTx)(nil)
	_ engine.Expecter    = (*writeTx)(nil)
)
