package btree

import "unsafe"

const (
	mapKeys      = 62 // keys of a full leaf: 62 numbers and values of 8 bytes fill 1 KiB
	minMapKeys   = 24 // a Delete that leaves fewer rebalances the leaf
	mergeMapKeys = 54 // neighbours are merged if they have no more than this
)

// mapLeaf has up to mapKeys keys in order, separate from their values. The slots after
// the last key contain the highest K, so that searches need no bound.
type mapLeaf[K Fixed, V any] struct {
	owner *token
	n     uint16
	keys  [mapKeys]K
	vals  [mapKeys]V
}

// mapInner routes keys to its kids: mapLeaf[K, V] at height 1, else
// mapInner[K, V]. Separator i is above all keys of kid i and not above any of
// kid i+1; the slots after the last separator contain the highest K. The array of
// separators never changes once it is set and is shared by all copies of the node,
// which differ only in their kids.
type mapInner[K Fixed, V any] struct {
	owner *token
	seps  *[innerKids]K
	count int // keys below this node
	n     int // kids; one more than separators
	kids  [innerKids]unsafe.Pointer
}

// highest returns the highest K: +Inf, or the largest integer.
func highest[K Fixed]() K {
	k := K(2)
	if K(1)/k != 0 { // a float: squaring ends at +Inf
		for k*k > k {
			k *= k
		}
		return k
	}
	for k = 1; 2*k+1 > k; { // doubling ends where it wraps
		k = 2*k + 1
	}
	return k
}

// lt returns 1 if a < b, otherwise 0. It compiles to a flag read, not to a jump.
func lt[K Fixed](a, b K) int {
	if a < b {
		return 1
	}
	return 0
}

// le returns 1 if a <= b, otherwise 0.
func le[K Fixed](a, b K) int {
	if a <= b {
		return 1
	}
	return 0
}

// lower returns the number of keys below key. Like lowerHead, it reads one key of each
// group first, so that cache misses overlap. The comparisons are written out because the
// compiler does not inline a function of this size.
func (lf *mapLeaf[K, V]) lower(key K) int {
	h := &lf.keys
	g := lt(h[7], key) + lt(h[15], key) + lt(h[23], key) + lt(h[31], key) +
		lt(h[39], key) + lt(h[47], key) + lt(h[55], key)
	g = min(g*groupKeys, mapKeys-groupKeys)
	q := (*[groupKeys]K)(h[g:])
	return g + lt(q[0], key) + lt(q[1], key) + lt(q[2], key) + lt(q[3], key) +
		lt(q[4], key) + lt(q[5], key) + lt(q[6], key) + lt(q[7], key)
}

// route returns the index of the kid that key belongs to: the number of
// separators not above it.
func (in *mapInner[K, V]) route(key K) int {
	h := in.seps
	g := groupKeys * (le(h[7], key) + le(h[15], key) + le(h[23], key))
	q := (*[groupKeys]K)(h[g:])
	i := g + le(q[0], key) + le(q[1], key) + le(q[2], key) + le(q[3], key) +
		le(q[4], key) + le(q[5], key) + le(q[6], key) + le(q[7], key)
	return min(i, in.n-1) // the highest key is not above the unused slots
}

func newMapLeaf[K Fixed, V any](own *token) *mapLeaf[K, V] {
	lf := &mapLeaf[K, V]{owner: own}
	lf.clearKeys(0)
	return lf
}

func (lf *mapLeaf[K, V]) copy(own *token) *mapLeaf[K, V] {
	c := new(mapLeaf[K, V])
	*c = *lf
	c.owner = own
	return c
}

func (in *mapInner[K, V]) copy(own *token) *mapInner[K, V] {
	c := new(mapInner[K, V])
	*c = *in
	c.owner = own
	return c
}

// clearKeys fills the slots from index from on with the highest K.
func (lf *mapLeaf[K, V]) clearKeys(from int) {
	top := highest[K]()
	for i := from; i < mapKeys; i++ {
		lf.keys[i] = top
	}
}

// insert puts a key before index i. The leaf must be owned and have room.
func (lf *mapLeaf[K, V]) insert(i int, key K, v V) {
	n := int(lf.n)
	copy(lf.keys[i+1:n+1], lf.keys[i:n])
	copy(lf.vals[i+1:n+1], lf.vals[i:n])
	lf.keys[i], lf.vals[i] = key, v
	lf.n++
}

