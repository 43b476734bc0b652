package keys

import (
	"slices"

	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// bounds are what the conditions of a search ask of columns and fields, by name.
type bounds map[string]*bound

// bound is what is asked of one column or field.
type bound struct {
	equal  bool          // one of values; then there is no end
	values []value.Value // distinct
	lo, hi end
}

// end is one end of a range, which never includes null.
type end struct {
	set  bool
	at   value.Value
	open bool // at itself is outside
}

// boundsOf combines all bounds. never reports that no record is within them.
func boundsOf(all []query.Bound) (b bounds, never bool) {
	b = bounds{}
	for _, x := range all {
		if b[x.Name] == nil {
			b[x.Name] = &bound{}
		}
		never = !b[x.Name].add(x) || never
	}
	for _, x := range b {
		never = !x.settle() || never
	}
	return b, never
}

// add narrows b. It returns false if nothing is within the bound.
func (b *bound) add(x query.Bound) bool {
	if x.Op == expr.Equal {
		var values []value.Value
		for _, v := range x.Values {
			if !slices.Contains(values, v) && (!b.equal || slices.Contains(b.values, v)) {
				values = append(values, v)
			}
		}
		b.equal, b.values = true, values
		return len(values) > 0
	}
	e := end{true, x.Values[0], x.Op == expr.Less || x.Op == expr.Greater}
	if e.at.IsNull() {
		return false // nothing is less or greater than null
	}
	if x.Op == expr.Less || x.Op == expr.LessEqual {
		if c := value.Compare(e.at, b.hi.at); !b.hi.set || c < 0 || c == 0 && e.open {
			b.hi = e
		}
		return true
	}
	if c := value.Compare(e.at, b.lo.at); !b.lo.set || c > 0 || c == 0 && e.open {
		b.lo = e
	}
	return true
}

// settle leaves either values or ends. It returns false if nothing is within the bound.
func (b *bound) settle() bool {
	if !b.equal {
		return true
	}
	b.values = slices.DeleteFunc(b.values, func(v value.Value) bool { return !b.within(v) })
	b.lo, b.hi = end{}, end{}
	return len(b.values) > 0
}

// within reports whether a value is between the ends.
func (b *bound) within(v value.Value) bool {
	if !b.lo.set && !b.hi.set {
		return true
	}
	if v.IsNull() {
		return false
	}
	above, below := value.Compare(v, b.lo.at), value.Compare(v, b.hi.at)
	return (!b.lo.set || above > 0 || above == 0 && !b.lo.open) && (!b.hi.set || below < 0 || below == 0 && !b.hi.open)
}

// one reports whether all records within the bounds have the same value, and which.
func (b bounds) one(name string) (value.Value, bool) {
	if x := b[name]; x != nil && x.equal && len(x.values) == 1 {
		return x.values[0], true
	}
	return value.Value{}, false
}

// pins returns the fields and columns that have one value in all records within the bounds.
func (b bounds) pins(c *Collection) (all []pin) {
	for name := range b {
		if v, ok := b.one(name); ok {
			all = append(all, pin{partOf(c.Compiled, schema.IndexField{Name: name}), v})
		}
	}
	return all
}

// keep returns the bytes that entries of the records have which a search is about: those in the trash, those that are not,
// or both.
func (b bounds) keep(d query.Deleted) (all []byte) {
	x := b["is_deleted"]
	for i, deleted := range []bool{false, true} {
		if d.Includes(deleted) && (x == nil || !x.equal || slices.Contains(x.values, value.OfBool(deleted))) {
			all = append(all, byte(i))
		}
	}
	return all
}
