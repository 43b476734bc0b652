package btree

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Bytes is an ordered map from byte strings to V. The order is that of bytes.Compare.
// The empty key is valid, and nil is the same key. The zero value is an empty map. Do
// not copy a Bytes; use Clone.
//
// Keys that methods return or yield alias the tree. They must not be modified and are
// valid until the next write to that tree. In a clone that is never written they stay
// valid.
type Bytes[V any] struct {
	root   unsafe.Pointer // *bytesLeaf[V] at height 0, else *bytesInner[V]; nil: empty
	height int            // inner levels above the leaves
	n      int
	owner  atomic.Pointer[token] // nil: no node may be changed in place
	hint   *bytesHint[V]         // nil until the first Find
}

// bytesStep is an inner node on a descent, and the kid that was taken.
type bytesStep[V any] struct {
	in *bytesInner[V]
	i  int
}

// bytesPath is a descent: the root first, height steps in all.
type bytesPath[V any] [maxHeight]bytesStep[V]

// NewBytes returns an empty map.
func NewBytes[V any]() *Bytes[V] { return &Bytes[V]{} }

// Len returns the number of keys.
func (t *Bytes[V]) Len() int { return t.n }

// Clone returns a map with the same contents, in constant time. Writes to one are not
// visible in the other, even if they are concurrent. Clone may run concurrently with
// reads and other Clones of t, but not with a write to t.
func (t *Bytes[V]) Clone() *Bytes[V] {
	if t.owner.Load() != nil {
		t.owner.Store(nil)
	}
	return &Bytes[V]{root: t.root, height: t.height, n: t.n}
}

// Get returns the value of key, and whether there is one. It does not allocate.
func (t *Bytes[V]) Get(key []byte) (v V, ok bool) {
	p := t.root
	if p == nil {
		return v, false
	}
	for h := t.height; h > 0; h-- {
		in := (*bytesInner[V])(p)
		p = in.kids[in.route(key)]
	}
	lf := (*bytesLeaf[V])(p)
	i := lf.find(key)
	if i < 0 {
		return v, false
	}
	return lf.vals[i], true
}

// Set sets key to v, and returns the value that it replaced, if any. It copies the key.
// Set allocates only to split, to grow a leaf's key bytes and to copy nodes that a clone
// shares. It panics if key is longer than MaxKeyBytes.
func (t *Bytes[V]) Set(key []byte, v V) (old V, replaced bool) {
	if len(key) > MaxKeyBytes {
		panic(fmt.Sprintf("BUG: btree: key of %d bytes is over MaxKeyBytes", len(key)))
	}
	if t.root == nil {
		lf := newBytesLeaf[V](t.token(), len(key))
		lf.insert(0, key, v)
		t.root, t.n = unsafe.Pointer(lf), 1
		return old, false
	}
	if h := t.hinted(key); h != nil {
		lf := h.leaf
		h.leaf = nil
		return t.setAt(&h.path, lf, h.i, key, v)
	}
	var p bytesPath[V]
	lf := t.descend(key, &p)
	return t.setAt(&p, lf, lf.find(key), key, v)
}

// setAt is Set at the end of p, in leaf lf, where key has index i, or -1 if it is new.
func (t *Bytes[V]) setAt(p *bytesPath[V], lf *bytesLeaf[V], i int, key []byte, v V) (old V, replaced bool) {
	if i >= 0 {
		lf = t.own(p, lf)
		old, lf.vals[i] = lf.vals[i], v
		return old, true
	}
	i = lf.lower(key)
	lf = t.own(p, lf)
	t.n++
	for d := range t.height {
		p[d].in.count++
	}
	if lf.fits(len(key)) {
		lf.insert(i, key, v)
		return old, false
	}
	right := lf.split(i, key, v)
	t.grow(p, separator(lf.last(), right.key(0)), unsafe.Pointer(right))
	return old, false
}

