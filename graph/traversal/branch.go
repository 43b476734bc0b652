package traversal

import (
	"fmt"

	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// branches has the makers of the steps that send traversers through other
// traversals.
func branches() map[string]maker {
	return map[string]maker{
		"map": makeMap, "flatMap": makeFlatMap, "local": makeLocal, "sideEffect": makeSideEffect, "coalesce": makeCoalesce,
		"optional": makeOptional, "union": makeUnion, "choose": makeChoose, "branch": makeBranch, "repeat": makeRepeat, "match": makeMatch,
	}
}

func (b *builder) one(c *callInfo) (*plan, error) {
	if err := c.arity(1, 1); err != nil {
		return nil, err
	}
	return b.child(c.Args[0])
}

func makeMap(b *builder, c *callInfo) (kernel, traits, error) {
	p, err := b.one(c)
	return mapping(func(r *run, t traverser) (any, bool, error) { return r.first(p, t) }), traits{}, err
}

func makeFlatMap(b *builder, c *callInfo) (kernel, traits, error) {
	p, err := b.one(c)
	return spreading(func(r *run, t traverser, yield func(any) error) error {
		t.bulk = 1
		return r.each(p, t, func(got traverser) error {
			for range got.bulk {
				if err := yield(got.val); err != nil {
					return err
				}
			}
			return nil
		})
	}), traits{moves: true}, err
}

// through sends a traverser through a traversal of its own, whose traversers go on.
type through func(r *run, t traverser, yield func(traverser) error) error

func (f through) open(r *run, next sink) sink { return &passing{r, f, next} }

type passing struct {
	r    *run
	to   through
	next sink
}

func (s *passing) push(t traverser) error {
	return s.to(s.r, t, func(got traverser) error {
		if err := s.r.tick(); err != nil {
			return err
		}
		got.loops = t.loops
		return s.next.push(got)
	})
}

func (s *passing) flush() error { return s.next.flush() }

func makeLocal(b *builder, c *callInfo) (kernel, traits, error) {
	p, err := b.one(c)
	return through(func(r *run, t traverser, yield func(traverser) error) error {
		bulk := t.bulk
		t.bulk = 1
		return r.each(p, t, func(got traverser) error {
			var err error
			if got.bulk, err = multiply(got.bulk, bulk); err != nil {
				return err
			}
			return yield(got)
		})
	}), traits{moves: true}, err
}

func makeSideEffect(b *builder, c *callInfo) (kernel, traits, error) {
	p, err := b.one(c)
	return effect(func(r *run, t traverser) error {
		return r.each(p, t, func(traverser) error { return nil })
	}), traits{}, err
}

func makeCoalesce(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, -1); err != nil {
		return nil, traits{}, err
	}
	plans, err := b.children(c.Args)
	return spreading(func(r *run, t traverser, yield func(any) error) error {
		t.bulk = 1
		for _, p := range plans {
			found := false
			if err := r.each(p, t, func(got traverser) error {
				found = true
				for range got.bulk {
					if err := yield(got.val); err != nil {
						return err
					}
				}
				return nil
			}); err != nil || found {
				return err
			}
		}
		return nil
	}), traits{moves: true}, err
}

func makeOptional(b *builder, c *callInfo) (kernel, traits, error) {
	p, err := b.one(c)
	return through(func(r *run, t traverser, yield func(traverser) error) error {
		found := false
		err := r.each(p, t, func(got traverser) error {
			found = true
			return yield(got)
		})
		if err != nil || found {
			return err
		}
		return yield(t)
	}), traits{moves: true}, err
}

// fork sends traversers to some of several traversals, each of which gets all that
// come: a barrier in it is one over all of them.
type fork struct {
	plans  []*plan
	choose func(r *run, t traverser) (to []int, pass bool, err error) // which plans; pass: also straight on
}

func (f *fork) open(r *run, next sink) sink {
	s := &forking{r: r, f: f, fed: make([]bool, len(f.plans)), next: next}
	for _, p := range f.plans {
		s.pipes = append(s.pipes, r.child(p, s.out))
	}
	return s
}

type forking struct {
	r     *run
	f     *fork
	pipes []*pipe
	fed   []bool // that got a traverser
	full  bool   // nothing after it wants more
	next  sink
}

func (s *forking) out(t traverser) error {
	err := s.next.push(t)
	s.full = s.full || err == errDone
	return err
}

func (s *forking) push(t traverser) error {
	to, pass, err := s.f.choose(s.r, t)
	if err != nil {
		return err
	}
	if pass {
		if err := s.out(t); err != nil {
			return err
		}
	}
	for _, i := range to {
		s.fed[i] = true
		if err := s.pipes[i].push(t); err != nil && err != errDone {
			return err
		}
		if s.full {
			return errDone
		}
	}
	return nil
}

func (s *forking) flush() error {
	for i, p := range s.pipes {
		if s.full {
			break
		}
		if !s.fed[i] {
			continue
		}
		s.fed[i] = false
		if err := p.flush(); err != nil && err != errDone {
			return err
		}
	}
	return s.next.flush()
}

func forkTraits(plans []*plan) traits {
	t := traits{moves: true}
	for _, p := range plans {
		t.stateful = t.stateful || p.stateful
		t.barrier = t.barrier || p.barrier()
		t.waits = t.waits || p.waits()
	}
	return t
}

func makeUnion(b *builder, c *callInfo) (kernel, traits, error) {
	plans, err := b.plans(c.Args, c.first)
	all := make([]int, len(plans))
	for i := range all {
		all[i] = i
	}
	t := forkTraits(plans)
	t.source = true
	return &fork{plans, func(*run, traverser) ([]int, bool, error) { return all, false, nil }}, t, err
}

