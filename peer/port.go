package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Port is one node's end of all connections between the nodes. All methods are
// safe for concurrent use.
type Port struct {
	node
	log  *slog.Logger
	ln   net.Listener
	base time.Time // stamps count from it

	ctx          context.Context // ends with the port
	end          context.CancelFunc
	group        sync.WaitGroup // every goroutine of the port
	calls, snaps chan struct{}  // a token for each that runs

	links atomic.Pointer[map[uint64]*link] // as SetPeers made it; never modified

	mu        sync.Mutex // guards the fields below
	closed    bool
	guests    []net.Conn // not yet authenticated, in order of arrival
	conns     map[*Conn]held
	accepted  int
	known     map[uint64]*known
	protocols map[string]*listener
	stats     Stats
	complaint time.Time // when a rejected connection was last logged
}

// known is what a port remembers of another node.
type known struct {
	hello   Hello    // the last one of a raft connection; Folder never changes
	old     []uint64 // starts before hello.Start
	live    int      // raft connections with hello.Start
	inbound *inbound // nil: none
	skew    time.Duration
	skewed  bool // beyond Options.Skew, and logged

	received, receivedBytes *atomic.Uint64
}

// Stats are metrics since Listen.
type Stats struct {
	Accepted uint64 // connections of nodes
	Refused  uint64 // connections that were refused with a reason
	Strange  uint64 // connections that failed before a greeting
	Evicted  uint64 // connections closed before a greeting to make room for a newer one
}

// oldStarts is how many earlier starts of one node are remembered.
const oldStarts = 16

// Listen opens the port, which accepts connections at once.
func Listen(id *Identity, o Options) (*Port, error) {
	o = o.filled()
	p := &Port{
		node: node{id: id, o: o, start: rand.Uint64() | 1, addr: o.Advertise},
		log:  o.Logger, ln: o.Listener, base: time.Now().Add(-time.Second),
		conns: map[*Conn]held{}, known: map[uint64]*known{}, protocols: map[string]*listener{},
		calls: make(chan struct{}, MaxCalls), snaps: make(chan struct{}, MaxSnapshots),
	}
	p.admit = p.admitNode
	p.links.Store(&map[uint64]*link{})
	if p.ln == nil {
		ln, err := net.Listen("tcp", o.Addr)
		if err != nil {
			return nil, fmt.Errorf("peer: %w", err)
		}
		p.ln = ln
	}
	if p.addr == "" {
		p.addr = p.ln.Addr().String()
	}
	if why := outdated(id.pair.Leaf, o.Now()); why != "" {
		p.log.Error("other nodes will refuse this one: its certificate "+why, "node", id.Node)
	}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.group.Go(p.accept)
	return p, nil
}

// filled returns the options with their defaults.
func (o Options) filled() Options {
	fill := func(n *int, standard int) {
		if *n <= 0 {
			*n = standard
		}
	}
	last := func(d *time.Duration, standard time.Duration) {
		if *d <= 0 {
			*d = standard
		}
	}
	fill(&o.Queue, MaxQueue)
	fill(&o.QueueBytes, MaxQueueBytes)
	fill(&o.MessageBytes, MaxMessageBytes)
	fill(&o.Guests, MaxGuests)
	fill(&o.Conns, MaxConns)
	last(&o.HandshakeTimeout, DefaultHandshakeTimeout)
	last(&o.IdleTimeout, DefaultIdleTimeout)
	last(&o.StallTimeout, DefaultStallTimeout)
	last(&o.Skew, DefaultSkew)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Explain == nil {
		o.Explain = func(err error) (string, string) { return CodeInternal, err.Error() }
	}
	return o
}

// Addr returns the port's address as other nodes reach it.
func (p *Port) Addr() string { return p.addr }

// stamp returns the time of a monotonic clock in nanoseconds. It is never 0.
func (p *Port) stamp() uint64 { return uint64(time.Since(p.base)) }

// SetPeers sets the addresses of the other nodes: id to HOST:PORT. It connects to
// new ones and closes the raft connections of those that are no longer named. This
// node's own id is ignored. Links whose address stays the same are not touched.
func (p *Port) SetPeers(addrs map[uint64]string) {
	var begun []*link
	var end []func()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	old, links := *p.links.Load(), map[uint64]*link{}
	for id, addr := range addrs {
		if id == p.id.Node || addr == "" {
			continue
		}
		if l := old[id]; l != nil && l.addr == addr {
			links[id] = l
			continue
		}
		links[id] = newLink(p, id, addr)
		begun = append(begun, links[id])
	}
	for id, l := range old {
		if links[id] != l {
			end = append(end, l.stop)
		}
		if _, named := addrs[id]; !named {
			if k := p.known[id]; k != nil && k.inbound != nil {
				end = append(end, k.inbound.c.kill)
			}
			delete(p.known, id)
		}
	}
	p.links.Store(&links)
	for _, l := range begun {
		p.group.Go(l.run)
	}
	p.mu.Unlock()
	p.older.keep(func(id uint64) bool { _, there := addrs[id]; return there })
	for _, f := range end {
		f()
	}
}

