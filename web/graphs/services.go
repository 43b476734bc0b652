package graphs

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/graphson"
	lang "github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/graph/value"
	"github.com/skerrydb/skerry/web/gremlin"
)

// service is what call() names. args is JSON. What it returns becomes JSON too; of a
// slice each item is a result.
type service func(ctx context.Context, db *graph.DB, source string, args []byte) (any, error)

// listing is the service that lists the others, as TinkerPop calls it.
const listing = "--list"

// services declare what a graph has. They take many transactions, so a call is a
// request of its own, not a step of a traversal.
var services = map[string]service{
	"skerry.indexes":     indexes,
	"skerry.addIndex":    declares(graph.ParseIndex, (*graph.DB).AddIndex),
	"skerry.removeIndex": declares(graph.ParseIndex, (*graph.DB).RemoveIndex),
	"skerry.schema":      schema,
	"skerry.setSchema":   declares(graph.ParseSchema, (*graph.DB).SetSchema),
	"skerry.graphs":      graphNames,
	"skerry.createGraph": ofGraph((*graph.DB).Create),
	"skerry.dropGraph":   ofGraph((*graph.DB).Drop),
}

// call answers a request that is one call().
func (b *Backend) call(ctx context.Context, r gremlin.Request, yield func(val any, bulk int64) error) (done bool, err error) {
	if !calls(r) {
		return false, nil
	}
	step := r.Traversal.Steps[0]
	fail := func(err error) (bool, error) {
		return true, failure(&traversal.StepError{Step: step.Name, Msg: err.Error(), Pos: step.Pos, Err: err})
	}
	name, args, err := callArguments(r.Traversal)
	if err != nil {
		return fail(err)
	}
	var results []any
	if name == listing {
		for _, known := range slices.Sorted(maps.Keys(services)) {
			results = append(results, known)
		}
	} else {
		run, ok := services[name]
		if !ok {
			return fail(engine.Errorf(engine.CodeNotFound, "there is no service %q; g.call() lists them", name))
		}
		found, err := run(ctx, b.db, r.Source, args)
		if err != nil {
			return fail(err)
		}
		if results, err = values(found); err != nil {
			return fail(err)
		}
	}
	end := newEnd(r, yield)
	if last := r.Traversal.Steps[len(r.Traversal.Steps)-1].Name; !end.wants || dropping(last) {
		return true, nil
	}
	for _, v := range results {
		if err := end.take(v, 1); err != nil {
			return true, err
		}
	}
	return true, end.close()
}

// calls reports whether a request is a call(), which may be followed by other steps.
func calls(r gremlin.Request) bool {
	return r.End != "explain" && len(r.Traversal.Steps) > 0 && r.Traversal.Steps[0].Name == "call"
}

// callArguments returns the name of the service that a traversal calls, and its
// arguments as JSON.
func callArguments(t *lang.Traversal) (name string, args []byte, err error) {
	for _, c := range t.Source {
		if c.Name != "with" {
			return "", nil, errAlone
		}
	}
	given := t.Steps[0].Args
	m := &value.Map{}
	if name = listing; len(given) > 0 {
		if name, _ = given[0].(string); name == "" {
			return "", nil, errArguments
		}
	}
	switch {
	case len(given) == 2:
		some, ok := given[1].(*value.Map)
		if !ok {
			return "", nil, errArguments
		}
		for _, e := range some.Entries() {
			m.Set(e.Key, e.Val)
		}
	case len(given) > 2:
		return "", nil, errArguments
	}
	for i, c := range t.Steps[1:] {
		switch {
		case c.Name == "with" && len(c.Args) == 2:
			m.Set(c.Args[0], c.Args[1])
		case dropping(c.Name) && len(c.Args) == 0 && i == len(t.Steps)-2:
		default:
			return "", nil, errAlone
		}
	}
	if args, err = graphson.Untyped.Append(nil, m); err != nil {
		return "", nil, engine.Errorf(engine.CodeInvalid, "%v", err)
	}
	return name, args, nil
}

// dropping reports whether a step is what drivers send for iterate().
func dropping(step string) bool { return step == "none" || step == "discard" }

var (
	errAlone     = engine.Errorf(engine.CodeInvalid, "a service is called by itself, as in g.call(name, arguments): without other steps or strategies")
	errArguments = engine.Errorf(engine.CodeInvalid, "a service is called with its name and a map of its arguments")
)

// values returns results as a driver sees them.
func values(found any) (all []any, err error) {
	if found == nil {
		return nil, nil
	}
	text, err := json.Marshal(found)
	if err != nil {
		return nil, err
	}
	v, err := graphson.Decode(text)
	if list, ok := v.(value.List); ok {
		return list, err
	}
	return []any{v}, err
}

// declares makes a service that has no result.
func declares[T any](parse func([]byte) (T, error), do func(*graph.DB, context.Context, string, T) error) service {
	return func(ctx context.Context, db *graph.DB, source string, args []byte) (any, error) {
		what, err := parse(args)
		if err != nil {
			return nil, err
		}
		return nil, do(db, ctx, source, what)
	}
}

// ofGraph makes a service whose argument is the name of a graph.
func ofGraph(do func(*graph.DB, context.Context, string) error) service {
	return func(ctx context.Context, db *graph.DB, _ string, args []byte) (any, error) {
		var of map[string]string
		if err := json.Unmarshal(args, &of); err != nil || len(of) != 1 || of["name"] == "" {
			return nil, engine.Errorf(engine.CodeInvalid, "it has one argument, name, the name of a graph")
		}
		return nil, do(db, ctx, of["name"])
	}
}

// noArguments returns an error if there are arguments.
func noArguments(args []byte) error {
	if string(args) != "{}" {
		return engine.Errorf(engine.CodeInvalid, "it has no arguments")
	}
	return nil
}

func graphNames(ctx context.Context, db *graph.DB, _ string, args []byte) (any, error) {
	if err := noArguments(args); err != nil {
		return nil, err
	}
	return db.Names(ctx)
}

func indexes(ctx context.Context, db *graph.DB, source string, args []byte) (any, error) {
	if err := noArguments(args); err != nil {
		return nil, err
	}
	return db.Indexes(ctx, source)
}

// declaredSchema is a schema as a driver sees it.
type declaredSchema struct {
	*graph.Schema
	Next bool `json:"next,omitempty"` // it is being declared
}

func schema(ctx context.Context, db *graph.DB, source string, args []byte) (any, error) {
	if err := noArguments(args); err != nil {
		return nil, err
	}
	now, next, err := db.Schema(ctx, source)
	all := []declaredSchema{}
	if now != nil {
		all = append(all, declaredSchema{Schema: now})
	}
	if next != nil {
		all = append(all, declaredSchema{next, true})
	}
	return all, err
}
