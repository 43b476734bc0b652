package resp

import (
	"slices"
	"sync"

	"github.com/skerrydb/skerry/resp/wire"
)

// pushQueue contains the out-of-band messages for a connection. They are written between
// the replies of two reads from the socket or, while the client is idle, by a separate
// goroutine. A push therefore never overtakes a reply that was in progress when it was
// queued: when a client receives an invalidation, it already has the old value.
type pushQueue struct {
	mu      sync.Mutex // guards the fields below
	buf     []byte
	working bool // serve is running commands and takes the queue itself afterwards
	started bool
	closed  bool // the connection has ended
	wake    chan struct{}
	ended   chan struct{} // closed when pushLoop has returned
}

// add queues one message, which write appends. If the client reads its pushes too slowly,
// add closes the connection and returns false.
func (q *pushQueue) add(c *conn, resp3 bool, write func(w *wire.Writer)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	w := wire.Writer{Buf: q.buf, RESP3: resp3}
	write(&w)
	q.buf = w.Buf
	if len(q.buf) > MaxPushBytes {
		c.srv.stats.limited.Add(1)
		c.logger().Warn("client does not read its pushes; the connection is closed", "limit", MaxPushBytes)
		q.buf = nil
		go c.kill()
		return false
	}
	if !q.started {
		q.started = true
		q.wake, q.ended = make(chan struct{}, 1), make(chan struct{})
		go c.pushLoop()
	}
	if !q.working {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// busy records that serve is running commands.
func (q *pushQueue) busy() {
	q.mu.Lock()
	q.working = true
	q.mu.Unlock()
}

// idle records that all replies are written, and writes the queued messages.
func (q *pushQueue) idle(c *conn) {
	q.mu.Lock()
	q.working = false
	if len(q.buf) > 0 {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	q.mu.Unlock()
}

// take appends the queued messages to w, whose bytes serve writes next.
func (q *pushQueue) take(w *wire.Writer) {
	q.mu.Lock()
	w.Raw(q.buf)
	q.buf = q.buf[:0]
	q.mu.Unlock()
}

// end stops pushLoop. The connection is already closed.
func (q *pushQueue) end() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	if q.started {
		<-q.ended
	}
}

// pushLoop writes pushes while serve waits for the client.
func (c *conn) pushLoop() {
	q := &c.pushes
	defer close(q.ended)
	for {
		select {
		case <-c.done:
			return
		case <-q.wake:
		}
		c.wmu.Lock()
		q.mu.Lock()
		var b []byte
		if !q.working && len(q.buf) > 0 {
			b = slices.Clone(q.buf)
			q.buf = q.buf[:0]
		}
		q.mu.Unlock()
		ok := len(b) == 0 || c.write(b)
		c.wmu.Unlock()
		if !ok {
			return
		}
	}
}
