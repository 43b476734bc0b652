package match

import (
	"math"
	"slices"

	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/value"
)

// crowd is how many groups a node has before further ones go into its children.
const crowd = 8

// node has the groups of one path through the index: those that ask for the same intervals, and perhaps for more.
type node[T any] struct {
	groups []entry[T]
	places []*place[T] // what groups below it also ask for; few
	in     *place[T]   // nil for the root
	point  value.Value // in in.points
	span   *span[T]    // in in.spans; nil: it is a point
	count  int         // entries here and below
}

// entry is a group in a node; slot is the index of the entry in group.slots.
type entry[T any] struct {
	group *group[T]
	slot  int
}

// slot is where an entry of a group is.
type slot[T any] struct {
	in *node[T]
	at int
}

// place has the children of a node by what they ask for at one column or field.
type place[T any] struct {
	of     query.Place
	in     *node[T]
	points map[value.Value]*node[T]
	spans  tree[T]
}

// enter adds a group to the root or, by the intervals of a path, below it.
func (n *node[T]) enter(g *group[T], path query.Path) {
	rest := slices.Clone(path)
	for len(rest) > 0 && (n.in == nil || len(n.groups) >= crowd) {
		next := n.choose(rest)
		n = n.child(rest[next])
		rest = slices.Delete(rest, next, next+1)
	}
	g.slots = append(g.slots, slot[T]{n, len(n.groups)})
	n.groups = append(n.groups, entry[T]{g, len(g.slots) - 1})
	n.add(1)
}

// choose returns which interval of a path divides the groups of a node best: the value that the fewest others ask for,
// then an interval with two limits.
func (n *node[T]) choose(path query.Path) (best int) {
	rank := func(i query.Interval) int {
		switch {
		case i.Point:
			return n.cost(i)
		case !i.Low.Value.IsNull() && !i.High.Value.IsNull():
			return math.MaxInt - 1
		}
		return math.MaxInt
	}
	for i := range path {
		if rank(path[i]) < rank(path[best]) {
			best = i
		}
	}
	return best
}

// cost returns how many entries a child of the node has; for an interval that is not a point, how many the place has.
func (n *node[T]) cost(i query.Interval) int {
	for _, p := range n.places {
		if p.of != i.Of {
			continue
		}
		if !i.Point {
			return p.spans.count
		}
		if c := p.points[i.Low.Value]; c != nil {
			return c.count
		}
	}
	return 0
}

// child returns the child of the node for an interval, which it creates if there is none.
func (n *node[T]) child(i query.Interval) *node[T] {
	at := slices.IndexFunc(n.places, func(p *place[T]) bool { return p.of == i.Of })
	if at < 0 {
		at = len(n.places)
		n.places = append(n.places, &place[T]{of: i.Of, in: n})
	}
	p := n.places[at]
	if !i.Point {
		s := p.spans.at(i)
		s.node.in, s.node.span = p, s
		return &s.node
	}
	c := p.points[i.Low.Value]
	if c == nil {
		c = &node[T]{in: p, point: i.Low.Value}
		if p.points == nil {
			p.points = map[value.Value]*node[T]{}
		}
		p.points[i.Low.Value] = c
	}
	return c
}

// add adds to the counts of the node and those above it.
func (n *node[T]) add(by int) {
	for n.count += by; n.in != nil; n.count += by {
		if n.span != nil {
			n.in.spans.count += by
		}
		n = n.in.in
	}
}

// leave removes the entry with an index, and the nodes that are empty then.
func (n *node[T]) leave(at int) {
	last := len(n.groups) - 1
	moved := n.groups[last]
	n.groups[at] = moved
	moved.group.slots[moved.slot].at = at
	n.groups[last] = entry[T]{}
	n.groups = n.groups[:last]
	n.add(-1)
	for n.count == 0 && n.in != nil {
		p := n.in
		if n.span != nil {
			p.spans.remove(n.span)
		} else {
			delete(p.points, n.point)
		}
		if n = p.in; len(p.points) == 0 && p.spans.root == nil {
			n.places = slices.DeleteFunc(n.places, func(x *place[T]) bool { return x == p })
		}
	}
}

// rows are the records before and after a change; a set of them is the sum of 1 and 2.
type rows struct{ row [2]query.Row }

// walk calls visit with the nodes whose intervals at least one of some rows meets all of.
func (n *node[T]) walk(r *rows, some uint8, visit func(*node[T])) {
	visit(n)
	for _, p := range n.places {
		var v [2]value.Value
		for i := range v {
			if some>>i&1 != 0 {
				v[i] = p.of.In(r.row[i])
			}
		}
		if len(p.points) > 0 {
			p.walkPoints(r, &v, some, visit)
		}
		if p.spans.root != nil {
			p.spans.root.stab(r, &v, some, visit)
		}
	}
}

func (p *place[T]) walkPoints(r *rows, v *[2]value.Value, some uint8, visit func(*node[T])) {
	if some == 3 && v[0] == v[1] {
		if c := p.points[v[0]]; c != nil {
			c.walk(r, 3, visit)
		}
		return
	}
	for i := range v {
		if some>>i&1 == 0 {
			continue
		}
		if c := p.points[v[i]]; c != nil {
			c.walk(r, 1<<i, visit)
		}
	}
}
