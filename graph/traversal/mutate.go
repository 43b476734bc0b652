package traversal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// mutations has the makers of the steps that change the graph.
func mutations() map[string]maker {
	return map[string]maker{
		"addV": writes(makeAddV), "addE": writes(makeAddE), "property": writes(makeProperty), "drop": writes(makeDrop),
		"mergeV": writes(makeMerge), "mergeE": writes(makeMerge),
	}
}

func writes(m maker) maker {
	return func(b *builder, c *callInfo) (kernel, traits, error) {
		if b.writes == "" {
			b.writes = c.Name
		}
		if c.Name != "property" || c.of == "" { // otherwise it belongs to the step that adds the element
			b.writers = append(b.writers, StepError{Step: c.Name, Pos: c.Pos})
		}
		return m(b, c)
	}
}

// operand is an argument that is a value, or a traversal that finds it.
type operand struct {
	val  any
	plan *plan
}

func (b *builder) operand(arg any) (o operand, err error) {
	if t, ok := arg.(*gremlin.Traversal); ok {
		o.plan, err = b.child(t)
		return o, err
	}
	return operand{val: arg}, nil
}

// get returns the value for a traverser; ok is false if the traversal finds none.
func (o operand) get(r *run, t traverser) (any, bool, error) {
	if o.plan == nil {
		return o.val, true, nil
	}
	return r.first(o.plan, t)
}

func labelOf(v any) (string, error) {
	s, ok := v.(string)
	if !ok || s == "" {
		return "", fmt.Errorf("a label must be a string, and not empty, not %s", value.Describe(v))
	}
	if strings.HasPrefix(s, "~") {
		return "", known("Label can not be a hidden key: %s", s)
	}
	return s, nil
}

// addV adds a vertex. The property steps after it are part of it, so that an id can
// be among them: see fold.
type addV struct {
	label operand
	props []*propertyStep
}

// several is the cardinality of a property of a new vertex that says none: it may be
// given several times.
var several = value.ListOf

func makeAddV(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(0, 1); err != nil {
		return nil, traits{}, err
	}
	a := &addV{label: operand{val: graph.DefaultLabel}}
	var err error
	if len(c.Args) == 1 {
		a.label, err = b.operand(c.Args[0])
		if a.label.plan == nil && err == nil {
			_, err = labelOf(c.Args[0])
		}
	}
	return a, traits{source: true}, err
}

func (a *addV) open(r *run, next sink) sink {
	return mapping(func(r *run, t traverser) (any, bool, error) {
		l, ok, err := a.label.get(r, t)
		if err != nil || !ok {
			return nil, false, err
		}
		label, err := labelOf(l)
		if err != nil {
			return nil, false, err
		}
		id, label, props, err := r.early(t, label, a.props)
		if err != nil {
			return nil, false, err
		}
		v, err := r.addVertex(label, id)
		if err != nil {
			return nil, false, err
		}
		for _, p := range props {
			if p.cardinality == nil {
				one := *p
				one.cardinality, p = &several, &one
			}
			if err := r.setAll(p, t, v); err != nil {
				return nil, false, err
			}
		}
		return v, true, nil
	}).open(r, next)
}

// early takes the id and the label out of the properties that a new element gets.
func (r *run) early(t traverser, label string, props []*propertyStep) (id any, _ string, rest []*propertyStep, err error) {
	for _, p := range props {
		if p.token == nil {
			rest = append(rest, p)
			continue
		}
		v, ok, err := p.val.get(r, t)
		if err != nil || !ok {
			return nil, "", nil, err
		}
		if *p.token == value.ID {
			id = v
			continue
		}
		if label, err = labelOf(v); err != nil {
			return nil, "", nil, err
		}
	}
	return id, label, rest, nil
}

// addVertex adds a vertex, to the partition that is written.
func (r *run) addVertex(label string, id any) (*graph.Vertex, error) {
	labels := strings.Split(label, value.LabelSeparator)
	v, err := r.tx.AddVertex(labels, r.storedID(id))
	if err != nil {
		return nil, err
	}
	if key := r.source.idKey; key != "" && id != nil {
		if _, err := v.Set(graph.Single, key, id); err != nil {
			return nil, err
		}
	}
	if p := r.source.partition; p != nil {
		_, err = v.Set(graph.Single, p.key, p.write)
	}
	return v, err
}

// storedID is an id as the graph keeps it; nil if it is a property.
func (r *run) storedID(id any) any {
	if r.source.idKey != "" {
		return nil
	}
	return id
}

// addE adds an edge.
type addE struct {
	label    operand
	from, to *operand // nil: where the traverser is
	props    []*propertyStep
}

