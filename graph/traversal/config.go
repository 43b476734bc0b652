package traversal

import (
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// pathUse says how much of their history traversers keep.
type pathUse byte

const (
	noPaths       pathUse = iota
	labelledPaths         // the objects with labels
	fullPaths
)

// config is what the source of a traversal asks for.
type config struct {
	paths pathUse

	sack  *sackConfig
	given []givenEffect // of withSideEffect
	seed  *int64

	readOnly   bool
	productive bool // by() without a result yields null
	subgraph   *subgraph
	partition  *partition
	idKey      string // the property that is an element's id; "": none
	single     bool   // traversers that are the same count as one

	collects map[string]func() any // side effects that are there from the start, by their keys
}

type sackConfig struct {
	initial any
	merge   *value.Enum // an Operator; nil: none
}

type givenEffect struct {
	key     string
	initial any
	reduce  *value.Enum // an Operator; nil: none
}

// configure reads the calls of the source.
func (b *builder) configure(calls []gremlin.Call) error {
	for _, c := range calls {
		if err := b.sourceCall(&callInfo{Call: c}); err != nil {
			s := &step{call: callInfo{Call: c}}
			return s.fail(err)
		}
	}
	return nil
}

func (b *builder) sourceCall(c *callInfo) error {
	switch c.Name {
	case "withSack":
		return b.withSack(c)
	case "withSideEffect":
		return b.withSideEffect(c)
	case "withStrategies":
		for _, a := range c.Args {
			if err := b.strategy(a); err != nil {
				return err
			}
		}
		if b.computer && b.noComputer {
			return known("The TraversalSource does not allow the use of a GraphComputer")
		}
	case "withoutStrategies":
		for _, a := range c.Args {
			switch a {
			case gremlin.Class("ConnectiveStrategy"), "ConnectiveStrategy":
				b.plainConnectives = true
			}
			switch a.(type) {
			case gremlin.Class, gremlin.Strategy, string:
			default:
				return fmt.Errorf("it needs names of strategies, not %s", describe(a))
			}
		}
	case "with":
		if err := c.arity(1, 2); err != nil {
			return err
		}
		_, err := c.string(0) // an option of the request
		return err
	case "withPath":
		b.config.paths = fullPaths
	case "withBulk":
		b.config.single = len(c.Args) == 1 && c.Args[0] == false
	case "withComputer":
	default:
		return fmt.Errorf("a source of traversals has no such configuration")
	}
	return nil
}

func operator(v any) (*value.Enum, bool) {
	e, ok := v.(value.Enum)
	return &e, ok && e.Kind == value.KindOperator
}

func (b *builder) withSack(c *callInfo) error {
	if err := c.arity(1, 2); err != nil { // with three, one is a function of Java
		return err
	}
	if _, ok := c.Args[0].(*gremlin.Traversal); ok {
		return wrong(0, "a value", c.Args[0])
	}
	s := &sackConfig{initial: c.Args[0]}
	if len(c.Args) == 2 {
		var ok bool
		if s.merge, ok = operator(c.Args[1]); !ok {
			return wrong(1, "an operator", c.Args[1])
		}
	}
	b.config.sack = s
	return nil
}

func (b *builder) withSideEffect(c *callInfo) error {
	if err := c.arity(2, 3); err != nil {
		return err
	}
	key, err := c.string(0)
	if err != nil {
		return err
	}
	g := givenEffect{key: key, initial: c.Args[1]}
	if len(c.Args) == 3 {
		op, ok := operator(c.Args[2])
		if !ok {
			return wrong(2, "an operator", c.Args[2])
		}
		g.reduce = op
	}
	b.config.given = append(b.config.given, g)
	return nil
}

// firstSack returns what a new traverser carries.
func (r *run) firstSack() any {
	if r.source.sack == nil {
		return nil
	}
	return r.source.sack.initial
}

// effects are the side effects of a run: values by their keys.
type effects struct {
	vals   map[string]any
	reduce map[string]*value.Enum
	groups map[string]*grouping // those that group fills
}

// init sets what the source gave.
func (e *effects) init(c *config) {
	e.vals, e.reduce, e.groups = map[string]any{}, map[string]*value.Enum{}, map[string]*grouping{}
	for key, empty := range c.collects {
		e.vals[key] = empty()
	}
	for _, g := range c.given {
		e.vals[g.key] = g.initial
		if s, ok := g.initial.(*value.Set); ok { // which the run adds to
			e.vals[g.key] = value.NewSet(s.Items()...)
		}
		if g.reduce != nil {
			e.reduce[g.key] = g.reduce
		}
	}
}

// effect returns a side effect, and whether there is one.
func (r *run) effect(key string) (any, bool, error) {
	if g, ok := r.effects.groups[key]; ok {
		m, err := g.value()
		return m, true, err
	}
	v, ok := r.effects.vals[key]
	if g, isGraph := v.(*subgraphing); isGraph {
		out, err := g.graph(r)
		return out, true, err
	}
	return v, ok, nil
}

// collect adds a value to a side effect: to the collection that it is, or by its
// operator.
func (r *run) collect(key string, val any, bulk int64) error {
	if op := r.effects.reduce[key]; op != nil {
		for range bulk {
			v, err := operate(op.Name, r.effects.vals[key], val)
			if err != nil {
				return err
			}
			r.effects.vals[key] = v
		}
		return nil
	}
	if err := r.hold(1); err != nil {
		return err
	}
	switch x := r.effects.vals[key].(type) {
	case nil:
		set := &value.BulkSet{}
		set.Add(val, bulk)
		r.effects.vals[key] = set
	case *value.BulkSet:
		x.Add(val, bulk)
	case value.List:
		out := slices.Clip(x)
		for range bulk {
			out = append(out, val)
		}
		r.effects.vals[key] = out
	case *value.Set:
		x.Add(val)
	default:
		return fmt.Errorf("the side effect %q is %s, to which nothing can be added", key, value.Describe(x))
	}
	return nil
}

// collects notes that a step fills a side effect, which is empty until then.
func (b *builder) collects(key string, empty func() any) {
	if b.config.collects == nil {
		b.config.collects = map[string]func() any{}
	}
	if b.config.collects[key] == nil {
		b.config.collects[key] = empty
	}
}
