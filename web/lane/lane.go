// Package lane answers simple HTTP/1.1 requests on their connection before net/http
// sees them, and hands all others over to net/http, bytes and connection untouched.
//
// It knows HTTP/1.1, connections and which requests are simple; it must not know what a
// request means: the handler of the http.Server answers in both ways, unless a Fast
// function of the route has answered already.
//
// A request is simple if every byte of it is on an allow-list; see parse. A connection
// with any other request belongs to net/http from that request on.
package lane

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Limits. A request over one goes to net/http, which has limits of its own.
const (
	// MaxHeadBytes is the longest request line with header fields.
	MaxHeadBytes = 8 << 10
	// MaxHeadFields is how many header fields a request may have besides Host.
	MaxHeadFields = 24
	// MaxBodyBytes is the longest body.
	MaxBodyBytes = 64 << 10
	// MaxBodyWait is how long the rest of a body may take to arrive.
	MaxBodyWait = 2 * time.Second
	// MaxHeld is how many bytes of responses to pipelined requests are sent in one write at most.
	MaxHeld = 64 << 10
)

// watchAfter is how long a request runs before the lane looks whether its client is gone. Most
// requests end sooner, and looking costs a goroutine.
const watchAfter = 50 * time.Millisecond

// stopWait is how long Shutdown waits for running requests before it also stops net/http.
const stopWait = time.Second

// Options of a Server.
type Options struct {
	// HTTP serves what the lane does not. The lane uses its Handler, timeouts, TLSConfig, ConnContext
	// and ErrorLog. New changes Handler and TLSConfig, so HTTP must be set up before, and serve nothing else.
	HTTP *http.Server

	// Routes are the requests that the lane may answer.
	Routes []Route

	// Admission, if not nil, returns what counts the requests of a connection, given its context; nil: nothing does.
	// The Handler of HTTP counts those that it serves itself.
	Admission func(conn context.Context) Admission

	// Stop, if not nil, is called when Shutdown begins. It ends responses that would not end by themselves.
	Stop func()

	// Logger gets faults; nil discards them.
	Logger *slog.Logger
}

// Admission counts the requests in progress of one connection.
type Admission interface {
	// Enter is called before a request that no handler serves. If it reports false, the connection is closed.
	Enter() bool
	// Leave is called after it.
	Leave()
}

// Server serves a listener. Its methods may be called concurrently.
type Server struct {
	http   *http.Server
	routes *table
	log    *slog.Logger
	onStop func()
	admit  func(conn context.Context) Admission
	over   *handedOver
	dates  dates
	base   context.Context
	tls    *tls.Config // nil: without TLS

	answered, handed atomic.Uint64
	stopping         atomic.Bool
	group            sync.WaitGroup // of connections in the lane

	mu       sync.Mutex // guards the fields below
	conns    map[*conn]struct{}
	listener net.Listener
	closed   bool // no connection begins any more
}

// New returns a Server.
func New(o Options) *Server {
	s := &Server{
		http: o.HTTP, routes: newTable(o.Routes), log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		onStop: o.Stop, admit: o.Admission, over: newHandedOver(), conns: map[*conn]struct{}{},
		base: context.WithValue(context.Background(), http.ServerContextKey, o.HTTP),
	}
	next, connContext := o.HTTP.Handler, o.HTTP.ConnContext
	o.HTTP.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			r.TLS = tlsOf(r.Context())
		}
		next.ServeHTTP(w, r)
	})
	o.HTTP.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if r, ok := c.(*replayed); ok && r.tls != nil {
			ctx = context.WithValue(ctx, tlsKey{}, r.tls)
		}
		if connContext != nil {
			ctx = connContext(ctx, c)
		}
		return ctx
	}
	if c := o.HTTP.TLSConfig; c != nil {
		c = c.Clone()
		for _, name := range []string{"h2", "http/1.1"} { // as ServeTLS does
			if !slices.Contains(c.NextProtos, name) {
				c.NextProtos = append(slices.Clip(c.NextProtos), name)
			}
		}
		o.HTTP.TLSConfig, s.tls = c, c.Clone() // net/http changes its own
	}
	return s
}

// tlsKey is where the context of a connection over TLS has its state.
type tlsKey struct{}

// tlsOf returns the state of the TLS connection of a request that net/http serves after the lane.
func tlsOf(ctx context.Context) *tls.ConnectionState {
	t, _ := ctx.Value(tlsKey{}).(*tls.ConnectionState)
	return t
}

// Serve accepts connections from l until Shutdown or Close, and then returns http.ErrServerClosed.
// Connections use TLS if the http.Server has a TLSConfig. Serve can be called once.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	s.listener = l
	closed := s.closed
	s.mu.Unlock()
	if closed {
		l.Close()
		return http.ErrServerClosed
	}
	s.over.addr = l.Addr()
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(s.over) }()
	for {
		nc, err := l.Accept()
		if err != nil {
			if s.stopping.Load() {
				return <-failed
			}
			_ = s.Close()
			if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
				err = errors.Join(err, served)
			}
			return err
		}
		if c := s.begin(nc); c != nil {
			go c.run()
		}
	}
}

// begin makes nc a connection of the lane, or closes it if the server has stopped.
func (s *Server) begin(nc net.Conn) *conn {
	ctx := context.WithValue(s.base, http.LocalAddrContextKey, nc.LocalAddr())
	if s.tls != nil {
		nc = tls.Server(nc, s.tls)
	}
	if s.http.ConnContext != nil {
		ctx = s.http.ConnContext(ctx, nc)
	}
	c := &conn{s: s, nc: nc, ctx: ctx, remote: nc.RemoteAddr().String()}
	if s.admit != nil {
		c.admission = s.admit(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		nc.Close()
		return nil
	}
	s.conns[c] = struct{}{}
	s.group.Add(1)
	return c
}

// leave removes a connection that ended or was handed over.
func (s *Server) leave(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.group.Done()
}

// Shutdown stops the server as http.Server.Shutdown does: it closes the listener and idle connections, and
// waits for requests in progress until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	if s.onStop != nil {
		s.onStop()
	}
	ended := make(chan struct{})
	go func() {
		s.group.Wait()
		close(ended)
	}()
	early := time.NewTimer(stopWait)
	defer early.Stop()
	select { // before net/http, which could not take a connection any more
	case <-ended:
	case <-early.C:
	case <-ctx.Done():
	}
	err := s.http.Shutdown(ctx)
	select {
	case <-ended:
		return err
	default:
	}
	select {
	case <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop closes the listener and idle connections.
func (s *Server) stop() {
	s.stopping.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.listener != nil {
		s.listener.Close()
	}
	for c := range s.conns {
		c.wake()
	}
}

// Close closes the listener and all connections.
func (s *Server) Close() error {
	s.stop()
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range conns {
		c.nc.Close()
	}
	return s.http.Close()
}

// Metrics yields how many requests the lane answered, and how many connections it handed over, for the
// listener called name.
func (s *Server) Metrics(name string) []engine.Metric {
	at := []engine.Label{{Name: "listener", Value: name}}
	return []engine.Metric{
		{Name: "http_lane_requests_total", Help: "Requests that were answered without net/http.", Labels: at, Counter: true, Value: float64(s.answered.Load())},
		{Name: "http_lane_handovers_total", Help: "Connections that were handed over to net/http.", Labels: at, Counter: true, Value: float64(s.handed.Load())},
	}
}
