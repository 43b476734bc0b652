// Package traversal carries out Gremlin traversals on a graph within one
// transaction.
//
// It knows the steps and what they do with traversers. It must not know the text
// or the wire that a traversal came from, nor how elements are stored.
//
// Compile makes a Plan of a traversal: a chain of nodes, each with a step, which
// may have plans of its own. Run opens the plan: each step becomes a sink that the
// one before it pushes traversers to. A push returns once everything after it has
// seen the traverser; it returns errDone if nothing after it wants another one.
// At the end, flush goes down the chain, and the steps that waited for all push
// what they have. DESIGN.md says more.
package traversal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
)

// Limits of one run. Beyond them the errors are engine.CodeLimit and name the step.
const (
	// MaxHeld bounds the traversers and values that steps hold at once: those of
	// barriers, collections and side effects.
	MaxHeld = 20_000_000
	// MaxLoops bounds the loops of a repeat.
	MaxLoops = 100_000
	// MaxString bounds the bytes of a string that a step makes.
	MaxString = 16 << 20
)

// Options of Run. The zero value works.
type Options struct {
	// MaxHeld is a lower limit than the constant; 0: the constant.
	MaxHeld int64
	// Rand is the source of coin, sample and shuffled order; nil: a random one. A
	// SeedStrategy has precedence.
	Rand *rand.Rand
	// Now is the time that asDate and the like take; nil: time.Now.
	Now func() time.Time
	// Progress is called by steps that read the whole graph, at most once in an
	// iteration, with the name of the step and what it has done of what is to be done
	// at most: iterations of pageRank and peerPressure, vertices of connectedComponent,
	// traversers of shortestPath. nil: nobody asks.
	Progress func(step string, done, total int64)
}

// Plan is a traversal that is ready to run. It may run several times, but not at
// once.
type Plan struct {
	source  *config
	main    *plan
	plans   int // how many plans there are in it
	writes  bool
	writers []StepError // the steps that write, without messages

	profiled bool // it ends with profile(), which yields what was measured instead of results
}

// Writes reports whether the traversal has steps that change the graph.
func (p *Plan) Writes() bool { return p.writes }

// AtEnd returns the error of the end of a transaction in which only this plan has
// written. One of the schema is a *StepError if only one step can have caused it.
func (p *Plan) AtEnd(err error) error {
	if engine.CodeOf(err) != graph.CodeSchema || len(p.writers) != 1 {
		return err
	}
	s := p.writers[0]
	s.Msg, s.Err = err.Error(), err
	return &s
}

// Compile checks a traversal and makes a plan of it. Its errors are *StepError.
func Compile(t *gremlin.Traversal) (*Plan, error) {
	b := &builder{config: &config{}}
	if err := b.configure(t.Source); err != nil {
		return nil, err
	}
	if len(t.Steps) == 0 {
		return nil, &StepError{Step: "g", Msg: "the traversal has no steps", Pos: gremlin.NoPos}
	}
	steps, profiled := t.Steps, false
	if last := t.Steps[len(t.Steps)-1]; last.Name == "profile" && len(last.Args) == 0 && len(t.Steps) > 1 {
		steps, profiled = t.Steps[:len(t.Steps)-1], true
	}
	main, err := b.plan(steps, true)
	if err != nil {
		return nil, err
	}
	if b.config.readOnly && b.writes != "" {
		return nil, &StepError{Step: b.writes, Msg: "The provided traversal has a mutating step and thus is not read only", Pos: gremlin.NoPos}
	}
	p := &Plan{source: b.config, main: main, plans: b.count, writes: b.writes != "", writers: b.writers, profiled: profiled}
	b.optimize(p)
	return p, nil
}

// Run carries out the plan and calls yield with each result, until yield returns an
// error, which Run returns. A result is a value of package value, whose elements
// are those of tx, and how many times it occurs. Errors of a step are *StepError.
func (p *Plan) Run(ctx context.Context, tx *graph.Tx, o Options, yield func(val any, bulk int64) error) error {
	r := newRun(ctx, tx, p, o)
	last := &results{yield: yield}
	if p.profiled {
		last.yield = func(any, int64) error { return nil }
	}
	pipe := p.main.open(r, last)
	err := pipe.push(traverser{bulk: 1, sack: r.firstSack()})
	if err == nil || err == errDone {
		err = pipe.flush()
	}
	switch {
	case last.err != nil:
		return last.err
	case err != nil && err != errDone:
		return err
	}
	if err := tx.Err(); err != nil || !p.profiled {
		return err
	}
	return yield(r.profile.metrics(p.main), 1)
}

// results is the sink behind the last step.
type results struct {
	yield func(val any, bulk int64) error
	err   error // of yield
}

