package btree

import (
	"iter"
	"unsafe"
)

// At returns the key that has exactly i keys before it, and its value. There is
// none if i is negative or not below Len.
func (p *Pairs) At(i int) (key []byte, v Value, ok bool) {
	if i < 0 || i >= p.n {
		return nil, v, false
	}
	node := p.root
	for h := p.height - 1; h >= 0; h-- {
		in := (*inner)(node)
		c := 0
		if i >= in.count/2 { // start at the nearer end
			c = in.n - 1
			before := in.count - countOf(in.kids[c], h)
			for i < before {
				c--
				before -= countOf(in.kids[c], h)
			}
			i -= before
		} else {
			for n := countOf(in.kids[0], h); i >= n; n = countOf(in.kids[c], h) {
				i -= n
				c++
			}
		}
		node = in.kids[c]
	}
	lf := (*leaf)(node)
	key, v = lf.pair(i)
	return key, v, true
}

// Rank returns the number of keys below key.
func (p *Pairs) Rank(key []byte) int {
	if p.root == nil {
		return 0
	}
	node, rank := p.root, 0
	for h := p.height - 1; h >= 0; h-- {
		in := (*inner)(node)
		c := in.route(key)
		if n := in.n; c <= n/2 {
			rank += in.sum(0, c, h)
		} else {
			rank += in.count - in.sum(c, n, h)
		}
		node = in.kids[c]
	}
	return rank + (*leaf)(node).lower(key)
}

// Seek returns the first key that is not below key, and its value.
func (p *Pairs) Seek(key []byte) (found []byte, v Value, ok bool) {
	for k, v := range p.Ascend(key, nil) {
		return k, v, true
	}
	return nil, v, false
}

// Ascend yields the keys k with lo <= k < hi and their values, in order. A nil lo or hi
// means no bound. The map must not be written during the loop, but a Clone of it may be.
func (p *Pairs) Ascend(lo, hi []byte) iter.Seq2[[]byte, Value] {
	return func(yield func([]byte, Value) bool) {
		w := walk{p: p, lo: lo, hi: hi, step: 1}
		for w.next() {
			for i := w.from; i < w.to; i++ {
				if !yield(w.lf.pair(i)) {
					return
				}
			}
		}
	}
}

// Descend yields the same as Ascend, in reverse order.
func (p *Pairs) Descend(lo, hi []byte) iter.Seq2[[]byte, Value] {
	return func(yield func([]byte, Value) bool) {
		w := walk{p: p, lo: lo, hi: hi, step: -1}
		for w.next() {
			for i := w.to - 1; i >= w.from; i-- {
				if !yield(w.lf.pair(i)) {
					return
				}
			}
		}
	}
}

// span returns the first and last kid that may have keys in lo <= k < hi.
func (in *inner) span(lo, hi []byte) (first, last int) {
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
func (lf *leaf) span(lo, hi []byte) (from, to int) {
	to = int(lf.n)
	if lo != nil {
		from = lf.lower(lo)
	}
	if hi != nil {
		to = lf.lower(hi)
	}
	return from, to
}

// ahead is how many leaves a scan touches ahead, after its first leaf.
const ahead = 8

// touchLeaves reads a byte of each part of the leaves that a scan reaches next, so that
// their cache misses overlap. It returns a meaningless sum and is not inlined, so that
// the reads are not optimised away.
//
//go:noinline
func touchLeaves(leaves []unsafe.Pointer) (sum int) {
	for _, p := range leaves {
		lf := (*leaf)(p)
		sum += int(lf.n) + int(lf.offs[leafKeys/2])
	}
	for _, p := range leaves {
		lf := (*leaf)(p)
		sum += int(lf.blob[int(lf.offs[0])*recordUnit]) // not the claim: others may write it
	}
	return sum
}

// touchSpan returns the kids to touch before a scan reads kid i of a node on its way to
// kid end: a group of ahead kids if i is the first of one, otherwise none.
func touchSpan(i, end int) (from, to int) {
	switch {
	case i < end && i%ahead == 0:
		return i, min(i+ahead, end+1)
	case i > end && i%ahead == ahead-1:
		return max(i-ahead+1, end), i + 1
	}
	return 0, 0
}

// walk goes from leaf to leaf. It is separate from the loops over keys so that the
// compiler can inline those, with the loop body, where they are used: then a key costs no
// call.
type walk struct {
	p        *Pairs
	lo, hi   []byte // nil: no bound, or none that matters for the leaves to come
	step     int    // 1 or -1
	lf       *leaf
	from, to int // the keys of lf that are within the bounds
	path     [maxHeight]turn
}

// turn is an inner node on the way to a leaf, the kid that was taken and the
// last one to take.
type turn struct {
	in     *inner
	i, end int
}

// next goes to the first or the next leaf, and reports whether there is one.
func (w *walk) next() bool {
	d, node, height := 0, w.p.root, w.p.height
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
		in := (*inner)(node)
		i, end := in.span(w.lo, w.hi)
		if i > end {
			return false // lo is above hi
		}
		if w.step < 0 {
			i, end = end, i
		}
		w.path[d] = turn{in, i, end}
		node = in.kids[i]
	}
	if height > 0 && w.lf != nil {
		p := &w.path[height-1]
		if from, to := touchSpan(p.i, p.end); from < to {
			touchLeaves(p.in.kids[from:to])
		}
	}
	w.lf = (*leaf)(node)
	w.from, w.to = w.lf.span(w.lo, w.hi)
	if w.step > 0 {
		w.lo = nil // all keys of the leaves to come are above it
	} else {
		w.hi = nil
	}
	return true
}
