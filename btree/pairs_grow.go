package btree

import "unsafe"

// grow adds kid, whose keys are at or above sep, to the right of the node at the end of a
// path, splitting the inner nodes that are full.
func (p *Pairs) grow(at *path, sep []byte, kid unsafe.Pointer) {
	p.shape++
	for d := p.height - 1; d >= 0; d-- {
		in, i := at[d].in, at[d].i
		var b branches
		in.addTo(&b, nil)
		b.insert(i, sep, kid)
		if b.n <= innerKids {
			p.setKids(in, &b, 0, b.n)
			return
		}
		m := b.n / 2
		if i == innerKids-1 {
			m = b.n - 1 // the new kid moves alone, so that ascending input fills nodes
		}
		right := p.newInner(&b, m, b.n)
		right.count = right.sum(0, right.n, p.height-1-d)
		p.setKids(in, &b, 0, m)
		in.count -= right.count
		sep, kid = b.seps[m-1], unsafe.Pointer(right)
	}
	if p.height == maxHeight {
		panic("BUG: btree: tree is too high")
	}
	var b branches
	b.add(nil, p.root)
	b.add(sep, kid)
	root := p.newInner(&b, 0, 2)
	root.count = p.n
	p.root = unsafe.Pointer(root)
	p.height++
}

// newInner returns an inner node with the kids of b from (included) to (not included). The
// caller sets the count.
func (p *Pairs) newInner(b *branches, from, to int) *inner {
	in := &inner{owner: p.token()}
	in.set(b, from, to)
	p.stats.addInner(in, 1)
	return in
}

// setKids replaces the kids of an inner node by those of b from (included) to (not
// included). The caller sets the count.
func (p *Pairs) setKids(in *inner, b *branches, from, to int) {
	p.stats.addInner(in, -1)
	in.set(b, from, to)
	p.stats.addInner(in, 1)
}

// shrink rebalances the nodes of a path, from the leaf up, that a Delete left too empty.
func (p *Pairs) shrink(at *path) {
	p.shape++
	for d := p.height - 1; d >= 0; d-- {
		in := at[d].in
		if d == p.height-1 {
			p.mendLeaf(in, at[d].i)
		} else {
			p.mendInner(in, at[d].i, p.height-2-d)
		}
		if in.n >= minKids {
			break
		}
	}
	for p.height > 0 {
		in := (*inner)(p.root)
		if in.n > 1 {
			return
		}
		p.stats.addInner(in, -1)
		p.root = in.kids[0] // nil if there is no kid left
		p.height--
	}
	if p.n == 0 {
		p.root, p.height, p.stats = nil, 0, Stats{}
	}
}

// replaceKids replaces kids i to j (not included) of a node by a, and by b after sep unless
// b is nil. If a is nil too, none takes their place.
func (p *Pairs) replaceKids(in *inner, i, j int, a unsafe.Pointer, sep []byte, b unsafe.Pointer) {
	var list branches
	for k := range in.n {
		switch {
		case k < i || k >= j:
			list.add(in.sepBefore(k), in.kids[k])
		case k == i && a != nil:
			list.add(in.sepBefore(k), a)
		}
		if k == i && b != nil {
			list.add(sep, b)
		}
	}
	p.setKids(in, &list, 0, list.n)
}

// mendLeaf removes kid i if it is empty, and otherwise merges it with a neighbour or
// balances the two. Kids are leaves; in and kid i are owned.
func (p *Pairs) mendLeaf(in *inner, i int) {
	if lf := (*leaf)(in.kids[i]); lf.n == 0 {
		p.stats.add(lf, -1)
		p.replaceKids(in, i, i+1, nil, nil, nil)
		return
	}
	if in.n == 1 {
		return
	}
	if i > 0 {
		i--
	}
	left, right := (*leaf)(in.kids[i]), (*leaf)(in.kids[i+1])
	n := int(left.n) + int(right.n)
	if n <= mergeLeaf && int(left.live+right.live) <= maxLive {
		a := joinLeaves(in.owner, left, right, 0, n)
		p.swapLeaves(left, right, a, nil)
		p.replaceKids(in, i, i+2, unsafe.Pointer(a), nil, nil)
		return
	}
	m := n / 2
	if n <= mergeLeaf || !canPart(left, right, m) {
		return // the records are so long that moving them would overfill a leaf
	}
	a, b := joinLeaves(in.owner, left, right, 0, m), joinLeaves(in.owner, left, right, m, n)
	p.swapLeaves(left, right, a, b)
	p.replaceKids(in, i, i+2, unsafe.Pointer(a), separator(a.last(), b.key(0)), unsafe.Pointer(b))
}

// swapLeaves counts leaves a and b, which may be nil, in place of left and right.
func (p *Pairs) swapLeaves(left, right, a, b *leaf) {
	p.stats.add(left, -1)
	p.stats.add(right, -1)
	p.stats.add(a, 1)
	if b != nil {
		p.stats.add(b, 1)
	}
}

// mendInner is mendLeaf for inner kids. Their own kids have the given height.
func (p *Pairs) mendInner(in *inner, i, height int) {
	if kid := (*inner)(in.kids[i]); kid.n == 0 {
		p.stats.addInner(kid, -1)
		p.replaceKids(in, i, i+1, nil, nil, nil)
		return
	}
	if in.n == 1 {
		return
	}
	if i > 0 {
		i--
	}
	left, right := (*inner)(in.kids[i]), (*inner)(in.kids[i+1])
	var list branches
	left.addTo(&list, nil)
	right.addTo(&list, in.seps.at(i))
	p.stats.addInner(left, -1)
	p.stats.addInner(right, -1)
	if list.n <= mergeKids {
		a := p.newInner(&list, 0, list.n)
		a.count = left.count + right.count
		p.replaceKids(in, i, i+2, unsafe.Pointer(a), nil, nil)
		return
	}
	m := list.n / 2
	a, b := p.newInner(&list, 0, m), p.newInner(&list, m, list.n)
	a.count = a.sum(0, m, height)
	b.count = left.count + right.count - a.count
	p.replaceKids(in, i, i+2, unsafe.Pointer(a), list.seps[m-1], unsafe.Pointer(b))
}
