package peer

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// accept accepts connections until the port is closed.
func (p *Port) accept() {
	pause := 5 * time.Millisecond
	for {
		raw, err := p.ln.Accept()
		if p.ctx.Err() != nil || errors.Is(err, net.ErrClosed) { // by Close
			if err == nil {
				raw.Close()
			}
			return
		}
		if err != nil { // usually too many open files, which is temporary
			p.log.Warn("accept a connection on the node port", "err", err)
			select {
			case <-time.After(pause):
			case <-p.ctx.Done():
			}
			pause = min(2*pause, time.Second)
			continue
		}
		pause = 5 * time.Millisecond
		if p.enter(raw) {
			p.group.Go(func() { p.take(raw) })
		}
	}
}

// enter adds an unauthenticated connection, closing the oldest one if there are too
// many. It reports false if the port is closed.
func (p *Port) enter(raw net.Conn) bool {
	p.mu.Lock()
	var oldest net.Conn
	if !p.closed {
		if len(p.guests) >= p.o.Guests {
			oldest = p.guests[0]
			p.guests = slices.Delete(p.guests, 0, 1)
			p.stats.Evicted++
		}
		p.guests = append(p.guests, raw)
	}
	closed := p.closed
	p.mu.Unlock()
	if oldest != nil {
		oldest.Close()
	}
	if closed {
		raw.Close()
	}
	return !closed
}

// leave removes a connection from the unauthenticated ones.
func (p *Port) leave(raw net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.guests, raw); i >= 0 {
		p.guests = slices.Delete(p.guests, i, i+1)
	}
}

// take identifies the peer and the protocol of a connection, and serves it.
func (p *Port) take(raw net.Conn) {
	keepAlive(raw)
	raw.SetDeadline(time.Now().Add(p.o.HandshakeTimeout))
	c, skew, err := p.welcome(raw, p.ready)
	if err != nil {
		p.complain(raw, c, err)
		if isRefusal(err) {
			c.part()
		}
		raw.Close()
		p.leave(raw)
		return
	}
	p.leave(raw)
	if p.keep(c, true) != nil {
		return
	}
	raw.SetDeadline(time.Time{})
	switch c.hello.Protocol {
	case ProtocolRaft:
		if !p.met(c, skew) {
			c.kill()
			return
		}
		p.receive(c)
	case ProtocolSnap:
		p.takeSnapshot(c)
	case ProtocolCall:
		p.answerCall(c)
	default:
		p.handOn(c)
	}
}

// ready refuses protocols that this port does not serve, and connections over the
// limit.
func (p *Port) ready(h Hello) *RefusedError {
	p.mu.Lock()
	_, served := p.protocols[h.Protocol]
	full := p.accepted >= p.o.Conns
	p.mu.Unlock()
	switch h.Protocol {
	case ProtocolRaft:
		served = p.o.Receive != nil
	case ProtocolSnap:
		served = p.o.Snapshot != nil
	case ProtocolCall:
		served = p.o.Handle != nil
	}
	if !served {
		return refuse(CodeProtocol, "node %d does not serve the protocol %.100q", p.id.Node, h.Protocol)
	}
	if full {
		return refuse(CodeBusy, "node %d has %d connections", p.id.Node, p.o.Conns)
	}
	return nil
}

func isRefusal(err error) bool {
	_, ok := errors.AsType[*RefusedError](err)
	return ok
}

// complain counts a rejected connection and logs it, at most once a second.
func (p *Port) complain(raw net.Conn, c *Conn, err error) {
	p.mu.Lock()
	if isRefusal(err) {
		p.stats.Refused++
	} else {
		p.stats.Strange++
	}
	say := !p.closed && time.Since(p.complaint) >= time.Second
	if say {
		p.complaint = time.Now()
	}
	p.mu.Unlock()
	if say {
		p.log.Warn("refused a connection on the node port", "from", raw.RemoteAddr().String(),
			"node", c.hello.Node, "err", err)
	}
}

