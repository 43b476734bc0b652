package graphson

import (
	"strings"

	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// program reads what occurs only in traversals. n is the node with the type.
func (r *reader) program(n *node, name string, v *node) (any, bool) {
	switch name {
	case "g:Bytecode":
		return r.bytecode(v), true
	case "g:P", "g:TextP":
		return r.predicate(v), true
	case "g:Class":
		return gremlin.Class(message.SimpleName(r.string(v, "a class"))), true
	case "g:Binding":
		if r.want(v, object, "a binding") {
			return r.value(v.field("value")), true
		}
		return nil, true
	case "g:CardinalityValueTraversal":
		if !r.want(v, object, "a cardinality and a value") {
			return nil, true
		}
		c := v.field("cardinality")
		return r.cardinal(v, []any{r.value(c), r.value(v.field("value"))}), true
	case "g:Lambda":
		r.failf(n, "lambdas are not supported; use a traversal")
		return nil, true
	}
	if class, ok := strings.CutPrefix(name, "g:"); ok && strings.HasSuffix(class, "Strategy") {
		return r.strategy(class, v), true
	}
	return nil, false
}

// strategy reads the options of a strategy. Some drivers send the name of the
// class beside them.
func (r *reader) strategy(name string, v *node) any {
	if !r.want(v, object, "the options of a strategy") {
		return nil
	}
	if conf := v.field("conf"); conf != nil && v.field("fqcn") != nil {
		if !r.want(conf, object, "the options of a strategy") {
			return nil
		}
		v = conf
	}
	m, ok := r.value(v).(*value.Map)
	if !ok {
		r.failf(v, "expected the options of a strategy")
	}
	return gremlin.Strategy{Name: name, Config: m}
}

// bytecode reads the calls of a traversal and of its source. A single source call
// stands for a value with a cardinality.
func (r *reader) bytecode(v *node) any {
	if !r.want(v, object, "bytecode") {
		return nil
	}
	t := &gremlin.Traversal{Source: r.calls(v.field("source")), Steps: r.calls(v.field("step"))}
	if r.err == nil && len(t.Source) == 1 && t.Source[0].Name == message.CardinalityCall {
		return r.cardinal(v, t.Source[0].Args)
	}
	return t
}

// cardinal makes a value with a cardinality of both.
func (r *reader) cardinal(v *node, args []any) any {
	if c, val, ok := message.Cardinal(args); ok {
		return gremlin.Cardinal{Cardinality: c, Val: val}
	}
	r.failf(v, "expected a cardinality and a value")
	return nil
}

// calls reads arrays of names and arguments.
func (r *reader) calls(v *node) []gremlin.Call {
	if v == nil || !r.want(v, array, "calls") {
		return nil
	}
	var calls []gremlin.Call
	for _, item := range v.items {
		if !r.want(item, array, "a call") || len(item.items) == 0 {
			r.failf(item, "expected a call's name and arguments")
			return nil
		}
		c := gremlin.Call{Name: r.string(item.items[0], "a call's name"), Pos: gremlin.NoPos}
		for _, arg := range item.items[1:] {
			v := r.value(arg)
			if s, ok := v.(gremlin.Strategy); ok && c.Name == "withoutStrategies" { // as gremlinpython sends it
				v = gremlin.Class(s.Name)
			}
			c.Args = append(c.Args, v)
		}
		calls = append(calls, c)
	}
	return calls
}

// predicate reads a name and a value, which is a list of values for predicates
// that have several.
func (r *reader) predicate(v *node) any {
	if !r.want(v, object, "a predicate") {
		return nil
	}
	p := &gremlin.P{Name: r.string(v.field("predicate"), "a predicate")}
	val := r.value(v.field("value"))
	switch p.Name {
	case "within", "without", "between", "inside", "outside", "and", "or", "not":
		switch several := val.(type) {
		case value.List:
			p.Args = several
			return p
		case *value.Set:
			p.Args = several.Items()
			return p
		}
	}
	if v.field("value") != nil {
		p.Args = []any{val}
	}
	return p
}
