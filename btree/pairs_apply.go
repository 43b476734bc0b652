package btree

import (
	"bytes"
	"unsafe"
)

// Write is one Set or Delete of Apply.
type Write struct {
	Key    []byte
	Value  Value // not used by a Delete
	Delete bool

	// Old is set by Apply to the length of the value that was replaced or deleted, or to -1
	// if the key was missing.
	Old int
}

// Apply does the writes in their order and reports the old length of each in its Old. The
// result is that of one Set or Delete after the other, whatever the order of the keys.
// Ascending keys are fast: Apply goes on from the leaf of the key before instead of
// descending from the root. Like Set it copies keys and values, and panics if a key is
// longer than MaxKeyBytes.
func (p *Pairs) Apply(writes []Write) { p.apply(writes, touchFrom) }

// apply is Apply that touches leaves ahead in a map of so many pairs.
func (p *Pairs) apply(writes []Write, from int) {
	if h := p.hint; h != nil {
		*h = hint{key: h.key}
	}
	var f, ahead finger
	for i := range writes {
		w := &writes[i]
		if i%touchWrites == 0 && p.n >= max(from, 1) {
			ahead.touch(p, writes[i:min(i+touchWrites, len(writes))])
		}
		if p.root == nil || len(w.Key) > MaxKeyBytes {
			p.applyOne(w)
			f.leaf = nil
			continue
		}
		f.move(p, w.Key)
		var had bool
		if at := f.leaf.find(w.Key); w.Delete {
			w.Old, had = p.deleteAt(&f.path, f.leaf, at)
		} else {
			w.Old, had = p.setAt(&f.path, f.leaf, at, w.Key, w.Value)
		}
		if !had {
			w.Old = -1
		}
		f.follow(p)
	}
}

// applyOne does a write without a finger.
func (p *Pairs) applyOne(w *Write) {
	var had bool
	if w.Delete {
		w.Old, had = p.Delete(w.Key)
	} else {
		w.Old, had = p.Set(w.Key, w.Value)
	}
	if !had {
		w.Old = -1
	}
}

// finger is the way to a leaf, and the bounds of the keys that belong there.
type finger struct {
	path path
	leaf *leaf // nil: the way is not known
	// The keys k of the leaf are in low <= k < high[height]. The node at depth d, the kid of
	// step d-1, has keys below high[d]. nil: no bound.
	low   []byte
	high  [maxHeight + 1][]byte
	shape int // of the map, for which all this holds
}

// move goes to the leaf of key. It climbs only as far as needed if the key is not below
// the one before.
func (f *finger) move(p *Pairs, key []byte) {
	d := p.height
	if f.leaf == nil || bytes.Compare(key, f.low) < 0 {
		d, f.low = 0, nil
	} else {
		for d > 0 && f.high[d] != nil && bytes.Compare(key, f.high[d]) >= 0 {
			d--
		}
		if d == p.height {
			return
		}
	}
	node := p.root
	if d > 0 {
		node = f.path[d-1].in.kids[f.path[d-1].i]
	}
	for ; d < p.height; d++ {
		in := (*inner)(node)
		i := in.route(key)
		f.path[d] = branch{in, i}
		f.high[d+1] = f.high[d]
		if i+1 < in.n {
			f.high[d+1] = in.seps.at(i)
		}
		if i > 0 {
			f.low = in.seps.at(i - 1)
		}
		node = in.kids[i]
	}
	f.leaf = (*leaf)(node)
}

const (
	touchWrites = 32      // of which Apply reads the leaves together
	touchFrom   = 1 << 15 // pairs from which on it does: fewer are in the processor's caches anyway
)

// touch reads what writes will need, so that the waits for memory overlap. It need not be
// right: the path may be of an older version of the map.
func (f *finger) touch(p *Pairs, writes []Write) {
	if f.shape != p.shape {
		f.leaf, f.shape = nil, p.shape
	}
	var nodes [touchWrites]unsafe.Pointer
	var at [touchWrites]int
	n := min(len(writes), touchWrites)
	for i := range n {
		f.move(p, writes[i].Key)
		nodes[i] = unsafe.Pointer(f.leaf)
	}
	touchHeads(nodes[:n])
	for i := range n {
		lf := (*leaf)(nodes[i])
		at[i] = lowerLeaf(&lf.heads, Head(writes[i].Key, int(lf.plen)))
	}
	touchRecords(nodes[:n], at[:n])
}

// follow takes notice of a write of the finger's leaf.
func (f *finger) follow(p *Pairs) {
	switch {
	case f.shape != p.shape:
		f.leaf, f.shape = nil, p.shape
	case p.height == 0:
		f.leaf = (*leaf)(p.root)
	default:
		last := f.path[p.height-1]
		f.leaf = (*leaf)(last.in.kids[last.i])
	}
}
