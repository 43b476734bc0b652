package lane

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

// bufferBytes is the size of the buffer of a connection whose requests are short.
const bufferBytes = 2 << 10

// conn is a connection in the lane. Its goroutine owns it, but for what mu guards, and for the free part of
// buf while a requestContext watches the connection.
type conn struct {
	s      *Server
	nc     net.Conn // over TLS a *tls.Conn
	ctx    context.Context
	remote string
	tls    *tls.ConnectionState // nil: not over TLS

	admission Admission // nil: requests are not counted

	buf     []byte // buf[r:w] was received, and belongs to no request so far
	r, w    int
	scanned int // how much of buf[r:w] parse has seen
	head    head

	out     []byte    // responses that are not sent yet
	sent    int       // how often something was sent
	failed  error     // of sending
	readBy  time.Time // the read deadline in force, zero: none
	writeBy time.Time // of writes, set by the handler; zero: the server's
	sendBy  time.Time // the write deadline in force
	last    bool      // the connection ends after this response
	gone    bool      // it was handed over

	mu   sync.Mutex // guards idle
	idle bool       // it waits for the first byte of a request
}

// run serves the connection until it ends or is handed over.
func (c *conn) run() {
	defer c.s.leave(c)
	defer func() {
		if !c.gone {
			c.nc.Close()
		}
	}()
	if t, ok := c.nc.(*tls.Conn); ok && !c.handshake(t) {
		return
	}
	c.buf = make([]byte, bufferBytes)
	for first := true; c.next(first); first = false {
	}
}

// handshake reports whether the lane serves the connection t. Otherwise, for example if the client speaks
// HTTP/2, or no TLS at all, t belongs to net/http.
func (c *conn) handshake(t *tls.Conn) bool {
	if d := c.s.headerTimeout(); d > 0 {
		_ = t.SetDeadline(time.Now().Add(d))
	}
	err := t.Handshake()
	_ = t.SetDeadline(time.Time{})
	state := t.ConnectionState()
	if err != nil || state.NegotiatedProtocol != "" && state.NegotiatedProtocol != "http/1.1" {
		c.give(t) // a failed handshake fails there as well, with the same error
		return false
	}
	c.tls = &state
	return true
}

func (s *Server) headerTimeout() time.Duration {
	if s.http.ReadHeaderTimeout != 0 {
		return s.http.ReadHeaderTimeout
	}
	return s.http.ReadTimeout
}

// next answers the next request. It reports false if the connection has ended or was handed over.
func (c *conn) next(first bool) bool {
	var begun time.Time // when the first part of the head had arrived
	for {
		got := c.buf[c.r:c.w]
		v := c.s.routes.parse(&c.head, got, c.scanned)
		c.scanned = len(got)
		switch v {
		case other:
			c.handOver()
			return false
		case simple:
			c.scanned = 0
			return c.body() && c.answer()
		}
		switch {
		case len(got) > 0 && begun.IsZero():
			begun = time.Now()
			fallthrough
		case len(got) > 0:
			c.readUntil(begun, c.s.headerTimeout())
		case first:
			c.readUntil(time.Now(), c.s.headerTimeout())
		default:
			c.idleUntil()
		}
		if !c.flush() || !c.receive(len(got) == 0) {
			return false
		}
	}
}

// readUntil sets the read deadline.
func (c *conn) readUntil(from time.Time, d time.Duration) {
	if by := from.Add(d); d > 0 && !by.Equal(c.readBy) {
		c.readBy = by
		_ = c.nc.SetReadDeadline(by)
	}
}

// idleUntil sets the read deadline of an idle connection, unless it would be little later than the one in force.
func (c *conn) idleUntil() {
	d := c.s.http.IdleTimeout
	if d == 0 {
		d = c.s.http.ReadTimeout
	}
	now := time.Now()
	if left := c.readBy.Sub(now); d > 0 && (left > d || left < d-d/16) {
		c.readUntil(now, d)
	}
}

// receive reads some bytes. It reports false if none came. Part of a head that is not followed by more belongs
// to net/http, unless the time for it is over.
func (c *conn) receive(idle bool) bool {
	if idle && !c.setIdle(true) {
		return false
	}
	c.makeRoom(1)
	n, err := c.nc.Read(c.buf[c.w:])
	if idle {
		c.setIdle(false)
	}
	c.w += n
	if n > 0 || err == nil {
		return true
	}
	if err == io.EOF && c.r < c.w {
		c.handOver()
	}
	return false
}

// setIdle reports false if the server stops: idle connections then end.
func (c *conn) setIdle(idle bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = idle
	if !idle && c.s.stopping.Load() {
		_ = c.nc.SetReadDeadline(time.Time{}) // of wake
		c.readBy = time.Time{}
	}
	return !idle || !c.s.stopping.Load()
}

