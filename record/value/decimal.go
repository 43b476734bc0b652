package value

import (
	"fmt"
	"math/big"
	"strings"
)

// maxExponent bounds the exponent that ParseDecimal reads, so that no short text makes a long number.
const maxExponent = 1000

// ParseDecimal parses a decimal in the notation of JSON numbers: digits with an optional sign, point and exponent.
// Leading zeros are allowed. The value is exact: more than MaxDecimalDigits digits, in total or after the decimal
// point, are an error.
func ParseDecimal(s string) (Value, error) {
	negative, whole, fraction, err := splitDecimal(s)
	if err != nil {
		return Value{}, err
	}
	whole, fraction = strings.TrimLeft(whole, "0"), strings.TrimRight(fraction, "0")
	digits := len(whole) + len(fraction)
	if whole == "" {
		digits = len(strings.TrimLeft(fraction, "0"))
	}
	if digits > MaxDecimalDigits || len(fraction) > MaxDecimalDigits {
		return Value{}, fmt.Errorf("more than %d digits", MaxDecimalDigits)
	}
	text := whole
	if whole == "" {
		text = "0"
	}
	if fraction != "" {
		text += "." + fraction
	}
	if negative && text != "0" {
		text = "-" + text
	}
	return Value{kind: Decimal, text: text}, nil
}

// splitDecimal returns the digits of s before and after its point, once its exponent has moved that.
func splitDecimal(s string) (negative bool, whole, fraction string, err error) {
	bad := func() (bool, string, string, error) {
		return false, "", "", fmt.Errorf("%.60q is not a decimal number", s)
	}
	rest := s
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		negative, rest = rest[0] == '-', rest[1:]
	}
	if len(rest) > 2*maxExponent {
		return false, "", "", fmt.Errorf("the number has more than %d characters", 2*maxExponent)
	}
	mantissa, exponent := rest, 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		mantissa = rest[:i]
		if exponent, err = parseExponent(rest[i+1:]); err != nil {
			return bad()
		}
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	if whole == "" || point && fraction == "" || !isDigits(whole) || !isDigits(fraction) {
		return bad()
	}
	switch {
	case exponent > 0:
		fraction += strings.Repeat("0", max(0, exponent-len(fraction)))
		whole, fraction = whole+fraction[:exponent], fraction[exponent:]
	case exponent < 0:
		whole = strings.Repeat("0", max(0, -exponent-len(whole))) + whole
		whole, fraction = whole[:len(whole)+exponent], whole[len(whole)+exponent:]+fraction
	}
	return negative, whole, fraction, nil
}

func parseExponent(s string) (int, error) {
	sign := 1
	if s != "" && (s[0] == '-' || s[0] == '+') {
		if s[0] == '-' {
			sign = -1
		}
		s = s[1:]
	}
	n := 0
	for _, c := range []byte(s) {
		if n = n*10 + int(c-'0'); c < '0' || c > '9' || n > maxExponent {
			return 0, fmt.Errorf("exponent")
		}
	}
	if s == "" {
		return 0, fmt.Errorf("exponent")
	}
	return sign * n, nil
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// Scale returns how many digits a decimal in canonical form has after its point.
func Scale(decimal string) int {
	_, fraction, _ := strings.Cut(decimal, ".")
	return len(fraction)
}

// Precision returns how many digits a decimal in canonical form has, without leading zeros.
func Precision(decimal string) int {
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(decimal, "-"), ".")
	return len(strings.TrimLeft(whole+fraction, "0"))
}

// PadScale appends zeros to a decimal in canonical form until it has scale digits after its point.
func PadScale(decimal string, scale int) string {
	have := Scale(decimal)
	if have >= scale {
		return decimal
	}
	if have == 0 {
		decimal += "."
	}
	return decimal + strings.Repeat("0", scale-have)
}

// compareDecimals compares two decimals in canonical form.
func compareDecimals(a, b string) int {
	na, nb := strings.HasPrefix(a, "-"), strings.HasPrefix(b, "-")
	switch {
	case na && !nb:
		return -1
	case !na && nb:
		return 1
	case na:
		return compareMagnitudes(b[1:], a[1:])
	}
	return compareMagnitudes(a, b)
}

func compareMagnitudes(a, b string) int {
	wa, fa, _ := strings.Cut(a, ".")
	wb, fb, _ := strings.Cut(b, ".")
	if len(wa) != len(wb) {
		if len(wa) < len(wb) {
			return -1
		}
		return 1
	}
	if c := strings.Compare(wa, wb); c != 0 {
		return c
	}
	return strings.Compare(fa, fb)
}

// rat returns a number exactly.
func (v Value) rat() *big.Rat {
	r := new(big.Rat)
	switch v.kind {
	case Int:
		r.SetInt64(int64(v.bits))
	case Float:
		f, _ := v.Float()
		r.SetFloat64(f)
	case Decimal:
		r.SetString(v.text)
	}
	return r
}
