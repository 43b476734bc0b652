package resp

import (
	"slices"
	"sync"

	"github.com/skerrydb/skerry/resp/wire"
)

// pushQueue is what a connection is told out of turn. It is written between
// the replies of two reads from the socket, or, while the client says nothing,
// by a goroutine of its own. So a push never overtakes a reply that was under
// way when it was made: a client that then forgets a key has the old value
// already.
type pushQueue struct {
	mu      sync.Mutex // guards the fields below
	buf     []byte
	working bool // serve runs commands and takes the queue itself afterwards
	started bool
	closed  bool // the connection has ended
	wake    chan struct{}
	ended   chan struct{} // closed when pushLoop has returned
}

// add queues one message, which write appends. It reports false if the client
// takes its pushes too slowly; the connection is then closed.
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

// busy says that serve runs commands.
func (q *pushQueue) busy() {
	q.mu.Lock()
	q.working = true
	q.mu.Unlock()
}

// idle says that all replies are written, and writes what has gathered.
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

// take appends what has gathered to w, whose bytes serve writes next.
func (q *pushQueue) take(w *wire.Writer) {
	q.mu.Lock()
	w.Raw(q.buf)
	q.buf = q.buf[:0]
	q.mu.Unlock()
}

// end stops pushLoop; the connection is closed already.
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
