package expr

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/record/value"
)

// token is a word of the language.
type token struct {
	Span
	kind  tokenKind
	text  string      // as it is written; of a name, only the name
	value value.Value // of a literal
	shift time.Duration
}

type tokenKind uint8

const (
	end      tokenKind = iota
	sign               // an operator or bracket
	name               // a name or keyword
	variable           // a name after @
	literal            // a text or a number
	duration           // 7d
)

// String describes the token for errors.
func (t token) String() string {
	switch t.kind {
	case end:
		return "the end"
	case variable:
		return "@" + t.text
	}
	return t.text
}

// lexer cuts text into tokens.
type lexer struct {
	text string
	at   int
}

// skip moves past blanks.
func (l *lexer) skip() {
	for l.at < len(l.text) && strings.IndexByte(" \t\r\n", l.text[l.at]) >= 0 {
		l.at++
	}
}

// next returns the token at the current place.
func (l *lexer) next() (token, error) {
	l.skip()
	from := l.at
	if from == len(l.text) {
		return token{Span: Span{from, from}}, nil
	}
	c := l.text[from]
	var t token
	var err error
	switch {
	case c == '"' || c == '\'':
		t, err = l.quoted(c)
	case isDigit(c) || c == '-' && from+1 < len(l.text) && isDigit(l.text[from+1]):
		t, err = l.number()
	case c == '@':
		l.at++
		t = token{kind: variable, text: l.word()}
		if t.text == "" {
			err = l.fail(from, "a name must follow @")
		}
	case isLetter(c):
		t = token{kind: name, text: l.word()}
	default:
		t, err = l.sign()
	}
	t.Span = Span{from, l.at}
	return t, err
}

func (l *lexer) fail(at int, format string, args ...any) error {
	return &Error{Pos: at, Text: fmt.Sprintf(format, args...)}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }

func (l *lexer) word() string {
	from := l.at
	for l.at < len(l.text) && (isLetter(l.text[l.at]) || isDigit(l.text[l.at])) {
		l.at++
	}
	return l.text[from:l.at]
}

// signs are the operators and brackets, longer ones before their beginnings.
var signs = []string{"&&", "||", "!=", "!~", ">=", "<=", "?=", "==", "<>", "=", ">", "<", "~", "!", "(", ")", ",", ".", "+", "-"}

// instead says what to write for what other languages write.
var instead = map[string]string{"==": "=", "<>": "!=", "&": "&&", "|": "||"}

func (l *lexer) sign() (token, error) {
	for _, s := range signs {
		if !strings.HasPrefix(l.text[l.at:], s) {
			continue
		}
		if want := instead[s]; want != "" {
			return token{}, l.fail(l.at, "unknown operator %s; write %s", s, want)
		}
		l.at += len(s)
		return token{kind: sign, text: s}, nil
	}
	r, _ := utf8.DecodeRuneInString(l.text[l.at:])
	if want := instead[string(r)]; want != "" {
		return token{}, l.fail(l.at, "unknown operator %c; write %s", r, want)
	}
	return token{}, l.fail(l.at, "unexpected character %q", r)
}

// quoted reads a text between quotes. A backslash escapes the quote, itself, and n, r, t and u as JSON does.
func (l *lexer) quoted(quote byte) (token, error) {
	from := l.at
	var b strings.Builder
	for l.at++; l.at < len(l.text); l.at++ {
		c := l.text[l.at]
		switch {
		case c == quote:
			l.at++
			v, err := value.OfText(b.String())
			if err != nil {
				return token{}, l.fail(from, "the string has %v", err)
			}
			return token{kind: literal, text: "a string", value: v}, nil
		case c != '\\':
			b.WriteByte(c)
		default:
			r, err := l.escape()
			if err != nil {
				return token{}, err
			}
			b.WriteRune(r)
		}
	}
	return token{}, l.fail(from, "the string has no closing %c", quote)
}

// escape reads the escape at the current place and stops at its last byte.
func (l *lexer) escape() (rune, error) {
	from := l.at
	if l.at++; l.at == len(l.text) {
		return 0, l.fail(from, "the text ends with a backslash")
	}
	switch c := l.text[l.at]; c {
	case '"', '\'', '\\', '/':
		return rune(c), nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		if len(l.text) >= l.at+5 {
			n, err := strconv.ParseUint(l.text[l.at+1:l.at+5], 16, 16)
			if r := rune(n); err == nil && utf8.ValidRune(r) {
				l.at += 4
				return r, nil
			}
		}
		return 0, l.fail(from, "invalid \\u escape")
	}
	return 0, l.fail(from, "unknown escape; write \\\\ for a backslash")
}

// units of durations.
var units = map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}

// number reads a number, or a duration if a unit follows.
func (l *lexer) number() (token, error) {
	from := l.at
	l.at++
	for l.at < len(l.text) {
		c := l.text[l.at]
		afterE := (c == '+' || c == '-') && (l.text[l.at-1] == 'e' || l.text[l.at-1] == 'E')
		if !isDigit(c) && c != '.' && !isLetter(c) && !afterE {
			break
		}
		l.at++
	}
	text := l.text[from:l.at]
	if digits := strings.TrimRight(text, "smhdw"); digits != text {
		return l.duration(from, digits, text[len(digits):])
	}
	v, err := value.ParseDecimal(text)
	if err != nil {
		return token{}, l.fail(from, "%v", err)
	}
	if n, ok := v.Int(); ok {
		v = value.OfInt(n)
	}
	return token{kind: literal, text: text, value: v}, nil
}

func (l *lexer) duration(from int, digits, unit string) (token, error) {
	by, known := units[unit]
	if !known {
		return token{}, l.fail(from+len(digits), "unknown unit %s; the units are ms, s, m, h, d and w", unit)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return token{}, l.fail(from, "%s%s is not a whole number of %s", digits, unit, unit)
	}
	if n > int64(maxShift/by) || n < -int64(maxShift/by) {
		return token{}, l.fail(from, "%s%s is more than 100 years", digits, unit)
	}
	return token{kind: duration, text: digits + unit, shift: time.Duration(n) * by}, nil
}

// maxShift bounds durations: 100 years.
const maxShift = 36525 * 24 * time.Hour
