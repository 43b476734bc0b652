package traversal

import (
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

// Detach returns a value whose elements no longer need the transaction: with their
// properties, or just with what identifies them. Collections are copied if they
// have elements in them.
func Detach(tx *graph.Tx, v any, properties bool) (any, error) {
	d := &detacher{r: &run{tx: tx, source: &config{}}, properties: properties}
	out := d.value(v)
	if d.err == nil {
		d.err = tx.Err()
	}
	return out, d.err
}

type detacher struct {
	r          *run
	properties bool
	err        error
}

func (d *detacher) value(v any) any {
	switch x := v.(type) {
	case *graph.VertexProperty:
		return d.element(x)
	case value.Stored:
		if d.properties {
			return d.element(x)
		}
		return x.Detached()
	case *value.Property:
		if of, ok := x.Of.(value.Stored); ok {
			return &value.Property{Key: x.Key, Val: x.Val, Of: of.Detached()}
		}
	case value.Entry:
		return value.Entry{Key: d.value(x.Key), Val: d.value(x.Val)}
	case value.List:
		return value.List(d.items(x))
	case *value.Set:
		return value.NewSet(d.items(x.Items())...)
	case *value.BulkSet:
		out := &value.BulkSet{}
		x.All(func(v any, bulk int64) bool {
			out.Add(d.value(v), bulk)
			return true
		})
		return out
	case *value.Map:
		out := &value.Map{}
		for _, e := range x.Entries() {
			out.Set(d.value(e.Key), d.value(e.Val))
		}
		return out
	case *value.Path:
		return &value.Path{Objects: d.items(x.Objects), Labels: x.Labels}
	case *value.Tree:
		out := &value.Tree{}
		for _, n := range x.Nodes {
			*out.Child(d.value(n.Val)) = *d.value(n.Below).(*value.Tree)
		}
		return out
	}
	return v
}

func (d *detacher) items(items []any) []any {
	out := make([]any, len(items))
	for i, v := range items {
		out[i] = d.value(v)
	}
	return out
}

func (d *detacher) element(e value.Stored) any {
	out, err := d.r.complete(e)
	if d.err == nil {
		d.err = err
	}
	return out
}
