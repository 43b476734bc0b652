package resp

import (
	"iter"
	"net"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/gate"
)

// guestShare is the denominator of the share of MaxClients and MaxInputBytes that guests
// may use.
const guestShare = 4

// keptShare is the denominator of the share of MaxClients that is reserved for clients on
// this machine, and maxKept the maximum of that reserve.
const (
	keptShare = 16
	maxKept   = 8
)

// gated returns a listener that limits the number of clients accepted by l.
func (s *Server) gated(l net.Listener) net.Listener {
	o := gate.Options{
		Name: "resp", Max: s.opts.MaxClients, Kept: min(s.opts.MaxClients/keptShare, maxKept),
		OnRefused: func() { s.stats.rejected.Add(1) }, Logger: s.opts.Logger,
	}
	if s.opts.Password != "" {
		o.Guests = max(1, s.opts.MaxClients/guestShare)
	}
	if s.opts.TLS == nil {
		o.Refusal = []byte("-ERR max number of clients reached\r\n")
	}
	return gate.New(l, o)
}

// gateStats returns the combined statistics of the listeners.
func (s *Server) gateStats() (sum gate.Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		if g, ok := l.(*gate.Listener); ok {
			n := g.Stats()
			sum.Guests, sum.Members, sum.Evicted, sum.Refused = sum.Guests+n.Guests, sum.Members+n.Members, sum.Evicted+n.Evicted, sum.Refused+n.Refused
		}
	}
	return sum
}

// Metrics yields the server's metrics: those of connections and, in a cluster, of traffic
// with other nodes.
func (s *Server) Metrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		n := s.gateStats()
		for _, m := range []engine.Metric{
			{Name: "resp_clients", Help: "Redis clients that have authenticated or, without a password, sent a command.", Value: float64(n.Members)},
			{Name: "resp_guests", Help: "Redis connections that have not yet authenticated or, without a password, sent a command.", Value: float64(n.Guests)},
			{Name: "resp_guests_evicted_total", Help: "Unauthenticated connections closed to make room for newer ones.", Counter: true, Value: float64(n.Evicted)},
			{Name: "resp_refused_connections_total", Help: "Connections refused because the limit of clients was reached.", Counter: true, Value: float64(n.Refused)},
			{Name: "resp_input_bytes", Help: "Memory used by commands that have not arrived completely or wait for EXEC.", Value: float64(s.input.used.Load())},
		} {
			if !yield(m) {
				return
			}
		}
		for m := range s.clusterMetrics() {
			if !yield(m) {
				return
			}
		}
	}
}

// guest is the state that a connection needs before its client has authenticated.
type guest struct {
	place    *gate.Conn // nil: the connection of another node
	entered  bool       // it counts as a member
	until    time.Time  // deadline for authentication
	timed    bool       // the next read has a deadline
	commands int        // sent before authentication
	guesses  int        // number of wrong passwords
}

// welcome promotes the connection from guest to member. It returns false if the connection
// is lost.
func (c *conn) welcome() bool {
	if c.guest.place == nil || c.guest.entered {
		return true
	}
	c.guest.entered = c.guest.place.Enter()
	return c.guest.entered
}

// demote makes the connection a guest again.
func (c *conn) demote() {
	c.guest.until, c.guest.commands = time.Now().Add(c.srv.opts.MaxGuestTime), 0
	if c.guest.entered {
		c.guest.entered = false
		c.guest.place.Leave()
	}
}

// setDeadline sets the deadline for the next bytes.
func (c *conn) setDeadline() {
	idle := c.srv.opts.IdleTimeout
	switch {
	case !c.authed:
		c.guest.timed = true
		c.nc.SetReadDeadline(c.guest.until)
	case idle > 0 && !c.cl.node:
		c.nc.SetReadDeadline(time.Now().Add(idle))
	case c.guest.timed:
		c.guest.timed = false
		c.nc.SetReadDeadline(time.Time{})
	}
}

// arrived counts a command of the client. It returns false if the client has not
// authenticated and may not send more.
func (c *conn) arrived() bool {
	if c.authed {
		return c.welcome()
	}
	if c.guest.commands++; c.guest.commands <= GuestMaxCommands {
		return true
	}
	c.out.Error("ERR too many commands before authentication")
	c.closing, c.linger = true, true
	return false
}

// errGuessers is the reply to a password that is not checked.
var errGuessers = engine.Errorf(engine.CodeQueueFull, "too many wrong passwords from this address, and too many attempts are waiting; try again later")

// authenticate checks a password. The delay after a wrong one grows with their number.
func (c *conn) authenticate(user, password []byte) error {
	s, from := c.srv, c.nc.RemoteAddr()
	if s.opts.Password != "" && !s.opts.Guesses.Wait(from, c.done) {
		return errGuessers
	}
	if !s.checkPassword(user, password) {
		s.opts.Guesses.Wrong(from)
		c.guest.guesses++
		gate.Sleep(gate.Penalty(c.guest.guesses), c.done)
		if c.guest.guesses >= gate.MaxGuesses {
			c.closing, c.linger = true, true
		}
		return errWrongPass
	}
	c.authed = true
	c.rd.SetGuest(false)
	if !c.welcome() {
		c.closing = true
	}
	return nil
}

// inputMemory is the memory for commands that are being received.
type inputMemory struct {
	most int64
	used atomic.Int64
}

// take reserves n bytes, or releases them if n is negative. It returns false if there is
// not enough room.
func (r *inputMemory) take(n int, guest bool) bool {
	used, most := r.used.Add(int64(n)), r.most
	if guest {
		most /= guestShare
	}
	if n > 0 && used > most {
		r.used.Add(int64(-n))
		return false
	}
	return true
}

// errInputMemory is the reply if take returns false.
var errInputMemory = engine.Errorf(engine.CodeQueueFull, "the commands being received exceed the memory limit for input; nothing was written")
