package engine

import (
	"context"
	"time"
)

// NodeConn is satisfied by the connections that Cluster.Listen accepts if they know who
// has dialled. Its Node is authenticated.
type NodeConn interface {
	// Node returns the id of the node at the other end.
	Node() uint64
}

// NodeReporter is satisfied by a Clustered engine that reports about its node.
type NodeReporter interface {
	// Report returns what this node knows now about itself and its connections. It is
	// zero if the engine runs alone.
	Report() NodeReport
}

// NodeReport is what a node knows about itself and its connections.
type NodeReport struct {
	Version string    // of the program, as the other nodes are told
	Expires time.Time // of the node's certificate; from then on the other nodes refuse it
	Invites bool      // MemberChanger.Invite works here

	Commit  uint64 // log entry up to which this node knows all to be committed
	Formats []Format
	Peers   []PeerReport // the other nodes, ascending by ID
}

// Format is a format on disk that an older program may be unable to read.
type Format struct {
	Name    string // of what has it
	Version int    // the newest that this program writes
}

// PeerReport is what a node knows about another one.
type PeerReport struct {
	ID        uint64
	Version   string // of the program, by its last greeting; "": unknown
	Connected bool
	Behind    uint64 // committed log entries that it has not acknowledged, as the leader knows it; 0 on others
	Error     string // why it is not connected; "": it is, or nothing has failed yet
}

// MemberChanger is satisfied by a Clustered engine whose members can be changed while it
// runs. If the engine runs alone, the methods fail with CodeUnsupported.
type MemberChanger interface {
	// RemoveNode removes a node from the cluster for good. It works on every node, also
	// for the node itself, whose engine then stops. It waits until the change takes
	// effect, for a bounded time. It returns CodeNotFound if there has never been such a
	// node, and CodeInvalid if the rest would not have a majority of running voters;
	// nothing has changed then. Removing a node again does nothing.
	RemoveNode(ctx context.Context, node uint64) error

	// Invite issues the id of one more node and returns it with an invitation, a text
	// that makes a new folder that node. It contains a private key. A replica never gets
	// a vote by itself. Invite returns CodeInvalid where NodeReport.Invites is false.
	Invite(replica bool) (node uint64, invitation []byte, err error)
}
