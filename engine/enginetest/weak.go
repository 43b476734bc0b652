package enginetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Coarse returns eng with all times rounded down to a multiple of by, so that many
// transactions have the same time. It makes the promises of eng except DistinctTimes.
func Coarse(eng engine.Engine, by time.Duration) engine.Engine { return &coarse{eng, by} }

type coarse struct {
	engine.Engine
	by time.Duration
}

func (c *coarse) Promises() engine.Promises {
	p := c.Engine.Promises()
	p.DistinctTimes = false
	return p
}

func (c *coarse) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	return c.Engine.View(ctx, r, func(tx engine.Tx) error { return fn(c.tx(tx)) })
}

func (c *coarse) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return c.Engine.Update(ctx, func(tx engine.Tx) error { return fn(c.tx(tx)) })
}

func (c *coarse) UpdateEach(ctx context.Context, n int, fn func(engine.Tx, int) error) (engine.Position, error) {
	return engine.UpdateEach(ctx, c.Engine, n, func(tx engine.Tx, i int) error { return fn(c.tx(tx), i) })
}

func (c *coarse) Changes(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
	return func(yield func(engine.Change, error) bool) {
		for ch, err := range c.Engine.Changes(ctx, after) {
			ch.Time = ch.Time.Truncate(c.by)
			if !yield(ch, err) {
				return
			}
		}
	}
}

// coarseTx has the times of Tx rounded down.
type coarseTx struct {
	engine.Tx
	by time.Duration
}

func (t coarseTx) Now() time.Time  { return t.Tx.Now().Truncate(t.by) }
func (t coarseTx) AsOf() time.Time { return t.Tx.AsOf().Truncate(t.by) }

// tx returns tx with coarse times, and the optional interfaces that it has.
func (c *coarse) tx(tx engine.Tx) engine.Tx {
	r, _ := tx.(engine.Ranker)
	s, _ := tx.(engine.Savepointer)
	return withOptional(coarseTx{tx, c.by}, r, s)
}

// Twice returns eng with every function of View, Update and UpdateEach run twice. The first run
// leaves no writes, and its error is lost, as on engines that repeat a transaction after a conflict.
func Twice(eng engine.Engine) engine.Engine { return &twice{eng} }

type twice struct{ engine.Engine }

// errAgain discards the writes of a first run.
var errAgain = errors.New("run again")

func (w *twice) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	return w.Engine.View(ctx, r, func(tx engine.Tx) error {
		_ = fn(tx)
		return fn(tx)
	})
}

func (w *twice) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	if _, err := w.Engine.Update(ctx, func(tx engine.Tx) error {
		_ = fn(tx)
		return errAgain
	}); !errors.Is(err, errAgain) {
		return 0, err
	}
	return w.Engine.Update(ctx, fn)
}

func (w *twice) UpdateEach(ctx context.Context, n int, fn func(engine.Tx, int) error) (engine.Position, error) {
	return engine.UpdateEach(ctx, w.Engine, n, func(tx engine.Tx, i int) error {
		if s, ok := tx.(engine.Savepointer); ok {
			mark := s.Savepoint()
			_ = fn(tx, i)
			if err := s.RollbackTo(mark); err != nil {
				return err
			}
		}
		return fn(tx, i)
	})
}

// Within returns eng as an engine that is atomic only over scope and promises as little as
// such databases do: no ordered scans, feed, positions, snapshots or clock. It behaves
// accordingly: a view reads each key from a separate snapshot, and Now sometimes goes back.
func Within(eng engine.Engine, scope engine.Scope) engine.Engine {
	return &within{Engine: eng, scope: scope}
}

// WithinSteady is Within with a clock that does not go back, for tests of times. It promises
// no more than Within.
func WithinSteady(eng engine.Engine, scope engine.Scope) engine.Engine {
	return &within{Engine: eng, scope: scope, steady: true}
}

type within struct {
	engine.Engine
	scope  engine.Scope
	steady bool
	runs   atomic.Int64
}

// Whole returns the engine that w weakens, so that tests can read everything.
func (w *within) Whole() engine.Engine { return w.Engine }

