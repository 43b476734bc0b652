package peer

import (
	"errors"
	"fmt"
)

// Codes of the port's own refusals. They are on the wire: do not change.
const (
	CodeBusy     = "busy"          // over a limit of the other node; try again
	CodeCluster  = "wrong_cluster" // different clusters, or certificates of different CAs
	CodeCert     = "certificate"   // expired, not valid yet, or not a node's
	CodeNode     = "wrong_node"    // another node answers at that address
	CodeTwin     = "twin"          // two nodes with one id
	CodeVersion  = "version"       // the programs' versions are too far apart
	CodeRefused  = "refused"       // by Options.Check
	CodeProtocol = "protocol"      // not served, or not understood
	CodeLimit    = "limit"         // too large
	CodeCorrupt  = "corrupt"       // a snapshot did not arrive as it was sent
	CodeInternal = "internal"      // anything without another code
)

// ErrClosed is returned by every call after Close.
var ErrClosed = errors.New("peer: the port is closed")

// ErrNoPeer is returned for a node whose address is unknown.
var ErrNoPeer = errors.New("peer: no address of that node is known")

// RefusedError is returned when one node refuses to communicate with another. Text
// is a complete message for people.
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

// ErrNewer is returned for a folder or an invitation made by a newer version of the
// program.
var ErrNewer = errors.New("made by a newer version")

// RemoteError is an error that the other node's Handle or Snapshot returned, with
// the code and text of its Options.Explain, or an error of the other node's port.
type RemoteError struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

func (e *RemoteError) Error() string { return e.Text }

// CorruptError reports that the received data is not what was sent.
type CorruptError struct{ Why string }

func (e *CorruptError) Error() string { return "peer: damaged stream: " + e.Why }

// LimitError reports that something exceeds its size limit.
type LimitError struct {
	What  string
	Bytes int64
	Limit int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("peer: %s has %d bytes, at most %d", e.What, e.Bytes, e.Limit)
}
