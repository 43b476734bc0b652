package btree

import "bytes"

const (
	leafKeys  = 56                // keys of a full leaf
	minLeaf   = leafKeys * 3 / 8  // a Delete that leaves fewer rebalances the leaf
	mergeLeaf = leafKeys * 7 / 8  // neighbours are merged if they have no more than this
	groupKeys = 8                 // heads that are compared together
	noHead    = uint64(1<<64 - 1) // fills the heads beyond the last key
)

// leaf has up to leafKeys keys with their values. The head of a key is its eight bytes
// after the common prefix of the leaf's keys. Nearly all comparisons need only the heads,
// not the keys.
//
// Keys and values are records in a blob, which has no pointers and which the garbage
// collector therefore does not walk. offs has the place of the record of each key. A copy
// of a leaf shares the blob; blob.go has the rules.
//
// With the allocator's eight bytes in front a leaf fills its size class (640 bytes), and
// heads starts on a cache line.
type leaf struct {
	owner *token
	blob  []byte   // as long as its allocation
	out   *outside // values that are not in the blob; nil: none
	used  uint32   // the records of this leaf end here
	fence uint32   // only this leaf has records from here on
	live  uint32   // bytes of the records that offs leads to
	n     uint16
	plen  uint16 // every key starts with the same plen bytes
	_     [16]byte
	offs  [leafKeys]uint16 // in units of recordUnit
	heads [leafKeys]uint64
}

// newLeaf returns an empty leaf with a blob for size bytes of records and up to room more.
func newLeaf(own *token, size, room int) *leaf {
	lf := &leaf{owner: own}
	lf.newBlob(size, room)
	lf.clearHeads(0)
	return lf
}

// copy returns a copy with another owner, which shares the blob.
func (lf *leaf) copy(own *token) *leaf {
	c := new(leaf)
	*c = *lf
	c.owner, c.fence = own, lf.used
	return c
}

// last returns the last key; the leaf must not be empty.
func (lf *leaf) last() []byte { return lf.key(int(lf.n) - 1) }

// find returns the index of key, or -1.
func (lf *leaf) find(key []byte) int {
	h := Head(key, int(lf.plen))
	return lf.findFrom(lowerLeaf(&lf.heads, h), h, key)
}

// findFrom is find with the head of key and the number of heads below it.
func (lf *leaf) findFrom(i int, h uint64, key []byte) int {
	for ; i < int(lf.n) && lf.heads[i] == h; i++ {
		if string(lf.key(i)) == string(key) {
			return i
		}
	}
	return -1
}

// lower returns the number of keys below key.
func (lf *leaf) lower(key []byte) int {
	if lf.plen > 0 {
		switch comparePrefix(key, lf.key(0)[:lf.plen]) {
		case -1:
			return 0
		case 1:
			return int(lf.n)
		}
	}
	h := Head(key, int(lf.plen))
	i := lowerLeaf(&lf.heads, h)
	for i < int(lf.n) && lf.heads[i] == h && bytes.Compare(lf.key(i), key) < 0 {
		i++
	}
	return i
}

// fits reports whether a pair can be inserted without a split.
func (lf *leaf) fits(key, val int) bool {
	return lf.n < leafKeys && int(lf.live)+recordBytes(key, val, val <= maxInline) <= maxLive
}

// insert puts a key before index i. The leaf must be owned and have room.
func (lf *leaf) insert(i int, key []byte, v Value) {
	n := int(lf.n)
	if n == 0 {
		lf.plen = uint16(len(key))
	} else if lf.plen > 0 {
		if same := CommonPrefix(key, lf.key(0)[:lf.plen]); same < int(lf.plen) {
			lf.plen = uint16(same)
			lf.setHeads()
		}
	}
	h := Head(key, int(lf.plen))
	at := lf.put(key, v, -1)
	copy(lf.heads[i+1:n+1], lf.heads[i:n])
	copy(lf.offs[i+1:n+1], lf.offs[i:n])
	lf.heads[i], lf.offs[i] = h, at
	lf.n++
}