func makeAddE(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 1); err != nil {
		return nil, traits{}, err
	}
	a := &addE{}
	var err error
	if a.label, err = b.operand(c.Args[0]); err != nil {
		return nil, traits{}, err
	}
	if a.label.plan == nil {
		if _, err := labelOf(c.Args[0]); err != nil {
			return nil, traits{}, err
		}
	}
	for i := range c.mods {
		m := &callInfo{Call: c.mods[i]}
		if m.Name == "with" {
			continue // it has no options
		}
		if err := m.arity(1, 1); err != nil {
			return nil, traits{}, err
		}
		o, err := b.operand(m.Args[0])
		if err != nil {
			return nil, traits{}, err
		}
		if s, ok := m.Args[0].(string); ok {
			if o.plan, err = b.plan([]gremlin.Call{{Name: "select", Args: []any{s}, Pos: m.Pos}}, false); err != nil {
				return nil, traits{}, err
			}
		}
		if m.Name == "from" {
			a.from = &o
		} else {
			a.to = &o
		}
	}
	return a, traits{source: true}, nil
}

func (a *addE) open(r *run, next sink) sink {
	return mapping(func(r *run, t traverser) (any, bool, error) {
		l, ok, err := a.label.get(r, t)
		if err != nil || !ok {
			return nil, false, err
		}
		label, err := labelOf(l)
		if err != nil {
			return nil, false, err
		}
		out, err := r.end(a.from, t, "from")
		if err != nil {
			return nil, false, err
		}
		in, err := r.end(a.to, t, "to")
		if err != nil {
			return nil, false, err
		}
		id, label, props, err := r.early(t, label, a.props)
		if err != nil {
			return nil, false, err
		}
		e, err := r.addEdge(label, out, in, id)
		if err != nil {
			return nil, false, err
		}
		for _, p := range props {
			if err := r.setAll(p, t, e); err != nil {
				return nil, false, err
			}
		}
		return e, true, nil
	}).open(r, next)
}

// end returns the vertex at one end of a new edge.
func (r *run) end(o *operand, t traverser, name string) (*graph.Vertex, error) {
	v := t.val
	if o != nil {
		got, ok, err := o.get(r, t)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, known("The value given to addE(String).%s() must resolve to a Vertex or the ID of a Vertex present in the graph. The provided value does not match any vertices in the graph", name)
		}
		v = got
	}
	if value.KindOf(v) != value.KindVertex {
		if value.KindOf(v) != 0 || v == nil {
			return nil, known("The value given to addE(String).%s() must resolve to a Vertex or the ID of a Vertex present in the graph, not %s", name, value.Describe(v))
		}
		v = &value.Vertex{ID: v}
	}
	found, err := r.vertexOf(v)
	if err == nil && found == nil {
		err = known("The value given to addE(String).%s() must resolve to a Vertex or the ID of a Vertex present in the graph. The provided value does not match any vertices in the graph", name)
	}
	return found, err
}

func (r *run) addEdge(label string, out, in *graph.Vertex, id any) (*graph.Edge, error) {
	e, err := r.tx.AddEdge(label, out, in, r.storedID(id))
	if err != nil {
		return nil, err
	}
	if key := r.source.idKey; key != "" && id != nil {
		if err := e.Set(key, id); err != nil {
			return nil, err
		}
	}
	if p := r.source.partition; p != nil {
		err = e.Set(p.key, p.write)
	}
	return e, err
}

// propertyStep is one property(): of a key, a token or a whole map.
type propertyStep struct {
	cardinality *value.Enum
	token       *value.Enum
	key         operand
	val         operand
	metas       []operand // keys and values that alternate
	all         *value.Map
}

func makeProperty(b *builder, c *callInfo) (kernel, traits, error) {
	p, err := b.property(c)
	return p, traits{}, err
}

func (b *builder) property(c *callInfo) (*propertyStep, error) {
	p, args := &propertyStep{}, c.Args
	if len(args) > 0 {
		if e, ok := args[0].(value.Enum); ok && e.Kind == value.KindCardinality {
			p.cardinality, args = &e, args[1:]
		}
	}
	if len(args) == 1 {
		m, ok := args[0].(*value.Map)
		if !ok && args[0] != nil {
			return nil, wrong(len(c.Args)-1, "a map", args[0])
		}
		if m == nil {
			m = &value.Map{}
		}
		for _, e := range m.Entries() {
			if err := b.checkKey(e.Key); err != nil {
				return nil, err
			}
		}
		p.all = m
		return p, nil
	}
	if len(args) < 2 || len(args)%2 != 0 {
		return nil, fmt.Errorf("it needs a key and a value, and then pairs of them, not %s", arguments(len(c.Args)))
	}
	if e, ok := args[0].(value.Enum); ok && (e == value.ID || e == value.Label) {
		p.token = &e
	}
	if err := b.checkKey(args[0]); err != nil {
		return nil, err
	}
	operands := make([]operand, len(args))
	for i, a := range args {
		if card, ok := a.(gremlin.Cardinal); ok {
			p.cardinality, a = &card.Cardinality, card.Val
		}
		var err error
		if operands[i], err = b.operand(a); err != nil {
			return nil, err
		}
	}
	p.key, p.val, p.metas = operands[0], operands[1], operands[2:]
	return p, nil
}

func (p *propertyStep) open(r *run, next sink) sink {
	return effect(func(r *run, t traverser) error { return r.setAll(p, t, t.val) }).open(r, next)
}

