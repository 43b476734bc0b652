package graph

import (
	"context"
	"errors"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// AddIndex adds an index and enters all elements in it, in batches. The index is
// Filling until the last of them. Elements that are written meanwhile are entered by
// their transactions. An index that is there already is left as it is; one that is
// Filling since an earlier call was interrupted is continued.
//
// CodeUnique: two elements, which the error names, have the same values of a unique
// index, which is removed again.
func (d *DB) AddIndex(ctx context.Context, graph string, ix Index) error {
	var num uint64
	filling := false
	if _, err := d.Update(ctx, graph, func(t *Tx) error {
		o, err := t.DefineIndex(ix)
		if err == nil {
			num, filling = o.num, o.Filling
		}
		return err
	}); err != nil || !filling {
		return err
	}
	err := d.batches(ctx, graph, func(t *Tx) (bool, error) { return t.fill(num, d.batch) })
	if errors.Is(err, &engine.Error{Code: CodeUnique}) {
		return errors.Join(err, d.RemoveIndex(ctx, graph, ix))
	}
	return err
}

// indexNumbered returns the index with a number; nil: there is none.
func (t *Tx) indexNumbered(num uint64) (*Index, error) {
	all, err := t.Indexes()
	if i := slices.IndexFunc(all, func(ix *Index) bool { return ix.num == num }); i >= 0 {
		return all[i], err
	}
	return nil, err
}

// fill enters some elements in an index, as many as a batch can, and reports whether
// it has all.
func (t *Tx) fill(num uint64, batch int) (done bool, err error) {
	ix, err := t.indexNumbered(num)
	switch {
	case err != nil:
		return false, err
	case ix == nil:
		return false, engine.Errorf(CodeSchema, "the index was removed while it was filled")
	case !ix.Filling: // another call has filled it
		return true, nil
	}
	at := t.key(roomFills, num)
	room := byte(roomVertices)
	if ix.On == value.KindEdge {
		room = roomOut
	}
	lo, hi := within(t.key(room))
	from, ok, err := t.get(at)
	if err != nil {
		return false, err
	}
	if ok {
		lo = append(slices.Clone(lo), from...)
	}
	next, err := t.fillFrom(ix, lo, hi, batch)
	if err != nil {
		return false, err
	}
	if next != nil {
		return false, t.put(at, next[len(t.prefix)+1:])
	}
	filled := *ix
	filled.Filling = false
	t.indexes = nil
	if err := t.delete(at); err != nil {
		return false, err
	}
	return true, t.putIndex(&filled)
}

// fillFrom enters the elements from a key on. It returns the key of the one with
// which the next batch goes on; nil: there is none.
func (t *Tx) fillFrom(ix *Index, lo, hi []byte, batch int) (next []byte, err error) {
	size := 0
	for reads, more := 0, true; more; {
		var page []engine.Pair
		_, more, err = t.page(lo, hi, maxPage, func(p engine.Pair) error {
			page = append(page, engine.Pair{Key: slices.Clone(p.Key), Val: slices.Clone(p.Val)})
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			reads++
			size += len(p.Val)
			if reads > batchReads || reads > 1 && size > batchReadBytes {
				return p.Key, nil
			}
			if err := t.enter(ix, p, batch); err != nil {
				if err == errFull {
					return p.Key, nil
				}
				return nil, err
			}
			lo = append(p.Key, 0)
		}
	}
	return nil, nil
}

// enter adds those entries of an element that an index lacks, until the batch is
// full: then the error is errFull.
func (t *Tx) enter(ix *Index, p engine.Pair, batch int) error {
	s, err := t.indexed(ix, p)
	if err != nil || s.after == nil {
		return err
	}
	keys, err := ix.entries(t, s.labels, s.after)
	if err != nil {
		return err
	}
	for _, b := range keys {
		full := withNumbers(b, s.id)
		_, ok, err := t.tx.Get(full)
		switch {
		case err != nil:
			return err
		case ok:
			continue
		case t.full(batch):
			return errFull
		}
		if err := t.alone(ix, b, full, s); err != nil {
			return err
		}
		if err := t.put(full, nil); err != nil {
			return err
		}
	}
	return nil
}

// indexed reads an element's record. One that is being removed has no states.
func (t *Tx) indexed(ix *Index, p engine.Pair) (s states, err error) {
	if _, err := t.leavers(); err != nil {
		return s, err
	}
	if ix.On == value.KindVertex {
		var num [1]uint64
		if !numbers(p.Key, len(t.prefix)+1, num[:]) || len(p.Val) == 0 {
			return s, corrupt("vertex", p.Key)
		}
		rec, err := (&Vertex{t: t, num: num[0]}).parse(p.Val)
		if err != nil || p.Val[0]&flagLeaving != 0 {
			return s, err
		}
		return states{id: num[:], labels: rec.labels, after: rec.values}, nil
	}
	var at [4]uint64
	if !numbers(p.Key, len(t.prefix)+1, at[:]) {
		return s, corrupt("edge", p.Key)
	}
	e := &Edge{t: t, out: at[0], label: at[1], in: at[2], num: at[3]}
	rec, err := e.parseRecord(p.Val)
	if err != nil || t.isHidden(e.out, e.in) {
		return s, err
	}
	return states{id: at[:], labels: []uint64{e.label}, after: rec.values}, nil
}

// RemoveIndex removes an index, which is one with the same elements as ix, and then
// its entries in batches. No index is not an error. If RemoveIndex is interrupted, the
// index is gone, and Resume removes the remaining entries.
func (d *DB) RemoveIndex(ctx context.Context, graph string, ix Index) error {
	var num uint64
	if _, err := d.Update(ctx, graph, func(t *Tx) error {
		num = 0
		all, err := t.Indexes()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, ix.Same)
		if i < 0 {
			return nil
		}
		num = all[i].num
		if err := t.delete(t.key(roomFills, num)); err != nil {
			return err
		}
		return t.storeIndex(all[i], indexDropped)
	}); err != nil || num == 0 {
		return err
	}
	return d.batches(ctx, graph, func(t *Tx) (bool, error) { return t.emptyIndex(num, d.batch) })
}

// emptyIndex removes entries of an index that was removed, as many as a batch can,
// and reports whether these were all.
func (t *Tx) emptyIndex(num uint64, batch int) (done bool, err error) {
	if _, err := t.Indexes(); err != nil {
		return false, err
	}
	if !slices.Contains(t.dropped, num) { // another process has removed it
		return true, nil
	}
	if done, err = t.deleteAll(t.key(roomEntries, num), batch); err != nil || !done {
		return false, err
	}
	return true, t.delete(t.key(roomIndexes, num))
}
