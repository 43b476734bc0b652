package value

import (
	"errors"
	"fmt"
	"math"
	"math/big"
)

// class orders the types of numbers; a computation has the higher one of its
// operands.
type class int8

const (
	notNumber class = iota
	classByte
	classShort
	classInt
	classLong
	classBig
	classFloat
	classDouble
	classDecimal
)

func classOf(v any) class {
	switch v.(type) {
	case int8:
		return classByte
	case int16:
		return classShort
	case int32:
		return classInt
	case int64:
		return classLong
	case *big.Int:
		return classBig
	case float32:
		return classFloat
	case float64:
		return classDouble
	case Decimal:
		return classDecimal
	}
	return notNumber
}

// IsNumber reports whether v is a number.
func IsNumber(v any) bool { return classOf(v) != notNumber }

// Int returns v as an int64, and whether it is an integer of that range.
func Int(v any) (int64, bool) {
	switch n := v.(type) {
	case int8:
		return int64(n), true
	case int16:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	case *big.Int:
		return n.Int64(), n.IsInt64()
	}
	return 0, false
}

// Float returns v as the nearest float64, and whether it is a number.
func Float(v any) (float64, bool) {
	switch n := v.(type) {
	case float32:
		return float64(n), true
	case float64:
		return n, true
	case Decimal:
		return n.Float(), true
	case *big.Int:
		f, _ := new(big.Float).SetInt(n).Float64()
		return f, true
	}
	i, ok := Int(v)
	return float64(i), ok
}

func bigOf(v any) *big.Int {
	if n, ok := v.(*big.Int); ok {
		return n
	}
	n, _ := Int(v)
	return big.NewInt(n)
}

func toDecimal(v any) Decimal {
	switch n := v.(type) {
	case Decimal:
		return n
	case float32, float64:
		f, _ := Float(n)
		return decimalOf(f)
	}
	return Decimal{bigOf(v), 0}
}

// common returns the class of a computation with both: two integers with a
// float are float64 unless they fit a float32's bits.
func common(a, b class) class {
	lo, hi := min(a, b), max(a, b)
	switch {
	case hi == classFloat && lo == classLong:
		return classDouble
	case hi >= classFloat && lo == classBig:
		return classDecimal
	}
	return hi
}

// errOverflow: the result of 64-bit arithmetic has no 64 bits.
var errOverflow = errors.New("the result is too large for a Long")

// Operation is one of the computations of two numbers.
type Operation struct {
	name  string
	ints  func(a, b int64) (int64, bool)
	big   func(a, b *big.Int) (*big.Int, error)
	float func(a, b float64) float64
	dec   func(a, b Decimal) (Decimal, error)
}

var errByZero = errors.New("/ by zero")

// The operations.
var (
	Add = &Operation{
		"sum",
		func(a, b int64) (int64, bool) { c := a + b; return c, (c > a) == (b > 0) },
		func(a, b *big.Int) (*big.Int, error) { return new(big.Int).Add(a, b), nil },
		func(a, b float64) float64 { return a + b },
		func(a, b Decimal) (Decimal, error) { return a.add(b), nil },
	}
	Sub = &Operation{
		"minus",
		func(a, b int64) (int64, bool) { c := a - b; return c, (c < a) == (b > 0) },
		func(a, b *big.Int) (*big.Int, error) { return new(big.Int).Sub(a, b), nil },
		func(a, b float64) float64 { return a - b },
		func(a, b Decimal) (Decimal, error) { return a.add(b.neg()), nil },
	}
	Mul = &Operation{
		"mult",
		func(a, b int64) (int64, bool) {
			if a == 0 || b == 0 {
				return 0, true
			}
			c := a * b
			return c, c/b == a && (a != -1 || b != math.MinInt64) && (b != -1 || a != math.MinInt64)
		},
		func(a, b *big.Int) (*big.Int, error) { return new(big.Int).Mul(a, b), nil },
		func(a, b float64) float64 { return a * b },
		func(a, b Decimal) (Decimal, error) { return a.mul(b), nil },
	}
	Div = &Operation{
		"div",
		func(a, b int64) (int64, bool) {
			if a == math.MinInt64 && b == -1 {
				return 0, false
			}
			return a / b, true
		},
		func(a, b *big.Int) (*big.Int, error) { return new(big.Int).Quo(a, b), nil },
		func(a, b float64) float64 { return a / b },
		func(a, b Decimal) (Decimal, error) {
			if b.Unscaled.Sign() == 0 {
				return a, errByZero
			}
			return a.quo(b), nil
		},
	}
)

