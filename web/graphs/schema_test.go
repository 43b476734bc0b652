package graphs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/web/graphs"
	"github.com/skerrydb/skerry/web/gremlin"
)

func openBoth(t *testing.T) (*graphs.Backend, *graph.DB) {
	t.Helper()
	eng := testengine.Open(t, testengine.Options{})
	b, err := graphs.New(eng)
	if err != nil {
		t.Fatal(err)
	}
	db, err := graph.New(eng)
	if err != nil {
		t.Fatal(err)
	}
	return b, db
}

// TestSchema: what a schema refuses has a code, and the step if that is known.
func TestSchema(t *testing.T) {
	b, db := openBoth(t)
	if err := db.SetSchema(t.Context(), graph.Default, graph.Schema{
		Vertices: []graph.VertexType{{Label: "person", Properties: []graph.PropertyType{{Key: "name", Types: []string{"STRING"}, Required: true}}}},
		Edges:    []graph.EdgeType{{Label: "knows", Multiplicity: graph.Simple}},
		Closed:   true,
	}); err != nil {
		t.Fatal(err)
	}
	want(t, b, "g.addV('person').as('a').property('name', 'A').addE('knows').from('a').to('a').count()", "1")
	for text, say := range map[string]refusal{
		"g.addV('dog')": {"addV", 2, `addV(): the new vertex has the label "dog", which is not declared [graph_schema]`},
		"g.V().property('name', 5)": {"property", 6,
			`property(): the vertex 1 has a value of the type INT as its property "name", which is of the type STRING [graph_schema]`},
		"g.V().as('a').addE('knows').to('a')": {"addE", 14, `addE(): an edge "knows" leads from the vertex 1 to the vertex 1 already, and there may be one [graph_schema]`},
		"g.addV('person').property('age', 5)": {"addV", 2, `addV(): the vertex 2 lacks the property "name", which is required of "person" [graph_schema]`},
		"g.V().properties('name').drop()":     {"drop", 25, `drop(): the vertex 1 lacks the property "name", which is required of "person" [graph_schema]`},
		"g.addV('person').addV('person')":     {nil, nil, `the vertex 2 lacks the property "name", which is required of "person" [graph_schema]`},
	} {
		_, err := ask(t, b, text)
		say.want(t, text, err)
	}
	want(t, b, "g.V().count()", "1")
	want(t, b, "g.E().count()", "1")
}

// refusal is what a client sees of an error.
type refusal struct {
	step, position any // nil: unknown
	msg            string
}

func (r refusal) want(t *testing.T, what string, err error) {
	t.Helper()
	own, ok := errors.AsType[*gremlin.Error](err)
	if !ok {
		t.Errorf("%s: %v, want %v", what, err, r)
		return
	}
	step, _ := own.Attributes.Get("step")
	at, _ := own.Attributes.Get("position")
	code, _ := own.Attributes.Get("code")
	if n, ok := r.position.(int); ok {
		r.position = int32(n)
	}
	if step != r.step || at != r.position || own.Msg != r.msg || code != string(graph.CodeSchema) {
		t.Errorf("%s: %q, step %v, position %v, code %v, want %v", what, own.Msg, step, at, code, r)
	}
}

// TestSchemaInSession: what is required is so when a session is committed, and a
// session that has written conflicts with a schema that is declared meanwhile.
func TestSchemaInSession(t *testing.T) {
	b, db := openBoth(t)
	name := graph.PropertyType{Key: "name", Required: true}
	person := graph.Schema{Vertices: []graph.VertexType{{Label: "person", Properties: []graph.PropertyType{name}}}}
	if err := db.SetSchema(t.Context(), graph.Default, person); err != nil {
		t.Fatal(err)
	}
	begin := func() gremlin.Session {
		t.Helper()
		s, err := b.Begin(context.WithoutCancel(t.Context()), gremlin.Request{Source: "g", N: -1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := begin()
	want(t, s, "g.addV('person').count()", "1")
	want(t, s, "g.V().property('name', 'A').count()", "1")
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}

	s = begin()
	want(t, s, "g.addV('person').property(T.id, 'b').count()", "1")
	if _, err := ask(t, s, "g.V('b').property('name', 'B').fail()"); err == nil {
		t.Error("fail() does not") // and so the name is not there
	}
	refusal{nil, nil, `the vertex b lacks the property "name", which is required of "person" [graph_schema]`}.want(t, "Commit", s.Commit(t.Context()))
	if _, err := ask(t, s, "g.V()"); err == nil {
		t.Error("a session goes on after its end")
	}
	want(t, b, "g.V().count()", "1")

	s = begin()
	want(t, s, "g.addV('city').count()", "1")
	person.Closed = true
	if err := db.SetSchema(t.Context(), graph.Default, person); err != nil {
		t.Fatal(err)
	}
	err := s.Commit(t.Context())
	own, _ := errors.AsType[*gremlin.Error](err)
	if own == nil {
		t.Fatalf("the session commits what the schema refuses: %v", err)
	}
	if code, _ := own.Attributes.Get("code"); code != "conflict" {
		t.Errorf("the error is %v", err)
	}
	want(t, b, "g.V().count()", "1")
}

// TestSchemaOfTwoSessions: two sessions that each add the only edge that a schema
// allows are not both committed.
func TestSchemaOfTwoSessions(t *testing.T) {
	b, db := openBoth(t)
	for multi, to := range map[graph.Multiplicity][2]string{
		graph.Simple: {"y", "y"}, graph.OneOut: {"y", "z"}, graph.OneIn: {"y", "y"}, graph.OneToOne: {"y", "y"}, graph.Many: {"y", "y"},
	} {
		s := graph.Schema{Edges: []graph.EdgeType{{Label: "e", Multiplicity: multi}, {Label: "other"}}}
		if err := db.SetSchema(t.Context(), graph.Default, s); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"x", "y", "z"} {
			want(t, b, "g.addV('v').property(T.id, '"+id+"').count()", "1")
		}
		var committed []error
		var sessions []gremlin.Session
		for range 2 {
			s, err := b.Begin(t.Context(), gremlin.Request{Source: "g", N: -1})
			if err != nil {
				t.Fatal(err)
			}
			sessions = append(sessions, s)
		}
		for i, s := range sessions {
			want(t, s, "g.V('x').addE('e').to(V('"+to[i]+"')).count()", "1")
		}
		for _, s := range sessions {
			committed = append(committed, s.Commit(t.Context()))
		}
		if committed[0] != nil || (committed[1] == nil) != (multi == graph.Many) {
			t.Errorf("multiplicity %d: %v", multi, committed)
		}
		want(t, b, "g.V().drop()")
	}
}
