package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/peer"
)

// errAlone reports a call about the cluster of a database that runs alone.
var errAlone = engine.Errorf(engine.CodeUnsupported, "this database is not a node of a cluster")

// node returns the node that db is, or nil if it runs alone.
func (db *DB) node() *group {
	if db.group == nil || db.group.port == nil {
		return nil
	}
	return db.group
}

// Report implements engine.NodeReporter.
func (db *DB) Report() engine.NodeReport {
	g := db.node()
	if g == nil {
		return engine.NodeReport{}
	}
	s := g.status()
	rep := engine.NodeReport{
		Version: s.Version, Expires: db.id.Expires(), Invites: db.id.CanInvite(), Commit: s.Commit,
		Formats: []engine.Format{
			{Name: "log", Version: recordFormat}, {Name: "snapshot", Version: snapshotFormat}, {Name: "batch", Version: batchFormat},
			{Name: "node", Version: max(noteFormat, preferenceFormat)},
		},
	}
	versions := map[uint64]string{}
	for _, p := range g.port.Peers() {
		versions[p.ID] = p.Hello.Version
	}
	for _, n := range s.Nodes {
		if n.ID != s.Node {
			rep.Peers = append(rep.Peers, engine.PeerReport{ID: n.ID, Version: versions[n.ID], Connected: n.Connected, Behind: n.Behind, Error: n.Error})
		}
	}
	return rep
}

// RemoveNode implements engine.MemberChanger.
func (db *DB) RemoveNode(ctx context.Context, node uint64) error {
	g := db.node()
	if g == nil {
		return errAlone
	}
	in, err := json.Marshal(nodeRef{node})
	if err != nil {
		panic("BUG: encode the id of a node: " + err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, changeWait)
	defer cancel()
	return g.onLeader(ctx, methodRemove, in)
}

// Invite implements engine.MemberChanger. It takes turns with `skerry cluster invite` on the same folder.
func (db *DB) Invite(replica bool) (node uint64, invitation []byte, err error) {
	g := db.node()
	if g == nil {
		return 0, nil, errAlone
	}
	r := g.view.Load().roster
	used := append([]uint64(nil), r.Removed...)
	for _, n := range r.Nodes {
		used = append(used, n.ID)
	}
	issue := db.id.Invite
	if replica {
		issue = db.id.InviteReplica
	}
	text, err := issue(used...)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, errCannotInvite(db.id)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("invite a node: %w", err)
	}
	if node, err = peer.Invited(text); err != nil {
		return 0, nil, fmt.Errorf("invite a node: %w", err)
	}
	return node, text, nil
}

// errCannotInvite returns the error of a node whose folder lacks the key of the CA.
func errCannotInvite(id *peer.Identity) error {
	return engine.Errorf(engine.CodeInvalid, "node %d cannot invite: the key of the cluster's CA, %s, is only in the folder where the cluster was created",
		id.Node, filepath.Join(clusterDir, "ca.key"))
}