// wake ends the connection if it is idle.
func (c *conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// makeRoom makes room for n more bytes in buf.
func (c *conn) makeRoom(n int) {
	switch {
	case c.r == c.w:
		c.r, c.w = 0, 0
	case len(c.buf)-c.w < n && c.r > 0:
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	}
	if len(c.buf)-c.w < n {
		c.buf = append(make([]byte, 0, max(2*len(c.buf), c.w+n)), c.buf[:c.w]...)
		c.buf = c.buf[:cap(c.buf)]
	}
}

// body reads until the body of the request is complete. It reports false if that takes too long; the
// connection then belongs to net/http.
func (c *conn) body() bool {
	size := c.head.size + c.head.length
	if c.w-c.r >= size {
		return true
	}
	if !c.flush() {
		return false
	}
	c.readUntil(time.Now(), MaxBodyWait)
	for c.w-c.r < size {
		c.makeRoom(1) // memory grows as bytes arrive, whatever length was declared
		n, err := c.nc.Read(c.buf[c.w:])
		c.w += n
		switch {
		case n > 0 || err == nil:
		case err == io.EOF, errors.Is(err, os.ErrDeadlineExceeded):
			c.handOver()
			return false
		default:
			return false
		}
	}
	return true
}

// handOver gives the connection to net/http, with the bytes that it has not answered.
func (c *conn) handOver() {
	if !c.flush() {
		return
	}
	_ = c.nc.SetDeadline(time.Time{})
	c.give(&replayed{Conn: c.nc, first: append([]byte(nil), c.buf[c.r:c.w]...), tls: c.tls})
}

func (c *conn) give(nc net.Conn) {
	c.gone = true
	c.s.handed.Add(1)
	c.s.over.give(nc)
}

// answer runs the handler for the request whose head and body have arrived. It reports whether another request
// may follow.
func (c *conn) answer() bool {
	h := &c.head
	if h.method != http.MethodGet && h.method != http.MethodHead && !c.flush() {
		return false // no response waits for a write
	}
	body := c.buf[c.r+h.size : c.r+h.size+h.length]
	c.r += h.size + h.length
	mark, sent := len(c.out), c.sent
	ended := false
	func() {
		defer func() {
			if p := recover(); !ended && p != nil && p != http.ErrAbortHandler {
				c.s.logPanic(c, p)
			}
		}()
		c.respond(body)
		ended = true
	}()
	c.s.answered.Add(1)
	if c.gone { // hijacked
		return false
	}
	c.writeBy = time.Time{}
	if !ended { // the response breaks off; those before it are sent
		if c.sent != sent {
			mark = 0 // they were
		}
		c.out = c.out[:mark]
		c.flush()
		return false
	}
	if cap(c.buf) > 4*bufferBytes && c.w-c.r <= bufferBytes {
		small := make([]byte, bufferBytes) // not kept by an idle connection
		c.w, c.r, c.buf = copy(small, c.buf[c.r:c.w]), 0, small
	}
	if c.last {
		c.flush()
		return false
	}
	return c.failed == nil
}

// respond writes the response to the request in head.
func (c *conn) respond(body []byte) {
	var tried error
	if h := &c.head; h.route.fast != nil && h.set&h.route.slow == 0 {
		var answered bool
		if answered, tried = c.fast(body); answered {
			return
		}
	}
	c.flush() // no response waits for a handler; if it fails, answer ends the connection
	x := newExchange(c, body, tried)
	defer x.ctx.end()
	c.s.http.Handler.ServeHTTP(&x.w, &x.r)
	x.w.finish()
}

// logPanic logs a panic that is not http.ErrAbortHandler, as net/http does.
func (s *Server) logPanic(c *conn, p any) {
	s.log.Error("a handler panicked; its connection is closed", "from", c.remote, "panic", p, "stack", string(debug.Stack()))
}

// flush sends what waits to be sent.
func (c *conn) flush() bool {
	if len(c.out) == 0 || c.failed != nil {
		return c.failed == nil
	}
	c.sendUntil()
	c.sent++
	_, c.failed = c.nc.Write(c.out)
	c.out = c.out[:0]
	switch {
	case cap(c.out) == largeBytes:
		large.Put((*[largeBytes]byte)(c.out[:largeBytes]))
		c.out = nil
	case cap(c.out) > 4*bufferBytes:
		c.out = nil
	}
	return c.failed == nil
}

// largeBytes is the size of the buffers in large: MaxHeld, and what a handler may write at once beyond that.
const largeBytes = MaxHeld + 8<<10

// large has buffers for responses that are longer than what a connection keeps.
var large = sync.Pool{New: func() any { return new([largeBytes]byte) }}

// hold makes room for n bytes of a response in out.
func (c *conn) hold(n int) {
	if need := len(c.out) + n; need > cap(c.out) && need > 2*bufferBytes && need <= largeBytes {
		c.out = append(large.Get().(*[largeBytes]byte)[:0], c.out...)
	}
}

// sendUntil sets the write deadline, unless it would be little later than the one in force.
func (c *conn) sendUntil() {
	by, now := c.writeBy, time.Now()
	d := c.s.http.WriteTimeout
	if left := c.sendBy.Sub(now); by.IsZero() && (d == 0 || left <= d && left > d-d/16) {
		return
	}
	if by.IsZero() {
		by = now.Add(d)
	}
	c.sendBy = by
	_ = c.nc.SetWriteDeadline(by)
}
