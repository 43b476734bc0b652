package traversal

import (
	"errors"
)

// kernel is what one kind of step does. It is made once for a plan and is not
// changed by runs; open makes what one run, or one use of a child, needs.
type kernel interface {
	open(r *run, next sink) sink
}

// step is one step of a plan.
type step struct {
	call   callInfo
	labels []string // of as
	kernel kernel
	traits traits
}

// traits are what the builder and the optimizer ask about a step.
type traits struct {
	stateful bool // what it does with a traverser depends on those before the last flush too, so that a child with it is opened anew each time
	barrier  bool // it pushes what it has at flush
	waits    bool // it may keep traversers until flush
	reduces  bool // it is a barrier that pushes one traverser
	moves    bool // it may make many traversers of one: a lazy barrier after it pays
	source   bool // it may be the first of a traversal
}

// plan is a chain of steps.
type plan struct {
	id       int
	steps    []*step
	stateful bool
}

// barrier reports whether the plan has a step that waits for all traversers.
func (p *plan) barrier() bool {
	for _, s := range p.steps {
		if s.traits.barrier {
			return true
		}
	}
	return false
}

// waits reports whether the plan has a step that may keep traversers until flush.
func (p *plan) waits() bool {
	for _, s := range p.steps {
		if s.traits.barrier || s.traits.waits {
			return true
		}
	}
	return false
}

// pipe is an open plan. It takes the traversers of its first step.
type pipe struct {
	plan  *plan
	first sink
	end   *outlet // where its results go; nil: to the sink that it was opened with
	done  bool
}

func (p *pipe) push(t traverser) error {
	if p.done {
		return errDone
	}
	err := p.first.push(t)
	if err == errDone {
		p.done = true
	}
	return err
}

func (p *pipe) flush() error { return p.first.flush() }

// open opens the plan's steps before a sink, which gets flush too.
func (p *plan) open(r *run, last sink) *pipe {
	next := last
	for i := len(p.steps) - 1; i >= 0; i-- {
		s := p.steps[i]
		if len(s.labels) > 0 && r.source.paths != noPaths {
			next = &labeller{r: r, labels: s.labels, next: next}
		}
		next = s.open(r, next)
	}
	return &pipe{plan: p, first: next}
}

func (s *step) open(r *run, next sink) sink {
	if r.profile != nil {
		return r.profile.around(s, next, func(next sink) sink { return &named{s, s.kernel.open(r, next)} })
	}
	return &named{s, s.kernel.open(r, next)}
}

// named gives a step's errors its name.
type named struct {
	step  *step
	inner sink
}

func (n *named) push(t traverser) error { return n.step.fail(n.inner.push(t)) }
func (n *named) flush() error           { return n.step.fail(n.inner.flush()) }

type labeller struct {
	r      *run
	labels []string
	next   sink
}

func (l *labeller) push(t traverser) error { return l.next.push(l.r.label(t, l.labels)) }
func (l *labeller) flush() error           { return l.next.flush() }

// outlet is the end of a child: its results go to whoever uses the child at the
// moment, who also decides when the sinks after it are flushed.
type outlet struct {
	to func(traverser) error
}

func (o *outlet) push(t traverser) error { return o.to(t) }
func (o *outlet) flush() error           { return nil }

// child opens a plan whose results go to a function.
func (r *run) child(p *plan, to func(traverser) error) *pipe {
	out := &outlet{to}
	c := p.open(r, out)
	c.end = out
	return c
}

// each runs a child for one traverser and calls yield with its results. An error of
// yield ends it and is returned.
func (r *run) each(p *plan, t traverser, yield func(traverser) error) error {
	var c *pipe
	if free := r.idle[p.id]; len(free) > 0 {
		c, r.idle[p.id] = free[len(free)-1], free[:len(free)-1]
		c.end.to = yield
	} else {
		c = r.child(p, yield)
	}
	var stopped error // what yield returned
	c.end.to = func(t traverser) error {
		if stopped = yield(t); stopped != nil {
			return errStopped
		}
		return nil
	}
	err := c.push(t)
	if err == nil || err == errDone {
		err = c.flush()
	}
	switch {
	case err == errStopped:
		return stopped
	case err != nil && err != errDone:
		return err
	}
	if !p.stateful {
		r.idle[p.id] = append(r.idle[p.id], c)
	}
	return nil
}

// errStopped: the user of a child wants no more of it.
var errStopped = errors.New("stopped")

