package resp

import (
	"math"
	"math/big"
	"strings"

	"github.com/skerrydb/skerry/decimal"
)

// intArg parses a number that Redis stores in a C int.
func intArg(b []byte) (int, error) {
	n, ok := decimal.Parse(b)
	switch {
	case !ok:
		return 0, errNotInteger
	case n < math.MinInt32 || n > math.MaxInt32:
		return 0, replyError("ERR value is out of range, value must between -2147483648 and 2147483647")
	}
	return int(n), nil
}

// longDoubleBits is the precision of the x87 long double, with which Redis adds
// floating-point numbers.
const longDoubleBits = 64

// maxFloatText is the length in bytes from which a number is rejected.
const maxFloatText = 5 * 1024

// Binary exponents of a long double in the convention of big.Float.
const (
	maxLongDoubleExp = 16384
	minLongDoubleExp = -16444
)

// parseFloat parses a number as Redis does with strtold: decimal or hexadecimal,
// infinities, no spaces. The precision is that of a long double.
func parseFloat(b []byte) (*big.Float, bool) {
	if len(b) == 0 || len(b) >= maxFloatText {
		return nil, false
	}
	s := strings.ToLower(string(b))
	body := strings.TrimLeft(s, "+-")
	if len(s)-len(body) > 1 {
		return nil, false
	}
	f := new(big.Float).SetPrec(longDoubleBits)
	base, digits := 10, "0123456789.e+-"
	switch {
	case body == "inf" || body == "infinity":
		return f.SetInf(s[0] == '-'), true
	case strings.HasPrefix(body, "0x"):
		base, digits = 0, "0123456789abcdef.xp+-"
	}
	if strings.Trim(body, digits) != "" {
		return nil, false
	}
	if _, _, err := f.Parse(s, base); err != nil || f.IsInf() {
		return nil, false
	}
	if f.Sign() != 0 && (f.MantExp(nil) > maxLongDoubleExp || f.MantExp(nil) < minLongDoubleExp) {
		return nil, false
	}
	if f.Sign() == 0 && strings.ContainsAny(mantissa(body, base), "123456789abcdef") {
		return nil, false // too small to be distinguished from zero
	}
	return f, true
}

// mantissa returns the part of a number before its exponent.
func mantissa(s string, base int) string {
	if base == 0 {
		s, _, _ = strings.Cut(s[2:], "p")
		return s
	}
	s, _, _ = strings.Cut(s, "e")
	return s
}

// appendFloat formats f as Redis does: at most 17 digits after the point, without trailing
// zeros.
func appendFloat(b []byte, f *big.Float) []byte {
	start := len(b)
	b = f.Append(b, 'f', 17)
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	if b[len(b)-1] == '.' {
		b = b[:len(b)-1]
	}
	if string(b[start:]) == "-0" {
		return append(b[:start], '0')
	}
	return b
}
