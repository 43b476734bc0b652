package btree

import (
	"bytes"
	"slices"
	"unsafe"
)

const maxBytesBlob = 1<<16 - 1 // bytes of the keys of one leaf

// bytesLeaf has up to leafKeys keys and their values. The head of a key is its eight
// bytes after the common prefix of the leaf's keys. Nearly all comparisons need only the
// heads, not the keys.
//
// The order and the sizes of the fields are chosen so that a scan reads one contiguous
// range of memory besides the blob, that heads starts on a cache line, and that the leaf
// fills its size class (1,536 bytes) for V of 16 bytes.
type bytesLeaf[V any] struct {
	owner  *token
	blob   []byte // the keys in order, one after the other
	n      uint16
	plen   uint16 // every key starts with the same plen bytes
	shared bool   // an older copy of this leaf has the same blob: replace it, never write to it
	offs   [leafKeys + 1]uint16
	_      [32]byte
	vals   [leafKeys]V
	heads  [leafKeys]uint64
}

// newBytesLeaf returns an empty leaf with room for size bytes of keys.
func newBytesLeaf[V any](own *token, size int) *bytesLeaf[V] {
	lf := &bytesLeaf[V]{owner: own, blob: newBytesBlob(size)}
	lf.clearHeads(0)
	return lf
}

// newBytesBlob returns an empty slice with room for size bytes, rounded up to the allocator's
// size class.
func newBytesBlob(size int) []byte { return slices.Grow([]byte(nil), size) }

// copy returns a copy with another owner. The blob is shared until the copy
// changes its keys, so that replacing a value does not copy them.
func (lf *bytesLeaf[V]) copy(own *token) *bytesLeaf[V] {
	c := new(bytesLeaf[V])
	*c = *lf
	c.owner, c.shared = own, true
	return c
}

// key returns key i. Its capacity equals its length.
func (lf *bytesLeaf[V]) key(i int) []byte {
	from, to := lf.offs[i], lf.offs[i+1]
	return lf.blob[from:to:to]
}

// last returns the last key; the leaf must not be empty.
func (lf *bytesLeaf[V]) last() []byte { return lf.key(int(lf.n) - 1) }

// find returns the index of key, or -1.
func (lf *bytesLeaf[V]) find(key []byte) int {
	h := head(key, int(lf.plen))
	for i := lowerLeaf(&lf.heads, h); i < int(lf.n) && lf.heads[i] == h; i++ {
		if string(lf.key(i)) == string(key) {
			return i
		}
	}
	return -1
}

// lower returns the number of keys below key.
func (lf *bytesLeaf[V]) lower(key []byte) int {
	switch comparePrefix(key, lf.blob[:lf.plen]) {
	case -1:
		return 0
	case 1:
		return int(lf.n)
	}
	h := head(key, int(lf.plen))
	i := lowerLeaf(&lf.heads, h)
	for i < int(lf.n) && lf.heads[i] == h && bytes.Compare(lf.key(i), key) < 0 {
		i++
	}
	return i
}

// fits reports whether a key of size bytes can be inserted without a split.
func (lf *bytesLeaf[V]) fits(size int) bool {
	return lf.n < leafKeys && len(lf.blob)+size <= maxBytesBlob
}

// insert puts a key before index i. The leaf must be owned and have room.
func (lf *bytesLeaf[V]) insert(i int, key []byte, v V) {
	n := int(lf.n)
	if n == 0 {
		lf.plen = uint16(len(key))
	} else if same := commonPrefix(key, lf.blob[:lf.plen]); same < int(lf.plen) {
		lf.plen = uint16(same)
		lf.setHeads()
	}
	h := head(key, int(lf.plen))
	lf.insertBytes(int(lf.offs[i]), key)
	size := uint16(len(key))
	for j := n; j >= i; j-- {
		lf.offs[j+1] = lf.offs[j] + size
	}
	copy(lf.heads[i+1:n+1], lf.heads[i:n])
	copy(lf.vals[i+1:n+1], lf.vals[i:n])
	lf.heads[i], lf.vals[i] = h, v
	lf.n++
}

// insertBytes puts key into the blob at offset at.
func (lf *bytesLeaf[V]) insertBytes(at int, key []byte) {
	old, size := lf.blob, len(lf.blob)+len(key)
	if lf.shared || size > cap(old) {
		room := size / 4
		if lf.shared {
			room = size / 16 // the leaf may well be shared again before its next insert
		}
		b := newBytesBlob(size + room)
		b = append(b, old[:at]...)
		b = append(b, key...)
		lf.blob, lf.shared = append(b, old[at:]...), false
		return
	}
	if overlap(old, key) {
		key = bytes.Clone(key) // key aliases the blob, which is about to move
	}
	b := old[:size]
	copy(b[at+len(key):], old[at:])
	copy(b[at:], key)
	lf.blob = b
}

