package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/peer"
)

// ClusterStatus is what one node says of itself and of the cluster.
type ClusterStatus struct {
	Cluster  string          `json:"cluster"`
	Node     uint64          `json:"node"` // who says it
	Role     string          `json:"role"` // leader, follower, or without a leader
	Leader   uint64          `json:"leader"`
	Term     uint64          `json:"term"`
	Position engine.Position `json:"position"`
	Commit   uint64          `json:"commit"`  // log index that a majority has
	Applied  uint64          `json:"applied"` // log index that this node's state has
	Version  string          `json:"version"`
	Nodes    []NodeStatus    `json:"nodes"`
}

// NodeStatus is what a node knows of another one, or of itself.
type NodeStatus struct {
	ID        uint64        `json:"id"`
	Addr      string        `json:"addr"`
	HTTP      string        `json:"http,omitempty"`
	RESP      string        `json:"resp,omitempty"`
	Voter     bool          `json:"voter"`
	Connected bool          `json:"connected"`
	Behind    uint64        `json:"behind"`          // log entries, as the leader knows it
	State     string        `json:"state,omitempty"` // how the leader replicates to it
	Skew      time.Duration `json:"skew_ns"`         // its clock minus that of who says it
	RTT       time.Duration `json:"rtt_ns"`
	Error     string        `json:"error,omitempty"` // why it is not connected
}

func (g *group) status() ClusterStatus {
	v, rs := g.view.Load(), g.node.Status()
	s := ClusterStatus{
		Cluster: g.db.id.Cluster, Node: g.self, Role: "follower", Leader: v.leader, Term: v.term,
		Position: engine.Position(g.db.durable.Load()), Commit: rs.Commit, Applied: rs.Applied, Version: g.db.opts.Cluster.Version,
	}
	switch {
	case v.serves:
		s.Role = "leader"
	case v.leader == 0:
		s.Role = "without a leader"
	}
	peers := g.port.Peers()
	for _, n := range v.roster.public() {
		ns := NodeStatus{ID: n.ID, Addr: n.Addr, HTTP: n.HTTP, RESP: n.RESP, Voter: n.Voter, Connected: n.ID == g.self}
		for _, p := range peers {
			if p.ID == n.ID && n.ID != g.self {
				ns.Connected, ns.Skew, ns.RTT, ns.Error = p.Connected, p.Skew, p.RTT, p.Error
			}
		}
		for _, f := range rs.Followers {
			if f.ID == n.ID {
				ns.State, ns.Behind = f.State, rs.Commit-min(rs.Commit, f.Match)
			}
		}
		s.Nodes = append(s.Nodes, ns)
	}
	return s
}

// HandOver has another node of the cluster lead, if this one does and another
// can. It returns when that is so, after a second at most.
func (db *DB) HandOver() {
	if db.group != nil && db.group.node != nil {
		db.group.handOver()
	}
}

// NodeAddr returns where other nodes reach this one, or "" if it is alone.
func (db *DB) NodeAddr() string {
	if db.group == nil || db.group.port == nil {
		return ""
	}
	return db.group.want.Load().Addr
}

// nodesName is the file beside a node's certificate that says where the nodes
// are, for `skerry cluster`.
const nodesName = "nodes.json"

// remember writes down where the nodes are.
func (g *group) remember(r *roster) {
	j, err := json.Marshal(r.Nodes)
	if err != nil {
		panic("BUG: encode the nodes: " + err.Error())
	}
	name := filepath.Join(g.db.dir, clusterDir, nodesName)
	if err := os.WriteFile(name+".tmp", j, 0o600); err == nil {
		err = os.Rename(name+".tmp", name)
	} else {
		g.db.opts.Logger.Warn("could not write down where the nodes are", "err", err)
	}
}

// Admin talks to running nodes as the node whose data folder it was opened on.
// The folder may be in use.
type Admin struct {
	client *peer.Client
	self   uint64
	nodes  []nodeInfo
}

// OpenAdmin takes the credentials of a node's data folder.
func OpenAdmin(dir, version string) (*Admin, error) {
	id, err := peer.Load(filepath.Join(dir, clusterDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, engine.Errorf(engine.CodeInvalid, "%s is no node of a cluster; `skerry cluster init` makes it one", dir)
	}
	if err != nil {
		return nil, err
	}
	a := &Admin{client: peer.NewClient(id, version), self: id.Node}
	j, err := os.ReadFile(filepath.Join(dir, clusterDir, nodesName))
	if err == nil {
		err = json.Unmarshal(j, &a.nodes)
	}
	if err != nil {
		return nil, fmt.Errorf("the node in %s does not know yet where the others are: start it first: %w", dir, err)
	}
	slices.SortStableFunc(a.nodes, func(x, y nodeInfo) int { // its own node is asked first
		switch {
		case x.ID == id.Node:
			return -1
		case y.ID == id.Node:
			return 1
		}
		return 0
	})
	return a, nil
}

// Self is the id of the folder's node.
func (a *Admin) Self() uint64 { return a.self }

// Status asks the folder's own node, or another one if that does not answer.
func (a *Admin) Status(ctx context.Context) (s ClusterStatus, err error) {
	return s, a.call(ctx, methodStatus, nil, &s)
}

// StatusOf asks one node.
func (a *Admin) StatusOf(ctx context.Context, node uint64) (s ClusterStatus, err error) {
	for _, n := range a.nodes {
		if n.ID == node {
			return s, remote(a.client.Call(ctx, n.Addr, n.ID, methodStatus, nil, &s))
		}
	}
	return s, engine.Errorf(engine.CodeNotFound, "node %d is not known here", node)
}

// Remove makes a node a stranger, for ever.
func (a *Admin) Remove(ctx context.Context, node uint64) error {
	return a.call(ctx, methodRemove, nodeRef{node}, nil)
}

// Transfer hands the leadership to a node; 0: to the one most up to date.
func (a *Admin) Transfer(ctx context.Context, node uint64) error {
	return a.call(ctx, methodTransfer, nodeRef{node}, nil)
}

func (a *Admin) call(ctx context.Context, method string, in, out any) error {
	var errs []error
	for _, n := range a.nodes {
		err := remote(a.client.Call(ctx, n.Addr, n.ID, method, in, out))
		if err == nil || engine.CodeOf(err) != engine.CodeInternal {
			return err // done, or an answer
		}
		errs = append(errs, fmt.Errorf("node %d at %s: %w", n.ID, n.Addr, err))
	}
	return fmt.Errorf("no node answers: %w", errors.Join(errs...))
}
