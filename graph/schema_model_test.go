package graph

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph/value"
)

// TestSchemaModel makes random changes under random schemas, and compares what is
// refused with the simplest reading of a schema.
func TestSchemaModel(t *testing.T) {
	r := seed.Rand(t)
	rounds := 1000
	if testengine.Remote() {
		rounds = 60
	}
	d := open(t)
	d.batch = 100
	m, s := newModel(), Schema{}
	declared, refused, failed := 0, 0, 0
	for n := range rounds {
		if r.IntN(4) == 0 {
			next := randomSchema(r)
			want := obeys(next, m, true)
			err := d.SetSchema(t.Context(), Default, next)
			if want != (err == nil) {
				t.Fatalf("step %d: the schema %+v: %v, want %v", n, next, err, want)
			}
			if err == nil {
				s = next
				declared++
			} else {
				wantCode(t, "SetSchema", err, CodeSchema)
				if r.IntN(2) == 0 { // there is room for another one
					if err := d.Drop(t.Context(), Default); err != nil {
						t.Fatal(err)
					}
					m, s = newModel(), next
					mustSchema(t, d, Default, s)
				}
			}
		} else {
			no, ok := schemaStep(t, d, r.Uint64(), s, &m)
			refused += no
			if !ok {
				failed++
			}
		}
		if !obeys(s, m, true) {
			t.Fatalf("step %d: the model does not obey %+v", n, s)
		}
		compare(t, d, Default, m, nil)
		mustCheck(t, d)
		if t.Failed() {
			t.Fatalf("at step %d, with the schema %+v", n, s)
		}
	}
	t.Logf("%d schemas in force, %d calls refused, %d transactions failed", declared, refused, failed)
	if !testengine.Remote() && (declared == 0 || refused == 0 || failed == 0) {
		t.Error("the test tests nothing")
	}
}

// schemaStep makes changes in one transaction, and returns how many were refused, and
// whether it is committed.
func schemaStep(t *testing.T, d *DB, from uint64, s Schema, m *model) (refused int, ok bool) {
	t.Helper()
	var after model
	_, err := d.Update(t.Context(), Default, func(tx *Tx) error {
		refused, after = 0, m.clone()
		r := rand.New(rand.NewPCG(from, 1))
		for range 1 + r.IntN(6) {
			was := after.clone()
			err := randomChange(tx, r, after)
			want := obeys(s, after, false)
			if code := engine.CodeOf(err); want && err != nil || !want && code != CodeSchema {
				return fmt.Errorf("a change: %w, want it allowed: %v", err, want)
			}
			if !want {
				after = was
				refused++
			}
		}
		return nil
	})
	if want := obeys(s, after, true); want != (err == nil) || err != nil && engine.CodeOf(err) != CodeSchema {
		t.Fatalf("the transaction: %v, want it allowed: %v", err, want)
	}
	if err != nil {
		return refused, false
	}
	*m = after
	return refused, true
}

// randomChange changes the graph and, whether that is refused or not, the model.
func randomChange(tx *Tx, r *rand.Rand, m model) error {
	key, val, n := []string{"k", "l"}[r.IntN(2)], randomValue(r), r.IntN(10)
	if n < 3 || len(m.vertices) == 0 {
		return randomVertex(tx, r, m)
	}
	of, _ := pick(r, m.vertices)
	v, _, err := tx.Vertex(of.id)
	if err != nil {
		return err
	}
	e, some := pick(r, m.edges)
	switch {
	case n < 5:
		c := Cardinality(r.IntN(3))
		after := modelVertex{of.id, of.labels, slices.Clone(of.props)}
		if c == Single {
			after.props = slices.DeleteFunc(after.props, func(p modelProp) bool { return p.key == key })
		}
		if c != Set || !slices.ContainsFunc(after.props, func(p modelProp) bool { return p.key == key && value.Equal(p.val, val) }) {
			after.props = append(after.props, modelProp{key: key, val: val})
		}
		m.vertices[value.EqualHash(of.id)] = after
		_, err = v.Set(c, key, val)
		return err
	case n < 6:
		after := modelVertex{of.id, of.labels, slices.DeleteFunc(slices.Clone(of.props), func(p modelProp) bool { return p.key == key })}
		m.vertices[value.EqualHash(of.id)] = after
		return v.RemoveProperty(key)
	case n < 7 && r.IntN(2) == 0:
		m.removeVertex(of.id)
		return v.Remove()
	case n < 8 || !some:
		return randomEdge(tx, r, m, v)
	}
	x, _, err := tx.Edge(e.id)
	if err != nil {
		return err
	}
	h := value.EqualHash(e.id)
	if n == 8 {
		delete(m.edges, h)
		return x.Remove()
	}
	e.props = maps.Clone(e.props)
	if e.props == nil {
		e.props = map[string]any{}
	}
	e.props[key] = val
	m.edges[h] = e
	if r.IntN(4) == 0 {
		delete(e.props, key)
		return tx.RemoveProperty(x, key)
	}
	return x.Set(key, val)
}

// refusedID is the id in a model of an element that the graph refused.
const refusedID = "refused"

func randomVertex(tx *Tx, r *rand.Rand, m model) error {
	labels := []string{[]string{"a", "b", "c"}[r.IntN(3)]}
	if r.IntN(4) == 0 && labels[0] != "a" {
		labels = append(labels, "a")
	}
	v, err := tx.AddVertex(labels, nil)
	id := any(refusedID)
	if err == nil {
		id = v.ElementID()
	}
	m.vertices[value.EqualHash(id)] = modelVertex{id: id, labels: labels}
	return err
}