// Calc computes a and b, which must be numbers. The result has the higher type
// of both, and of integers the next one that is large enough; there is none
// above Long. An operand that is nil yields the other one.
func Calc(op *Operation, a, b any) (any, error) {
	switch {
	case b == nil:
		return a, nil
	case a == nil:
		return b, nil
	}
	ca, cb := classOf(a), classOf(b)
	if ca == notNumber || cb == notNumber {
		odd := a
		if ca != notNumber {
			odd = b
		}
		return nil, fmt.Errorf("%s needs numbers, not %s", op.name, Describe(odd))
	}
	switch c := common(ca, cb); {
	case c <= classLong:
		x, _ := Int(a)
		y, _ := Int(b)
		if op == Div && y == 0 {
			return nil, errByZero
		}
		n, ok := op.ints(x, y)
		if !ok {
			return nil, errOverflow
		}
		return fit(n, c), nil
	case c == classBig:
		y := bigOf(b)
		if op == Div && y.Sign() == 0 {
			return nil, errByZero
		}
		return bounded(op.big(bigOf(a), y))
	case c == classDecimal && finite(a) && finite(b):
		return boundedDecimal(op.dec(toDecimal(a), toDecimal(b)))
	case c == classFloat:
		x, _ := Float(a)
		y, _ := Float(b)
		return float32(op.float(x, y)), nil
	default:
		x, _ := Float(a)
		y, _ := Float(b)
		return op.float(x, y), nil
	}
}

// Widen returns the number a in the type that a computation with the number b has.
func Widen(a, b any) any {
	c := common(classOf(a), classOf(b))
	switch f, _ := Float(a); {
	case c == classOf(a):
		return a
	case c <= classLong:
		n, _ := Int(a)
		return fit(n, c)
	case c == classBig:
		return bigOf(a)
	case c == classDecimal && finite(a):
		return toDecimal(a)
	case c == classFloat:
		return float32(f)
	default:
		return f
	}
}

func finite(v any) bool {
	f, ok := Float(v)
	if _, isDecimal := v.(Decimal); isDecimal {
		return true
	}
	return ok && !math.IsNaN(f) && !math.IsInf(f, 0) || classOf(v) == classBig
}

func bounded(n *big.Int, err error) (any, error) {
	if err == nil && n.BitLen() > MaxDigits*10/3 {
		err = fmt.Errorf("the result has more than %d digits", MaxDigits)
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

func boundedDecimal(d Decimal, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if _, err := bounded(d.Unscaled, nil); err != nil || d.Scale > maxScale || d.Scale < -maxScale {
		return nil, fmt.Errorf("the result has more than %d digits", MaxDigits)
	}
	return d, nil
}

// fit returns n as an integer of a class, or of the next one that holds it.
func fit(n int64, c class) any {
	switch {
	case c <= classByte && n == int64(int8(n)):
		return int8(n)
	case c <= classShort && n == int64(int16(n)):
		return int16(n)
	case c <= classInt && n == int64(int32(n)):
		return int32(n)
	}
	return n
}

// IsNaN reports whether v is a float that is not a number.
func IsNaN(v any) bool {
	switch f := v.(type) {
	case float32:
		return f != f
	case float64:
		return f != f
	}
	return false
}

// compareNumbers compares two numbers that are not NaN.
func compareNumbers(a, b any) int {
	ca, cb := classOf(a), classOf(b)
	if ca <= classLong && cb <= classLong {
		x, _ := Int(a)
		y, _ := Int(b)
		return compareOrdered(x, y)
	}
	if ca != classBig && cb != classBig && ca != classDecimal && cb != classDecimal && (ca >= classFloat && cb >= classFloat) {
		x, _ := Float(a)
		y, _ := Float(b)
		return compareOrdered(x, y)
	}
	if !finite(a) || !finite(b) {
		x, _ := Float(a)
		y, _ := Float(b)
		return compareOrdered(infinity(a, x), infinity(b, y))
	}
	return toDecimal(a).cmp(toDecimal(b))
}

// infinity returns f if v is an infinite float, else 0, to compare with it.
func infinity(v any, f float64) float64 {
	if finite(v) {
		return 0
	}
	return f
}

// AsDecimal returns a number that is finite as a Decimal.
func AsDecimal(v any) Decimal { return toDecimal(v) }
