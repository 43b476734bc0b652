// Package graphs is the backend of web/gremlin: it runs traversals on the graphs of
// one engine.
//
// It knows transactions: which traversal needs one that writes, when results may be
// sent, how long a session may keep one; and what call() declares outside of them. It
// must not know steps, nor how a driver speaks.
package graphs

import (
	"context"
	"errors"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	lang "github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/graph/value"
	"github.com/skerrydb/skerry/web/gremlin"
)

// MaxHeld bounds the values that one traversal holds, and the results of one that
// writes, which are sent after its commit: engine.CodeLimit.
const MaxHeld = 10_000_000

// Backend runs traversals. It is safe for concurrent use.
type Backend struct {
	eng engine.Engine
	db  *graph.DB
}

// New returns a backend on the graphs of an engine. The name of a source is that of
// a graph. If the engine lacks a promise that graphs need, the error says which.
func New(eng engine.Engine) (*Backend, error) {
	db, err := graph.New(eng)
	return &Backend{eng, db}, err
}

// result is one result of a traversal, and how often it occurs.
type result struct {
	val  any
	bulk int64
}

// Submit implements gremlin.Backend. A traversal that writes is committed before
// its results are sent: its function may run several times.
func (b *Backend) Submit(ctx context.Context, r gremlin.Request, yield func(val any, bulk int64) error) error {
	if done, err := explain(r, yield); done {
		return err
	}
	if done, err := b.call(ctx, r, yield); done {
		return err
	}
	plan, err := traversal.Compile(r.Traversal)
	if err != nil {
		return failure(err)
	}
	if plan.Writes() {
		return b.write(ctx, plan, r, yield)
	}
	st := &stream{yield: yield}
	_, err = b.db.View(ctx, engine.Read{}, r.Source, func(tx *graph.Tx) error {
		if st.sent {
			if err := ctx.Err(); err != nil {
				return err
			}
			return engine.Errorf(engine.CodeUnavailable, "the read began anew after some of its results had been sent; try again")
		}
		st.held = st.held[:0]
		return carry(ctx, plan, tx, r, st.take)
	})
	if err != nil {
		return unread(failure(err))
	}
	return st.flush()
}

// unread makes the error of a read not one of a write that the leader is asked for: a
// read needs no leader here, but a majority.
func unread(err error) error {
	if e, ok := errors.AsType[*gremlin.Error](err); ok && errors.Is(e, engine.ErrNotLeader) {
		return &gremlin.Error{Status: e.Status, Msg: e.Msg, Attributes: e.Attributes}
	}
	return err
}

// streamAfter is how many results a read may have before the first of them are sent
// while it goes on. Until then an engine may run it anew.
const streamAfter = 1000

// stream sends the results of a read.
type stream struct {
	yield func(val any, bulk int64) error
	held  []result
	sent  bool // some of them
}

func (s *stream) take(val any, bulk int64) error {
	if s.held = append(s.held, result{val, bulk}); !s.sent && len(s.held) < streamAfter {
		return nil
	}
	s.sent = true
	return s.flush()
}

func (s *stream) flush() error {
	all := s.held
	s.held = s.held[:0]
	return send(all, s.yield)
}

func (b *Backend) write(ctx context.Context, plan *traversal.Plan, r gremlin.Request, yield func(val any, bulk int64) error) error {
	var all []result
	_, err := b.db.Update(ctx, r.Source, func(tx *graph.Tx) error {
		all = all[:0]
		if err := carry(ctx, plan, tx, r, collect(&all)); err != nil {
			return err
		}
		return plan.AtEnd(tx.Complete())
	})
	if err != nil {
		return failure(err)
	}
	return send(all, yield)
}

func collect(all *[]result) func(val any, bulk int64) error {
	return func(val any, bulk int64) error {
		if len(*all) >= MaxHeld {
			return engine.Errorf(engine.CodeLimit, "a traversal that writes has more than %d results (MaxHeld)", MaxHeld)
		}
		*all = append(*all, result{val, bulk})
		return nil
	}
}