// remove deletes key i. The leaf must be owned.
func (lf *bytesLeaf[V]) remove(i int) {
	n := int(lf.n)
	from, to := lf.offs[i], lf.offs[i+1]
	size := len(lf.blob) - int(to-from)
	if lf.shared || cap(lf.blob) > 4*size+256 {
		b := append(newBytesBlob(size), lf.blob[:from]...)
		lf.blob, lf.shared = append(b, lf.blob[to:]...), false
	} else {
		lf.blob = slices.Delete(lf.blob, int(from), int(to))
	}
	for j := i + 1; j < n; j++ {
		lf.offs[j] = lf.offs[j+1] - (to - from)
	}
	copy(lf.heads[i:n], lf.heads[i+1:n])
	copy(lf.vals[i:n], lf.vals[i+1:n])
	lf.heads[n-1] = noHead
	clear(lf.vals[n-1 : n])
	lf.n--
}

// split inserts a key before index i of a leaf that has no room for it. It moves the
// upper part of the leaf to a new leaf and returns that.
func (lf *bytesLeaf[V]) split(i int, key []byte, v V) *bytesLeaf[V] {
	m, stays := lf.splitPoint(i, len(key))
	here, there := 0, len(key) // the room that the new key needs
	if stays {
		here, there = there, here
	}
	right := newBytesLeaf[V](lf.owner, len(lf.blob)-int(lf.offs[m])+there)
	right.appendFrom(lf, m, int(lf.n))
	right.setPrefix()
	lf.truncate(m, here)
	if stays {
		lf.insert(i, key, v)
	} else {
		right.insert(i-m, key, v)
	}
	return right
}

// splitPoint returns how many keys stay in a leaf that is split to insert a key of size
// bytes before index i, and whether the new key stays too. Keys inserted in ascending
// order leave full leaves behind. Otherwise the parts are equal, in keys or, if the keys
// are very long, in bytes, so that both parts fit.
func (lf *bytesLeaf[V]) splitPoint(i, size int) (m int, stays bool) {
	n := int(lf.n)
	if i == n {
		return n, false
	}
	m = (n + 1) / 2
	if total := len(lf.blob) + size; total > maxBytesBlob {
		best := total
		for k := 1; k <= n; k++ {
			left := int(lf.offs[k])
			if k > i {
				left = int(lf.offs[k-1]) + size
			}
			if diff := max(2*left-total, total-2*left); diff < best {
				best, m = diff, k
			}
		}
	}
	if i < m {
		return m - 1, true
	}
	return m, false
}

// truncate drops the keys from index m on and leaves room for room bytes.
func (lf *bytesLeaf[V]) truncate(m, room int) {
	end := int(lf.offs[m])
	lf.blob, lf.shared = append(newBytesBlob(end+room), lf.blob[:end]...), false
	clear(lf.vals[m:lf.n])
	lf.n = uint16(m)
	lf.setPrefix()
}

// appendFrom appends keys from (included) to (not included) of src, which must be above
// those of lf. The caller calls setPrefix afterwards.
func (lf *bytesLeaf[V]) appendFrom(src *bytesLeaf[V], from, to int) {
	n := int(lf.n)
	shift := lf.offs[n] - src.offs[from]
	for j := from; j < to; j++ {
		lf.offs[n+1+j-from] = src.offs[j+1] + shift
	}
	lf.blob = append(lf.blob, src.blob[src.offs[from]:src.offs[to]]...)
	copy(lf.vals[n:], src.vals[from:to])
	lf.n += uint16(to - from)
}

// setPrefix finds the common prefix of all keys and sets the heads after it.
func (lf *bytesLeaf[V]) setPrefix() {
	lf.plen = 0
	if lf.n > 0 {
		lf.plen = uint16(commonPrefix(lf.key(0), lf.last()))
	}
	lf.setHeads()
}

func (lf *bytesLeaf[V]) setHeads() {
	for i := range int(lf.n) {
		lf.heads[i] = head(lf.key(i), int(lf.plen))
	}
	lf.clearHeads(int(lf.n))
}

func (lf *bytesLeaf[V]) clearHeads(from int) {
	for i := from; i < leafKeys; i++ {
		lf.heads[i] = noHead
	}
}

// overlap reports whether two slices share memory.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	pa, pb := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return pa < pb+uintptr(len(b)) && pb < pa+uintptr(len(a))
}
