package gremlin

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/skerrydb/skerry/graph/value"
)

// maxBits is the length of the largest integer of value.MaxDigits digits.
const maxBits = value.MaxDigits * 33219 / 10_000

// parseNumber returns the value of a number's text.
func parseNumber(text string) (any, error) {
	if len(text) > MaxNumberBytes {
		return nil, fmt.Errorf("a number has more than %d characters", MaxNumberBytes)
	}
	digits, sign := text, ""
	if digits[0] == '+' || digits[0] == '-' {
		sign, digits = digits[:1], digits[1:]
	}
	if digits == "Infinity" {
		return math.Inf(len("-") - 2*strings.Count(sign, "-")), nil
	}
	if !underscoresInside(digits) {
		return nil, fmt.Errorf("%s has an underscore that is not between digits", text)
	}
	digits = strings.ReplaceAll(digits, "_", "")
	base := 10
	if strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0X") {
		base, digits = 16, digits[2:]
	}
	suffix := byte(0)
	if last := digits[max(len(digits)-1, 0):]; last != "" && !digit(last[0]) && (base == 10 || !hexDigit(last[0])) {
		suffix, digits = last[0]|0x20, digits[:len(digits)-1]
	}
	if base == 10 && (strings.ContainsAny(digits, ".eE") || suffix == 'f' || suffix == 'd' || suffix == 'm') {
		return parseFraction(text, sign+digits, suffix)
	}
	if base == 10 && len(digits) > 1 && digits[0] == '0' {
		base = 8
	}
	n, ok := new(big.Int).SetString(sign+digits, base)
	if !ok || digits == "" {
		return nil, fmt.Errorf("%s is not a number of base %d", text, base)
	}
	return sizedInt(text, n, suffix)
}

// underscoresInside reports whether each underscore is between digits.
func underscoresInside(s string) bool {
	for i := range len(s) {
		if s[i] != '_' {
			continue
		}
		if i == 0 || i == len(s)-1 {
			return false
		}
		for _, c := range []byte{s[i-1], s[i+1]} {
			if c != '_' && !digit(c) && (!hexDigit(c) || !strings.ContainsAny(s[:2], "xX")) {
				return false
			}
		}
	}
	return true
}

func sizedInt(text string, n *big.Int, suffix byte) (any, error) {
	fits := func(bits int) bool {
		return n.IsInt64() && n.Int64()>>(bits-1) == n.Int64()>>63
	}
	switch {
	case n.BitLen() > maxBits:
		return nil, fmt.Errorf("a number has more than %d digits", value.MaxDigits)
	case suffix == 'n':
		return n, nil
	case suffix == 'b' && fits(8):
		return int8(n.Int64()), nil
	case suffix == 's' && fits(16):
		return int16(n.Int64()), nil
	case (suffix == 'i' || suffix == 0) && fits(32):
		return int32(n.Int64()), nil
	case (suffix == 'l' || suffix == 0) && fits(64):
		return n.Int64(), nil
	case suffix == 0:
		return n, nil
	}
	return nil, fmt.Errorf("%s is out of the range of the type that its suffix asks for", short(text))
}

func parseFraction(text, digits string, suffix byte) (any, error) {
	bits := 64
	switch suffix {
	case 'm':
		d, err := value.ParseDecimal(digits)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", short(text), err)
		}
		return d, nil
	case 'f':
		bits = 32
	case 0, 'd':
	default:
		return nil, fmt.Errorf("%s has the suffix of an integer but is none", short(text))
	}
	f, err := strconv.ParseFloat(digits, bits)
	if err != nil {
		return nil, fmt.Errorf("%s is out of range", short(text))
	}
	if bits == 32 {
		return float32(f), nil
	}
	return f, nil
}

// escapeError is a fault in a string, at an offset of its text.
type escapeError struct {
	off int
	msg string
}

func (e *escapeError) Error() string { return e.msg }

// unquote returns what a string's text, with its quotes, stands for.
func unquote(text string) (string, *escapeError) {
	body := text[1 : len(text)-1]
	if strings.IndexByte(body, '\\') < 0 {
		return body, nil
	}
	var b strings.Builder
	for i := 0; i < len(body); {
		if body[i] != '\\' {
			b.WriteByte(body[i])
			i++
			continue
		}
		s, size, msg := escape(body[i:])
		if msg != "" {
			return "", &escapeError{i + 1, msg}
		}
		b.WriteString(s)
		i += size
	}
	return b.String(), nil
}

// escape decodes the escape that s begins with and returns its size, or why it is
// none.
func escape(s string) (out string, size int, msg string) {
	switch c := s[1]; c {
	case 'b':
		return "\b", 2, ""
	case 't':
		return "\t", 2, ""
	case 'n':
		return "\n", 2, ""
	case 'f':
		return "\f", 2, ""
	case 'r':
		return "\r", 2, ""
	case '"', '\'', '\\':
		return s[1:2], 2, ""
	case '\n': // the line goes on
		return "", 2, ""
	case '\r':
		if strings.HasPrefix(s[2:], "\n") {
			return "", 3, ""
		}
	case 'u':
		return unicodeEscape(s)
	case 'x': // as gremlinpython writes a character that is not to be printed
		if len(s) >= 4 {
			if b, err := hex.DecodeString(s[2:4]); err == nil {
				return string(rune(b[0])), 4, ""
			}
		}
	default:
		if c >= '0' && c <= '7' {
			return octalEscape(s)
		}
	}
	r, _ := utf8.DecodeRuneInString(s[1:])
	return "", 0, fmt.Sprintf("\\%c is not an escape: expected one of \\b \\t \\n \\f \\r \\\" \\' \\\\ \\uXXXX", r)
}

func octalEscape(s string) (string, int, string) {
	most, n, r := 2, 0, rune(0)
	if s[1] <= '3' {
		most = 3
	}
	for n < most && 1+n < len(s) && s[1+n] >= '0' && s[1+n] <= '7' {
		r = r*8 + rune(s[1+n]-'0')
		n++
	}
	return string(r), 1 + n, ""
}

// unicodeEscape decodes \uXXXX, or two of them that are a surrogate pair.
func unicodeEscape(s string) (string, int, string) {
	r, size, ok := utf16Unit(s)
	if !ok {
		return "", 0, "expected four hexadecimal digits after \\u"
	}
	if !utf16.IsSurrogate(r) {
		return string(r), size, ""
	}
	low, more, _ := utf16Unit(s[size:])
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return "", 0, "a \\u escape is half of a surrogate pair"
	}
	return string(r), size + more, ""
}

func utf16Unit(s string) (r rune, size int, ok bool) {
	if !strings.HasPrefix(s, `\u`) {
		return 0, 0, false
	}
	rest := strings.TrimLeft(s[1:], "u")
	if len(rest) < 4 {
		return 0, 0, false
	}
	n, err := strconv.ParseUint(rest[:4], 16, 16)
	return rune(n), len(s) - len(rest) + 4, err == nil
}

// short shortens a piece of text for a message.
func short(s string) string {
	const most = 40
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
