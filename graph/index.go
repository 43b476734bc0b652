package graph

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// Index finds vertices or edges by their properties. Its definition does not change.
type Index struct {
	On     value.Kind // KindVertex or KindEdge
	Label  string     // of the elements that it has; "": of all
	Keys   []string   // an element is in it that has all these properties, with values that can be ordered
	Unique bool       // no two elements have the same values

	Filling bool // it does not have all elements yet, so that nothing can be found by it

	num   uint64
	label uint64
	keys  []uint64
}

// Flags of an index. They are stored: do not change them.
const (
	indexUnique = 1 << iota
	indexFilling
	indexDropped // its entries are being removed
)

// Indexes returns the graph's indexes.
func (d *DB) Indexes(ctx context.Context, graph string) (all []*Index, err error) {
	_, err = d.View(ctx, engine.Read{}, graph, func(t *Tx) (err error) {
		all, err = t.Indexes()
		return err
	})
	return all, err
}

// Indexes returns the graph's indexes. The caller must not change them.
func (t *Tx) Indexes() ([]*Index, error) {
	if t.indexes != nil {
		return t.indexes, nil
	}
	return t.readIndexes()
}

func (t *Tx) readIndexes() ([]*Index, error) {
	all, dropped := []*Index{}, []uint64(nil)
	lo, hi := within(t.key(roomIndexes))
	for p, err := range t.tx.Scan(lo, hi) {
		if err != nil {
			return nil, err
		}
		if which, ok := schemaAt(p.Key[len(lo):]); ok {
			t.stored[which-1] = slices.Clone(p.Val)
			continue
		}
		var num [1]uint64
		ix := &Index{}
		r := reader{b: p.Val}
		flags := r.byte()
		ix.Unique, ix.Filling = flags&indexUnique != 0, flags&indexFilling != 0
		ix.On, ix.label = value.Kind(r.byte()), r.uvarint()
		for n := r.uvarint(); n > 0 && !r.bad; n-- {
			ix.keys = append(ix.keys, r.uvarint())
		}
		if !numbers(p.Key, len(lo), num[:]) || r.bad || len(r.b) != 0 || len(ix.keys) == 0 || len(ix.keys) > MaxIndexKeys ||
			ix.On != value.KindVertex && ix.On != value.KindEdge {
			return nil, corrupt("index", p.Key)
		}
		ix.num = num[0]
		if flags&indexDropped != 0 {
			dropped = append(dropped, ix.num)
		} else {
			all = append(all, ix)
		}
	}
	for _, ix := range all { // names are read after the scan: reads may not be nested on every engine
		if err := t.nameIndex(ix); err != nil {
			return nil, err
		}
	}
	t.indexes, t.dropped = all, dropped
	return all, nil
}

func (t *Tx) nameIndex(ix *Index) (err error) {
	if ix.label != 0 {
		if ix.Label, err = t.textOf(ix.label); err != nil {
			return err
		}
	}
	for _, k := range ix.keys {
		name, err := t.textOf(k)
		if err != nil {
			return err
		}
		ix.Keys = append(ix.Keys, name)
	}
	return nil
}

// Same reports whether two indexes have the same elements in the same order.
func (ix *Index) Same(o *Index) bool {
	return ix.On == o.On && ix.Label == o.Label && slices.Equal(ix.Keys, o.Keys)
}

// DefineIndex adds an index, which is Filling until all elements are in it: see
// DB.AddIndex. One with the same elements is returned as it is.
func (t *Tx) DefineIndex(ix Index) (*Index, error) {
	all, err := t.Indexes()
	if err != nil {
		return nil, err
	}
	switch {
	case ix.On != value.KindVertex && ix.On != value.KindEdge:
		return nil, engine.Errorf(CodeSchema, "an index is on vertices or on edges")
	case len(ix.Keys) == 0 || len(ix.Keys) > MaxIndexKeys:
		return nil, limit("an index has 1 to %d keys (MaxIndexKeys)", MaxIndexKeys)
	case len(slices.Compact(slices.Sorted(slices.Values(ix.Keys)))) != len(ix.Keys):
		return nil, engine.Errorf(CodeSchema, "an index has each of its keys once, not %s", strings.Join(ix.Keys, ", "))
	}
	ix = Index{On: ix.On, Label: ix.Label, Keys: slices.Clone(ix.Keys), Unique: ix.Unique, Filling: true}
	for _, o := range all {
		if ix.Same(o) {
			if ix.Unique != o.Unique {
				return nil, engine.Errorf(CodeSchema, "there is an index on %s already, which differs in Unique", strings.Join(ix.Keys, ", "))
			}
			return o, nil
		}
		ix.num = max(ix.num, o.num)
	}
	for _, num := range t.dropped {
		ix.num = max(ix.num, num)
	}
	if len(all)+len(t.dropped) >= MaxIndexes {
		return nil, limit("a graph has at most %d indexes (MaxIndexes), with those that are still being removed", MaxIndexes)
	}
	ix.num++
	if ix.Label != "" {
		if ix.label, err = t.give(ix.Label); err != nil {
			return nil, err
		}
	}
	for _, k := range ix.Keys {
		n, err := t.give(k)
		if err != nil {
			return nil, err
		}
		ix.keys = append(ix.keys, n)
	}
	t.indexes = append(slices.Clone(all), &ix)
	return &ix, t.putIndex(&ix)
}

func (t *Tx) putIndex(ix *Index) error {
	flags := byte(0)
	if ix.Unique {
		flags |= indexUnique
	}
	if ix.Filling {
		flags |= indexFilling
	}
	return t.storeIndex(ix, flags)
}

func (t *Tx) storeIndex(ix *Index, flags byte) error {
	b := binary.AppendUvarint(append([]byte{flags}, byte(ix.On)), ix.label)
	b = binary.AppendUvarint(b, uint64(len(ix.keys)))
	for _, k := range ix.keys {
		b = binary.AppendUvarint(b, k)
	}
	return t.put(t.key(roomIndexes, ix.num), b)
}
