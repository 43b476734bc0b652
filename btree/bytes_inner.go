package btree

import (
	"bytes"
	"unsafe"
)

// bytesInner routes keys to its kids: bytesLeaf[V] at height 1, else bytesInner[V].
// Separator i is above all keys of kid i and not above any of kid i+1.
//
// Kids are untyped since one node type serves all heights. Their type follows from the
// height, which every descent counts down.
type bytesInner[V any] struct {
	owner *token
	seps  *separators
	count int // keys below this node
	n     int // kids; one more than separators
	kids  [innerKids]unsafe.Pointer
}

func newBytesInner[V any](own *token) *bytesInner[V] { return &bytesInner[V]{owner: own} }

func (in *bytesInner[V]) copy(own *token) *bytesInner[V] {
	c := new(bytesInner[V])
	*c = *in
	c.owner = own
	return c
}

// route returns the index of the kid that key belongs to: the number of
// separators at or below it.
func (in *bytesInner[V]) route(key []byte) int {
	s := in.seps
	if s.plen > 0 {
		switch comparePrefix(key, s.blob[:s.plen]) {
		case -1:
			return 0
		case 1:
			return in.n - 1
		}
	}
	h := head(key, s.plen)
	i := lowerHead(&s.heads, h)
	for i < in.n-1 && s.heads[i] == h && bytes.Compare(s.at(i), key) <= 0 {
		i++
	}
	return i
}

// setSeps replaces the separators; there must be one less than kids.
func (in *bytesInner[V]) setSeps(list [][]byte) {
	size := 0
	for _, s := range list {
		size += len(s)
	}
	seps := &separators{blob: make([]byte, 0, size)}
	if len(list) > 0 {
		seps.plen = commonPrefix(list[0], list[len(list)-1])
	}
	for i, s := range list {
		seps.blob = append(seps.blob, s...)
		seps.offs[i+1] = uint32(len(seps.blob))
		seps.heads[i] = head(s, seps.plen)
	}
	for i := len(list); i < innerKids; i++ {
		seps.heads[i] = noHead
	}
	in.seps = seps
}

// addTo appends all kids of a node after separator sep.
func (in *bytesInner[V]) addTo(b *branches, sep []byte) {
	for i := range in.n {
		b.add(sep, in.kids[i])
		if i+1 < in.n {
			sep = in.seps.at(i)
		}
	}
}

// set sets the kids of the node to those of b from (included) to (not included). The
// caller sets the count.
func (in *bytesInner[V]) set(b *branches, from, to int) {
	clear(in.kids[:])
	copy(in.kids[:], b.kids[from:to])
	in.n = to - from
	in.setSeps(b.seps[from:max(from, to-1)])
}

// insert adds a kid right after kid i, with sep between the two. There must be room.
func (in *bytesInner[V]) insert(i int, sep []byte, kid unsafe.Pointer) {
	var b branches
	in.addTo(&b, nil)
	b.insert(i, sep, kid)
	in.set(&b, 0, b.n)
}

// split adds a kid to a full node as insert does, moves the upper part to a new node and
// returns that and the separator between the two. The kids have the given height. A kid
// at the end moves alone, so that ascending input fills nodes.
func (in *bytesInner[V]) split(i int, sep []byte, kid unsafe.Pointer, height int) (*bytesInner[V], []byte) {
	var b branches
	in.addTo(&b, nil)
	b.insert(i, sep, kid)
	m := b.n / 2
	if i == in.n-1 {
		m = b.n - 1
	}
	right := newBytesInner[V](in.owner)
	right.set(&b, m, b.n)
	right.count = right.sum(0, right.n, height)
	in.set(&b, 0, m)
	in.count -= right.count
	return right, b.seps[m-1]
}

// kidCount returns the number of keys below a node of the given height.
func kidCount[V any](node unsafe.Pointer, height int) int {
	if height == 0 {
		return int((*bytesLeaf[V])(node).n)
	}
	return (*bytesInner[V])(node).count
}

// sum counts the keys below kids from (included) to (not included).
func (in *bytesInner[V]) sum(from, to, height int) (n int) {
	for _, kid := range in.kids[from:to] {
		n += kidCount[V](kid, height)
	}
	return n
}

// removeKid drops kid i and a separator beside it.
func (in *bytesInner[V]) removeKid(i int) {
	var b branches
	for j := range in.n {
		if j != i {
			b.add(in.sepBefore(j), in.kids[j])
		}
	}
	in.set(&b, 0, b.n)
}