// Delete removes key, and returns the value that it had, if any. Leaves that
// become too empty are merged with a neighbour.
func (t *Bytes[V]) Delete(key []byte) (old V, ok bool) {
	if t.root == nil {
		return old, false
	}
	if h := t.hinted(key); h != nil {
		lf := h.leaf
		h.leaf = nil
		return t.deleteAt(&h.path, lf, h.i)
	}
	var p bytesPath[V]
	lf := t.descend(key, &p)
	return t.deleteAt(&p, lf, lf.find(key))
}

// deleteAt is Delete of the key with index i in leaf lf, at the end of p.
func (t *Bytes[V]) deleteAt(p *bytesPath[V], lf *bytesLeaf[V], i int) (old V, ok bool) {
	if i < 0 {
		return old, false
	}
	lf = t.own(p, lf)
	old = lf.vals[i]
	lf.remove(i)
	t.n--
	for d := range t.height {
		p[d].in.count--
	}
	if lf.n < minLeaf {
		t.shrink(p)
	}
	return old, true
}

// descend returns the leaf that key belongs to and fills p with the way there.
// t must not be empty.
func (t *Bytes[V]) descend(key []byte, p *bytesPath[V]) *bytesLeaf[V] {
	node := t.root
	for d := range t.height {
		in := (*bytesInner[V])(node)
		i := in.route(key)
		p[d] = bytesStep[V]{in, i}
		node = in.kids[i]
	}
	return (*bytesLeaf[V])(node)
}

// token returns the mark of the nodes that t may change in place.
func (t *Bytes[V]) token() *token {
	own := t.owner.Load()
	if own == nil {
		own = new(token)
		t.owner.Store(own)
	}
	return own
}

// own returns lf, or a copy that t may change, and replaces the nodes of p so that t may
// change all of them. All ancestors of an owned node are owned, so checking the leaf is
// enough if nothing is shared.
func (t *Bytes[V]) own(p *bytesPath[V], lf *bytesLeaf[V]) *bytesLeaf[V] {
	own := t.token()
	if lf.owner == own {
		return lf
	}
	for d := range t.height {
		if in := p[d].in; in.owner != own {
			in = in.copy(own)
			p[d].in = in
			t.link(p, d, unsafe.Pointer(in))
		}
	}
	lf = lf.copy(own)
	t.link(p, t.height, unsafe.Pointer(lf))
	return lf
}

// link puts node at depth d of the path: below step d-1, or as the root.
func (t *Bytes[V]) link(p *bytesPath[V], d int, node unsafe.Pointer) {
	if d == 0 {
		t.root = node
		return
	}
	p[d-1].in.kids[p[d-1].i] = node
}

// grow adds kid, whose keys are at or above sep, to the right of the node at the
// end of p, splitting the inner nodes that are full.
func (t *Bytes[V]) grow(p *bytesPath[V], sep []byte, kid unsafe.Pointer) {
	for d := t.height - 1; d >= 0; d-- {
		in, i := p[d].in, p[d].i
		if in.n < innerKids {
			in.insert(i, sep, kid)
			return
		}
		right, up := in.split(i, sep, kid, t.height-1-d)
		sep, kid = up, unsafe.Pointer(right)
	}
	if t.height == maxHeight {
		panic("BUG: btree: tree is too high")
	}
	root := newBytesInner[V](t.token())
	root.kids[0], root.kids[1] = t.root, kid
	root.n, root.count = 2, t.n
	root.setSeps([][]byte{sep})
	t.root = unsafe.Pointer(root)
	t.height++
}

// shrink rebalances the nodes of p, from the leaf up, that a Delete left too empty.
func (t *Bytes[V]) shrink(p *bytesPath[V]) {
	for d := t.height - 1; d >= 0; d-- {
		in := p[d].in
		if d == t.height-1 {
			in.mendLeaf(p[d].i)
		} else {
			in.mendInner(p[d].i, t.height-2-d)
		}
		if in.n >= minKids {
			break
		}
	}
	for t.height > 0 {
		in := (*bytesInner[V])(t.root)
		if in.n > 1 {
			return
		}
		t.root = in.kids[0] // nil if there is no kid left
		t.height--
	}
	if t.n == 0 {
		t.root, t.height = nil, 0
	}
}
