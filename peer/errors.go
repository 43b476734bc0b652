package peer

import (
	"errors"
	"fmt"
)

// Codes of the port's own refusals. They are on the wire: do not change.
const (
	CodeBusy     = "busy"          // over a limit of the other node; try again
	CodeCluster  = "wrong_cluster" // the two are of different clusters, or their certificates are not of one CA
	CodeCert     = "certificate"   // expired, not valid yet, or not one of a node
	CodeNode     = "wrong_node"    // another node answers at that address
	CodeTwin     = "twin"          // two nodes with one id
	CodeVersion  = "version"       // the programs' versions are too far apart
	CodeRefused  = "refused"       // by Options.Check
	CodeProtocol = "protocol"      // not served, or not understood
	CodeLimit    = "limit"         // too large
	CodeCorrupt  = "corrupt"       // a snapshot did not arrive as it was sent
	CodeInternal = "internal"      // what has no code of its own
)

// ErrClosed is returned by every call after Close.
var ErrClosed = errors.New("peer: the port is closed")

// ErrNoPeer is returned for a node whose address is not known.
var ErrNoPeer = errors.New("peer: no address of that node is known")

// RefusedError says why two nodes do not talk to each other. The text is whole
// and for people.
type RefusedError struct {
	Code   string // CodeCluster and so on
	Text   string
	Remote bool   // the other node refused this one
	Reason string // with CodeRefused: the code that Options.Explain has for the error of Options.Check; may be ""
}

func (e *RefusedError) Error() string {
	if e.Remote {
		return "refused by the other node: " + e.Text
	}
	return e.Text
}

// refuse makes a RefusedError of this node.
func refuse(code, format string, args ...any) *RefusedError {
	return &RefusedError{Code: code, Text: fmt.Sprintf(format, args...)}
}

// ErrNewer is what a folder or an invitation is refused with that a newer version
// of the program has made.
var ErrNewer = errors.New("made by a newer version")

// RemoteError is an error that the other node's Handle or Snapshot returned,
// with the code and the text that its owner gave it.
type RemoteError struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

func (e *RemoteError) Error() string { return e.Text }

// CorruptError says that what arrived is not what was sent.
type CorruptError struct{ Why string }

func (e *CorruptError) Error() string { return "peer: damaged stream: " + e.Why }

// LimitError says that something is larger than it may be.
type LimitError struct {
	What  string
	Bytes int64
	Limit int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("peer: %s has %d bytes, at most %d", e.What, e.Bytes, e.Limit)
}
