package gremlin

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind uint8

const (
	eof kind = iota
	ident
	str
	number
	punct
)

// token is a piece of the text, as it is written there.
type token struct {
	kind kind
	pos  int
	text string
}

func (t token) end() int { return t.pos + len(t.text) }

// scanner cuts valid UTF-8 into tokens. A copy of it is a way to look ahead.
type scanner struct {
	text string
	at   int
}

func (s *scanner) fail(pos int, msg string) error {
	return syntaxError(s.text, pos, msg)
}

// next returns the next token, which is eof for ever at the end.
func (s *scanner) next() (token, error) {
	if err := s.skip(); err != nil {
		return token{}, err
	}
	if s.at == len(s.text) {
		return token{kind: eof, pos: s.at}, nil
	}
	start := s.at
	switch c := s.text[start]; {
	case c == '\'' || c == '"':
		return s.quoted(c)
	case s.numberAhead():
		return s.number()
	case strings.HasPrefix(s.text[start:], ".."), strings.HasPrefix(s.text[start:], "->"):
		s.at += 2
		return s.token(punct, start), nil
	}
	r, size := utf8.DecodeRuneInString(s.text[start:])
	s.at += size
	if !identStart(r) {
		return s.token(punct, start), nil
	}
	s.identRest()
	return s.token(ident, start), nil
}

func (s *scanner) token(k kind, start int) token {
	return token{kind: k, pos: start, text: s.text[start:s.at]}
}

// skip passes over white space and comments.
func (s *scanner) skip() error {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n', '\f':
			s.at++
			continue
		case '/':
		default:
			return nil
		}
		rest := s.text[s.at:]
		if strings.HasPrefix(rest, "/*") {
			return s.fail(s.at, "comments between /* and */ are not supported: use //")
		}
		if !strings.HasPrefix(rest, "//") {
			return nil
		}
		end := strings.IndexAny(rest, "\r\n")
		if end < 0 {
			end = len(rest)
		}
		s.at += end
	}
	return nil
}

// quoted scans a string that begins with quote. Escapes are checked by unquote.
func (s *scanner) quoted(quote byte) (token, error) {
	start := s.at
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\\':
			s.at++
		case quote:
			s.at++
			if s.at-start == 2 && s.at < len(s.text) && s.text[s.at] == quote {
				return token{}, s.fail(start, "triple-quoted strings are not supported")
			}
			return s.token(str, start), nil
		}
	}
	return token{}, s.fail(start, "the string that begins here does not end")
}

// numberAhead reports whether a number with or without a sign comes next.
func (s *scanner) numberAhead() bool {
	rest := s.text[s.at:]
	if rest[0] == '+' || rest[0] == '-' {
		rest = rest[1:]
		if strings.HasPrefix(rest, "Infinity") {
			return true
		}
	}
	rest = strings.TrimPrefix(rest, ".")
	return rest != "" && digit(rest[0])
}

func (s *scanner) number() (token, error) {
	start := s.at
	if c := s.text[s.at]; c == '+' || c == '-' {
		s.at++
	}
	rest := s.text[s.at:]
	switch {
	case strings.HasPrefix(rest, "Infinity"):
		s.at += len("Infinity")
	case strings.HasPrefix(rest, "0x"), strings.HasPrefix(rest, "0X"):
		s.at += 2
		s.run(func(c byte) bool { return hexDigit(c) || c == '_' })
		s.one("sSnNiIlL")
	default:
		s.decimal()
	}
	t := s.token(number, start)
	if r, _ := utf8.DecodeRuneInString(s.text[s.at:]); s.at < len(s.text) && identPart(r) {
		s.identRest()
		return token{}, s.fail(start, short(s.text[start:s.at])+" is not a number")
	}
	return t, nil
}

// decimal scans digits, a fraction, an exponent and a suffix.
func (s *scanner) decimal() {
	digits := func(c byte) bool { return digit(c) || c == '_' }
	s.run(digits)
	rest := s.text[s.at:]
	if len(rest) > 1 && rest[0] == '.' && digit(rest[1]) {
		s.at++
		s.run(digits)
	}
	rest = s.text[s.at:]
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		sign := 1
		if len(rest) > 1 && (rest[1] == '+' || rest[1] == '-') {
			sign = 2
		}
		if len(rest) > sign && digit(rest[sign]) {
			s.at += sign
			s.run(digits)
		}
	}
	s.one("bBsSnNiIlLfFdDmM")
}

func (s *scanner) run(is func(byte) bool) {
	for s.at < len(s.text) && is(s.text[s.at]) {
		s.at++
	}
}

func (s *scanner) one(of string) {
	if s.at < len(s.text) && strings.IndexByte(of, s.text[s.at]) >= 0 {
		s.at++
	}
}

func (s *scanner) identRest() {
	for s.at < len(s.text) {
		r, size := utf8.DecodeRuneInString(s.text[s.at:])
		if !identPart(r) {
			return
		}
		s.at += size
	}
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func hexDigit(c byte) bool {
	return digit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// identStart reports whether an identifier may begin with r, as in Java.
func identStart(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_' || r == '$'
	}
	return unicode.In(r, unicode.L, unicode.Nl, unicode.Sc, unicode.Pc)
}

func identPart(r rune) bool {
	if r < utf8.RuneSelf {
		return identStart(r) || '0' <= r && r <= '9'
	}
	return identStart(r) || unicode.In(r, unicode.Nd, unicode.Mn, unicode.Mc)
}

// identifier reports whether s is one identifier.
func identifier(s string) bool {
	for i, r := range s {
		if i == 0 && !identStart(r) || !identPart(r) {
			return false
		}
	}
	return s != ""
}
