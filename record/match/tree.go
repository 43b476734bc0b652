package match

import (
	"math/bits"

	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/value"
)

// tree finds, among intervals at one place, those that a value is in: an interval tree, that is, a search tree by low and
// then high limits in which every node knows the highest limit below it. It is balanced as a treap. For n intervals of
// which k have the value, finding them looks at O(log n + k) nodes if the intervals have one limit each, as total > 17
// has, and never at more than O(k log n) nodes.
type tree[T any] struct {
	root  *span[T]
	made  uint64
	count int // entries in the nodes of its spans and below them
}

// span is one interval of a tree with the node of those that ask for it.
type span[T any] struct {
	low, high   query.Limit
	max         *query.Limit // the highest of high here and below
	left, right *span[T]
	priority    uint64 // never lower than those of left and right
	node        node[T]
}

// at returns the span of an interval, which it creates if there is none.
func (t *tree[T]) at(i query.Interval) *span[T] {
	x := &span[T]{low: i.Low, high: i.High}
	for s := t.root; s != nil; {
		switch order := x.compare(s); {
		case order < 0:
			s = s.left
		case order > 0:
			s = s.right
		default:
			return s
		}
	}
	t.made++
	x.priority = mix(t.made)
	x.update()
	t.root = t.root.insert(x)
	return x
}

// mix returns a number that looks random (the last step of SplitMix64, Steele et al. 2014).
func mix(n uint64) uint64 {
	n *= 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	return bits.Reverse64(n ^ n>>27)
}

func (t *tree[T]) remove(x *span[T]) { t.root = t.root.remove(x) }

// compare orders spans by their low limits, and those with the same one by their high limits.
func (s *span[T]) compare(x *span[T]) int {
	if order := compareLow(&s.low, &x.low); order != 0 {
		return order
	}
	return compareHigh(&s.high, &x.high)
}

// compareLow compares low limits by what they exclude: none at all comes first.
func compareLow(a, b *query.Limit) int {
	switch {
	case a.Value.IsNull() || b.Value.IsNull():
		return order(!a.Value.IsNull(), !b.Value.IsNull())
	case a.Value == b.Value:
		return order(a.Open, b.Open)
	}
	return value.Compare(a.Value, b.Value)
}

// compareHigh compares high limits: none at all comes last.
func compareHigh(a, b *query.Limit) int {
	switch {
	case a.Value.IsNull() || b.Value.IsNull():
		return order(a.Value.IsNull(), b.Value.IsNull())
	case a.Value == b.Value:
		return order(!a.Open, !b.Open)
	}
	return value.Compare(a.Value, b.Value)
}

// order compares two bools: false is first.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (s *span[T]) update() {
	s.max = &s.high
	for _, below := range []*span[T]{s.left, s.right} {
		if below != nil && compareHigh(below.max, s.max) > 0 {
			s.max = below.max
		}
	}
}

// insert adds x to the tree with the root s and returns the new root.
func (s *span[T]) insert(x *span[T]) *span[T] {
	if s == nil {
		return x
	}
	if x.priority > s.priority {
		x.left, x.right = s.split(x)
		x.update()
		return x
	}
	if x.compare(s) < 0 {
		s.left = s.left.insert(x)
	} else {
		s.right = s.right.insert(x)
	}
	s.update()
	return s
}

// split divides a tree into what is before and after x.
func (s *span[T]) split(x *span[T]) (before, after *span[T]) {
	switch {
	case s == nil:
		return nil, nil
	case x.compare(s) < 0:
		before, s.left = s.left.split(x)
		after = s
	default:
		s.right, after = s.right.split(x)
		before = s
	}
	s.update()
	return before, after
}

// remove removes x, which is in the tree with the root s, and returns the new root.
func (s *span[T]) remove(x *span[T]) *span[T] {
	if s == x {
		return s.left.merge(s.right)
	}
	if x.compare(s) < 0 {
		s.left = s.left.remove(x)
	} else {
		s.right = s.right.remove(x)
	}
	s.update()
	return s
}

// merge joins two trees, of which the second is after the first.
func (s *span[T]) merge(after *span[T]) *span[T] {
	switch {
	case s == nil:
		return after
	case after == nil:
		return s
	case s.priority > after.priority:
		s.right = s.right.merge(after)
		s.update()
		return s
	}
	after.left = s.merge(after.left)
	after.update()
	return after
}

// stab walks the nodes of the spans that one of some rows is in; v are their values.
func (s *span[T]) stab(r *rows, v *[2]value.Value, some uint8, visit func(*node[T])) {
	some = within(v, some, s.max, 1)
	if some == 0 {
		return
	}
	if s.left != nil {
		s.left.stab(r, v, some, visit)
	}
	some = within(v, some, &s.low, -1)
	if some == 0 {
		return // all that follow begin later
	}
	if in := within(v, some, &s.high, 1); in != 0 {
		s.node.walk(r, in, visit)
	}
	if s.right != nil {
		s.right.stab(r, v, some, visit)
	}
}

// within returns which of some values are not beyond a limit: above a high one with sign 1, below a low one with -1. Null
// is always beyond.
func within(v *[2]value.Value, some uint8, l *query.Limit, sign int) (in uint8) {
	for i := range v {
		if some>>i&1 == 0 || v[i].IsNull() {
			continue
		}
		if !l.Value.IsNull() {
			if order := sign * value.Compare(v[i], l.Value); order > 0 || order == 0 && l.Open {
				continue
			}
		}
		in |= 1 << i
	}
	return in
}
