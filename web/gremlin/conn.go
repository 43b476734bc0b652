package gremlin

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/skerrydb/skerry/graph/message"
)

// conn is a connection of a driver. One goroutine reads messages; each request
// has its own, in which it waits for its turn, runs and is answered. One that has
// answered waits for the next request, which so finds a stack that is large enough.
type conn struct {
	h      *Handler
	ws     *websocket.Conn
	ctx    context.Context // done when the connection ends
	cancel context.CancelFunc
	slots  chan struct{} // of requests that run
	next   chan func()   // to the goroutine that waits for a request
	waits  atomic.Bool   // there is such a goroutine
	from   string        // the client's address

	login login       // used by the reading goroutine only
	known atomic.Bool // the client has logged in, or need not

	sessions *sessions

	mu      sync.Mutex     // guards what follows
	waiting int            // requests that were read and not answered
	bytes   int64          // of their messages
	last    time.Time      // a request was read or answered
	wg      sync.WaitGroup // of requests
}

// job is a request of a connection.
type job struct {
	codec *codec
	typ   websocket.MessageType // of the responses: that of the request
	req   *message.Request
	body  []byte // of the message, without the name of its encoding
	size  int64  // of the message
}

// serve reads requests until the connection ends, and then ends what it left.
func (h *Handler) serve(ws *websocket.Conn, r *http.Request) {
	c := &conn{h: h, ws: ws, slots: make(chan struct{}, h.o.MaxRunning), next: make(chan func()), last: time.Now()}
	c.setKnown(h.o.Authenticate == nil)
	c.from = r.RemoteAddr
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(r.Context()))
	c.sessions = &sessions{h: h, ctx: c.ctx, most: h.o.SessionsEach, byID: map[string]*session{}}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.watch()
	}()
	for {
		typ, b, err := ws.Read(c.ctx)
		if err != nil {
			break
		}
		goOn := false
		bad := h.guard(c.ctx, func(context.Context) error {
			goOn = c.receive(typ, b)
			return nil
		})
		if bad != nil {
			_ = ws.Close(websocket.StatusInternalError, bad.Error())
		}
		if !goOn {
			break
		}
	}
	c.cancel()
	<-watched
	c.wg.Wait()
	c.sessions.end()
	_ = ws.CloseNow()
}

// setKnown lets the client send messages of full size, or of a stranger's.
func (c *conn) setKnown(known bool) {
	c.login.done = known
	c.known.Store(known)
	limit := c.h.o.MaxMessageBytes
	if !known {
		limit = min(limit, MaxStrangerBytes)
	}
	c.ws.SetReadLimit(limit)
}

// watch pings the client, and closes a connection that does not answer or is
// idle, and all when the server stops.
func (c *conn) watch() {
	defer c.cancel()
	tick := time.NewTicker(c.h.o.PingEvery)
	defer tick.Stop()
	late := time.NewTimer(loginTimeout)
	defer late.Stop()
	for {
		select {
		case <-late.C:
			if !c.known.Load() {
				_ = c.ws.Close(websocket.StatusPolicyViolation, "no login in time")
				return
			}
			continue
		case <-c.ctx.Done():
			return
		case <-c.h.stop.Done():
			_ = c.ws.Close(websocket.StatusGoingAway, "the server stops")
			return
		case <-tick.C:
		}
		c.mu.Lock()
		idle := c.waiting == 0 && time.Since(c.last) > c.h.o.IdleTimeout
		c.mu.Unlock()
		if idle {
			_ = c.ws.Close(websocket.StatusGoingAway, "the connection was idle")
			return
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.h.o.PingEvery)
		err := c.ws.Ping(ctx)
		cancel()
		if err != nil {
			return
		}
	}
}

// admit counts a request, unless too many wait. release is its reverse.
func (c *conn) admit(size int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := 2 * c.h.o.MaxMessageBytes
	if !c.known.Load() {
		most = MaxStrangerBytes
	}
	if c.waiting >= c.h.o.MaxWaiting || c.bytes+size > most {
		return false
	}
	c.waiting++
	c.bytes += size
	c.last = time.Now()
	return true
}