func send(all []result, yield func(val any, bulk int64) error) error {
	for _, x := range all {
		if err := yield(x.val, x.bulk); err != nil {
			return err
		}
	}
	return nil
}

// carry runs a plan and yields what the end of the request asks for.
func carry(ctx context.Context, plan *traversal.Plan, tx *graph.Tx, r gremlin.Request, yield func(val any, bulk int64) error) error {
	end := newEnd(r, yield)
	err := plan.Run(ctx, tx, traversal.Options{MaxHeld: MaxHeld}, func(val any, bulk int64) error {
		if !end.wants {
			return nil
		}
		d, err := traversal.Detach(tx, val, !r.References)
		if err != nil {
			return err
		}
		return end.take(d, bulk)
	})
	if err != nil {
		return err
	}
	return end.close()
}

// ending carries out what a text has after its steps: toList(), next(2), iterate().
type ending struct {
	yield func(val any, bulk int64) error
	name  string
	wants bool  // results
	left  int64 // how many more are sent; < 0: all
	set   *value.Set
	bulks *value.BulkSet
	any   bool
}

func newEnd(r gremlin.Request, yield func(val any, bulk int64) error) *ending {
	e := &ending{yield: yield, name: r.End, wants: r.End != "iterate", left: -1}
	switch r.End {
	case "next":
		e.left = max(r.N, 1)
		if r.N < 0 {
			e.left = 1
		}
	case "tryNext", "hasNext":
		e.left = 1
	case "toSet":
		e.set = &value.Set{}
	case "toBulkSet":
		e.bulks = &value.BulkSet{}
	}
	return e
}

func (e *ending) take(val any, bulk int64) error {
	e.any = true
	switch {
	case e.set != nil:
		e.set.Add(val)
		return nil
	case e.bulks != nil:
		e.bulks.Add(val, bulk)
		return nil
	case e.name == "hasNext":
		return nil
	case e.left == 0:
		return nil // a traversal that writes runs to its end
	case e.left > 0:
		bulk = min(bulk, e.left)
		e.left -= bulk
	}
	return e.yield(val, bulk)
}

func (e *ending) close() error {
	switch {
	case e.name == "hasNext":
		return e.yield(e.any, 1)
	case e.set != nil:
		for _, v := range e.set.Items() {
			if err := e.yield(v, 1); err != nil {
				return err
			}
		}
	case e.bulks != nil:
		var err error
		e.bulks.All(func(v any, bulk int64) bool {
			err = e.yield(v, bulk)
			return err == nil
		})
		return err
	}
	return nil
}

// explain answers explain(), which runs nothing.
func explain(r gremlin.Request, yield func(val any, bulk int64) error) (done bool, err error) {
	if r.End != "explain" {
		return false, nil
	}
	plan, err := traversal.Compile(r.Traversal)
	if err != nil {
		return true, failure(err)
	}
	return true, yield(plan.Explain(), 1)
}

// failure returns an error as one whose text the client sees, unless that says
// something about the server.
func failure(err error) error {
	code := engine.CodeOf(err)
	if err == nil || code != engine.CodeOutcomeUnknown && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return err
	}
	if own, ok := errors.AsType[*gremlin.Error](err); ok {
		return own
	}
	out := &gremlin.Error{Status: gremlin.StatusInternal, Msg: err.Error(), Attributes: &value.Map{}, Err: err}
	step, isStep := errors.AsType[*traversal.StepError](err)
	switch {
	case code == engine.CodeInternal && !isStep:
		return err // hidden
	case isStep:
		out.Attributes.Set("step", step.Step)
		if step.Pos != lang.NoPos {
			out.Attributes.Set("position", int32(step.Pos))
		}
	}
	if code != engine.CodeInternal {
		out.Attributes.Set("code", string(code))
	}
	return out
}
