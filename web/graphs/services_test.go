package graphs_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
	"github.com/skerrydb/skerry/web/gremlin"
)

// TestServices declares indexes, a schema and a graph by call().
func TestServices(t *testing.T) {
	b, db := openBoth(t)
	want(t, b, "g.call()",
		"skerry.addIndex", "skerry.createGraph", "skerry.dropGraph", "skerry.graphs", "skerry.indexes", "skerry.removeIndex", "skerry.schema", "skerry.setSchema")
	want(t, b, "g.call('--list').next()", "skerry.addIndex")
	want(t, b, "g.addV('city').property('name', 'Oslo').count()", "1")

	want(t, b, "g.call('skerry.indexes')")
	want(t, b, "g.call('skerry.addIndex', ['label': 'city', 'keys': ['name'], 'unique': true])")
	want(t, b, "g.with('evaluationTimeout', 9000).call('skerry.addIndex').with('on', 'edge').with('keys', ['km', 'road']).iterate()")
	want(t, b, "g.call('skerry.indexes').hasNext()", "true")
	want(t, b, "g.call('skerry.indexes')", "{on=vertex, label=city, keys=[name], unique=true}", "{on=edge, keys=[km, road]}")
	if _, err := ask(t, b, "g.addV('city').property('name', 'Oslo')"); engine.CodeOf(errors.Unwrap(err)) != graph.CodeUnique {
		t.Errorf("a second Oslo: %v", err)
	}
	want(t, b, "g.call('skerry.removeIndex', ['on': 'edge', 'keys': ['km', 'road']])")
	want(t, b, "g.call('skerry.indexes').none()")
	want(t, b, "g.call('skerry.indexes').iterate()")
	want(t, b, "g.call('skerry.indexes')", "{on=vertex, label=city, keys=[name], unique=true}")

	want(t, b, "g.call('skerry.schema')")
	want(t, b, "g.call('skerry.setSchema', ['vertices': [['label': 'city', 'properties': [['key': 'name', 'types': ['string'], 'cardinality': 'set']]]], 'closed': true])")
	want(t, b, "g.call('skerry.schema')", "{vertices=[{label=city, properties=[{key=name, types=[STRING], cardinality=set}]}], closed=true, version=1}")
	if _, err := ask(t, b, "g.addV('town')"); engine.CodeOf(errors.Unwrap(err)) != graph.CodeSchema {
		t.Errorf("a town: %v", err)
	}
	want(t, b, "g.call('skerry.setSchema', [:])")
	want(t, b, "g.call('skerry.schema')")

	want(t, b, "g.call('skerry.createGraph', ['name': 'roads'])")
	want(t, b, "g.call('skerry.graphs')", "g", "roads")
	if names, err := db.Names(t.Context()); err != nil || len(names) != 2 {
		t.Errorf("graphs: %v, %v", names, err)
	}
	want(t, b, "g.call('skerry.dropGraph', ['name': 'roads'])")
	want(t, b, "g.call('skerry.graphs')", "g")
}

// TestServicesOfBytecode: drivers end iterate() with a step.
func TestServicesOfBytecode(t *testing.T) {
	b, _ := openBoth(t)
	for _, end := range []string{"none", "discard"} {
		r := request(t, "g.call('skerry.addIndex')")
		r.Traversal.Steps[0].Args = append(r.Traversal.Steps[0].Args, value.MapOf("keys", value.List{end}))
		r.Traversal.Steps = append(r.Traversal.Steps, request(t, "g.inject(1)."+end+"()").Traversal.Steps[1:]...)
		if err := b.Submit(t.Context(), r, func(val any, _ int64) error { t.Errorf("a result: %v", val); return nil }); err != nil {
			t.Error(err)
		}
	}
	want(t, b, "g.call('skerry.indexes')", "{on=vertex, keys=[none]}", "{on=vertex, keys=[discard]}")
}

// TestBadCalls: what is not a call of a service, or not alone, is refused, and nothing
// is declared.
func TestBadCalls(t *testing.T) {
	b, _ := openBoth(t)
	for text, say := range map[string]string{
		"g.call('skerry.addindex')": `call(): there is no service "skerry.addindex"; g.call() lists them [not_found]`,
		"g.call('')":                "a service is called with its name and a map of its arguments",
		"g.call('skerry.addIndex', __.constant(['keys': ['a']]))":        "a service is called with its name and a map of its arguments",
		"g.call('skerry.addIndex', ['keys': ['a']], __.constant([:]))":   "a service is called with its name and a map of its arguments",
		"g.call('skerry.addIndex', ['keys': ['a']]).V()":                 "a service is called by itself",
		"g.call('skerry.addIndex', ['keys': ['a']]).none().none()":       "a service is called by itself",
		"g.withoutStrategies(ReadOnlyStrategy).call('skerry.graphs')":    "a service is called by itself",
		"g.withStrategies(ReadOnlyStrategy).call('skerry.graphs')":       "a service is called by itself",
		"g.V().call('skerry.graphs')":                                    "services are called by themselves",
		"g.inject(1).map(__.call('skerry.graphs'))":                      "services are called by themselves",
		"g.call('skerry.graphs').explain()":                              "services are called by themselves",
		"g.call('skerry.addIndex')":                                      "an index has 1 to 8 keys",
		"g.call('skerry.addIndex', ['keys': 'a'])":                       "malformed index: ",
		"g.call('skerry.addIndex', ['keys': ['a'], 'uniq': true])":       `malformed index: unknown field "uniq" [graph_schema]`,
		"g.call('skerry.addIndex', ['keys': ['a'], 'on': 'graph'])":      `on "graph" is neither vertex nor edge`,
		"g.call('skerry.addIndex', ['keys': [P.gt(1)]])":                 "",
		"g.call('skerry.setSchema', ['closed': 1])":                      "malformed schema: ",
		"g.call('skerry.setSchema', ['edges': [['multiplicity': 'x']]])": `"x" is none of many, simple, oneOut, oneIn, oneToOne`,
		"g.call('skerry.createGraph')":                                   "it has one argument, name, the name of a graph [invalid]",
		"g.call('skerry.createGraph', ['name': 1])":                      "it has one argument, name",
		"g.call('skerry.dropGraph', ['name': 'none'])":                   "[graph_not_found]",
		"g.call('skerry.graphs', ['name': 'g'])":                         "it has no arguments",
	} {
		_, err := ask(t, b, text)
		own, ok := errors.AsType[*gremlin.Error](err)
		if !ok {
			t.Errorf("%s: %v", text, err)
			continue
		}
		step, _ := own.Attributes.Get("step")
		code, _ := own.Attributes.Get("code")
		if step != "call" || code == nil && !strings.Contains(text, "explain") && !strings.HasPrefix(text, "g.V") && !strings.HasPrefix(text, "g.inject") || !strings.Contains(own.Msg, say) {
			t.Errorf("%s: %q, step %v, code %v", text, own.Msg, step, code)
		}
	}
	s, err := b.Begin(context.WithoutCancel(t.Context()), gremlin.Request{Source: "g", N: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, s, "g.call('skerry.createGraph', ['name': 'a'])"); err == nil || !strings.Contains(err.Error(), "and not in a session") {
		t.Errorf("in a session: %v", err)
	}
	want(t, b, "g.call('skerry.graphs')", "g")
	want(t, b, "g.call('skerry.indexes')")
	want(t, b, "g.call('skerry.schema')")
}
