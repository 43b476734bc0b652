package traversal

import (
	"fmt"
	"slices"
	"sync"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// moves has the makers of the steps that bring traversers to elements.
func moves() map[string]maker {
	out := map[string]maker{
		"V": makeElements, "E": makeElements, "inject": makeInject,
		"outV": makeEnd(graph.Out), "inV": makeEnd(graph.In), "bothV": makeEnd(graph.Both),
		"to": makeTo, "toE": makeTo, "toV": makeTo,
		"id": makeToken(value.ID), "label": makeToken(value.Label), "key": makeToken(value.Key), "value": makeToken(value.Val),
		"element": makeElement, "properties": makeProperties, "values": makeProperties,
		"valueMap": makeValueMap, "propertyMap": makeValueMap, "elementMap": makeElementMap,
	}
	for _, name := range []string{"out", "in", "both", "outE", "inE", "bothE"} {
		out[name] = makeAdjacent
	}
	return out
}

// elements brings a traverser to vertices or edges: to all, to those with ids, or to
// those that the optimizer found an index for.
type elements struct {
	edges bool
	ids   []any // nil: all
	byID  bool
	tests []*hasTest // that follow: what an index may be asked for
}

func makeElements(_ *builder, c *callInfo) (kernel, traits, error) {
	e := &elements{edges: c.Name == "E", byID: len(c.Args) > 0}
	for i, id := range flat(c.Args) {
		switch id.(type) {
		case *gremlin.Traversal, *gremlin.P:
			return nil, traits{}, wrong(i, "an id or an element", id)
		case nil:
			continue
		}
		e.ids = append(e.ids, id)
	}
	return e, traits{source: true, moves: true}, nil
}

func (e *elements) open(r *run, next sink) sink {
	return spreading(func(r *run, t traverser, yield func(any) error) error {
		switch {
		case e.byID:
			return r.byID(e.ids, e.edges, yield)
		case len(e.tests) > 0 && !r.computes(e.tests):
			if done, err := e.byIndex(r, yield); done || err != nil {
				return err
			}
		}
		if e.edges {
			return r.allEdges(yield)
		}
		return r.vertices(yield)
	}).open(r, next)
}

// byIndex finds the elements by an index, if there is one for them.
func (e *elements) byIndex(r *run, yield func(any) error) (done bool, err error) {
	kind := value.KindVertex
	if e.edges {
		kind = value.KindEdge
	}
	look, err := r.bestLookup(kind, e.tests)
	if look == nil || err != nil {
		return false, err
	}
	return look.find(r, yield)
}

// makeInject makes inject, which adds values before what comes.
func makeInject(_ *builder, c *callInfo) (kernel, traits, error) {
	return &inject{c.Args, c.first, c.start && !c.first}, traits{source: true, stateful: true}, nil
}

type inject struct {
	vals  []any
	first bool // nothing comes
	after bool // it begins a traversal that traversers come to: they go first
}

func (i *inject) open(r *run, next sink) sink { return &injector{r: r, i: i, next: next} }

type injector struct {
	r    *run
	i    *inject
	done bool
	next sink
}

func (s *injector) start() error {
	if s.done {
		return nil
	}
	s.done = true
	for _, v := range s.i.vals {
		if err := s.next.push(s.r.to(traverser{bulk: 1, sack: s.r.firstSack()}, v)); err != nil {
			return err
		}
	}
	return nil
}

func (s *injector) push(t traverser) error {
	if s.i.after {
		if err := s.next.push(t); err != nil {
			return err
		}
		return s.start()
	}
	if err := s.start(); err != nil || s.i.first {
		return err
	}
	return s.next.push(t)
}

func (s *injector) flush() error {
	if err := s.start(); err != nil && err != errDone {
		return err
	}
	return s.next.flush()
}

// adjacent moves along edges.
type adjacent struct {
	dir    graph.Direction
	edges  bool // to the edges, not to the vertices at their other ends
	labels []string

	counted bool // how many there are is all that the next step asks
}

func makeAdjacent(b *builder, c *callInfo) (kernel, traits, error) {
	dir := map[byte]graph.Direction{'o': graph.Out, 'i': graph.In, 'b': graph.Both}[c.Name[0]]
	labels, err := c.strings(0)
	if err == nil {
		err = b.checkEdges(c.Name, labels)
	}
	return &adjacent{dir: dir, edges: c.Name[len(c.Name)-1] == 'E', labels: labels}, traits{moves: true}, err
}

func (a *adjacent) open(r *run, next sink) sink {
	if a.counted && !r.hides() { // otherwise each has to be looked at
		return &degrees{r, a, next}
	}
	return spreading(func(r *run, t traverser, yield func(any) error) error {
		if a.edges {
			return r.edges(t.val, a.dir, a.labels, func(e *graph.Edge) error { return yield(e) })
		}
		return r.neighbours(t.val, a.dir, a.labels, yield)
	}).open(r, next)
}

// degrees pushes a traverser for as many as there would be, where it was.
type degrees struct {
	r    *run
	of   *adjacent
	next sink
}

func (s *degrees) push(t traverser) error {
	each := t.bulk
	return s.r.countEdges(t.val, s.of.dir, s.of.labels, func(n int) (err error) {
		if n == 0 {
			return s.r.tick()
		}
		if err := s.r.ctx.Err(); err != nil { // a page may be long
			return err
		}
		if t.bulk, err = multiply(each, int64(n)); err != nil {
			return err
		}
		return s.next.push(t)
	})
}

func (s *degrees) flush() error { return s.next.flush() }

func directionOf(v any) (graph.Direction, bool) {
	d, ok := map[any]graph.Direction{value.Out: graph.Out, value.In: graph.In, value.Both: graph.Both}[v]
	return d, ok
}

// makeTo makes to, toE and toV, whose direction is an argument.
func makeTo(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, -1); err != nil {
		return nil, traits{}, err
	}
	e, _ := c.Args[0].(value.Enum)
	dir, ok := directionOf(e)
	if !ok {
		return nil, traits{}, wrong(0, "a direction", c.Args[0])
	}
	if c.Name == "toV" {
		return makeEnd(dir)(b, &callInfo{Call: gremlin.Call{Name: c.Name, Pos: c.Pos}})
	}
	labels, err := c.strings(1)
	return &adjacent{dir: dir, edges: c.Name == "toE", labels: labels}, traits{moves: true}, err
}

