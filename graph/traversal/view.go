package traversal

import (
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

// This file is how steps see the graph: all reads of elements go through it, so
// that strategies can hide some of them.

// vertexOf returns the vertex of the graph that a value stands for, and nil if it
// is not there.
func (r *run) vertexOf(v any) (*graph.Vertex, error) {
	switch x := v.(type) {
	case *graph.Vertex:
		return x, nil
	case *value.Vertex:
		found, ok, err := r.tx.Vertex(x.ID)
		if !ok || err != nil {
			return nil, err
		}
		return found, nil
	}
	return nil, fmt.Errorf("it needs a vertex, not %s", value.Describe(v))
}

func (r *run) edgeOf(v any) (*graph.Edge, error) {
	switch x := v.(type) {
	case *graph.Edge:
		return x, nil
	case *value.Edge:
		found, ok, err := r.tx.Edge(x.ID)
		if !ok || err != nil {
			return nil, err
		}
		return found, nil
	}
	return nil, fmt.Errorf("it needs an edge, not %s", value.Describe(v))
}

// vertices calls yield with all vertices that can be seen.
func (r *run) vertices(yield func(any) error) error {
	return r.tx.Vertices(func(v *graph.Vertex) error {
		if ok, err := r.sees(v); !ok || err != nil {
			return err
		}
		return yield(v)
	})
}

func (r *run) allEdges(yield func(any) error) error {
	return r.tx.AllEdges(func(e *graph.Edge) error {
		if ok, err := r.sees(e); !ok || err != nil {
			return err
		}
		return yield(e)
	})
}

// edges calls yield with a vertex's edges that can be seen.
func (r *run) edges(v any, dir graph.Direction, labels []string, yield func(*graph.Edge) error) error {
	at, err := r.vertexOf(v)
	if at == nil || err != nil {
		return err
	}
	return r.tx.Edges(at, dir, labels, func(e *graph.Edge) error {
		if ok, err := r.sees(e); !ok || err != nil {
			return err
		}
		return yield(e)
	})
}

// countEdges calls yield with how many edges of a vertex there are, a page at a time. No
// strategy may hide elements.
func (r *run) countEdges(v any, dir graph.Direction, labels []string, yield func(n int) error) error {
	at, err := r.vertexOf(v)
	if at == nil || err != nil {
		return err
	}
	return r.tx.CountEdges(at, dir, labels, yield)
}

// neighbours calls yield with the vertices at the other ends of these edges.
func (r *run) neighbours(v any, dir graph.Direction, labels []string, yield func(any) error) error {
	at, err := r.vertexOf(v)
	if at == nil || err != nil {
		return err
	}
	if !r.hides() {
		return r.tx.Neighbours(at, dir, labels, func(v *graph.Vertex) error { return yield(v) })
	}
	return r.edges(at, dir, labels, func(e *graph.Edge) error {
		far := e.Other(at)
		if ok, err := r.sees(far); !ok || err != nil {
			return err
		}
		return yield(far)
	})
}

// properties calls yield with an element's properties that can be seen: those with
// one of the keys, or all.
func (r *run) properties(of value.Element, keys []string, yield func(any) error) error {
	plain := func(p *value.Property) error { return yield(p) }
	switch x := of.(type) {
	case *graph.Vertex:
		var computed []string
		if r.computed != nil {
			var err error
			if computed, err = r.layered(x, keys, yield); err != nil {
				return err
			}
		}
		return x.Properties(keys, func(p *graph.VertexProperty) error {
			if slices.Contains(computed, p.Key) {
				return nil
			}
			if ok, err := r.sees(p); !ok || err != nil {
				return err
			}
			return yield(p)
		})
	case *graph.Edge:
		return x.Properties(keys, plain)
	case *graph.VertexProperty:
		return x.Properties(keys, plain)
	case *value.Vertex:
		v, err := r.vertexOf(x)
		if v == nil || err != nil {
			return err
		}
		return r.properties(v, keys, yield)
	case *value.Edge:
		e, err := r.edgeOf(x)
		if e == nil || err != nil {
			return err
		}
		return r.properties(e, keys, yield)
	}
	return nil
}

// byID returns the vertices or edges with one of the ids, each as often as it is
// asked for.
func (r *run) byID(ids []any, edges bool, yield func(any) error) error {
	for _, id := range ids {
		if e, ok := id.(value.Element); ok {
			id = e.ElementID()
		}
		var found value.Stored
		var ok bool
		var err error
		if edges {
			found, ok, err = r.tx.Edge(id)
		} else {
			found, ok, err = r.tx.Vertex(id)
		}
		if ok && err == nil {
			ok, err = r.sees(found)
		}
		if err != nil {
			return err
		}
		if ok {
			if err := yield(found); err != nil {
				return err
			}
		}
	}
	return nil
}