// setAll sets what a property step says.
func (r *run) setAll(p *propertyStep, t traverser, on any) error {
	if p.all != nil {
		for _, e := range p.all.Entries() {
			if err := r.setOne(on, p.cardinality, e.Key, e.Val, nil); err != nil {
				return err
			}
		}
		return nil
	}
	key, ok, err := p.key.get(r, t)
	if err != nil || !ok {
		return err
	}
	val, ok, err := p.val.get(r, t)
	if err != nil || !ok {
		return err
	}
	if m, ok := val.(*value.Map); ok && p.val.plan != nil && key == nil {
		return r.setAll(&propertyStep{cardinality: p.cardinality, all: m}, t, on)
	}
	var metas []value.Entry
	for i := 0; i+1 < len(p.metas); i += 2 {
		k, _, err := p.metas[i].get(r, t)
		if err != nil {
			return err
		}
		v, _, err := p.metas[i+1].get(r, t)
		if err != nil {
			return err
		}
		if _, ok := k.(string); !ok {
			return fmt.Errorf("a key must be a string, not %s", value.Describe(k))
		}
		metas = append(metas, value.Entry{Key: k, Val: v})
	}
	return r.setOne(on, p.cardinality, key, val, metas)
}

var cardinalities = map[value.Enum]graph.Cardinality{value.Single: graph.Single, value.ListOf: graph.List, value.SetOf: graph.Set}

// setOne sets one property of an element. null removes it.
func (r *run) setOne(on any, cardinality *value.Enum, key, val any, metas []value.Entry) error {
	name, ok := key.(string)
	if !ok {
		if e, isToken := key.(value.Enum); isToken && e.Kind == value.KindT {
			return fmt.Errorf("the T.%s of an element cannot be changed", e.Name)
		}
		return fmt.Errorf("a key must be a string, not %s", value.Describe(key))
	}
	if err := checkKey(name); err != nil {
		return err
	}
	if card, ok := val.(gremlin.Cardinal); ok {
		cardinality, val = &card.Cardinality, card.Val
	}
	c := graph.Single
	if cardinality != nil {
		c = cardinalities[*cardinality]
	}
	switch value.KindOf(on) {
	case value.KindVertex:
		v, err := r.vertexOf(on)
		if v == nil || err != nil {
			return err
		}
		if val == nil {
			if c != graph.Single {
				return nil
			}
			return v.RemoveProperty(name)
		}
		if p := r.source.partition; p != nil && p.metas {
			metas = append(metas, value.Entry{Key: p.key, Val: p.write})
		}
		_, err = v.Set(c, name, val, metas...)
		return err
	case value.KindEdge:
		if cardinality != nil && c != graph.Single || len(metas) > 0 {
			return known("Property cardinality can only be set for a Vertex but the traversal encountered an edge for key: %s", name)
		}
		e, err := r.edgeOf(on)
		if e == nil || err != nil {
			return err
		}
		if val == nil {
			return r.tx.RemoveProperty(e, name)
		}
		return e.Set(name, val)
	case value.KindVertexProperty:
		p, ok := on.(*graph.VertexProperty)
		if !ok {
			break
		}
		if val == nil {
			return r.tx.RemoveProperty(p, name)
		}
		return p.Set(name, val)
	}
	return fmt.Errorf("it needs an element, not %s", value.Describe(on))
}

// makeDrop makes drop, which removes what comes.
func makeDrop(_ *builder, c *callInfo) (kernel, traits, error) {
	return filter(func(r *run, t traverser) (bool, error) {
		switch x := t.val.(type) {
		case *graph.VertexProperty:
			return false, x.Remove()
		case *value.Property:
			if x.Of == nil {
				return false, nil
			}
			return false, r.tx.RemoveProperty(x.Of, x.Key)
		}
		switch value.KindOf(t.val) {
		case value.KindVertex:
			v, err := r.vertexOf(t.val)
			if v == nil || err != nil {
				return false, err
			}
			return false, v.Remove()
		case value.KindEdge:
			e, err := r.edgeOf(t.val)
			if e == nil || err != nil {
				return false, err
			}
			return false, e.Remove()
		}
		return false, fmt.Errorf("it needs elements or properties, not %s", value.Describe(t.val))
	}), traits{}, c.arity(0, 0)
}

// foldProperties gives the properties that follow addV and addE to these steps.
func foldProperties(steps []*step) []*step {
	out := steps[:0]
	for _, s := range steps {
		p, ok := s.kernel.(*propertyStep)
		if !ok || len(out) == 0 || len(out[len(out)-1].labels) > 0 || p.all != nil && slices.ContainsFunc(p.all.Entries(), func(e value.Entry) bool { _, ok := e.Key.(string); return !ok }) {
			out = append(out, s)
			continue
		}
		last := out[len(out)-1]
		switch k := last.kernel.(type) {
		case *addV:
			k.props = append(k.props, p)
		case *addE:
			k.props = append(k.props, p)
		default:
			out = append(out, s)
			continue
		}
		last.labels = s.labels
	}
	return out
}

// checkKey refuses keys that no property can have.
func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("a key must not be empty")
	}
	if strings.HasPrefix(key, "~") {
		return known("Property key can not be a hidden key: %s", key)
	}
	return nil
}
