package btree

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Value is the value of a key in a Pairs. Marked is one bit that the tree stores for its
// user and does not look at.
type Value struct {
	Bytes  []byte
	Marked bool
}

// Equal reports whether the values have the same bytes and mark.
func (v Value) Equal(w Value) bool { return v.Marked == w.Marked && bytes.Equal(v.Bytes, w.Bytes) }

// Pairs is an ordered map from byte strings to byte strings, in the order of
// bytes.Compare. The empty key is a valid key and equals nil. The zero value is an empty
// map. Do not copy a Pairs, Clone it.
//
// Set copies its key and value. Keys and values that methods return or yield alias the
// tree. They must not be modified, and they are valid until the next Set or Delete of the
// same key in the same tree. Those of a clone that is never written stay valid, whatever
// happens to other clones. A slice keeps the blob that it is part of in memory, several
// kilobytes in general.
type Pairs struct {
	root   unsafe.Pointer // *leaf at height 0, else *inner; nil: empty
	height int            // inner levels above the leaves
	n      int
	stats  Stats
	owner  atomic.Pointer[token] // nil: no node may be changed in place
	hint   *hint                 // nil until the first Find
	shape  int                   // changes with every split and merge
}

// branch is an inner node on a descent, and the kid that was taken.
type branch struct {
	in *inner
	i  int
}

// path is a descent: the root first, height steps in all.
type path [maxHeight]branch

// NewPairs returns an empty map.
func NewPairs() *Pairs { return &Pairs{} }

// Len returns the number of keys.
func (p *Pairs) Len() int { return p.n }

// Clone returns a map with the same contents, in constant time. Afterwards both may be
// written, even concurrently, without affecting each other. Clone may run concurrently
// with reads and other Clones, but not with a write.
func (p *Pairs) Clone() *Pairs {
	if p.owner.Load() != nil {
		p.owner.Store(nil)
	}
	return &Pairs{root: p.root, height: p.height, n: p.n, stats: p.stats}
}

// Get returns the value of key, and whether there is one. It does not allocate.
func (p *Pairs) Get(key []byte) (v Value, ok bool) {
	node := p.root
	if node == nil {
		return v, false
	}
	for h := p.height; h > 0; h-- {
		in := (*inner)(node)
		node = in.kids[in.route(key)]
	}
	lf := (*leaf)(node)
	i := lf.find(key)
	if i < 0 {
		return v, false
	}
	return lf.val(i), true
}

// Set sets key to v, and returns the length of the value that it replaced, if any. It
// panics if key is longer than MaxKeyBytes.
func (p *Pairs) Set(key []byte, v Value) (old int, replaced bool) {
	if len(key) > MaxKeyBytes {
		panic(fmt.Sprintf("BUG: btree: key of %d bytes is over MaxKeyBytes", len(key)))
	}
	if p.root == nil {
		p.first(key, v)
		return 0, false
	}
	if h := p.hinted(key); h != nil {
		lf := h.leaf
		h.leaf = nil
		return p.setAt(&h.path, lf, h.i, key, v)
	}
	var at path
	lf := p.descend(key, &at)
	return p.setAt(&at, lf, lf.find(key), key, v)
}

// first sets the first key of an empty map.
func (p *Pairs) first(key []byte, v Value) {
	lf := newLeaf(p.token(), recordBytes(len(key), len(v.Bytes), len(v.Bytes) <= maxInline), 0)
	lf.insert(0, key, v)
	p.root, p.n = unsafe.Pointer(lf), 1
	p.stats.add(lf, 1)
}

// setAt is Set at the end of a path, in leaf lf, where key has index i, or -1 if it is new.
func (p *Pairs) setAt(at *path, lf *leaf, i int, key []byte, v Value) (old int, replaced bool) {
	if i >= 0 {
		lf = p.own(at, lf)
		if old, ok := lf.overwrite(i, v); ok {
			return old, true // the memory is the same
		}
		p.stats.add(lf, -1)
		old = lf.replace(i, v)
		p.stats.add(lf, 1)
		return old, true
	}
	i = lf.lower(key)
	lf = p.own(at, lf)
	p.n++
	for d := range p.height {
		at[d].in.count++
	}
	p.stats.add(lf, -1)
	if lf.fits(len(key), len(v.Bytes)) {
		lf.insert(i, key, v)
		p.stats.add(lf, 1)
		return 0, false
	}
	right := lf.split(i, key, v)
	p.stats.add(lf, 1)
	p.stats.add(right, 1)
	p.grow(at, separator(lf.last(), right.key(0)), unsafe.Pointer(right))
	return 0, false
}

// Delete removes key, and returns the length of its value and whether there was one.
// Leaves that become too empty are merged with a neighbour.
func (p *Pairs) Delete(key []byte) (old int, ok bool) {
	if p.root == nil {
		return 0, false
	}
	if h := p.hinted(key); h != nil {
		lf := h.leaf
		h.leaf = nil
		return p.deleteAt(&h.path, lf, h.i)
	}
	var at path
	lf := p.descend(key, &at)
	return p.deleteAt(&at, lf, lf.find(key))
}

// deleteAt is Delete of the key with index i in leaf lf, at the end of a path.
func (p *Pairs) deleteAt(at *path, lf *leaf, i int) (old int, ok bool) {
	if i < 0 {
		return 0, false
	}
	lf = p.own(at, lf)
	p.stats.add(lf, -1)
	old = lf.remove(i)
	p.stats.add(lf, 1)
	p.n--
	for d := range p.height {
		at[d].in.count--
	}
	if lf.n < minLeaf {
		p.shrink(at)
	}
	return old, true
}

// descend returns the leaf that key belongs to and fills at with the way there.
// The map must not be empty.
func (p *Pairs) descend(key []byte, at *path) *leaf {
	node := p.root
	for d := range p.height {
		in := (*inner)(node)
		i := in.route(key)
		at[d] = branch{in, i}
		node = in.kids[i]
	}
	return (*leaf)(node)
}

// token returns the mark of the nodes that p may change in place.
func (p *Pairs) token() *token {
	own := p.owner.Load()
	if own == nil {
		own = new(token)
		p.owner.Store(own)
	}
	return own
}

// own returns lf, or a copy that p may change, and replaces the nodes of the path so that p
// may change all of them. All ancestors of an owned node are owned, so checking the leaf
// is enough if nothing is shared.
func (p *Pairs) own(at *path, lf *leaf) *leaf {
	own := p.token()
	if lf.owner == own {
		return lf
	}
	for d := range p.height {
		if in := at[d].in; in.owner != own {
			in = in.copy(own)
			at[d].in = in
			p.link(at, d, unsafe.Pointer(in))
		}
	}
	lf = lf.copy(own)
	p.link(at, p.height, unsafe.Pointer(lf))
	return lf
}

// link puts node at depth d of the path: below step d-1, or as the root.
func (p *Pairs) link(at *path, d int, node unsafe.Pointer) {
	if d == 0 {
		p.root = node
		return
	}
	at[d-1].in.kids[at[d-1].i] = node
}
