package graphson

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/skerrydb/skerry/graph/message"
)

// kind is the kind of a node, by the first byte of its JSON.
type kind byte

const (
	object kind = '{'
	array  kind = '['
	text   kind = '"'
	number kind = '0'
	truth  kind = 't'
	null   kind = 'n'
)

func (k kind) String() string {
	switch k {
	case object:
		return "an object"
	case array:
		return "an array"
	case text:
		return "a string"
	case number:
		return "a number"
	case truth:
		return "a boolean"
	}
	return "null"
}

// node is a JSON value: its types can stand after what they are the types of.
type node struct {
	at    int // in bytes, from the beginning
	kind  kind
	text  string  // of strings, numbers and booleans
	items []*node // of arrays; of objects names and values alternate
}

// field returns a value of an object; nil if there is none.
func (n *node) field(name string) *node {
	if n == nil || n.kind != object {
		return nil
	}
	for i := 0; i+1 < len(n.items); i += 2 {
		if n.items[i].text == name {
			return n.items[i+1]
		}
	}
	return nil
}

// parser reads JSON into nodes.
type parser struct {
	src   []byte
	at    int
	nodes int
}

// parse reads one JSON value. Errors are *message.Error.
func parse(b []byte) (*node, error) {
	p := &parser{src: b}
	n, err := p.next(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(b) {
		return nil, failure(p.at, "expected the end")
	}
	return n, nil
}

func failure(at int, format string, args ...any) *message.Error {
	return &message.Error{Offset: at, Msg: fmt.Sprintf(format, args...)}
}

// space skips white space and returns the byte after it; 0 at the end.
func (p *parser) space() byte {
	for ; p.at < len(p.src); p.at++ {
		switch c := p.src[p.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// expected is the failure to find something where the parser stands.
func (p *parser) expected(what string) error {
	if p.at >= len(p.src) {
		return failure(p.at, "expected %s, the message ends", what)
	}
	return failure(p.at, "expected %s, found %q", what, p.src[p.at])
}

// next reads a value that has depth others around it.
func (p *parser) next(depth int) (*node, error) {
	c := p.space()
	n := &node{at: p.at}
	if p.nodes++; p.nodes > maxNodes {
		return nil, failure(n.at, "expected at most %d JSON values", maxNodes)
	}
	switch {
	case c == '"':
		s, err := p.string()
		n.kind, n.text = text, s
		return n, err
	case c == '{' || c == '[':
		if depth++; depth > maxNesting {
			return nil, failure(n.at, "expected JSON nested at most %d deep", maxNesting)
		}
		n.kind = kind(c)
		p.at++
		if n.kind == object {
			return n, p.fields(n, depth)
		}
		return n, p.items(n, depth)
	case c == '-' || c >= '0' && c <= '9':
		n.kind = number
		return n, p.number(n)
	}
	for _, word := range []string{"null", "true", "false"} {
		if rest := p.src[p.at:]; len(rest) >= len(word) && string(rest[:len(word)]) == word {
			n.kind, n.text = truth, word
			if word == "null" {
				n.kind, n.text = null, ""
			}
			p.at += len(word)
			return n, nil
		}
	}
	return nil, p.expected("JSON")
}

// items reads what an array has after its bracket.
func (p *parser) items(n *node, depth int) error {
	if p.space() == ']' {
		p.at++
		return nil
	}
	for {
		item, err := p.next(depth)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
		switch p.space() {
		case ',':
			p.at++
		case ']':
			p.at++
			return nil
		default:
			return p.expected(", or ] in JSON")
		}
	}
}

// fields reads what an object has after its brace.
func (p *parser) fields(n *node, depth int) error {
	if p.space() == '}' {
		p.at++
		return nil
	}
	for {
		if p.space() != '"' {
			return p.expected("a name in JSON")
		}
		name, err := p.next(depth)
		if err != nil {
			return err
		}
		if p.space() != ':' {
			return p.expected(": in JSON")
		}
		p.at++
		val, err := p.next(depth)
		if err != nil {
			return err
		}
		n.items = append(n.items, name, val)
		switch p.space() {
		case ',':
			p.at++
		case '}':
			p.at++
			return nil
		default:
			return p.expected(", or } in JSON")
		}
	}
}

// string reads a string, of which the parser stands at the quote. What is not
// UTF-8 becomes U+FFFD, as in encoding/json.
func (p *parser) string() (string, error) {
	begin := p.at
	plain := true
	for p.at++; p.at < len(p.src); p.at++ {
		switch c := p.src[p.at]; {
		case c == '"':
			p.at++
			raw := p.src[begin:p.at]
			if plain && utf8.Valid(raw) {
				return string(raw[1 : len(raw)-1]), nil
			}
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return "", failure(begin, "expected a string in JSON: %v", err)
			}
			return s, nil
		case c == '\\':
			plain = false
			p.at++
		case c < ' ':
			return "", p.expected("no control character in a string of JSON")
		}
	}
	p.at = len(p.src)
	return "", p.expected("the end of a string in JSON")
}

// number reads a number's text.
func (p *parser) number(n *node) error {
	digits := func() bool {
		from := p.at
		for p.at < len(p.src) && p.src[p.at] >= '0' && p.src[p.at] <= '9' {
			p.at++
		}
		return p.at > from
	}
	skip := func(chars string) bool {
		if p.at < len(p.src) && strings.IndexByte(chars, p.src[p.at]) >= 0 {
			p.at++
			return true
		}
		return false
	}
	skip("-")
	if !skip("0") && !digits() || skip(".") && !digits() {
		return p.expected("a digit in JSON")
	}
	if skip("eE") {
		skip("+-")
		if !digits() {
			return p.expected("a digit in JSON")
		}
	}
	n.text = string(p.src[n.at:p.at])
	return nil
}