func (s *results) push(t traverser) error {
	if s.err = s.yield(t.val, t.bulk); s.err != nil {
		return errStopped
	}
	return nil
}

func (s *results) flush() error { return nil }

// StepError says which step failed, and why.
type StepError struct {
	Step string
	Msg  string
	Pos  int   // of the step in the text, in bytes; gremlin.NoPos: unknown
	Err  error // the cause, or nil
}

// Error implements error.
func (e *StepError) Error() string { return e.Step + "(): " + e.Msg }

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// errDone: nothing after a sink wants another traverser.
var errDone = errors.New("enough")

// traverser is one walker: where it is, and what it has with it. It is copied
// freely; what it points to does not change.
type traverser struct {
	val   any
	bulk  int64 // how many equal ones it stands for
	path  *node // where it has been, newest first; nil: nowhere, or nobody asks
	sack  any
	loops *loop
}

// node is one object of a path.
type node struct {
	val    any
	labels []string
	prev   *node
	length int
}

// loop counts the rounds of a repeat, of which several may be nested.
type loop struct {
	name  string
	count int
	outer *loop
}

// sink takes traversers.
type sink interface {
	push(t traverser) error
	flush() error // there are no more
}

// run is what all steps of one run share.
type run struct {
	ctx    context.Context
	tx     *graph.Tx
	plan   *Plan
	source *config
	rand   *rand.Rand
	now    func() time.Time

	effects  effects
	profile  *profile // nil: nobody asks
	chances  map[any]*random
	idle     [][]*pipe // by plan: pipes of children that wait for their next traverser
	computed []*layer  // properties of vertices that steps have computed
	progress func(step string, done, total int64)
	judging  bool // a strategy decides what can be seen
	held     int64
	most     int64
	ticks    int
}

func newRun(ctx context.Context, tx *graph.Tx, p *Plan, o Options) *run {
	r := &run{ctx: ctx, tx: tx, plan: p, source: p.source, rand: o.Rand, now: o.Now, progress: o.Progress, idle: make([][]*pipe, p.plans), most: MaxHeld}
	if o.MaxHeld > 0 {
		r.most = o.MaxHeld
	}
	if r.now == nil {
		r.now = time.Now
	}
	if r.rand == nil {
		r.rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	r.effects.init(p.source)
	if p.profiled {
		r.profile = newProfile()
	}
	return r
}

// tick is called for each traverser that a step makes. It returns an error once the
// context has ended.
func (r *run) tick() error {
	if r.ticks++; r.ticks&255 == 0 {
		return r.ctx.Err()
	}
	return nil
}

// hold counts n more values that a step holds. It fails beyond the limit.
func (r *run) hold(n int) error {
	if r.held += int64(n); r.held > r.most {
		return engine.Errorf(engine.CodeLimit, "the traversal holds more than %d values at once (MaxHeld)", r.most)
	}
	return nil
}

func (r *run) release(n int) { r.held -= int64(n) }

// to returns t at another object.
func (r *run) to(t traverser, val any) traverser {
	t.val = val
	if r.source.paths == fullPaths {
		t.path = extend(t.path, val, nil)
	}
	return t
}

// alone returns t at another object, with a path that begins there: what a by has of an
// object of the path.
func (r *run) alone(t traverser, val any) traverser {
	t.path = nil
	return r.to(t, val)
}

func extend(prev *node, val any, labels []string) *node {
	n := &node{val: val, labels: labels, prev: prev, length: 1}
	if prev != nil {
		n.length = prev.length + 1
	}
	return n
}

// label returns t with labels at the object where it is.
func (r *run) label(t traverser, labels []string) traverser {
	switch {
	case r.source.paths == noPaths:
	case r.source.paths == labelledPaths:
		t.path = extend(t.path, t.val, labels)
	case t.path == nil:
		t.path = extend(nil, t.val, labels)
	default:
		n := *t.path
		n.labels = append(n.labels[:len(n.labels):len(n.labels)], labels...)
		t.path = &n
	}
	return t
}

// known returns an error with the text that other Gremlin servers have: programs,
// and the tests of TinkerPop, look for it.
func known(format string, args ...any) error { return knownError(fmt.Sprintf(format, args...)) }

type knownError string

func (e knownError) Error() string { return string(e) }

// fail returns err as the error of a step.
func (s *step) fail(err error) error {
	if err == nil || err == errDone || err == errStopped {
		return err
	}
	var own *StepError
	if errors.As(err, &own) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &StepError{Step: s.call.Name, Msg: err.Error(), Pos: s.call.Pos, Err: err}
}

func (s *step) failf(format string, args ...any) error {
	return &StepError{Step: s.call.Name, Msg: fmt.Sprintf(format, args...), Pos: s.call.Pos}
}
