package enginetest

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// tag begins all keys of a tagged engine.
var tag = []byte("{suite}")

// Tagged returns the keys of one partition of eng as an engine of their own, which is atomic over all of them. So the
// cases that need this run on engines that are atomic over one partition only. Scans are not supported.
func Tagged(eng engine.Engine) engine.Engine {
	if m, ok := eng.(engine.Meter); ok {
		return struct {
			*tagged
			engine.Meter
		}{&tagged{eng}, m}
	}
	return &tagged{eng}
}

type tagged struct{ engine.Engine }

func (g *tagged) Promises() engine.Promises {
	p := g.Engine.Promises()
	p.MaxKeyBytes = cmp.Or(p.MaxKeyBytes, 512) - len(tag)
	p.Ordered, p.Feed, p.Fence = false, false, false
	if p.Atomic >= engine.OnePartition {
		p.Atomic, p.Snapshot = engine.AllKeys, true
	}
	return p
}

func (g *tagged) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	return g.Engine.View(ctx, r, func(tx engine.Tx) error { return fn(withTagged(tx)) })
}

func (g *tagged) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return g.Engine.Update(ctx, func(tx engine.Tx) error { return fn(withTagged(tx)) })
}

func (g *tagged) Changes(context.Context, engine.Position) iter.Seq2[engine.Change, error] {
	return func(yield func(engine.Change, error) bool) { yield(engine.Change{}, lacks("change feed")) }
}

// withTagged returns tx with tagged keys, and the optional interfaces that matter to a partition.
func withTagged(tx engine.Tx) engine.Tx {
	t := taggedTx{tx}
	x, expires := tx.(engine.Expirer)
	many, gets := tx.(engine.ManyGetter)
	switch {
	case expires && gets:
		return struct {
			taggedTx
			taggedExpirer
			taggedMany
		}{t, taggedExpirer{x}, taggedMany{many}}
	case gets:
		return struct {
			taggedTx
			taggedMany
		}{t, taggedMany{many}}
	}
	return t
}

type taggedTx struct{ engine.Tx }

// withTag adds the tag to a key. An empty key stays empty, since it is refused.
func withTag(key []byte) []byte {
	if len(key) == 0 {
		return key
	}
	return append(bytes.Clone(tag), key...)
}

func (t taggedTx) Get(key []byte) ([]byte, bool, error) { return t.Tx.Get(withTag(key)) }
func (t taggedTx) Put(key, val []byte) error            { return t.Tx.Put(withTag(key), val) }
func (t taggedTx) Delete(key []byte) error              { return t.Tx.Delete(withTag(key)) }

func (t taggedTx) Scan(_, _ []byte) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) { yield(engine.Pair{}, lacks("ordered scans")) }
}

func (t taggedTx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] { return t.Scan(lo, hi) }

type taggedExpirer struct{ x engine.Expirer }

func (t taggedExpirer) PutUntil(key, val []byte, until time.Time) error {
	return t.x.PutUntil(withTag(key), val, until)
}

type taggedMany struct{ many engine.ManyGetter }

func (t taggedMany) GetMany(keys [][]byte) ([][]byte, error) {
	all := make([][]byte, len(keys))
	for i, k := range keys {
		all[i] = withTag(k)
	}
	return t.many.GetMany(all)
}
