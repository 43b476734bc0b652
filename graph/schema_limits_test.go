package graph

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph/value"
)

// TestNoSchema has schemas that are none, and the limits one beyond.
func TestNoSchema(t *testing.T) {
	vertices := func(types ...VertexType) Schema { return Schema{Vertices: types} }
	props := func(props ...PropertyType) Schema { return vertices(VertexType{Label: "a", Properties: props}) }
	edges := func(types ...EdgeType) Schema { return Schema{Edges: types} }
	many := func(n int) (out []VertexType) {
		for i := range n {
			out = append(out, VertexType{Label: fmt.Sprint(i)})
		}
		return out
	}
	keys := func(n int) (out []PropertyType) {
		for i := range n {
			out = append(out, PropertyType{Key: fmt.Sprint(i)})
		}
		return out
	}
	ends := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint(i))
		}
		return out
	}
	d := open(t)
	for _, c := range []struct {
		what string
		code engine.Code
		s    Schema
	}{
		{"a label twice", CodeSchema, vertices(VertexType{Label: "a"}, VertexType{Label: "b"}, VertexType{Label: "a"})},
		{"an edge's label twice", CodeSchema, edges(EdgeType{Label: "a"}, EdgeType{Label: "a"})},
		{"a key twice", CodeSchema, props(PropertyType{Key: "k"}, PropertyType{Key: "k"})},
		{"a type of elements", CodeSchema, props(PropertyType{Key: "k", Types: []string{"VERTEX"}})},
		{"no type", CodeSchema, props(PropertyType{Key: "k", Types: []string{"INT", "nothing"}})},
		{"an empty type", CodeSchema, props(PropertyType{Key: "k", Types: []string{""}})},
		{"a cardinality", CodeSchema, props(PropertyType{Key: "k", Cardinality: Set + 1})},
		{"a set on an edge", CodeSchema, edges(EdgeType{Label: "e", Properties: []PropertyType{{Key: "k", Cardinality: Set}}})},
		{"a multiplicity", CodeSchema, edges(EdgeType{Label: "e", Multiplicity: OneToOne + 1})},
		{"a version", CodeSchema, Schema{Closed: true, Version: 7}},
		{"a version to be removed", CodeSchema, Schema{Version: 7}},
		{"an empty label", engine.CodeLimit, vertices(VertexType{})},
		{"an empty label of an end", engine.CodeLimit, edges(EdgeType{Label: "e", To: []string{""}})},
		{"MaxNameBytes", engine.CodeLimit, props(PropertyType{Key: strings.Repeat("x", MaxNameBytes+1)})},
		{"MaxSchemaTypes", engine.CodeLimit, vertices(many(MaxSchemaTypes + 1)...)},
		{"MaxSchemaProperties", engine.CodeLimit, props(keys(MaxSchemaProperties + 1)...)},
		{"MaxSchemaProperties, with ends", engine.CodeLimit, edges(EdgeType{Label: "e", From: ends(MaxSchemaProperties / 2), To: ends(MaxSchemaProperties/2 + 1)})},
	} {
		wantCode(t, c.what, d.SetSchema(t.Context(), Default, c.s), c.code)
		wantSchemas(t, d, 0, 0)
	}
	wantRooms(t, d, Default)
	s := vertices(many(MaxSchemaTypes - 1)...) // at the limits
	s.Vertices[0].Properties = keys(MaxSchemaProperties - 2)
	s.Edges = []EdgeType{{Label: "e", From: ends(1), To: ends(1)}}
	mustSchema(t, d, Default, s)
	mustUpdate(t, d, Default, func(tx *Tx) error {
		v, err := tx.AddVertex([]string{"0"}, nil)
		if err == nil {
			_, err = v.Set(Single, "9", 1.5)
		}
		return err
	})
	mustCheck(t, d)
}

// TestTypes sets a property of each type to a value of each kind.
func TestTypes(t *testing.T) {
	d := open(t)
	for tag, name := range typeNames {
		if tag == tagFalse {
			continue
		}
		mustSchema(t, d, Default, Schema{Vertices: []VertexType{{Label: "a", Properties: []PropertyType{{Key: "k", Types: []string{strings.ToLower(name)}}}}}})
		now, _, err := d.Schema(t.Context(), Default)
		if err != nil || now.Vertices[0].Properties[0].Types[0] != name {
			t.Errorf("the schema is %v, %v", now, err)
		}
		allowed := 0
		mustUpdate(t, d, Default, func(tx *Tx) error {
			allowed = 0
			v, err := tx.AddVertex([]string{"a"}, nil)
			if err != nil {
				return err
			}
			bulk := &value.BulkSet{}
			bulk.Add("x", 2)
			for _, val := range append(goldenValues(), bulk) {
				want := value.IsOf(val, name)
				if val == any(bulk) {
					want = name == "LIST" // it is stored as one
				}
				_, err := v.Set(Single, "k", val)
				if want {
					allowed++
				}
				if code := engine.CodeOf(err); want && err != nil || !want && code != CodeSchema {
					t.Errorf("%s = %s: %v", name, value.Text(val), err)
				}
			}
			return v.Remove()
		})
		if allowed == 0 {
			t.Errorf("no value is of the type %s", name)
		}
	}
}

