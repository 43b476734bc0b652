package skerry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/gate"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/files"
	"github.com/skerrydb/skerry/web/graphs"
	"github.com/skerrydb/skerry/web/gremlin"
	"github.com/skerrydb/skerry/web/hostname"
)

// DefaultGremlin is the address that Gremlin drivers expect.
const DefaultGremlin = "127.0.0.1:8182"

const gremlinPath = "/gremlin"

// Times of sessions of Gremlin drivers. What a session has written waits in memory.
const (
	gremlinSessionIdle = 30 * time.Second
	gremlinSessionLife = 5 * time.Minute

	gremlinSessions  = 256 // in a cluster
	gremlinUpstreams = 128 // requests that a node passes on to the leader at a time
)

func (s *Server) openGraphs() (c capability, err error) {
	c = capability{name: "graphs", errors: slices.Concat(graph.Catalog(), files.Catalog())}
	db, err := graph.New(s.eng)
	if err != nil {
		s.services.Graphs = graph.Unavailable(err)
		if s.gremlin != nil {
			return c, err
		}
		return c, s.without("graphs", err)
	}
	s.services.Graphs, c.run = db, db.Run
	if s.gremlin == nil && s.cluster == nil {
		return c, nil
	}
	backend, err := graphs.New(s.eng)
	if err != nil {
		return c, err
	}
	o := gremlin.Options{
		Backend: backend, Log: s.o.Logger, MaxConnections: s.o.Connections.Gremlin, SessionIdle: gremlinSessionIdle, SessionLife: gremlinSessionLife,
		Cluster: s.cluster, Upstreams: min(s.o.Connections.Upstreams, gremlinUpstreams),
	}
	if e, ok := s.eng.(interface{ Views() int }); ok && e.Views() > 0 {
		o.MaxSessions = max(1, e.Views()/2) // each keeps a view open
	}
	if s.cluster != nil { // each may have a connection to the leader
		o.MaxSessions = min(cmp.Or(o.MaxSessions, gremlinSessions), s.o.Connections.Upstreams)
	}
	if s.o.Password != "" {
		o.Authenticate = s.checkGremlin
	}
	face, err := gremlin.New(o)
	if err != nil {
		return c, err
	}
	s.ends = append(s.ends, face.Close)
	s.meters = append(s.meters, face.Metrics)
	if s.cluster != nil { // also without a listener, for the drivers at other nodes
		l := s.cluster.Listen(gremlin.NodeProtocol)
		s.nodes = append(s.nodes, part{"gremlin of other nodes", func(ctx context.Context) error { return face.ServeNode(ctx, l) }})
	}
	if s.gremlin == nil {
		return c, nil
	}
	mux := http.NewServeMux()
	mux.Handle(gremlinPath, s.ownHosts(face))
	s.addFace("gremlin", s.gremlin, mux)
	return c, nil
}

// ownHosts refuses requests under host names that a web page could have made this
// machine's, while there is no password.
func (s *Server) ownHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.o.Password == "" && !hostname.Trusted(r.Host, s.o.Hosts) {
			http.Error(w, "without a password, this server can be addressed only by an IP address, as localhost, or by a name in the setting hosts", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkGremlin lets those in who know the password, under any name.
func (s *Server) checkGremlin(ctx context.Context, l gremlin.Login) (string, error) {
	from := &net.TCPAddr{}
	if at, err := netip.ParseAddrPort(l.From); err == nil {
		from = net.TCPAddrFromAddrPort(at)
	}
	if !s.guesses.Wait(from, ctx.Done()) {
		return "", errors.New("too many wrong passwords from this address")
	}
	given, want := sha256.Sum256([]byte(l.Password)), sha256.Sum256([]byte(s.o.Password))
	if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		s.guesses.Wrong(from)
		return "", engine.Errorf(engine.CodeUnauthenticated, "the password is wrong")
	}
	if conn := gate.FromContext(ctx); conn != nil {
		conn.SetKnown(true)
	}
	return l.User, nil
}
