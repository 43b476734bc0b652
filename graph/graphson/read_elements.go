package graphson

import (
	"math"

	"github.com/skerrydb/skerry/graph/value"
)

func (r *reader) element(name string, v *node) (any, bool) {
	switch name {
	case "g:Vertex":
		return r.vertex(v), true
	case "g:Edge":
		return r.edge(v), true
	case "g:VertexProperty":
		return r.vertexProperty(v), true
	case "g:Property":
		return r.property(v), true
	case "g:Path":
		return r.path(v), true
	case "tinker:graph":
		return r.graph(v), true
	case "g:Metrics":
		return r.metrics(r.value(v), v), true
	case "g:TraversalMetrics":
		return r.traversalMetrics(v), true
	}
	return nil, false
}

// label reads a label, which is "vertex" or "edge" by default.
func (r *reader) label(n *node, otherwise string) string {
	if n == nil {
		return otherwise
	}
	return r.string(n, "a label")
}

func (r *reader) vertex(v *node) *value.Vertex {
	if !r.want(v, object, "a vertex") {
		return nil
	}
	out := &value.Vertex{ID: r.key(v.field("id")), Label: r.label(v.field("label"), "vertex")}
	props := v.field("properties")
	if props == nil || !r.want(props, object, "properties") {
		return out
	}
	for i := 0; i+1 < len(props.items); i += 2 {
		list := props.items[i+1]
		if !r.want(list, array, "the properties of a key") {
			return out
		}
		for _, item := range list.items {
			p, ok := r.key(item).(*value.VertexProperty)
			if !ok {
				r.failf(item, "expected a property of a vertex")
				return out
			}
			out.Properties = append(out.Properties, p)
		}
	}
	return out
}

func (r *reader) edge(v *node) any {
	if !r.want(v, object, "an edge") {
		return nil
	}
	out := &value.Edge{ID: r.key(v.field("id")), Label: r.label(v.field("label"), "edge")}
	out.In = &value.Vertex{ID: r.key(v.field("inV")), Label: r.label(v.field("inVLabel"), "vertex")}
	out.Out = &value.Vertex{ID: r.key(v.field("outV")), Label: r.label(v.field("outVLabel"), "vertex")}
	props := v.field("properties")
	if props == nil || !r.want(props, object, "properties") {
		return out
	}
	for i := 0; i+1 < len(props.items) && r.err == nil; i += 2 {
		p, ok := r.key(props.items[i+1]).(*value.Property)
		if !ok {
			r.failf(props.items[i+1], "expected a property")
			break
		}
		out.Properties = append(out.Properties, p)
	}
	return out
}

func (r *reader) vertexProperty(v *node) any {
	if !r.want(v, object, "a property of a vertex") {
		return nil
	}
	out := &value.VertexProperty{ID: r.key(v.field("id")), Key: r.string(v.field("label"), "a label"), Val: r.key(v.field("value"))}
	props := v.field("properties")
	if props == nil || !r.want(props, object, "properties") {
		return out
	}
	for i := 0; i+1 < len(props.items); i += 2 {
		out.Properties = append(out.Properties, &value.Property{Key: props.items[i].text, Val: r.key(props.items[i+1])})
	}
	return out
}

func (r *reader) property(v *node) any {
	if !r.want(v, object, "a property") {
		return nil
	}
	return &value.Property{Key: r.string(v.field("key"), "a key"), Val: r.key(v.field("value"))}
}

func (r *reader) path(v *node) any {
	if !r.want(v, object, "a path") {
		return nil
	}
	p := &value.Path{}
	for _, set := range value.Items(r.value(v.field("labels"))) {
		var labels []string
		for _, l := range value.Items(set) {
			if text, ok := l.(string); ok {
				labels = append(labels, text)
			} else {
				r.failf(v, "expected labels that are strings")
			}
		}
		p.Labels = append(p.Labels, labels)
	}
	p.Objects = value.Items(r.key(v.field("objects")))
	if len(p.Labels) != len(p.Objects) {
		r.failf(v, "expected labels for %d values, found %d", len(p.Objects), len(p.Labels))
	}
	return p
}

// graph reads vertices and edges. Edges refer to vertices by their ids.
func (r *reader) graph(v *node) any {
	g, byID := &value.Graph{}, &value.Map{}
	if !r.want(v, object, "a graph") {
		return nil
	}
	for _, item := range r.list(v.field("vertices"), "vertices") {
		x, ok := item.(*value.Vertex)
		if !ok {
			r.failf(v, "expected a list of vertices")
			return nil
		}
		byID.Set(x.ID, x)
		g.Vertices = append(g.Vertices, x)
	}
	for _, item := range r.list(v.field("edges"), "edges") {
		e, ok := item.(*value.Edge)
		if !ok {
			r.failf(v, "expected a list of edges")
			return nil
		}
		in, okIn := byID.Get(e.In.ID)
		out, okOut := byID.Get(e.Out.ID)
		if !okIn || !okOut {
			r.failf(v, "expected edges between vertices of the graph")
			return nil
		}
		e.In, e.Out = in.(*value.Vertex), out.(*value.Vertex)
		g.Edges = append(g.Edges, e)
	}
	return g
}

// millis converts the milliseconds of metrics to nanoseconds.
func millis(v any) int64 {
	f, _ := value.Float(v)
	if math.IsNaN(f) || math.Abs(f) > math.MaxInt64/2e6 {
		return 0
	}
	return int64(math.Round(f * 1e6))
}

func (r *reader) metrics(val any, v *node) *value.Metrics {
	m, ok := val.(*value.Map)
	if !ok {
		r.failf(v, "expected metrics as a map")
		return nil
	}
	get := func(key string) any { x, _ := m.Get(key); return x }
	out := &value.Metrics{Nanos: millis(get("dur"))}
	out.ID, _ = get("id").(string)
	out.Name, _ = get("name").(string)
	out.Counts, _ = get("counts").(*value.Map)
	out.Annotations, _ = get("annotations").(*value.Map)
	out.Nested = r.metricsList(get("metrics"), v)
	return out
}

func (r *reader) traversalMetrics(v *node) any {
	m, ok := r.value(v).(*value.Map)
	if !ok {
		r.failf(v, "expected metrics as a map")
		return nil
	}
	dur, _ := m.Get("dur")
	steps, _ := m.Get("metrics")
	return &value.TraversalMetrics{Nanos: millis(dur), Steps: r.metricsList(steps, v)}
}

func (r *reader) metricsList(val any, v *node) []*value.Metrics {
	list, _ := val.(value.List)
	var out []*value.Metrics
	for _, item := range list {
		m, ok := item.(*value.Metrics)
		if !ok {
			r.failf(v, "expected a list of metrics")
			return nil
		}
		out = append(out, m)
	}
	return out
}
