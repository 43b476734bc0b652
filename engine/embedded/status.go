package embedded

import (
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/peer"
)

// Roles of a node.
const (
	RoleLeader   = "leader"
	RoleFollower = "follower"
	RoleNone     = "without a leader"
)

// ClockTolerance is how far the clocks of two nodes may be apart before it is logged and shown.
const ClockTolerance = peer.DefaultSkew

// ClusterStatus is one node's report about itself and the cluster.
type ClusterStatus struct {
	Cluster  string          `json:"cluster"`
	Node     uint64          `json:"node"` // the reporting node
	Role     string          `json:"role"` // RoleLeader and so on
	Leader   uint64          `json:"leader"`
	Term     uint64          `json:"term"`
	Position engine.Position `json:"position"`
	Commit   uint64          `json:"commit"`  // log index that a majority has
	Applied  uint64          `json:"applied"` // log index that this node's state has
	Version  string          `json:"version"`

	LeaderSite string `json:"leader_site,omitempty"` // where the leader should be

	Nodes []NodeStatus `json:"nodes"`
}

// CatchUp is how far a node is that is being brought up to date.
type CatchUp struct {
	Snapshot bool   `json:"snapshot"` // it receives a snapshot; otherwise log entries
	Done     uint64 `json:"done"`     // bytes of the snapshot, or log entries
	Total    uint64 `json:"total"`    // 0: unknown
	Rate     uint64 `json:"rate"`     // bytes per second lately
	Limit    int64  `json:"limit"`    // bytes per second; 0: none
}

// NodeStatus is what a node knows about another one, or about itself.
type NodeStatus struct {
	ID        uint64        `json:"id"`
	Addr      string        `json:"addr"`
	HTTP      string        `json:"http,omitempty"`
	RESP      string        `json:"resp,omitempty"`
	Voter     bool          `json:"voter"`
	Replica   bool          `json:"replica,omitempty"` // it never gets a vote by itself
	Site      string        `json:"site,omitempty"`
	Connected bool          `json:"connected"`
	Behind    uint64        `json:"behind"`          // log entries, according to the leader
	State     string        `json:"state,omitempty"` // how the leader replicates to it
	Skew      time.Duration `json:"skew_ns"`         // its clock minus that of the reporting node
	RTT       time.Duration `json:"rtt_ns"`
	Error     string        `json:"error,omitempty"` // why it is not connected

	DiskFull bool     `json:"disk_full,omitempty"` // or too little space is left, according to the leader
	CatchUp  *CatchUp `json:"catch_up,omitempty"`  // while it is being brought up to date, according to the leader
}

func (g *group) status() ClusterStatus {
	v, rs := g.view.Load(), g.node.Status()
	s := ClusterStatus{
		Cluster: g.db.id.Cluster, Node: g.self, Role: RoleFollower, Leader: v.leader, Term: v.term,
		Position: engine.Position(g.db.durable.Load()), Commit: rs.Commit, Applied: rs.Applied, Version: g.db.opts.Cluster.Version,
		LeaderSite: v.roster.LeaderSite,
	}
	switch {
	case v.serves:
		s.Role = RoleLeader
	case v.leader == 0:
		s.Role = RoleNone
	}
	peers := g.port.Peers()
	for _, n := range v.nodes {
		ns := NodeStatus{ID: n.ID, Addr: n.Addr, HTTP: n.HTTP, RESP: n.RESP, Voter: n.Voter, Replica: n.Replica, Site: n.Site, Connected: n.ID == g.self}
		for _, p := range peers {
			if p.ID == n.ID && n.ID != g.self {
				ns.Connected, ns.Skew, ns.RTT, ns.Error = p.Connected, p.Skew, p.RTT, p.Error
			}
		}
		for _, f := range rs.Followers {
			if f.ID == n.ID {
				ns.State, ns.Behind, ns.DiskFull = f.State, rs.Commit-min(rs.Commit, f.Match), f.Short
				if p := f.Progress; p != nil {
					ns.CatchUp = &CatchUp{p.Snapshot, p.Done, p.Total, p.Rate, g.catchUpRate(f.ID)}
				}
			}
		}
		s.Nodes = append(s.Nodes, ns)
	}
	return s
}

// HandOver transfers the leadership to another node of the cluster, if this one is the
// leader and another can be. It waits for the transfer for at most a second.
func (db *DB) HandOver() {
	if db.group != nil && db.group.node != nil {
		db.group.handOver()
	}
}

// NodeAddr returns the address at which other nodes reach this one, or "" if it is
// alone.
func (db *DB) NodeAddr() string {
	if db.group == nil || db.group.port == nil {
		return ""
	}
	return db.group.want.Load().Addr
}
