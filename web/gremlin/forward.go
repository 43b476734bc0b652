package gremlin

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/graph/value"
)

// coded returns an error of the engine as one whose text and code the client sees.
func coded(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	e, ok := errors.AsType[*engine.Error](err)
	if !ok || e == nil || e.Code == engine.CodeInternal {
		return err
	}
	return &Error{Status: StatusInternal, Msg: e.Error(), Attributes: value.MapOf("code", string(e.Code)), Err: err}
}

// submit runs a request outside a session: here, or at the leader if it writes and
// another node leads. s has the results.
func (h *Handler) submit(ctx context.Context, w *work, s *stream) error {
	here := func() error { return h.o.Backend.Submit(ctx, w.req, s.yield) }
	err := here()
	if h.leader == nil || s.begun() || !errors.Is(err, engine.ErrNotLeader) {
		return err
	}
	var last error
	call := &forward.Call{Try: func(node uint64, self bool) (o forward.Outcome, err error) {
		if self {
			err = here()
			o = forward.OutcomeOf(err)
		} else {
			o, err = h.leader.pass(ctx, node, w, s)
			h.leader.count(o)
		}
		if s.begun() {
			o = forward.Answered // the client has some of the answer
		}
		last = err
		return o, err
	}}
	err = h.leader.router.Do(ctx, call)
	if last != nil && errors.Is(err, engine.ErrNotLeader) {
		err = last // which says more
	}
	return coded(err)
}

// count counts an attempt.
func (p *upstreams) count(o forward.Outcome) {
	switch o {
	case forward.NotRun:
		p.refused.Add(1)
	case forward.MayHaveRun:
		p.broken.Add(1)
	default:
		p.answered.Add(1)
	}
}

// Metrics yields metrics for operators.
func (h *Handler) Metrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		if h.leader == nil {
			return
		}
		for i, n := range []*atomic.Uint64{&h.leader.answered, &h.leader.refused, &h.leader.broken} {
			result := [...]string{"answered", "refused", "broken"}[i]
			if !yield(engine.Metric{Name: "gremlin_forwards_total", Counter: true, Value: float64(n.Load()), Labels: []engine.Label{{Name: "result", Value: result}},
				Help: "Attempts to pass a write of a Gremlin driver on to the leader, by result: answered, refused (it did not lead or could not be reached), broken (it may or may not have acted)."}) {
				return
			}
		}
	}
}

// pass makes one attempt to have a node run a request.
func (p *upstreams) pass(ctx context.Context, node uint64, w *work, s *stream) (forward.Outcome, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return forward.Answered, context.Cause(ctx)
	}
	u, err := p.get(ctx, node)
	if err != nil {
		return forward.NotRun, err
	}
	end, sent, err := u.submit(ctx, frameSubmit, w, s)
	switch {
	case err == nil:
		p.put(u)
		err = s.accept(end)
		return forward.OutcomeOf(err), err
	case s.broken != nil:
		return forward.Answered, err
	case sent:
		return forward.MayHaveRun, engine.Errorf(engine.CodeOutcomeUnknown, "the leader, node %d, did not answer; the request may or may not have been carried out: %w", node, err)
	}
	return forward.NotRun, engine.Errorf(engine.CodeNotLeader, "the leader, node %d, could not be reached; nothing was written: %w", node, err)
}

// submit sends a request whose results s takes. It waits longer than the time limit of
// ctx, after which the other node ends the request and says what has become of it.
func (u *upstream) submit(ctx context.Context, kind byte, w *work, s *stream) (end *answer, sent bool, err error) {
	a := &ask{kind: kind, form: w.form, user: w.req.User, body: w.body}
	ctx, cancel := a.patient(ctx)
	defer cancel()
	return u.call(ctx, a, func(got *answer) error { return s.take(got.items, got.n) })
}

// patient gives the other node the time limit of ctx. The context that it returns ends
// with ctx, but that much later if ctx ends by its limit.
func (a *ask) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	at, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	a.limit = max(time.Until(at), time.Millisecond)
	longer, end := context.WithDeadlineCause(context.WithoutCancel(ctx), at.Add(nodeSlack), errTimeout)
	longer, cancel := context.WithCancelCause(longer)
	stop := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); cause != errTimeout {
			cancel(cause)
		}
	})
	return longer, func() { stop(); cancel(nil); end() }
}

