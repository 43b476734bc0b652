// Package gate admits connections: it bounds how many a listener has at a time, and
// keeps unauthenticated clients from blocking others and from guessing passwords fast.
//
// It knows connections, addresses and file descriptors; it must not know a
// protocol, nor what a password is.
package gate

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Limits of every listener.
const (
	// MaxRefusals is how many refused connections stay open at a time, for at most
	// RefusalTime, so that their clients can read the reason; others are closed at
	// once.
	MaxRefusals = 8
	// RefusalTime is how long a refused connection stays open at most.
	RefusalTime = time.Second
)

// manyFiles represents an unlimited number of files.
const manyFiles = 1 << 20

// maxPause is the longest pause after a failed Accept.
const maxPause = time.Second

// Options of a Listener.
type Options struct {
	// Name identifies the listener in the log.
	Name string

	// Max bounds the connections. If all are members, another one is refused;
	// otherwise it replaces the oldest guest. Max must be at least 1.
	Max int

	// Guests bounds the guests: a new one replaces the oldest. 0 means Max.
	Guests int

	// Kept is how many of the Max connections are reserved for clients on this
	// machine, so that its operator can always connect.
	Kept int

	// Refusal is written to a connection before it is refused. Nil: nothing.
	Refusal []byte

	// OnRefused, if not nil, is called for each refused connection.
	OnRefused func()

	// Logger logs messages for operators; nil discards them.
	Logger *slog.Logger
}

// Stats are metrics of a Listener; all but Guests and Members since New.
type Stats struct {
	Guests, Members int
	Evicted         uint64 // guests closed to make room
	Refused         uint64 // refused connections
}

// Listener accepts connections as guests, about which it knows nothing yet. Each is a
// *Conn. Conn.Enter makes a guest a member.
type Listener struct {
	net.Listener
	o       Options
	refused chan struct{} // a token for each refusal under way
	done    chan struct{} // closed by Close
	once    sync.Once

	mu      sync.Mutex // guards the fields below
	guests  list.List  // of *Conn, the oldest first
	members int
	stats   Stats
	logged  time.Time // when it last logged
}

// New returns a Listener that accepts the connections of l.
func New(l net.Listener, o Options) *Listener {
	if o.Max < 1 || o.Guests < 0 || o.Kept < 0 {
		panic("BUG: gate: a limit is too small")
	}
	if o.Guests == 0 || o.Guests > o.Max {
		o.Guests = o.Max
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Kept = min(o.Kept, o.Max-1)
	return &Listener{Listener: l, o: o, refused: make(chan struct{}, MaxRefusals), done: make(chan struct{})}
}

// Max returns the limit of connections.
func (l *Listener) Max() int { return l.o.Max }

// Stats returns the metrics.
func (l *Listener) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Guests, s.Members = l.guests.Len(), l.members
	return s
}

// Close makes Accept fail. Accepted connections stay open.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// Accept returns the next connection for which there is room. It does not fail for a
// lack of file descriptors or an aborted connection: it closes the oldest guest and tries
// again after a pause.
func (l *Listener) Accept() (net.Conn, error) {
	pause := 5 * time.Millisecond
	for {
		nc, err := l.Listener.Accept()
		switch {
		case err != nil && !mayPass(err):
			return nil, err
		case err != nil:
			l.warn("a connection could not be accepted", "err", err)
			l.makeRoom()
			select {
			case <-l.done:
				return nil, net.ErrClosed
			case <-time.After(pause):
			}
			pause = min(2*pause, maxPause)
		default:
			if c := l.admit(nc); c != nil {
				return c, nil
			}
			pause = 5 * time.Millisecond
		}
	}
}

