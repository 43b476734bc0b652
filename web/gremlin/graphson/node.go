package graphson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/skerrydb/skerry/web/gremlin/message"
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
	dec   *json.Decoder
	nodes int
}

// parse reads one JSON value. Errors are *message.Error.
func parse(b []byte) (*node, error) {
	p := &parser{src: b, dec: json.NewDecoder(bytes.NewReader(b))}
	p.dec.UseNumber()
	n, err := p.next(0)
	if err != nil {
		return nil, err
	}
	end := p.start()
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, failure(end, "expected the end")
	}
	return n, nil
}

func failure(at int, format string, args ...any) *message.Error {
	return &message.Error{Offset: at, Msg: fmt.Sprintf(format, args...)}
}

// start returns where the next token begins.
func (p *parser) start() int {
	at := int(p.dec.InputOffset())
	for at < len(p.src) && bytes.IndexByte([]byte(" \t\r\n,:"), p.src[at]) >= 0 {
		at++
	}
	return at
}

// next reads a value that has depth others around it. It returns nil without an
// error at the end of an array or object.
func (p *parser) next(depth int) (*node, error) {
	n := &node{at: p.start()}
	tok, err := p.dec.Token()
	if err != nil {
		var bad *json.SyntaxError
		if errors.As(err, &bad) {
			return nil, failure(int(bad.Offset), "expected JSON: %v", bad)
		}
		return nil, failure(len(p.src), "expected JSON, the message ends")
	}
	if p.nodes++; p.nodes > maxNodes {
		return nil, failure(n.at, "expected at most %d JSON values", maxNodes)
	}
	switch t := tok.(type) {
	case json.Delim:
		if t == ']' || t == '}' {
			return nil, nil
		}
		n.kind = kind(t)
		return n, p.fill(n, depth+1)
	case string:
		n.kind, n.text = text, t
	case json.Number:
		n.kind, n.text = number, t.String()
	case bool:
		n.kind = truth
		n.text = fmt.Sprint(t)
	default:
		n.kind = null
	}
	return n, nil
}

func (p *parser) fill(n *node, depth int) error {
	if depth > maxNesting {
		return failure(n.at, "expected JSON nested at most %d deep", maxNesting)
	}
	for {
		item, err := p.next(depth)
		if err != nil || item == nil {
			return err
		}
		n.items = append(n.items, item)
	}
}
