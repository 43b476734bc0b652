package query

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/value"
)

// Place is a column or field of a collection.
type Place struct {
	Column bool
	Index  int // in schema.Columns, or of the field
}

// In returns what row has at the place.
func (p Place) In(row Row) value.Value {
	if p.Column {
		return row.Column(p.Index)
	}
	return row.Field(p.Index)
}

// Interval asks that a record has, at a place, a value between two limits, or one value.
type Interval struct {
	Of        Place
	Point     bool  // the value is Low.Value, which may be null
	Low, High Limit // if it is not a point
}

// Limit is an end of an Interval. It has no Value if the interval has no limit at that end.
type Limit struct {
	Value value.Value
	Open  bool // the value itself is outside
}

// Path is what a record must meet all of.
type Path []Interval

// maxPaths is how many paths a conjunction of two alternatives has; with more, Cover considers only one of the two.
const maxPaths = 128

// Cover returns paths such that every record that meets c meets at least one of them. If any record may meet c, one of
// them is empty. Where there is a choice, it takes the paths with the lowest sum of costs; cost estimates how many others
// ask for an interval.
func (c *Cond) Cover(cost func(Interval) int) (all []Path) {
	switch c.kind {
	case and:
		all = []Path{nil}
		for _, t := range c.terms {
			all = bothOf(all, t.Cover(cost), cost)
		}
		return all
	case or:
		for _, t := range c.terms {
			all = append(all, t.Cover(cost)...)
		}
		if slices.ContainsFunc(all, func(p Path) bool { return len(p) == 0 }) {
			return []Path{nil}
		}
		return all
	case in:
		if paths, ok := intervals(c.left, expr.Equal, c.list...); ok {
			return paths
		}
	case compare:
		if paths, ok := intervals(c.left, c.op, c.right); ok {
			return paths
		}
		if op, ok := c.op.Flip(); ok {
			if paths, ok := intervals(c.right, op, c.left); ok {
				return paths
			}
		}
	}
	return []Path{nil}
}

