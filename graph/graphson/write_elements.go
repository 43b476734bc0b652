package graphson

import (
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

func (w *writer) element(v any) bool {
	switch x := v.(type) {
	case *value.Vertex:
		w.vertex(x)
	case *value.Edge:
		w.edge(x)
	case *value.VertexProperty:
		w.vertexProperty(x, true)
	case *value.Property:
		w.property(x)
	case *value.Path:
		w.path(x)
	case *value.Graph:
		w.graph(x)
	case *value.Metrics:
		w.open("g:Metrics")
		w.metrics(x)
		w.close()
	case *value.TraversalMetrics:
		w.open("g:TraversalMetrics")
		w.pairs(value.MapOf("dur", float64(x.Nanos)/1e6, "metrics", metricsList(x.Steps)))
		w.close()
	default:
		return false
	}
	return true
}

// label writes the label of an element.
func (w *writer) label(name, label string) {
	w.raw(`,"`)
	w.raw(name)
	w.raw(`":`)
	if w.format == Untyped4 {
		w.raw("[")
		w.string(label)
		w.raw("]")
		return
	}
	w.string(label)
}

func (w *writer) vertex(v *value.Vertex) {
	w.open("g:Vertex")
	w.raw(`{"id":`)
	w.value(v.ID)
	w.label("label", v.Label)
	if w.format != Typed {
		w.raw(`,"type":"vertex"`)
	}
	if v.Properties != nil {
		w.raw(`,"properties":{`)
		for i, group := range byKey(v.Properties) {
			w.comma(i)
			w.name(group[0].Key)
			each(w, group, func(p *value.VertexProperty) { w.vertexProperty(p, w.format == Typed) })
		}
		w.raw("}")
	}
	w.raw("}")
	w.close()
}

// byKey returns properties in groups of one key, in the order of the first ones.
func byKey(ps []*value.VertexProperty) [][]*value.VertexProperty {
	at := make(map[string]int, len(ps))
	var groups [][]*value.VertexProperty
	for _, p := range ps {
		i, ok := at[p.Key]
		if !ok {
			i = len(groups)
			at[p.Key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], p)
	}
	return groups
}

func (w *writer) vertexProperty(p *value.VertexProperty, labelled bool) {
	w.open("g:VertexProperty")
	w.raw(`{"id":`)
	w.value(p.ID)
	w.raw(`,"value":`)
	w.value(p.Val)
	if labelled {
		w.label("label", p.Key)
	}
	if len(p.Properties) > 0 {
		w.properties(p.Properties, false)
	}
	w.raw("}")
	w.close()
}

// properties writes properties by their keys, either whole or only their values.
func (w *writer) properties(ps []*value.Property, whole bool) {
	w.raw(`,"properties":{`)
	for i, p := range ps {
		w.comma(i)
		w.name(p.Key)
		if whole {
			w.property(p)
		} else {
			w.value(p.Val)
		}
	}
	w.raw("}")
}

func (w *writer) property(p *value.Property) {
	w.open("g:Property")
	w.raw(`{"key":`)
	w.string(p.Key)
	w.raw(`,"value":`)
	w.value(p.Val)
	w.raw("}")
	w.close()
}

func (w *writer) edge(e *value.Edge) {
	w.open("g:Edge")
	w.raw(`{"id":`)
	w.value(e.ID)
	w.label("label", e.Label)
	if w.format != Typed {
		w.raw(`,"type":"edge"`)
	}
	in, out := e.In, e.Out
	if in == nil {
		in = &value.Vertex{}
	}
	if out == nil {
		out = &value.Vertex{}
	}
	w.label("inVLabel", in.Label)
	w.label("outVLabel", out.Label)
	w.raw(`,"inV":`)
	w.value(in.ID)
	w.raw(`,"outV":`)
	w.value(out.ID)
	if e.Properties != nil {
		w.properties(e.Properties, w.format == Typed)
	}
	w.raw("}")
	w.close()
}

func (w *writer) path(p *value.Path) {
	w.open("g:Path")
	w.raw(`{"labels":`)
	w.open("g:List")
	each(w, p.Labels, func(labels []string) {
		w.open("g:Set")
		each(w, labels, func(l string) { w.value(l) })
		w.close()
	})
	w.close()
	w.raw(`,"objects":`)
	w.items("g:List", p.Objects)
	w.raw("}")
	w.close()
}

func (w *writer) graph(g *value.Graph) {
	w.open("tinker:graph")
	w.raw(`{"vertices":`)
	each(w, g.Vertices, w.vertex)
	w.raw(`,"edges":`)
	each(w, g.Edges, w.edge)
	w.raw("}")
	w.close()
}

// metrics writes the map that metrics are. Durations are in milliseconds.
func (w *writer) metrics(m *value.Metrics) {
	counts, annotations := m.Counts, m.Annotations
	if counts == nil {
		counts = &value.Map{}
	}
	if annotations == nil {
		annotations = &value.Map{}
	}
	pairs := value.MapOf("dur", float64(m.Nanos)/1e6, "counts", counts, "name", m.Name, "annotations", annotations, "id", m.ID)
	if len(m.Nested) > 0 {
		pairs.Set("metrics", metricsList(m.Nested))
	}
	w.pairs(pairs)
}

func metricsList(ms []*value.Metrics) value.List {
	out := make(value.List, 0, len(ms))
	for _, m := range ms {
		out = append(out, m)
	}
	return out
}

// program writes what occurs only in traversals, which is always typed.
func (w *writer) program(v any) bool {
	if w.format != Typed {
		return false
	}
	switch x := v.(type) {
	case *gremlin.Traversal:
		w.bytecode(x)
	case gremlin.Cardinal:
		w.bytecode(&gremlin.Traversal{Source: []gremlin.Call{{Name: message.CardinalityCall, Args: []any{x.Cardinality, x.Val}}}})
	case *gremlin.P:
		w.predicate(x)
	case gremlin.Strategy:
		w.open("g:" + x.Name)
		w.fields(x.Config)
		w.close()
	case gremlin.Class:
		w.text("g:Class", string(x))
	default:
		return false
	}
	return true
}

func (w *writer) predicate(p *gremlin.P) {
	if message.Textual(p.Name) {
		w.open("g:TextP")
	} else {
		w.open("g:P")
	}
	w.raw(`{"predicate":`)
	w.string(p.Name)
	w.raw(`,"value":`)
	if len(p.Args) == 1 && p.Name != "within" && p.Name != "without" {
		w.value(p.Args[0])
	} else {
		w.items("g:List", p.Args)
	}
	w.raw("}")
	w.close()
}

func (w *writer) bytecode(t *gremlin.Traversal) {
	w.open("g:Bytecode")
	w.raw("{")
	for i, part := range []struct {
		name  string
		calls []gremlin.Call
	}{{"source", t.Source}, {"step", t.Steps}} {
		w.comma(i)
		w.name(part.name)
		each(w, part.calls, func(c gremlin.Call) {
			w.raw("[")
			w.string(c.Name)
			for _, arg := range c.Args {
				w.raw(",")
				w.value(arg)
			}
			w.raw("]")
		})
	}
	w.raw("}")
	w.close()
}
