package graph

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/graph/value"
)

// people is a schema with all kinds of constraints.
func people() Schema {
	return Schema{
		Vertices: []VertexType{
			{Label: "person", Closed: true, Properties: []PropertyType{
				{Key: "name", Types: []string{"string"}, Required: true}, {Key: "age", Types: []string{"NUMBER"}},
				{Key: "mail", Types: []string{"STRING", "UUID"}, Cardinality: Set}, {Key: "nick", Cardinality: List},
			}},
			{Label: "city", Properties: []PropertyType{{Key: "name", Types: []string{"STRING", "NULL"}}}},
			{Label: "extra", Properties: []PropertyType{{Key: "note", Required: true}}},
		},
		Edges: []EdgeType{
			{Label: "born", From: []string{"person"}, To: []string{"city"}, Multiplicity: OneOut, Closed: true, Properties: []PropertyType{{Key: "on", Types: []string{"DATETIME", "INT"}, Required: true}}},
			{Label: "likes", Multiplicity: Simple},
			{Label: "rules", To: []string{"city", "extra"}, Multiplicity: OneIn},
			{Label: "wed", From: []string{"person"}, Multiplicity: OneToOne, Properties: []PropertyType{{Key: "on", Types: []string{"INT"}}}},
		},
		Closed: true,
	}
}

func mustSchema(t *testing.T, d *DB, name string, s Schema) {
	t.Helper()
	if err := d.SetSchema(t.Context(), name, s); err != nil {
		t.Fatal(err)
	}
}

