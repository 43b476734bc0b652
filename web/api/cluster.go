package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
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

// atLeader goes on with r after err, which is what a try on this node came to:
// if another node must answer, or the same request may be made again, it is
// made to whoever leads, until that is certain to be of no use.
func (x *exchange) atLeader(r *http.Request, err error, here func() error) error {
	if !x.again(r, err) {
		return err
	}
	f := x.app.forward
	if full := f.gate.enter("requests for the leader"); full != nil {
		return x.orUnknown(err, full)
	}
	defer f.gate.leave()
	if s := f.cluster.State(); s.Leader != 0 && s.Leader != s.Self {
		// Nearly always this is all there is to it.
		next := f.pass(x, r, s.Leader)
		if err = x.orUnknown(err, next); !x.again(r, next) {
			return err
		}
	}
	left := f.wait
	if x.reads(r) {
		left -= time.Since(x.start) // a read has waited for a leader already, in View
	}
	wait, cancel := context.WithTimeout(r.Context(), left)
	defer cancel()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		next := f.ask(wait, x, r, here)
		if err = x.orUnknown(err, next); !x.again(r, next) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-wait.Done():
			return x.orUnknown(err, f.noLeader(r))
		}
	}
}

// again reports whether r may be tried again after err.
func (x *exchange) again(r *http.Request, err error) bool {
	switch engine.CodeOf(err) {
	case engine.CodeNotLeader:
		return true
	case engine.CodeOutcomeUnknown:
		x.maybe = x.repeatable(r)
		return x.maybe
	}
	return false
}

// orUnknown is what a request has come to by a try that ended with next, after
// one that ended with err: if the outcome of that one is unknown, it stays so
// until a leader has looked for what is remembered of it.
func (x *exchange) orUnknown(err, next error) error {
	if !errors.Is(err, engine.ErrOutcomeUnknown) {
		return next
	}
	if code := engine.CodeOf(next); code == engine.CodeNotLeader || didNotLook(code) {
		return err
	}
	return next
}

// didNotLook reports whether a request may be refused with code before anybody has
// looked for what is remembered of it, or that look be lost. CodeInternal is also
// what a client has that is gone.
func didNotLook(code engine.Code) bool {
	switch code {
	case engine.CodeQueueFull, engine.CodeClosed, engine.CodeStopped, engine.CodeDiskFull, engine.CodeFilesFull, engine.CodeInternal:
		return true
	}
	return false
}

// noLeader is why r is given up.
func (f *forwarder) noLeader(r *http.Request) error {
	if err := r.Context().Err(); err != nil {
		return err
	}
	return engine.Errorf(engine.CodeNotLeader, "no node led for %v; nothing was written", f.wait)
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
