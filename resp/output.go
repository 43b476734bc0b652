package resp

import (
	"net"
	"sync"
	"time"
)

// stallAfter is how long a write may block before a goroutine takes over the rest, so that
// further commands can be read. Otherwise, a client that sends a long pipeline before it
// reads the first reply and the server would wait for each other.
const stallAfter = 20 * time.Millisecond

// drainBytes is how much a slow client is sent at once. It must read some of it within
// Options.WriteTimeout.
const drainBytes = 256 << 10

// outConn is a connection whose writes do not wait for the peer at first. It buffers unsent
// data up to MaxOutputBytes. Then Write blocks, and with it the reading of further
// commands. TLS, if any, is above it.
type outConn struct {
	net.Conn
	waits   bool          // Write waits for the peer
	timeout time.Duration // without progress for this long, the connection is closed
	limited func()        // called in that case

	mu       sync.Mutex // guards the fields below
	moved    sync.Cond  // on mu: pending or err has changed
	draining bool       // drain is running
	backlog  []byte     // to be written by drain
	pending  int        // bytes of backlog and of what drain is writing
	err      error      // the connection is lost
}

func newOutConn(nc net.Conn, timeout time.Duration, limited func()) *outConn {
	o := &outConn{Conn: nc, timeout: timeout, limited: limited}
	o.moved.L = &o.mu
	return o
}

// writeAll waits until the peer has read p, as long as there is progress. It is for other
// nodes, which read replies while they send. Their TLS layer is below, and after a deadline
// it cannot write any more.
func (o *outConn) writeAll(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		o.Conn.SetWriteDeadline(time.Now().Add(o.timeout))
		var k int
		k, err = o.Conn.Write(p[n:min(len(p), n+drainBytes)])
		n += k
	}
	o.err = err
	return n, err
}

// Write accepts all of p or fails. It is called by one goroutine at a time.
func (o *outConn) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && o.pending > 0 && o.pending+len(p) > MaxOutputBytes {
		o.moved.Wait()
	}
	if o.err != nil {
		return 0, o.err
	}
	n := 0
	if !o.draining {
		var err error
		if o.waits {
			return o.writeAll(p)
		}
		o.Conn.SetWriteDeadline(time.Now().Add(stallAfter))
		if n, err = o.Conn.Write(p); err == nil || !isTimeout(err) {
			return n, err
		}
		o.draining = true
		go o.drain()
	}
	o.backlog = append(o.backlog, p[n:]...)
	o.pending += len(p) - n
	return len(p), nil
}

// drain writes the backlog until it is empty or the connection is lost.
func (o *outConn) drain() {
	var rest []byte
	for {
		o.mu.Lock()
		if len(rest) == 0 {
			rest, o.backlog = o.backlog, nil
		}
		if o.pending == 0 || o.err != nil {
			o.draining = false
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		o.Conn.SetWriteDeadline(time.Now().Add(o.timeout))
		n, err := o.Conn.Write(rest[:min(len(rest), drainBytes)])
		rest = rest[n:]
		if n == 0 && isTimeout(err) {
			o.limited()
		}
		o.mu.Lock()
		o.pending -= n
		if err != nil && (n == 0 || !isTimeout(err)) {
			o.err = err
			o.Conn.Close()
		}
		o.moved.Broadcast()
		o.mu.Unlock()
	}
}

// wait returns when everything is written or the connection is lost.
func (o *outConn) wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.pending > 0 && o.err == nil {
		o.moved.Wait()
	}
}

// waiting returns how many bytes the peer has not read yet.
func (o *outConn) waiting() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(o.pending)
}

// CloseWrite signals the end of the output to the peer.
func (o *outConn) CloseWrite() error {
	if t, ok := o.Conn.(interface{ CloseWrite() error }); ok { // TCP, and TLS between nodes
		return t.CloseWrite()
	}
	return nil
}