// bothOf returns paths for a conjunction of two conditions.
func bothOf(a, b []Path, cost func(Interval) int) (all []Path) {
	if len(a) > 1 && len(b) > 1 && len(a)*len(b) > maxPaths {
		if price(b, cost) < price(a, cost) {
			return b
		}
		return a
	}
	for _, x := range a {
		for _, y := range b {
			if p, ok := x.with(y); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

// price returns the sum of what the cheapest interval of each path costs.
func price(all []Path, cost func(Interval) int) (sum int) {
	for _, p := range all {
		least := math.MaxInt32
		for _, i := range p {
			least = min(least, cost(i))
		}
		sum += least
	}
	return sum
}

// with returns the path that asks for what both ask for. ok is false if no record can meet it.
func (p Path) with(q Path) (both Path, ok bool) {
	both = slices.Clone(p)
	for _, i := range q {
		at := slices.IndexFunc(both, func(x Interval) bool { return x.Of == i.Of && !x.Point && !i.Point })
		if at < 0 {
			both = append(both, i)
			continue
		}
		x := &both[at]
		if l := i.Low; !l.Value.IsNull() && (x.Low.Value.IsNull() || l.excludesMore(x.Low, 1)) {
			x.Low = l
		}
		if h := i.High; !h.Value.IsNull() && (x.High.Value.IsNull() || h.excludesMore(x.High, -1)) {
			x.High = h
		}
		if x.empty() {
			return nil, false
		}
	}
	return both, true
}

// excludesMore reports whether the limit l excludes more than m: of low limits the higher one does, with sign 1, and of
// high limits the lower one, with sign -1.
func (l Limit) excludesMore(m Limit, sign int) bool {
	order := sign * value.Compare(l.Value, m.Value)
	return order > 0 || order == 0 && l.Open
}

func (i *Interval) empty() bool {
	if i.Low.Value.IsNull() || i.High.Value.IsNull() {
		return false
	}
	order := value.Compare(i.Low.Value, i.High.Value)
	return order > 0 || order == 0 && (i.Low.Open || i.High.Open)
}

// intervals returns a path for each of several literals with which t, a column or field, is compared. ok is false if it is
// another comparison.
func intervals(t *term, op expr.Op, with ...*term) (all []Path, ok bool) {
	of := Place{t.source == column, t.index}
	if t.after || !of.Column && (t.source != field || t.kind == value.JSON || len(t.names) > 0) {
		return nil, false
	}
	for _, w := range with {
		if w.source != literal || !w.value.IsNull() && w.value.Kind() != t.kind {
			return nil, false
		}
		i := Interval{Of: of}
		limit := Limit{w.value, op == expr.Less || op == expr.Greater}
		switch op {
		case expr.Equal:
			i.Point, i.Low = true, Limit{Value: w.value}
		case expr.Less, expr.LessEqual:
			i.High = limit
		case expr.Greater, expr.GreaterEqual:
			i.Low = limit
		default:
			return nil, false
		}
		if i.Point || !w.value.IsNull() { // nothing is less or greater than null
			all = append(all, Path{i})
		}
	}
	return all, true
}

// IsOneOf returns the condition that the records with some ids meet.
func IsOneOf(ids ...string) *Cond {
	c := &Cond{kind: in, left: &term{kind: value.Text, source: column}}
	for _, id := range ids {
		c.list = append(c.list, &term{kind: value.Text, value: known(value.OfText(id))})
	}
	return c
}

// Follows reports whether c looks at records that others refer to, for which it needs Env.Follow.
func (c *Cond) Follows() bool {
	for _, t := range slices.Concat([]*term{c.left, c.right}, c.list) {
		if t.follows() {
			return true
		}
	}
	return slices.ContainsFunc(c.terms, (*Cond).Follows)
}

// References returns how many references Holds follows at most.
func (c *Cond) References() (n int) {
	for _, t := range slices.Concat([]*term{c.left, c.right}, c.list) {
		for ; t != nil; t = t.next {
			if t.source == reference {
				n++
			}
		}
	}
	for _, x := range c.terms {
		n += x.References()
	}
	return n
}

func (t *term) follows() bool { return t != nil && (t.source == reference || t.next.follows()) }

// Fingerprint returns a hash that conditions of one collection share only if they mean the same. Conditions with the
// same terms in another order have the same one.
func (c *Cond) Fingerprint() [sha256.Size]byte { return sha256.Sum256(c.appendPrint(nil)) }

// appendPrint appends a text that says all about c. No other condition has the same.
func (c *Cond) appendPrint(dst []byte) []byte {
	dst = append(dst, byte(c.kind), byte(c.op))
	for _, t := range []*term{c.left, c.right} {
		dst = t.appendPrint(dst)
	}
	parts := make([][]byte, 0, len(c.terms)+len(c.list))
	for _, x := range c.terms {
		parts = append(parts, x.appendPrint(nil))
	}
	for _, t := range c.list {
		parts = append(parts, t.appendPrint(nil))
	}
	slices.SortFunc(parts, bytes.Compare)
	parts = slices.CompactFunc(parts, bytes.Equal)
	dst = binary.AppendUvarint(dst, uint64(len(parts)))
	for _, p := range parts {
		dst = appendText(dst, p)
	}
	return dst
}

func (t *term) appendPrint(dst []byte) []byte {
	if t == nil {
		return append(dst, 0)
	}
	dst = append(dst, 1, byte(t.kind), byte(t.source), byte(t.value.Kind()))
	if t.after {
		dst = append(dst, 1)
	}
	dst = appendText(dst, t.value.AppendJSON(nil))
	dst = binary.AppendUvarint(dst, uint64(t.index))
	dst = binary.AppendUvarint(dst, uint64(len(t.names)))
	for _, name := range t.names {
		dst = appendText(dst, name)
	}
	dst = appendText(dst, t.target)
	dst = binary.AppendVarint(dst, int64(t.by))
	return t.next.appendPrint(dst)
}

func appendText[T string | []byte](dst []byte, text T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}
