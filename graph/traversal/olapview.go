package traversal

import (
	"slices"
	"strconv"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

// layer is one property of vertices that a run has computed. It lies over the graph:
// steps see it instead of a property with the same key, and it is never stored.
type layer struct {
	key string
	at  *numbering
	val func(vertex uint32) any
}

// overlay adds a layer, instead of one with the same key.
func (r *run) overlay(l *layer) {
	r.computed = slices.DeleteFunc(r.computed, func(other *layer) bool { return other.key == l.key })
	r.computed = append(r.computed, l)
}

// layered calls yield with those properties of a vertex that were computed, and
// returns their keys.
func (r *run) layered(v *graph.Vertex, keys []string, yield func(any) error) (found []string, err error) {
	for _, l := range r.computed {
		if len(keys) > 0 && !slices.Contains(keys, l.key) {
			continue
		}
		i, ok := l.at.of(v.Number())
		if !ok {
			continue
		}
		if ok, err := v.Exists(); err != nil || !ok {
			return found, err
		}
		found = append(found, l.key)
		if err := yield(&value.VertexProperty{
			ID: strconv.FormatUint(v.Number(), 36) + "-" + l.key, Key: l.key, Val: l.val(i),
			Of: &value.Vertex{ID: v.ElementID(), Label: v.ElementLabel()},
		}); err != nil {
			return found, err
		}
	}
	return found, nil
}

// computes reports whether one of the tests is of a property that was computed, which
// no index has.
func (r *run) computes(tests []*hasTest) bool {
	return slices.ContainsFunc(r.computed, func(l *layer) bool {
		return slices.ContainsFunc(tests, func(t *hasTest) bool { return t.token == nil && t.key == l.key })
	})
}
