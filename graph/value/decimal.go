package value

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Decimal is a decimal number of any size: Unscaled × 10^-Scale, as in Java's
// BigDecimal. Unscaled is not nil and must not be changed.
type Decimal struct {
	Unscaled *big.Int
	Scale    int32
}

const (
	// MaxDigits bounds the digits of numbers that are read or computed.
	MaxDigits = 10_000
	// maxScale bounds the scale, positive or negative, for the same reason: a
	// comparison writes out as many zeros.
	maxScale = MaxDigits
	// divisionDigits is how many digits a quotient has that does not end.
	divisionDigits = 34
)

// ParseDecimal reads digits with an optional sign, point and exponent.
func ParseDecimal(text string) (Decimal, error) {
	mantissa, exponent, ok := text, int64(0), true
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		e, err := strconv.ParseInt(text[i+1:], 10, 32)
		mantissa, exponent, ok = text[:i], e, err == nil
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "+-")
	ok = ok && digits != "" && len(digits) <= MaxDigits && strings.Trim(digits, "0123456789") == "" &&
		len(whole)+len(fraction)-len(digits) <= 1 && !strings.ContainsAny(fraction, "+-")
	scale := int64(len(fraction)) - exponent
	if !ok || scale > maxScale || scale < -maxScale {
		return Decimal{}, fmt.Errorf("%q is not a decimal number of at most %d digits", clip(text), MaxDigits)
	}
	n, _ := new(big.Int).SetString(digits, 10)
	if strings.HasPrefix(whole, "-") {
		n.Neg(n)
	}
	return Decimal{n, int32(scale)}, nil
}

func clip(text string) string {
	if len(text) > 40 {
		return text[:40] + "…"
	}
	return text
}

// String returns the number as Java's BigDecimal does: with an exponent if the
// scale is negative or the number is small.
func (d Decimal) String() string {
	digits := new(big.Int).Abs(d.Unscaled).String()
	sign := ""
	if d.Unscaled.Sign() < 0 {
		sign = "-"
	}
	scale := int(d.Scale)
	switch exponent := len(digits) - 1 - scale; {
	case scale == 0:
		return sign + digits
	case scale > 0 && exponent >= -6:
		if len(digits) <= scale {
			digits = strings.Repeat("0", scale-len(digits)+1) + digits
		}
		return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	default:
		if len(digits) > 1 {
			digits = digits[:1] + "." + digits[1:]
		}
		return fmt.Sprintf("%s%sE%+d", sign, digits, exponent)
	}
}

// Float returns the nearest float64, which may be infinite.
func (d Decimal) Float() float64 {
	f, err := strconv.ParseFloat(d.String(), 64)
	if err != nil {
		return math.Inf(d.Unscaled.Sign())
	}
	return f
}

// decimalOf returns f exactly as its shortest text says, as BigDecimal.valueOf
// does. f is finite.
func decimalOf(f float64) Decimal {
	d, err := ParseDecimal(strconv.FormatFloat(f, 'e', -1, 64))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	if d.Scale < 0 {
		d = d.at(0)
	}
	return d
}

func pow10(n int32) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// at returns the same number with a larger scale.
func (d Decimal) at(scale int32) Decimal {
	return Decimal{new(big.Int).Mul(d.Unscaled, pow10(scale-d.Scale)), scale}
}

// align returns both numbers with the larger of their scales.
func align(a, b Decimal) (Decimal, Decimal) {
	if a.Scale < b.Scale {
		return a.at(b.Scale), b
	}
	return a, b.at(a.Scale)
}

func (d Decimal) cmp(o Decimal) int {
	sign := d.Unscaled.Sign()
	if c := cmp.Compare(sign, o.Unscaled.Sign()); c != 0 || sign == 0 {
		return c
	}
	if more := d.magnitude() - o.magnitude(); more > 2 || more < -2 { // zeros need not be written out
		return cmp.Compare(more, 0) * sign
	}
	a, b := align(d, o)
	return a.Unscaled.Cmp(b.Unscaled)
}

// magnitude returns about how many digits d has before the point, which is wrong by
// at most one. d is not zero.
func (d Decimal) magnitude() int64 {
	return int64(float64(d.Unscaled.BitLen())*math.Log10(2)) - int64(d.Scale)
}

func (d Decimal) add(o Decimal) Decimal {
	a, b := align(d, o)
	return Decimal{new(big.Int).Add(a.Unscaled, b.Unscaled), a.Scale}
}

func (d Decimal) neg() Decimal { return Decimal{new(big.Int).Neg(d.Unscaled), d.Scale} }

func (d Decimal) mul(o Decimal) Decimal {
	return Decimal{new(big.Int).Mul(d.Unscaled, o.Unscaled), d.Scale + o.Scale}
}

// quo returns d / o, rounded half up to divisionDigits if it does not end. o is
// not zero.
func (d Decimal) quo(o Decimal) Decimal {
	scale := max(d.Scale-o.Scale, 0) + divisionDigits
	shift := scale - d.Scale + o.Scale
	n := d.Unscaled
	if shift > 0 {
		n = new(big.Int).Mul(n, pow10(shift))
	}
	q, r := new(big.Int).QuoRem(n, o.Unscaled, new(big.Int))
	if r.Abs(r).Lsh(r, 1).CmpAbs(o.Unscaled) >= 0 {
		q.Add(q, big.NewInt(int64(d.Unscaled.Sign()*o.Unscaled.Sign())))
	}
	return Decimal{q, scale}.trim(max(d.Scale-o.Scale, 0))
}

// trim removes zeros at the end, down to a scale.
func (d Decimal) trim(least int32) Decimal {
	if d.Unscaled.Sign() == 0 {
		return Decimal{d.Unscaled, min(d.Scale, least)}
	}
	ten := big.NewInt(10)
	for d.Scale > least {
		n, r := new(big.Int).QuoRem(d.Unscaled, ten, new(big.Int))
		if r.Sign() != 0 {
			break
		}
		d = Decimal{n, d.Scale - 1}
	}
	return d
}

// canonical returns text that is the same for equal numbers of all types.
func (d Decimal) canonical() string {
	digits := strings.TrimRight(d.Unscaled.String(), "0")
	if d.Unscaled.Sign() == 0 {
		return "0"
	}
	return digits + "e" + strconv.Itoa(len(d.Unscaled.String())-len(digits)-int(d.Scale))
}