// back is how far the clock goes back in the next transaction.
func (w *within) back() time.Duration {
	if w.steady {
		return 0
	}
	return time.Duration(w.runs.Add(1)%3) * time.Second
}

func (w *within) Promises() engine.Promises {
	p := w.Engine.Promises()
	return engine.Promises{
		Atomic: w.scope, Serializable: p.Serializable, Durable: p.Durable,
		MaxKeyBytes: p.MaxKeyBytes, MaxValBytes: p.MaxValBytes, MaxTxBytes: p.MaxTxBytes,
	}
}

func lacks(what string) error {
	return engine.Errorf(engine.CodeUnsupported, "this engine has no %s", what)
}

func (w *within) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	if r.AtLeast != 0 {
		return 0, lacks("positions")
	}
	if r.Level == engine.Session { // which cannot say what it must see
		r.Level = engine.Linearizable
	}
	_, err := w.Engine.View(ctx, r, func(tx engine.Tx) error {
		return fn(&withinTx{Tx: tx, get: func(key []byte) (val []byte, ok bool, err error) {
			_, err = w.Engine.View(ctx, r, func(tx engine.Tx) error {
				v, had, err := tx.Get(key)
				val, ok = append([]byte{}, v...), had
				return err
			})
			return val, ok, err
		}})
	})
	return 0, err
}

func (w *within) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	_, err := w.Engine.Update(ctx, func(tx engine.Tx) error {
		t := &withinTx{Tx: tx, scope: w.scope, writes: true, back: w.back()}
		return cmp.Or(fn(t), t.crossed)
	})
	return 0, err
}

func (w *within) Changes(context.Context, engine.Position) iter.Seq2[engine.Change, error] {
	return func(yield func(engine.Change, error) bool) { yield(engine.Change{}, lacks("change feed")) }
}

// withinTx is a transaction on the keys of one partition, or a view.
type withinTx struct {
	engine.Tx
	scope   engine.Scope
	writes  bool
	get     func(key []byte) ([]byte, bool, error) // of a view
	part    []byte                                 // of the keys used so far; nil: none
	crossed error
	back    time.Duration
}

// stay returns an error for a key of another partition.
func (t *withinTx) stay(key []byte) error {
	part := key
	if t.scope == engine.OnePartition {
		part = engine.Partition(key)
	}
	switch {
	case t.crossed != nil:
	case t.part == nil:
		t.part = append([]byte{}, part...)
	case !bytes.Equal(t.part, part):
		t.crossed = engine.Errorf(engine.CodeCrossPartition, "key %q is not of the partition %q, and this engine changes %s at a time", key, t.part, t.scope)
	}
	return t.crossed
}

func (t *withinTx) Get(key []byte) ([]byte, bool, error) {
	if t.get != nil {
		return t.get(key)
	}
	if err := t.stay(key); err != nil {
		return nil, false, err
	}
	return t.Tx.Get(key)
}

func (t *withinTx) Put(key, val []byte) error {
	if t.writes {
		if err := t.stay(key); err != nil {
			return err
		}
	}
	return t.Tx.Put(key, val)
}

// PutUntil implements engine.Expirer if the underlying transaction does.
func (t *withinTx) PutUntil(key, val []byte, until time.Time) error {
	x, ok := t.Tx.(engine.Expirer)
	if !ok {
		return t.Put(key, val) // never removed
	}
	if err := t.stay(key); err != nil {
		return err
	}
	return x.PutUntil(key, val, until)
}

func (t *withinTx) Delete(key []byte) error {
	if t.writes {
		if err := t.stay(key); err != nil {
			return err
		}
	}
	return t.Tx.Delete(key)
}

func (t *withinTx) Scan(_, _ []byte) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) { yield(engine.Pair{}, lacks("ordered scans")) }
}

func (t *withinTx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] { return t.Scan(lo, hi) }
func (t *withinTx) Now() time.Time                                       { return t.Tx.Now().Add(-t.back) }
func (t *withinTx) AsOf() time.Time                                      { return t.Tx.AsOf().Add(-t.back) }
