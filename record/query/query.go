package query

import (
	"errors"
	"fmt"
	"time"

	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// Limits of a query.
const (
	MaxLimit      = 1_000    // records of one page
	DefaultLimit  = 20       // records of one page if the query does not say
	MaxOffset     = 10_000   // records that a query skips; a cursor skips any number
	MaxQueryBytes = 64 << 10 // text of a query as JSON
	MaxListed     = 200      // names in a projection
)

// Query is a checked query of the records of one collection. Parse and ParseJSON return it.
type Query struct {
	Where  *Cond  // never nil
	Filter string // the condition as text, in one form for all conditions that mean the same; "" for every record
	Orders Orders // ends with the id

	Fields []string // columns and fields to return beside the id; nil: all
	Expand []*Expand

	Limit  int           // 0: no records, for the count alone
	Offset int           // how many records to skip
	After  []value.Value // key of the record before the page, by Orders; nil: the page is the first
	Count  bool          // also count the records of all pages

	Explain bool // also say how the records are found

	Deleted Deleted
	AsOf    AsOf

	// Group and Aggregates ask for values computed of records instead of the records. Then Fields, Expand and After are
	// nil, and Limit is of groups.
	Group       []Group
	Aggregates  []Aggregate
	GroupOrders []GroupOrder // before the order of the values in Group
}

// Deleted says whether a query includes deleted records.
type Deleted uint8

// The choices.
const (
	Live  Deleted = iota // not deleted
	Trash                // deleted
	Both                 // both
)

var deletedNames = []string{"live", "trash", "all"}

// String returns the name of the choice.
func (d Deleted) String() string { return deletedNames[d] }

// Includes reports whether the query includes records that are deleted, or records that are not.
func (d Deleted) Includes(deleted bool) bool { return d == Both || deleted == (d == Trash) }

// AsOf is a past state: after the last change at or before At, or after change number Seq of the collection. The zero
// AsOf is the present.
type AsOf struct {
	At  time.Time
	Seq uint64
}

// IsZero reports whether a is the present.
func (a AsOf) IsZero() bool { return a.At.IsZero() && a.Seq == 0 }

// String returns a as Parse reads it, "" for the present.
func (a AsOf) String() string {
	switch {
	case a.Seq > 0:
		return fmt.Sprint(a.Seq)
	case a.At.IsZero():
		return ""
	}
	return known(value.OfTime(a.At)).String()
}

// Codes of errors. They are part of the public API and do not change.
const (
	CodeInvalid  = "query_invalid"   // a member of the query is malformed
	CodeTooLarge = "query_too_large" // the answer exceeds a limit
)

// Error is an error in a query.
type Error struct {
	Code   string
	Member string // of the query: filter, sort, …
	Pos    int    // with CodeInvalid: offset in the text of the member, in bytes
	Text   string
}

// Error returns the text and the position, counted from 1.
func (e *Error) Error() string {
	if e.Code != CodeInvalid || e.Pos == 0 {
		return fmt.Sprintf("%s: %s", e.Member, e.Text)
	}
	return fmt.Sprintf("%s: %s at character %d", e.Member, e.Text, e.Pos+1)
}

// wrap makes the error of reading a member an *Error.
func wrap(member string, err error) error {
	if err == nil {
		return nil
	}
	if x, ok := errors.AsType[*expr.Error](err); ok {
		return &Error{Code: CodeInvalid, Member: member, Pos: x.Pos, Text: x.Text}
	}
	return &Error{Code: CodeInvalid, Member: member, Text: err.Error()}
}

// Wants reports whether the query returns a column or field.
func (q *Query) Wants(name string) bool {
	if q.Fields == nil || name == "id" {
		return true
	}
	for _, f := range q.Fields {
		if f == name {
			return true
		}
	}
	return false
}

// Cursor returns the cursor after row, which Parse reads as after for the next page.
func (q *Query) Cursor(k *schema.Compiled, row Row) string {
	return q.Orders.Cursor(k, q.listing(), q.Orders.Key(row))
}

// listing returns what, beside collection and order, decides which records the pages of q list.
func (q *Query) listing() string {
	return q.Deleted.String() + "\x00" + q.AsOf.String() + "\x00" + q.Filter
}

// Mentions reports whether c depends on a column of the record itself, by its index in schema.Columns.
func (c *Cond) Mentions(column int) bool {
	for _, x := range c.terms {
		if x.Mentions(column) {
			return true
		}
	}
	for _, t := range append([]*term{c.left, c.right}, c.list...) {
		if t.mentions(column) {
			return true
		}
	}
	return false
}

func (t *term) mentions(index int) bool {
	return t != nil && (t.source == column && t.index == index || t.source == shift && t.next.mentions(index))
}
