package lane

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// requestContext is the context of one request. It ends when the request does, or when the client goes away
// while the request runs; it begins to look for that after watchAfter, and only if something waits for Done.
type requestContext struct {
	context.Context // of the connection
	c               *conn

	mu       sync.Mutex // guards the fields below
	done     chan struct{}
	err      error
	timer    *time.Timer
	watching chan struct{} // closed when the connection is not read any more; nil: it never was
	free     bool          // it must not be read
}

// Done implements context.Context.
func (x *requestContext) Done() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done == nil {
		x.done = make(chan struct{})
		if x.err != nil {
			close(x.done)
		} else {
			x.timer = time.AfterFunc(watchAfter, x.watch)
		}
	}
	return x.done
}

// Err implements context.Context.
func (x *requestContext) Err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// cancel ends the context.
func (x *requestContext) cancel() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err != nil {
		return
	}
	x.err = context.Canceled
	if x.done != nil {
		close(x.done)
	}
}

// watch reads from the connection until something arrives, which is the next request, or the client is gone.
func (x *requestContext) watch() {
	x.mu.Lock()
	if x.err != nil || x.free {
		x.mu.Unlock()
		return
	}
	over := make(chan struct{})
	x.watching = over
	c := x.c
	_ = c.nc.SetReadDeadline(time.Time{}) // that of the request; end sets another one
	x.mu.Unlock()
	defer close(over)
	if c.w == len(c.buf) {
		c.buf = append(c.buf, make([]byte, bufferBytes)...) // the body stays where it is
	}
	n, err := c.nc.Read(c.buf[c.w:])
	c.w += n
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		x.cancel()
	}
}

// end ends the context, and takes the connection back.
func (x *requestContext) end() {
	x.cancel()
	x.release()
}

// release takes the connection back: nothing watches it any more.
func (x *requestContext) release() {
	x.mu.Lock()
	timer, watching := x.timer, x.watching
	x.timer, x.watching, x.free = nil, nil, true
	x.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	if watching != nil {
		_ = x.c.nc.SetReadDeadline(time.Unix(1, 0))
		<-watching
		_ = x.c.nc.SetReadDeadline(time.Time{})
		x.c.readBy = time.Time{}
	}
}
