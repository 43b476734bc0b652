package proc

import (
	"iter"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// engineTx is the value of Tx.Engine: the engine's transaction with the checks of t before
// each operation. It is a single pointer, so converting it to an interface does not
// allocate.
type engineTx struct{ t *Tx }

var (
	_ engine.Tx       = engineTx{}
	_ engine.Ranker   = engineTx{}
	_ engine.Breaker  = engineTx{}
	_ engine.Expecter = engineTx{}
)

// Get implements engine.Tx.
func (e engineTx) Get(key []byte) ([]byte, bool, error) {
	if err := e.t.check(); err != nil {
		return nil, false, err
	}
	return e.t.tx.Get(key)
}

// Put implements engine.Tx.
func (e engineTx) Put(key, val []byte) error {
	if err := e.t.mayWrite(); err != nil {
		return err
	}
	return e.t.tx.Put(key, val)
}

// Delete implements engine.Tx.
func (e engineTx) Delete(key []byte) error {
	if err := e.t.mayWrite(); err != nil {
		return err
	}
	return e.t.tx.Delete(key)
}

// Scan implements engine.Tx.
func (e engineTx) Scan(lo, hi []byte) iter.Seq2[engine.Pair, error] {
	return e.scan(engine.Tx.Scan, lo, hi)
}

// ScanBack implements engine.Tx.
func (e engineTx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] {
	return e.scan(engine.Tx.ScanBack, lo, hi)
}

func (e engineTx) scan(way func(tx engine.Tx, lo, hi []byte) iter.Seq2[engine.Pair, error], lo, hi []byte) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) {
		if err := e.t.check(); err != nil {
			yield(engine.Pair{}, err)
			return
		}
		for p, err := range way(e.t.tx, lo, hi) {
			if err == nil {
				if err = e.t.check(); err != nil {
					p = engine.Pair{}
				}
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// Count implements engine.Ranker. If the engine's transaction does not, Count scans.
func (e engineTx) Count(lo, hi []byte) (int, error) {
	if err := e.t.check(); err != nil {
		return 0, err
	}
	if r, ok := e.t.tx.(engine.Ranker); ok {
		return r.Count(lo, hi)
	}
	n := 0
	for _, err := range e.Scan(lo, hi) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// At implements engine.Ranker in the same way as Count.
func (e engineTx) At(lo, hi []byte, i int) (engine.Pair, bool, error) {
	if err := e.t.check(); err != nil || i < 0 {
		return engine.Pair{}, false, err
	}
	if r, ok := e.t.tx.(engine.Ranker); ok {
		return r.At(lo, hi, i)
	}
	for p, err := range e.Scan(lo, hi) {
		if err != nil {
			return engine.Pair{}, false, err
		}
		if i == 0 {
			return p, true, nil
		}
		i--
	}
	return engine.Pair{}, false, nil
}

// Expects implements engine.Expecter.
func (e engineTx) Expects() bool {
	x, ok := e.t.tx.(engine.Expecter)
	return ok && x.Expects()
}

// Expect implements engine.Expecter.
func (e engineTx) Expect(keys [][]byte) {
	if x, ok := e.t.tx.(engine.Expecter); ok {
		x.Expect(keys)
	}
}

// Now implements engine.Tx.
func (e engineTx) Now() time.Time { return e.t.Now() }

// AsOf implements engine.Tx.
func (e engineTx) AsOf() time.Time {
	if e.t.tx == nil {
		return time.Time{}
	}
	return e.t.tx.AsOf()
}

// Break implements engine.Breaker: the innermost procedure fails.
func (e engineTx) Break(err error) {
	if e.t.half == nil {
		e.t.half = err
	}
}
