package gremlin

import (
	"context"
	"net/http"

	"github.com/skerrydb/skerry/graph/value"
)

// open begins a transaction over HTTP. The result is its id, which the requests in it
// have.
func (h *Handler) open(ctx context.Context, w *work, s *stream) error {
	t, bad := h.posts.open(randomUUID().String(), w.req.User)
	if bad != nil {
		return bad
	}
	defer t.end()
	if err := t.s.begin(ctx, w); err != nil {
		t.s.remove()
		return err
	}
	return s.yield(value.MapOf("transactionId", t.s.id), 1)
}

// resume runs a request in a transaction over HTTP.
func (h *Handler) resume(ctx context.Context, w *work, s *stream) {
	t, bad := h.posts.find(w.session, w.req.User)
	if bad != nil {
		s.finish(bad)
		return
	}
	defer t.end()
	<-t.prev // also if the client has gone: the turns of others come after it
	own, cancel := context.WithCancelCause(t.s.context(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	h.run(own, w, s, func(ctx context.Context) error {
		err := t.s.run(ctx, w, s)
		if err == nil && w.tx != "" {
			t.s.remove()
		}
		return err
	})
}

// open adds a transaction and returns its first turn, which is there.
func (o *sessions) open(id, user string) (*turn, *Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, bad := o.add(id)
	if bad != nil {
		return nil, bad
	}
	s.user = user
	return s.queue(), nil
}

// find returns the next turn of a user's transaction.
func (o *sessions) find(id, user string) (*turn, *Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.byID[id]; s != nil && s.user == user {
		return s.queue(), nil
	}
	return nil, errorf(http.StatusNotFound, "there is no transaction %q: it was committed, rolled back or unused for %v, or is of another node", short(id), o.h.o.SessionIdle)
}

// short returns the beginning of a text of a client, for an error.
func short(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