// link returns the link to a node, or nil.
func (p *Port) link(id uint64) *link { return (*p.links.Load())[id] }

// Send queues a message for a node. It never blocks. False means that the message
// will not arrive: the node is unknown or not connected, too much is queued, or the
// message is too long. True promises nothing; Options.Down reports when messages
// were lost. Messages arrive in the order of Send. The port keeps msg until it is
// written; it must not be modified.
func (p *Port) Send(to uint64, msg []byte) bool {
	l := p.link(to)
	return l != nil && len(msg) <= p.o.MessageBytes && l.send(msg, false)
}

// Urgent is Send for a small message that may overtake others: it goes out between
// the pieces of a long message. Above 16 KiB it is the same as Send.
func (p *Port) Urgent(to uint64, msg []byte) bool {
	l := p.link(to)
	return l != nil && len(msg) <= p.o.MessageBytes && l.send(msg, len(msg) <= recordBytes)
}

// Dial opens a connection to a node of SetPeers for a protocol that it serves.
func (p *Port) Dial(ctx context.Context, to uint64, protocol string) (net.Conn, error) {
	c, err := p.dial(ctx, to, protocol)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (p *Port) dial(ctx context.Context, to uint64, protocol string) (*Conn, error) {
	l := p.link(to)
	if l == nil {
		if p.ctx.Err() != nil {
			return nil, ErrClosed
		}
		return nil, ErrNoPeer
	}
	c, _, err := p.connect(ctx, l.addr, to, protocol)
	if err == nil {
		err = p.keep(c, false)
	}
	return c, err
}

// held is what a port knows about an open connection.
type held struct {
	accepted bool
	known    *known // the node, if it is a raft connection; otherwise nil
}

// keep records an open connection until it is closed, so that Close can end it. If
// keep fails, it closes the connection.
func (p *Port) keep(c *Conn, accepted bool) error {
	p.mu.Lock()
	err := error(nil)
	if p.closed {
		err = ErrClosed
	} else if accepted && p.accepted >= p.o.Conns {
		err = refuse(CodeBusy, "node %d has %d connections", p.id.Node, p.o.Conns)
	} else {
		p.conns[c] = held{accepted: accepted}
		if accepted {
			p.accepted++
			p.stats.Accepted++
		}
		c.release = func() { p.forget(c) }
	}
	p.mu.Unlock()
	if err != nil {
		c.kill()
	}
	return err
}

func (p *Port) forget(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.conns[c]
	if h.accepted {
		p.accepted--
	}
	if h.known != nil && h.known.hello.Start == c.hello.Start {
		h.known.live--
	}
	delete(p.conns, c)
}

// Peers returns the state of the other nodes in ascending order of id: those of
// SetPeers, and those that have connected to this one.
func (p *Port) Peers() []PeerState {
	links := *p.links.Load()
	p.mu.Lock()
	states := map[uint64]*PeerState{}
	for id, k := range p.known {
		states[id] = &PeerState{
			ID: id, Addr: k.hello.Addr, Hello: k.hello, Skew: k.skew, Inbound: k.inbound != nil,
			Received: k.received.Load(), ReceivedBytes: k.receivedBytes.Load(),
		}
	}
	p.mu.Unlock()
	for id, l := range links {
		if states[id] == nil {
			states[id] = &PeerState{ID: id}
		}
		l.show(states[id])
	}
	var all []PeerState
	for _, s := range states {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b PeerState) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// show fills in the state of a link.
func (l *link) show(s *PeerState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Addr, s.Connected, s.Since, s.Error = l.addr, l.state.connected, l.state.since, l.state.why
	s.RTT = time.Duration(l.rtt.Load())
	s.Sent, s.SentBytes, s.Dropped = l.sent.Load(), l.sentBytes.Load(), l.dropped.Load()
	s.Queue, s.QueueBytes = len(l.urgent)+len(l.queue)-l.head, l.bytes
}

// Stats returns connection metrics.
func (p *Port) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Close ends all connections and waits for all functions of Options to return.
func (p *Port) Close() error {
	p.mu.Lock()
	already := p.closed
	p.closed = true
	conns := make([]*Conn, 0, len(p.conns))
	for c := range p.conns {
		conns = append(conns, c)
	}
	guests := slices.Clone(p.guests)
	listeners := p.protocols
	p.protocols = nil
	p.links.Store(&map[uint64]*link{})
	p.mu.Unlock()
	var err error
	if !already {
		err = p.ln.Close()
		p.end()
	}
	for _, c := range guests {
		c.Close()
	}
	for _, l := range listeners {
		l.shut()
	}
	for _, c := range conns {
		c.kill()
	}
	p.group.Wait()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}