// remove deletes key i. The leaf must be owned.
func (lf *mapLeaf[K, V]) remove(i int) {
	n := int(lf.n)
	top := lf.keys[mapKeys-1]
	if n == mapKeys {
		top = highest[K]()
	}
	copy(lf.keys[i:n], lf.keys[i+1:n])
	copy(lf.vals[i:n], lf.vals[i+1:n])
	lf.keys[n-1] = top
	clear(lf.vals[n-1 : n])
	lf.n--
}

// split inserts a key before index i of a full leaf, moves the upper part to a
// new leaf and returns that. A key at the end moves alone, so that ascending
// input leaves full leaves behind.
func (lf *mapLeaf[K, V]) split(i int, key K, v V) *mapLeaf[K, V] {
	m := mapKeys / 2
	if i == mapKeys {
		m = mapKeys
	}
	right := newMapLeaf[K, V](lf.owner)
	right.appendFrom(lf, m, mapKeys)
	clear(lf.vals[m:])
	lf.clearKeys(m)
	lf.n = uint16(m)
	if i <= m && m < mapKeys {
		lf.insert(i, key, v)
	} else {
		right.insert(i-m, key, v)
	}
	return right
}

// appendFrom appends keys from (included) to (not included) of src.
func (lf *mapLeaf[K, V]) appendFrom(src *mapLeaf[K, V], from, to int) {
	n := int(lf.n)
	copy(lf.keys[n:], src.keys[from:to])
	copy(lf.vals[n:], src.vals[from:to])
	lf.n += uint16(to - from)
}

// setSeps replaces the separators; there must be one less than kids.
func (in *mapInner[K, V]) setSeps(list []K) {
	seps := new([innerKids]K)
	copy(seps[:], list)
	top := highest[K]()
	for i := len(list); i < innerKids; i++ {
		seps[i] = top
	}
	in.seps = seps
}

// mapBranches collects kids and the separators between them while nodes are
// split and merged.
type mapBranches[K Fixed] struct {
	kids [2*innerKids + 1]unsafe.Pointer
	seps [2*innerKids + 1]K
	n    int
}

// addTo appends all kids of a node after separator sep.
func (in *mapInner[K, V]) addTo(b *mapBranches[K], sep K) {
	n := in.n
	copy(b.kids[b.n:], in.kids[:n])
	if b.n > 0 {
		b.seps[b.n-1] = sep
	}
	copy(b.seps[b.n:], in.seps[:n-1])
	b.n += n
}

// insert adds a kid right after kid i, with sep between the two.
func (b *mapBranches[K]) insert(i int, sep K, kid unsafe.Pointer) {
	copy(b.kids[i+2:b.n+1], b.kids[i+1:b.n])
	copy(b.seps[i+1:b.n], b.seps[i:b.n-1])
	b.kids[i+1], b.seps[i] = kid, sep
	b.n++
}

// remove drops kid i and the separator before it, or after it if it is the first.
func (b *mapBranches[K]) remove(i int) {
	copy(b.kids[i:b.n], b.kids[i+1:b.n])
	b.kids[b.n-1] = nil
	if b.n > 1 {
		j := max(i-1, 0)
		copy(b.seps[j:b.n-1], b.seps[j+1:b.n-1])
	}
	b.n--
}

// set sets the kids of the node to those of b from (included) to (not included). The
// caller sets the count.
func (in *mapInner[K, V]) set(b *mapBranches[K], from, to int) {
	clear(in.kids[:])
	copy(in.kids[:], b.kids[from:to])
	in.n = to - from
	in.setSeps(b.seps[from:max(from, to-1)])
}

// insert adds a kid right after kid i, with sep between the two. There must be room.
func (in *mapInner[K, V]) insert(i int, sep K, kid unsafe.Pointer) {
	n := in.n
	copy(in.kids[i+2:n+1], in.kids[i+1:n])
	in.kids[i+1] = kid
	in.n++
	seps := *in.seps
	copy(seps[i+1:n], seps[i:n-1])
	seps[i] = sep
	in.seps = &seps
}

