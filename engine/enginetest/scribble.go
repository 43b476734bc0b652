package enginetest

import (
	"context"
	"iter"

	"github.com/skerrydb/skerry/engine"
)

// Scribble returns eng with every byte slice that a transaction returned overwritten as
// soon as it is no longer valid: at the transaction's next write and at its end. A caller
// that keeps a slice too long then reads garbage. Transactions have no optional interfaces
// but Ranker and Savepointer.
func Scribble(eng engine.Engine) engine.Engine { return &scribbling{eng} }

type scribbling struct{ engine.Engine }

func (s *scribbling) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	return s.Engine.View(ctx, r, scribbled(fn))
}

func (s *scribbling) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return s.Engine.Update(ctx, scribbled(fn))
}

func (s *scribbling) UpdateEach(ctx context.Context, n int, fn func(engine.Tx, int) error) (engine.Position, error) {
	return engine.UpdateEach(ctx, s.Engine, n, func(tx engine.Tx, i int) error {
		return scribbled(func(tx engine.Tx) error { return fn(tx, i) })(tx)
	})
}

// scribbled returns fn on a transaction that overwrites what it returned.
func scribbled(fn func(engine.Tx) error) func(engine.Tx) error {
	return func(tx engine.Tx) error {
		t := &scribblingTx{Tx: tx}
		defer t.scribble()
		var r engine.Ranker
		var s engine.Savepointer
		if inner, ok := tx.(engine.Ranker); ok {
			r = scribblingRanker{inner, t}
		}
		if inner, ok := tx.(engine.Savepointer); ok {
			s = scribblingSaver{inner, t}
		}
		return fn(withOptional(t, r, s))
	}
}

// withOptional returns tx with those of the optional interfaces that are not nil.
func withOptional(tx engine.Tx, r engine.Ranker, s engine.Savepointer) engine.Tx {
	switch {
	case r != nil && s != nil:
		return struct {
			engine.Tx
			engine.Ranker
			engine.Savepointer
		}{tx, r, s}
	case r != nil:
		return struct {
			engine.Tx
			engine.Ranker
		}{tx, r}
	case s != nil:
		return struct {
			engine.Tx
			engine.Savepointer
		}{tx, s}
	}
	return tx
}

// scribblingTx returns copies, and overwrites them when they end.
type scribblingTx struct {
	engine.Tx
	lent [][]byte // chunks with the slices that are valid now
}

const scribbleChunk = 4 << 10

// lend returns a copy of b that is valid until the next scribble. It is never nil.
func (t *scribblingTx) lend(b []byte) []byte {
	last := len(t.lent) - 1
	if last < 0 || cap(t.lent[last])-len(t.lent[last]) < len(b) {
		t.lent = append(t.lent, make([]byte, 0, max(scribbleChunk, len(b))))
		last++
	}
	c := append(t.lent[last], b...)
	t.lent[last] = c
	return c[len(c)-len(b) : len(c) : len(c)]
}

// scribble ends the validity of all slices that were returned. It inverts every bit, so
// that no byte stays.
func (t *scribblingTx) scribble() {
	for _, chunk := range t.lent {
		for i := range chunk {
			chunk[i] ^= 0xff
		}
	}
	t.lent = nil
}

func (t *scribblingTx) pair(p engine.Pair) engine.Pair {
	return engine.Pair{Key: t.lend(p.Key), Val: t.lend(p.Val)}
}

func (t *scribblingTx) Get(key []byte) ([]byte, bool, error) {
	val, ok, err := t.Tx.Get(key)
	if !ok || err != nil {
		return val, ok, err
	}
	return t.lend(val), true, nil
}

// Put overwrites what was returned only afterwards, since key and val may be from there.
func (t *scribblingTx) Put(key, val []byte) error {
	defer t.scribble()
	return t.Tx.Put(key, val)
}

func (t *scribblingTx) Delete(key []byte) error {
	defer t.scribble()
	return t.Tx.Delete(key)
}

func (t *scribblingTx) Scan(lo, hi []byte) iter.Seq2[engine.Pair, error] {
	return t.lendAll(t.Tx.Scan(lo, hi))
}

func (t *scribblingTx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] {
	return t.lendAll(t.Tx.ScanBack(lo, hi))
}

func (t *scribblingTx) lendAll(pairs iter.Seq2[engine.Pair, error]) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) {
		for p, err := range pairs {
			if err == nil {
				p = t.pair(p)
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

type scribblingRanker struct {
	engine.Ranker
	t *scribblingTx
}

func (r scribblingRanker) At(lo, hi []byte, i int) (engine.Pair, bool, error) {
	p, ok, err := r.Ranker.At(lo, hi, i)
	if !ok || err != nil {
		return p, ok, err
	}
	return r.t.pair(p), true, nil
}

type scribblingSaver struct {
	engine.Savepointer
	t *scribblingTx
}

func (s scribblingSaver) RollbackTo(mark int) error {
	defer s.t.scribble()
	return s.Savepointer.RollbackTo(mark)
}
