package graph

import (
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// Remove removes the edge. One that is not in the graph any more is not an error.
func (e *Edge) Remove() error {
	if ok, err := e.Exists(); !ok || err != nil {
		return err
	}
	before, err := e.decode()
	if err != nil {
		return err
	}
	if err := e.t.reindexEdge(e, before, &edgeRecord{}); err != nil {
		return err
	}
	if before.id != nil {
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
	if err := v.t.Edges(v, Both, nil, func(e *Edge) error { return e.Remove() }); err != nil {
		return err
	}
	return v.erase(before)
}

// erase removes a vertex that has no edges.
func (v *Vertex) erase(before *vertexRecord) error {
	if err := v.t.reindexVertex(v, before, &vertexRecord{}); err != nil {
		return err
	}
	if before.id != nil {
		if err := v.t.forget(value.KindVertex, before.id); err != nil {
			return err
		}
	}
	return v.t.delete(v.t.key(roomVertices, v.num))
}

// Clear removes everything that is in the graph but its indexes' definitions, as
// far as one transaction can: it reports whether it is done. Call it in further
// transactions until it is.
func (t *Tx) Clear(most int) (done bool, err error) {
	for _, room := range []byte{roomOut, roomIn, roomVertices, roomIDs, roomEntries} {
		var keys [][]byte
		lo, hi := within(t.key(room))
		_, more, err := t.page(lo, hi, most, func(p engine.Pair) error {
			keys = append(keys, append([]byte{}, p.Key...))
			return nil
		})
		if err != nil {
			return false, err
		}
		for _, key := range keys {
			if err := t.delete(key); err != nil {
				return false, err
			}
		}
		if most -= len(keys); more || most <= 0 {
			return false, nil
		}
	}
	return true, nil
}
