package graphbinary

import (
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// element writes elements. Their parents are always null, as drivers expect it.
func (w *writer) element(v any) bool {
	switch x := v.(type) {
	case *value.Vertex:
		w.head(typeVertex)
		w.reference(x)
		w.vertexProperties(x.Properties)
	case *value.Edge:
		w.head(typeEdge)
		w.value(x.ID)
		w.text(x.Label)
		w.reference(x.In)
		w.reference(x.Out)
		w.null()
		w.properties(x.Properties)
	case *value.VertexProperty:
		w.head(typeVertexProperty)
		w.vertexProperty(x)
		w.properties(x.Properties)
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
		w.metrics(x.Nested)
	case *value.TraversalMetrics:
		w.head(typeTraversalMetrics)
		w.int64(x.Nanos)
		w.metrics(x.Steps)
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

// vertexProperties writes a list, or null if there are none: the vertex is a
// reference then.
func (w *writer) vertexProperties(ps []*value.VertexProperty) {
	if ps == nil {
		w.null()
		return
	}
	w.list(len(ps))
	for _, p := range ps {
		w.value(p)
	}
}

func (w *writer) properties(ps []*value.Property) {
	if ps == nil {
		w.null()
		return
	}
	w.list(len(ps))
	for _, p := range ps {
		w.value(p)
	}
}

func (w *writer) path(p *value.Path) {
	w.list(len(p.Labels))
	for _, labels := range p.Labels {
		w.head(typeSet)
		w.length(len(labels))
		for _, l := range labels {
			w.string(l)
		}
	}
	w.head(typeList)
	w.items(p.Objects)
}

func (w *writer) graph(g *value.Graph) {
	w.length(len(g.Vertices))
	for _, v := range g.Vertices {
		w.reference(v)
		w.length(len(v.Properties))
		for _, p := range v.Properties {
			w.vertexProperty(p)
			w.list(len(p.Properties))
			for _, meta := range p.Properties {
				w.value(meta)
			}
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
		w.list(len(e.Properties))
		for _, p := range e.Properties {
			w.value(p)
		}
	}
}

func (w *writer) metrics(ms []*value.Metrics) {
	w.length(len(ms))
	for _, m := range ms {
		w.value(m)
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
		w.calls([]gremlin.Call{{Name: cardinalityCall, Args: []any{x.Cardinality, x.Val}}})
	case *gremlin.P:
		if textual(x) {
			w.head(typeTextP)
		} else {
			w.head(typeP)
		}
		w.text(x.Name)
		w.items(x.Args)
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
		w.items(c.Args)
	}
}
