package web

import (
	"bytes"
	"io"
	"net/http"
)

// buffered is a ResponseWriter that buffers a response until its planner can decide how to send it. Until
// then, an error or a panic of the handler can still replace the response. It must be used by one goroutine.
type buffered struct {
	w       http.ResponseWriter
	head    bool // the request is HEAD: a body is only inspected
	limit   int  // how many bytes of body are buffered
	plan    planner
	status  int           // of the response, 0: the handler has set none yet
	body    *bytes.Buffer // what is buffered; nil: nothing
	decided bool          // the plan was made and the headers are sent
	drop    bool          // no body is sent
	enc     encoder       // what encodes the body; nil: nothing
}

// planner decides how to send a response.
type planner interface {
	// early reports whether the status and headers are enough to decide.
	early(h *buffered) bool
	// decide is called once, before anything is sent. h.kept() is the beginning of
	// the body, or all of it if whole is set. decide may change h's headers, status,
	// drop and enc.
	decide(h *buffered, whole bool)
	// done takes back the encoder that decide has set.
	done(enc encoder)
}

// encoder encodes a body.
type encoder interface {
	io.WriteCloser
	Flush() error
	Reset(to io.Writer)
}

// run calls next with h as its ResponseWriter.
func (h *buffered) run(next http.Handler, r *http.Request) {
	defer func() {
		if h.body != nil {
			putBuffer(h.body)
			h.body = nil
		}
		if h.enc != nil {
			h.plan.done(h.enc) // unfinished after a panic: the connection is closed
		}
	}()
	next.ServeHTTP(h, r)
	h.finish()
}

// kept returns the buffered part of the body.
func (h *buffered) kept() []byte {
	if h.body == nil {
		return nil
	}
	return h.body.Bytes()
}

// Header implements http.ResponseWriter.
func (h *buffered) Header() http.Header { return h.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (h *buffered) WriteHeader(status int) {
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

// hasBody reports whether a response with that status can have a body.
func hasBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// Write implements http.ResponseWriter.
func (h *buffered) Write(p []byte) (int, error) {
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
	// The planner sees as much as the limit allows.
	n := h.limit - h.body.Len()
	h.body.Write(p[:n])
	if err := h.send(false); err != nil {
		return 0, err
	}
	m, err := h.pass(p[n:])
	return n + m, err
}

// WriteString implements io.StringWriter.
func (h *buffered) WriteString(s string) (int, error) {
	if h.decided && h.enc == nil && !h.drop {
		return io.WriteString(h.w, s)
	}
	b := getBuffer()
	defer putBuffer(b)
	b.WriteString(s)
	return h.Write(b.Bytes())
}

// send decides, and sends what was buffered.
func (h *buffered) send(whole bool) error {
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

func (h *buffered) pass(p []byte) (int, error) {
	switch {
	case h.drop:
		return len(p), nil
	case h.enc != nil:
		return h.enc.Write(p)
	}
	return h.w.Write(p)
}

// FlushError is what http.ResponseController calls.
func (h *buffered) FlushError() error {
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
func (h *buffered) Flush() { _ = h.FlushError() }

// Unwrap lets http.ResponseController find the connection.
func (h *buffered) Unwrap() http.ResponseWriter { return h.w }

// finish sends the rest of the response, if the handler began one.
func (h *buffered) finish() {
	if h.status != 0 && !h.decided {
		_ = h.send(true) // an error means that the client is gone
	}
	if h.enc != nil {
		_ = h.enc.Close()
	}
}

// takeBack discards the response that middleware beneath w has buffered, for an error to replace it, unless a
// part of it was sent already.
func takeBack(w http.ResponseWriter) {
	var kept []*buffered
	for {
		switch v := w.(type) {
		case *exchange:
			if v.status == 0 && !v.answered {
				for _, h := range kept {
					h.takeBack()
				}
			}
			return
		case *buffered:
			kept = append(kept, v)
			w = v.w
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return
		}
	}
}

func (h *buffered) takeBack() {
	h.status, h.decided, h.drop = 0, false, false
	if h.body != nil {
		h.body.Reset()
	}
	if h.enc != nil {
		h.plan.done(h.enc)
		h.enc = nil
	}
}

// begun reports whether a response was begun on w, sent or buffered.
func begun(w http.ResponseWriter) bool {
	for {
		switch v := w.(type) {
		case *exchange:
			return v.status != 0 || v.answered
		case *buffered:
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
