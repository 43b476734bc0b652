package lane

import (
	"crypto/tls"
	"net"
	"sync"
)

// handedOver is the listener from which net/http gets connections.
type handedOver struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	addr  net.Addr
}

func newHandedOver() *handedOver {
	return &handedOver{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *handedOver) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *handedOver) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *handedOver) Addr() net.Addr { return l.addr }

// give passes c on, or closes it if the server has stopped.
func (l *handedOver) give(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.done:
		c.Close()
	}
}

// replayed is a connection of which the lane has read first. net/http reads that again.
type replayed struct {
	net.Conn
	first []byte
	tls   *tls.ConnectionState // nil: not over TLS
}

// Read implements net.Conn. Only one goroutine reads at a time.
func (c *replayed) Read(p []byte) (int, error) {
	if len(c.first) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.first)
	if c.first = c.first[n:]; len(c.first) == 0 {
		c.first = nil
	}
	return n, nil
}

// CloseWrite closes the writing side if the connection can do that.
func (c *replayed) CloseWrite() error {
	if t, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return t.CloseWrite()
	}
	return nil
}

// NetConn returns the connection beneath, as that of tls.Conn does.
func (c *replayed) NetConn() net.Conn { return c.Conn }
