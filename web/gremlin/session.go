package gremlin

import (
	"context"
	"sync"
	"time"
)

// sessions are those of one connection, or all transactions over HTTP.
type sessions struct {
	h    *Handler
	ctx  context.Context // ends all of them
	most int             // 0: as many as the server has
	// single is whether each is one transaction, which its client begins.
	single bool

	mu   sync.Mutex // guards what follows and the fields of sessions that say so
	byID map[string]*session
}

// session is a transaction of several requests. Its requests take turns, in the order
// in which they were read. A session whose transaction was rolled back by the server
// answers every request with the reason, until the client rolls back or closes it.
type session struct {
	of   *sessions
	id   string
	user string // whose it is, over HTTP

	tx transaction // owned by the turn; nil: no transaction is open

	// of.mu guards what follows.
	last   chan struct{} // closed at the end of the last turn
	active int           // turns that have not ended
	lost   *Error        // why the transaction was rolled back
	gone   bool          // from of.byID
	ctx    context.Context
	cancel context.CancelCauseFunc
	idle   *time.Timer // runs while there is no turn
	life   *time.Timer // runs while a transaction is open
}

// turn is a place in the queue of a session.
type turn struct {
	s         *session
	prev, own chan struct{}
}

// queue returns the next turn of a session, which is made if there is none. If the
// request is to close a session that there is not, the turn is nil.
func (o *sessions) queue(id string, closing bool) (*turn, *Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.byID[id]
	if s == nil {
		if closing {
			return nil, nil
		}
		var bad *Error
		if s, bad = o.add(id); bad != nil {
			return nil, bad
		}
	}
	return s.queue(), nil
}

// add makes a session. o.mu is held.
func (o *sessions) add(id string) (*session, *Error) {
	if o.most > 0 && len(o.byID) >= o.most {
		return nil, errorf(StatusTooMany, "a connection has at most %d sessions", o.most)
	}
	if bad := o.h.openSession(); bad != nil {
		return nil, bad
	}
	s := &session{of: o, id: id, last: make(chan struct{})}
	close(s.last)
	s.renew()
	s.idle = time.AfterFunc(o.h.o.SessionIdle, s.idled)
	s.life = time.AfterFunc(o.h.o.SessionLife, s.outlived)
	s.life.Stop()
	o.byID[id] = s
	return s, nil
}

// openSession counts a session, unless there are too many.
func (h *Handler) openSession() *Error {
	if h.sessions.Add(1) > int64(h.o.MaxSessions) {
		h.sessions.Add(-1)
		return errorf(StatusTooMany, "the server has at most %d sessions", h.o.MaxSessions)
	}
	return nil
}

// queue returns the next turn. of.mu is held.
func (s *session) queue() *turn {
	t := &turn{s: s, prev: s.last, own: make(chan struct{})}
	s.last = t.own
	s.active++
	s.idle.Stop()
	return t
}

// renew makes the context of the next transaction. of.mu is held.
func (s *session) renew() { s.ctx, s.cancel = context.WithCancelCause(s.of.ctx) }

// wait waits for the turn. It reports false if the connection has ended.
func (t *turn) wait(ctx context.Context) bool {
	select {
	case <-t.prev:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *turn) end() {
	o := t.s.of
	o.mu.Lock()
	defer o.mu.Unlock()
	close(t.own)
	if t.s.active--; t.s.active == 0 && !t.s.gone {
		t.s.idle.Reset(o.h.o.SessionIdle)
	}
}

// context returns the context of the transaction, or ctx if it was lost.
func (s *session) context(ctx context.Context) context.Context {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.lost != nil {
		return ctx
	}
	return s.ctx
}

// run does what a request asks for. The caller has the turn.
func (s *session) run(ctx context.Context, w *work, st *stream) error {
	if lost := s.reason(w.tx == "rollback" || w.close); lost != nil {
		return lost
	}
	if s.of.single && s.tx == nil && w.tx != "rollback" {
		return errorf(StatusInvalid, "the transaction has ended with an error; roll it back and begin another")
	}
	switch {
	case w.close:
		s.rollback()
		s.remove()
		return nil
	case w.tx == "commit" || w.tx == "rollback":
		return s.end(ctx, w.tx == "commit")
	}
	if err := s.begin(ctx, w); err != nil || w.tx == "begin" {
		return err
	}
	completed := false
	defer func() {
		if !completed { // it panicked
			s.rollback()
			s.panicked(w.managed)
		}
	}()
	err := s.tx.submit(ctx, w, st)
	completed = true
	if !w.managed {
		return err
	}
	if err != nil {
		s.rollback()
		return err
	}
	return s.end(ctx, true)
}

// reason returns why the transaction was lost, which forget makes good.
func (s *session) reason(forget bool) *Error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.gone && !forget {
		return errorf(StatusInvalid, "the session was closed")
	}
	if s.lost != nil && forget {
		s.lost = nil
		s.renew()
	}
	return s.lost
}

