package traversal

import (
	"fmt"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/gremlin"
)

// repeat sends traversers through its body again and again.
//
// Traversers wait in a queue for each number of rounds that they have behind them,
// where those that are the same are joined. The one with the most rounds is served
// first, so that the queues stay short; but if the body has a barrier, all
// traversers go through a round together.
type repeat struct {
	name                  string
	body                  *plan
	until, emit           *condition // nil: never
	untilFirst, emitFirst bool       // they are asked before the body
}

// condition is what until, times and emit ask.
type condition struct {
	times int64 // < 0: not asked
	plan  *plan // nil: true
	pred  *predicate
}

func (c *condition) holds(r *run, t traverser) (bool, error) {
	switch {
	case c == nil:
		return false, nil
	case c.times >= 0:
		return int64(t.loops.count) >= c.times, nil
	case c.plan != nil:
		return r.test(c.plan, t)
	case c.pred != nil:
		return c.pred.accepts(t.val), nil
	}
	return true, nil
}

// queueSize is how many traversers wait in a queue before they are served.
const queueSize = 2500

func makeRepeat(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 2); err != nil {
		return nil, traits{}, err
	}
	rep := &repeat{}
	body := c.Args[0]
	if len(c.Args) == 2 {
		name, err := c.string(0)
		if err != nil {
			return nil, traits{}, err
		}
		rep.name, body = name, c.Args[1]
	}
	for i, mods := range [][]gremlin.Call{c.before, c.mods} {
		for j := range mods {
			if err := b.loopModulator(rep, &callInfo{Call: mods[j]}, i == 0); err != nil {
				return nil, traits{}, err
			}
		}
	}
	var err error
	if t, ok := body.(*gremlin.Traversal); ok && len(t.Steps) > 0 && t.Steps[0].Name == "inject" {
		return nil, traits{}, known("The parent of inject()-step can not be repeat()-step")
	}
	if rep.body, err = b.child(body); err != nil {
		return nil, traits{}, err
	}
	if len(rep.body.steps) == 0 {
		return nil, traits{}, fmt.Errorf("the repeat traversal has no steps")
	}
	for _, s := range rep.body.steps {
		if s.traits.reduces { // which would not know the round
			return nil, traits{}, known("The parent of a reducing barrier can not be repeat()-step: %s(). It can stand in a local()", s.call.Name)
		}
	}
	return rep, traits{moves: true, stateful: true, waits: true, barrier: rep.body.barrier()}, nil
}

func (b *builder) loopModulator(rep *repeat, m *callInfo, first bool) error {
	cond := &condition{times: -1}
	var err error
	switch {
	case m.Name == "times":
		if cond.times, err = m.int(0); err == nil && cond.times < 0 {
			err = fmt.Errorf("the number of rounds must not be negative")
		}
	case len(m.Args) == 0 && m.Name == "emit":
	case len(m.Args) == 0:
		err = m.arity(1, 1)
	default:
		if p, ok := m.Args[0].(*gremlin.P); ok {
			cond.pred, err = newPredicate(p)
		} else {
			cond.plan, err = b.child(m.Args[0])
		}
	}
	if err != nil {
		return (&step{call: *m}).fail(err)
	}
	if m.Name == "emit" {
		if rep.emit != nil {
			return fmt.Errorf("the repeat has two emit()")
		}
		rep.emit, rep.emitFirst = cond, first
		return nil
	}
	if rep.until != nil {
		return fmt.Errorf("the repeat has two until() or times()")
	}
	rep.until, rep.untilFirst = cond, first
	return nil
}

func (rep *repeat) open(r *run, next sink) sink {
	s := &looping{r: r, rep: rep, next: next, barrier: rep.body.waits()}
	s.body = r.child(rep.body, s.out)
	return s
}

type looping struct {
	r       *run
	rep     *repeat
	body    *pipe
	queues  []queue // by rounds
	loops   []*loop // of traversers that are in no other repeat, likewise
	rounds  *loop   // of what goes through the body, for what a reduction in a union makes of it
	barrier bool
	full    bool // nothing after it wants more
	next    sink
}

// queue has traversers, those that are the same joined.
type queue struct {
	all []traverser
	at  index
}

