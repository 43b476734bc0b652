package query

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// MaxOrders is how many columns and fields a listing can be sorted by.
const MaxOrders = 8

// Orders sort records by columns and fields. Records that they do not tell apart are sorted by id, so the order of two
// records is always certain.
type Orders []Order

// Order is a column or field to sort by. Null comes before all values, or with Desc after them.
type Order struct {
	Name string
	Desc bool
	term *term
}

// ParseOrders reads what to sort by: names with commas between them, each with + or - before it for ascending, which
// is the default, and descending order. The last one is always the id; it is added if it is not there, in the direction
// of the one before. The error is an *expr.Error.
func ParseOrders(text string, s Scope) (Orders, error) {
	var all Orders
	err := signed(text, func(name string, desc bool, span expr.Span) error {
		o, err := s.order(name, desc, span)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(x Order) bool { return x.Name == o.Name }) {
			return fail(span, "%s appears twice", name)
		}
		all = append(all, o)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(o Order) bool { return o.Name == "id" }); i >= 0 {
		return all[:i+1], nil // the id tells all records apart
	}
	desc := len(all) > 0 && all[len(all)-1].Desc // indexes have their ids in such an order
	id, err := s.order("id", desc, expr.Span{})
	return append(all, id), err
}

// signed calls each for the names of a list with commas between them, each with + or - before it. desc reports a -.
func signed(text string, each func(name string, desc bool, at expr.Span) error) error {
	if len(text) > expr.MaxTextBytes {
		return &expr.Error{Text: fmt.Sprintf("the order is too long (%d bytes, limit %d)", len(text), expr.MaxTextBytes)}
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	at, n := 0, 0
	for part := range strings.SplitSeq(text, ",") {
		span := expr.Span{Pos: at, End: at + len(part)}
		at = span.End + 1
		name := strings.TrimSpace(part)
		desc := strings.HasPrefix(name, "-")
		if name = strings.TrimLeft(name, "+-"); len(name) < len(strings.TrimSpace(part))-1 {
			return fail(span, "more than one sign before %s", name)
		}
		if err := each(name, desc, span); err != nil {
			return err
		}
		if n++; n > MaxOrders {
			return fail(span, "more than %d names", MaxOrders)
		}
	}
	return nil
}

func (s Scope) order(name string, desc bool, at expr.Span) (Order, error) {
	t, err := s.path([]string{name}, at, MaxHops)
	if err != nil {
		return Order{}, err
	}
	if t.kind == value.JSON {
		return Order{}, fail(at, "cannot sort by %s, whose values can have different types", name)
	}
	if t.source == column {
		name = schema.Columns()[t.index].Name
	}
	return Order{name, desc, t}, nil
}

// String returns the orders as ParseOrders reads them.
func (o Orders) String() string {
	var parts []string
	for _, x := range o {
		if x.Desc {
			x.Name = "-" + x.Name
		}
		parts = append(parts, x.Name)
	}
	return strings.Join(parts, ",")
}

// Key returns the values of a record that it is sorted by.
func (o Orders) Key(row Row) []value.Value {
	key := make([]value.Value, len(o))
	for i, x := range o {
		key[i], _ = x.term.of(nil, row, nil) // a column or field cannot fail
	}
	return key
}

// Compare returns -1, 0 or +1 as the record with the key a sorts before, with or after the one with b.
func (o Orders) Compare(a, b []value.Value) int {
	for i, x := range o {
		if c := value.Compare(a[i], b[i]); c != 0 {
			if x.Desc {
				return -c
			}
			return c
		}
	}
	return 0
}

// cursorVersion is the first byte of a cursor.
const cursorVersion = 1

// MaxCursorBytes bounds the text of a cursor.
const MaxCursorBytes = 8 << 10

// Cursor returns a text from which ReadCursor reads key, for a listing of collection k with the filter of where. It has
// only characters that need no escape in URLs.
func (o Orders) Cursor(k *schema.Compiled, where string, key []value.Value) string {
	b := append([]byte{cursorVersion}, o.shape(k, where)...)
	for _, v := range key {
		b = v.AppendKey(b)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ReadCursor reads what Cursor has made. It refuses cursors of other listings, and any other text.
func (o Orders) ReadCursor(k *schema.Compiled, where, text string) ([]value.Value, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	shape := o.shape(k, where)
	if err != nil || len(text) > MaxCursorBytes || len(b) < 1+len(shape) || b[0] != cursorVersion {
		return nil, fmt.Errorf("not a cursor")
	}
	if string(b[1:1+len(shape)]) != string(shape) {
		return nil, fmt.Errorf("the cursor belongs to another filter or order")
	}
	key, rest := make([]value.Value, len(o)), b[1+len(shape):]
	for i, x := range o {
		key[i], rest, err = value.CutKey(rest)
		if err != nil || !key[i].IsNull() && key[i].Kind() != x.term.kind {
			return nil, fmt.Errorf("not a cursor")
		}
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("not a cursor")
	}
	return key, nil
}

// shape returns some bytes that tell listings apart.
func (o Orders) shape(k *schema.Compiled, where string) []byte {
	sum := sha256.Sum256([]byte(k.Name + "\x00" + o.String() + "\x00" + where))
	return sum[:8]
}
