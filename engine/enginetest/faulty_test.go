package enginetest

import (
	"context"
	"io"
	"iter"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// faulty is an engine of which single methods are replaced.
type faulty struct {
	*ref
	view    func(context.Context, engine.Read, func(engine.Tx) error) (engine.Position, error)
	update  func(context.Context, func(engine.Tx) error) (engine.Position, error)
	changes func(context.Context, engine.Position) iter.Seq2[engine.Change, error]
	of      func(context.Context, [][]byte, func(engine.Tx) error) (engine.Position, error)
	each    func(context.Context, int, func(engine.Tx, int) error) (engine.Position, error)
	end     func() error
	metrics func() iter.Seq[engine.Metric]
	backup  func(context.Context, io.Writer) (engine.Position, error)
	raise   func(context.Context, engine.Position) (engine.Position, error)
	report  func(*engine.NodeReport)
	removes bool   // RemoveNode does nothing
	invites uint64 // the id that Invite issues; 0: the next
	err     error  // of Err
	shift   int    // of Position
}

func (f *faulty) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	if f.view != nil {
		return f.view(ctx, r, fn)
	}
	return f.ref.View(ctx, r, fn)
}

func (f *faulty) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	if f.update != nil {
		return f.update(ctx, fn)
	}
	return f.ref.Update(ctx, fn)
}

func (f *faulty) Changes(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
	if f.changes != nil {
		return f.changes(ctx, after)
	}
	return f.ref.Changes(ctx, after)
}

func (f *faulty) UpdateOf(ctx context.Context, keys [][]byte, fn func(engine.Tx) error) (engine.Position, error) {
	if f.of != nil {
		return f.of(ctx, keys, fn)
	}
	return f.Update(ctx, fn)
}

func (f *faulty) UpdateEach(ctx context.Context, n int, fn func(engine.Tx, int) error) (engine.Position, error) {
	if f.each != nil {
		return f.each(ctx, n, fn)
	}
	return engine.UpdateEach(ctx, struct{ engine.Engine }{f}, n, fn) // the fallback
}

func (f *faulty) Close() error {
	if f.end != nil {
		return f.end()
	}
	return f.ref.Close()
}

func (f *faulty) Metrics() iter.Seq[engine.Metric] {
	if f.metrics != nil {
		return f.metrics()
	}
	return f.ref.Metrics()
}

func (f *faulty) Position() engine.Position {
	return f.ref.Position() + engine.Position(f.shift)
}

func (f *faulty) Backup(ctx context.Context, w io.Writer) (engine.Position, error) {
	if f.backup != nil {
		return f.backup(ctx, w)
	}
	return f.ref.Backup(ctx, w)
}

func (f *faulty) Raise(ctx context.Context, p engine.Position) (engine.Position, error) {
	if f.raise != nil {
		return f.raise(ctx, p)
	}
	return f.ref.Raise(ctx, p)
}

func (f *faulty) Err() error { return f.err }

// inUpdate passes every Update transaction through wrap.
func (f *faulty) inUpdate(wrap func(tx engine.Tx) engine.Tx) {
	f.update = func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
		return f.ref.Update(ctx, func(tx engine.Tx) error { return fn(wrap(tx)) })
	}
}

// inView passes every view through wrap.
func (f *faulty) inView(wrap func(tx engine.Tx) engine.Tx) {
	f.view = func(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
		return f.ref.View(ctx, r, func(tx engine.Tx) error { return fn(wrap(tx)) })
	}
}

// stream passes every tail through wrap, which receives each change and decides what to
// yield.
func (f *faulty) stream(wrap func(yield func(engine.Change) bool) func(engine.Change) bool) {
	f.changes = func(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
		return func(yield func(engine.Change, error) bool) {
			pass := wrap(func(c engine.Change) bool { return yield(c, nil) })
			for c, err := range f.ref.Changes(ctx, after) {
				if err != nil {
					yield(c, err)
					return
				}
				if !pass(c) {
					return
				}
			}
		}
	}
}

// faultyTx is a transaction of which single methods are replaced.
type faultyTx struct {
	engine.Tx
	get  func(key []byte) ([]byte, bool, error)
	put  func(key, val []byte) error
	del  func(key []byte) error
	scan func(lo, hi []byte) iter.Seq2[engine.Pair, error]
	back func(lo, hi []byte) iter.Seq2[engine.Pair, error]
	now  func() time.Time
	asOf time.Duration // added to AsOf
	undo func(mark int) error
}

func (t *faultyTx) Get(key []byte) ([]byte, bool, error) {
	if t.get != nil {
		return t.get(key)
	}
	return t.Tx.Get(key)
}

func (t *faultyTx) Put(key, val []byte) error {
	if t.put != nil {
		return t.put(key, val)
	}
	return t.Tx.Put(key, val)
}

func (t *faultyTx) Delete(key []byte) error {
	if t.del != nil {
		return t.del(key)
	}
	return t.Tx.Delete(key)
}

func (t *faultyTx) Scan(lo, hi []byte) iter.Seq2[engine.Pair, error] {
	if t.scan != nil {
		return t.scan(lo, hi)
	}
	return t.Tx.Scan(lo, hi)
}

func (t *faultyTx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] {
	if t.back != nil {
		return t.back(lo, hi)
	}
	return t.Tx.ScanBack(lo, hi)
}

func (t *faultyTx) AsOf() time.Time { return t.Tx.AsOf().Add(t.asOf) }

func (t *faultyTx) Now() time.Time {
	if t.now != nil {
		return t.now()
	}
	return t.Tx.Now()
}

// Savepoint implements engine.Savepointer.
func (t *faultyTx) Savepoint() int { return t.Tx.(engine.Savepointer).Savepoint() }

// RollbackTo implements engine.Savepointer.
func (t *faultyTx) RollbackTo(mark int) error {
	if t.undo != nil {
		return t.undo(mark)
	}
	return t.Tx.(engine.Savepointer).RollbackTo(mark)
}

// Break implements engine.Breaker.
func (t *faultyTx) Break(err error) { t.Tx.(engine.Breaker).Break(err) }

// Count implements engine.Ranker.
func (t *faultyTx) Count(lo, hi []byte) (int, error) { return t.Tx.(engine.Ranker).Count(lo, hi) }

// At implements engine.Ranker.
func (t *faultyTx) At(lo, hi []byte, i int) (engine.Pair, bool, error) {
	return t.Tx.(engine.Ranker).At(lo, hi, i)
}

// everyNth reports true at each nth call.
func everyNth(n int64) func() bool {
	var calls atomic.Int64
	return func() bool { return calls.Add(1)%n == 0 }
}

// unsafeTx writes directly to the shared state.
func (f *faulty) unsafeTx(tx engine.Tx) *faultyTx {
	write := func(fn func(engine.Tx) error) error {
		defer runtime.Gosched() // so that it is looked at
		f.mu.Lock()
		defer f.mu.Unlock()
		st := f.state
		now := &refTx{pairs: append([]engine.Pair(nil), st.pairs...), wrote: map[string]bool{}}
		if err := fn(now); err != nil {
			return err
		}
		st.pairs = now.pairs
		f.state = st
		return nil
	}
	return &faultyTx{
		Tx: tx,
		put: func(key, val []byte) error {
			if err := tx.Put(key, val); err != nil {
				return err
			}
			return write(func(tx engine.Tx) error { return tx.Put(key, val) })
		},
		del: func(key []byte) error {
			if err := tx.Delete(key); err != nil {
				return err
			}
			return write(func(tx engine.Tx) error { return tx.Delete(key) })
		},
	}
}
