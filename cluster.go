package skerry

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/web/api"
)

// httpProtocol is the name under which nodes forward whole requests. On the wire: do not change.
const httpProtocol = "http/1.1"

// clusterOf returns the cluster that an engine is a node of, or nil.
func clusterOf(eng engine.Engine) engine.Cluster {
	if c, ok := eng.(engine.Clustered); ok {
		return c.Cluster()
	}
	return nil
}

// serveNodes adds the parts that serve what other nodes forward to this one.
func (s *Server) serveNodes(redis *resp.Server, face *api.Face) {
	if redis != nil {
		l := s.cluster.Listen(resp.NodeProtocol)
		s.nodes = append(s.nodes, part{"resp of other nodes", func(ctx context.Context) error { return redis.ServeNode(ctx, l) }})
	}
	if face != nil {
		s.addNodeFace("http of other nodes", httpProtocol, face.NodeHandler(), face.NodeLaneRoutes()...)
	}
}

// advertise gives the other nodes the addresses of this node's faces.
func (s *Server) advertise() error {
	a, ok := s.eng.(engine.Advertiser)
	if !ok {
		return nil
	}
	http, err := s.reachable("HTTP", s.http)
	if err != nil {
		return err
	}
	resp, err := s.reachable("RESP", s.resp)
	if err != nil {
		return err
	}
	a.Advertise(http, resp)
	return nil
}

// nodeName is the name of this node in reports, "" if it runs alone.
func (s *Server) nodeName() string {
	if s.cluster == nil {
		return ""
	}
	return strconv.FormatUint(s.cluster.State().Self, 10)
}

// reachable returns a face's address as other machines reach it.
func (s *Server) reachable(face string, l net.Listener) (string, error) {
	if l == nil {
		return "", nil
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "", engine.Errorf(engine.CodeInvalid, "skerry: the %s listener has the address %q, which cannot be advertised to other nodes", face, l.Addr())
	}
	if unspecified(host) {
		host = ""
	}
	nodeHost, _, err := net.SplitHostPort(s.cluster.State().Addr)
	if err != nil || unspecified(nodeHost) {
		nodeHost = ""
	}
	if host = cmp.Or(s.o.AdvertiseHost, host, nodeHost); host == "" {
		return "", engine.Errorf(engine.CodeInvalid, "skerry: %s listens on all addresses: set AdvertiseHost to the host by which other machines reach it", face)
	}
	return net.JoinHostPort(host, port), nil
}

func unspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// handOver transfers leadership to another node before the faces stop. Requests that still arrive here, or
// that other nodes forward, are then served there.
func (s *Server) handOver() {
	if l, ok := s.eng.(engine.HandOverer); ok && s.cluster != nil {
		l.HandOver()
	}
}

// joined returns why this node of a cluster cannot serve requests yet, or nil.
func (s *Server) joined() error {
	if s.cluster == nil {
		return nil
	}
	st := s.cluster.State()
	if _, member := st.Node(st.Self); !member {
		return engine.Errorf(engine.CodeNotLeader, "node %d is not a member of the cluster yet", st.Self)
	}
	if st.Leader == 0 {
		return engine.Errorf(engine.CodeNotLeader, "node %d knows no leader", st.Self)
	}
	return nil
}

// stopper is an http.Server or lane.Server.
type stopper interface {
	Shutdown(ctx context.Context) error
	Close() error
}

// serveHTTP serves until ctx ends, and then gives requests in flight the grace period to end.
func (s *Server) serveHTTP(ctx context.Context, srv stopper, serve func() error) error {
	failed := make(chan error, 1)
	go func() { failed <- serve() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Grace)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		s.o.Logger.Warn("requests were cut off at the end of the grace period", "grace", s.o.Grace)
		srv.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		s.o.Logger.Debug("a listener failed while stopping", "err", err)
	}
	return nil
}
