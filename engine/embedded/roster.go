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

	LeaderSite string `json:"leader_site,omitempty"` // where the leader should be; "": anywhere
}

// nodeInfo is what all nodes know about one node.
type nodeInfo struct {
	ID     uint64 `json:"id"`
	Addr   string `json:"addr"` // of the peer port
	HTTP   string `json:"http,omitempty"`
	RESP   string `json:"resp,omitempty"`
	Folder string `json:"folder,omitempty"` // identifies its data folder

	Replica bool   `json:"replica,omitempty"` // while it has no vote, it does not get one by itself
	Site    string `json:"site,omitempty"`
	CatchUp int64  `json:"catch_up,omitempty"` // bytes per second with which it is brought up to date; 0: no limit
}

// noteFormat begins an entry about a node, followed by a nodeInfo as JSON. Do not
// change.
const noteFormat = 3

// preferenceFormat begins an entry about the whole cluster, followed by a preference as
// JSON. Do not change.
const preferenceFormat = 4

// preference is what operators have decided about the cluster.
type preference struct {
	LeaderSite string `json:"leader_site"`
}

func (p preference) note() []byte {
	j, err := json.Marshal(p)
	if err != nil {
		panic("BUG: encode a preference: " + err.Error())
	}
	return append([]byte{preferenceFormat}, j...)
}

// isNote reports whether the data of an entry changes the roster only.
func isNote(data []byte) bool {
	return len(data) > 0 && (data[0] == noteFormat || data[0] == preferenceFormat)
}

// noted returns the roster after the data of an entry for which isNote holds.
func (r *roster) noted(data []byte) (*roster, error) {
	if data[0] == preferenceFormat {
		var p preference
		if err := json.Unmarshal(data[1:], &p); err != nil {
			return nil, fmt.Errorf("%w: %w", errRecord, err)
		}
		next := *r
		next.LeaderSite = p.LeaderSite
		return &next, nil
	}
	n, err := parseNote(data)
	if err != nil || !r.Members.Has(n.ID) { // it may have been removed in the meantime
		return r, err
	}
	have, _ := r.node(n.ID)
	n.Replica = have.Replica // what the node announced may be older than the last change
	return r.with(n), nil
}

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
	next := &roster{Members: r.Members, Removed: r.Removed, LeaderSite: r.LeaderSite}
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
	out := &roster{Members: m, Removed: slices.Clone(next.Removed), LeaderSite: r.LeaderSite}
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
		out[i] = engine.Node{ID: n.ID, Addr: n.Addr, HTTP: n.HTTP, RESP: n.RESP, Voter: voter, Replica: n.Replica && !voter, Site: n.Site}
	}
	return out
}

// isReplica reports whether a node has no vote and gets none by itself.
func (r *roster) isReplica(id uint64) bool {
	n, ok := r.node(id)
	return ok && n.Replica && !slices.Contains(r.Members.Voters, id)
}

// counts returns the number of replicas, and of other nodes.
func (r *roster) counts() (replicas, others int) {
	for _, n := range r.Nodes {
		if r.isReplica(n.ID) {
			replicas++
		} else {
			others++
		}
	}
	return replicas, others
}

// placed reports whether the roster has what older programs do not know.
func (r *roster) placed() bool {
	return r.LeaderSite != "" || slices.ContainsFunc(r.Nodes, nodeInfo.placed)
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
