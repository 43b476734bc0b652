package graphbinary

import (
	"strings"

	"github.com/skerrydb/skerry/graph/value"
)

func (r *reader) element(code byte) (any, bool) {
	switch code {
	case typeVertex:
		v := r.reference()
		v.Properties = r.vertexProperties()
		return v, true
	case typeEdge:
		e := &value.Edge{ID: r.key(), Label: r.label(), In: r.reference(), Out: r.reference()}
		r.value() // the parent, which nobody sends
		e.Properties = r.properties()
		return e, true
	case typeVertexProperty:
		p := r.vertexProperty()
		r.value()
		p.Properties = r.properties()
		return p, true
	case typeProperty:
		p := &value.Property{Key: r.string("a key"), Val: r.key()}
		r.value()
		return p, true
	case typePath:
		return r.path(), true
	case typeGraph:
		return r.graph(), true
	case typeMetrics:
		return r.metrics(), true
	case typeTraversalMetrics:
		return r.traversalMetrics(), true
	}
	return nil, false
}

// reference reads a vertex without its properties. What identifies elements and
// what they hold are values that sets and maps may have.
func (r *reader) reference() *value.Vertex {
	return &value.Vertex{ID: r.key(), Label: r.label()}
}

func (r *reader) vertexProperty() *value.VertexProperty {
	return &value.VertexProperty{ID: r.key(), Key: r.label(), Val: r.key()}
}

// label reads the label of an element, or the key of a vertex's property.
func (r *reader) label() string {
	if !r.ver.labelLists() {
		return r.string("a label")
	}
	at := r.at
	return strings.Join(typed[string](r, at, r.items(), "labels"), value.LabelSeparator)
}

// listOf reads a list of values of one type, or null.
func listOf[T any](r *reader, what string) []T {
	at := r.at
	v := r.value()
	if v == nil || r.err != nil {
		return nil
	}
	list, ok := v.(value.List)
	if !ok {
		r.failf(at, "expected a list of %s", what)
		return nil
	}
	return typed[T](r, at, list, what)
}

// typed returns values that must be of one type. They stand at a position.
func typed[T any](r *reader, at int, list []any, what string) []T {
	out := make([]T, 0, len(list))
	for _, item := range list {
		if x, ok := item.(T); ok {
			out = append(out, x)
		} else {
			r.failf(at, "expected a list of %s", what)
		}
	}
	return out
}

func (r *reader) vertexProperties() []*value.VertexProperty {
	return listOf[*value.VertexProperty](r, "properties of a vertex")
}

func (r *reader) properties() []*value.Property {
	return listOf[*value.Property](r, "properties")
}

// graphProperties reads properties of what is in a graph.
func (r *reader) graphProperties() []*value.Property {
	if !r.ver.bareLists() {
		return r.properties()
	}
	at := r.at
	return typed[*value.Property](r, at, r.items(), "properties")
}

// path reads a list of sets of labels and a list of as many values.
func (r *reader) path() any {
	at := r.at
	p := &value.Path{}
	for _, set := range listOf[*value.Set](r, "sets of labels") {
		var labels []string
		for _, l := range set.Items() {
			if text, ok := l.(string); ok {
				labels = append(labels, text)
			} else {
				r.failf(at, "expected labels that are strings")
			}
		}
		p.Labels = append(p.Labels, labels)
	}
	r.hashed++
	objects, ok := r.value().(value.List)
	r.hashed--
	if !ok {
		r.failf(at, "expected a list of values")
	}
	p.Objects = objects
	if len(p.Labels) != len(p.Objects) {
		r.failf(at, "expected labels for %d values, found %d", len(p.Objects), len(p.Labels))
	}
	return p
}

// graph reads vertices and edges. Edges refer to vertices by their ids.
func (r *reader) graph() any {
	g, byID := &value.Graph{}, &value.Map{}
	for n := r.length("vertices", 10); n > 0 && r.err == nil; n-- {
		v := r.reference()
		for m := r.length("properties", 12); m > 0 && r.err == nil; m-- {
			p := r.vertexProperty()
			r.value()
			p.Properties = r.graphProperties()
			v.Properties = append(v.Properties, p)
		}
		if r.err == nil {
			byID.Set(v.ID, v)
			g.Vertices = append(g.Vertices, v)
		}
	}
	end := func() *value.Vertex {
		at := r.at
		id := r.key()
		r.value() // the label, which is the vertex's
		if r.err != nil {
			return nil
		}
		v, ok := byID.Get(id)
		if !ok {
			r.failf(at, "expected the id of a vertex of the graph")
			return nil
		}
		return v.(*value.Vertex)
	}
	for n := r.length("edges", 16); n > 0 && r.err == nil; n-- {
		e := &value.Edge{ID: r.key(), Label: r.label(), In: end(), Out: end()}
		r.value()
		e.Properties = r.graphProperties()
		g.Edges = append(g.Edges, e)
	}
	return g
}

func (r *reader) metrics() *value.Metrics {
	m := &value.Metrics{ID: r.string("an id"), Name: r.string("a name"), Nanos: r.int64("a duration")}
	m.Counts, m.Annotations = r.pairs(), r.pairs()
	m.Nested = r.metricsList()
	return m
}

func (r *reader) traversalMetrics() any {
	return &value.TraversalMetrics{Nanos: r.int64("a duration"), Steps: r.metricsList()}
}

func (r *reader) metricsList() []*value.Metrics {
	at := r.at
	var out []*value.Metrics
	for _, item := range r.items() {
		if m, ok := item.(*value.Metrics); ok {
			out = append(out, m)
		} else {
			r.failf(at, "expected a list of metrics")
		}
	}
	return out
}