// town has vertices a and b (person), c and d (city), and edges from a.
func town(tx *Tx) error {
	var at []*Vertex
	for _, id := range []string{"a", "b", "c", "d"} {
		label := map[bool]string{true: "person", false: "city"}[id < "c"]
		v, err := tx.AddVertex([]string{label}, id)
		if err == nil {
			_, err = v.Set(Single, "name", id)
		}
		if err != nil {
			return err
		}
		at = append(at, v)
	}
	for _, e := range []struct {
		label   string
		out, in int
	}{{"born", 0, 2}, {"likes", 0, 1}, {"likes", 1, 0}, {"rules", 0, 2}, {"wed", 0, 1}} {
		x, err := tx.AddEdge(e.label, at[e.out], at[e.in], e.label+fmt.Sprint(e.out))
		if err == nil && e.label != "likes" && e.label != "rules" {
			err = x.Set("on", int32(1))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// act is a change that a schema allows, or refuses with a text.
type act struct {
	what   string
	refuse string // "": it is allowed
	atEnd  bool   // it is refused at the end of the transaction
	fn     func(a *acting) error
}

type acting struct{ tx *Tx }

func (a *acting) vertex(id string) *Vertex {
	v, ok, err := a.tx.Vertex(id)
	if !ok || err != nil {
		panic(fmt.Sprint(id, ok, err))
	}
	return v
}

func (a *acting) edge(id string) *Edge {
	e, ok, err := a.tx.Edge(id)
	if !ok || err != nil {
		panic(fmt.Sprint(id, ok, err))
	}
	return e
}

func addVertex(id any, labels ...string) func(*acting) error {
	return func(a *acting) error { _, err := a.tx.AddVertex(labels, id); return err }
}

func set(c Cardinality, id, key string, vals ...any) func(*acting) error {
	return func(a *acting) error {
		for _, v := range vals {
			if _, err := a.vertex(id).Set(c, key, v); err != nil {
				return err
			}
		}
		return nil
	}
}

func addEdge(label, out, in string) func(*acting) error {
	return func(a *acting) error { _, err := a.tx.AddEdge(label, a.vertex(out), a.vertex(in), "new"); return err }
}

func setEdge(id, key string, val any) func(*acting) error {
	return func(a *acting) error { return a.edge(id).Set(key, val) }
}

func all(fns ...func(*acting) error) func(*acting) error {
	return func(a *acting) error {
		for _, fn := range fns {
			if err := fn(a); err != nil {
				return err
			}
		}
		return nil
	}
}

func removeVertex(id string) func(*acting) error {
	return func(a *acting) error { return a.vertex(id).Remove() }
}

func removeEdge(id string) func(*acting) error {
	return func(a *acting) error { return a.edge(id).Remove() }
}

func removeProperty(id, key string) func(*acting) error {
	return func(a *acting) error { return a.vertex(id).RemoveProperty(key) }
}

func acts() []act {
	return []act{
		{"a city", "", false, addVertex("n", "city")},
		{"another label", `the new vertex has the label "vertex", which is not declared`, false, addVertex("n")},
		{"one of two labels", `the new vertex has the label "dog", which is not declared`, false, addVertex("n", "city", "dog")},
		{"a person with a name", "", false, all(addVertex("n", "person"), set(Single, "n", "name", "N"))},
		{"a person without", `the vertex n lacks the property "name", which is required of "person"`, true, addVertex("n", "person")},
		{"that is removed again", "", false, all(addVertex("n", "person"), removeVertex("n"))},
		{"a name is removed", `the vertex a lacks the property "name", which is required of "person"`, true, removeProperty("a", "name")},
		{"and set again", "", false, all(removeProperty("a", "name"), set(Single, "a", "name", "A"))},
		{"of two types", `the vertex n lacks the property "note", which is required of "extra"`, true, all(addVertex("n", "person", "extra"), set(Single, "n", "name", "N"))},
		{"of two types, each with its own", "", false, all(addVertex("n", "person", "extra"), set(Single, "n", "name", "N"), set(Single, "n", "note", 1.5))},
		{"a property that is not declared", `the vertex a has the property "note", which is not declared of "person"`, false, set(Single, "a", "note", "x")},
		{"of an open type", "", false, set(Single, "c", "note", "x")},
		{"a number as a name", `the vertex a has a value of the type INT as its property "name", which is of the type STRING`, false, set(Single, "a", "name", int32(5))},
		{"a string as a number", `the vertex a has a value of the type STRING as its property "age", which is of the type NUMBER`, false, set(Single, "a", "age", "5")},
		{"numbers", "", false, set(Single, "a", "age", int8(1), int64(1), 1.5, float32(2))},
		{"no null", `the vertex a has a value of the type NULL as its property "age", which is of the type NUMBER`, false, set(Single, "a", "age", nil)},
		{"null", "", false, set(Single, "c", "name", nil)},
		{"one of two types", "", false, set(Set, "a", "mail", "x", value.UUID{1}, "x")},
		{"neither", `the vertex a has a value of the type BOOLEAN as its property "mail", which is of the type STRING, UUID`, false, set(Set, "a", "mail", true)},
		{"equal values of a set", `the vertex a has equal values of the property "mail", which is a set`, false, set(List, "a", "mail", "x", "y", "x")},
		{"two names", `the vertex a has several values of the property "name", of which it has one`, false, set(List, "a", "name", "x")},
		{"two nicks", "", false, set(List, "a", "nick", "x", "x")},
		{"a meta-property", "", false, func(a *acting) error {
			_, err := a.vertex("a").Set(Single, "name", "x", value.Entry{Key: "since", Val: true})
			return err
		}},
		{"an edge with another label", `an edge has the label "hates", which is not declared`, false, addEdge("hates", "a", "b")},
		{"a first birth", "", false, all(addEdge("born", "b", "c"), setEdge("new", "on", int32(7)))},
		{"a second birth", `an edge "born" leaves the vertex a already, and one may`, false, addEdge("born", "a", "d")},
		{"after the first is removed", "", false, all(removeEdge("born0"), addEdge("born", "a", "d"), setEdge("new", "on", int32(7)))},
		{"without a date", `the edge new lacks the property "on", which is required of "born"`, true, addEdge("born", "b", "c")},
		{"a string as a date", `the edge born0 has a value of the type STRING as its property "on", which is of the type DATETIME, INT`, false, setEdge("born0", "on", "1")},
		{"an edge's property that is not declared", `the edge born0 has the property "at", which is not declared of "born"`, false, setEdge("born0", "at", "1")},
		{"of an open edge", "", false, setEdge("likes0", "at", "1")},
		{"the date is removed", `the edge born0 lacks the property "on", which is required of "born"`, true, func(a *acting) error { return a.tx.RemoveProperty(a.edge("born0"), "on") }},
		{"from a city", `an edge "born" leaves the vertex c, which has none of the labels person`, false, addEdge("born", "c", "d")},
		{"to a person", `an edge "rules" enters the vertex a, which has none of the labels city, extra`, false, addEdge("rules", "a", "a")},
		{"a second like", `an edge "likes" leads from the vertex a to the vertex b already, and there may be one`, false, addEdge("likes", "a", "b")},
		{"another like", "", false, addEdge("likes", "a", "c")},
		{"a second ruler", `an edge "rules" enters the vertex c already, and one may`, false, addEdge("rules", "b", "c")},
		{"a ruler of two", "", false, addEdge("rules", "a", "d")},
		{"a second wife", `an edge "wed" leaves the vertex a already, and one may`, false, addEdge("wed", "a", "a")},
		{"a second husband", `an edge "wed" enters the vertex b already, and one may`, false, addEdge("wed", "b", "b")},
		{"the other way round", "", false, addEdge("wed", "b", "a")},
	}
}

// TestSchema makes changes that a schema allows, and others that it refuses: the call
// fails and writes nothing, or the transaction does.
func TestSchema(t *testing.T) {
	for _, c := range acts() {
		d := open(t)
		mustSchema(t, d, Default, people())
		mustUpdate(t, d, Default, town)
		before := dump(t, d)
		var called error
		_, err := d.Update(t.Context(), Default, func(tx *Tx) error {
			called = c.fn(&acting{tx})
			return nil // what is refused has written nothing
		})
		switch {
		case c.refuse == "" && (called != nil || err != nil):
			t.Errorf("%s: %v, %v", c.what, called, err)
		case c.refuse != "" && !c.atEnd:
			wantRefusal(t, c.what, called, c.refuse)
			if err != nil {
				t.Errorf("%s: the transaction fails: %v", c.what, err)
			}
		case c.refuse != "":
			wantRefusal(t, c.what, err, c.refuse)
			if called != nil || dump(t, d) != before {
				t.Errorf("%s: the call fails: %v, or something was written", c.what, called)
			}
		}
		mustCheck(t, d)
	}
}

func wantRefusal(t *testing.T, what string, err error, text string) {
	t.Helper()
	wantCode(t, what, err, CodeSchema)
	if err != nil && strings.TrimSuffix(err.Error(), " ["+string(CodeSchema)+"]") != text {
		t.Errorf("%s: the error is %v, want %s", what, err, text)
	}
}

// TestSchemaOfWhatIsThere declares schemas over elements that do not obey them. Each
// change that a schema refuses is one.
func TestSchemaOfWhatIsThere(t *testing.T) {
	for _, c := range acts() {
		if c.refuse == "" {
			continue
		}
		d := open(t)
		d.batch = 50
		mustUpdate(t, d, Default, func(tx *Tx) error {
			if err := town(tx); err != nil {
				return err
			}
			return c.fn(&acting{tx})
		})
		err := d.SetSchema(t.Context(), Default, people())
		wantCode(t, c.what, err, CodeSchema)
		if err != nil && !strings.Contains(err.Error(), ", in the schema that is being declared") {
			t.Errorf("%s: the error is %v", c.what, err)
		}
		now, next, err := d.Schema(t.Context(), Default)
		if now != nil || next != nil || err != nil {
			t.Errorf("%s: there is a schema: %v, %v, %v", c.what, now, next, err)
		}
		mustUpdate(t, d, Default, func(tx *Tx) error { _, err := tx.AddVertex([]string{"anything"}, nil); return err })
		mustCheck(t, d)
	}
}
