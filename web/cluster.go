package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// othersLead reports whether a write has to be carried out by another node, so
// that it need not be tried here.
func (x *exchange) othersLead() bool {
	if x.app.forward == nil || x.fromNode {
		return false
	}
	s := x.app.o.Cluster.State()
	return s.Leader != s.Self
}

// atLeader has r answered by the node that leads, or by here if that is this
// one. It waits for a leader, and asks again as long as it is certain that
// nothing was done yet or that to do it again is safe.
func (x *exchange) atLeader(r *http.Request, here func() error) error {
	f := x.app.forward
	if err := f.gate.enter("requests for the leader"); err != nil {
		return err
	}
	defer f.gate.leave()
	wait, cancel := context.WithTimeout(r.Context(), f.wait)
	defer cancel()
	var unknown error // an earlier try may have been carried out
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := f.ask(wait, x, r, here)
		switch {
		case errors.Is(err, engine.ErrOutcomeUnknown):
			if !x.repeatable(r) {
				return err
			}
			unknown = err
		case !errors.Is(err, engine.ErrNotLeader):
			if err != nil && unknown != nil && r.Context().Err() != nil {
				return unknown
			}
			return err
		}
		select {
		case <-time.After(pause):
			continue
		case <-wait.Done():
		}
		switch {
		case unknown != nil && !reads(r):
			return unknown
		case r.Context().Err() != nil:
			return r.Context().Err()
		}
		return engine.Errorf(engine.CodeNotLeader, "no node led for %v; nothing was written", f.wait)
	}
}

// ask makes one try to have r answered by whoever leads.
func (f *forwarder) ask(wait context.Context, x *exchange, r *http.Request, here func() error) error {
	leader, err := f.cluster.AwaitLeader(wait)
	if err != nil {
		return err
	}
	if leader.ID == f.cluster.State().Self {
		return here()
	}
	return f.pass(x, r, leader.ID)
}

// clusterState is the answer of /cluster.
type clusterState struct {
	ID     string        `json:"id"`     // of the cluster
	Self   uint64        `json:"self"`   // the node that answers
	Leader uint64        `json:"leader"` // 0: none is known
	Term   uint64        `json:"term"`
	Nodes  []clusterNode `json:"nodes"`
}

// clusterNode is one node in clusterState. Addresses that are not known, or
// off, are empty.
type clusterNode struct {
	ID     uint64 `json:"id"`
	Addr   string `json:"addr"`
	HTTP   string `json:"http"`
	RESP   string `json:"resp"`
	Voter  bool   `json:"voter"`
	Leader bool   `json:"leader"`
	Self   bool   `json:"self"`
}

// clusterOf returns what this node knows of its cluster, nil if it is alone.
func (a *app) clusterOf() *clusterState {
	if a.o.Cluster == nil {
		return nil
	}
	s := a.o.Cluster.State()
	c := &clusterState{ID: s.ID, Self: s.Self, Leader: s.Leader, Term: s.Term, Nodes: make([]clusterNode, 0, len(s.Nodes))}
	for _, n := range s.Nodes {
		c.Nodes = append(c.Nodes, clusterNode{ID: n.ID, Addr: n.Addr, HTTP: n.HTTP, RESP: n.RESP, Voter: n.Voter,
			Leader: n.ID == s.Leader, Self: n.ID == s.Self})
	}
	return c
}

// clusterz answers GET /cluster.
func (a *app) clusterz(x *exchange, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	c := a.clusterOf()
	if c == nil {
		return engine.Errorf(engine.CodeUnsupported, "this server runs alone, not as a node of a cluster")
	}
	return x.json(http.StatusOK, c)
}

// ready says why requests should go elsewhere, or nil. A node without a leader
// can neither write nor read what is newest.
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