// begin opens a transaction of a session: here, or at the leader if that is another
// node. It lasts as long as life.
func (h *Handler) begin(ctx, life context.Context, r Request) (transaction, error) {
	here := func() (transaction, error) {
		tx, err := h.o.Backend.Begin(life, r)
		if err != nil {
			return nil, err
		}
		return local{tx}, nil
	}
	if h.leader == nil {
		return here()
	}
	var tx transaction
	var last error
	err := h.leader.router.Do(ctx, &forward.Call{Try: func(node uint64, self bool) (forward.Outcome, error) {
		if self {
			tx, last = here()
		} else {
			tx, last = h.leader.begin(ctx, node, r)
		}
		return forward.OutcomeOf(last), last
	}})
	if last != nil && errors.Is(err, engine.ErrNotLeader) {
		err = last
	}
	if err != nil {
		return nil, coded(err)
	}
	return tx, nil
}

// transaction is the transaction of a session, here or at another node.
type transaction interface {
	submit(ctx context.Context, w *work, s *stream) error
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

type local struct{ Session }

func (l local) submit(ctx context.Context, w *work, s *stream) error {
	return l.Submit(ctx, w.req, s.yield)
}

// remote is a transaction at another node, which has a connection of its own.
type remote struct {
	u    *upstream
	lost error // the connection has broken; the other node has rolled back
}

func (p *upstreams) begin(ctx context.Context, node uint64, r Request) (transaction, error) {
	u, err := p.get(ctx, node)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	end, _, err := u.call(ctx, &ask{kind: frameBegin, user: r.User, source: r.Source, references: r.References}, nil)
	if err != nil {
		return nil, engine.Errorf(engine.CodeNotLeader, "begin a transaction at the leader, node %d: %w", node, err)
	}
	if err := end.err(); err != nil {
		p.put(u)
		return nil, err
	}
	u.used = time.Now()
	return &remote{u: u}, nil
}

func (r *remote) submit(ctx context.Context, w *work, s *stream) error {
	if r.lost != nil {
		return r.lost
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	end, _, err := r.u.submit(ctx, frameSession, w, s)
	r.u.used = time.Now()
	if err == nil {
		if err = s.accept(end); errors.Is(err, engine.ErrNotLeader) { // it will not be committed there
			r.lost = err
			r.u.close()
		}
		return err
	}
	r.lose(err)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return r.lost
}

// lose records that the connection has ended because of err.
func (r *remote) lose(err error) {
	r.u.close()
	r.lost = coded(engine.Errorf(engine.CodeNotLeader, "the connection to the leader, node %d, broke, and the session's transaction was rolled back: %w", r.u.node, err))
}

// Commit implements transaction.
func (r *remote) Commit(ctx context.Context) error {
	if r.lost != nil {
		return r.lost
	}
	a := &ask{kind: frameCommit}
	ctx, cancel := a.patient(ctx)
	defer cancel()
	if err := r.u.works(ctx); err != nil {
		r.lose(err)
		return r.lost
	}
	end, sent, err := r.u.call(ctx, a, nil)
	switch {
	case err == nil:
		r.u.of.put(r.u)
		return end.err()
	case sent:
		// Not wrapped: the cause may be an *Error that says that the transaction was rolled back.
		return coded(engine.Errorf(engine.CodeOutcomeUnknown, "the leader, node %d, did not answer; the transaction may or may not have been committed: %s", r.u.node, err.Error()))
	}
	r.lose(err)
	return r.lost
}

// Rollback implements transaction. A connection that breaks is rolled back by the other
// node.
func (r *remote) Rollback(ctx context.Context) error {
	if r.lost != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nodeWait)
	defer cancel()
	if end, _, err := r.u.call(ctx, &ask{kind: frameRollback}, nil); err == nil && end.err() == nil {
		r.u.of.put(r.u)
		return nil
	}
	r.u.close()
	return nil
}