// counted is an engine that counts the reads of transactions.
type counted struct {
	engine.Engine
	reads *int
}

func (c counted) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return c.Engine.Update(ctx, func(tx engine.Tx) error { return fn(countedTx{tx, c.reads}) })
}

type countedTx struct {
	engine.Tx
	reads *int
}

func (tx countedTx) Get(key []byte) ([]byte, bool, error) {
	*tx.reads++
	return tx.Tx.Get(key)
}

func (tx countedTx) Scan(lo, hi []byte) iter.Seq2[engine.Pair, error] {
	*tx.reads++
	return tx.Tx.Scan(lo, hi)
}

// TestCost counts what writes read. Without a schema and with one it is the same, but
// for multiplicities.
func TestCost(t *testing.T) {
	d := open(t)
	write := func(name string) (n int) {
		t.Helper()
		if _, err := (&DB{eng: counted{d.eng, &n}, batch: d.batch}).Update(t.Context(), name, func(tx *Tx) error {
			n = 0
			var at [2]*Vertex
			for i := range at {
				v, err := tx.AddVertex([]string{"a"}, nil)
				if err == nil {
					_, err = v.Set(Single, "k", "x")
				}
				if err != nil {
					return err
				}
				at[i] = v
			}
			e, err := tx.AddEdge("e", at[0], at[1], nil)
			if err == nil {
				err = e.Set("k", "x")
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, name := range []string{"open", "schema", "one"} {
		if err := d.Create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		write(name) // gives the names
	}
	key := []PropertyType{{Key: "k", Types: []string{"STRING"}, Required: true}}
	s := Schema{
		Vertices: []VertexType{{Label: "a", Closed: true, Properties: key}}, Closed: true,
		Edges: []EdgeType{{Label: "e", Closed: true, Properties: key, From: []string{"a"}, To: []string{"a"}}},
	}
	mustSchema(t, d, "schema", s)
	s.Edges[0].Multiplicity = OneOut
	mustSchema(t, d, "one", s)
	open, schema, one := write("open"), write("schema"), write("one")
	if open == 0 || open != schema || one != open+1 {
		t.Errorf("%d reads without a schema, %d with one, %d with a multiplicity", open, schema, one)
	}
}

// TestDeclareConcurrently declares schemas while others write: in the end all elements
// obey the one in force.
func TestDeclareConcurrently(t *testing.T) {
	rounds := 40
	if testengine.Remote() {
		rounds = 8
	}
	d := open(t)
	d.batch = 60
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := range rounds * 3 {
				err := add(t, d, []string{"a", "b", "c"}[(i+w)%3])
				if code := engine.CodeOf(err); err != nil && code != CodeSchema && code != engine.CodeConflict {
					t.Error(err)
				}
			}
		})
	}
	for w := range 2 {
		wg.Go(func() {
			for i := range rounds {
				s := []Schema{closed("a", "b"), {}, closed("a"), closed("a", "b", "c")}[(i+w)%4]
				err := d.SetSchema(t.Context(), Default, s)
				if code := engine.CodeOf(err); err != nil && code != CodeSchema && code != engine.CodeConflict {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	mustCheck(t, d)
	mustSchema(t, d, Default, closed("a", "b", "c"))
	mustCheck(t, d)
}

// TestParsed keeps no more schemas than it may, and tells the next one from that in
// force.
func TestParsed(t *testing.T) {
	var p parsed
	for n := range uint64(3*maxParsed + 1) {
		raw := (&rules{version: n + 1, closed: true}).encode()
		for _, next := range []bool{false, true, false} {
			s, err := p.rules(raw, next, nil)
			if err != nil || s.version != n+1 || s.next != next {
				t.Errorf("version %d, %v: %+v, %v", n+1, next, s, err)
			}
			if again, _ := p.rules(raw, next, nil); again != s {
				t.Errorf("version %d was parsed twice", n+1)
			}
		}
		if has := len(*p.all.Load()); has > maxParsed {
			t.Errorf("%d schemas are kept", has)
		}
	}
	if _, err := p.rules([]byte{schemaFormat}, false, nil); engine.CodeOf(err) != engine.CodeCorrupt {
		t.Errorf("a damaged schema: %v", err)
	}
}

// BenchmarkParseSchema parses schemas, and finds those that were parsed.
func BenchmarkParseSchema(b *testing.B) {
	for _, n := range []int{10, 100, MaxSchemaTypes} {
		s := &rules{version: 1}
		for label := range n {
			typ := typeRules{label: uint64(label + 1)}
			for key := range 10 {
				typ.props = append(typ.props, propRules{key: uint64(key + 1), types: numberBits})
			}
			s.vertices = append(s.vertices, typ)
		}
		raw := s.encode()
		b.Run(fmt.Sprint(n, " types"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parseRules(raw, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint(n, " types, again"), func(b *testing.B) {
			b.ReportAllocs()
			var p parsed
			for b.Loop() {
				if _, err := p.rules(raw, false, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
