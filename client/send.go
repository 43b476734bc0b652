package client

import (
	"context"
	"time"
)

// prepare makes a request ready to be queued and acquires a permit for it. If it returns an
// error, nothing was sent.
func (c *Client) prepare(ctx context.Context, r *request, args []any) error {
	ends := ctx.Done() != nil
	if ends {
		if err := ctx.Err(); err != nil {
			return contextError(err)
		}
	}
	if err := r.measure(args); err != nil {
		return err
	}
	if c.inFlight.waiting.Load() > 0 || !c.inFlight.acquire() {
		if err := c.waitPermit(ctx); err != nil {
			return err
		}
	}
	if ends {
		if d, ok := ctx.Deadline(); ok {
			r.deadline = max(int64(d.Sub(c.base)), 1)
		}
	}
	if c.asleep.Load() {
		c.rouse()
	}
	return nil
}

// waitPermit waits for a permit, behind earlier callers, if blocking is configured and
// allowed.
func (c *Client) waitPermit(ctx context.Context) error {
	if c.o.Full == Fail || c.inCallback() {
		if c.inFlight.acquire() {
			return nil
		}
		return ErrTooManyInFlight
	}
	return c.inFlight.wait(ctx, c.closing, c.o.Timeout)
}

// inCallback reports whether the calling goroutine is running a callback of c.
func (c *Client) inCallback() bool {
	self := uint64(0)
	is := func(b *callbacks) bool {
		if !b.busy.Load() {
			return false
		}
		if self == 0 {
			self = goroutine()
		}
		return b.id.Load() == self
	}
	if is(&c.notifier.calls) {
		return true
	}
	for _, n := range *c.nodes.Load() {
		for _, l := range n.links {
			if is(&l.calls) {
				return true
			}
		}
	}
	return false
}

// submit puts a request into a queue.
func (c *Client) submit(r *request, args []any) error {
	for {
		l := c.target(r.flags)
		if l.add(r, args) {
			return nil
		}
		select {
		case <-c.closing:
			c.inFlight.release(1)
			return ErrClosed
		default:
		}
	}
}

// async queues a call with a callback.
func (c *Client) async(ctx context.Context, r *request, args []any) error {
	if err := c.prepare(ctx, r, args); err != nil {
		return err
	}
	if ctx.Done() != nil {
		if _, timed := ctx.Deadline(); !timed {
			return c.watched(ctx, r, args)
		}
	}
	return c.submit(r, args)
}

// watched is async for a call that ctx may cancel.
func (c *Client) watched(ctx context.Context, r *request, args []any) error {
	w := &waiter{done: r.done, ro: r.flags&readsOnly != 0}
	r.w, r.done = w, nil
	ready := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		<-ready
		if w.take() {
			c.notifier.notify(slot{done: w.done}, c.abandon(w, ctx.Err()))
		}
	})
	w.stop = stop
	err := c.submit(r, args)
	if err != nil {
		stop()
		w.take()
	}
	close(ready)
	return err
}

// block queues a call and waits for its end.
func (c *Client) block(ctx context.Context, r *request, args []any) (Result, error) {
	if c.inCallback() {
		return Result{}, ErrInCallback
	}
	if err := c.prepare(ctx, r, args); err != nil {
		return Result{}, err
	}
	w := c.newWaiter()
	w.ro = r.flags&readsOnly != 0
	r.w = w
	if err := c.submit(r, args); err != nil {
		c.freeWaiter(w)
		return Result{}, err
	}
	if ctx.Done() == nil {
		<-w.woken
	} else {
		select {
		case <-w.woken:
		case <-ctx.Done():
			if w.take() { // nobody but abandon uses w from now on, so it is not reused
				return Result{}, c.abandon(w, ctx.Err())
			}
			<-w.woken
		}
	}
	res, err := w.res, w.err
	if r.kept != nil {
		*r.kept = w.kept
	}
	c.freeWaiter(w)
	return res, err
}

// abandon gives up a call that was claimed. If the call was not sent yet, it is not sent;
// otherwise its reply is discarded. abandon returns how the call ended.
func (c *Client) abandon(w *waiter, cause error) error {
	l := w.place.Load()
	switch {
	case l == nil && w.ro:
		return contextError(cause)
	case l == nil: // it is moving from one queue to another
		return c.unknown(cause, "")
	}
	e := ending{sent: true, ro: w.ro}
	l.mu.Lock()
	if w.place.Load() == l && w.seq-l.q.head < l.q.tail-l.q.head {
		if s := l.q.at(w.seq); s.w == w {
			e = l.giveUp(w.seq, s)
		}
	}
	up := l.up.Load()
	l.mu.Unlock()
	return c.endError(l, &e, cause, up)
}

// ending is a call that was given up.
type ending struct {
	s        slot
	sent, ro bool
}

// giveUp marks a queued slot as given up. The caller holds l.mu.
func (l *link) giveUp(seq uint64, s *slot) ending {
	e := ending{slot{done: s.done, w: s.w}, seq < l.q.handed, s.flags&readsOnly != 0}
	s.done, s.w = nil, nil
	if e.sent {
		s.flags |= dropped
	} else {
		s.flags |= void
	}
	return e
}

// endError returns the error of a call that was given up because of cause.
func (c *Client) endError(l *link, e *ending, cause error, up bool) error {
	switch {
	case e.sent && !e.ro:
		return c.unknown(cause, l.node.addr)
	case e.sent || up || cause != errTime:
		return contextError(cause)
	}
	return c.unavailable(cause)
}

// errTime is the reason for which the sweeper ends calls.
var errTime = context.DeadlineExceeded

// unknown returns the error of a call that was sent and has no reply.
func (c *Client) unknown(cause error, addr string) *Error {
	c.counts.unknown.Add(1)
	e := errorf(CodeOutcomeUnknown, "the call was sent and may or may not have run: %w", cause)
	e.Node = addr
	return e
}

// now returns the time since the client was opened in nanoseconds. It is never 0.
func (c *Client) now() int64 { return int64(time.Since(c.base)) + 1 }