func randomEdge(tx *Tx, r *rand.Rand, m model, out *Vertex) error {
	to, _ := pick(r, m.vertices)
	in, _, err := tx.Vertex(to.id)
	if err != nil {
		return err
	}
	label := []string{"e", "f"}[r.IntN(2)]
	e, err := tx.AddEdge(label, out, in, nil)
	id := any(refusedID)
	if err == nil {
		id = e.ElementID()
	}
	m.edges[value.EqualHash(id)] = modelEdge{id: id, out: out.ElementID(), in: to.id, label: label}
	return err
}

func randomValue(r *rand.Rand) any {
	return []any{int32(1), int64(1), 2.5, "x", "y", true, nil}[r.IntN(7)]
}

func randomSchema(r *rand.Rand) (s Schema) {
	props := func(edge bool) (out []PropertyType) {
		for _, key := range []string{"k", "l"} {
			p := PropertyType{Key: key, Required: r.IntN(4) == 0}
			for _, typ := range []string{"INT", "NUMBER", "STRING", "NULL", "Boolean"} {
				if r.IntN(3) == 0 {
					p.Types = append(p.Types, typ)
				}
			}
			if !edge {
				p.Cardinality = Cardinality(r.IntN(3))
			}
			if r.IntN(2) == 0 {
				out = append(out, p)
			}
		}
		return out
	}
	ends := func() []string { return [][]string{nil, nil, {"a"}, {"b", "c"}, {"a", "c"}}[r.IntN(5)] }
	for _, l := range []string{"a", "b", "c"} {
		if r.IntN(2) == 0 {
			s.Vertices = append(s.Vertices, VertexType{Label: l, Properties: props(false), Closed: r.IntN(4) == 0})
		}
	}
	for _, l := range []string{"e", "f"} {
		if r.IntN(2) == 0 {
			s.Edges = append(s.Edges, EdgeType{Label: l, From: ends(), To: ends(), Multiplicity: Multiplicity(r.IntN(5)), Properties: props(true), Closed: r.IntN(4) == 0})
		}
	}
	s.Closed = r.IntN(8) == 0
	return s
}

// obeys reports whether a model is as a schema says. required: nothing is missing.
func obeys(s Schema, m model, required bool) bool {
	for _, v := range m.vertices {
		if !vertexObeys(s, v, required) {
			return false
		}
	}
	for _, e := range m.edges {
		if !edgeObeys(s, m, e, required) {
			return false
		}
	}
	return true
}

func vertexObeys(s Schema, v modelVertex, required bool) bool {
	isClosed, known := false, map[string]bool{}
	for _, l := range v.labels {
		i := slices.IndexFunc(s.Vertices, func(typ VertexType) bool { return typ.Label == l })
		if i < 0 {
			if s.Closed {
				return false
			}
			continue
		}
		isClosed = isClosed || s.Vertices[i].Closed
		for _, p := range s.Vertices[i].Properties {
			known[p.Key] = true
			var vals []any
			for _, q := range v.props {
				if q.key == p.Key {
					vals = append(vals, q.val)
				}
			}
			if !valuesObey(p, vals, required) {
				return false
			}
		}
	}
	return !isClosed || !slices.ContainsFunc(v.props, func(p modelProp) bool { return !known[p.key] })
}

func valuesObey(p PropertyType, vals []any, required bool) bool {
	if required && p.Required && len(vals) == 0 || p.Cardinality == Single && len(vals) > 1 {
		return false
	}
	for i, v := range vals {
		if len(p.Types) > 0 && !slices.ContainsFunc(p.Types, func(name string) bool { typ, _ := value.TypeNamed(name); return value.IsOf(v, typ) }) {
			return false
		}
		if p.Cardinality == Set && slices.ContainsFunc(vals[:i], func(o any) bool { return value.Equal(o, v) }) {
			return false
		}
	}
	return true
}

func edgeObeys(s Schema, m model, e modelEdge, required bool) bool {
	i := slices.IndexFunc(s.Edges, func(typ EdgeType) bool { return typ.Label == e.label })
	if i < 0 {
		return !s.Closed
	}
	typ := s.Edges[i]
	for key := range e.props {
		if typ.Closed && !slices.ContainsFunc(typ.Properties, func(p PropertyType) bool { return p.Key == key }) {
			return false
		}
	}
	for _, p := range typ.Properties {
		var vals []any
		if v, ok := e.props[p.Key]; ok {
			vals = []any{v}
		}
		if !valuesObey(p, vals, required) {
			return false
		}
	}
	has := func(id any, labels []string) bool {
		return len(labels) == 0 || slices.ContainsFunc(m.vertices[value.EqualHash(id)].labels, func(l string) bool { return slices.Contains(labels, l) })
	}
	if !has(e.out, typ.From) || !has(e.in, typ.To) {
		return false
	}
	out, in, both := 0, 0, 0
	for _, o := range m.edges {
		if o.label != e.label {
			continue
		}
		sameOut, sameIn := value.Equal(o.out, e.out), value.Equal(o.in, e.in)
		out, in, both = out+count(sameOut), in+count(sameIn), both+count(sameOut && sameIn)
	}
	switch typ.Multiplicity {
	case Simple:
		return both == 1
	case OneOut:
		return out == 1
	case OneIn:
		return in == 1
	case OneToOne:
		return out == 1 && in == 1
	}
	return true
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}
