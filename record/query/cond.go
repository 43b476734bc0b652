// Package query gives expressions their meaning: it checks them against collections, evaluates them on records, and
// implements orders, cursors, expansions and aggregates.
//
// Parse and ParseJSON return a checked Query; Check returns a checked condition, a Cond. Both are immutable and safe
// for concurrent use. Errors about queries are *Error with the name of the member and a position.
//
// It knows collections and the values of one record at a time. It must not know where records are stored, or which of
// them to look at first.
package query

import (
	"slices"
	"time"

	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// Row is a record as conditions see it. Its methods return null where there is no value.
type Row interface {
	Column(i int) value.Value      // by the index in schema.Columns
	Field(i int) value.Value       // by the index in the collection's Fields
	Extra(name string) value.Value // a member that is not a field
}

// Auth is the user who asks. The zero Auth is a stranger.
type Auth struct {
	ID       string
	Email    string
	Name     string
	Roles    []string
	Verified bool
}

// Env is what a condition depends on besides the record.
type Env struct {
	Now  func() time.Time // of the transaction; nil: the zero time
	Auth Auth

	// KeepTimes makes Bind leave @now and @today unbound, for conditions that are evaluated repeatedly.
	KeepTimes bool

	// Follow returns the record of a collection with an id; nil if there is none or it is not to be seen. It may be nil
	// if there are no conditions on other records.
	Follow func(collection, id string) (Row, error)
}

func (e *Env) now() time.Time {
	if e.Now == nil {
		return time.Time{}
	}
	return e.Now()
}

// Cond is a checked condition on the records of one collection. It is immutable.
type Cond struct {
	kind  condKind
	terms []*Cond  // of and, or; the one of not
	op    expr.Op  // of compare
	left  *term    // of compare, in
	right *term    // of compare
	list  []*term  // of in
	like  *pattern // of compare by Match and NotMatch with a literal
}

type condKind uint8

const (
	and condKind = iota // true if it has no terms
	or
	not
	compare
	in
)

// term is an operand.
type term struct {
	kind   value.Kind // of the values other than null; value.JSON: any
	source source
	value  value.Value   // literal
	index  int           // column, field; which variable
	names  []string      // extra: its name; then, like for a field of kind JSON, the members within
	next   *term         // of the record that a reference refers to, or of which a shift is made
	target string        // collection of that record
	after  bool          // of the record after the change
	by     time.Duration // shift
}

type source uint8

const (
	literal source = iota
	column
	field
	extra
	variable
	reference // field index refers to the record of which next is the value
	shift
)

// variables are the names after @, in the order of their numbers.
var variables = []struct {
	name string
	kind value.Kind
	of   func(*Env) value.Value
}{
	{"now", value.Time, func(e *Env) value.Value { return known(value.OfTime(e.now())) }},
	{"today", value.Time, func(e *Env) value.Value { return known(value.OfTime(e.now().UTC().Truncate(24 * time.Hour))) }},
	{"auth.id", value.Text, func(e *Env) value.Value { return textOrNull(e.Auth.ID) }},
	{"auth.email", value.Text, func(e *Env) value.Value { return textOrNull(e.Auth.Email) }},
	{"auth.name", value.Text, func(e *Env) value.Value { return textOrNull(e.Auth.Name) }},
	{"auth.verified", value.Bool, func(e *Env) value.Value { return value.OfBool(e.Auth.Verified) }},
	{"auth.roles", value.JSON, func(e *Env) value.Value { return value.OfTexts(e.Auth.Roles) }},
}

// known returns a value that cannot be invalid, or null if it is all the same.
func known(v value.Value, err error) value.Value {
	if err != nil {
		return value.Value{}
	}
	return v
}

func textOrNull(s string) value.Value {
	if s == "" {
		return value.Value{}
	}
	return known(value.OfText(s))
}

// Holds reports whether a record meets c. after is the record after a change, for conditions with @new; otherwise it is
// nil. Errors come from env.Follow.
func (c *Cond) Holds(env *Env, row, after Row) (bool, error) {
	switch c.kind {
	case and, or:
		for _, t := range c.terms {
			if ok, err := t.Holds(env, row, after); err != nil || ok == (c.kind == or) {
				return ok, err
			}
		}
		return c.kind == and, nil
	case not:
		ok, err := c.terms[0].Holds(env, row, after)
		return !ok && err == nil, err
	}
	left, err := c.left.of(env, row, after)
	if err != nil {
		return false, err
	}
	if c.kind == compare {
		right, err := c.right.of(env, row, after)
		return err == nil && c.compare(left, right), err
	}
	for _, t := range c.list {
		v, err := t.of(env, row, after)
		if err != nil || equal(left, v) {
			return err == nil, err
		}
	}
	return false, nil
}

// compare compares two values. Truth is two-valued: null equals null and nothing else, and is neither less nor
// greater than anything.
func (c *Cond) compare(a, b value.Value) bool {
	switch c.op {
	case expr.Equal:
		return equal(a, b)
	case expr.NotEqual:
		return !equal(a, b)
	case expr.Match, expr.NotMatch:
		return c.matches(a, b) == (c.op == expr.Match)
	case expr.Has:
		return a.Has(b)
	}
	if !comparable(a, b) {
		return false
	}
	order := value.Compare(a, b)
	switch c.op {
	case expr.Less:
		return order < 0
	case expr.LessEqual:
		return order <= 0
	case expr.Greater:
		return order > 0
	}
	return order >= 0
}

// equal reports whether two values are equal. Numbers of different kinds may be.
func equal(a, b value.Value) bool { return value.Compare(a, b) == 0 }

// comparable reports whether one of two values may be less than the other: neither is null, and their kinds fit.
func comparable(a, b value.Value) bool {
	return !a.IsNull() && !b.IsNull() && fit(a.Kind(), b.Kind())
}

// fit reports whether values of two kinds compare by more than their kinds.
func fit(a, b value.Kind) bool { return a == b || a.IsNumber() && b.IsNumber() }

func (c *Cond) matches(a, b value.Value) bool {
	text, ok := a.Text()
	if !ok {
		return false
	}
	if c.like != nil {
		return c.like.match(text)
	}
	want, ok := b.Text()
	return ok && newPattern(want).match(text)
}

// of returns the value of a term.
func (t *term) of(env *Env, row, after Row) (value.Value, error) {
	if t.after {
		row = after
	}
	switch t.source {
	case literal:
		return t.value, nil
	case variable:
		return variables[t.index].of(env), nil
	case shift:
		v, err := t.next.of(env, row, after)
		return t.shifted(v), err
	}
	if row == nil {
		return value.Value{}, nil
	}
	switch t.source {
	case column:
		return row.Column(t.index), nil
	case field:
		return row.Field(t.index).Member(t.names), nil
	case extra:
		return row.Extra(t.names[0]).Member(t.names[1:]), nil
	}
	id, ok := row.Field(t.index).Text()
	if !ok {
		return value.Value{}, nil
	}
	to, err := env.Follow(t.target, id)
	if to == nil || err != nil {
		return value.Value{}, err
	}
	return t.next.of(env, to, nil)
}

// shifted moves a time. One that leaves the range of times becomes null.
func (t *term) shifted(v value.Value) value.Value {
	at, ok := v.Time()
	if !ok {
		return value.Value{}
	}
	return known(value.OfTime(at.Add(t.by)))
}

// Bind returns c with the values of variables in their place, simplified: conditions that do not depend on the record
// are decided.
func (c *Cond) Bind(env *Env) *Cond {
	switch c.kind {
	case and, or:
		return c.bindTerms(env)
	case not:
		x := c.terms[0].Bind(env)
		if decided, ok := x.decided(); ok {
			return constant(!decided)
		}
		return &Cond{kind: not, terms: []*Cond{x}}
	}
	b := &Cond{kind: c.kind, op: c.op, left: c.left.bind(env), like: c.like}
	all := b.left.source == literal
	if c.right != nil {
		b.right = c.right.bind(env)
		all = all && b.right.source == literal
		if text, ok := b.right.value.Text(); ok && b.like == nil && (c.op == expr.Match || c.op == expr.NotMatch) {
			b.like = newPattern(text)
		}
	}
	for _, t := range c.list {
		t = t.bind(env)
		all = all && t.source == literal
		b.list = append(b.list, t)
	}
	if all || c.kind == in && len(c.list) == 0 {
		holds, _ := b.Holds(env, nil, nil)
		return constant(holds)
	}
	return b
}

func (c *Cond) bindTerms(env *Env) *Cond {
	b := &Cond{kind: c.kind}
	for _, t := range c.terms {
		t = t.Bind(env)
		if decided, ok := t.decided(); ok {
			if decided == (c.kind == or) {
				return t
			}
			continue
		}
		b.terms = append(b.terms, t)
	}
	switch len(b.terms) {
	case 0:
		return constant(c.kind == and)
	case 1:
		return b.terms[0]
	}
	return b
}

// constant returns a condition that always or never holds.
func constant(holds bool) *Cond {
	if holds {
		return &Cond{kind: and}
	}
	return &Cond{kind: or}
}

// decided returns whether c always or never holds, and whether it is one of these.
func (c *Cond) decided() (holds, ok bool) {
	return c.kind == and, c.kind <= or && len(c.terms) == 0
}

func (t *term) bind(env *Env) *term {
	switch t.source {
	case variable:
		if env.KeepTimes && t.kind == value.Time {
			return t
		}
		return &term{kind: t.kind, value: variables[t.index].of(env)}
	case shift:
		if next := t.next.bind(env); next.source == literal {
			return &term{kind: t.kind, value: t.shifted(next.value)}
		}
	}
	return t
}

// All returns the condition that all of conds hold. A nil condition always holds.
func All(conds ...*Cond) *Cond {
	c := &Cond{kind: and}
	for _, x := range conds {
		switch {
		case x == nil:
		case x.kind == and:
			c.terms = append(c.terms, x.terms...)
		default:
			c.terms = append(c.terms, x)
		}
	}
	if len(c.terms) == 1 {
		return c.terms[0]
	}
	return c
}

// Any returns the condition that at least one of conds holds.
func Any(conds ...*Cond) *Cond { return &Cond{kind: or, terms: conds} }

// Is returns the condition that a column or field of k equals v. The field must not be of type json, and v must be of
// its kind.
func Is(k *schema.Compiled, name string, v value.Value) *Cond {
	t, err := Scope{Collection: k}.path([]string{name}, expr.Span{}, MaxHops)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return &Cond{kind: compare, op: expr.Equal, left: t, right: &term{kind: v.Kind(), value: v}}
}

// Always returns the condition that every record meets.
func Always() *Cond { return constant(true) }

// Never returns the condition that no record meets.
func Never() *Cond { return constant(false) }

// Never reports whether no record can meet c, as far as Bind has found out.
func (c *Cond) Never() bool {
	holds, ok := c.decided()
	return ok && !holds
}

// Always reports whether every record meets c, as far as Bind has found out.
func (c *Cond) Always() bool {
	holds, ok := c.decided()
	return ok && holds
}

// Bound is a comparison of a column or field with values, which every record that meets a condition also meets.
type Bound struct {
	Name   string        // of the column or field
	Op     expr.Op       // Equal, Less, LessEqual, Greater or GreaterEqual
	Values []value.Value // one; for Equal, the record has one of them
}

// Bounds returns what a bound condition asks of single columns and fields of k, for storages that find records by
// these. Values have the kind of the column or field, or are null.
func (c *Cond) Bounds(k *schema.Compiled) (all []Bound) {
	switch c.kind {
	case and:
		for _, t := range c.terms {
			all = append(all, t.Bounds(k)...)
		}
	case or:
		if b, ok := c.oneOf(k); ok {
			all = append(all, b)
		}
	case in:
		if b, ok := bound(k, c.left, expr.Equal, c.list...); ok {
			all = append(all, b)
		}
	case compare:
		if b, ok := bound(k, c.left, c.op, c.right); ok {
			return append(all, b)
		}
		if op, ok := c.op.Flip(); ok {
			if b, ok := bound(k, c.right, op, c.left); ok {
				all = append(all, b)
			}
		}
	}
	return all
}

// Bounded reports whether c asks for nothing beside Bounds: a record that is within these meets c.
func (c *Cond) Bounded(k *schema.Compiled) bool {
	if c.kind != and {
		return c.kind != not && len(c.Bounds(k)) > 0
	}
	return !slices.ContainsFunc(c.terms, func(t *Cond) bool { return !t.Bounded(k) })
}

// bound returns the Bound of a comparison, if it is one.
func bound(k *schema.Compiled, t *term, op expr.Op, with ...*term) (b Bound, ok bool) {
	if t.after || op == 0 || op == expr.NotEqual || op > expr.GreaterEqual {
		return b, false
	}
	switch {
	case t.source == column:
		b.Name = schema.Columns()[t.index].Name
	case t.source == field && t.kind != value.JSON && len(t.names) == 0:
		b.Name = k.Fields[t.index].Name
	default:
		return b, false
	}
	b.Op = op
	for _, w := range with {
		if w.source != literal || !w.value.IsNull() && w.value.Kind() != t.kind {
			return b, false
		}
		b.Values = append(b.Values, w.value)
	}
	return b, true
}
