package graph

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/skerrydb/skerry/graph/value"
)

// compare compares everything that can be read of a graph with a model.
func compare(t *testing.T, d *DB, name string, m model, indexes []Index) {
	t.Helper()
	mustView(t, d, name, func(tx *Tx) error {
		if err := compareVertices(tx, m); err != nil {
			return err
		}
		if err := compareEdges(tx, m); err != nil {
			return err
		}
		all, err := tx.Indexes()
		if err != nil {
			return err
		}
		if len(all) != len(indexes) {
			return fmt.Errorf("there are %d indexes, want %d", len(all), len(indexes))
		}
		for _, ix := range all {
			if err := compareIndex(tx, ix, m); err != nil {
				return fmt.Errorf("index %+v: %w", ix, err)
			}
		}
		return nil
	})
}

func compareVertices(tx *Tx, m model) error {
	n := 0
	err := tx.Vertices(func(v *Vertex) error {
		n++
		want, ok := m.vertices[value.EqualHash(v.ElementID())]
		if !ok {
			return fmt.Errorf("there is a vertex %v", v.ElementID())
		}
		return compareVertex(v, want)
	})
	if err == nil && n != len(m.vertices) {
		err = fmt.Errorf("there are %d vertices, want %d", n, len(m.vertices))
	}
	if err != nil {
		return err
	}
	for _, id := range append(ownIDsOfModel, "40", "nobody", 1.5) {
		v, ok, err := tx.Vertex(id)
		if err != nil {
			return err
		}
		_, has := m.vertices[value.EqualHash(id)]
		if s, isText := id.(string); isText && !has && digits(s) >= 0 {
			_, has = m.vertices[value.EqualHash(digits(s))]
		}
		if _, odd := id.(float64); has != ok && !odd || odd && ok {
			return fmt.Errorf("Vertex(%#v) is %v, want %v", id, ok, has)
		}
		if ok {
			if err := compareVertex(v, m.vertices[value.EqualHash(v.ElementID())]); err != nil {
				return err
			}
		}
	}
	return nil
}

// sameValue is value.Equal, with NaN the same as itself, and of the same type.
func sameValue(a, b any) bool {
	return value.EqualHash(a) == value.EqualHash(b) && value.TypeName(a) == value.TypeName(b)
}

func compareVertex(v *Vertex, want modelVertex) error {
	labels, err := v.Labels()
	if err != nil {
		return err
	}
	if !slices.Equal(labels, want.labels) {
		return fmt.Errorf("the labels of %v are %q, want %q", want.id, labels, want.labels)
	}
	for _, l := range modelLabels {
		if has, err := v.HasLabel(l); err != nil || has != slices.Contains(want.labels, l) {
			return errors.Join(err, fmt.Errorf("HasLabel %q of %v is %v", l, want.id, has))
		}
	}
	for _, keys := range [][]string{nil, {"name"}, {"city", "age", "unknown"}} {
		var got []modelProp
		if err := v.Properties(keys, func(p *VertexProperty) error {
			q := modelProp{key: p.Key, val: p.Val}
			got = append(got, q)
			return p.Properties(nil, func(m *value.Property) error {
				if got[len(got)-1].metas == nil {
					got[len(got)-1].metas = map[string]any{}
				}
				got[len(got)-1].metas[m.Key] = m.Val
				return nil
			})
		}); err != nil {
			return err
		}
		props := slices.DeleteFunc(slices.Clone(want.props), func(p modelProp) bool { return keys != nil && !slices.Contains(keys, p.key) })
		if !slices.EqualFunc(got, props, func(a, b modelProp) bool {
			return a.key == b.key && sameValue(a.val, b.val) && maps.EqualFunc(a.metas, b.metas, sameValue)
		}) {
			return fmt.Errorf("the properties %q of %v are %v, want %v", keys, want.id, got, props)
		}
	}
	return nil
}

// ids collects the hashes of elements' ids.
type ids []string

func (i *ids) add(id any) { *i = append(*i, value.EqualHash(id)) }

func (i ids) same(what string, want ids) error {
	slices.Sort(i)
	slices.Sort(want)
	if !slices.Equal(i, want) {
		return fmt.Errorf("%s: %q, want %q", what, i, want)
	}
	return nil
}

func compareEdges(tx *Tx, m model) error {
	var got, want ids
	if err := tx.AllEdges(func(e *Edge) error {
		got.add(e.ElementID())
		return compareEdge(e, m)
	}); err != nil {
		return err
	}
	for _, e := range m.edges {
		want.add(e.id)
		if e, ok, err := tx.Edge(e.id); !ok || err != nil || compareEdge(e, m) != nil {
			return errors.Join(err, fmt.Errorf("the edge %v is missing or differs", e))
		}
	}
	if err := got.same("AllEdges", want); err != nil {
		return err
	}
	for _, v := range m.vertices {
		for _, dir := range []Direction{Out, In, Both} {
			for _, labels := range [][]string{nil, {"knows"}, {"likes", "likes", "unknown", "knows"}, {"unknown"}} {
				if err := compareAdjacent(tx, m, v, dir, labels); err != nil {
					return fmt.Errorf("edges %d of %v with %q: %w", dir, v.id, labels, err)
				}
			}
		}
	}
	return nil
}

