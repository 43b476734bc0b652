// Package peer implements the port between the nodes of a cluster: their identities
// and their connections.
//
// It knows certificates, TLS, connections and frames; it must not know what a
// message means, nor raft, keys, engines or the files of the data. It carries opaque
// bytes, JSON that its owner understands, and whole connections that it passes on.
// DESIGN.md has the formats and the invariants.
package peer

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"time"
)

// Protocols of the port itself, negotiated by ALPN. The names are on the wire: do
// not change. Others are opened with Port.Dial and served with Port.Protocol.
const (
	ProtocolRaft = "skerry-raft/1" // messages, one way, from the dialling node
	ProtocolSnap = "skerry-snap/1" // one snapshot
	ProtocolCall = "skerry-call/1" // one call
)

// Limits. Where Options has a field of the same meaning, its zero means this.
const (
	MaxMessageBytes = 256 << 20 // bytes of one message; Send refuses a longer one, and a longer one that arrives ends the connection
	MaxQueue        = 8192      // messages that wait to be sent to one node; Send refuses more
	MaxQueueBytes   = 64 << 20  // bytes of messages that wait to be sent to one node; one message always fits
	MaxCallBytes    = 4 << 20   // bytes of one call's argument, or of its result
	MaxCalls        = 128       // calls in progress at once; more get CodeBusy
	MaxMetaBytes    = 1 << 20   // bytes of a snapshot's metadata
	MaxSnapshots    = 4         // snapshots being received at once; more get CodeBusy
	MaxHelloBytes   = 16 << 10  // bytes of a greeting
	MaxGuests       = 256       // connections that have not authenticated yet; a new one replaces the oldest
	MaxConns        = 1024      // connections of accepted nodes; more get CodeBusy
	MaxInvitations  = 65_535    // invitations that a cluster can ever issue, and so the highest node id
	MaxInviteBytes  = 64 << 10  // bytes of an invitation
)

// Times. Where Options has a field of the same meaning, its zero means this.
const (
	DefaultHandshakeTimeout = 5 * time.Second  // from the first byte to the end of the greeting
	DefaultIdleTimeout      = 6 * time.Second  // without a byte from the other side; it is silent for a sixth of that at most
	DefaultStallTimeout     = 60 * time.Second // without progress of a snapshot
	DefaultCallTimeout      = 30 * time.Second // of a call whose context has no deadline
	DefaultSkew             = 2 * time.Second  // between two clocks before it is logged
)

// Hello is what one node sends to the other at the start of every connection, in
// both directions.
type Hello struct {
	Version  string    `json:"version"`            // of the program
	Cluster  string    `json:"cluster"`            // 32 hexadecimal digits
	Folder   string    `json:"folder"`             // random, stays with the data folder
	Node     uint64    `json:"node"`               // as its certificate says
	Start    uint64    `json:"start,omitempty"`    // random for each process that has a Port; 0: a Client
	Addr     string    `json:"addr,omitempty"`     // its peer port, as others reach it
	Time     time.Time `json:"time"`               // its clock
	Last     uint64    `json:"last,omitempty"`     // index of its last durable record
	Protocol string    `json:"protocol,omitempty"` // what the connection is for
	Sealed   bool      `json:"sealed,omitempty"`   // it can open a server's sealed certificate
	Topology bool      `json:"topology,omitempty"` // it knows replicas and sites
}

// Options configures a Port. Version and either Addr or Listener are required. All
// functions may be called concurrently unless noted otherwise. The port holds no
// lock while it calls them. Close waits for them.
type Options struct {
	Addr      string       // HOST:PORT to listen on
	Listener  net.Listener // instead of Addr; Close closes it
	Advertise string       // HOST:PORT as other nodes reach the port; "": the listener's own address
	Version   string       // of the program, like 1.2.3 or v1.2.3-rc1; nodes more than one minor version apart refuse each other. Any other string is compatible with all
	Logger    *slog.Logger // nil: slog.Default()

	// Hello fills in the fields that only the owner knows (Last). May be nil.
	Hello func(*Hello)

	// Check may refuse a node that has authenticated as a member of this cluster,
	// for example one that was removed, or whose folder is not the one known by its
	// id. The error's text is shown to the operators of that node. Check is called
	// for every connection in either direction; Hello.Protocol is its protocol. nil:
	// every node with a certificate of the cluster is accepted.
	Check func(Hello) error

	// Receive handles one message. One goroutine for each node calls it, in the order
	// of Send. The message is valid until Receive returns. While it blocks, nothing
	// more is read from that node. nil: raft connections are refused.
	Receive func(from uint64, msg []byte)

	// Written is called with a message of Send, once, when it has been written and the
	// port no longer needs it. It is not called for messages that are lost, and may be
	// left out for others. May be nil.
	Written func(msg []byte)

	// Down is called when messages to a node were or may have been lost, because a
	// connection broke or could not be made. May be nil.
	Down func(id uint64)

	// Snapshot receives a snapshot. The reader returns io.EOF only when everything has
	// arrived intact. If it fails with *CorruptError or io.ErrUnexpectedEOF, none of
	// the data may be used. The sender's SendSnapshot returns Snapshot's result. ctx
	// ends with the Port and with the connection. nil: refused.
	Snapshot func(ctx context.Context, from uint64, meta []byte, r io.Reader) error

	// Handle handles a call. ctx ends with the caller's timeout, its connection or
	// the Port. in must not be kept. nil: refused.
	Handle func(ctx context.Context, from uint64, method string, in json.RawMessage) (any, error)

	// Explain returns the stable code and the text of an error of Handle or Snapshot,
	// which the other side receives as a RemoteError. nil: the code is CodeInternal
	// and the text is err.Error().
	Explain func(err error) (code, text string)

	Now func() time.Time // nil: time.Now

	former bool // for tests: act as a version from before sealed certificates

	Queue            int           // 0: MaxQueue
	QueueBytes       int           // 0: MaxQueueBytes
	MessageBytes     int           // 0: MaxMessageBytes
	Guests           int           // 0: MaxGuests
	Conns            int           // 0: MaxConns
	HandshakeTimeout time.Duration // 0: DefaultHandshakeTimeout
	IdleTimeout      time.Duration // 0: DefaultIdleTimeout
	StallTimeout     time.Duration // 0: DefaultStallTimeout
	Skew             time.Duration // 0: DefaultSkew
}

// PeerState is what a Port knows about one other node.
type PeerState struct {
	ID        uint64
	Addr      string
	Connected bool          // messages can be sent to it
	Inbound   bool          // messages can come from it
	Since     time.Time     // of the last change of Connected
	Error     string        // why it is not connected; "": it is, or nothing failed yet
	Hello     Hello         // its last greeting; zero: none yet
	Skew      time.Duration // its clock minus ours, accurate to within RTT
	RTT       time.Duration // 0: not measured yet

	Sent, Received           uint64 // messages
	SentBytes, ReceivedBytes uint64 // of those messages
	Dropped                  uint64 // messages refused by Send or lost with a connection
	Queue, QueueBytes        int    // waiting to be written
}
