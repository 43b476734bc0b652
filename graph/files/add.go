package files

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

// at wraps an error with the position and the name of an element.
func (p Position) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%v: %s: %w", p, what, err)
}

// vertex adds a vertex.
func (im *importer) vertex(t *graph.Tx, v *Vertex) (outcome, error) {
	what := named("vertex", v.ID)
	if im.o.Resume {
		old, err := vertexWith(t, v.ID)
		if err != nil {
			return 0, err
		}
		if old != nil {
			same, err := sameVertex(old, v)
			if err == nil && !same {
				err = v.At.fail(CodeDiffers, what, "the graph has another vertex with this id")
			}
			return present, err
		}
	}
	out, err := t.AddVertex(v.Labels, v.ID)
	for i := 0; i < len(v.Properties) && err == nil; i++ {
		p := &v.Properties[i]
		metas := make([]value.Entry, len(p.Properties))
		for i, m := range p.Properties {
			metas[i] = value.Entry{Key: m.Key, Val: m.Val}
		}
		_, err = out.Set(graph.List, p.Key, p.Val, metas...)
	}
	if err == nil {
		err = t.Complete()
	}
	return written, v.At.wrap(what, err)
}

// vertexWith returns the vertex whose id is just that; nil: there is none.
func vertexWith(t *graph.Tx, id any) (*graph.Vertex, error) {
	v, ok, err := t.Vertex(id)
	if !ok || err != nil || !value.Equal(v.ElementID(), id) {
		return nil, err
	}
	return v, nil
}

// edge adds an edge.
func (im *importer) edge(t *graph.Tx, e *Edge) (outcome, error) {
	id := e.ID
	if id == nil && im.edgeIDs != "" {
		id = im.edgeIDs + strconv.FormatInt(e.Number, 10)
	}
	what := named("edge", id)
	if im.o.Resume && id == nil {
		return 0, e.At.fail(engine.CodeInvalid, what, "an edge without an id cannot be recognized when an import is resumed; set EdgeIDs from the beginning")
	}
	var ends [2]*graph.Vertex
	for i, end := range []any{e.Out, e.In} {
		v, err := vertexWith(t, end)
		switch {
		case err != nil:
			return 0, err
		case v == nil && im.o.SkipDangling:
			return dangling, nil
		case v == nil:
			return 0, e.At.fail(CodeDangling, what, "there is no vertex %s", clip(value.Text(end)))
		}
		ends[i] = v
	}
	if im.o.Resume {
		old, ok, err := t.Edge(id)
		if err != nil {
			return 0, err
		}
		if ok && value.Equal(old.ElementID(), id) {
			same, err := sameEdge(old, e)
			if err == nil && !same {
				err = e.At.fail(CodeDiffers, what, "the graph has another edge with this id")
			}
			return present, err
		}
	}
	out, err := t.AddEdge(e.Label, ends[0], ends[1], id)
	for i := 0; i < len(e.Properties) && err == nil; i++ {
		err = out.Set(e.Properties[i].Key, e.Properties[i].Val)
	}
	if err == nil {
		err = t.Complete()
	}
	return written, e.At.wrap(what, err)
}

// sameVertex reports whether a vertex of the graph has what one of a file has.
func sameVertex(old *graph.Vertex, v *Vertex) (bool, error) {
	now, err := vertexOf(old)
	if err != nil {
		return false, err
	}
	var labels []string // each once, as the graph has them
	for _, l := range v.Labels {
		if !slices.Contains(labels, l) {
			labels = append(labels, l)
		}
	}
	return slices.Equal(now.Labels, labels) && sameProperties(now.Properties, v.Properties), nil
}

func sameEdge(old *graph.Edge, e *Edge) (bool, error) {
	now, err := edgeOf(old)
	if err != nil {
		return false, err
	}
	return now.Label == e.Label && value.Equal(now.Out, e.Out) && value.Equal(now.In, e.In) && sameProperties(now.Properties, e.Properties), nil
}

func sameProperties(a, b []Property) bool {
	return slices.EqualFunc(a, b, func(a, b Property) bool {
		return a.Key == b.Key && sameValue(a.Val, b.Val) && sameProperties(a.Properties, b.Properties)
	})
}

// sameValue reports whether two values are equal and of the same type. NaN is the
// same as NaN.
func sameValue(a, b any) bool {
	return value.TypeName(a) == value.TypeName(b) && value.Hash(a) == value.Hash(b)
}

// vertexOf returns what a vertex of the graph has.
func vertexOf(v *graph.Vertex) (*Vertex, error) {
	labels, err := v.Labels()
	if err != nil {
		return nil, err
	}
	out := &Vertex{ID: v.ElementID(), Labels: labels}
	err = v.Properties(nil, func(p *graph.VertexProperty) error {
		q := Property{Key: p.Key, Val: p.Val}
		if err := p.Properties(nil, func(m *value.Property) error {
			q.Properties = append(q.Properties, Property{Key: m.Key, Val: m.Val})
			return nil
		}); err != nil {
			return err
		}
		out.Properties = append(out.Properties, q)
		return nil
	})
	return out, err
}

// edgeOf returns what an edge of the graph has.
func edgeOf(e *graph.Edge) (*Edge, error) {
	out := &Edge{ID: e.ElementID(), Label: e.ElementLabel(), Out: e.Out().ElementID(), In: e.In().ElementID()}
	err := e.Properties(nil, func(p *value.Property) error {
		out.Properties = append(out.Properties, Property{Key: p.Key, Val: p.Val})
		return nil
	})
	return out, err
}