// admitNode refuses a second node with the same id. It remembers nodes only while
// the process runs; the owner's Check may know more.
func (p *Port) admitNode(h Hello, _ bool) *RefusedError {
	if h.Node == p.id.Node {
		if h.Protocol == ProtocolRaft {
			return refuse(CodeTwin, "node %d talks to itself", h.Node)
		}
		return nil // its operator, or a face that forwards to its own node
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.known[h.Node]
	if k == nil {
		return nil
	}
	if k.hello.Folder != h.Folder {
		return refuse(CodeTwin, "two data folders run as node %d; stop one, and give it its own invitation", h.Node)
	}
	if h.Start != 0 && k.live > 0 && slices.Contains(k.old, h.Start) {
		return refuse(CodeTwin, "two programs run as node %d, with copies of one data folder; stop one, and remove its folder", h.Node)
	}
	return nil
}

// met records a node that was accepted for raft messages, and its connection until
// that is closed. It reports whether the connection may be used.
func (p *Port) met(c *Conn, skew time.Duration) bool {
	h := c.hello
	p.mu.Lock()
	held, open := p.conns[c]
	k := p.known[h.Node]
	if k == nil {
		k = &known{hello: h, received: new(atomic.Uint64), receivedBytes: new(atomic.Uint64)}
	}
	if !open || k.hello.Folder != h.Folder { // closed, or a twin that connected at the same time
		p.mu.Unlock()
		return false
	}
	p.known[h.Node] = k
	if k.hello.Start != h.Start {
		k.old = append(slices.DeleteFunc(k.old, func(s uint64) bool { return s == h.Start }), k.hello.Start)
		k.old = k.old[max(0, len(k.old)-oldStarts):]
		k.live = 0
	}
	k.live++
	k.hello = h
	held.known = k
	p.conns[c] = held
	l := (*p.links.Load())[h.Node]
	p.mu.Unlock()
	p.clock(h.Node, skew)
	if l != nil {
		signal(l.hurry)
	}
	return true
}

// clock records how far a node's clock is ahead.
func (p *Port) clock(id uint64, skew time.Duration) {
	p.mu.Lock()
	k := p.known[id]
	if k == nil {
		p.mu.Unlock()
		return
	}
	k.skew = skew
	beyond := skew.Abs() > p.o.Skew
	changed := beyond != k.skewed
	k.skewed = beyond
	p.mu.Unlock()
	switch {
	case changed && beyond:
		p.log.Warn("the clocks of two nodes differ; this affects only the times shown and when keys expire",
			"node", id, "ahead", skew.Round(time.Millisecond))
	case changed:
		p.log.Info("the clocks of two nodes agree again", "node", id)
	}
}

// inbound is a connection that receives messages.
type inbound struct {
	c    *Conn
	done chan struct{} // closed when Receive is no longer called for it
}

// receive receives messages until the connection ends. A newer connection of the
// same node replaces it.
func (p *Port) receive(c *Conn) {
	defer c.kill()
	in := &inbound{c, make(chan struct{})}
	defer close(in.done)
	p.mu.Lock()
	k := p.known[c.Node()]
	if k == nil { // removed in the meantime
		p.mu.Unlock()
		return
	}
	old := k.inbound
	k.inbound = in
	p.mu.Unlock()
	if old != nil {
		old.c.kill()
		<-old.done
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if k.inbound == in {
			k.inbound = nil
		}
	}()
	c.wire.widen(p.o.IdleTimeout, p.o.IdleTimeout)
	var pinged pings
	ctx, stop := context.WithCancel(p.ctx)
	var beats sync.WaitGroup
	beats.Go(func() { p.beat(ctx, c, &pinged) })
	defer beats.Wait()
	defer c.kill()
	defer stop()
	f := frames{r: bufio.NewReaderSize(c.Conn, 64<<10), limit: p.o.MessageBytes, ping: func(stamp uint64) {
		pinged.set(stamp, p.stamp())
	}}
	for {
		msg, err := f.next()
		if err != nil {
			if !lost(err) {
				p.log.Warn("the messages of a node were cut off", "node", c.Node(), "err", err)
			}
			return
		}
		k.received.Add(1)
		k.receivedBytes.Add(uint64(len(msg)))
		p.o.Receive(c.Node(), msg)
	}
}

// pings is the last ping: its stamp, and when it arrived.
type pings struct {
	mu        sync.Mutex // guards both
	stamp, at uint64
}

func (p *pings) set(stamp, at uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stamp, p.at = stamp, at
}

func (p *pings) get() (stamp, at uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stamp, p.at
}

// beat regularly confirms to the sender that its messages are being read.
func (p *Port) beat(ctx context.Context, c *Conn, pinged *pings) {
	tick := time.NewTicker(p.o.IdleTimeout / 6)
	defer tick.Stop()
	var out []byte
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		stamp, at := pinged.get()
		held := p.stamp() - at
		out = binary.LittleEndian.AppendUint32(out[:0], beatBytes)
		out = append(out, frameBeat)
		out = binary.LittleEndian.AppendUint64(out, stamp)
		out = binary.LittleEndian.AppendUint64(out, held)
		out = binary.LittleEndian.AppendUint64(out, uint64(p.o.Now().UnixNano()))
		if _, err := c.Conn.Write(out); err != nil {
			c.kill()
			return
		}
	}
}

// listener accepts the connections of one protocol.
type listener struct {
	p    *Port
	name string
	ch   chan net.Conn
	done chan struct{}
	once sync.Once
}

// Protocol returns a listener for the connections that other nodes open with Dial
// for the protocol. Each is a *Conn. It panics if the protocol already has a
// listener or is the port's own. After Close of the port it returns a closed
// listener.
func (p *Port) Protocol(name string) net.Listener {
	// All connections that ready lets in may wait to be accepted: one that is closed then may have sent a write.
	l := &listener{p: p, name: name, ch: make(chan net.Conn, p.o.Conns), done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.shut()
		return l
	}
	if p.protocols[name] != nil || name == "" || name == ProtocolRaft || name == ProtocolSnap || name == ProtocolCall {
		panic(fmt.Sprintf("BUG: a second listener for the protocol %q", name))
	}
	p.protocols[name] = l
	return l
}

// handOn passes a connection to the listener of its protocol.
func (p *Port) handOn(c *Conn) {
	p.mu.Lock()
	l := p.protocols[c.hello.Protocol]
	p.mu.Unlock()
	if l != nil {
		select {
		case <-l.done:
		case l.ch <- c:
			select {
			case <-l.done: // the listener may have closed before c was queued
				l.drain()
			default:
			}
			return
		default:
			p.log.Warn("too many connections wait to be accepted", "protocol", l.name)
		}
	}
	c.kill()
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.ch:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close makes Accept return net.ErrClosed. Accepted connections stay open.
func (l *listener) Close() error {
	l.p.mu.Lock()
	if l.p.protocols[l.name] == l {
		delete(l.p.protocols, l.name)
	}
	l.p.mu.Unlock()
	l.shut()
	return nil
}

func (l *listener) shut() {
	l.once.Do(func() { close(l.done) })
	l.drain()
}

// drain closes the connections that will not be accepted any more.
func (l *listener) drain() {
	for {
		select {
		case c := <-l.ch:
			c.Close()
		default:
			return
		}
	}
}

func (l *listener) Addr() net.Addr { return l.p.ln.Addr() }
