package gremlin

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// sink is where the results of a request go.
type sink interface {
	// send writes a response of n encoded items. It blocks while the client does not
	// read.
	send(status int, items []byte, n int) error
	// fail writes the last response, which says what went wrong.
	fail(e *Error) error
}

// stream collects results to batches and sends them while the traversal runs.
type stream struct {
	ctx        context.Context
	codec      *codec
	to         sink
	batch      int
	traversers bool
	items      []byte
	n          int // values in items
	sent       bool
	broken     error // of the sink: nobody is there to be answered
}

// yield takes a result. A full batch is sent when the result after it is there,
// so that the last batch has the status of the end.
func (s *stream) yield(val any, bulk int64) error {
	if s.traversers {
		return s.add(message.Traverser{Bulk: bulk, Val: val})
	}
	for range bulk {
		if err := s.add(val); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) add(val any) error {
	if err := context.Cause(s.ctx); err != nil {
		return err
	}
	if s.n >= s.batch || len(s.items) >= MaxBatchBytes {
		if err := s.flush(StatusPartial); err != nil {
			return err
		}
	}
	at := len(s.items)
	items, err := s.codec.appendItem(s.items, s.n, val)
	if err != nil {
		s.items = items[:at]
		return errorf(StatusSerialization, "a result cannot be sent: %v", err)
	}
	s.items = items
	s.n++
	return nil
}

// take takes a batch that the leader has encoded.
func (s *stream) take(items []byte, n int) error {
	if s.n > 0 {
		if err := s.flush(StatusPartial); err != nil {
			return err
		}
	}
	s.items, s.n = items, n
	return nil
}

// accept takes the end of the leader's answer.
func (s *stream) accept(end *answer) error {
	if err := end.err(); err != nil || end.n == 0 {
		return err
	}
	return s.take(end.items, end.n)
}

// begun reports whether there are results.
func (s *stream) begun() bool { return s.sent || s.n > 0 }

func (s *stream) flush(status int) error {
	if s.broken == nil {
		s.broken = s.to.send(status, s.items, s.n)
	}
	s.items, s.n, s.sent = s.items[:0], 0, true
	return s.broken
}

// finish sends the last response.
func (s *stream) finish(err *Error) {
	switch {
	case s.broken != nil:
	case err != nil:
		s.broken = s.to.fail(err)
	case s.n == 0 && !s.sent:
		_ = s.flush(StatusNoContent)
	default:
		_ = s.flush(StatusOK)
	}
}

// errTimeout is the cause of the end of a request that took too long.
var errTimeout = errors.New("the request took too long")

// run parses a request, runs it with its time limit, and sends the results. what runs
// it in a transaction.
func (h *Handler) run(ctx context.Context, w *work, s *stream, what func(context.Context) error) {
	buf := h.buffers.Get().(*[]byte)
	defer func() {
		if cap(s.items) <= 2*MaxBatchBytes {
			*buf = s.items[:0]
		}
		h.buffers.Put(buf)
	}()
	err := h.guard(ctx, func(context.Context) error { return w.parse(&h.o) })
	s.items, s.batch, s.traversers = (*buf)[:0], w.batch, w.traversers
	limit := w.timeout
	if w.limit > 0 {
		limit = min(limit, w.limit)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	s.ctx = ctx
	if err == nil {
		err = h.guard(ctx, what)
	}
	if err == nil && s.broken == nil {
		s.finish(nil)
		return
	}
	if s.broken == nil {
		s.finish(h.failure(ctx, err, w.timeout))
	}
}

// guard calls what and turns a panic into an error, after it has been logged.
func (h *Handler) guard(ctx context.Context, what func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			ref := h.ids.Next()
			h.o.Log.Error("a Gremlin request panicked", "reference", ref, "panic", p, "stack", string(debug.Stack()))
			err = errorf(StatusInternal, "internal error, reference %s", ref)
		}
	}()
	return what(ctx)
}

// failure returns what the client sees of an error. The texts of errors that are
// not for it are logged.
func (h *Handler) failure(ctx context.Context, err error, limit time.Duration) *Error {
	var known *Error
	cause := context.Cause(ctx)
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(cause, errTimeout):
		return errorf(StatusTimeout, "the request was stopped after its time limit of %v; change it with evaluationTimeout, or timeoutMillis of TinkerPop 4", limit)
	case errors.As(cause, &known):
		return known
	case cause != nil:
		return errorf(StatusInternal, "the request was canceled")
	}
	ref := h.ids.Next()
	h.o.Log.Error("a Gremlin request failed", "reference", ref, "err", err)
	return errorf(StatusInternal, "internal error, reference %s", ref)
}

// wsSink sends responses over a connection.
type wsSink struct {
	c  *conn
	id value.UUID
	j  *job
}

func (s wsSink) send(status int, items []byte, n int) error {
	p := &message.Response{ID: s.id, Status: status}
	if status == StatusNoContent {
		return s.c.respond(s.j, p)
	}
	return s.c.write(s.j, func(dst []byte) ([]byte, error) { return s.j.codec.appendItems(dst, p, items, n) })
}

func (s wsSink) fail(e *Error) error {
	return s.c.respond(s.j, &message.Response{ID: s.id, Status: e.Status, Message: e.Msg, Attributes: e.Attributes})
}
