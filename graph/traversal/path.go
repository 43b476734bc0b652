package traversal

import (
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// paths has the makers of the steps that look back.
func paths() map[string]maker {
	return map[string]maker{
		"path": makePath, "select": makeSelect, "loops": makeLoops, "sack": makeSack, "tree": makeTree, "cap": makeCap,
		"otherV": makeOtherV,
	}
}

// labelUse is what the steps of a traversal ask of the path.
type labelUse struct {
	any  bool // some label
	full bool // all objects
}

func (b *builder) needPath() { b.used.full = true }

// nodes returns a path from its first object on.
func nodes(last *node) []*node {
	if last == nil {
		return nil
	}
	out := make([]*node, last.length)
	for i, n := last.length-1, last; n != nil; i, n = i-1, n.prev {
		out[i] = n
	}
	return out
}

// part is a part of the path, from one label to another.
type part struct{ from, to string }

func pathPart(c *callInfo) (p part, err error) {
	for i := range c.mods {
		m := &callInfo{Call: c.mods[i]}
		switch m.Name {
		case "from":
			p.from, err = m.string(0)
		case "to":
			p.to, err = m.string(0)
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p part) nodes(last *node) []*node {
	all := nodes(last)
	if p.from != "" {
		if i := slices.IndexFunc(all, func(n *node) bool { return slices.Contains(n.labels, p.from) }); i >= 0 {
			all = all[i:]
		}
	}
	if p.to != "" {
		for i, n := range slices.Backward(all) {
			if slices.Contains(n.labels, p.to) {
				all = all[:i+1]
				break
			}
		}
	}
	return all
}

func makePath(b *builder, c *callInfo) (kernel, traits, error) {
	bys, err := b.bys(c)
	if err != nil {
		return nil, traits{}, err
	}
	part, err := pathPart(c)
	b.needPath()
	return mapping(func(r *run, t traverser) (any, bool, error) {
		out := &value.Path{}
		for i, n := range part.nodes(t.path) {
			v := n.val
			if len(bys) > 0 {
				moved := r.alone(t, v)
				var ok bool
				var err error
				if v, ok, err = bys[i%len(bys)].value(r, moved); err != nil || !ok {
					return nil, false, err
				}
			}
			out.Objects, out.Labels = append(out.Objects, v), append(out.Labels, n.labels)
		}
		return out, true, nil
	}), traits{}, err
}

// selected returns what a label stands for: an entry of the map where the traverser
// is, a side effect, or an object of its path.
func (r *run) selected(t traverser, label string, pop value.Enum) (any, bool, error) {
	if m, ok := t.val.(*value.Map); ok {
		if v, ok := m.Get(label); ok {
			return v, true, nil
		}
	}
	if v, ok, err := r.effect(label); ok || err != nil {
		return v, ok, err
	}
	return onPath(t, label, pop)
}

func onPath(t traverser, label string, pop value.Enum) (any, bool, error) {
	var found value.List // newest first
	for n := t.path; n != nil; n = n.prev {
		if slices.Contains(n.labels, label) {
			if found = append(found, n.val); pop == value.PopLast {
				return n.val, true, nil
			}
		}
	}
	slices.Reverse(found)
	switch {
	case len(found) == 0:
		return nil, false, nil
	case pop == value.PopAll, pop == value.PopMixed && len(found) > 1:
		return found, true, nil
	}
	return found[0], true, nil
}

func makeSelect(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, -1); err != nil {
		return nil, traits{}, err
	}
	pop, args := value.PopLast, c.Args
	if e, ok := args[0].(value.Enum); ok {
		if e.Kind == value.KindColumn && len(args) == 1 {
			return mapping(func(_ *run, t traverser) (any, bool, error) {
				v, err := columnOf(e, t.val)
				return v, err == nil, err
			}), traits{}, nil
		}
		if e.Kind != value.KindPop || len(args) == 1 {
			return nil, traits{}, wrong(0, "a label, a column or a pop", e)
		}
		pop, args = e, args[1:]
	}
	bys, err := b.bys(c)
	if err != nil {
		return nil, traits{}, err
	}
	b.used.any = true
	if t, ok := args[0].(*gremlin.Traversal); ok && len(args) == 1 {
		return b.selectKeyed(t, pop, bys)
	}
	labels, err := (&callInfo{Call: gremlin.Call{Args: args}}).strings(0)
	if err != nil {
		return nil, traits{}, err
	}
	return mapping(func(r *run, t traverser) (any, bool, error) {
		out := &value.Map{}
		for i, label := range labels {
			v, ok, err := r.selected(t, label, pop)
			if err != nil || !ok {
				return nil, false, err
			}
			if len(bys) > 0 {
				moved := r.alone(t, v)
				if v, ok, err = bys[i%len(bys)].value(r, moved); err != nil || !ok {
					return nil, false, err
				}
			}
			if len(labels) == 1 {
				return v, true, nil
			}
			out.Set(label, v)
		}
		return out, true, nil
	}), traits{}, nil
}

// selectKeyed makes select(traversal), whose key a traversal finds.
func (b *builder) selectKeyed(t *gremlin.Traversal, pop value.Enum, bys []*by) (kernel, traits, error) {
	p, err := b.child(t)
	return mapping(func(r *run, t traverser) (any, bool, error) {
		key, ok, err := r.first(p, t)
		if err != nil || !ok {
			return nil, false, err
		}
		var v any
		if m, isMap := t.val.(*value.Map); isMap {
			v, ok = m.Get(key)
		}
		if label, isString := key.(string); isString && v == nil {
			if v, ok, err = r.selected(t, label, pop); err != nil {
				return nil, false, err
			}
		}
		if !ok || len(bys) == 0 {
			return v, ok, nil
		}
		t.val = v
		return bys[0].value(r, t)
	}), traits{}, err
}

func makeLoops(_ *builder, c *callInfo) (kernel, traits, error) {
	name := ""
	if len(c.Args) > 0 {
		var err error
		if name, err = c.string(0); err != nil {
			return nil, traits{}, err
		}
	}
	return mapping(func(_ *run, t traverser) (any, bool, error) {
		for l := t.loops; l != nil; l = l.outer {
			if name == "" || l.name == name {
				return int32(l.count), true, nil
			}
		}
		if name != "" {
			return nil, false, fmt.Errorf("there is no repeat(%q, …) around it", name)
		}
		return int32(0), true, nil
	}), traits{}, c.arity(0, 1)
}

// makeSack makes sack(), which reads the sack, and sack(operator), which changes it.
func makeSack(b *builder, c *callInfo) (kernel, traits, error) {
	if len(c.Args) == 0 {
		return mapping(func(_ *run, t traverser) (any, bool, error) { return t.sack, true, nil }), traits{}, nil
	}
	op, ok := operator(c.Args[0])
	if !ok {
		return nil, traits{}, wrong(0, "an operator", c.Args[0])
	}
	bys, err := b.oneBy(c, "Sack")
	return sacking{op.Name, bys}, traits{}, err
}

type sacking struct {
	op  string
	bys []*by
}

func (s sacking) open(r *run, next sink) sink { return &sacker{r, s, next} }

type sacker struct {
	r    *run
	to   sacking
	next sink
}

func (s *sacker) push(t traverser) error {
	v := t.val
	if len(s.to.bys) > 0 {
		var ok bool
		var err error
		if v, ok, err = s.to.bys[0].value(s.r, t); err != nil || !ok {
			return err
		}
	}
	var err error
	if t.sack, err = operate(s.to.op, t.sack, v); err != nil {
		return err
	}
	return s.next.push(t)
}

func (s *sacker) flush() error { return s.next.flush() }

// makeTree makes tree(), which collects paths, and tree(key), a side effect.
func makeTree(b *builder, c *callInfo) (kernel, traits, error) {
	bys, err := b.bys(c)
	if err != nil {
		return nil, traits{}, err
	}
	b.needPath()
	add := func(r *run, tree *value.Tree, t traverser) error {
		for i, n := range nodes(t.path) {
			v := n.val
			if len(bys) > 0 {
				moved := r.alone(t, v)
				var ok bool
				var err error
				if v, ok, err = bys[i%len(bys)].value(r, moved); err != nil {
					return err
				} else if !ok {
					return nil
				}
			}
			tree = tree.Child(v)
		}
		return r.hold(1)
	}
	if len(c.Args) == 0 {
		return reducing(func(r *run) reduction { return &treeing{r, add, &value.Tree{}} }), traits{barrier: true, reduces: true}, nil
	}
	key, err := c.string(0)
	b.collects(key, func() any { return &value.Tree{} })
	return effect(func(r *run, t traverser) error {
		tree, _ := r.effects.vals[key].(*value.Tree)
		if tree == nil {
			tree = &value.Tree{}
			r.effects.vals[key] = tree
		}
		return add(r, tree, t)
	}), traits{}, err
}

type treeing struct {
	r    *run
	path func(*run, *value.Tree, traverser) error
	tree *value.Tree
}

func (s *treeing) add(t traverser) error      { return s.path(s.r, s.tree, t) }
func (s *treeing) result() (any, bool, error) { return s.tree, true, nil }

// makeCap makes cap, which yields side effects once all traversers have come.
func makeCap(_ *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, -1); err != nil {
		return nil, traits{}, err
	}
	keys, err := c.strings(0)
	return reducing(func(r *run) reduction { return &capping{r, keys} }), traits{barrier: true, reduces: true}, err
}

type capping struct {
	r    *run
	keys []string
}

func (*capping) add(traverser) error { return nil }

func (s *capping) result() (any, bool, error) {
	out := &value.Map{}
	for _, key := range s.keys {
		v, ok, err := s.r.effect(key)
		if err != nil {
			return nil, false, err
		}
		if !ok {
			v = &value.BulkSet{}
		}
		if len(s.keys) == 1 {
			return v, true, nil
		}
		out.Set(key, v)
	}
	return out, true, nil
}

// makeOtherV moves from an edge to the vertex that the traverser did not come from.
func makeOtherV(b *builder, c *callInfo) (kernel, traits, error) {
	b.needPath()
	return mapping(func(r *run, t traverser) (any, bool, error) {
		e, err := r.edgeOf(t.val)
		if e == nil || err != nil {
			return nil, false, err
		}
		for n := t.path; n != nil; n = n.prev {
			if v, ok := n.val.(value.Element); ok && value.KindOf(v) == value.KindVertex {
				at, err := r.vertexOf(v)
				if at == nil || err != nil {
					return nil, false, err
				}
				far := e.Other(at)
				ok, err := r.sees(far)
				return far, ok, err
			}
		}
		return nil, false, fmt.Errorf("the traverser comes from no vertex")
	}), traits{}, c.arity(0, 0)
}
