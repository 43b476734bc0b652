// Package jsonscan reads a JSON text value by value, without building anything of it.
//
// It knows where values begin and end; it must not know what they are read into.
package jsonscan

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Scanner stands at one place of a JSON text. A copy of it stays where it is.
//
// An object or a list is read so, with Text before each value of an object:
//
//	for s.Open(); s.More('}'); {
type Scanner struct {
	text []byte
	at   int
}

// New returns a scanner at the begin of text, which must be valid JSON (see Valid):
// the methods panic or return nonsense for other texts.
func New(text []byte) Scanner { return Scanner{text: text} }

// Peek returns the first byte of the next value or the bracket that ends the object or
// list, 0 at the end of the text.
func (s *Scanner) Peek() byte {
	for ; s.at < len(s.text); s.at++ {
		switch b := s.text[s.at]; b {
		case ' ', '\t', '\r', '\n', ',', ':': // the text is valid: each stands in its place
		default:
			return b
		}
	}
	return 0
}

// Open enters the object or list that Peek has found.
func (s *Scanner) Open() { s.at++ }

// More reports whether the object or list that ends with end has another member. If not,
// it leaves the object or list.
func (s *Scanner) More(end byte) bool {
	if s.Peek() != end {
		return true
	}
	s.at++
	return false
}

// Raw returns the next value as it is written in the text, and goes behind it.
func (s *Scanner) Raw() []byte {
	s.Peek()
	from, depth := s.at, 0
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			s.skipString()
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		case ',', ':', ' ', '\t', '\r', '\n':
			s.at++ // within an object or list
			continue
		default:
			for s.at < len(s.text) && bytes.IndexByte(stops, s.text[s.at]) < 0 {
				s.at++
			}
		}
		if depth == 0 {
			break
		}
	}
	return s.text[from:s.at]
}

// stops end a number or a word.
var stops = []byte(" \t\r\n,:]}")

// skipString goes behind the string that begins here and reports whether its bytes are
// its value: no escapes and valid UTF-8.
func (s *Scanner) skipString() (plain bool) {
	plain = true
	from := s.at + 1
	for s.at++; ; s.at++ {
		if s.at += Plain(s.text[s.at:]); s.text[s.at] == '"' {
			break
		}
		if s.text[s.at] == '\\' {
			plain = false
			s.at++
		}
	}
	s.at++
	return plain && utf8.Valid(s.text[from:s.at-1])
}

// Text returns the value of the next string or name, and goes behind it. The bytes may
// alias the text. Like encoding/json it replaces invalid UTF-8 and lone surrogates with
// U+FFFD; whole is false if there is an escaped lone surrogate (\ud800).
func (s *Scanner) Text() (value []byte, whole bool) {
	s.Peek()
	from := s.at
	if s.skipString() {
		return s.text[from+1 : s.at-1], true
	}
	var v string
	if err := json.Unmarshal(s.text[from:s.at], &v); err != nil {
		panic("BUG: a valid JSON text has an invalid string: " + err.Error())
	}
	return []byte(v), !loneSurrogate(s.text[from:s.at])
}

// loneSurrogate reports whether a string has an escape that is only half of a character.
func loneSurrogate(s []byte) bool {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		if i++; s[i] != 'u' {
			continue
		}
		r := hex4(s[i+1:])
		i += 4
		if !utf16.IsSurrogate(r) {
			continue
		}
		if i+6 >= len(s) || s[i+1] != '\\' || s[i+2] != 'u' || utf16.DecodeRune(r, hex4(s[i+3:])) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

func hex4(s []byte) rune {
	n, _ := strconv.ParseUint(string(s[:4]), 16, 16) // valid JSON has four digits
	return rune(n)
}

// Kind names the kind of value that begins with first, for error texts: "a string".
func Kind(first byte) string {
	switch first {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}
