package query

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
	"github.com/skerrydb/skerry/suggest"
)

// MaxHops is how many references a path may follow.
const MaxHops = 3

// Scope says what the names of an expression mean.
type Scope struct {
	Collection *schema.Compiled

	// Other returns another collection, or nil. It may be nil if no references are to be followed.
	Other func(name string) *schema.Compiled

	// New allows @new.NAME for fields of the record after a change.
	New bool

	gotro bool // names of GotRo's columns mean ours
}

// gotroColumns are the columns that GotRo gives other names.
var gotroColumns = map[string]string{"created_at": "created", "updated_at": "updated", "modified_at": "updated", "deleted_at": "deleted", "restored_at": "restored"}

// Check gives an expression its meaning. nil is a condition that every record meets. The error is an *expr.Error at the
// place of the fault: an unknown name, or operands that do not compare.
func Check(x expr.Expr, s Scope) (*Cond, error) {
	if x == nil {
		return constant(true), nil
	}
	switch x := x.(type) {
	case *expr.And:
		return s.checkTerms(and, x.Terms)
	case *expr.Or:
		return s.checkTerms(or, x.Terms)
	case *expr.Not:
		c, err := Check(x.X, s)
		return &Cond{kind: not, terms: []*Cond{c}}, err
	case *expr.Compare:
		return s.checkCompare(x)
	case *expr.In:
		return s.checkIn(x)
	}
	panic("BUG: unknown kind of expression")
}

func (s Scope) checkTerms(kind condKind, terms []expr.Expr) (*Cond, error) {
	c := &Cond{kind: kind}
	for _, x := range terms {
		t, err := Check(x, s)
		if err != nil {
			return nil, err
		}
		c.terms = append(c.terms, t)
	}
	return c, nil
}

func fail(at expr.Span, format string, args ...any) error {
	return &expr.Error{Pos: at.Pos, Text: fmt.Sprintf(format, args...)}
}

func (s Scope) checkCompare(x *expr.Compare) (*Cond, error) {
	left, err := s.term(x.Left)
	if err != nil {
		return nil, err
	}
	right, err := s.term(x.Right)
	if err != nil {
		return nil, err
	}
	if x.Right.At() == x.Left.At() && left.kind != value.Bool && left.kind != value.JSON {
		return nil, fail(x.At(), "%s is %s, not a condition; compare it with a value", expr.OperandString(x.Left), left.kind.Article())
	}
	if err := noEmptyUser(left, right, x.Left); err != nil {
		return nil, err
	}
	if err := noEmptyUser(right, left, x.Right); err != nil {
		return nil, err
	}
	c := &Cond{kind: compare, op: x.Op, left: left, right: right}
	switch x.Op {
	case expr.Match, expr.NotMatch:
		for i, t := range []*term{left, right} {
			if t.kind != value.Text && t.kind != value.JSON {
				return nil, fail([]expr.Operand{x.Left, x.Right}[i].At(), "%v needs text, but %s is %s", x.Op, expr.OperandString([]expr.Operand{x.Left, x.Right}[i]), t.kind.Article())
			}
		}
		if text, ok := right.value.Text(); ok && right.source == literal {
			c.like = newPattern(text)
		}
		return c, nil
	case expr.Has:
		if left.kind != value.JSON {
			return nil, fail(x.Left.At(), "?= needs a list, but %s is %s", expr.OperandString(x.Left), left.kind.Article())
		}
		return c, nil
	}
	return c, s.adapt(c.left, c.right, x.Left, x.Right)
}

// noEmptyUser refuses @auth.id != "", which would be true for strangers.
func noEmptyUser(t, with *term, at expr.Operand) error {
	text, ok := with.value.Text()
	if t.source != variable || t.kind != value.Text || with.source != literal || !ok || text != "" {
		return nil
	}
	return fail(at.At(), `%s of a stranger is null, not ""; compare it with null`, expr.OperandString(at))
}

func (s Scope) checkIn(x *expr.In) (*Cond, error) {
	left, err := s.term(x.X)
	if err != nil {
		return nil, err
	}
	c := &Cond{kind: in, left: left}
	for _, v := range x.List {
		t, err := s.term(v)
		if err == nil {
			err = s.adapt(left, t, x.X, v)
		}
		if err != nil {
			return nil, err
		}
		c.list = append(c.list, t)
	}
	return c, nil
}

// adapt gives a literal the kind of the operand that it is compared with, or reports why the two do not compare.
func (s Scope) adapt(a, b *term, left, right expr.Operand) error {
	for _, p := range []struct {
		lit, other *term
		at         expr.Operand
	}{{a, b, left}, {b, a, right}} {
		if p.lit.source != literal || p.other.source == literal || p.lit.value.IsNull() || p.other.kind == value.JSON {
			continue
		}
		v, err := value.Convert(p.other.kind, p.lit.value)
		if err != nil {
			return fail(p.at.At(), "%v", err)
		}
		p.lit.kind, p.lit.value = v.Kind(), v
		return s.checkOption(p.other, v, p.at)
	}
	if free := func(t *term) bool { return t.kind == value.JSON || t.kind == value.Null }; free(a) || free(b) || fit(a.kind, b.kind) {
		return nil
	}
	return fail(left.At(), "%s is %s and %s is %s; they cannot be compared", expr.OperandString(left), a.kind.Article(), expr.OperandString(right), b.kind.Article())
}

