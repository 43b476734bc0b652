package query

import (
	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/schema"
)

// Conjuncts appends to dst the conditions that all must hold for c to hold, and returns the extended slice. None of them
// is itself a conjunction.
func (c *Cond) Conjuncts(dst []*Cond) []*Cond {
	if c.kind != and {
		return append(dst, c)
	}
	for _, t := range c.terms {
		dst = t.Conjuncts(dst)
	}
	return dst
}

// Alternatives appends to dst the conditions of which one must hold for c to hold, if c is a disjunction, and returns the
// extended slice. None of them is itself a disjunction. For any other c it appends nothing.
func (c *Cond) Alternatives(dst []*Cond) []*Cond {
	if c.kind != or {
		return dst
	}
	for _, t := range c.terms {
		if t.kind == or {
			dst = t.Alternatives(dst)
		} else {
			dst = append(dst, t)
		}
	}
	return dst
}

// oneOf returns what a disjunction asks for if all its alternatives are about values of the same column or field, as in
// n = 1 || n in (2, 3).
func (c *Cond) oneOf(k *schema.Compiled) (b Bound, ok bool) {
	for i, t := range c.terms {
		if t.kind == and || t.kind == not {
			return b, false
		}
		all := t.Bounds(k)
		if len(all) != 1 || all[0].Op != expr.Equal || i > 0 && all[0].Name != b.Name {
			return b, false
		}
		b.Name, b.Op, b.Values = all[0].Name, expr.Equal, append(b.Values, all[0].Values...)
	}
	return b, len(c.terms) > 0
}