// errFirst ends a child whose first result is enough.
var errFirst = errors.New("the first is enough")

// first returns the first result of a child for one traverser.
func (r *run) first(p *plan, t traverser) (val any, ok bool, err error) {
	t.bulk = 1
	err = r.each(p, t, func(got traverser) error {
		val, ok = got.val, true
		return errFirst
	})
	if err == errFirst {
		err = nil
	}
	return val, ok, err
}

// test reports whether a child has a result for a traverser.
func (r *run) test(p *plan, t traverser) (bool, error) {
	_, ok, err := r.first(p, t)
	return ok, err
}

// The kinds of sinks that most steps are.

// filter passes on the traversers that keep accepts.
type filter func(r *run, t traverser) (bool, error)

func (f filter) open(r *run, next sink) sink { return &filtering{r, f, next} }

type filtering struct {
	r    *run
	keep filter
	next sink
}

func (f *filtering) push(t traverser) error {
	ok, err := f.keep(f.r, t)
	if err != nil || !ok {
		return err
	}
	return f.next.push(t)
}

func (f *filtering) flush() error { return f.next.flush() }

// mapping moves a traverser to another value, or drops it if there is none.
type mapping func(r *run, t traverser) (val any, ok bool, err error)

func (m mapping) open(r *run, next sink) sink { return &mapper{r, m, next} }

type mapper struct {
	r    *run
	to   mapping
	next sink
}

func (m *mapper) push(t traverser) error {
	val, ok, err := m.to(m.r, t)
	if err != nil || !ok {
		return err
	}
	return m.next.push(m.r.to(t, val))
}

func (m *mapper) flush() error { return m.next.flush() }

// spreading moves a traverser to each of several values.
type spreading func(r *run, t traverser, yield func(any) error) error

func (f spreading) open(r *run, next sink) sink { return &spreader{r, f, next} }

type spreader struct {
	r    *run
	to   spreading
	next sink
}

func (s *spreader) push(t traverser) error {
	return s.to(s.r, t, func(val any) error {
		if err := s.r.tick(); err != nil {
			return err
		}
		return s.next.push(s.r.to(t, val))
	})
}

func (s *spreader) flush() error { return s.next.flush() }

// effect does something with each traverser and passes it on.
type effect func(r *run, t traverser) error

func (e effect) open(r *run, next sink) sink { return &acting{r, e, next} }

type acting struct {
	r    *run
	do   effect
	next sink
}

func (a *acting) push(t traverser) error {
	if err := a.do(a.r, t); err != nil {
		return err
	}
	return a.next.push(t)
}

func (a *acting) flush() error { return a.next.flush() }

// reducing makes one value of all traversers.
type reducing func(r *run) reduction

type reduction interface {
	add(t traverser) error
	result() (val any, ok bool, err error)
}

func (f reducing) open(r *run, next sink) sink { return &reducer{r, f, f(r), next} }

type reducer struct {
	r     *run
	begin reducing
	red   reduction
	next  sink
}

func (s *reducer) push(t traverser) error { return s.red.add(t) }

func (s *reducer) flush() error {
	val, ok, err := s.red.result()
	s.red = s.begin(s.r)
	if err != nil {
		return err
	}
	if ok {
		t := s.r.to(traverser{bulk: 1, sack: s.r.firstSack()}, val)
		if err := s.next.push(t); err != nil && err != errDone {
			return err
		}
	}
	return s.next.flush()
}

// collecting holds all traversers and pushes them, in an order of its own, at flush.
type collecting func(r *run, all []traverser) ([]traverser, error)

func (f collecting) open(r *run, next sink) sink { return &collector{r: r, arrange: f, next: next} }

type collector struct {
	r       *run
	arrange collecting
	all     []traverser
	next    sink
}

func (c *collector) push(t traverser) error {
	if err := c.r.hold(1); err != nil {
		return err
	}
	c.all = append(c.all, t)
	return nil
}

func (c *collector) flush() error {
	all, err := c.arrange(c.r, c.all)
	if err != nil {
		return err
	}
	c.r.release(len(c.all))
	c.all = nil
	if err := pushAll(c.next, all); err != nil {
		return err
	}
	return c.next.flush()
}

// pushAll pushes traversers until nobody wants more.
func pushAll(next sink, all []traverser) error {
	for _, t := range all {
		if err := next.push(t); err != nil {
			if err == errDone {
				return nil
			}
			return err
		}
	}
	return nil
}
