package skerry

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/gate"
	"github.com/skerrydb/skerry/resp"
)

// Connections bounds the connections of each listener; see ConnectionsFor.
type Connections struct {
	HTTP  int // of the HTTP listener
	RESP  int // of Redis clients
	Admin int // of the admin listener
	Plain int // of plain HTTP, for the CA

	Gremlin int // of Gremlin drivers

	// In a cluster: connections from other nodes, connections that have not yet proved to be from one, and
	// connections to the leader that forward commands of Redis clients.
	Nodes, NodeGuests, Upstreams int
}

// The largest numbers of connections that ConnectionsFor returns.
const (
	DefaultMaxHTTP  = 32_768 // connections of the HTTP listener
	DefaultMaxAdmin = 1024   // connections of the admin listener
	DefaultMaxPlain = 1024   // connections of plain HTTP

	DefaultMaxGremlin = 1024 // connections of Gremlin drivers
)

const (
	// MinFiles is how many file descriptors a server must be able to open.
	MinFiles = 256
	// ReservedFiles is how many of them incoming connections never take. They are for the files of the data
	// folder, the archive, and outgoing connections.
	ReservedFiles = 128
)

// ConnectionsFor divides files, the number of file descriptors that a process can open, among the listeners of
// a server, so that connections always leave enough of them for the data. It fails with engine.CodeLimit if
// files is below MinFiles.
func ConnectionsFor(files int, cluster bool) (Connections, error) {
	if files < MinFiles {
		return Connections{}, engine.Errorf(engine.CodeLimit,
			"this process can have only %d files and connections open, but needs at least %d: raise the limit (ulimit -n, or LimitNOFILE= of systemd)", files, MinFiles)
	}
	share := func(percent, most int) int { return min((files-ReservedFiles)*percent/100, most) }
	if !cluster {
		return Connections{
			HTTP: share(40, DefaultMaxHTTP), RESP: share(40, resp.DefaultMaxClients),
			Admin: share(8, DefaultMaxAdmin), Plain: share(4, DefaultMaxPlain), Gremlin: share(6, DefaultMaxGremlin),
		}, nil
	}
	const maxNodes, maxNodeGuests = 1024, 256 // the defaults of package peer
	return Connections{
		HTTP: share(28, DefaultMaxHTTP), RESP: share(28, resp.DefaultMaxClients),
		Admin: share(6, DefaultMaxAdmin), Plain: share(3, DefaultMaxPlain), Gremlin: share(5, DefaultMaxGremlin),
		Nodes: share(15, maxNodes), NodeGuests: share(4, maxNodeGuests), Upstreams: share(8, resp.MaxUpstreams),
	}, nil
}

// DefaultConnections is ConnectionsFor the file descriptors that this process can open.
func DefaultConnections(cluster bool) (Connections, error) {
	files, err := gate.Files()
	if err != nil {
		return Connections{}, fmt.Errorf("get the limit of open files: %w", err)
	}
	return ConnectionsFor(files, cluster)
}

// limitConnections fills in what Options.Connections leaves 0.
func (s *Server) limitConnections() error {
	def, err := DefaultConnections(s.cluster != nil)
	if err != nil {
		return err
	}
	c := &s.o.Connections
	for _, n := range []struct{ given, def *int }{
		{&c.HTTP, &def.HTTP}, {&c.RESP, &def.RESP}, {&c.Admin, &def.Admin}, {&c.Plain, &def.Plain}, {&c.Gremlin, &def.Gremlin}, {&c.Upstreams, &def.Upstreams},
	} {
		if *n.given < 0 {
			return engine.Errorf(engine.CodeInvalid, "skerry: Connections has a negative number")
		}
		if *n.given == 0 {
			*n.given = *n.def
		}
	}
	return nil
}

// httpFull is the response to an HTTP client when all connections have a request under way.
const httpFull = `{"type":"about:blank","title":"Service Unavailable","status":503,"code":"queue_full",` +
	`"detail":"all connections of this listener are busy","retryable":true}` + "\n"

// gated bounds the connections of an HTTP listener and wraps the handler of srv. When the listener is full, it
// closes a connection without a request under way for each new one.
func (s *Server) gated(name string, l net.Listener, srv *http.Server) net.Listener {
	most := map[string]int{"http": s.o.Connections.HTTP, "admin": s.o.Connections.Admin, "plain HTTP": s.o.Connections.Plain, "gremlin": s.o.Connections.Gremlin}[name]
	o := gate.Options{Name: name, Max: most, Kept: min(most/16, 8), Logger: s.o.Logger}
	if srv.TLSConfig == nil {
		o.Refusal = fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(httpFull), httpFull)
	}
	g := gate.New(l, o)
	s.doors = append(s.doors, door{name, g})
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		for over, ok := c.(interface{ NetConn() net.Conn }); ok; over, ok = c.(interface{ NetConn() net.Conn }) {
			c = over.NetConn() // beneath TLS and the lane
		}
		if c, ok := c.(*gate.Conn); ok {
			return gate.NewContext(ctx, c)
		}
		return ctx
	}
	h := srv.Handler
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := gate.FromContext(r.Context())
		if c == nil || !c.Enter() {
			panic(http.ErrAbortHandler) // it was just closed to make room
		}
		defer c.Leave()
		h.ServeHTTP(w, r)
	})
	return g
}

// door is a bounded listener with its name.
type door struct {
	name string
	*gate.Listener
}

// connectionMetrics yields the connection counts of the HTTP listeners, and the wrong passwords.
func (s *Server) connectionMetrics() iter.Seq[engine.Metric] {
	var list []engine.Metric
	for _, d := range s.doors {
		n, at := d.Stats(), []engine.Label{{Name: "listener", Value: d.name}}
		list = append(list, []engine.Metric{
			{Name: "http_connections", Help: "Connections.", Labels: at, Value: float64(n.Guests + n.Members)},
			{Name: "http_max_connections", Help: "Maximum number of connections.", Labels: at, Value: float64(d.Max())},
			{Name: "http_active_connections", Help: "Connections with a request in progress.", Labels: at, Value: float64(n.Members)},
			{Name: "http_evicted_connections_total", Help: "Idle connections that were closed to make room for newer ones.", Labels: at, Counter: true, Value: float64(n.Evicted)},
			{Name: "http_refused_connections_total", Help: "Connections refused because all others had a request in progress.", Labels: at, Counter: true, Value: float64(n.Refused)},
		}...)
	}
	n := s.guesses.Stats()
	return slices.Values(append(list, []engine.Metric{
		{Name: "wrong_passwords_total", Help: "Wrong passwords, on all listeners.", Counter: true, Value: float64(n.Wrong)},
		{Name: "delayed_passwords_total", Help: "Passwords that were delayed after too many wrong ones from their address.", Counter: true, Value: float64(n.Delayed)},
		{Name: "refused_passwords_total", Help: "Passwords that were refused unchecked because too many from their address were waiting.", Counter: true, Value: float64(n.Refused)},
	}...))
}
