package graph

import (
	"context"
	"errors"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// Remove removes the edge. One that is not in the graph any more is not an error.
func (e *Edge) Remove() error {
	if ok, err := e.Exists(); !ok || err != nil {
		return err
	}
	return e.remove(e.raw)
}

// remove removes an edge that has a record.
func (e *Edge) remove(raw []byte) error {
	before, err := e.parseRecord(raw)
	if err != nil {
		return err
	}
	if err := e.t.reindexEdge(e, before, &edgeRecord{}); err != nil {
		return err
	}
	if before.id != nil {
		e.id = before.id
		if err := e.t.forget(value.KindEdge, before.id); err != nil {
			return err
		}
	}
	if err := e.t.delete(e.back()); err != nil {
		return err
	}
	return e.t.delete(e.key())
}

func (t *Tx) forget(kind value.Kind, id any) error {
	key, err := t.idKey(kind, id)
	if err != nil {
		return err
	}
	return t.delete(key)
}

// Remove removes the vertex and all its edges. One that is not in the graph any
// more is not an error. If the edges are too many for a transaction, the error is
// engine.ErrTxTooLarge; DB.RemoveVertex removes such a vertex.
func (v *Vertex) Remove() error {
	if ok, err := v.Exists(); !ok || err != nil {
		return err
	}
	before, err := v.decode()
	if err != nil {
		return err
	}
	if err := v.removeEdges(func() bool { return false }); err != nil {
		return err
	}
	return v.erase(before)
}

// errFull ends a batch.
var errFull = errors.New("the batch is full")

// removeEdges removes the vertex's edges, also hidden ones, until full says so: then
// the error is errFull.
func (v *Vertex) removeEdges(full func() bool) error {
	return v.t.adjacent(v, Both, nil, func(d Direction, prefix []byte) error {
		return v.t.edges(d, prefix, true, func(e *Edge) error { return e.removeUnless(full) })
	})
}

func (e *Edge) removeUnless(full func() bool) error {
	if full() {
		return errFull
	}
	raw, ok, err := e.stored()
	switch {
	case err != nil:
		return err
	case !ok: // its other half is there all the same
		return corrupt("edge", e.back())
	}
	return e.remove(raw)
}

// erase removes a vertex that has no edges.
func (v *Vertex) erase(before *vertexRecord) error {
	if err := v.t.reindexVertex(v, before, &vertexRecord{}); err != nil {
		return err
	}
	if before.id != nil {
		v.id = before.id
		if err := v.t.forget(value.KindVertex, before.id); err != nil {
			return err
		}
	}
	return v.t.delete(v.key())
}

// RemoveVertex removes the vertex with an id and all its edges, however many, in
// batches. From the first of them on nobody sees the vertex and its edges; its id is
// taken until the last. No vertex is not an error. If RemoveVertex is interrupted,
// another call with the id, or Resume, goes on.
func (d *DB) RemoveVertex(ctx context.Context, graph string, id any) error {
	return d.batches(ctx, graph, func(t *Tx) (bool, error) {
		v, err := t.find(id)
		if v == nil || err != nil {
			return true, err
		}
		raw, ok, err := v.stored()
		if !ok || err != nil {
			return true, err
		}
		if raw[0]&flagLeaving == 0 {
			if err := v.leave(raw); err != nil {
				return true, err
			}
		}
		return t.takeAway(v.num, d.batch)
	})
}

// leave marks a vertex as one that is being removed.
func (v *Vertex) leave(raw []byte) error {
	leaving, err := v.t.leavers()
	if err != nil {
		return err
	}
	if len(leaving) >= MaxLeaving {
		return limit("at most %d vertices of a graph can be in removal at once (MaxLeaving)", MaxLeaving)
	}
	raw = slices.Clone(raw)
	raw[0] |= flagLeaving
	if err := v.t.put(v.key(), raw); err != nil {
		return err
	}
	if err := v.t.put(v.t.key(roomLeaving, v.num), nil); err != nil {
		return err
	}
	leaving[v.num] = struct{}{}
	return nil
}

// takeAway removes a part of a vertex that leaves, as much as a batch can, and
// reports whether it is gone.
func (t *Tx) takeAway(num uint64, batch int) (done bool, err error) {
	v := &Vertex{t: t, num: num}
	raw, ok, err := v.stored()
	if err != nil {
		return false, err
	}
	if !ok || raw[0]&flagLeaving == 0 { // another process has removed it
		return true, nil
	}
	rec, err := v.parse(raw)
	if err != nil {
		return false, err
	}
	full := func() bool { return t.full(batch) }
	err = v.removeEdges(full)
	if err == nil {
		err = v.removeEntries(rec, full)
	}
	switch {
	case err == errFull:
		return false, nil
	case err != nil:
		return false, err
	}
	if rec.id != nil {
		if err := t.forget(value.KindVertex, rec.id); err != nil {
			return false, err
		}
	}
	if err := t.delete(v.key()); err != nil {
		return false, err
	}
	delete(t.leaving, num)
	return true, t.delete(t.key(roomLeaving, num))
}

// removeEntries removes what the indexes have of a vertex, as removeEdges does.
func (v *Vertex) removeEntries(rec *vertexRecord, full func() bool) error {
	all, err := v.t.Indexes()
	if err != nil {
		return err
	}
	for _, ix := range all {
		if ix.On != value.KindVertex {
			continue
		}
		keys, err := ix.entries(v.t, rec.labels, rec.values)
		if err != nil {
			return err
		}
		for _, key := range keys {
			key = appendNumber(slices.Clip(key), v.num)
			_, ok, err := v.t.tx.Get(key)
			switch {
			case err != nil:
				return err
			case !ok:
				continue
			case full():
				return errFull
			}
			if err := v.t.delete(key); err != nil {
				return err
			}
		}
	}
	return nil
}

// Clear removes all edges and vertices, but not the definitions of indexes, as far as
// most of them go: it reports whether it is done. Call it in further transactions
// until it is. DB.Drop does it at once.
func (t *Tx) Clear(most int) (done bool, err error) {
	most = max(most, 1)
	full := func() bool { most--; return most < 0 }
	err = t.edges(Out, t.key(roomOut), true, func(e *Edge) error { return e.removeUnless(full) })
	if err == nil {
		err = t.clearVertices(full)
	}
	if err == errFull {
		return false, nil
	}
	return err == nil, err
}

func (t *Tx) clearVertices(full func() bool) error {
	leaving, err := t.leavers()
	if err != nil {
		return err
	}
	var page []Vertex
	lo, hi := within(t.key(roomVertices))
	take := func(p engine.Pair) error {
		var num [1]uint64
		if !numbers(p.Key, len(lo), num[:]) {
			return corrupt("vertex", p.Key)
		}
		page = append(page, Vertex{t: t, num: num[0]})
		return nil
	}
	return t.pages(lo, hi, take, func() error {
		found := page
		page = nil
		for i := range found {
			v := &found[i]
			if full() {
				return errFull
			}
			raw, ok, err := v.stored()
			if !ok || err != nil {
				return err
			}
			rec, err := v.parse(raw)
			if err != nil {
				return err
			}
			if err := v.erase(rec); err != nil {
				return err
			}
			if _, ok := leaving[v.num]; ok {
				delete(leaving, v.num)
				if err := t.delete(t.key(roomLeaving, v.num)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
