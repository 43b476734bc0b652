package btree

import (
	"bytes"
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

// Ascend yields the keys k with lo <= k < hi and their values, in order. A nil
// lo or hi is no bound. The map must not be written during the loop, but a
// Clone of it may, or the loop may run over a Clone.
func (t *Bytes[V]) Ascend(lo, hi []byte) iter.Seq2[[]byte, V] {
	return func(yield func([]byte, V) bool) {
		if t.root != nil {
			ascendBytes(t.root, t.height, lo, hi, yield)
		}
	}
}

// Descend yields the same as Ascend, in reverse order.
func (t *Bytes[V]) Descend(lo, hi []byte) iter.Seq2[[]byte, V] {
	return func(yield func([]byte, V) bool) {
		if t.root != nil {
			descendBytes(t.root, t.height, lo, hi, yield)
		}
	}
}

// Prefix yields the keys that begin with p and their values, in order. The map
// must not be written during the loop.
func (t *Bytes[V]) Prefix(p []byte) iter.Seq2[[]byte, V] {
	return t.Ascend(p, prefixEnd(p))
}

// prefixEnd returns the first key above all that begin with p; nil if none is.
func prefixEnd(p []byte) []byte {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] != 0xff {
			end := bytes.Clone(p[:i+1])
			end[i]++
			return end
		}
	}
	return nil
}

// span returns the kids that keys in lo <= k < hi can be in, both included.
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

// ahead is the number of leaves that a scan touches ahead, after its first leaf.
const ahead = 8

// touchBytes reads a byte of each part of some leaves that a scan comes to next,
// so that their cache misses overlap. It returns a sum to be ignored, and is not
// inlined, so that the reads are not optimised away.
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

// ascendBytes yields what is below a node; only the kids at the ends of the span
// need to look at the bounds again.
func ascendBytes[V any](node unsafe.Pointer, height int, lo, hi []byte, yield func([]byte, V) bool) bool {
	if height == 0 {
		return (*bytesLeaf[V])(node).ascend(lo, hi, yield)
	}
	in := (*bytesInner[V])(node)
	first, last := in.span(lo, hi)
	for i := first; i <= last; i++ {
		var l, h []byte
		if i == first {
			l = lo
		}
		if i == last {
			h = hi
		}
		if height == 1 && i > first && (i-first)%ahead == 1 {
			touchBytes[V](in.kids[i:min(i+ahead, last+1)])
		}
		if !ascendBytes(in.kids[i], height-1, l, h, yield) {
			return false
		}
	}
	return true
}

func (lf *bytesLeaf[V]) ascend(lo, hi []byte, yield func([]byte, V) bool) bool {
	from, to := lf.span(lo, hi)
	for i := from; i < to; i++ {
		if !yield(lf.key(i), lf.vals[i]) {
			return false
		}
	}
	return true
}

// descendBytes is ascendBytes the other way round.
func descendBytes[V any](node unsafe.Pointer, height int, lo, hi []byte, yield func([]byte, V) bool) bool {
	if height == 0 {
		lf := (*bytesLeaf[V])(node)
		from, to := lf.span(lo, hi)
		for i := to - 1; i >= from; i-- {
			if !yield(lf.key(i), lf.vals[i]) {
				return false
			}
		}
		return true
	}
	in := (*bytesInner[V])(node)
	first, last := in.span(lo, hi)
	for i := last; i >= first; i-- {
		var l, h []byte
		if i == first {
			l = lo
		}
		if i == last {
			h = hi
		}
		if height == 1 && i < last && (last-i)%ahead == 1 {
			touchBytes[V](in.kids[max(i-ahead+1, first) : i+1])
		}
		if !descendBytes(in.kids[i], height-1, l, h, yield) {
			return false
		}
	}
	return true
}
