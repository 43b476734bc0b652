package api

import (
	"net/http"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/web"
)

// othersLead reports whether another node must carry out a write, so that this one need not try.
func (x *operation) othersLead() bool {
	return x.app.forward != nil && !x.fromNode && !x.app.forward.router.Leads()
}

// atLeader continues r after err, the result of a try on this node. If the request may be tried again, the
// leader serves it.
func (x *operation) atLeader(r *http.Request, err error, here func() error) error {
	if forward.OutcomeOf(err) == forward.Answered {
		return err
	}
	f := x.app.forward
	x.forwarded = forward.Call{
		Try: func(leader uint64, self bool) (forward.Outcome, error) {
			if self {
				err := here()
				return forward.OutcomeOf(err), err
			}
			return f.pass(x, r, leader)
		},
		Repeatable: func() bool { return x.once.key != nil || x.reads(r) },
	}
	if x.reads(r) {
		x.forwarded.Waited = time.Since(x.start) // for a leader, in View
	}
	return f.router.Resume(r.Context(), &x.forwarded, err)
}

// clusterState is the response of /cluster.
type clusterState struct {
	ID     string        `json:"id"`     // of the cluster
	Self   uint64        `json:"self"`   // the responding node
	Leader uint64        `json:"leader"` // 0: unknown
	Term   uint64        `json:"term"`
	Nodes  []clusterNode `json:"nodes"`
}

// clusterNode is one node in clusterState. Addresses that are unknown or off are empty.
type clusterNode struct {
	ID     uint64 `json:"id"`
	Addr   string `json:"addr"`
	HTTP   string `json:"http"`
	RESP   string `json:"resp"`
	Voter  bool   `json:"voter"`
	Leader bool   `json:"leader"`
	Self   bool   `json:"self"`

	Replica bool   `json:"replica,omitempty"`
	Site    string `json:"site,omitempty"`
}

// clusterOf returns the cluster as this node knows it, nil if the node runs alone.
func (a *app) clusterOf() *clusterState {
	if a.o.Cluster == nil {
		return nil
	}
	s := a.o.Cluster.State()
	c := &clusterState{ID: s.ID, Self: s.Self, Leader: s.Leader, Term: s.Term, Nodes: make([]clusterNode, 0, len(s.Nodes))}
	for _, n := range s.Nodes {
		c.Nodes = append(c.Nodes, clusterNode{ID: n.ID, Addr: n.Addr, HTTP: n.HTTP, RESP: n.RESP, Voter: n.Voter,
			Replica: n.Replica, Site: n.Site,
			Leader: n.ID == s.Leader, Self: n.ID == s.Self})
	}
	return c
}

// clusterz serves GET /cluster.
func (a *app) clusterz(ctx *web.Context) error {
	if _, err := query(ctx.Request); err != nil {
		return err
	}
	c := a.clusterOf()
	if c == nil {
		return engine.Errorf(engine.CodeUnsupported, "this server runs alone, not as a node of a cluster")
	}
	return sendJSON(ctx, http.StatusOK, c)
}

// ready returns why requests should go elsewhere, or nil. A node without a leader can neither write nor read
// linearizably.
func (a *app) ready() error {
	if a.o.Ready != nil {
		if err := a.o.Ready(); err != nil {
			return err
		}
	}
	if a.o.Cluster != nil && a.o.Cluster.State().Leader == 0 {
		return engine.ErrNotLeader
	}
	return nil
}