// begin opens the transaction if there is none. ctx bounds how long a leader is waited
// for.
func (s *session) begin(ctx context.Context, w *work) error {
	if s.tx != nil {
		return nil
	}
	s.of.mu.Lock()
	life := s.ctx
	s.of.mu.Unlock()
	r := w.req
	r.Traversal, r.End, r.N = nil, "", -1
	tx, err := s.of.h.begin(ctx, life, r)
	if err != nil {
		return err
	}
	s.tx = tx
	s.life.Reset(s.of.h.o.SessionLife)
	return nil
}

// end commits the transaction or rolls it back, if there is one.
func (s *session) end(ctx context.Context, commit bool) error {
	tx := s.tx
	if tx == nil {
		return nil
	}
	s.tx = nil
	s.life.Stop()
	if commit {
		return tx.Commit(ctx)
	}
	return tx.Rollback(ctx)
}

// rollback rolls the transaction back for the server, whose log has an error.
func (s *session) rollback() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.of.ctx), rollbackTimeout)
	defer cancel()
	err := s.of.h.guard(ctx, func(ctx context.Context) error { return s.end(ctx, false) })
	if err != nil {
		s.of.h.o.Log.Error("roll back a Gremlin session", "err", err)
	}
}

// idled ends a session that has had no requests for long.
func (s *session) idled() {
	s.of.mu.Lock()
	if s.active > 0 || s.gone || s.lost != nil && !s.of.single {
		s.of.mu.Unlock()
		return
	}
	if s.tx == nil { // nobody has a turn
		s.forget()
		s.of.mu.Unlock()
		return
	}
	s.lose("it had no requests for %v", s.of.h.o.SessionIdle)
}

// panicked notes that the transaction was rolled back, unless a request was all of it.
func (s *session) panicked(whole bool) {
	if whole {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.lost == nil && !s.gone {
		s.lost = errorf(StatusInternal, "the session's transaction was rolled back after an internal error; roll back and begin another")
		s.cancel(s.lost)
	}
}

// outlived ends a transaction that was open for long.
func (s *session) outlived() {
	s.of.mu.Lock()
	if s.gone || s.lost != nil {
		s.of.mu.Unlock()
		return
	}
	s.lose("it was open for %v", s.of.h.o.SessionLife)
}

// lose stops what runs in the session and rolls it back. of.mu is held and is
// unlocked.
func (s *session) lose(format string, limit time.Duration) {
	if s.of.ctx.Err() != nil { // the connection ends the session
		s.of.mu.Unlock()
		return
	}
	s.lost = errorf(StatusInternal, "the session's transaction was rolled back: "+format, limit)
	s.cancel(s.lost)
	t := s.queue()
	s.of.mu.Unlock()
	<-t.prev
	s.rollback()
	t.end()
}

// remove takes the session from its connection, or ends it over HTTP.
func (s *session) remove() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.forget()
}

// forget is remove with of.mu held.
func (s *session) forget() {
	if s.gone {
		return
	}
	s.gone = true
	s.idle.Stop()
	s.life.Stop()
	s.cancel(nil)
	delete(s.of.byID, s.id)
	s.of.h.sessions.Add(-1)
}

// end rolls back what has been left open. All requests have ended.
func (o *sessions) end() {
	o.mu.Lock()
	var open []*turn
	for _, s := range o.byID {
		open = append(open, s.queue())
	}
	o.mu.Unlock()
	for _, t := range open {
		<-t.prev
		t.s.rollback()
		t.s.remove()
		t.end()
	}
}
