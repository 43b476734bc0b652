package embedded

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// roster lists the members of the cluster and their addresses. It is never modified.
type roster struct {
	Members raft.Members `json:"members"`
	Nodes   []nodeInfo   `json:"nodes"`             // ascending by id
	Removed []uint64     `json:"removed,omitempty"` // ids of former members, which must not come back
	Left    string       `json:"left,omitempty"`    // the cluster from which this state was taken to create another
}

// nodeInfo is what all nodes know about one node.
type nodeInfo struct {
	ID     uint64 `json:"id"`
	Addr   string `json:"addr"` // of the peer port
	HTTP   string `json:"http,omitempty"`
	RESP   string `json:"resp,omitempty"`
	Folder string `json:"folder,omitempty"` // identifies its data folder
}

// noteFormat begins an entry about a node, followed by a nodeInfo as JSON. Do not
// change.
const noteFormat = 3

func (r *roster) append(b []byte) []byte {
	j, err := json.Marshal(r)
	if err != nil {
		panic("BUG: encode the members: " + err.Error())
	}
	return append(b, j...)
}

func parseRoster(b []byte) (*roster, error) {
	r := &roster{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%w: the members: %w", errSnapshot, err)
	}
	return r, nil
}

// with returns the roster with n, which replaces an earlier nodeInfo of the same id.
func (r *roster) with(n nodeInfo) *roster {
	next := &roster{Members: r.Members, Removed: r.Removed}
	for _, old := range r.Nodes {
		if old.ID != n.ID {
			next.Nodes = append(next.Nodes, old)
		}
	}
	next.Nodes = append(next.Nodes, n)
	slices.SortFunc(next.Nodes, func(a, b nodeInfo) int { return int(a.ID) - int(b.ID) })
	return next
}

// changed returns the roster after a membership change. context is nil or a note about
// the node that joins.
func (r *roster) changed(m raft.Members, context []byte) *roster {
	next := r
	if n, err := parseNote(context); err == nil {
		next = r.with(n)
	}
	out := &roster{Members: m, Removed: slices.Clone(next.Removed)}
	for _, n := range next.Nodes {
		if m.Has(n.ID) {
			out.Nodes = append(out.Nodes, n)
		} else if !slices.Contains(out.Removed, n.ID) {
			out.Removed = append(out.Removed, n.ID)
		}
	}
	return out
}

func (r *roster) node(id uint64) (nodeInfo, bool) {
	if r != nil {
		for _, n := range r.Nodes {
			if n.ID == id {
				return n, true
			}
		}
	}
	return nodeInfo{}, false
}

// public returns the roster as faces see it.
func (r *roster) public() []engine.Node {
	if r == nil {
		return nil
	}
	out := make([]engine.Node, len(r.Nodes))
	for i, n := range r.Nodes {
		voter := slices.Contains(r.Members.Voters, n.ID)
		out[i] = engine.Node{ID: n.ID, Addr: n.Addr, HTTP: n.HTTP, RESP: n.RESP, Voter: voter}
	}
	return out
}

// note encodes n as an entry, or as the context of one.
func (n nodeInfo) note() []byte {
	j, err := json.Marshal(n)
	if err != nil {
		panic("BUG: encode a node: " + err.Error())
	}
	return append([]byte{noteFormat}, j...)
}

func parseNote(b []byte) (n nodeInfo, err error) {
	if len(b) == 0 || b[0] != noteFormat {
		return n, errRecord
	}
	if err := json.Unmarshal(b[1:], &n); err != nil {
		return n, fmt.Errorf("%w: %w", errRecord, err)
	}
	return n, nil
}