// split adds a kid to a full node as insert does, moves the upper part to a new node and
// returns that and the separator between the two. The kids have the given height. A kid
// at the end moves alone, so that ascending input fills nodes.
func (in *mapInner[K, V]) split(i int, sep K, kid unsafe.Pointer, height int) (*mapInner[K, V], K) {
	var b mapBranches[K]
	in.addTo(&b, sep)
	b.insert(i, sep, kid)
	m := b.n / 2
	if i == in.n-1 {
		m = b.n - 1
	}
	right := &mapInner[K, V]{owner: in.owner}
	right.set(&b, m, b.n)
	right.count = right.sum(0, right.n, height)
	in.set(&b, 0, m)
	in.count -= right.count
	return right, b.seps[m-1]
}

// mapCount returns the number of keys below a node of the given height.
func mapCount[K Fixed, V any](node unsafe.Pointer, height int) int {
	if height == 0 {
		return int((*mapLeaf[K, V])(node).n)
	}
	return (*mapInner[K, V])(node).count
}

// sum counts the keys below kids from (included) to (not included).
func (in *mapInner[K, V]) sum(from, to, height int) (n int) {
	for _, kid := range in.kids[from:to] {
		n += mapCount[K, V](kid, height)
	}
	return n
}

// setSep replaces separator i.
func (in *mapInner[K, V]) setSep(i int, sep K) {
	seps := *in.seps
	seps[i] = sep
	in.seps = &seps
}

// removeKid drops kid i and a separator beside it.
func (in *mapInner[K, V]) removeKid(i int) {
	var b mapBranches[K]
	var none K
	in.addTo(&b, none)
	b.remove(i)
	in.set(&b, 0, b.n)
}

// mendLeaf removes kid i if it is empty, and otherwise merges it with a neighbour or
// balances the two. Kids are leaves; in and kid i are owned.
func (in *mapInner[K, V]) mendLeaf(i int) {
	if (*mapLeaf[K, V])(in.kids[i]).n == 0 {
		in.removeKid(i)
		return
	}
	if in.n == 1 {
		return
	}
	if i > 0 {
		i--
	}
	left, right := (*mapLeaf[K, V])(in.kids[i]), (*mapLeaf[K, V])(in.kids[i+1])
	n := int(left.n) + int(right.n)
	if n <= mergeMapKeys {
		in.kids[i] = unsafe.Pointer(joinMapLeaves(in.owner, left, right, 0, n))
		in.removeKid(i + 1)
		return
	}
	m := n / 2
	b := joinMapLeaves(in.owner, left, right, m, n)
	in.kids[i] = unsafe.Pointer(joinMapLeaves(in.owner, left, right, 0, m))
	in.kids[i+1] = unsafe.Pointer(b)
	in.setSep(i, b.keys[0])
}

// joinMapLeaves returns a leaf with the keys from (included) to (not included) of left
// and right together.
func joinMapLeaves[K Fixed, V any](own *token, left, right *mapLeaf[K, V], from, to int) *mapLeaf[K, V] {
	n := int(left.n)
	lf := newMapLeaf[K, V](own)
	lf.appendFrom(left, min(from, n), min(to, n))
	lf.appendFrom(right, max(from-n, 0), max(to-n, 0))
	return lf
}

// mendInner is mendLeaf for inner kids. Their own kids have the given height.
func (in *mapInner[K, V]) mendInner(i, height int) {
	if (*mapInner[K, V])(in.kids[i]).n == 0 {
		in.removeKid(i)
		return
	}
	if in.n == 1 {
		return
	}
	if i > 0 {
		i--
	}
	left, right := (*mapInner[K, V])(in.kids[i]), (*mapInner[K, V])(in.kids[i+1])
	var list mapBranches[K]
	left.addTo(&list, in.seps[i])
	right.addTo(&list, in.seps[i])
	a := &mapInner[K, V]{owner: in.owner}
	in.kids[i] = unsafe.Pointer(a)
	if list.n <= mergeKids {
		a.set(&list, 0, list.n)
		a.count = left.count + right.count
		in.removeKid(i + 1)
		return
	}
	m := list.n / 2
	a.set(&list, 0, m)
	a.count = a.sum(0, m, height)
	b := &mapInner[K, V]{owner: in.owner}
	b.set(&list, m, list.n)
	b.count = left.count + right.count - a.count
	in.kids[i+1] = unsafe.Pointer(b)
	in.setSep(i, list.seps[m-1])
}
