package btree

import (
	"sync/atomic"
	"unsafe"
)

// Fixed is the constraint for the keys of a Map: numbers, in their natural order.
type Fixed interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr |
		~float32 | ~float64
}

// Map is an ordered map from numbers to V. A NaN is never found, and Set panics for one.
// The zero value is an empty map. Do not copy a Map; use Clone.
type Map[K Fixed, V any] struct {
	root   unsafe.Pointer // *mapLeaf[K, V] at height 0, else *mapInner[K, V]; nil: empty
	height int            // inner levels above the leaves
	n      int
	owner  atomic.Pointer[token] // nil: no node may be changed in place
}

// mapStep is an inner node on a descent, and the kid that was taken.
type mapStep[K Fixed, V any] struct {
	in *mapInner[K, V]
	i  int
}

// mapPath is a descent: the root first, height steps in all.
type mapPath[K Fixed, V any] [maxHeight]mapStep[K, V]

// NewMap returns an empty map.
func NewMap[K Fixed, V any]() *Map[K, V] { return &Map[K, V]{} }

// Len returns the number of keys.
func (t *Map[K, V]) Len() int { return t.n }

// Clone returns a map with the same contents, in constant time. Writes to one are not
// visible in the other, even if they are concurrent. Clone may run concurrently with
// reads and other Clones of t, but not with a write to t.
func (t *Map[K, V]) Clone() *Map[K, V] {
	if t.owner.Load() != nil {
		t.owner.Store(nil)
	}
	return &Map[K, V]{root: t.root, height: t.height, n: t.n}
}

// Get returns the value of key, and whether there is one. It does not allocate.
func (t *Map[K, V]) Get(key K) (v V, ok bool) {
	p := t.root
	if p == nil {
		return v, false
	}
	for h := t.height; h > 0; h-- {
		in := (*mapInner[K, V])(p)
		p = in.kids[in.route(key)]
	}
	lf := (*mapLeaf[K, V])(p)
	i := lf.lower(key)
	if i >= int(lf.n) || lf.keys[i] != key {
		return v, false
	}
	return lf.vals[i], true
}

// Set sets key to v, and returns the value that it replaced, if any. It allocates only to
// split nodes and to copy nodes that a clone shares. It panics if key is NaN.
func (t *Map[K, V]) Set(key K, v V) (old V, replaced bool) {
	if key != key {
		panic("BUG: btree: NaN is no key")
	}
	if t.root == nil {
		lf := newMapLeaf[K, V](t.token())
		lf.insert(0, key, v)
		t.root, t.n = unsafe.Pointer(lf), 1
		return old, false
	}
	var p mapPath[K, V]
	lf := t.descend(key, &p)
	i := lf.lower(key)
	replaced = i < int(lf.n) && lf.keys[i] == key
	lf = t.own(&p, lf)
	if replaced {
		old, lf.vals[i] = lf.vals[i], v
		return old, true
	}
	t.n++
	for d := range t.height {
		p[d].in.count++
	}
	if lf.n < mapKeys {
		lf.insert(i, key, v)
		return old, false
	}
	right := lf.split(i, key, v)
	t.grow(&p, right.keys[0], unsafe.Pointer(right))
	return old, false
}

// Delete removes key, and returns the value that it had, if any. Leaves that
// become too empty are merged with a neighbour.
func (t *Map[K, V]) Delete(key K) (old V, ok bool) {
	if t.root == nil {
		return old, false
	}
	var p mapPath[K, V]
	lf := t.descend(key, &p)
	i := lf.lower(key)
	if i >= int(lf.n) || lf.keys[i] != key {
		return old, false
	}
	lf = t.own(&p, lf)
	old = lf.vals[i]
	lf.remove(i)
	t.n--
	for d := range t.height {
		p[d].in.count--
	}
	if lf.n < minMapKeys {
		t.shrink(&p)
	}
	return old, true
}

// descend returns the leaf that key belongs to and fills p with the way there.
// t must not be empty.
func (t *Map[K, V]) descend(key K, p *mapPath[K, V]) *mapLeaf[K, V] {
	node := t.root
	for d := range t.height {
		in := (*mapInner[K, V])(node)
		i := in.route(key)
		p[d] = mapStep[K, V]{in, i}
		node = in.kids[i]
	}
	return (*mapLeaf[K, V])(node)
}

// token returns the mark of the nodes that t may change in place.
func (t *Map[K, V]) token() *token {
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
func (t *Map[K, V]) own(p *mapPath[K, V], lf *mapLeaf[K, V]) *mapLeaf[K, V] {
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
func (t *Map[K, V]) link(p *mapPath[K, V], d int, node unsafe.Pointer) {
	if d == 0 {
		t.root = node
		return
	}
	p[d-1].in.kids[p[d-1].i] = node
}

// grow adds kid, whose keys are at or above sep, to the right of the node at the
// end of p, splitting the inner nodes that are full.
func (t *Map[K, V]) grow(p *mapPath[K, V], sep K, kid unsafe.Pointer) {
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
	root := &mapInner[K, V]{owner: t.token(), n: 2, count: t.n}
	root.kids[0], root.kids[1] = t.root, kid
	root.setSeps([]K{sep})
	t.root = unsafe.Pointer(root)
	t.height++
}

// shrink rebalances the nodes of p, from the leaf up, that a Delete left too empty.
func (t *Map[K, V]) shrink(p *mapPath[K, V]) {
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
		in := (*mapInner[K, V])(t.root)
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
