package traversal

import (
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// merge is mergeV and mergeE: it finds the elements that have all that a map says,
// or adds one.
type merge struct {
	edges    bool
	what     *operand // nil: the map that comes
	onCreate *operand
	onMatch  *operand
	outV     *operand
	inV      *operand
}

func makeMerge(b *builder, c *callInfo) (kernel, traits, error) {
	m := &merge{edges: c.Name == "mergeE"}
	if err := c.arity(0, 1); err != nil {
		return nil, traits{}, err
	}
	if len(c.Args) == 1 {
		o, err := b.operand(c.Args[0])
		if err != nil {
			return nil, traits{}, err
		}
		if o.plan == nil {
			if o.val, err = asMap(o.val); err != nil {
				return nil, traits{}, err
			}
			if err := m.check(o.val.(*value.Map), false); err != nil {
				return nil, traits{}, err
			}
		}
		m.what = &o
	}
	for i := range c.mods {
		if err := b.mergeOption(m, &callInfo{Call: c.mods[i]}); err != nil {
			return nil, traits{}, err
		}
	}
	return m, traits{source: true}, nil
}

func (b *builder) mergeOption(m *merge, c *callInfo) error {
	if c.Name != "option" {
		return fmt.Errorf("it has no %s()", c.Name)
	}
	if err := c.arity(2, 3); err != nil {
		return fmt.Errorf("option(): %w", err)
	}
	o, err := b.operand(c.Args[1])
	if err != nil {
		return err
	}
	var card *value.Enum
	if len(c.Args) == 3 {
		e, ok := c.Args[2].(value.Enum)
		if !ok || e.Kind != value.KindCardinality {
			return wrong(2, "a cardinality", c.Args[2])
		}
		card = &e
	}
	at := map[any]**operand{value.OnCreate: &m.onCreate, value.OnMatch: &m.onMatch, value.OutV: &m.outV, value.InV: &m.inV}[c.Args[0]]
	if at == nil {
		return wrong(0, "a Merge", c.Args[0])
	}
	if o.plan == nil {
		asked := c.Args[0]
		if o.val, err = asMap(o.val); err != nil {
			return err
		}
		mp := o.val.(*value.Map)
		if asked == value.OnCreate || asked == value.OnMatch {
			if err := m.check(mp, asked == value.OnMatch); err != nil {
				return err
			}
		}
		if card != nil {
			out := &value.Map{}
			for _, e := range mp.Entries() {
				if _, ok := e.Val.(gremlin.Cardinal); !ok && value.TypeName(e.Key) == "STRING" {
					e.Val = gremlin.Cardinal{Cardinality: *card, Val: e.Val}
				}
				out.Set(e.Key, e.Val)
			}
			o.val = out
		}
	}
	*at = &o
	return nil
}

// asMap returns an argument as the map that it must be. null is an empty one.
func asMap(v any) (any, error) {
	switch v.(type) {
	case nil:
		return &value.Map{}, nil
	case *value.Map:
		return v, nil
	}
	return nil, fmt.Errorf("it needs a map, not %s", describe(v))
}

// check refuses keys and values that an element cannot have. match: they are to be
// set on one that was found.
func (m *merge) check(mp *value.Map, match bool) error {
	name := "mergeV"
	if m.edges {
		name = "mergeE"
	}
	for _, e := range mp.Entries() {
		switch k := e.Key.(type) {
		case string:
			if err := checkKey(k); err != nil {
				return err
			}
			continue
		case value.Enum:
			if match {
				return fmt.Errorf("option(onMatch) expects keys in Map to be of String - check: %s", value.Text(k))
			}
			ok := k == value.ID || k == value.Label || m.edges && (k == value.Out || k == value.In)
			if !ok {
				return fmt.Errorf("%s() does not take the key %s.%s", name, k.Kind, k.Name)
			}
			if k == value.ID && e.Val == nil {
				return fmt.Errorf("%s() expects the T.id not to be null", name)
			}
			if k == value.Label {
				if _, err := labelOf(e.Val); err != nil {
					return fmt.Errorf("%s() expects T.label to be a string, and not null: %w", name, err)
				}
			}
			continue
		}
		return fmt.Errorf("%s() expects keys that are strings or tokens, not %s", name, value.Describe(e.Key))
	}
	return nil
}

func (m *merge) open(r *run, next sink) sink {
	return spreading(func(r *run, t traverser, yield func(any) error) error {
		what, err := m.mapOf(r, m.what, t, false)
		if err != nil {
			return err
		}
		if m.onCreate != nil && m.onCreate.plan == nil { // it must agree even if nothing is created
			if _, err := m.created(r, t, what); err != nil {
				return err
			}
		}
		if m.edges {
			return m.edge(r, t, what, yield)
		}
		return m.vertex(r, t, what, yield)
	}).open(r, next)
}

// mapOf returns a map for a traverser: the operand's, or the traverser itself.
func (m *merge) mapOf(r *run, o *operand, t traverser, match bool) (*value.Map, error) {
	v := t.val
	if o != nil {
		got, ok, err := o.get(r, t)
		if err != nil {
			return nil, err
		}
		if v = got; !ok {
			v = nil
		}
	}
	mp, err := asMap(v)
	if err != nil {
		return nil, err
	}
	if o == nil || o.plan != nil {
		err = m.check(mp.(*value.Map), match)
	}
	return mp.(*value.Map), err
}

func (m *merge) vertex(r *run, t traverser, what *value.Map, yield func(any) error) error {
	var found []any
	var search func(yield func(any) error) error
	if id, ok := what.Get(value.ID); ok && r.source.idKey == "" {
		search = func(yield func(any) error) error { return r.byID([]any{id}, false, yield) }
	} else {
		search = func(yield func(any) error) error { return r.byMap(what, yield) }
	}
	if err := search(func(v any) error {
		ok, err := r.has(v.(value.Element), what)
		if ok {
			found = append(found, v)
		}
		return err
	}); err != nil {
		return err
	}
	if len(found) > 0 {
		return m.matched(r, t, found, yield)
	}
	what, err := m.created(r, t, what)
	if err != nil {
		return err
	}
	id, _ := what.Get(value.ID)
	label := graph.DefaultLabel
	if l, ok := what.Get(value.Label); ok {
		label, _ = l.(string)
	}
	v, err := r.addVertex(label, id)
	if err != nil {
		return err
	}
	if err := r.setMap(v, what); err != nil {
		return err
	}
	return yield(v)
}

// byMap finds the vertices that a map could mean, by an index if there is one.
func (r *run) byMap(what *value.Map, yield func(any) error) error {
	look, err := r.indexed(value.KindVertex, what)
	if err != nil {
		return err
	}
	if look != nil {
		if done, err := look.find(r, yield); done || err != nil {
			return err
		}
	}
	return r.vertices(yield)
}

// has reports whether an element has all that a map says.
func (r *run) has(e value.Element, what *value.Map) (bool, error) {
	for _, entry := range what.Entries() {
		test := &hasTest{pred: &predicate{name: "eq", args: []any{plainOf(entry.Val)}, test: comparisons()["eq"]}}
		switch k := entry.Key.(type) {
		case string:
			test.key = k
		case value.Enum:
			if k.Kind != value.KindT {
				continue
			}
			test.token = &k
			if k == value.ID && r.source.idKey != "" {
				test.token, test.key = nil, r.source.idKey
			}
		}
		if ok, err := r.passes(traverser{val: e, bulk: 1}, test); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func plainOf(v any) any {
	if c, ok := v.(gremlin.Cardinal); ok {
		return c.Val
	}
	return v
}

// matched sets what onMatch says on what was found.
func (m *merge) matched(r *run, t traverser, found []any, yield func(any) error) error {
	for _, e := range found {
		if m.onMatch != nil {
			at := t
			at.val = e
			if m.onMatch.plan == nil {
				at = t
			}
			mp, err := m.mapOf(r, m.onMatch, at, true)
			if err != nil {
				return err
			}
			if err := r.setMap(e, mp); err != nil {
				return err
			}
		}
		if err := yield(e); err != nil {
			return err
		}
	}
	return nil
}

// created returns the map with what onCreate adds to it. It must not change what
// was looked for.
func (m *merge) created(r *run, t traverser, what *value.Map) (*value.Map, error) {
	if m.onCreate == nil {
		return what, nil
	}
	more, err := m.mapOf(r, m.onCreate, t, false)
	if err != nil {
		return nil, err
	}
	out := what.Without(func(any) bool { return false })
	for _, e := range more.Entries() {
		if k, ok := e.Key.(value.Enum); ok {
			if old, ok := what.Get(k); ok && !value.Equal(old, e.Val) {
				return nil, fmt.Errorf("option(onCreate) cannot override values from merge() argument: %s", value.Text(k))
			}
		}
		out.Set(e.Key, e.Val)
	}
	return out, nil
}

func (r *run) setMap(on any, what *value.Map) error {
	for _, e := range what.Entries() {
		if _, ok := e.Key.(string); !ok {
			continue
		}
		if err := r.setOne(on, nil, e.Key, e.Val, nil); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) edge(r *run, t traverser, what *value.Map, yield func(any) error) error {
	out, outGiven, err := m.end(r, t, what, value.Out, m.outV)
	if err != nil {
		return err
	}
	in, inGiven, err := m.end(r, t, what, value.In, m.inV)
	if err != nil {
		return err
	}
	var found []any
	if outGiven && out == nil || inGiven && in == nil {
		found = nil
	} else if err := m.search(r, what, out, in, func(e *graph.Edge) error {
		ok, err := r.has(e, what)
		if ok {
			found = append(found, e)
		}
		return err
	}); err != nil {
		return err
	}
	if len(found) > 0 {
		return m.matched(r, t, found, yield)
	}
	if what, err = m.created(r, t, what); err != nil {
		return err
	}
	if out, err = m.needEnd(r, t, what, value.Out, out, m.outV); err != nil {
		return err
	}
	if in, err = m.needEnd(r, t, what, value.In, in, m.inV); err != nil {
		return err
	}
	id, _ := what.Get(value.ID)
	label := "edge"
	if l, ok := what.Get(value.Label); ok {
		label, _ = l.(string)
	}
	e, err := r.addEdge(label, out, in, id)
	if err != nil {
		return err
	}
	if err := r.setMap(e, what); err != nil {
		return err
	}
	return yield(e)
}

// end returns the vertex that the map has for one end, and whether it has one.
func (m *merge) end(r *run, t traverser, what *value.Map, dir value.Enum, option *operand) (*graph.Vertex, bool, error) {
	v, ok := what.Get(dir)
	if !ok {
		return nil, false, nil
	}
	if e, isMerge := v.(value.Enum); isMerge && e.Kind == value.KindMerge {
		if option == nil {
			return nil, false, fmt.Errorf("option(%s) must be specified if it is used for Direction.%s", e.Name, dir.Name)
		}
		found, err := m.endOption(r, t, option)
		return found, true, err
	}
	if v == nil {
		return nil, false, fmt.Errorf("mergeE() does not take null for Direction.%s", dir.Name)
	}
	if value.KindOf(v) != value.KindVertex {
		if _, isEnum := v.(value.Enum); isEnum {
			return nil, false, fmt.Errorf("the value of Direction.%s must be a vertex or its id", dir.Name)
		}
		v = &value.Vertex{ID: v}
	}
	found, err := r.vertexOf(v)
	return found, true, err
}

// endOption returns the vertex of option(outV) or option(inV): one that the map of
// it finds, or that its traversal does.
func (m *merge) endOption(r *run, t traverser, option *operand) (*graph.Vertex, error) {
	v, ok, err := option.get(r, t)
	if err != nil || !ok {
		return nil, err
	}
	mp, isMap := v.(*value.Map)
	if !isMap {
		if value.KindOf(v) == value.KindVertex {
			return r.vertexOf(v)
		}
		return nil, fmt.Errorf("a vertex of an edge must be a vertex or a map, not %s", value.Describe(v))
	}
	var found *graph.Vertex
	err = (&merge{}).vertexOnly(r, mp, func(v any) error {
		found = v.(*graph.Vertex)
		return errFirst
	})
	if err == errFirst {
		err = nil
	}
	return found, err
}

func (m *merge) vertexOnly(r *run, what *value.Map, yield func(any) error) error {
	search := func(yield func(any) error) error { return r.byMap(what, yield) }
	if id, ok := what.Get(value.ID); ok {
		search = func(yield func(any) error) error { return r.byID([]any{id}, false, yield) }
	}
	return search(func(v any) error {
		ok, err := r.has(v.(value.Element), what)
		if err != nil || !ok {
			return err
		}
		return yield(v)
	})
}

// needEnd returns the vertex for one end of a new edge.
func (m *merge) needEnd(r *run, t traverser, what *value.Map, dir value.Enum, found *graph.Vertex, option *operand) (*graph.Vertex, error) {
	if found != nil {
		return found, nil
	}
	v, given, err := m.end(r, t, what, dir, option)
	switch {
	case err != nil:
		return nil, err
	case v != nil:
		return v, nil
	case given:
		asked, _ := what.Get(dir)
		return nil, known("Vertex id could not be resolved from mergeE: %s", value.Text(asked))
	}
	if value.KindOf(t.val) == value.KindVertex && m.what != nil {
		return r.vertexOf(t.val)
	}
	return nil, known("Out Vertex not specified in edge properties: the map needs Direction.%s", dir.Name)
}

// search calls yield with the edges that a map could mean.
func (m *merge) search(r *run, what *value.Map, out, in *graph.Vertex, yield func(*graph.Edge) error) error {
	var labels []string
	if l, ok := what.Get(value.Label); ok {
		labels = []string{l.(string)}
	}
	seen := func(e *graph.Edge) error {
		if ok, err := r.sees(e); !ok || err != nil {
			return err
		}
		return yield(e)
	}
	id, byID := what.Get(value.ID)
	switch {
	case byID && r.source.idKey == "":
		return r.byID([]any{id}, true, func(v any) error {
			e := v.(*graph.Edge)
			if out != nil && e.Out().Number() != out.Number() || in != nil && e.In().Number() != in.Number() {
				return nil
			}
			return yield(e)
		})
	case out != nil && in != nil && len(labels) > 0:
		return r.tx.EdgesBetween(out, labels[0], in, seen)
	case out != nil:
		return r.tx.Edges(out, graph.Out, labels, func(e *graph.Edge) error {
			if in != nil && e.In().Number() != in.Number() {
				return nil
			}
			return seen(e)
		})
	case in != nil:
		return r.tx.Edges(in, graph.In, labels, seen)
	}
	return r.tx.AllEdges(func(e *graph.Edge) error {
		if len(labels) > 0 && !slices.Contains(labels, e.ElementLabel()) {
			return nil
		}
		return seen(e)
	})
}
