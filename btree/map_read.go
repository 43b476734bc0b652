package btree

import (
	"iter"
	"unsafe"
)

// Min returns the first key and its value.
func (t *Map[K, V]) Min() (key K, v V, ok bool) { return t.At(0) }

// Max returns the last key and its value.
func (t *Map[K, V]) Max() (key K, v V, ok bool) { return t.At(t.n - 1) }

// At returns the key that has exactly i keys before it, and its value. There is
// none if i is negative or not below Len.
func (t *Map[K, V]) At(i int) (key K, v V, ok bool) {
	if i < 0 || i >= t.n {
		return key, v, false
	}
	node := t.root
	for h := t.height - 1; h >= 0; h-- {
		in := (*mapInner[K, V])(node)
		c := 0
		if i >= in.count/2 { // start at the nearer end
			c = in.n - 1
			before := in.count - mapCount[K, V](in.kids[c], h)
			for i < before {
				c--
				before -= mapCount[K, V](in.kids[c], h)
			}
			i -= before
		} else {
			for n := mapCount[K, V](in.kids[0], h); i >= n; n = mapCount[K, V](in.kids[c], h) {
				i -= n
				c++
			}
		}
		node = in.kids[c]
	}
	lf := (*mapLeaf[K, V])(node)
	return lf.keys[i], lf.vals[i], true
}

// Rank returns the number of keys below key.
func (t *Map[K, V]) Rank(key K) int {
	if t.root == nil {
		return 0
	}
	node, rank := t.root, 0
	for h := t.height - 1; h >= 0; h-- {
		in := (*mapInner[K, V])(node)
		c := in.route(key)
		if n := in.n; c <= n/2 {
			rank += in.sum(0, c, h)
		} else {
			rank += in.count - in.sum(c, n, h)
		}
		node = in.kids[c]
	}
	return rank + (*mapLeaf[K, V])(node).lower(key)
}

// Seek returns the first key that is not below key, and its value.
func (t *Map[K, V]) Seek(key K) (found K, v V, ok bool) {
	for k, v := range t.AscendFrom(key) {
		return k, v, true
	}
	return found, v, false
}

// SeekBack returns the last key that is not above key, and its value.
func (t *Map[K, V]) SeekBack(key K) (found K, v V, ok bool) {
	for k, v := range t.DescendFrom(key) {
		return k, v, true
	}
	return found, v, false
}

// All yields all keys and their values in ascending order. As in all loops over a Map,
// the map must not be written during the loop, but a Clone of it may be.
func (t *Map[K, V]) All() iter.Seq2[K, V] { return t.up(mapSpan[K]{}) }

// Backward yields all keys and their values in descending order.
func (t *Map[K, V]) Backward() iter.Seq2[K, V] { return t.down(mapSpan[K]{}) }

// Ascend yields the keys k with lo <= k < hi and their values, in order.
func (t *Map[K, V]) Ascend(lo, hi K) iter.Seq2[K, V] {
	return t.up(mapSpan[K]{lo: lo, hi: hi, hasLo: true, hasHi: true})
}

// Descend yields the same as Ascend, in reverse order.
func (t *Map[K, V]) Descend(lo, hi K) iter.Seq2[K, V] {
	return t.down(mapSpan[K]{lo: lo, hi: hi, hasLo: true, hasHi: true})
}

// AscendFrom yields the keys k >= lo and their values, in ascending order.
func (t *Map[K, V]) AscendFrom(lo K) iter.Seq2[K, V] {
	return t.up(mapSpan[K]{lo: lo, hasLo: true})
}

// DescendFrom yields the keys k <= hi and their values, in descending order.
func (t *Map[K, V]) DescendFrom(hi K) iter.Seq2[K, V] {
	return t.down(mapSpan[K]{hi: hi, hasHi: true, withHi: true})
}

// mapSpan is a range of keys: k >= lo if hasLo, k < hi if hasHi, or k <= hi if withHi is
// also set.
type mapSpan[K Fixed] struct {
	lo, hi               K
	hasLo, hasHi, withHi bool
}

// span returns the first and last kid that may have keys of s.
func (in *mapInner[K, V]) span(s mapSpan[K]) (first, last int) {
	last = in.n - 1
	if s.hasLo {
		first = in.route(s.lo)
	}
	if s.hasHi {
		last = in.route(s.hi)
	}
	return first, last
}

// span returns the index of the first key of s and that after the last.
func (lf *mapLeaf[K, V]) span(s mapSpan[K]) (from, to int) {
	to = int(lf.n)
	if s.hasLo {
		from = lf.lower(s.lo)
	}
	if s.hasHi {
		to = lf.lower(s.hi)
		if s.withHi && to < int(lf.n) && lf.keys[to] == s.hi {
			to++
		}
	}
	return from, to
}

func (t *Map[K, V]) up(s mapSpan[K]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		w := mapWalk[K, V]{t: t, s: s, step: 1}
		for w.next() {
			for i := w.from; i < w.to; i++ {
				if !yield(w.lf.keys[i], w.lf.vals[i]) {
					return
				}
			}
		}
	}
}

func (t *Map[K, V]) down(s mapSpan[K]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		w := mapWalk[K, V]{t: t, s: s, step: -1}
		for w.next() {
			for i := w.to - 1; i >= w.from; i-- {
				if !yield(w.lf.keys[i], w.lf.vals[i]) {
					return
				}
			}
		}
	}
}

// mapWalk is bytesWalk for a Map.
type mapWalk[K Fixed, V any] struct {
	t        *Map[K, V]
	s        mapSpan[K]
	step     int
	lf       *mapLeaf[K, V]
	from, to int
	path     [maxHeight]mapTurn[K, V]
}

type mapTurn[K Fixed, V any] struct {
	in     *mapInner[K, V]
	i, end int
}

func (w *mapWalk[K, V]) next() bool {
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
		in := (*mapInner[K, V])(node)
		i, end := in.span(w.s)
		if i > end {
			return false // lo is above hi
		}
		if w.step < 0 {
			i, end = end, i
		}
		w.path[d] = mapTurn[K, V]{in, i, end}
		node = in.kids[i]
	}
	if height > 0 && w.lf != nil {
		p := &w.path[height-1]
		if from, to := touchSpan(p.i, p.end); from < to {
			touchMap[K, V](p.in.kids[from:to])
		}
	}
	w.lf = (*mapLeaf[K, V])(node)
	w.from, w.to = w.lf.span(w.s)
	if w.step > 0 {
		w.s.hasLo = false // all keys of the leaves to come are above it
	} else {
		w.s.hasHi = false
	}
	return true
}

// touchMap is touchLeaves for the leaves of a Map.
//
//go:noinline
func touchMap[K Fixed, V any](leaves []unsafe.Pointer) (sum int) {
	for _, p := range leaves {
		lf := (*mapLeaf[K, V])(p)
		sum += int(lf.n) + lt(lf.keys[mapKeys/2], lf.keys[mapKeys-1])
	}
	return sum
}
