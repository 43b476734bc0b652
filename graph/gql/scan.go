package gql

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// token is a word, a number, a string or a sign of the text.
type token struct {
	kind byte // 'w' word, 'q' quoted name, 'n' number, 's' string, 'p' sign; 0: the end
	text string
	pos  int
}

// scan splits a text into tokens.
func scan(text string) (out []token, err error) {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return nil, &SyntaxError{i, "the text is not UTF-8"}
		case unicode.IsSpace(r):
			i += size
		case strings.HasPrefix(text[i:], "//"):
			if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
				i += n
			} else {
				i = len(text)
			}
		case r == '_' || unicode.IsLetter(r):
			n := strings.IndexFunc(text[i:], func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
			if n < 0 {
				n = len(text) - i
			}
			out = append(out, token{'w', text[i : i+n], i})
			i += n
		case r >= '0' && r <= '9':
			n := numberLength(text[i:])
			out = append(out, token{'n', text[i : i+n], i})
			i += n
		case r == '\'' || r == '"' || r == '`':
			s, n, err := quoted(text[i:], byte(r), i)
			if err != nil {
				return nil, err
			}
			out = append(out, token{map[rune]byte{'`': 'q'}[r], s, i})
			if r != '`' {
				out[len(out)-1].kind = 's'
			}
			i += n
		default:
			n := size
			for _, two := range []string{"<=", ">=", "<>", "->", "<-", ".."} {
				if strings.HasPrefix(text[i:], two) {
					n = 2
				}
			}
			out = append(out, token{'p', text[i : i+n], i})
			i += n
		}
	}
	return append(out, token{0, "", len(text)}), nil
}

func numberLength(s string) int {
	n := 0
	digits := func() {
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
	}
	digits()
	if n+1 < len(s) && s[n] == '.' && s[n+1] >= '0' && s[n+1] <= '9' {
		n++
		digits()
	}
	if n < len(s) && s[n]|0x20 == 'e' {
		at := n
		if n++; n < len(s) && (s[n] == '+' || s[n] == '-') {
			n++
		}
		if begin := n; true {
			if digits(); n == begin {
				n = at
			}
		}
	}
	return n
}

// quoted reads a string or a name in backticks, and how long it is in the text.
func quoted(s string, end byte, pos int) (string, int, error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == end && end == '`' && i+1 < len(s) && s[i+1] == end:
			b.WriteByte(end)
			i++
		case s[i] == end:
			return b.String(), i + 1, nil
		case s[i] == '\\' && end != '`':
			r, n, ok := escape(s[i:])
			if !ok {
				return "", 0, &SyntaxError{pos + i, fmt.Sprintf("%q is no escape; \\n, \\t, \\', \\\", \\\\ and \\uXXXX are", s[i:min(i+2, len(s))])}
			}
			b.WriteRune(r)
			i += n - 1
		default:
			b.WriteByte(s[i])
		}
	}
	return "", 0, &SyntaxError{pos, fmt.Sprintf("the text that begins with %c has no end", end)}
}

func escape(s string) (r rune, n int, ok bool) {
	if len(s) < 2 {
		return 0, 0, false
	}
	if plain, ok := map[byte]rune{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', '\'': '\'', '"': '"', '\\': '\\'}[s[1]]; ok {
		return plain, 2, true
	}
	if s[1] != 'u' || len(s) < 6 {
		return 0, 0, false
	}
	for _, c := range s[2:6] {
		d := strings.IndexRune("0123456789abcdef", unicode.ToLower(c))
		if d < 0 {
			return 0, 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, 6, true
}
