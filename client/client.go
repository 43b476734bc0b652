package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/resp/wire"
)

// Client calls procedures and runs commands on a server or a cluster. It is safe for
// concurrent use.
type Client struct {
	o        Options
	base     time.Time // when the client was opened; times are relative to it
	bufs     wire.Buffers
	waiters  sync.Pool
	inFlight semaphore
	notifier notifier
	closing  <-chan struct{} // closed by Close
	close    context.CancelFunc
	ctx      context.Context // ends with closing
	links    sync.WaitGroup
	ended    chan struct{} // closed when everything has ended
	asleep   atomic.Bool   // the sweeper waits for roused
	roused   chan struct{}
	turn     atomic.Uint32 // selects the node for the next read
	counts   counters
	cache    cache

	route atomic.Pointer[node]    // the node that receives writes
	nodes atomic.Pointer[[]*node] // replaced under mu, never modified

	mu     sync.Mutex // guards the fields below and the set of nodes
	leader *node      // the last known leader; nil if unknown
	last   error      // the last connection error
	asked  int64      // when the nodes were last asked for the leader
	shut   bool

	delayedMu sync.Mutex // guards delayed
	delayed   []delayed
}

// delayed is a call that will be sent again later.
type delayed struct {
	s  slot
	at int64
}

// Open returns a Client and begins to connect in the background. Calls and Ping report
// whether the servers can be reached. The error is ErrInvalid and names the option that is
// invalid.
func Open(o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{o: o, base: time.Now(), roused: make(chan struct{}, 1)}
	c.ctx, c.close = context.WithCancel(context.Background())
	c.closing, c.ended = c.ctx.Done(), make(chan struct{})
	c.inFlight.max = int64(o.MaxInFlight)
	c.notifier.wake = make(chan struct{}, 1)
	c.nodes.Store(&[]*node{})
	c.cache.init(o.CacheBytes)
	c.mu.Lock()
	for _, a := range o.Addrs {
		if c.byAddr(a) == nil {
			c.addNode(a).given = true
		}
	}
	c.route.Store((*c.nodes.Load())[0])
	c.mu.Unlock()
	c.links.Go(c.sweep)
	last := make(chan struct{})
	go func() {
		<-c.closing
		c.links.Wait()
		close(last)
	}()
	go func() {
		c.notifier.run(last)
		close(c.ended)
	}()
	return c, nil
}

// Close ends all calls. Those that were sent end with an error that matches both
// ErrOutcomeUnknown and ErrClosed, the others with ErrClosed. Close waits for their
// callbacks, unless it is called in a callback. It may be called more than once.
func (c *Client) Close() {
	inside := c.inCallback()
	c.mu.Lock()
	first := !c.shut
	c.shut = true
	c.mu.Unlock()
	if first {
		c.close()
		for _, n := range *c.nodes.Load() {
			for _, l := range n.links {
				if nc := l.close(); nc != nil {
					nc.Close()
				}
			}
		}
		c.endDelayed()
	}
	if !inside {
		<-c.ended
	}
}

// addNode adds a node and starts its links. The caller holds c.mu.
func (c *Client) addNode(addr string) *node {
	n := newNode(c, addr)
	old := *c.nodes.Load()
	next := append(old[:len(old):len(old)], n)
	c.nodes.Store(&next)
	for _, l := range n.links {
		if c.shut {
			l.close()
		} else {
			c.links.Go(l.run)
		}
	}
	return n
}

// retire removes a node that was learned from the servers. The caller holds c.mu.
func (c *Client) retire(n *node) {
	c.nodes.Store(new(slices.DeleteFunc(slices.Clone(*c.nodes.Load()), func(o *node) bool { return o == n })))
	if c.leader == n {
		c.leader = nil
	}
	for _, l := range n.links {
		if nc := l.close(); nc != nil {
			c.links.Go(func() { nc.Close() })
		}
	}
}

// replace lets n take over from old, which is the same server. old is removed when it has
// replied to everything that it was sent. The caller holds c.mu.
func (c *Client) replace(old, n *node) {
	old.leaving.Store(true)
	if c.leader == old {
		c.leader = n
	}
	c.choose()
	c.dismiss(old)
}

// dismiss removes a node that is leaving if it has no calls. The caller holds c.mu.
func (c *Client) dismiss(n *node) {
	for _, l := range n.links {
		if !l.closeIdle() {
			return
		}
	}
	c.retire(n)
}

// byAddr finds a node by the address at which it is dialled or that it announces. It
// returns nil for "", which several nodes may announce. The caller holds c.mu.
func (c *Client) byAddr(addr string) *node {
	if addr == "" {
		return nil
	}
	for _, n := range *c.nodes.Load() {
		if (n.addr == addr || n.announced == addr) && !n.leaving.Load() {
			return n
		}
	}
	return nil
}

// target returns the link for a call.
func (c *Client) target(flags uint16) *link {
	n := c.route.Load()
	if flags&followed != 0 && c.o.ReadFrom != ReadLeader {
		n = c.reader(n)
	}
	return n.link()
}

// reader returns the node for a call that only reads.
func (c *Client) reader(leader *node) *node {
	list := *c.nodes.Load()
	first := int(c.turn.Add(1))
	for i := range list {
		n := list[(first+i)%len(list)]
		if n.up() && !n.leaving.Load() && (n != leader || c.o.ReadFrom == ReadAny) {
			return n
		}
	}
	return leader
}

