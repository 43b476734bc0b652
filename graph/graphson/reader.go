package graphson

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// reader makes values of nodes. After a failure all reads return zero values.
type reader struct {
	err    error
	depth  int
	values int
	// hashed is not zero within keys of maps and items of sets: only values of
	// package value may be there.
	hashed int
}

func (r *reader) failf(n *node, format string, args ...any) {
	if r.err == nil {
		at := 0
		if n != nil {
			at = n.at
		}
		r.err = &message.Error{Offset: at, Msg: fmt.Sprintf(format, args...)}
	}
}

// want reports whether a node is there and of a kind.
func (r *reader) want(n *node, k kind, what string) bool {
	if r.err != nil {
		return false
	}
	if n == nil || n.kind != k {
		found := "nothing"
		if n != nil {
			found = n.kind.String()
		}
		r.failf(n, "expected %s as %v, found %s", what, k, found)
		return false
	}
	return true
}

func (r *reader) string(n *node, what string) string {
	if r.want(n, text, what) {
		return n.text
	}
	return ""
}

// value reads a value with or without a type. A node that is not there is null.
func (r *reader) value(n *node) any {
	if n == nil || r.err != nil {
		return nil
	}
	if r.values++; r.values > message.MaxValues {
		r.failf(n, "expected at most %d values", message.MaxValues)
		return nil
	}
	if r.depth++; r.depth > message.MaxDepth {
		r.failf(n, "expected values nested at most %d deep", message.MaxDepth)
		return nil
	}
	v := r.body(n)
	r.depth--
	return v
}

// key reads a value that is a key of a map or an item of a set.
func (r *reader) key(n *node) any {
	if r.hashed++; r.hashed > message.MaxKeyDepth {
		r.failf(n, "expected keys and items of sets nested at most %d deep", message.MaxKeyDepth)
	}
	v := r.value(n)
	r.hashed--
	return v
}

func (r *reader) body(n *node) any {
	switch n.kind {
	case text:
		return n.text
	case truth:
		return n.text == "true"
	case number:
		return r.bare(n)
	case array:
		return value.List(r.items(n))
	case object:
		if t := n.field("@type"); t != nil {
			return r.typed(n, r.string(t, "a type"), n.field("@value"))
		}
		return r.fields(n)
	}
	return nil
}

// fields reads an object without a type.
func (r *reader) fields(n *node) *value.Map {
	m := &value.Map{}
	for i := 0; i+1 < len(n.items) && r.err == nil; i += 2 {
		m.Set(n.items[i].text, r.value(n.items[i+1]))
	}
	return m
}

func (r *reader) items(n *node) []any {
	out := make([]any, 0, len(n.items))
	for _, item := range n.items {
		out = append(out, r.value(item))
	}
	return out
}

// bare reads a number that has no type: the smallest of int, long and integers of
// any size that has it, or else a double.
func (r *reader) bare(n *node) any {
	if strings.ContainsAny(n.text, ".eE") {
		f, err := strconv.ParseFloat(n.text, 64)
		if err != nil {
			r.failf(n, "expected a number that a double has")
		}
		return f
	}
	i, err := strconv.ParseInt(n.text, 10, 64)
	switch {
	case err != nil:
		return r.big(n)
	case i >= math.MinInt32 && i <= math.MaxInt32:
		return int32(i)
	}
	return i
}

// typed reads the value of a type, of which n is the node with both.
func (r *reader) typed(n *node, name string, v *node) any {
	if r.err != nil {
		return nil
	}
	if out, ok := r.number(name, v); ok {
		return out
	}
	if out, ok := r.scalar(name, v); ok {
		return out
	}
	if out, ok := r.collection(name, v); ok {
		return out
	}
	if out, ok := r.element(name, v); ok {
		return out
	}
	if r.hashed == 0 {
		if out, ok := r.program(n, name, v); ok {
			return out
		}
	}
	r.failf(n, "expected a type of value, found %q", name)
	return nil
}

func (r *reader) number(name string, v *node) (any, bool) {
	switch name {
	case "g:Int32":
		return int32(r.integer(v, 32)), true
	case "g:Int64":
		return r.integer(v, 64), true
	case "gx:Int16":
		return int16(r.integer(v, 16)), true
	case "gx:Byte":
		return int8(r.integer(v, 8)), true
	case "g:Double":
		return r.float(v, 64), true
	case "g:Float":
		return float32(r.float(v, 32)), true
	case "gx:BigInteger":
		return r.big(v), true
	case "gx:BigDecimal":
		d, err := value.ParseDecimal(r.digits(v))
		if err != nil {
			r.failf(v, "expected a decimal number: %v", err)
		}
		return d, true
	}
	return nil, false
}

// digits returns the text of a number, which may be a string.
func (r *reader) digits(n *node) string {
	if n != nil && n.kind == text {
		return n.text
	}
	if r.want(n, number, "a number") {
		return n.text
	}
	return ""
}

func (r *reader) integer(n *node, bits int) int64 {
	i, err := strconv.ParseInt(r.digits(n), 10, bits)
	if err != nil {
		r.failf(n, "expected an integer of %d bits", bits)
	}
	return i
}

func (r *reader) float(n *node, bits int) float64 {
	f, err := strconv.ParseFloat(r.digits(n), bits)
	if err != nil {
		r.failf(n, "expected a number of %d bits", bits)
	}
	return f
}

func (r *reader) big(n *node) *big.Int {
	digits := r.digits(n)
	if len(digits) > value.MaxDigits {
		r.failf(n, "expected an integer of at most %d digits", value.MaxDigits)
		return nil
	}
	i, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		r.failf(n, "expected an integer")
	}
	return i
}