// loop returns the counter of a traverser with so many rounds behind it.
func (s *looping) loop(count int, outer *loop) *loop {
	if outer != nil {
		return &loop{s.rep.name, count, outer}
	}
	for len(s.loops) <= count {
		s.loops = append(s.loops, &loop{s.rep.name, len(s.loops), nil})
	}
	return s.loops[count]
}

func (s *looping) push(t traverser) error {
	t.loops = s.loop(0, t.loops)
	if err := s.wait(t); err != nil {
		return err
	}
	if !s.barrier && len(s.queues[0].all) >= queueSize {
		return s.serve()
	}
	return nil
}

// wait puts a traverser into the queue of its rounds.
func (s *looping) wait(t traverser) error {
	if t.loops.count > MaxLoops {
		return repeatError(engine.Errorf(engine.CodeLimit, "a traverser has gone through more than %d rounds (MaxLoops): the repeat needs a times() or until() that ends it", MaxLoops))
	}
	for len(s.queues) <= t.loops.count {
		s.queues = append(s.queues, queue{})
	}
	q := &s.queues[t.loops.count]
	if joined, err := q.at.join(s.r, &q.all, t); joined || err != nil {
		return repeatError(err)
	}
	return repeatError(s.r.hold(1))
}

// serve sends the traversers that wait through the body until none is left.
func (s *looping) serve() error {
	for at := len(s.queues) - 1; at >= 0; {
		if len(s.queues[at].all) == 0 {
			at--
			continue
		}
		all := s.queues[at].all
		s.queues[at] = queue{}
		n, err := s.round(all, at)
		s.r.release(n)
		if err != nil {
			return err
		}
		for _, t := range all[n:] { // those with more rounds go first
			if _, err := s.queues[at].at.join(s.r, &s.queues[at].all, t); err != nil {
				return err
			}
		}
		at = len(s.queues) - 1
	}
	return nil
}

// round sends traversers through the body once, and returns how many of them.
func (s *looping) round(all []traverser, at int) (n int, err error) {
	for i, t := range all {
		s.rounds = t.loops
		if err := s.start(t); err != nil {
			return i, err
		}
		if s.full {
			return i, errDone
		}
		if !s.barrier && len(s.queues) > at+1 && len(s.queues[at+1].all) >= queueSize {
			return i + 1, nil
		}
	}
	if !s.barrier {
		return len(all), nil
	}
	if err := s.body.flush(); err != nil && err != errDone {
		return len(all), err
	}
	if s.full {
		return len(all), errDone
	}
	return len(all), nil
}

// start asks what is to be asked before the body, and sends a traverser there.
func (s *looping) start(t traverser) error {
	if err := s.r.tick(); err != nil {
		return err
	}
	if s.rep.untilFirst {
		if done, err := s.rep.until.holds(s.r, t); err != nil {
			return err
		} else if done {
			return s.leave(t)
		}
	}
	if s.rep.emitFirst {
		if emit, err := s.rep.emit.holds(s.r, t); err != nil {
			return err
		} else if emit {
			if err := s.leave(t); err != nil {
				return err
			}
		}
	}
	if err := s.body.push(t); err != nil && err != errDone {
		return err
	}
	return nil
}

// out takes a traverser that has gone through the body.
func (s *looping) out(t traverser) error {
	if t.loops == nil {
		t.loops = s.rounds
	}
	t.loops = s.loop(t.loops.count+1, t.loops.outer)
	if !s.rep.untilFirst {
		if done, err := s.rep.until.holds(s.r, t); err != nil {
			return err
		} else if done {
			return s.leave(t)
		}
	}
	if !s.rep.emitFirst {
		if emit, err := s.rep.emit.holds(s.r, t); err != nil {
			return err
		} else if emit {
			if err := s.leave(t); err != nil {
				return err
			}
		}
	}
	return s.wait(t)
}

// leave lets a traverser go on after the repeat.
func (s *looping) leave(t traverser) error {
	t.loops = t.loops.outer
	err := s.next.push(t)
	s.full = s.full || err == errDone
	return err
}

func (s *looping) flush() error {
	if !s.full {
		if err := s.serve(); err != nil && err != errDone {
			return err
		}
	}
	return s.next.flush()
}

// repeatError names the step: it is found out inside the steps of its body.
func repeatError(err error) error {
	if err == nil {
		return nil
	}
	return &StepError{Step: "repeat", Msg: err.Error(), Pos: gremlin.NoPos, Err: err}
}
