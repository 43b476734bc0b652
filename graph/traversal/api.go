package traversal

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// Query is a traversal that a program writes in Go. Each method returns a longer one
// and leaves q as it is, so that one may be the beginning of several. The zero Query
// is the beginning of an anonymous traversal, as others take them for arguments:
//
//	traversal.G(tx).V().Has("name", "ann").Repeat(traversal.Query{}.Out("knows")).Times(2).Values("name")
//
// The methods have the names and the meaning of Gremlin's steps, which TinkerPop's
// reference documentation describes; Step has those that have no method. Errors are
// returned when the query runs.
//
// Arguments may be values of package value, Go's numbers, strings, booleans,
// time.Time, []byte, elements of tx, slices and maps of these, queries and
// predicates.
type Query struct {
	tx    *graph.Tx
	steps []gremlin.Call
	err   error
}

// G returns the beginning of a query on a graph.
func G(tx *graph.Tx) Query { return Query{tx: tx} }

// Step appends a step by its name.
func (q Query) Step(name string, args ...any) Query {
	call := gremlin.Call{Name: name, Args: make([]any, len(args)), Pos: gremlin.NoPos}
	for i, a := range args {
		v, err := argument(a)
		if err != nil && q.err == nil {
			q.err = &StepError{Step: name, Msg: err.Error(), Pos: gremlin.NoPos, Err: err}
		}
		call.Args[i] = v
	}
	q.steps = append(q.steps[:len(q.steps):len(q.steps)], call)
	return q
}

// argument returns a value of Go as one of Gremlin.
func argument(a any) (any, error) {
	switch x := a.(type) {
	case int:
		return int64(x), nil
	case uint8:
		return int16(x), nil
	case uint16:
		return int32(x), nil
	case uint32:
		return int64(x), nil
	case Query:
		return &gremlin.Traversal{Steps: x.steps}, x.err
	case []string:
		return listOf(x)
	case []int:
		return listOf(x)
	case []any:
		return listOf(x)
	case map[string]any:
		out := &value.Map{}
		for k, v := range x {
			v, err := argument(v)
			if err != nil {
				return nil, err
			}
			out.Set(k, v)
		}
		return out, nil
	case nil, *gremlin.P, *gremlin.Traversal, gremlin.Cardinal, value.Enum, value.Stored, value.Entry, *value.Property, *value.Path, *value.Vertex, *value.Edge:
		return a, nil
	}
	if value.TypeName(a) == "" {
		return nil, fmt.Errorf("a %T cannot be an argument", a)
	}
	return a, nil
}

func listOf[T any](items []T) (any, error) {
	out := make(value.List, len(items))
	for i, item := range items {
		var err error
		if out[i], err = argument(item); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// String returns the query as Gremlin text.
func (q Query) String() string { return (&gremlin.Traversal{Steps: q.steps}).String() }

// Run runs the query and yields each result, as often as it occurs. Elements are
// those of the transaction. An error is the last one.
func (q Query) Run(ctx context.Context) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		if err := q.run(ctx, func(v any) error {
			if !yield(v, nil) {
				return errFirst
			}
			return nil
		}); err != nil && err != errFirst {
			yield(nil, err)
		}
	}
}

func (q Query) run(ctx context.Context, each func(any) error) error {
	switch {
	case q.err != nil:
		return q.err
	case q.tx == nil:
		return errors.New("traversal: an anonymous query cannot run; begin with G")
	}
	plan, err := Compile(&gremlin.Traversal{Steps: q.steps})
	if err != nil {
		return err
	}
	return plan.Run(ctx, q.tx, Options{}, func(v any, bulk int64) error {
		for range bulk {
			if err := each(v); err != nil {
				return err
			}
		}
		return nil
	})
}

// Iterate runs the query for what it does, without results.
func (q Query) Iterate(ctx context.Context) error {
	return q.run(ctx, func(any) error { return nil })
}

// Results yields the results of a query as values of T. An integer may be asked for
// as int64 or int, any number as float64; otherwise a result must be a T.
func Results[T any](ctx context.Context, q Query) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range q.Run(ctx) {
			t, ok := v.(T)
			if err == nil && !ok {
				t, err = convert[T](v)
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

func convert[T any](v any) (out T, err error) {
	switch p := any(&out).(type) {
	case *int64:
		if n, ok := value.Int(v); ok {
			*p = n
			return out, nil
		}
	case *int:
		if n, ok := value.Int(v); ok && int64(int(n)) == n {
			*p = int(n)
			return out, nil
		}
	case *float64:
		if f, ok := value.Float(v); ok {
			*p = f
			return out, nil
		}
	}
	return out, fmt.Errorf("traversal: a result is %s, not a %T", value.Describe(v), out)
}

// All returns all results of a query.
func All[T any](ctx context.Context, q Query) (out []T, err error) {
	for t, err := range Results[T](ctx, q) {
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// First returns the first result of a query, and whether there is one.
func First[T any](ctx context.Context, q Query) (out T, ok bool, err error) {
	for t, err := range Results[T](ctx, q) {
		return t, err == nil, err
	}
	return out, false, nil
}
