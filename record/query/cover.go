package query

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/value"
)

// Equality asks that a column or field of a record has a value, which may be null.
type Equality struct {
	Of    Place
	Value value.Value
}

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

// Cover returns equalities of which every record that meets c meets at least one. If there is a choice, it takes those
// with the lowest sum of costs. ok is false if there are none: any record may meet c.
func (c *Cond) Cover(cost func(Equality) int) (cover []Equality, ok bool) {
	cover, _, ok = c.cover(cost)
	return cover, ok
}

func (c *Cond) cover(cost func(Equality) int) (cover []Equality, sum int, ok bool) {
	switch c.kind {
	case and:
		for _, t := range c.terms {
			if one, price, can := t.cover(cost); can && (!ok || price < sum) {
				cover, sum, ok = one, price, true
			}
		}
		return cover, sum, ok
	case or:
		for _, t := range c.terms {
			one, price, can := t.cover(cost)
			if !can {
				return nil, 0, false
			}
			cover, sum = append(cover, one...), sum+price
		}
		return cover, sum, true
	case in:
		cover, ok = equalities(c.left, c.list...)
	case compare:
		if c.op != expr.Equal {
			return nil, 0, false
		}
		if cover, ok = equalities(c.left, c.right); !ok {
			cover, ok = equalities(c.right, c.left)
		}
	}
	for _, e := range cover {
		sum += cost(e)
	}
	return cover, sum, ok
}

// equalities returns what it means that t equals one of several terms, if t is a column or field and they are literals.
func equalities(t *term, with ...*term) (all []Equality, ok bool) {
	of := Place{t.source == column, t.index}
	if t.after || !of.Column && (t.source != field || t.kind == value.JSON || len(t.names) > 0) {
		return nil, false
	}
	for _, w := range with {
		if w.source != literal || !w.value.IsNull() && w.value.Kind() != t.kind {
			return nil, false
		}
		all = append(all, Equality{of, w.value})
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
