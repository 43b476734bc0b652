package graphbinary

import (
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
		w.text(x.Label)
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
	case *value.Metrics:
		w.head(typeMetrics)
		w.text(x.ID)
		w.text(x.Name)
		w.int64(x.Nanos)
		w.pairs(x.Counts)
		w.pairs(x.Annotations)
		items(w, x.Nested)
	case *value.TraversalMetrics:
		w.head(typeTraversalMetrics)
		w.int64(x.Nanos)
		items(w, x.Steps)
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
	w.text(v.Label)
}

func (w *writer) vertexProperty(p *value.VertexProperty) {
	w.value(p.ID)
	w.text(p.Key)
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
			list(w, p.Properties)
		}
	}
	w.length(len(g.Edges))
	for _, e := range g.Edges {
		w.value(e.ID)
		w.text(e.Label)
		for _, v := range []*value.Vertex{e.In, e.Out} {
			if v == nil {
				v = &value.Vertex{}
			}
			w.value(v.ID)
			w.null()
		}
		w.null()
		list(w, e.Properties)
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