// option is one option() of branch and choose.
type option struct {
	pick *value.Enum // any, none, unproductive
	pred *predicate
	plan *plan // that a value must pass, of branch
	to   int
}

// options makes the options of a branch; the traversals that they lead to are
// appended to plans.
func (b *builder) options(c *callInfo) (opts []*option, plans []*plan, err error) {
	for i := range c.mods {
		m := &callInfo{Call: c.mods[i]}
		if m.Name != "option" {
			return nil, nil, fmt.Errorf("it has no %s()", m.Name)
		}
		if err := m.arity(1, 2); err != nil {
			return nil, nil, fmt.Errorf("option(): %w", err)
		}
		o := &option{to: len(plans)}
		switch x := m.Args[0].(type) {
		case *gremlin.Traversal:
			if len(m.Args) == 1 {
				o.pick = &value.PickAny
				break
			}
			if c.Name == "choose" {
				return nil, nil, known("Traversal is not allowed as a Pick token: %s", gremlin.ArgText(x))
			}
			o.plan, err = b.child(x)
		case value.Enum:
			if x.Kind == value.KindPick {
				o.pick = &x
				break
			}
			o.pred, err = predicateOf(x)
		default:
			o.pred, err = predicateOf(x)
		}
		if err != nil {
			return nil, nil, err
		}
		p, err := b.child(m.Args[len(m.Args)-1])
		if err != nil {
			return nil, nil, err
		}
		opts, plans = append(opts, o), append(plans, p)
	}
	return opts, plans, nil
}

// meets reports whether an option is for a value.
func (o *option) meets(v any) bool { return o.pred != nil && o.pred.accepts(v) }

func picked(opts []*option, pick value.Enum) (to []int) {
	for _, o := range opts {
		if o.pick != nil && *o.pick == pick {
			to = append(to, o.to)
		}
	}
	return to
}

func makeChoose(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 3); err != nil {
		return nil, traits{}, err
	}
	if len(c.Args) > 1 {
		return b.chooseIf(c)
	}
	var by *by
	var err error
	switch x := c.Args[0].(type) {
	case *gremlin.P:
		return nil, traits{}, fmt.Errorf("a predicate needs a traversal to choose")
	case *gremlin.Traversal, value.Enum:
		by, err = b.by(&callInfo{Call: gremlin.Call{Name: "by", Args: []any{x}}})
	default:
		return nil, traits{}, wrong(0, "a traversal", x)
	}
	if err != nil {
		return nil, traits{}, err
	}
	opts, plans, err := b.options(c)
	return &fork{plans, func(r *run, t traverser) ([]int, bool, error) {
		v, ok, err := by.value(r, t)
		if err != nil {
			return nil, false, err
		}
		if !ok {
			to := picked(opts, value.PickUnproductive)
			return to[:min(1, len(to))], len(to) == 0, nil
		}
		for _, o := range opts {
			if o.meets(v) {
				return []int{o.to}, false, nil
			}
		}
		to := picked(opts, value.PickNone)
		return to[:min(1, len(to))], len(to) == 0, nil
	}}, forkTraits(plans), err
}

// chooseIf makes choose(test, then) and choose(test, then, else).
func (b *builder) chooseIf(c *callInfo) (kernel, traits, error) {
	if len(c.mods) > 0 {
		return nil, traits{}, fmt.Errorf("it has no options beside its traversals")
	}
	plans, err := b.children(c.Args[1:])
	if err != nil {
		return nil, traits{}, err
	}
	var test func(r *run, t traverser) (bool, error)
	if p, ok := c.Args[0].(*gremlin.P); ok {
		pred, err := newPredicate(p)
		if err != nil {
			return nil, traits{}, err
		}
		test = func(_ *run, t traverser) (bool, error) { return pred.accepts(t.val), nil }
	} else {
		p, err := b.child(c.Args[0])
		if err != nil {
			return nil, traits{}, err
		}
		test = func(r *run, t traverser) (bool, error) { return r.test(p, t) }
	}
	return &fork{plans, func(r *run, t traverser) ([]int, bool, error) {
		ok, err := test(r, t)
		switch {
		case err != nil:
			return nil, false, err
		case ok:
			return []int{0}, false, nil
		case len(plans) == 2:
			return []int{1}, false, nil
		}
		return nil, true, nil
	}}, forkTraits(plans), nil
}

func makeBranch(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 1); err != nil {
		return nil, traits{}, err
	}
	by, err := b.by(&callInfo{Call: gremlin.Call{Name: "by", Args: c.Args}})
	if err != nil {
		return nil, traits{}, err
	}
	opts, plans, err := b.options(c)
	return &fork{plans, func(r *run, t traverser) ([]int, bool, error) {
		v, ok, err := by.value(r, t)
		if err != nil {
			return nil, false, err
		}
		var to []int
		if !ok {
			to = picked(opts, value.PickUnproductive)
			return append(to, picked(opts, value.PickAny)...), false, nil
		}
		for _, o := range opts {
			ok := o.meets(v)
			if o.plan != nil {
				moved := r.alone(t, v)
				var err error
				if ok, err = r.test(o.plan, moved); err != nil {
					return nil, false, err
				}
			}
			if ok {
				to = append(to, o.to)
			}
		}
		if len(to) == 0 {
			to = picked(opts, value.PickNone)
		}
		return append(to, picked(opts, value.PickAny)...), false, nil
	}}, forkTraits(plans), err
}
