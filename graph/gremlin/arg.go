package gremlin

import (
	"math"
	"strings"

	"github.com/skerrydb/skerry/graph/value"
)

// arg reads one argument. If classes is true, an unknown name is a strategy's.
func (p *parser) arg(classes bool) (any, error) {
	p.depth++
	defer func() { p.depth-- }()
	p.reach = max(p.reach, p.depth)
	if p.depth > MaxDepth {
		return nil, p.fail(p.tok.pos, "the text is nested deeper than %d levels", MaxDepth)
	}
	switch {
	case p.tok.kind == number:
		return p.number()
	case p.tok.kind == str:
		return p.str()
	case p.tok.kind == ident:
		return p.named(classes)
	case p.is("["):
		return p.brackets()
	case p.is("{"):
		return p.braces()
	}
	if err := p.groovy(); err != nil {
		return nil, err
	}
	return nil, p.fail(p.tok.pos, "found %s, expected an argument", p.found())
}

func (p *parser) number() (any, error) {
	t := p.tok
	v, err := parseNumber(t.text)
	if err != nil {
		return nil, p.fail(t.pos, "%s", err)
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if !p.is("..") {
		return v, nil
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	end, err := any(nil), error(nil)
	if p.tok.kind == number {
		end, err = parseNumber(p.tok.text)
	}
	from, ok := value.Int(v)
	to, ok2 := value.Int(end)
	if err != nil || !ok || !ok2 {
		return nil, p.fail(t.pos, "a range needs two integers of at most 64 bits, as 1..5")
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	_, small := v.(int32)
	_, small2 := end.(int32)
	return p.span(t.pos, from, to, 0, func(n int64) any {
		if small && small2 {
			return int32(n)
		}
		return n
	})
}

// span returns the items of a range, which may go down. Each is of size bytes.
func (p *parser) span(pos int, from, to int64, size int, item func(int64) any) (any, error) {
	steps := uint64(max(from, to)) - uint64(min(from, to))
	if steps < MaxRangeItems {
		p.ranged += (int(steps) + 1) * (1 + size/rangeItemBytes)
	}
	if steps >= MaxRangeItems || p.ranged > MaxRangeItems {
		return nil, p.fail(pos, "the ranges of the text have more than %d items", MaxRangeItems)
	}
	list := make(value.List, 0, steps+1)
	step := int64(1)
	if to < from {
		step = -1
	}
	for n := from; ; n += step {
		list = append(list, item(n))
		if n == to {
			return list, nil
		}
	}
}

// text reads the string that comes next.
func (p *parser) text(what string) (string, error) {
	if p.tok.kind != str {
		return "", p.fail(p.tok.pos, "found %s, expected %s", p.found(), what)
	}
	s, bad := unquote(p.tok.text)
	if bad != nil {
		return "", p.fail(p.tok.pos+bad.off, "%s", bad.msg)
	}
	return s, p.advance()
}

// str reads a string, a character as 'x'c, or a range of strings.
func (p *parser) str() (any, error) {
	t := p.tok
	s, err := p.text("a string")
	if err != nil {
		return nil, err
	}
	runes := []rune(s)
	if p.tok.kind == ident && p.tok.text == "c" && p.tok.pos == t.end() && len(runes) == 1 {
		return value.Char(runes[0]), p.advance()
	}
	if !p.is("..") {
		return s, nil
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	to, err := p.text("the string that ends the range")
	if err != nil {
		return nil, err
	}
	end := []rune(to)
	last := len(runes) - 1
	if len(end) != len(runes) || last < 0 || string(runes[:last]) != string(end[:last]) {
		return nil, p.fail(t.pos, "a range needs two strings that differ in their last character only, as 'a'..'c'")
	}
	prefix := string(runes[:last])
	return p.span(t.pos, int64(runes[last]), int64(end[last]), len(s), func(n int64) any { return prefix + string(rune(n)) })
}

// named reads an argument that begins with a name.
func (p *parser) named(classes bool) (any, error) {
	name := p.tok
	switch name.text {
	case "new":
		return p.construct(classes)
	case "__":
		return p.anonymous()
	}
	if v, ok := literal(name.text); ok {
		return v, p.advance()
	}
	switch next := p.peek(); {
	case next.kind != punct:
	case next.text == "(":
		return p.function(classes)
	case next.text == ".":
		return p.member()
	case next.text == "->" || next.text == "{":
		return nil, p.fail(name.pos, closure)
	}
	if c, ok := constant(name.text); ok {
		return c, p.advance()
	}
	if p.bindings != nil {
		if v, ok := p.bindings.Get(name.text); ok {
			return v, p.advance()
		}
	}
	if isGType(name.text) {
		return value.Enum{Kind: value.KindGType, Name: name.text}, p.advance()
	}
	if p.peek().text == "=" {
		if err := p.advance(); err != nil {
			return nil, err
		}
		return nil, p.groovy()
	}
	if classes || strings.HasSuffix(name.text, "Strategy") {
		return Class(name.text), p.advance()
	}
	return nil, p.fail(name.pos, "unknown variable %s: no value is bound to it", short(name.text))
}

func literal(name string) (any, bool) {
	switch name {
	case "true":
		return true, true
	case "false":
		return false, true
	case "null":
		return nil, true
	case "NaN":
		return math.NaN(), true
	case "Infinity":
		return math.Inf(1), true
	}
	return nil, false
}

// anonymous reads a traversal from __ on. Without steps it does nothing.
func (p *parser) anonymous() (any, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	if !p.is(".") {
		return &Traversal{}, nil
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	return p.chain()
}

// member reads Class.name, which is a constant, a predicate or a cardinality.
func (p *parser) member() (any, error) {
	class := p.tok
	if err := p.foreign(class); err != nil {
		return nil, err
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if class.text == "VertexProperty" && p.tok.text == value.KindCardinality {
		class.text = value.KindCardinality
		if err := p.advance(); err != nil {
			return nil, err
		}
		if err := p.expect(".", "after Cardinality"); err != nil {
			return nil, err
		}
	}
	name := p.tok
	called := p.peek()
	switch {
	case name.kind != ident:
		return nil, p.fail(name.pos, "found %s, expected a name after %s.", p.found(), class.text)
	case class.text == "P" || class.text == "TextP":
		return p.predicateChain()
	case class.text == value.KindCardinality && isCardinality(name.text) && called.text == "(":
		return p.cardinal()
	}
	if v, ok := classConstant(class.text, name.text); ok {
		return v, p.advance()
	}
	return nil, p.fail(name.pos, "%s has no constant %s", class.text, short(name.text))
}
