package engine

import (
	"context"
	"net"
)

// Cluster is one node's view of the nodes that keep the same data. One of them
// is the leader: Update runs only there. On the others it returns ErrNotLeader
// without running its function, and a face forwards the whole request to the
// leader. View works on every node. All methods are safe for concurrent use.
type Cluster interface {
	// State returns the cluster as this node knows it now. Its Nodes must not be
	// modified.
	State() ClusterState

	// AwaitLeader waits until a leader is known and, if it is this node, until it
	// accepts writes. If ctx ends first the error is ErrNotLeader, wrapping ctx's:
	// there is no majority, or an election is still under way.
	AwaitLeader(ctx context.Context) (Node, error)

	// Dial opens a connection to another node for one of the protocols that its
	// faces serve to nodes. Both sides have authenticated as members of this
	// cluster.
	Dial(ctx context.Context, node uint64, protocol string) (net.Conn, error)

	// Listen returns a listener for the connections that other nodes Dial to this
	// one for the protocol. It can be called once for each protocol. A connection
	// for a protocol without a listener is refused.
	Listen(protocol string) net.Listener
}

// ClusterState is one node's knowledge of its cluster at one time.
type ClusterState struct {
	ID     string // of the cluster: 32 hexadecimal digits
	Self   uint64 // id of this node
	Addr   string // of this node's peer port as other machines reach it; set even before it is a member
	Leader uint64 // id of the leader; 0: none is known
	Term   uint64 // grows with every election
	Nodes  []Node // ascending by ID
}

// Node is one node of a cluster. Addresses are HOST:PORT as other machines
// reach them; "" means unknown or off.
type Node struct {
	ID    uint64
	Addr  string // of the peer port
	HTTP  string
	RESP  string
	Voter bool // false: a replica, or a learner, which receives all data but has no vote yet

	Replica bool   // it receives all data and serves reads, but never gets a vote by itself
	Site    string // where it is; "": unknown
}

// Node returns the node with the given id, and whether there is one.
func (s *ClusterState) Node(id uint64) (Node, bool) {
	for _, n := range s.Nodes {
		if n.ID == id {
			return n, true
		}
	}
	return Node{}, false
}
