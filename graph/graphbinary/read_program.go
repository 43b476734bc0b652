package graphbinary

import (
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// program reads what occurs only in traversals.
func (r *reader) program(code byte, at int) (any, bool) {
	switch code {
	case typeBytecode:
		return r.bytecode(at), true
	case typeP, typeTextP:
		return r.predicate(), true
	case typeStrategy:
		return gremlin.Strategy{Name: message.SimpleName(r.string("a class")), Config: r.pairs()}, true
	case typeClass:
		return gremlin.Class(message.SimpleName(r.string("a class"))), true
	case typeBinding:
		r.string("a name")
		return r.value(), true
	case typeLambda:
		r.failf(at, "lambdas are not supported; use a traversal")
		return nil, true
	}
	return nil, false
}

// bytecode reads the calls of a traversal and then those of its source. A single
// source call stands for a value with a cardinality.
func (r *reader) bytecode(at int) any {
	t := &gremlin.Traversal{Steps: r.calls(), Source: r.calls()}
	if r.err != nil || len(t.Source) != 1 || t.Source[0].Name != message.CardinalityCall {
		return t
	}
	if c, val, ok := message.Cardinal(t.Source[0].Args); ok && len(t.Steps) == 0 {
		return gremlin.Cardinal{Cardinality: c, Val: val}
	}
	r.failf(at, "expected a cardinality and a value")
	return nil
}

func (r *reader) calls() []gremlin.Call {
	n := r.length("calls", 8)
	if n == 0 {
		return nil
	}
	calls := make([]gremlin.Call, 0, min(n, firstItems))
	for ; n > 0 && r.err == nil; n-- {
		c := gremlin.Call{Name: r.string("a call's name"), Args: r.args(), Pos: gremlin.NoPos}
		classes(c)
		calls = append(calls, c)
	}
	return calls
}

// classes changes the strategies that withoutStrategies has to classes, as some
// drivers send strategies.
func classes(c gremlin.Call) {
	if c.Name != "withoutStrategies" {
		return
	}
	for i, arg := range c.Args {
		if s, ok := arg.(gremlin.Strategy); ok {
			c.Args[i] = gremlin.Class(s.Name)
		}
	}
}

func (r *reader) args() []any {
	if items := r.items(); len(items) > 0 {
		return items
	}
	return nil
}

// predicate reads a name and values. Some drivers send the values of within and
// without as one list.
func (r *reader) predicate() any {
	p := &gremlin.P{Name: r.string("a predicate"), Args: r.args()}
	if (p.Name == "within" || p.Name == "without") && len(p.Args) == 1 {
		switch only := p.Args[0].(type) {
		case value.List:
			p.Args = only
		case *value.Set:
			p.Args = only.Items()
		}
	}
	return p
}
