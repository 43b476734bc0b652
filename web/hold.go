package web

import (
	"bytes"
	"io"
	"net/http"
)

// held is a ResponseWriter that keeps an answer back until enough of it is known
// for its planner to decide what becomes of it. Until then an error or a panic of
// the handler can still be answered properly. It is one goroutine's.
type held struct {
	w       http.ResponseWriter
	head    bool // the request is HEAD: a body is only looked at
	limit   int  // how many bytes of body are kept back
	plan    planner
	status  int           // of the answer, 0: the handler has given none yet
	body    *bytes.Buffer // what is kept back; nil: nothing
	decided bool          // the plan was made and the headers are sent
	drop    bool          // no body is sent
	enc     encoder       // what the body goes through, nil: nothing
}

// planner decides what becomes of an answer.
type planner interface {
	// early reports whether that can be decided by the status and headers alone.
	early(h *held) bool
	// decide is called once, before anything is sent. What is there of the body is
	// in h.kept(); whole says that it is all. It may change h's headers, status,
	// drop and enc.
	decide(h *held, whole bool)
	// done gets back the encoder that decide has set.
	done(enc encoder)
}

// encoder writes a body in another form.
type encoder interface {
	io.WriteCloser
	Flush() error
	Reset(to io.Writer)
}

// run has next answer through h.
func (h *held) run(next http.Handler, r *http.Request) {
	defer func() {
		if h.body != nil {
			putBuffer(h.body)
			h.body = nil
		}
		if h.enc != nil {
			h.plan.done(h.enc) // after a panic unfinished: the answer is cut off
		}
	}()
	next.ServeHTTP(h, r)
	h.finish()
}

// kept is what is kept back of the body.
func (h *held) kept() []byte {
	if h.body == nil {
		return nil
	}
	return h.body.Bytes()
}

// Header implements http.ResponseWriter.
func (h *held) Header() http.Header { return h.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (h *held) WriteHeader(status int) {
	if status < 200 && status != http.StatusSwitchingProtocols {
		h.w.WriteHeader(status)
		return
	}
	if h.status != 0 {
		of(h.w).twice(status)
		return // net/http would only complain
	}
	h.status = status
	if !hasBody(status) || h.plan.early(h) {
		_ = h.send(false)
	}
}

// hasBody reports whether an answer of that status can have a body.
func hasBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// Write implements http.ResponseWriter.
func (h *held) Write(p []byte) (int, error) {
	if h.status == 0 {
		h.WriteHeader(http.StatusOK)
	}
	if h.decided {
		return h.pass(p)
	}
	if h.body == nil {
		h.body = getBuffer()
	}
	if h.body.Len()+len(p) <= h.limit {
		return h.body.Write(p)
	}
	// The planner sees as much as is allowed to be kept.
	n := h.limit - h.body.Len()
	h.body.Write(p[:n])
	if err := h.send(false); err != nil {
		return 0, err
	}
	m, err := h.pass(p[n:])
	return n + m, err
}

// WriteString implements io.StringWriter.
func (h *held) WriteString(s string) (int, error) {
	if h.decided && h.enc == nil && !h.drop {
		return io.WriteString(h.w, s)
	}
	b := getBuffer()
	defer putBuffer(b)
	b.WriteString(s)
	return h.Write(b.Bytes())
}

// send decides and sends what was kept back.
func (h *held) send(whole bool) error {
	h.decided = true
	h.plan.decide(h, whole)
	h.w.WriteHeader(h.status)
	if h.body == nil {
		return nil
	}
	_, err := h.pass(h.body.Bytes())
	putBuffer(h.body)
	h.body = nil
	return err
}

func (h *held) pass(p []byte) (int, error) {
	switch {
	case h.drop:
		return len(p), nil
	case h.enc != nil:
		return h.enc.Write(p)
	}
	return h.w.Write(p)
}

// FlushError is what http.ResponseController calls.
func (h *held) FlushError() error {
	if h.status == 0 {
		h.WriteHeader(http.StatusOK)
	}
	if !h.decided {
		if err := h.send(false); err != nil {
			return err
		}
	}
	if h.enc != nil {
		if err := h.enc.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(h.w).Flush()
}

// Flush implements http.Flusher, which older handlers look for.
func (h *held) Flush() { _ = h.FlushError() }

// Unwrap lets http.ResponseController find the connection.
func (h *held) Unwrap() http.ResponseWriter { return h.w }

// finish sends the end of the answer. One that was never begun is left to others.
func (h *held) finish() {
	if h.status != 0 && !h.decided {
		_ = h.send(true) // an error means that the client is gone
	}
	if h.enc != nil {
		_ = h.enc.Close()
	}
}

// takeBack has all of the middleware beneath w forget the answer that an error takes
// the place of, unless a part of it is on its way already.
func takeBack(w http.ResponseWriter) {
	var kept []*held
	for {
		switch v := w.(type) {
		case *exchange:
			if v.status == 0 && !v.answered {
				for _, h := range kept {
					h.takeBack()
				}
			}
			return
		case *held:
			kept = append(kept, v)
			w = v.w
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return
		}
	}
}

func (h *held) takeBack() {
	h.status, h.decided, h.drop = 0, false, false
	if h.body != nil {
		h.body.Reset()
	}
	if h.enc != nil {
		h.plan.done(h.enc)
		h.enc = nil
	}
}

// begun reports whether an answer was begun on w, sent or not.
func begun(w http.ResponseWriter) bool {
	for {
		switch v := w.(type) {
		case *exchange:
			return v.status != 0 || v.answered
		case *held:
			if v.status != 0 {
				return true
			}
			w = v.w
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return true
		}
	}
}
