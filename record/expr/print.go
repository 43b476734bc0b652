package expr

import (
	"fmt"
	"strings"
	"time"

	"github.com/skerrydb/skerry/record/value"
)

// String returns x as text that Parse parses as the same expression. Expressions that differ only in spaces, redundant
// parentheses, keywords or the notation of values have the same text.
func String(x Expr) string {
	return string(appendExpr(nil, x, nil))
}

// OperandString returns an operand as written in an expression.
func OperandString(x Operand) string { return string(appendOperand(nil, x)) }

// appendExpr appends x, which stands within another expression or none. An Or within an And needs parentheses.
func appendExpr(dst []byte, x, within Expr) []byte {
	switch x := x.(type) {
	case *And:
		return appendTerms(dst, x, x.Terms, " && ")
	case *Or:
		if _, ok := within.(*And); ok {
			return append(appendTerms(append(dst, '('), x, x.Terms, " || "), ')')
		}
		return appendTerms(dst, x, x.Terms, " || ")
	case *Not:
		if in, ok := x.X.(*In); ok {
			return appendIn(dst, in, " not in (")
		}
		dst = append(dst, '!')
		if _, ok := x.X.(*Not); ok {
			return appendExpr(dst, x.X, x)
		}
		return append(appendExpr(append(dst, '('), x.X, nil), ')')
	case *In:
		return appendIn(dst, x, " in (")
	case *Compare:
		dst = appendOperand(dst, x.Left)
		dst = append(append(append(dst, ' '), x.Op.String()...), ' ')
		return appendOperand(dst, x.Right)
	}
	panic("BUG: unknown kind of expression")
}

func appendTerms(dst []byte, within Expr, terms []Expr, between string) []byte {
	for i, x := range terms {
		if i > 0 {
			dst = append(dst, between...)
		}
		dst = appendExpr(dst, x, within)
	}
	return dst
}

func appendIn(dst []byte, x *In, in string) []byte {
	dst = append(appendOperand(dst, x.X), in...)
	for i, v := range x.List {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendOperand(dst, v)
	}
	return append(dst, ')')
}

func appendOperand(dst []byte, x Operand) []byte {
	switch x := x.(type) {
	case *Path:
		return append(dst, strings.Join(x.Names, ".")...)
	case *Var:
		return append(append(dst, '@'), strings.Join(x.Names, ".")...)
	case *Literal:
		return appendLiteral(dst, x.Value)
	case *Shift:
		dst = appendOperand(dst, x.X)
		return append(dst, shiftText(x.By)...)
	}
	panic("BUG: unknown kind of operand")
}

// appendLiteral appends a value. A time, which only a checked expression has, becomes a text.
func appendLiteral(dst []byte, v value.Value) []byte {
	if d, ok := v.Decimal(); ok {
		return append(dst, d...)
	}
	return v.AppendJSON(dst)
}

// shiftText returns a shift with the sign before it and the largest unit that needs no fraction.
func shiftText(by time.Duration) string {
	sign := " + "
	if by < 0 {
		sign, by = " - ", -by
	}
	for _, unit := range []string{"w", "d", "h", "m", "s"} {
		if by != 0 && by%units[unit] == 0 {
			return fmt.Sprint(sign, int64(by/units[unit]), unit)
		}
	}
	return fmt.Sprint(sign, int64(by/time.Millisecond), "ms")
}