func (c *conn) release(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
	c.bytes -= size
	c.last = time.Now()
}

// receive starts what a message asks for. It reports false if the connection is to
// be closed.
func (c *conn) receive(typ websocket.MessageType, b []byte) bool {
	j := &job{typ: typ, size: int64(len(b)), req: &message.Request{}}
	body, offset, codec, err := frame(typ, b)
	j.codec = codec
	if err == nil {
		j.body = body
		j.req, err = codec.decode(body)
	}
	if err != nil {
		var where *message.Error
		if errors.As(err, &where) { // in the message with the name of its encoding
			err = &message.Error{Offset: where.Offset + offset, Msg: where.Msg}
		}
		return c.refuse(j, errorf(StatusMalformed, "malformed request: %v", err))
	}
	if j.req.Op == "authentication" {
		return c.authenticate(j)
	}
	if !c.admit(j.size) {
		return c.refuse(j, errorf(StatusTooMany, "too many requests of the connection wait"))
	}
	if !c.login.done {
		return c.challenge(j)
	}
	return c.start(j)
}

// refuse answers a request that has not been started with an error.
func (c *conn) refuse(j *job, e *Error) bool { return wsSink{c, j.req.ID, j}.fail(e) == nil }

// start checks an admitted request and runs it in a goroutine.
func (c *conn) start(j *job) bool {
	w, bad := workOf(&c.h.o, j.req.Op, j.req.Processor, j.req.Args)
	var t *turn
	if bad == nil {
		w.req.User, w.form, w.body = c.login.user, j.codec.form, j.body
		if w.session != "" {
			t, bad = c.sessions.queue(w.session, w.close)
		}
	}
	if bad != nil {
		c.release(j.size)
		return c.refuse(j, bad)
	}
	c.do(func() {
		defer c.release(j.size)
		err := c.h.guard(c.ctx, func(context.Context) error {
			c.perform(j, w, t)
			return nil
		})
		if err != nil { // it panicked while it was answered
			c.cancel()
		}
	})
	return true
}

// do calls what in another goroutine: the one that waits, or a new one.
func (c *conn) do(what func()) {
	select {
	case c.next <- what:
		return
	default:
	}
	c.wg.Go(func() {
		for {
			what()
			what = nil // it holds the message
			if !c.waits.CompareAndSwap(false, true) {
				return
			}
			select {
			case what = <-c.next:
				c.waits.Store(false)
			case <-c.ctx.Done():
				return
			}
		}
	})
}

// perform waits for the request's turn in its session, if it has one, and for a
// slot, runs it and answers it.
func (c *conn) perform(j *job, w *work, t *turn) {
	ctx := c.ctx
	if t != nil {
		defer t.end()
		if !t.wait(c.ctx) {
			return
		}
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-c.ctx.Done():
		return
	}
	if t != nil {
		ctx = t.s.context(c.ctx)
	}
	s := &stream{codec: j.codec, to: wsSink{c, j.req.ID, j}}
	c.h.run(ctx, w, s, func(ctx context.Context) error {
		switch {
		case t != nil:
			return t.s.run(ctx, w, s)
		case w.close: // a session that there is not, or no longer
			return nil
		}
		return c.h.submit(ctx, w, s)
	})
}

// respond sends a response whose result is not a list that was encoded before.
func (c *conn) respond(j *job, p *message.Response) error {
	return c.write(j, func(dst []byte) ([]byte, error) { return j.codec.append(dst, p) })
}

// write encodes a message and sends it. A client that does not read it in time is
// disconnected.
func (c *conn) write(j *job, encode func(dst []byte) ([]byte, error)) error {
	buf := c.h.buffers.Get().(*[]byte)
	defer c.h.buffers.Put(buf)
	b, err := encode((*buf)[:0])
	if err != nil {
		return err
	}
	if cap(b) <= 2*MaxBatchBytes {
		*buf = b[:0]
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.h.o.WriteTimeout)
	defer cancel()
	if err = c.ws.Write(ctx, j.typ, b); err != nil {
		c.cancel()
	}
	return err
}
