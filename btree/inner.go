package btree

import (
	"bytes"
	"unsafe"
)

const (
	innerKids = 32 // kids of a full inner node
	minKids   = 12 // a Delete that leaves fewer rebalances the node
	mergeKids = 28 // neighbours are merged if they have no more than this
)

// inner routes keys to its kids: leaf at height 1, else inner.
// Separator i is above all keys of kid i and not above any of kid i+1.
//
// Kids are untyped since one node type serves all heights. Their type follows from the
// height, which every descent counts down.
type inner struct {
	owner *token
	seps  *separators
	count int // keys below this node
	n     int // kids; one more than separators
	kids  [innerKids]unsafe.Pointer
}

// separators separates the kids of a node. It never changes once it is set and is shared
// by all copies of the node, which differ only in their kids. So the copies that follow a
// clone are small.
type separators struct {
	blob  []byte // the separators in order, one after the other
	plen  int    // every separator starts with the same plen bytes
	heads [innerKids]uint64
	offs  [innerKids]uint32
}

// at returns separator i.
func (s *separators) at(i int) []byte {
	from, to := s.offs[i], s.offs[i+1]
	return s.blob[from:to:to]
}

func (in *inner) copy(own *token) *inner {
	c := new(inner)
	*c = *in
	c.owner = own
	return c
}

// route returns the index of the kid that key belongs to: the number of
// separators at or below it.
func (in *inner) route(key []byte) int {
	s := in.seps
	if s.plen > 0 {
		switch comparePrefix(key, s.blob[:s.plen]) {
		case -1:
			return 0
		case 1:
			return in.n - 1
		}
	}
	h := Head(key, s.plen)
	i := lowerHead(&s.heads, h)
	for i < in.n-1 && s.heads[i] == h && bytes.Compare(s.at(i), key) <= 0 {
		i++
	}
	return i
}

// newSeparators returns the separators of a list. At most one less than innerKids fit.
func newSeparators(list [][]byte) *separators {
	size := 0
	for _, s := range list {
		size += len(s)
	}
	seps := new(separators)
	if size > 0 {
		seps.blob = makeBlob(size, 0)[:0]
	}
	if len(list) > 0 {
		seps.plen = CommonPrefix(list[0], list[len(list)-1])
	}
	for i, s := range list {
		seps.blob = append(seps.blob, s...)
		seps.offs[i+1] = uint32(len(seps.blob))
		seps.heads[i] = Head(s, seps.plen)
	}
	for i := len(list); i < innerKids; i++ {
		seps.heads[i] = noHead
	}
	return seps
}

// countOf returns the number of keys below a node of the given height.
func countOf(node unsafe.Pointer, height int) int {
	if height == 0 {
		return int((*leaf)(node).n)
	}
	return (*inner)(node).count
}

// sum counts the keys below kids from (included) to (not included).
func (in *inner) sum(from, to, height int) (n int) {
	for _, kid := range in.kids[from:to] {
		n += countOf(kid, height)
	}
	return n
}

// sepBefore returns the separator before kid i, or nil for the first kid.
func (in *inner) sepBefore(i int) []byte {
	if i == 0 {
		return nil
	}
	return in.seps.at(i - 1)
}

// branches collects kids and the separators between them while nodes are split and
// merged. It has room for more than two full nodes.
type branches struct {
	kids [2*innerKids + 1]unsafe.Pointer
	seps [2*innerKids + 1][]byte
	n    int
}

// add appends kid after separator sep, which is ignored for the first kid.
func (b *branches) add(sep []byte, kid unsafe.Pointer) {
	b.kids[b.n] = kid
	if b.n > 0 {
		b.seps[b.n-1] = sep
	}
	b.n++
}

// addTo appends all kids of a node after separator sep.
func (in *inner) addTo(b *branches, sep []byte) {
	for i := range in.n {
		b.add(sep, in.kids[i])
		if i+1 < in.n {
			sep = in.seps.at(i)
		}
	}
}

// insert adds a kid right after kid i, with sep between the two.
func (b *branches) insert(i int, sep []byte, kid unsafe.Pointer) {
	copy(b.kids[i+2:b.n+1], b.kids[i+1:b.n])
	copy(b.seps[i+1:b.n], b.seps[i:b.n-1])
	b.kids[i+1], b.seps[i] = kid, sep
	b.n++
}

// set sets the kids of the node to those of b from (included) to (not included). The
// caller sets the count.
func (in *inner) set(b *branches, from, to int) {
	clear(in.kids[:])
	copy(in.kids[:], b.kids[from:to])
	in.n = to - from
	in.seps = newSeparators(b.seps[from:max(from, to-1)])
}