func makeEnd(dir graph.Direction) maker {
	return func(_ *builder, c *callInfo) (kernel, traits, error) {
		return spreading(func(r *run, t traverser, yield func(any) error) error {
			e, err := r.edgeOf(t.val)
			if e == nil || err != nil {
				return err
			}
			ends := []*graph.Vertex{}
			if dir&graph.Out != 0 {
				ends = append(ends, e.Out())
			}
			if dir&graph.In != 0 {
				ends = append(ends, e.In())
			}
			for _, v := range ends {
				if ok, err := r.sees(v); err != nil || !ok {
					if err != nil {
						return err
					}
					continue
				}
				if err := yield(v); err != nil {
					return err
				}
			}
			return nil
		}), traits{}, c.arity(0, 0)
	}
}

func makeToken(token value.Enum) maker {
	return func(_ *builder, c *callInfo) (kernel, traits, error) {
		return mapping(func(_ *run, t traverser) (any, bool, error) {
			v, err := tokenOf(token, t.val)
			return v, err == nil, err
		}), traits{}, c.arity(0, 0)
	}
}

func makeElement(_ *builder, c *callInfo) (kernel, traits, error) {
	return mapping(func(r *run, t traverser) (any, bool, error) {
		switch x := t.val.(type) {
		case *graph.VertexProperty:
			return x.Of, true, nil
		case *value.VertexProperty:
			return x.Of, x.Of != nil, nil
		case *value.Property:
			return x.Of, x.Of != nil, nil
		}
		return nil, false, fmt.Errorf("it needs a property, not %s", value.Describe(t.val))
	}), traits{}, c.arity(0, 0)
}

func makeProperties(_ *builder, c *callInfo) (kernel, traits, error) {
	keys, err := c.strings(0)
	vals := c.Name == "values"
	return spreading(func(r *run, t traverser, yield func(any) error) error {
		e, ok := t.val.(value.Element)
		if !ok {
			return fmt.Errorf("it needs an element, not %s", value.Describe(t.val))
		}
		return r.properties(e, keys, func(p any) error {
			if vals {
				return yield(propertyValue(p))
			}
			return yield(p)
		})
	}), traits{}, err
}

// valueMap is valueMap and propertyMap.
type valueMap struct {
	keys       []string
	properties bool
	tokens     int64 // which of id, label, keys and values it has: bits of WithOptions
	bys        []*by
}

// The bits of WithOptions.tokens, and the names of its options.
const (
	tokenIDs    = 1
	tokenLabels = 2
	tokenKeys   = 4
	tokenValues = 8
	tokensAll   = 15

	optionTokens  = "~tinkerpop.valueMap.tokens"
	optionIndexer = "~tinkerpop.index.indexer"
)

