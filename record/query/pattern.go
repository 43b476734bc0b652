package query

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// pattern is the right side of ~ and !~. Letters match in upper and lower case, by Unicode's simple folding.
type pattern struct {
	parts []string // folded texts between which anything may stand
	exact bool     // there was a %: the parts make up the whole text
}

// newPattern reads a pattern. Without a % it is contained in the text; with one, it is like the text as a whole, and
// each % stands for any characters. \% is a % itself, and \\ a backslash.
func newPattern(text string) *pattern {
	p := &pattern{}
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && (text[i+1] == '%' || text[i+1] == '\\'):
			i++
			part.WriteByte(text[i])
		case c == '%':
			p.parts = append(p.parts, fold(part.String()))
			part.Reset()
			p.exact = true
		default:
			part.WriteByte(c)
		}
	}
	p.parts = append(p.parts, fold(part.String()))
	return p
}

// match reports whether text matches. It takes time in proportion to the length of text for each part.
func (p *pattern) match(text string) bool {
	text = fold(text)
	if !p.exact {
		return strings.Contains(text, p.parts[0])
	}
	text, ok := strings.CutPrefix(text, p.parts[0])
	if !ok {
		return false
	}
	last := len(p.parts) - 1
	for _, part := range p.parts[1:last] {
		_, after, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = after
	}
	return strings.HasSuffix(text, p.parts[last])
}

// fold replaces each letter by the smallest one that differs from it only in case.
func fold(s string) string {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] < utf8.RuneSelf
	}
	if plain {
		return strings.ToLower(s)
	}
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		if least < utf8.RuneSelf {
			return unicode.ToLower(least) // as above
		}
		return least
	}, s)
}