// sepBefore returns the separator before kid i, or nil for the first kid.
func (in *bytesInner[V]) sepBefore(i int) []byte {
	if i == 0 {
		return nil
	}
	return in.seps.at(i - 1)
}

// replacePair replaces kids i and i+1 by a and b with sep between them, or by a alone if
// b is nil.
func (in *bytesInner[V]) replacePair(i int, a unsafe.Pointer, sep []byte, b unsafe.Pointer) {
	var list branches
	for j := range in.n {
		switch {
		case j == i:
			list.add(in.sepBefore(j), a)
		case j != i+1:
			list.add(in.sepBefore(j), in.kids[j])
		case b != nil:
			list.add(sep, b)
		}
	}
	in.set(&list, 0, list.n)
}

// mendLeaf removes kid i if it is empty, and otherwise merges it with a neighbour or
// balances the two. Kids are leaves; in and kid i are owned.
func (in *bytesInner[V]) mendLeaf(i int) {
	if (*bytesLeaf[V])(in.kids[i]).n == 0 {
		in.removeKid(i)
		return
	}
	if in.n == 1 {
		return
	}
	if i > 0 {
		i--
	}
	left, right := (*bytesLeaf[V])(in.kids[i]), (*bytesLeaf[V])(in.kids[i+1])
	n := int(left.n) + int(right.n)
	if n <= mergeLeaf && len(left.blob)+len(right.blob) <= maxBytesBlob {
		a := joinBytesLeaves(in.owner, left, right, 0, n)
		in.replacePair(i, unsafe.Pointer(a), nil, nil)
		return
	}
	m := n / 2
	if n <= mergeLeaf || !bytesCanPart(left, right, m) {
		return // the keys are so long that moving them would overfill a leaf
	}
	a, b := joinBytesLeaves(in.owner, left, right, 0, m), joinBytesLeaves(in.owner, left, right, m, n)
	in.replacePair(i, unsafe.Pointer(a), separator(a.last(), b.key(0)), unsafe.Pointer(b))
}

// bytesCanPart reports whether the first m keys of two leaves fit in one leaf, and the rest in
// another.
func bytesCanPart[V any](left, right *bytesLeaf[V], m int) bool {
	all, first := len(left.blob)+len(right.blob), 0
	if n := int(left.n); m <= n {
		first = int(left.offs[m])
	} else {
		first = len(left.blob) + int(right.offs[m-n])
	}
	return first <= maxBytesBlob && all-first <= maxBytesBlob
}

// joinBytesLeaves returns a leaf with the keys from (included) to (not included) of left and
// right together.
func joinBytesLeaves[V any](own *token, left, right *bytesLeaf[V], from, to int) *bytesLeaf[V] {
	n := int(left.n)
	a, b := min(from, n), min(to, n)
	c, d := max(from-n, 0), max(to-n, 0)
	lf := newBytesLeaf[V](own, int(left.offs[b]-left.offs[a])+int(right.offs[d]-right.offs[c]))
	lf.appendFrom(left, a, b)
	lf.appendFrom(right, c, d)
	lf.setPrefix()
	return lf
}

// mendInner is mendLeaf for inner kids. Their own kids have the given height.
func (in *bytesInner[V]) mendInner(i, height int) {
	if (*bytesInner[V])(in.kids[i]).n == 0 {
		in.removeKid(i)
		return
	}
	if in.n == 1 {
		return
	}
	if i > 0 {
		i--
	}
	left, right := (*bytesInner[V])(in.kids[i]), (*bytesInner[V])(in.kids[i+1])
	var list branches
	left.addTo(&list, nil)
	right.addTo(&list, in.seps.at(i))
	a := newBytesInner[V](in.owner)
	if list.n <= mergeKids {
		a.set(&list, 0, list.n)
		a.count = left.count + right.count
		in.replacePair(i, unsafe.Pointer(a), nil, nil)
		return
	}
	m := list.n / 2
	a.set(&list, 0, m)
	a.count = a.sum(0, m, height)
	b := newBytesInner[V](in.owner)
	b.set(&list, m, list.n)
	b.count = left.count + right.count - a.count
	in.replacePair(i, unsafe.Pointer(a), list.seps[m-1], unsafe.Pointer(b))
}
