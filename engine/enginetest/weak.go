package enginetest

import (
	"context"
	"iter"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Coarse returns eng with all times rounded down to a multiple of by, so that many
// transactions have the same one. It promises what eng does but DistinctTimes.
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
	t := coarseTx{tx, c.by}
	r, ranks := tx.(engine.Ranker)
	s, saves := tx.(engine.Savepointer)
	switch {
	case ranks && saves:
		return struct {
			engine.Tx
			engine.Ranker
			engine.Savepointer
		}{t, r, s}
	case ranks:
		return struct {
			engine.Tx
			engine.Ranker
		}{t, r}
	case saves:
		return struct {
			engine.Tx
			engine.Savepointer
		}{t, s}
	}
	return t
}
