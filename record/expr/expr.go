// Package expr implements the expression language of filters, access rules and subscriptions:
//
//	status = "open" && (total > 100 || owner.name ~ "bo") && created > @now - 7d
//
// Parse and ParseJSON return a tree of Expr nodes, which are immutable; their errors are *Error with a position. String
// and AppendJSON print a tree. Package query gives it a meaning.
//
// It knows the syntax: text, JSON and the tree of both. It must not know collections, what names mean, or how an
// expression is evaluated.
package expr

import (
	"fmt"
	"time"

	"github.com/skerrydb/skerry/record/value"
)

// Limits of an expression.
const (
	MaxTextBytes = 16 << 10 // text of an expression, also as JSON
	MaxDepth     = 64       // nested parentheses, negations and JSON objects
	MaxTerms     = 512      // comparisons and values of lists
	MaxNames     = 8        // names of a path
)

// Span is a range of bytes in the text of an expression, from Pos up to End. For expressions parsed from JSON, both are
// offsets in the JSON text.
type Span struct{ Pos, End int }

// At returns the span. Every node that embeds a Span is thereby an Expr.
func (s Span) At() Span { return s }

// Expr is a node of an expression: *And, *Or, *Not, *Compare or *In. An Expr is immutable once parsed.
type Expr interface{ At() Span }

// And is true if all of its two or more terms are.
type And struct {
	Span
	Terms []Expr
}

// Or is true if one of its two or more terms is.
type Or struct {
	Span
	Terms []Expr
}

// Not is true if X is false.
type Not struct {
	Span
	X Expr
}

// Compare compares two operands. An operand that stands alone, as in "published && total > 5", is compared with true;
// Right then has the Span of Left.
type Compare struct {
	Span
	Op          Op
	Left, Right Operand
}

// In is true if X equals one of the values in the list, which may be empty.
type In struct {
	Span
	X    Operand
	List []Operand
}

// Op is a comparison operator.
type Op uint8

// The comparisons.
const (
	Equal Op = iota + 1
	NotEqual
	Less
	LessEqual
	Greater
	GreaterEqual
	Match    // ~ : contains the text, ignoring case; with % in it, is like it as a whole
	NotMatch // !~
	Has      // ?= : the list contains the value
)

var ops = [...]string{Equal: "=", NotEqual: "!=", Less: "<", LessEqual: "<=", Greater: ">", GreaterEqual: ">=", Match: "~", NotMatch: "!~", Has: "?="}

// String returns the operator as written.
func (o Op) String() string { return ops[o] }

// Flip returns the operator with exchanged sides. Match, NotMatch and Has have none.
func (o Op) Flip() (Op, bool) {
	switch o {
	case Less:
		return Greater, true
	case LessEqual:
		return GreaterEqual, true
	case Greater:
		return Less, true
	case GreaterEqual:
		return LessEqual, true
	}
	return o, o <= NotEqual
}

// Operand is one side of a comparison: *Path, *Var, *Literal or *Shift.
type Operand interface{ At() Span }

// Path names a field of the record, of a record that it refers to, or a member of a JSON field: owner.name.
type Path struct {
	Span
	Names []string // at least one
}

// Var names a value outside the record: @now, @auth.id.
type Var struct {
	Span
	Names []string // at least one, without the @
}

// Literal is a constant value.
type Literal struct {
	Span
	Value value.Value
}

// Shift is a time moved by a duration: @now - 7d.
type Shift struct {
	Span
	X  Operand // a Path, Var or Literal
	By time.Duration
}

// Error is an error in the text of an expression.
type Error struct {
	Pos  int    // offset of the fault in bytes
	Text string // what is wrong, and if possible what to write instead
}

// Error returns the text and the position, counted from 1.
func (e *Error) Error() string {
	return fmt.Sprintf("%s at character %d", e.Text, e.Pos+1)
}
