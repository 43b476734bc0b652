package sqldriver

import (
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// peek returns the next byte, or 0 at the end.
func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// take consumes s if it is next.
func (p *parser) take(s string) bool {
	if !strings.HasPrefix(p.text[p.at:], s) {
		return false
	}
	p.at += len(s)
	return true
}

// space skips white space and comments.
func (p *parser) space() error {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
			p.at++
		case strings.HasPrefix(p.text[p.at:], "--"):
			if i := strings.IndexByte(p.text[p.at:], '\n'); i >= 0 {
				p.at += i + 1
			} else {
				p.at = len(p.text)
			}
		case strings.HasPrefix(p.text[p.at:], "/*"):
			i := strings.Index(p.text[p.at+2:], "*/")
			if i < 0 {
				return p.fail("the comment is not closed: */ is missing")
			}
			p.at += i + 4
		default:
			return nil
		}
	}
	return nil
}

// word parses an unquoted name or keyword, or returns "" if there is none.
func (p *parser) word() string {
	from := p.at
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		letter := r == '_' || r != utf8.RuneError && unicode.IsLetter(r)
		if !letter && (p.at == from || r != '.' && !unicode.IsDigit(r)) {
			break
		}
		p.at += n
	}
	return p.text[from:p.at]
}

// identifier parses a name, or returns "" if there is none. A name with characters other
// than letters, digits, _ and dots must be in double quotes or backquotes.
func (p *parser) identifier() (string, error) {
	if c := p.peek(); c == '"' || c == '`' {
		at := p.at
		name, err := p.quoted(c)
		if err == nil && name == "" {
			return "", p.failAt(at, "an empty name")
		}
		return name, err
	}
	return p.word(), nil
}

// quoted parses quoted text. Two quotes within it stand for one.
func (p *parser) quoted(quote byte) (string, error) {
	start := p.at
	p.at++
	from := p.at
	doubled := false
	for {
		i := strings.IndexByte(p.text[p.at:], quote)
		if i < 0 {
			return "", p.failAt(start, "the quotation mark %c that opens here is not closed", quote)
		}
		p.at += i + 1
		if p.peek() != quote {
			break
		}
		doubled = true
		p.at++
	}
	s := p.text[from : p.at-1]
	if doubled {
		q := string(quote)
		s = strings.ReplaceAll(s, q+q, q)
	}
	return s, nil
}

// hex parses the quoted part of X'00ff'.
func (p *parser) hex(at int) ([]byte, error) {
	text, err := p.quoted('\'')
	if err != nil {
		return nil, err
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		return nil, p.failAt(at, "X'…' has pairs of hexadecimal digits")
	}
	return b, nil
}

// number parses a number in JSON syntax, optionally with a plus sign.
func (p *parser) number() (number, error) {
	at := p.at
	p.take("+")
	from := p.at
	if from == at {
		p.take("-")
	}
	whole := p.digits()
	good := whole != "" && (len(whole) == 1 || whole[0] != '0')
	if p.take(".") {
		good = p.digits() != "" && good
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.at++
		if !p.take("+") {
			p.take("-")
		}
		good = p.digits() != "" && good
	}
	text := p.text[from:p.at]
	if rest := p.word(); rest != "" || !good {
		p.at = at
		return "", p.fail("%s is not a number such as 5, -5, 0.5 or 5e3", clip(p.text[at:max(at+1, from+len(text)+len(rest))]))
	}
	return number(text), nil
}

// digits parses decimal digits.
func (p *parser) digits() string {
	from := p.at
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		p.at++
	}
	return p.text[from:p.at]
}
