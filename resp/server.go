package resp

import (
	"context"
	"crypto/sha256"
	"hash/crc64"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/resp/wire"
)

// closeGrace is how long Serve waits for running commands when it ends.
const closeGrace = 5 * time.Second

// Server serves Redis clients. It is safe for concurrent use.
type Server struct {
	store    *kv.Store
	feed     *feed.Feed // nil: CLIENT TRACKING fails
	opts     Options
	password [sha256.Size]byte
	table    map[string]*command
	kinds    map[engine.Code]engine.Kind
	crc      *crc64.Table
	packer   packer
	docs     docs
	bufs     wire.Buffers
	started  time.Time
	runID    string
	stats    stats
	pause    pause
	input    inputMemory
	cursors  cursors
	tracker  tracker
	router   forward.Router // to the leader
	ups      upstreams
	slow     slowlog
	rates    rates

	tallies    [tallies]tally
	errorTally errorTally

	nextID atomic.Int64
	acked  atomic.Uint64 // the last position at which another node has acknowledged a write

	mu        sync.Mutex // guards the fields below
	conns     map[int64]*conn
	nodeConns map[int64]*conn // opened by other nodes
	listeners map[net.Listener]struct{}
	consoles  int      // that are open
	bind      net.Addr // of the first listener for clients
	closed    bool
	done      chan struct{} // closed when closed is set
}

// New returns a Server for the keys in store. Its first key spaces are the databases; see
// Options.Databases. If f is nil, CLIENT TRACKING fails.
func New(store *kv.Store, f *feed.Feed, o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		store: store, feed: f, opts: o,
		router:    forward.Router{Cluster: o.Cluster, Patience: o.ElectionWait},
		password:  sha256.Sum256([]byte(o.Password)),
		table:     commands(),
		kinds:     kindsOf(o.Errors),
		crc:       crcTable(),
		started:   time.Now(),
		runID:     newRunID(),
		conns:     map[int64]*conn{},
		nodeConns: map[int64]*conn{},
		listeners: map[net.Listener]struct{}{},
		done:      make(chan struct{}),
	}
	if err := extend(s.table, o.Commands); err != nil {
		return nil, err
	}
	s.initTallies()
	s.slow.init()
	s.input.most = o.MaxInputBytes
	s.pause.init()
	s.cursors.init()
	s.tracker.init(s)
	s.ups.init(s)
	return s, nil
}

// Serve accepts connections from l until ctx ends, Close is called or l fails. Then it
// closes l, lets running commands finish, closes all connections that it accepted and
// returns. The error is nil unless l failed. Serve may be called for several listeners.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.mu.Lock()
	if s.bind == nil {
		s.bind = l.Addr()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	defer close(done)
	go s.sample(done)
	return s.serve(ctx, l, false)
}

// ServeNode is like Serve for connections that other nodes of the cluster open to run their
// clients' commands on the leader. They have already authenticated and are not counted as
// clients. If this node is not the leader, they get engine.ErrNotLeader's text.
func (s *Server) ServeNode(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, l, true)
}

func (s *Server) serve(ctx context.Context, l net.Listener, node bool) error {
	if !node {
		l = s.gated(l)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		l.Close()
		return engine.Errorf(engine.CodeClosed, "resp: the server is closed")
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()

	var mine connGroup
	err := s.accept(l, &mine, node)
	s.mu.Lock()
	delete(s.listeners, l)
	if s.closed || ctx.Err() != nil {
		err = nil
	}
	s.mu.Unlock()
	l.Close()
	mine.end(closeGrace)
	return err
}

// accept starts a goroutine for every connection until l is closed.
func (s *Server) accept(l net.Listener, mine *connGroup, node bool) error {
	for {
		nc, err := l.Accept()
		if err != nil {
			return err
		}
		var c *conn
		if node {
			c = s.newNodeConn(nc)
		} else {
			s.stats.connections.Add(1)
			c = s.newConn(nc, fromClient)
		}
		if c != nil {
			mine.start(c)
		}
	}
}

// newConn registers a connection. It returns nil if the server is closed.
func (s *Server) newConn(nc net.Conn, from origin) *conn {
	c := newConn(s, nc, s.nextID.Add(1), from)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		nc.Close()
		return nil
	}
	s.conns[c.id] = c
	return c
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	delete(s.conns, c.id)
	delete(s.nodeConns, c.id)
	s.mu.Unlock()
}

// clients returns the connections, sorted by id.
func (s *Server) clients() []*conn {
	s.mu.Lock()
	list := make([]*conn, 0, len(s.conns))
	for _, c := range s.conns {
		list = append(list, c)
	}
	s.mu.Unlock()
	sortConns(list)
	return list
}

// client returns the connection with the given id, or nil.
func (s *Server) client(id int64) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[id]
}

// Close ends all Serve calls and connections. It does not wait for Serve.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	for l := range s.listeners {
		l.Close()
	}
	for _, c := range s.conns {
		c.kill()
	}
	for _, c := range s.nodeConns {
		c.kill()
	}
	s.mu.Unlock()
	s.ups.close()
	s.tracker.close()
}

// connGroup is the connections of one Serve call.
type connGroup struct {
	wg    sync.WaitGroup
	mu    sync.Mutex
	conns map[*conn]struct{}
}

func (g *connGroup) start(c *conn) {
	g.mu.Lock()
	if g.conns == nil {
		g.conns = map[*conn]struct{}{}
	}
	g.conns[c] = struct{}{}
	g.mu.Unlock()
	g.wg.Go(func() {
		c.serve()
		g.mu.Lock()
		delete(g.conns, c)
		g.mu.Unlock()
	})
}

// end lets every connection finish its running commands, and closes those that do not
// within the grace.
func (g *connGroup) end(grace time.Duration) {
	g.each((*conn).finish)
	done := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-time.After(grace):
	}
	g.each((*conn).kill)
	<-done
}

func (g *connGroup) each(fn func(*conn)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		fn(c)
	}
}

// stats contains counters for INFO. Counters that connections update all the time are in
// their tally instead.
type stats struct {
	connections, rejected   atomic.Int64
	errors                  atomic.Int64
	limited                 atomic.Int64 // connections closed for not reading
	invalidations, protoErr atomic.Int64

	// In a cluster.
	forwarded, retried, unknown, moved atomic.Int64
}

func (s *stats) reset() {
	for _, n := range []*atomic.Int64{&s.connections, &s.rejected, &s.errors, &s.limited, &s.invalidations, &s.protoErr, &s.forwarded, &s.retried, &s.unknown, &s.moved} {
		n.Store(0)
	}
}

// logger returns the logger for errors of one connection.
func (c *conn) logger() *slog.Logger {
	return c.srv.opts.Logger.With("client", c.id, "addr", c.nc.RemoteAddr().String())
}