// checkOption reports a value that a select cannot have.
func (s Scope) checkOption(t *term, v value.Value, at expr.Operand) error {
	if t.source != field || t.after {
		return nil
	}
	f := &s.Collection.Fields[t.index]
	text, ok := v.Text()
	if f.Type != schema.Select || !ok || slices.Contains(f.Options, text) {
		return nil
	}
	return fail(at.At(), "%s has no option %q%s", f.Name, text, meant(text, f.Options))
}

// meant returns a question for the name that was probably meant, or nothing.
func meant(name string, names []string) string {
	if near := suggest.Nearest(name, names); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// term gives an operand its meaning.
func (s Scope) term(x expr.Operand) (*term, error) {
	switch x := x.(type) {
	case *expr.Literal:
		return &term{kind: x.Value.Kind(), value: x.Value}, nil
	case *expr.Path:
		return s.path(x.Names, x.Span, 0)
	case *expr.Var:
		return s.variable(x)
	case *expr.Shift:
		return s.shift(x)
	}
	panic("BUG: unknown kind of operand")
}

func (s Scope) shift(x *expr.Shift) (*term, error) {
	t, err := s.term(x.X)
	if err != nil {
		return nil, err
	}
	if t.source == literal {
		v, err := value.Convert(value.Time, t.value)
		if err != nil || v.IsNull() {
			return nil, fail(x.At(), "%s is not a time", expr.OperandString(x.X))
		}
		return &term{kind: value.Time, value: (&term{by: x.By}).shifted(v)}, nil
	}
	if t.kind != value.Time {
		return nil, fail(x.At(), "%s is %s, not a time", expr.OperandString(x.X), t.kind.Article())
	}
	return &term{kind: value.Time, source: shift, next: t, by: x.By}, nil
}

func (s Scope) variable(x *expr.Var) (*term, error) {
	name := strings.Join(x.Names, ".")
	if x.Names[0] == "new" && s.New && len(x.Names) > 1 {
		t, err := s.path(x.Names[1:], x.Span, MaxHops) // what a new reference refers to is not looked up
		if err != nil {
			return nil, err
		}
		t.after = true
		return t, nil
	}
	var names []string
	for i, v := range variables {
		if v.name == name {
			return &term{kind: v.kind, source: variable, index: i}, nil
		}
		names = append(names, v.name)
	}
	return nil, fail(x.At(), "unknown name @%s%s", name, meant(name, names))
}

// path gives the names of a path their meaning, after a number of references.
func (s Scope) path(names []string, at expr.Span, hops int) (*term, error) {
	k := s.Collection
	i, ok := k.Index(names[0])
	if len(names) == 1 && !ok {
		name := names[0]
		if s.gotro {
			name = cmp.Or(gotroColumns[name], name)
		}
		for i, c := range schema.Columns() {
			if c.Name == name {
				return &term{kind: schema.KindOf(c.Type), source: column, index: i}, nil
			}
		}
	}
	switch {
	case !ok && k.TakesExtra(names[0]):
		return &term{kind: value.JSON, source: extra, names: names}, nil
	case !ok:
		return nil, fail(at, "%s has no field %q%s", k.Name, names[0], meant(names[0], s.names()))
	}
	f := &k.Fields[i]
	switch {
	case f.Type == schema.Password:
		return nil, fail(at, "%s is a password and cannot be compared", f.Name)
	case len(names) == 1:
		return &term{kind: k.Kind(i), source: field, index: i}, nil
	case f.Type == schema.JSON:
		return &term{kind: value.JSON, source: field, index: i, names: names[1:]}, nil
	case f.Type != schema.Reference:
		return nil, fail(at, "%s is %s and has no member %q", f.Name, k.Kind(i).Article(), names[1])
	case hops >= MaxHops:
		return nil, fail(at, "more than %d references in one path", MaxHops)
	}
	other := s.other(f.Collection)
	if other == nil {
		return nil, fail(at, "%s refers to the unknown collection %s", f.Name, f.Collection)
	}
	next, err := Scope{Collection: other, Other: s.Other}.path(names[1:], at, hops+1)
	if err != nil {
		return nil, err
	}
	return &term{kind: next.kind, source: reference, index: i, target: f.Collection, next: next}, nil
}

func (s Scope) other(name string) *schema.Compiled {
	if s.Other == nil {
		return nil
	}
	return s.Other(name)
}

// names returns the names that a path may begin with.
func (s Scope) names() (all []string) {
	for _, c := range schema.Columns() {
		all = append(all, c.Name)
	}
	for _, f := range s.Collection.Fields {
		all = append(all, f.Name)
	}
	return all
}
