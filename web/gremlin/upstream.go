package gremlin

import (
	"bufio"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
)

const (
	// freshFor is how long after its last use a connection to another node is assumed to
	// work. After that the node has to answer a ping first, so that no write is lost on a
	// dead connection.
	freshFor = 100 * time.Millisecond
	// keepUpstream is how long an unused connection is kept.
	keepUpstream = 30 * time.Second
	// nodeWait bounds opening a connection, and a ping.
	nodeWait = 3 * time.Second
	// nodeStall is how long another node may accept nothing of a frame.
	nodeStall = 30 * time.Second
	// nodeSlack is how much longer than its time limit a request may take at another
	// node, which ends it by itself.
	nodeSlack = 5 * time.Second
	// leaderCheck is how often a request looks whether the other node still leads, and
	// deposedGrace is how long one that does not has to answer.
	leaderCheck  = 250 * time.Millisecond
	deposedGrace = time.Second
)

// upstreams are the connections to the node that leads.
type upstreams struct {
	router forward.Router
	slots  chan struct{} // one for each request that has a connection

	answered, refused, broken atomic.Uint64 // attempts by outcome

	mu     sync.Mutex // guards what follows
	idle   []*upstream
	closed bool
}

func newUpstreams(o *Options) *upstreams {
	if o.Cluster == nil {
		return nil
	}
	return &upstreams{
		router: forward.Router{Cluster: o.Cluster, Patience: o.ElectionWait, Limit: forward.MaxForwards},
		slots:  make(chan struct{}, o.Upstreams),
	}
}

// upstream is a connection to another node, for one request or one session at a time.
type upstream struct {
	of   *upstreams
	node uint64
	nc   net.Conn

	answers chan *answer // closed when there are no more, because of err
	err     error
	gone    chan struct{} // closed by close
	once    sync.Once

	used   time.Time
	expire *time.Timer // runs while it is idle
}

// get returns a connection to a node that has just answered. An error means that
// nothing was sent.
func (p *upstreams) get(ctx context.Context, node uint64) (*upstream, error) {
	for u := p.take(node); u != nil; u = p.take(node) {
		if u.works(ctx) == nil {
			return u, nil
		}
		u.close()
	}
	wait, cancel := context.WithTimeout(ctx, nodeWait)
	defer cancel()
	nc, err := p.router.Cluster.Dial(wait, node, NodeProtocol)
	if err != nil {
		return nil, engine.Errorf(engine.CodeNotLeader, "connect to the leader, node %d: %w", node, err)
	}
	u := &upstream{of: p, node: node, nc: nc, answers: make(chan *answer), err: net.ErrClosed, gone: make(chan struct{})}
	go u.read()
	// A node that stops may close what it has not served: nothing is sent before it answers.
	if err := u.ping(ctx); err != nil {
		u.close()
		return nil, engine.Errorf(engine.CodeNotLeader, "the leader, node %d, does not answer: %w", node, err)
	}
	return u, nil
}

// take removes the connection to a node that was used last.
func (p *upstreams) take(node uint64) *upstream {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		if u := p.idle[i]; u.node == node {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			u.expire.Stop()
			return u
		}
	}
	return nil
}

// put gives a connection back whose last request was answered.
func (p *upstreams) put(u *upstream) {
	u.used = time.Now()
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.idle = append(p.idle, u)
		if u.expire == nil {
			u.expire = time.AfterFunc(keepUpstream, func() { p.drop(u) })
		} else {
			u.expire.Reset(keepUpstream)
		}
	}
	p.mu.Unlock()
	if closed {
		u.close()
	}
}

// drop closes a connection if it is idle, and reports whether it was.
func (p *upstreams) drop(u *upstream) bool {
	p.mu.Lock()
	at := -1
	for i, other := range p.idle {
		if other == u {
			at = i
		}
	}
	if at >= 0 {
		p.idle = append(p.idle[:at], p.idle[at+1:]...)
		u.expire.Stop()
	}
	p.mu.Unlock()
	if at >= 0 {
		u.close()
	}
	return at >= 0
}

// close closes idle connections, and others when they are given back.
func (p *upstreams) close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, u := range idle {
		u.expire.Stop()
		u.close()
	}
}

func (u *upstream) close() {
	u.once.Do(func() {
		close(u.gone)
		u.nc.Close()
	})
}

// read reads answers until the connection ends. It reads on when an answer was taken,
// so a client that does not read its results stops the node that sends them.
func (u *upstream) read() {
	defer close(u.answers)
	r := bufio.NewReader(u.nc)
	for {
		a, err := readAnswer(r)
		if u.of.drop(u) { // nothing was asked: the node says that it stops
			return
		}
		if err != nil {
			u.err = err
			return
		}
		select {
		case u.answers <- a:
		case <-u.gone:
			return
		}
	}
}

// works pings the other node, unless it was there a moment ago.
func (u *upstream) works(ctx context.Context) error {
	if time.Since(u.used) < freshFor {
		return nil
	}
	return u.ping(ctx)
}

func (u *upstream) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, nodeWait)
	defer cancel()
	a, _, err := u.call(ctx, &ask{kind: framePing}, nil)
	if err != nil {
		return err
	}
	return a.err()
}

// call sends a request and returns the end of its answer; batch takes the results
// before it. After an error the connection is closed; sent is whether the other node
// may have the request. An error of batch is returned as it is.
func (u *upstream) call(ctx context.Context, a *ask, batch func(*answer) error) (end *answer, sent bool, err error) {
	defer func() {
		if err != nil {
			u.close()
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	select {
	case got, ok := <-u.answers: // the other node has stopped, or says that it does
		if ok {
			return got, false, nil
		}
		return nil, false, u.err
	default:
	}
	stop := context.AfterFunc(ctx, u.close)
	_ = u.nc.SetWriteDeadline(time.Now().Add(nodeStall))
	b := a.append(nil)
	n, err := u.nc.Write(b)
	stop()
	if err != nil {
		return nil, n >= len(b), broken(ctx, err)
	}
	tick := time.NewTicker(leaderCheck)
	defer tick.Stop()
	var since time.Time // the other node has not led
	for {
		select {
		case got, ok := <-u.answers:
			switch {
			case !ok:
				return nil, true, broken(ctx, u.err)
			case got.kind == frameEnd:
				return got, true, nil
			case batch == nil:
				return nil, true, errFrame
			}
			if err := batch(got); err != nil {
				return nil, true, err
			}
		case <-tick.C:
			if since, err = u.deposed(since); err != nil {
				return nil, true, err
			}
		case <-ctx.Done():
			return nil, true, context.Cause(ctx)
		}
	}
}

// broken returns why a connection has ended: because of ctx, or else err.
func broken(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// deposed returns since when the other node does not lead, as far as this one knows,
// and an error if no answer is to be expected any more.
func (u *upstream) deposed(since time.Time) (time.Time, error) {
	switch leader := u.of.router.Cluster.State().Leader; {
	case leader == u.node:
		return time.Time{}, nil
	case since.IsZero():
		return time.Now(), nil
	case leader != 0 && time.Since(since) > deposedGrace, time.Since(since) > u.of.router.Patience:
		return since, engine.Errorf(engine.CodeNotLeader, "node %d does not lead any more", u.node)
	}
	return since, nil
}
