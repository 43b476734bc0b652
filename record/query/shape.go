package query

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// Shape returns c with a sample in place of each value, so that conditions that differ only in their values have the same
// Fingerprint, and nothing of the values remains. Null stays, because it means something else than any other value, and so do
// variables. The number of values in a list is rounded up to a power of two. The samples do not contradict one another: n > ? &&
// n < ? has records between the two.
func (c *Cond) Shape() *Cond { return c.shape(0) }

// shape takes the samples from the nth on.
func (c *Cond) shape(n int) *Cond {
	s := &Cond{kind: c.kind, op: c.op}
	seen := map[string]int{} // in a disjunction, by what is compared: how many values were
	for _, t := range c.terms {
		from := n
		if of := t.equated(); c.kind == or && of != nil {
			key := string(of.appendPrint(nil))
			from += seen[key]
			seen[key] += max(1, rounded(len(t.list)))
		}
		s.terms = append(s.terms, t.shape(from))
	}
	if c.left != nil {
		s.left = c.left.shape(sampleOf(c.op, true), n)
	}
	if c.right != nil {
		s.right = c.right.shape(sampleOf(c.op, false), n)
	}
	for i := range rounded(len(c.list)) {
		s.list = append(s.list, c.list[min(i, len(c.list)-1)].shape(exact, n+i))
	}
	return s
}

// equated returns what c compares with values for equality, nil if it is another condition.
func (c *Cond) equated() *term {
	if c.kind == in || c.kind == compare && c.op == expr.Equal {
		return c.left
	}
	return nil
}

// rounded returns the least power of two that is not less than n.
func rounded(n int) int {
	if n <= 1 {
		return n
	}
	return 1 << bits.Len(uint(n-1))
}

// side says where a sample lies.
type side int

const (
	below side = iota - 1 // all exact ones
	exact
	above // all exact ones
)

// sampleOf returns the side of the sample for an operand of a comparison.
func sampleOf(op expr.Op, left bool) side {
	if flipped, ok := op.Flip(); ok && left {
		op = flipped
	}
	switch op {
	case expr.Less, expr.LessEqual:
		return above
	case expr.Greater, expr.GreaterEqual:
		return below
	}
	return exact
}

func (t *term) shape(at side, n int) *term {
	s := &term{kind: t.kind, source: t.source, index: t.index, target: t.target, after: t.after}
	for _, name := range t.names {
		s.names = append(s.names, strings.Clone(name)) // not a part of the text of the query
	}
	if t.next != nil {
		s.next = t.next.shape(at, n)
	}
	if t.source == literal && !t.value.IsNull() {
		s.value = sample(t.value.Kind(), at, n)
	}
	if t.source == shift {
		if s.by = time.Hour; t.by < 0 {
			s.by = -time.Hour
		}
	}
	return s
}

// sampleTime is in the middle of the samples of times.
var sampleTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// samples is more than the values of any condition, so that the samples above them are above all.
const samples = 2 * expr.MaxTerms

// sample returns a value of a kind. Those of a kind, and exact ones with different numbers, are different.
func sample(kind value.Kind, at side, n int) value.Value {
	place := int64(at)*samples + int64(n)
	switch kind {
	case value.Bool:
		return value.OfBool(at == above || at == exact && n%2 == 0)
	case value.Text:
		return known(value.OfText(fmt.Sprintf("%c%04d", 'b'+rune(at), n)))
	case value.Time:
		return known(value.OfTime(sampleTime.AddDate(100*int(at), 0, n)))
	case value.JSON:
		return value.OfTexts([]string{"a"})
	}
	return known(value.Convert(kind, value.OfInt(place)))
}

// SampleEnv is an Env for shapes: somebody is logged in, whose names and roles are samples, and no records are followed.
func SampleEnv() *Env {
	return &Env{Now: func() time.Time { return sampleTime }, Auth: Auth{ID: "b0000", Email: "b0000", Name: "b0000", Roles: []string{"b0000"}, Verified: true},
		Follow: func(string, string) (Row, error) { return nil, nil }}
}

// Template returns a shape as people write conditions, with ? for values. s is what c was checked with.
func (c *Cond) Template(s Scope) string { return string(c.appendTemplate(nil, s, false)) }

// appendTemplate appends the text of c. tight: it needs parentheses unless it binds tighter than and.
func (c *Cond) appendTemplate(dst []byte, s Scope, tight bool) []byte {
	if holds, ok := c.decided(); ok {
		return fmt.Append(dst, holds)
	}
	switch c.kind {
	case and, or:
		between := " && "
		if c.kind == or {
			between = " || "
		}
		wrapped := tight && c.kind == or
		if wrapped {
			dst = append(dst, '(')
		}
		for i, t := range c.terms {
			if i > 0 {
				dst = append(dst, between...)
			}
			dst = t.appendTemplate(dst, s, c.kind == and)
		}
		if wrapped {
			dst = append(dst, ')')
		}
		return dst
	case not:
		return append(c.terms[0].appendTemplate(append(dst, "!("...), s, false), ')')
	case in:
		dst = append(c.left.appendTemplate(dst, s), " in ("...)
		for i, t := range c.list[:min(len(c.list), 2)] {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = t.appendTemplate(dst, s)
		}
		if n := len(c.list); n > 2 {
			dst = fmt.Appendf(dst, ", … %d", n)
		}
		return append(dst, ')')
	}
	dst = append(c.left.appendTemplate(dst, s), ' ')
	dst = append(append(dst, c.op.String()...), ' ')
	return c.right.appendTemplate(dst, s)
}

func (t *term) appendTemplate(dst []byte, s Scope) []byte {
	if t.after {
		dst = append(dst, "@new."...)
	}
	names := t.names
	switch t.source {
	case literal:
		if t.value.IsNull() {
			return append(dst, "null"...)
		}
		return append(dst, '?')
	case variable:
		return append(append(dst, '@'), variables[t.index].name...)
	case shift:
		sign := " + ?"
		if t.by < 0 {
			sign = " - ?"
		}
		return append(t.next.appendTemplate(dst, s), sign...)
	case column:
		return append(dst, schema.Columns()[t.index].Name...)
	case extra:
		dst, names = append(dst, names[0]...), names[1:]
	case field:
		dst = append(dst, s.Collection.Fields[t.index].Name...)
	case reference:
		dst = append(append(dst, s.Collection.Fields[t.index].Name...), '.')
		other := s.other(t.target)
		if other == nil {
			return append(dst, '?')
		}
		return t.next.appendTemplate(dst, Scope{Collection: other, Other: s.Other})
	}
	for _, name := range names {
		dst = append(append(dst, '.'), name...)
	}
	return dst
}
