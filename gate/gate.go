// Package gate lets connections in: it bounds how many a listener has at a time,
// and sees to it that strangers neither keep others out nor guess a password fast.
//
// It knows connections, addresses and file descriptors; it must not know a
// protocol, nor what a password is.
package gate

import (
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
	// MaxRefusals is how many refused connections stay open at a time, for
	// RefusalTime at most, so that their clients get to read why; more are closed
	// at once.
	MaxRefusals = 8
	// RefusalTime is how long that is.
	RefusalTime = time.Second
)

// manyFiles stands for an unlimited number of files.
const manyFiles = 1 << 20

// maxPause is the longest pause after a connection could not be accepted.
const maxPause = time.Second

// Options of a Listener.
type Options struct {
	// Name identifies the listener in the log.
	Name string

	// Max bounds the connections. Where all are members, one more is refused;
	// otherwise the oldest guest makes room for it. It must be at least 1.
	Max int

	// Guests bounds the guests alone: the oldest makes room for a new one.
	// 0 means Max.
	Guests int

	// Kept is how many places of Max only clients on this machine get, so that its
	// operator is accepted when all other places are taken.
	Kept int

	// Refusal is written to a connection before it is refused. Nil: nothing.
	Refusal []byte

	// OnRefused, if set, is called for each connection that is refused.
	OnRefused func()

	// Logger gets what an operator should know; nil discards it.
	Logger *slog.Logger
}

// Stats are metrics of a Listener; all but Guests and Members since New.
type Stats struct {
	Guests, Members int
	Evicted         uint64 // guests that made room
	Refused         uint64 // connections for which there was none
}

// Listener accepts connections, which are *Conn, as guests: of those it knows
// nothing yet. What a guest does may make it a member, by Conn.Enter.
type Listener struct {
	net.Listener
	o       Options
	refused chan struct{} // a token for each refusal under way
	done    chan struct{} // closed by Close
	once    sync.Once

	mu      sync.Mutex // guards what follows
	guests  list.List  // of *Conn, the oldest first
	members int
	stats   Stats
	said    time.Time // when it was last logged
}

// New returns a Listener of the connections of l.
func New(l net.Listener, o Options) *Listener {
	if o.Max < 1 || o.Guests < 0 || o.Kept < 0 {
		panic("BUG: gate: a limit is too small")
	}
	if o.Guests == 0 || o.Guests > o.Max {
		o.Guests = o.Max
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Kept = min(o.Kept, o.Max-1)
	return &Listener{Listener: l, o: o, refused: make(chan struct{}, MaxRefusals), done: make(chan struct{})}
}

// Max returns how many connections there can be.
func (l *Listener) Max() int { return l.o.Max }

// Stats returns the metrics.
func (l *Listener) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Guests, s.Members = l.guests.Len(), l.members
	return s
}

// Close ends Accept. Connections that were accepted stay.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// Accept returns the next connection that there is room for. A lack of file
// descriptors, or a peer that has gone, is no error of the listener: it closes the
// oldest guest, and tries again after a pause.
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

// mayPass reports whether accepting may work again: the peer gave up, or the
// process or the machine is out of descriptors or memory for now.
func mayPass(err error) bool {
	for _, no := range [...]syscall.Errno{syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// warn logs, once a second at most.
func (l *Listener) warn(msg string, args ...any) {
	l.mu.Lock()
	say := time.Since(l.said) >= time.Second
	if say {
		l.said = time.Now()
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
	var oldest []*Conn // more than one where guests of this machine are in its places
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
	l.warn("all places are taken; a connection is refused", "limit", most, "from", nc.RemoteAddr())
	l.refuse(nc)
	return nil
}

func onThisMachine(addr net.Addr) bool {
	a, ok := addr.(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// evict takes the oldest guest off the list; nil: there is none. The caller holds
// mu, and ends the guest without it.
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

// makeRoom gives a descriptor back: that of the oldest guest.
func (l *Listener) makeRoom() {
	l.mu.Lock()
	oldest := l.evict()
	l.mu.Unlock()
	if oldest != nil {
		oldest.end()
	}
}

// refuse closes a connection, after its client had a chance to read why.
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
			_, _ = io.CopyN(io.Discard, nc, 64<<10) // unread input would take the refusal away
		}
	}()
}

// Conn is a connection that a Listener accepted. The Listener may close it while it is
// a guest.
type Conn struct {
	net.Conn
	l *Listener

	known atomic.Bool

	// Under l.mu.
	place *list.Element // among the guests; nil: it is a member, or gone
	held  int           // Enter without Leave
	gone  bool          // closed, or about to be
}

// Enter makes the connection a member until Leave was called as often. It reports
// false if it is closed: it had to make room.
func (c *Conn) Enter() bool {
	l := c.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.gone {
		return false
	}
	if c.held++; c.held == 1 {
		l.guests.Remove(c.place)
		c.place = nil
		l.members++
	}
	return true
}

// Leave makes the connection a guest again, the youngest, if it was the last Leave.
func (c *Conn) Leave() {
	l := c.l
	l.mu.Lock()
	c.held--
	var oldest *Conn
	if c.held == 0 && !c.gone {
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

// Close gives the place up and closes the connection.
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

// CloseWrite ends what is sent, where the connection below can do that.
func (c *Conn) CloseWrite() error {
	if t, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return t.CloseWrite()
	}
	return nil
}

// SyscallConn is that of the connection below.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// end closes a guest that has been taken off the list. A reset frees what the kernel
// still holds of it at once.
func (c *Conn) end() {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Conn.Close()
}

// Known reports what SetKnown was told last: whether the last password that came over
// this connection was right.
func (c *Conn) Known() bool { return c.known.Load() }

// SetKnown notes that.
func (c *Conn) SetKnown(right bool) { c.known.Store(right) }

type key struct{}

// NewContext returns a context of what happens on c.
func NewContext(ctx context.Context, c *Conn) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// FromContext returns the connection of NewContext; nil: there is none.
func FromContext(ctx context.Context) *Conn {
	c, _ := ctx.Value(key{}).(*Conn)
	return c
}
