package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/graph/value"
)

const (
	maxGraphHeld  = 200_000 // values that steps of the console hold
	maxGraphDepth = 8       // how deep results are written out
	maxGraphItems = 100     // items of a collection in a result
)

// errEnough ends a traversal whose result is full.
var errEnough = errors.New("enough")

// runGremlin runs a traversal.
func (a *Admin) runGremlin(ctx context.Context, in consoleInput) (*consoleGrid, error) {
	q, err := gremlin.Parse(in.Text, nil)
	if err != nil {
		return nil, invalidText(err)
	}
	if q.Traversal == nil {
		return nil, engine.Errorf(engine.CodeInvalid, "each run is one transaction; begin, commit and rollback have no meaning here")
	}
	plan, err := traversal.Compile(q.Traversal)
	if err != nil {
		return nil, invalidText(err)
	}
	if q.End == "explain" || in.Explain {
		return &consoleGrid{Text: plan.Explain()}, nil
	}
	if plan.Writes() && !in.Write {
		return nil, errWrites
	}
	out := &consoleGrid{}
	carry := func(tx *graph.Tx) error {
		*out = consoleGrid{Columns: []string{"result", "times"}, Plan: plan.Explain(), Changes: plan.Writes()}
		return a.traverse(ctx, plan, tx, q, out)
	}
	if plan.Writes() {
		_, err = a.o.Graphs.Update(ctx, graphOfSource(q.Source), func(tx *graph.Tx) error {
			if err := carry(tx); err != nil {
				return err
			}
			return plan.AtEnd(tx.Complete())
		})
	} else {
		_, err = a.o.Graphs.View(ctx, engine.Read{}, graphOfSource(q.Source), carry)
	}
	if err != nil {
		return nil, invalidText(err)
	}
	return out, nil
}

// invalidText returns an error of a text with a code, as such errors have none.
func invalidText(err error) error {
	if pos := placeOf(err); pos >= 0 {
		return &placedError{pos, err}
	}
	if _, ok := errors.AsType[*traversal.StepError](err); ok && engine.CodeOf(err) == engine.CodeInternal {
		return engine.Errorf(engine.CodeInvalid, "%w", err)
	}
	return err
}

// traverse runs a plan until the result is full. One that writes runs to its end.
func (a *Admin) traverse(ctx context.Context, plan *traversal.Plan, tx *graph.Tx, q *gremlin.Query, out *consoleGrid) error {
	err := plan.Run(ctx, tx, traversal.Options{MaxHeld: maxGraphHeld}, func(v any, bulk int64) error {
		if q.End == "iterate" || out.Cut != "" {
			return nil
		}
		if m, ok := v.(*value.TraversalMetrics); ok {
			out.Text = profileText(m)
			return nil
		}
		d, err := traversal.Detach(tx, v, true)
		if err != nil {
			return err
		}
		text, err := json.Marshal(plainValue(d, 0))
		if err != nil {
			return fmt.Errorf("encode a result: %w", err)
		}
		if out.add(string(text), numberText(bulk)) {
			out.items = append(out.items, text)
			return nil
		}
		out.Cut = a.text("There are more results. Only the first %d are shown.", len(out.Rows))
		if plan.Writes() {
			return nil
		}
		return errEnough
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// orderedMember is a member of an object whose order matters.
type orderedMember struct {
	name string
	val  any
}

// orderedObject is a JSON object with its members in order.
type orderedObject []orderedMember

// MarshalJSON implements json.Marshaler.
func (o orderedObject) MarshalJSON() ([]byte, error) {
	b := []byte("{")
	for i, p := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, jsonString(p.name)...), ':')
		text, err := json.Marshal(p.val)
		if err != nil {
			return nil, err
		}
		b = append(b, text...)
	}
	return append(b, '}'), nil
}

// plainValue returns a value of a graph as one that JSON has; what JSON lacks is text.
func plainValue(v any, depth int) any {
	if depth > maxGraphDepth {
		return "…"
	}
	list := func(all []any) []any {
		out := []any{}
		for i, x := range all {
			if i == maxGraphItems {
				return append(out, "…")
			}
			out = append(out, plainValue(x, depth+1))
		}
		return out
	}
	switch v := v.(type) {
	case nil, bool, string, int8, int16, int32, int64, int:
		return v
	case value.List:
		return list(v)
	case *value.Set:
		return list(v.Items())
	case *value.BulkSet:
		var all []any
		v.All(func(x any, _ int64) bool {
			all = append(all, x)
			return len(all) <= maxGraphItems
		})
		return list(all)
	case *value.Path:
		return list(v.Objects)
	case *value.Map:
		out := orderedObject{}
		for i, e := range v.Entries() {
			if i == maxGraphItems {
				out = append(out, orderedMember{"…", nil})
				break
			}
			out = append(out, orderedMember{value.Text(e.Key), plainValue(e.Val, depth+1)})
		}
		return out
	case *value.Vertex:
		out := orderedObject{{"id", plainValue(v.ID, depth+1)}, {"label", v.Label}}
		for i, p := range v.Properties {
			if i == maxGraphItems {
				break
			}
			out = append(out, orderedMember{p.Key, plainValue(p.Val, depth+1)})
		}
		return out
	case *value.Edge:
		out := orderedObject{{"id", plainValue(v.ID, depth+1)}, {"label", v.Label}, {"from", edgeEnd(v.Out)}, {"to", edgeEnd(v.In)}}
		for i, p := range v.Properties {
			if i == maxGraphItems {
				break
			}
			out = append(out, orderedMember{p.Key, plainValue(p.Val, depth+1)})
		}
		return out
	case *value.VertexProperty:
		return orderedObject{{v.Key, plainValue(v.Val, depth+1)}}
	case *value.Property:
		return orderedObject{{v.Key, plainValue(v.Val, depth+1)}}
	case time.Time:
		return v.Format(time.RFC3339Nano)
	}
	return shorten(value.Text(v), maxConsoleCell)
}

// edgeEnd returns the id of a vertex at the end of an edge.
func edgeEnd(v *value.Vertex) any {
	if v == nil {
		return nil
	}
	return plainValue(v.ID, maxGraphDepth)
}

// profileText returns what profile() measured, a step a line.
func profileText(m *value.TraversalMetrics) string {
	var b strings.Builder
	var write func(all []*value.Metrics, depth int)
	write = func(all []*value.Metrics, depth int) {
		for _, s := range all {
			counts := ""
			if s.Counts != nil {
				for _, e := range s.Counts.Entries() {
					counts += "  " + value.Text(e.Key) + " " + value.Text(e.Val)
				}
			}
			fmt.Fprintf(&b, "%10s  %s%s%s\n", time.Duration(s.Nanos).Round(time.Microsecond), strings.Repeat("  ", depth), s.Name, counts)
			write(s.Nested, depth+1)
		}
	}
	write(m.Steps, 0)
	fmt.Fprintf(&b, "%10s  %s\n", time.Duration(m.Nanos).Round(time.Microsecond), "altogether")
	return b.String()
}
