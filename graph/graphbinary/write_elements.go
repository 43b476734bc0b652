package graphbinary

import (
	"strings"

	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// element writes elements. Their parents are always null, as drivers expect it.
func (w *writer) element(v any) bool {
	switch x := v.(type) {
	case *value.Vertex:
		w.head(typeVertex)
		w.reference(x)
		properties(w, x.Properties)
	case *value.Edge:
		w.head(typeEdge)
		w.value(x.ID)
		w.label(x.Label)
		w.reference(x.In)
		w.reference(x.Out)
		w.null()
		properties(w, x.Properties)
	case *value.VertexProperty:
		w.head(typeVertexProperty)
		w.vertexProperty(x)
		properties(w, x.Properties)
	case *value.Property:
		w.head(typeProperty)
		w.text(x.Key)
		w.value(x.Val)
		w.null()
	case *value.Path:
		w.head(typePath)
		w.path(x)
	case *value.Graph:
		w.head(typeGraph)
		w.graph(x)
	default:
		return false
	}
	return true
}

func (w *writer) reference(v *value.Vertex) {
	if v == nil {
		v = &value.Vertex{}
	}
	w.value(v.ID)
	if w.ver.labelLists() {
		w.length(strings.Count(v.Label, value.LabelSeparator) + 1)
		for label := range strings.SplitSeq(v.Label, value.LabelSeparator) {
			w.string(label)
		}
		return
	}
	w.text(v.Label)
}

// label writes the label of an element that has one, or the key of a property.
func (w *writer) label(s string) {
	if w.ver.labelLists() {
		w.length(1)
		w.string(s)
		return
	}
	w.text(s)
}

func (w *writer) vertexProperty(p *value.VertexProperty) {
	w.value(p.ID)
	w.label(p.Key)
	w.value(p.Val)
	w.null()
}

// properties writes a list, or null for nil: a vertex is a reference then.
func properties[T any](w *writer, ps []T) {
	if ps == nil {
		w.null()
		return
	}
	list(w, ps)
}

// graphProperties writes properties of what is in a graph.
func graphProperties(w *writer, ps []*value.Property) {
	if w.ver.bareLists() {
		items(w, ps)
		return
	}
	list(w, ps)
}

// metrics writes what profile measured: in versions without a type for it, as the
// maps that JSON has, with durations in milliseconds.
func (w *writer) metrics(v any) bool {
	switch x := v.(type) {
	case *value.Metrics:
		if !w.ver.has(typeMetrics) {
			w.value(metricsMap(x))
			break
		}
		w.head(typeMetrics)
		w.text(x.ID)
		w.text(x.Name)
		w.int64(x.Nanos)
		w.pairs(x.Counts)
		w.pairs(x.Annotations)
		items(w, x.Nested)
	case *value.TraversalMetrics:
		if !w.ver.has(typeTraversalMetrics) {
			w.value(value.MapOf("dur", float64(x.Nanos)/1e6, "metrics", metricsList(x.Steps)))
			break
		}
		w.head(typeTraversalMetrics)
		w.int64(x.Nanos)
		items(w, x.Steps)
	default:
		return false
	}
	return true
}

func metricsMap(m *value.Metrics) *value.Map {
	counts, annotations := m.Counts, m.Annotations
	if counts == nil {
		counts = &value.Map{}
	}
	if annotations == nil {
		annotations = &value.Map{}
	}
	out := value.MapOf("id", m.ID, "name", m.Name, "dur", float64(m.Nanos)/1e6, "counts", counts, "annotations", annotations)
	if len(m.Nested) > 0 {
		out.Set("metrics", metricsList(m.Nested))
	}
	return out
}

func metricsList(ms []*value.Metrics) value.List {
	out := make(value.List, 0, len(ms))
	for _, m := range ms {
		out = append(out, metricsMap(m))
	}
	return out
}

func (w *writer) path(p *value.Path) {
	w.head(typeList)
	w.length(len(p.Labels))
	for _, labels := range p.Labels {
		w.head(typeSet)
		w.length(len(labels))
		for _, l := range labels {
			w.string(l)
		}
	}
	list(w, p.Objects)
}

func (w *writer) graph(g *value.Graph) {
	w.length(len(g.Vertices))
	for _, v := range g.Vertices {
		w.reference(v)
		w.length(len(v.Properties))
		for _, p := range v.Properties {
			w.vertexProperty(p)
			graphProperties(w, p.Properties)
		}
	}
	w.length(len(g.Edges))
	for _, e := range g.Edges {
		w.value(e.ID)
		w.label(e.Label)
		for _, v := range []*value.Vertex{e.In, e.Out} {
			if v == nil {
				v = &value.Vertex{}
			}
			w.value(v.ID)
			w.null()
		}
		w.null()
		graphProperties(w, e.Properties)
	}
}

// program writes what occurs only in traversals.
func (w *writer) program(v any) bool {
	switch x := v.(type) {
	case *gremlin.Traversal:
		w.head(typeBytecode)
		w.calls(x.Steps)
		w.calls(x.Source)
	case gremlin.Cardinal:
		w.head(typeBytecode)
		w.calls(nil)
		w.calls([]gremlin.Call{{Name: message.CardinalityCall, Args: []any{x.Cardinality, x.Val}}})
	case *gremlin.P:
		if message.Textual(x.Name) {
			w.head(typeTextP)
		} else {
			w.head(typeP)
		}
		w.text(x.Name)
		items(w, x.Args)
	case gremlin.Strategy:
		w.head(typeStrategy)
		w.text(x.Name)
		w.pairs(x.Config)
	case gremlin.Class:
		w.head(typeClass)
		w.text(string(x))
	default:
		return false
	}
	return true
}

func (w *writer) calls(calls []gremlin.Call) {
	w.length(len(calls))
	for _, c := range calls {
		w.text(c.Name)
		items(w, c.Args)
	}
}