// mayPass reports whether an error of Accept is temporary: the peer gave up, or the
// process or the machine is out of descriptors or memory.
func mayPass(err error) bool {
	for _, no := range [...]syscall.Errno{syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// warn logs a warning, at most once a second.
func (l *Listener) warn(msg string, args ...any) {
	l.mu.Lock()
	say := time.Since(l.logged) >= time.Second
	if say {
		l.logged = time.Now()
	}
	l.mu.Unlock()
	if say {
		l.o.Logger.Warn(msg, append([]any{"listener", l.o.Name}, args...)...)
	}
}

// admit makes a connection a guest, or refuses it and returns nil.
func (l *Listener) admit(nc net.Conn) *Conn {
	c := &Conn{Conn: nc, l: l}
	most := l.o.Max
	if !onThisMachine(nc.RemoteAddr()) {
		most -= l.o.Kept
	}
	l.mu.Lock()
	full := l.members >= most
	var oldest []*Conn // more than one if guests of this machine use its reserved connections
	if full {
		l.stats.Refused++
	} else {
		for l.guests.Len() >= l.o.Guests || l.members+l.guests.Len() >= most {
			oldest = append(oldest, l.evict())
		}
		c.place = l.guests.PushBack(c)
	}
	l.mu.Unlock()
	for _, o := range oldest {
		o.end()
	}
	if !full {
		return c
	}
	if l.o.OnRefused != nil {
		l.o.OnRefused()
	}
	l.warn("the limit of connections is reached; a connection is refused", "limit", most, "from", nc.RemoteAddr())
	l.refuse(nc)
	return nil
}

func onThisMachine(addr net.Addr) bool {
	a, ok := addr.(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// evict removes the oldest guest from the list and returns it, or nil if there is none.
// The caller holds mu, and must end the guest after unlocking it.
func (l *Listener) evict() *Conn {
	e := l.guests.Front()
	if e == nil {
		return nil
	}
	l.guests.Remove(e)
	c := e.Value.(*Conn)
	c.place, c.gone = nil, true
	l.stats.Evicted++
	return c
}

// makeRoom frees a descriptor: it closes the oldest guest.
func (l *Listener) makeRoom() {
	l.mu.Lock()
	oldest := l.evict()
	l.mu.Unlock()
	if oldest != nil {
		oldest.end()
	}
}

// refuse closes a connection after its client had time to read the refusal.
func (l *Listener) refuse(nc net.Conn) {
	select {
	case l.refused <- struct{}{}:
	default:
		nc.Close()
		return
	}
	go func() {
		defer func() { <-l.refused }()
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(RefusalTime))
		_, _ = nc.Write(l.o.Refusal) // it is closed either way
		if t, ok := nc.(interface{ CloseWrite() error }); ok {
			_ = t.CloseWrite()
			_, _ = io.CopyN(io.Discard, nc, 64<<10) // unread input would reset the connection and lose the refusal
		}
	}()
}

// Conn is a connection accepted by a Listener, which may close it while it is a guest.
type Conn struct {
	net.Conn
	l *Listener

	known atomic.Bool

	// Under l.mu.
	place *list.Element // among the guests; nil: it is a member, or gone
	uses  int           // Enter without Leave
	gone  bool          // closed, or about to be
}

// Enter makes the connection a member until Leave has been called as often. It reports
// false if the connection was closed to make room.
func (c *Conn) Enter() bool {
	l := c.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.gone {
		return false
	}
	if c.uses++; c.uses == 1 {
		l.guests.Remove(c.place)
		c.place = nil
		l.members++
	}
	return true
}

// Leave undoes one Enter. The last Leave makes the connection the youngest guest.
func (c *Conn) Leave() {
	l := c.l
	l.mu.Lock()
	c.uses--
	var oldest *Conn
	if c.uses == 0 && !c.gone {
		l.members--
		if l.guests.Len() >= l.o.Guests {
			oldest = l.evict()
		}
		c.place = l.guests.PushBack(c)
	}
	l.mu.Unlock()
	if oldest != nil {
		oldest.end()
	}
}

// Close closes the connection and makes room for another.
func (c *Conn) Close() error {
	l := c.l
	l.mu.Lock()
	if !c.gone {
		c.gone = true
		if c.place != nil {
			l.guests.Remove(c.place)
			c.place = nil
		} else {
			l.members--
		}
	}
	l.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite closes the writing side if the underlying connection supports that.
func (c *Conn) CloseWrite() error {
	if t, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return t.CloseWrite()
	}
	return nil
}

// SyscallConn returns that of the underlying connection.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// end closes a guest that was removed from the list. It resets the connection so that
// the kernel frees its buffers at once.
func (c *Conn) end() {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Conn.Close()
}

// Known reports whether the last password over this connection was right, as set by
// SetKnown.
func (c *Conn) Known() bool { return c.known.Load() }

// SetKnown records whether the last password over this connection was right.
func (c *Conn) SetKnown(right bool) { c.known.Store(right) }

type key struct{}

// NewContext returns a context that carries c.
func NewContext(ctx context.Context, c *Conn) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// FromContext returns the connection that ctx carries, or nil.
func FromContext(ctx context.Context) *Conn {
	c, _ := ctx.Value(key{}).(*Conn)
	return c
}