func makeValueMap(b *builder, c *callInfo) (kernel, traits, error) {
	m := &valueMap{properties: c.Name == "propertyMap"}
	if len(c.Args) > 0 {
		if all, ok := c.Args[0].(bool); ok {
			c.Args = c.Args[1:]
			if all {
				m.tokens = tokensAll
			}
		}
	}
	for i := range c.mods {
		mod := &c.mods[i]
		if mod.Name != "with" {
			continue
		}
		if err := (&callInfo{Call: *mod}).arity(1, 2); err != nil {
			return nil, traits{}, err
		}
		if mod.Args[0] != optionTokens {
			return nil, traits{}, fmt.Errorf("it has no option %s", value.Text(mod.Args[0]))
		}
		m.tokens = tokensAll
		if len(mod.Args) == 2 {
			n, ok := value.Int(mod.Args[1])
			if !ok || n < 0 || n > tokensAll {
				return nil, traits{}, fmt.Errorf("the option of its tokens is from 0 to %d", tokensAll)
			}
			m.tokens = n
		}
	}
	var err error
	if m.keys, err = c.strings(0); err != nil {
		return nil, traits{}, err
	}
	name := "ValueMap"
	if m.properties {
		name = "PropertyMap"
	}
	m.bys, err = b.oneBy(c, name)
	return mapping(m.value), traits{}, err
}

func (m *valueMap) value(r *run, t traverser) (any, bool, error) {
	e, ok := t.val.(value.Element)
	if !ok {
		return nil, false, fmt.Errorf("it needs an element, not %s", value.Describe(t.val))
	}
	out := &value.Map{}
	m.addTokens(out, e)
	lists := value.KindOf(e) == value.KindVertex
	var keys []string
	found := map[string]value.List{}
	if err := r.properties(e, m.keys, func(p any) error {
		key, _ := propertyKey(p)
		if _, ok := found[key]; !ok {
			keys = append(keys, key)
		}
		if m.properties {
			found[key] = append(found[key], p)
		} else {
			found[key] = append(found[key], propertyValue(p))
		}
		return nil
	}); err != nil {
		return nil, false, err
	}
	for i, key := range keys {
		var v any = found[key]
		if !lists {
			v = found[key][0]
		}
		if len(m.bys) > 0 {
			moved := r.alone(t, v)
			var err error
			var ok bool
			if v, ok, err = m.bys[i%len(m.bys)].value(r, moved); err != nil {
				return nil, false, err
			} else if !ok {
				continue
			}
		}
		out.Set(key, v)
	}
	return out, true, nil
}

func (m *valueMap) addTokens(out *value.Map, e value.Element) {
	if p, ok := e.(*graph.VertexProperty); ok {
		if m.tokens&tokenIDs != 0 {
			out.Set(value.ID, p.ElementID())
		}
		if m.tokens&tokenKeys != 0 {
			out.Set(value.Key, p.Key)
		}
		if m.tokens&tokenValues != 0 {
			out.Set(value.Val, p.Val)
		}
		return
	}
	if m.tokens&tokenIDs != 0 {
		out.Set(value.ID, e.ElementID())
	}
	if m.tokens&tokenLabels != 0 {
		out.Set(value.Label, e.ElementLabel())
	}
}

// makeElementMap makes elementMap: the id, the label, the ends of an edge and one
// value of each property.
func makeElementMap(_ *builder, c *callInfo) (kernel, traits, error) {
	keys, err := c.strings(0)
	end := func(v *graph.Vertex) *value.Map {
		return value.MapOf(value.ID, v.ElementID(), value.Label, v.ElementLabel())
	}
	return mapping(func(r *run, t traverser) (any, bool, error) {
		e, ok := t.val.(value.Element)
		if !ok {
			return nil, false, fmt.Errorf("it needs an element, not %s", value.Describe(t.val))
		}
		out := value.MapOf(value.ID, e.ElementID())
		if p, ok := e.(*graph.VertexProperty); ok {
			out.Set(value.Key, p.Key)
			out.Set(value.Val, p.Val)
		} else {
			out.Set(value.Label, e.ElementLabel())
		}
		if value.KindOf(e) == value.KindEdge {
			edge, err := r.edgeOf(e)
			if edge == nil || err != nil {
				return nil, false, err
			}
			out.Set(value.In, end(edge.In()))
			out.Set(value.Out, end(edge.Out()))
		}
		err := r.properties(e, keys, func(p any) error {
			key, _ := propertyKey(p)
			out.Set(key, propertyValue(p))
			return nil
		})
		return out, err == nil, err
	}), traits{}, err
}

// allMakers are the makers of all steps. They are made at the first traversal: they use
// makers themselves, so a variable could not be initialized with them.
var allMakers struct {
	once   sync.Once
	byName map[string]maker
}

// makers returns the makers of all steps, by their names.
func makers() map[string]maker {
	allMakers.once.Do(func() {
		out := map[string]maker{}
		for _, some := range []map[string]maker{
			filters(), moves(), paths(), ranging(), reductions(), branches(), mutations(), collections(), textSteps(), dates(), others(), wholeGraph(),
		} {
			for name, m := range some {
				if _, ok := out[name]; ok {
					panic("BUG: two makers of " + name)
				}
				out[name] = m
			}
		}
		allMakers.byName = out
	})
	return allMakers.byName
}

// Steps returns the names of all steps, sorted.
func Steps() []string {
	var out []string
	for name := range makers() {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
