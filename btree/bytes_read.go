package btree

import (
	"iter"
	"unsafe"
)

// Min returns the first key and its value.
func (t *Bytes[V]) Min() (key []byte, v V, ok bool) { return t.At(0) }

// Max returns the last key and its value.
func (t *Bytes[V]) Max() (key []byte, v V, ok bool) { return t.At(t.n - 1) }

// At returns the key that has exactly i keys before it, and its value. There is
// none if i is negative or not below Len.
func (t *Bytes[V]) At(i int) (key []byte, v V, ok bool) {
	if i < 0 || i >= t.n {
		return nil, v, false
	}
	node := t.root
	for h := t.height - 1; h >= 0; h-- {
		in := (*bytesInner[V])(node)
		c := 0
		if i >= in.count/2 { // start at the nearer end
			c = in.n - 1
			before := in.count - kidCount[V](in.kids[c], h)
			for i < before {
				c--
				before -= kidCount[V](in.kids[c], h)
			}
			i -= before
		} else {
			for n := kidCount[V](in.kids[0], h); i >= n; n = kidCount[V](in.kids[c], h) {
				i -= n
				c++
			}
		}
		node = in.kids[c]
	}
	lf := (*bytesLeaf[V])(node)
	return lf.key(i), lf.vals[i], true
}

// Rank returns the number of keys below key.
func (t *Bytes[V]) Rank(key []byte) int {
	if t.root == nil {
		return 0
	}
	node, rank := t.root, 0
	for h := t.height - 1; h >= 0; h-- {
		in := (*bytesInner[V])(node)
		c := in.route(key)
		if n := in.n; c <= n/2 {
			rank += in.sum(0, c, h)
		} else {
			rank += in.count - in.sum(c, n, h)
		}
		node = in.kids[c]
	}
	return rank + (*bytesLeaf[V])(node).lower(key)
}

// Seek returns the first key that is not below key, and its value.
func (t *Bytes[V]) Seek(key []byte) (found []byte, v V, ok bool) {
	for k, v := range t.Ascend(key, nil) {
		return k, v, true
	}
	return nil, v, false
}

// SeekBack returns the last key that is not above key, and its value.
func (t *Bytes[V]) SeekBack(key []byte) (found []byte, v V, ok bool) {
	if t.root == nil {
		return nil, v, false
	}
	var p bytesPath[V]
	lf := t.descend(key, &p)
	if i := lf.find(key); i >= 0 {
		return lf.key(i), lf.vals[i], true
	}
	if key == nil {
		key = []byte{} // nil would be no bound
	}
	for k, v := range t.Descend(nil, key) {
		return k, v, true
	}
	return nil, v, false
}

// Ascend yields the keys k with lo <= k < hi and their values, in order. A nil lo or hi
// means no bound. The map must not be written during the loop, but a Clone of it may be.
func (t *Bytes[V]) Ascend(lo, hi []byte) iter.Seq2[[]byte, V] {
	return func(yield func([]byte, V) bool) {
		w := bytesWalk[V]{t: t, lo: lo, hi: hi, step: 1}
		for w.next() {
			for i := w.from; i < w.to; i++ {
				if !yield(w.lf.key(i), w.lf.vals[i]) {
					return
				}
			}
		}
	}
}

// Descend yields the same as Ascend, in reverse order.
func (t *Bytes[V]) Descend(lo, hi []byte) iter.Seq2[[]byte, V] {
	return func(yield func([]byte, V) bool) {
		w := bytesWalk[V]{t: t, lo: lo, hi: hi, step: -1}
		for w.next() {
			for i := w.to - 1; i >= w.from; i-- {
				if !yield(w.lf.key(i), w.lf.vals[i]) {
					return
				}
			}
		}
	}
}

// span returns the first and last kid that may have keys in lo <= k < hi.
func (in *bytesInner[V]) span(lo, hi []byte) (first, last int) {
	last = in.n - 1
	if lo != nil {
		first = in.route(lo)
	}
	if hi != nil {
		last = in.route(hi)
	}
	return first, last
}

// span returns the index of the first key in lo <= k < hi and that after the last.
func (lf *bytesLeaf[V]) span(lo, hi []byte) (from, to int) {
	to = int(lf.n)
	if lo != nil {
		from = lf.lower(lo)
	}
	if hi != nil {
		to = lf.lower(hi)
	}
	return from, to
}

// touchBytes reads a byte of each part of the leaves that a scan reaches next, so that
// their cache misses overlap. It returns a meaningless sum and is not inlined, so that
// the reads are not optimised away.
//
//go:noinline
func touchBytes[V any](leaves []unsafe.Pointer) (sum int) {
	for _, p := range leaves {
		lf := (*bytesLeaf[V])(p)
		sum += int(lf.n) + int(lf.offs[leafKeys/2])
	}
	for _, p := range leaves {
		if lf := (*bytesLeaf[V])(p); len(lf.blob) > 0 {
			sum += int(lf.blob[0])
		}
	}
	return sum
}

// bytesWalk goes from leaf to leaf. It is separate from the loops over keys so that the
// compiler can inline those, with the loop body, where they are used: then a key costs no
// call.
type bytesWalk[V any] struct {
	t        *Bytes[V]
	lo, hi   []byte // nil: no bound, or none that matters for the leaves to come
	step     int    // 1 or -1
	lf       *bytesLeaf[V]
	from, to int // the keys of lf that are within the bounds
	path     [maxHeight]bytesTurn[V]
}

// bytesTurn is an inner node on the way to a leaf, the kid that was taken and the
// last one to take.
type bytesTurn[V any] struct {
	in     *bytesInner[V]
	i, end int
}

// next goes to the first or the next leaf, and reports whether there is one.
func (w *bytesWalk[V]) next() bool {
	d, node, height := 0, w.t.root, w.t.height
	if w.lf != nil {
		for d = height - 1; d >= 0 && w.path[d].i == w.path[d].end; d-- {
		}
		if d < 0 {
			return false
		}
		p := &w.path[d]
		p.i += w.step
		node = p.in.kids[p.i]
		d++
	}
	if node == nil {
		return false
	}
	for ; d < height; d++ {
		in := (*bytesInner[V])(node)
		i, end := in.span(w.lo, w.hi)
		if i > end {
			return false // lo is above hi
		}
		if w.step < 0 {
			i, end = end, i
		}
		w.path[d] = bytesTurn[V]{in, i, end}
		node = in.kids[i]
	}
	if height > 0 && w.lf != nil {
		p := &w.path[height-1]
		if from, to := touchSpan(p.i, p.end); from < to {
			touchBytes[V](p.in.kids[from:to])
		}
	}
	w.lf = (*bytesLeaf[V])(node)
	w.from, w.to = w.lf.span(w.lo, w.hi)
	if w.step > 0 {
		w.lo = nil // all keys of the leaves to come are above it
	} else {
		w.hi = nil
	}
	return true
}