// remove deletes key i and returns the length of its value. The leaf must be owned.
func (lf *leaf) remove(i int) (old int) {
	n := int(lf.n)
	old = len(lf.val(i).Bytes)
	at := int(lf.offs[i]) * recordUnit
	r := lf.blob[at : at+lf.recordLen(i)]
	lf.drop(i)
	if at >= int(lf.fence) {
		scribble(r)
	}
	copy(lf.heads[i:n], lf.heads[i+1:n])
	copy(lf.offs[i:n], lf.offs[i+1:n])
	lf.heads[n-1] = noHead
	lf.n--
	lf.shed()
	return old
}

// split inserts a key before index i of a leaf that has no room for it. It moves the
// upper part of the leaf to a new leaf and returns that.
func (lf *leaf) split(i int, key []byte, v Value) *leaf {
	size := recordBytes(len(key), len(v.Bytes), len(v.Bytes) <= maxInline)
	m, stays := lf.splitPoint(i, size)
	moved := lf.bytesOf(m, int(lf.n))
	here, there := 0, size // the room that the new key needs
	if stays {
		here, there = size, 0
	}
	right := newLeaf(lf.owner, moved+there, (moved+there)/roomPart)
	right.appendFrom(lf, m, int(lf.n))
	right.setPrefix()
	if m < int(lf.n) {
		lf.truncate(m, here)
	}
	if stays {
		lf.insert(i, key, v)
	} else {
		right.insert(i-m, key, v)
	}
	return right
}

// splitPoint returns how many keys stay in a leaf that is split to insert a record of size
// bytes before index i, and whether the new key stays too. Keys inserted in ascending
// order leave full leaves behind. Otherwise the parts are equal, in keys or, if the
// records are very long, in bytes, so that both parts fit.
func (lf *leaf) splitPoint(i, size int) (m int, stays bool) {
	n := int(lf.n)
	if i == n {
		return n, false
	}
	m = (n + 1) / 2
	if total := int(lf.live) + size; total > maxLive {
		best, left := total, 0
		for k := range n { // record k and those before it stay; the new one is record i
			switch {
			case k < i:
				left += lf.recordLen(k)
			case k == i:
				left += size
			default:
				left += lf.recordLen(k - 1)
			}
			if diff := max(2*left-total, total-2*left); diff < best {
				best, m = diff, k+1
			}
		}
	}
	if i < m {
		return m - 1, true
	}
	return m, false
}

// truncate drops the keys from index m on and leaves room for a record of room bytes.
func (lf *leaf) truncate(m, room int) {
	for i := m; i < int(lf.n); i++ {
		lf.drop(i)
	}
	lf.n = uint16(m)
	lf.rebuild(room, int(lf.live)/roomPart, -1)
	lf.setPrefix()
}

// setPrefix finds the common prefix of all keys and sets the heads after it.
func (lf *leaf) setPrefix() {
	lf.plen = 0
	if lf.n > 0 {
		lf.plen = uint16(CommonPrefix(lf.key(0), lf.last()))
	}
	lf.setHeads()
}

func (lf *leaf) setHeads() {
	for i := range int(lf.n) {
		lf.heads[i] = Head(lf.key(i), int(lf.plen))
	}
	lf.clearHeads(int(lf.n))
}

func (lf *leaf) clearHeads(from int) {
	for i := from; i < leafKeys; i++ {
		lf.heads[i] = noHead
	}
}

// joinLeaves returns a leaf with the keys from (included) to (not included) of left and
// right together.
func joinLeaves(own *token, left, right *leaf, from, to int) *leaf {
	n := int(left.n)
	a, b := min(from, n), min(to, n)
	c, d := max(from-n, 0), max(to-n, 0)
	size := left.bytesOf(a, b) + right.bytesOf(c, d)
	lf := newLeaf(own, size, size/roomPart)
	lf.appendFrom(left, a, b)
	lf.appendFrom(right, c, d)
	lf.setPrefix()
	return lf
}

// canPart reports whether the first m keys of two leaves fit in one leaf, and the rest in
// another.
func canPart(left, right *leaf, m int) bool {
	n := int(left.n)
	first := left.bytesOf(0, min(m, n)) + right.bytesOf(0, max(m-n, 0))
	return first <= maxLive && int(left.live+right.live)-first <= maxLive
}
