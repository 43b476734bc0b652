package gremlin

import (
	"strings"

	"github.com/skerrydb/skerry/graph/value"
)

// closure refuses { it.get() } and x -> y.
const closure = "closures are not supported: use a traversal instead"

// groovy returns an error if the next token is an operator or another mark that
// Groovy has and Gremlin has not.
func (p *parser) groovy() error {
	t := p.tok
	if t.kind == number && (p.last.kind == number || p.last.kind == str) && strings.ContainsAny(t.text[:1], "+-") {
		return p.fail(t.pos, "operators are not supported: found %s after a value", p.found())
	}
	if t.kind != punct {
		return nil
	}
	switch t.text {
	case "{", "->":
		return p.fail(t.pos, closure)
	case "=":
		if p.peek().text == "=" {
			return p.fail(t.pos, "operators are not supported: use a predicate, such as eq()")
		}
		return p.fail(t.pos, "assignments are not supported: bind the value to a variable instead")
	case "+":
		if p.last.kind == str || p.peek().kind == str {
			return p.fail(t.pos, "strings cannot be joined with +: bind the string to a variable instead")
		}
		return p.fail(t.pos, "operators are not supported: found +")
	case "-", "*", "/", "%", "<", ">", "!", "&", "|", "^", "~", "?", "@":
		return p.fail(t.pos, "operators are not supported: found %s", t.text)
	case ";":
		return p.fail(t.pos, "found ; inside a traversal, and several statements in one text are not supported")
	case "[":
		return p.fail(t.pos, "brackets after a value are not supported: use a step, such as limit() or range()")
	case "(":
		return p.fail(t.pos, "parentheses around a value are not supported, except for keys of maps")
	case ".":
		return p.fail(t.pos, "methods of values are not supported")
	}
	return nil
}

// statement refuses a text that begins as Groovy's statements do.
func (p *parser) statement() error {
	t := p.tok
	if t.kind != ident {
		return nil
	}
	next := p.peek()
	switch t.text {
	case "new":
		return p.fail(t.pos, "new %s is not supported: only strategies and vertices can be constructed, as arguments", short(next.text))
	case "__":
		return p.fail(t.pos, "an anonymous traversal can only be an argument: begin the text with a source, such as g")
	case "def", "import", "if", "for", "while", "switch", "try", "throw", "return", "class", "assert", "final", "var":
		if next.kind != punct || next.text != "." {
			return p.fail(t.pos, "Groovy's %s is not supported: expected a traversal, such as g.V()", t.text)
		}
	}
	switch {
	case next.kind == ident:
		return p.fail(next.pos, "found %s after %s: declarations are not supported", short(next.text), short(t.text))
	case next.text == "(":
		return p.fail(t.pos, "%s is a call: expected a source of traversals, such as g", short(t.text))
	case next.text == "." && 'A' <= t.text[0] && t.text[0] <= 'Z':
		return p.fail(t.pos, "%s is a class: expected a source of traversals, such as g", short(t.text))
	}
	return nil
}

// endOfText returns an error if the text goes on after its traversal.
func (p *parser) endOfText() error {
	if p.tok.kind == eof {
		return nil
	}
	if err := p.groovy(); err != nil {
		return err
	}
	if p.tok.kind == ident {
		return p.fail(p.tok.pos, "found %s after the end of the traversal: several statements in one text are not supported", p.found())
	}
	return p.fail(p.tok.pos, "found %s after the end of the traversal", p.found())
}

// foreign returns an error if class, which a dot follows, has no constants here.
func (p *parser) foreign(class token) error {
	switch class.text {
	case "P", "TextP", "VertexProperty", "WithOptions", "IO", "PageRank", "PeerPressure", "ConnectedComponent", "ShortestPath",
		value.KindT, value.KindDirection, value.KindOrder, value.KindScope, value.KindPop, value.KindColumn, value.KindOperator,
		value.KindMerge, value.KindPick, value.KindBarrier, value.KindCardinality, value.KindDT, value.KindGType:
		return nil
	case "Lambda":
		return p.fail(class.pos, "lambdas are not supported: use a traversal instead")
	case p.source:
		return p.fail(class.pos, "a traversal from %s cannot be an argument: begin it with __", class.text)
	}
	if p.bindings != nil {
		if _, ok := p.bindings.Get(class.text); ok {
			return p.fail(class.pos, "methods of values are not supported: found . after the variable %s", class.text)
		}
	}
	return p.fail(class.pos, "%s is not one of Gremlin's classes, and those of Groovy are not supported", short(class.text))
}
