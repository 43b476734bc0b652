package gremlin

import (
	"math/big"
	"time"

	"github.com/skerrydb/skerry/graph/value"
)

// brackets reads a list or a map.
func (p *parser) brackets() (any, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.is(":") {
		if err := p.advance(); err != nil {
			return nil, err
		}
		return &value.Map{}, p.expect("]", "after [:")
	}
	list, entries := value.List{}, (*value.Map)(nil)
	for first := true; !p.is("]"); first = false {
		if !first {
			if err := p.expect(",", "or ] after an item"); err != nil {
				return nil, err
			}
		}
		at := p.tok
		key, isKey, err := p.item()
		if err != nil {
			return nil, err
		}
		if first && isKey {
			entries = &value.Map{}
		}
		if isKey != (entries != nil) {
			return nil, p.fail(at.pos, "a list cannot have keys, and each item of a map needs one")
		}
		if !isKey {
			list = append(list, key)
			continue
		}
		v, err := p.arg(false)
		if err != nil {
			return nil, err
		}
		entries.Set(key, v)
	}
	if entries != nil {
		return entries, p.advance()
	}
	return list, p.advance()
}

// item reads an item of a list, or the key, with its colon, of an entry of a map.
func (p *parser) item() (v any, isKey bool, err error) {
	at := p.tok
	if at.kind == ident && p.peek().text == ":" {
		if err := p.advance(); err != nil {
			return nil, false, err
		}
		return at.text, true, p.advance()
	}
	defer p.countKeys()()
	inside := p.is("(")
	if inside {
		if err := p.advance(); err != nil {
			return nil, false, err
		}
	}
	if v, err = p.arg(false); err != nil {
		return nil, false, err
	}
	if inside {
		if err := p.expect(")", "after the key of a map"); err != nil {
			return nil, false, err
		}
		if !p.is(":") {
			return nil, false, p.fail(at.pos, "parentheses around a value are not supported, except for keys of maps")
		}
	}
	if !p.is(":") {
		return v, false, nil
	}
	if !plain(v) {
		return nil, false, p.fail(at.pos, "the key of a map cannot be a traversal, a predicate or a strategy")
	}
	if p.keys++; p.keys > MaxKeyDepth {
		return nil, false, p.fail(at.pos, "sets and keys of maps are nested deeper than %d levels", MaxKeyDepth)
	}
	return v, true, p.advance()
}

// countKeys starts to count the sets and keys inside an item anew. The function
// that it returns ends that.
func (p *parser) countKeys() func() {
	outside := p.keys
	p.keys = 0
	return func() { p.keys = max(p.keys, outside) }
}

// braces reads a set.
func (p *parser) braces() (any, error) {
	at := p.tok
	if p.closureAhead() {
		return nil, p.fail(at.pos, closure)
	}
	defer p.countKeys()()
	if err := p.advance(); err != nil {
		return nil, err
	}
	set := &value.Set{}
	for first := true; !p.is("}"); first = false {
		if !first {
			if err := p.expect(",", "or } after an item"); err != nil {
				return nil, err
			}
		}
		at := p.tok
		v, err := p.arg(false)
		if err != nil {
			return nil, err
		}
		if !plain(v) {
			return nil, p.fail(at.pos, "a set cannot have a traversal, a predicate or a strategy in it")
		}
		if p.keys >= MaxKeyDepth {
			return nil, p.fail(at.pos, "sets and keys of maps are nested deeper than %d levels", MaxKeyDepth)
		}
		set.Add(v)
	}
	p.keys++
	return set, p.advance()
}

// closureAhead reports whether the braces that come next are a closure's.
func (p *parser) closureAhead() bool {
	const most = 16 // tokens to look at: parameters come first
	ahead := p.scan
	for i := range most {
		t, err := ahead.next()
		switch {
		case err != nil || t.kind == eof || t.text == "}":
			return false
		case t.kind == ident && t.text == "it" && i == 0, t.kind == punct && t.text == "->":
			return true
		}
	}
	return false
}

// plain reports whether v is a value of package value in all its parts, so that
// it can be in a set.
func plain(v any) bool {
	switch x := v.(type) {
	case nil, bool, int8, int16, int32, int64, *big.Int, float32, float64, value.Decimal, string, value.Char, value.UUID,
		time.Time, value.Duration, []byte, value.Enum, value.Element:
		return true
	case value.List:
		for _, item := range x {
			if !plain(item) {
				return false
			}
		}
		return true
	case *value.Set:
		return true
	case *value.Map:
		for _, e := range x.Entries() {
			if !plain(e.Val) {
				return false
			}
		}
		return true
	}
	return false
}