// choose selects the node that receives writes: the leader if it is connected, else the
// present node, else any connected one. From there it follows the nodes that were named as
// leader; a node names the same leader only once. The caller holds c.mu.
func (c *Client) choose() {
	if c.leader.usable() {
		c.route.Store(c.leader)
		return
	}
	list := *c.nodes.Load()
	now := c.route.Load()
	if !now.usable() {
		if i := slices.IndexFunc(list, (*node).usable); i >= 0 {
			now = list[i]
		} else if now.retired() || now.leaving.Load() { // to one where calls can wait
			now = list[slices.IndexFunc(list, func(n *node) bool { return n.given })]
		}
	}
	for range list {
		if named := now.leads; named != now && named.usable() {
			c.leader, now = named, named
		}
	}
	c.route.Store(now)
}

// connected is called when a link has established a connection.
func (c *Client) connected(l *link, g *greeting) {
	c.mu.Lock()
	c.learn(l.node, g)
	c.choose()
	c.mu.Unlock()
	c.rescue()
}

// disconnected is called when a link has lost its connection or could not make one. Its
// calls end or move to another link.
func (c *Client) disconnected(l *link, cause error) {
	sent, unsent := l.broken()
	c.mu.Lock()
	if cause != ErrClosed { // then only this link was closed, or nobody asks any more
		c.last = cause
	}
	c.choose()
	up := c.route.Load().up()
	c.mu.Unlock()
	select {
	case <-c.closing:
		cause = ErrClosed
	default:
	}
	var list []slot
	for i := range sent {
		s := &sent[i]
		switch {
		case s.flags&(void|dropped) != 0:
			c.inFlight.release(1)
		case cause != ErrClosed && s.again():
			if s.breaks() {
				c.inFlight.release(1)
				c.notifier.notify(*s, c.suspect(s, cause, l.node.addr))
				continue
			}
			c.counts.retries.Add(1)
			list = append(list, *s)
		default:
			c.inFlight.release(1)
			c.notifier.notify(*s, c.unknown(cause, l.node.addr))
		}
	}
	list = append(list, unsent...)
	if refused(cause) && !up {
		for i := range list {
			c.inFlight.release(1)
			c.notifier.notify(list[i], cause)
		}
		return
	}
	c.move(list)
}

// suspect returns the error of a call that has broken too many connections.
func (c *Client) suspect(s *slot, cause error, addr string) *Error {
	code := CodeOutcomeUnknown
	if s.flags&readsOnly != 0 {
		code = CodeUnavailable
	} else {
		c.counts.unknown.Add(1)
	}
	e := errorf(code, "the connection broke twice after the call was sent: it may be the call that crashes the server (%w)", cause)
	e.Node = addr
	return e
}

// refused reports whether err means that a server was reached but rejected the client.
func refused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == codeUnauthenticated
}

// move puts calls that are in no queue into one.
func (c *Client) move(list []slot) {
	live := list[:0]
	for _, s := range list {
		if s.flags&(void|dropped) != 0 || s.w != nil && s.w.state.Load() != pending {
			c.inFlight.release(1)
			continue
		}
		live = append(live, s)
	}
	for len(live) > 0 {
		select {
		case <-c.closing:
			for _, s := range live {
				c.inFlight.release(1)
				c.notifier.notify(s, ErrClosed)
			}
			return
		default:
		}
		if c.target(0).adopt(live) {
			return
		}
	}
}

// rescue moves calls away from links without a connection while another node has one.
func (c *Client) rescue() {
	if !c.route.Load().up() {
		return
	}
	for _, n := range *c.nodes.Load() {
		for _, l := range n.links {
			if list := l.strand(); len(list) > 0 {
				c.move(list)
			}
		}
	}
}

// later schedules a call to be sent again if another node, or the same one soon, can run
// it. It reports whether there is enough time for that. The call's slot is in no queue.
func (c *Client) later(s *slot, now int64) bool {
	at := now + int64(c.retryPause(s.tries))
	if s.deadline != 0 && at >= s.deadline || s.tries == 255 {
		return false
	}
	s.tries++
	c.counts.retries.Add(1)
	if s.w != nil {
		s.w.place.Store(nil)
	}
	c.inFlight.used.Add(1)
	c.delayedMu.Lock()
	select {
	case <-c.closing:
		c.delayedMu.Unlock()
		c.inFlight.release(1)
		return false
	default:
	}
	c.delayed = append(c.delayed, delayed{*s, at})
	c.delayedMu.Unlock()
	c.whoLeads(now)
	return true
}

// endDelayed ends the calls that wait to be sent again.
func (c *Client) endDelayed() {
	c.delayedMu.Lock()
	list := c.delayed
	c.delayed = nil
	c.delayedMu.Unlock()
	for i := range list {
		c.inFlight.release(1)
		c.notifier.notify(list[i].s, ErrClosed)
	}
}

// unavailable returns the error of a call that found no node.
func (c *Client) unavailable(cause error) error {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	if last == nil {
		last = cause
	}
	return errorf(CodeUnavailable, "no node could be reached in time; nothing was sent: %w", last)
}

// whoLeads asks all nodes for the leader, unless it did so recently.
func (c *Client) whoLeads(now int64) {
	c.mu.Lock()
	ask := c.asked == 0 || now-c.asked > int64(50*time.Millisecond)
	if ask {
		c.asked = now
	}
	c.mu.Unlock()
	if !ask {
		return
	}
	for _, n := range *c.nodes.Load() {
		l := n.links[0]
		if !l.up.Load() {
			continue
		}
		r := request{verb: verbDo, flags: readsOnly, start: now, deadline: now + int64(time.Second), size: 64}
		r.done = func(res Result, err error) {
			if err != nil {
				return
			}
			text, _ := res.Bytes()
			c.mu.Lock()
			c.learn(n, &greeting{nodes: text})
			c.choose()
			c.mu.Unlock()
		}
		c.inFlight.used.Add(1)
		if !l.add(&r, []any{"CLUSTER", "NODES"}) {
			c.inFlight.release(1)
		}
	}
}