func compareAdjacent(tx *Tx, m model, v modelVertex, dir Direction, labels []string) error {
	w, _, err := tx.Vertex(v.id)
	if err != nil {
		return err
	}
	var want, far, got, reached ids
	for _, e := range m.edges {
		if labels != nil && !slices.Contains(labels, e.label) {
			continue
		}
		if dir&Out != 0 && value.Equal(e.out, v.id) {
			want.add(e.id)
			far.add(e.in)
		}
		if dir&In != 0 && value.Equal(e.in, v.id) {
			want.add(e.id)
			far.add(e.out)
		}
	}
	if err := tx.Edges(w, dir, labels, func(e *Edge) error { got.add(e.ElementID()); return nil }); err != nil {
		return err
	}
	if err := tx.Neighbours(w, dir, labels, func(o *Vertex) error { reached.add(o.ElementID()); return nil }); err != nil {
		return err
	}
	var count int
	if err := tx.CountEdges(w, dir, labels, func(n int) error { count += n; return nil }); err != nil {
		return err
	}
	if count != len(want) {
		return fmt.Errorf("CountEdges counts %d edges of %v, want %d", count, v.id, len(want))
	}
	return errors.Join(got.same("Edges", want), reached.same("Neighbours", far))
}

func compareEdge(e *Edge, m model) error {
	want, ok := m.edges[value.EqualHash(e.ElementID())]
	if !ok {
		return fmt.Errorf("there is an edge %v", e.ElementID())
	}
	if !value.Equal(e.Out().ElementID(), want.out) || !value.Equal(e.In().ElementID(), want.in) || e.ElementLabel() != want.label {
		return fmt.Errorf("the edge %v has other ends or another label", want.id)
	}
	got := map[string]any{}
	if err := e.Properties(nil, func(p *value.Property) error { got[p.Key] = p.Val; return nil }); err != nil {
		return err
	}
	if !maps.EqualFunc(got, want.props, sameValue) {
		return fmt.Errorf("the properties of %v are %v, want %v", want.id, got, want.props)
	}
	return nil
}

// compareIndex looks each value up, alone and as a bound.
func compareIndex(tx *Tx, ix *Index, m model) error {
	vals := func(kind value.Kind, id any, key string) (out []any) {
		if kind == value.KindEdge {
			if v, ok := m.edges[value.EqualHash(id)].props[key]; ok {
				out = append(out, v)
			}
			return out
		}
		for _, p := range m.vertices[value.EqualHash(id)].props {
			if p.key == key {
				out = append(out, p.val)
			}
		}
		return out
	}
	for _, x := range modelValues() {
		for _, bounds := range [][2]*Bound{{}, {{Val: x}, nil}, {nil, {Val: x}}, {{Val: x}, {Val: x}}} {
			equal := []any(nil)
			match := func(v any) bool {
				c, ok := value.Compare(v, x)
				return ok && (bounds[0] == nil || c >= 0) && (bounds[1] == nil || c <= 0) && inIndex(v)
			}
			if bounds[0] == nil && bounds[1] == nil {
				equal, match = []any{x}, func(v any) bool { return value.Equal(v, x) && inIndex(v) }
			}
			var must ids
			has := func(id any, label []string) {
				if hasIndexed(Index{Label: ix.Label}, modelVertex{labels: label}) && slices.ContainsFunc(vals(ix.On, id, ix.Keys[0]), match) &&
					!slices.ContainsFunc(ix.Keys, func(k string) bool { return !slices.ContainsFunc(vals(ix.On, id, k), inIndex) }) {
					must.add(id)
				}
			}
			if ix.On == value.KindVertex {
				for _, v := range m.vertices {
					has(v.id, v.labels)
				}
			} else {
				for _, e := range m.edges {
					has(e.id, []string{e.label})
				}
			}
			if err := compareLookup(tx, ix, equal, bounds, x, must); err != nil {
				return err
			}
		}
	}
	return nil
}

func compareLookup(tx *Tx, ix *Index, equal []any, bounds [2]*Bound, x any, must ids) error {
	var got ids
	ok, err := tx.Lookup(ix, equal, bounds[0], bounds[1], func(s value.Stored) error { got.add(s.ElementID()); return nil })
	if err != nil {
		return err
	}
	if ok != inIndex(x) {
		return fmt.Errorf("looking %#v up is %v", x, ok)
	}
	slices.Sort(got)
	if len(slices.Compact(slices.Clone(got))) != len(got) {
		return fmt.Errorf("looking %#v up finds an element twice: %q", x, got)
	}
	for _, id := range must {
		if !slices.Contains(got, id) {
			return fmt.Errorf("looking %#v up with bounds %v does not find %q", x, bounds, id)
		}
	}
	return nil
}
