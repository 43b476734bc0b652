package enginetest

import (
	"context"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// reporterCase checks a node's report about itself; of an engine that runs alone it is empty.
func reporterCase(e *env) {
	r := optional[engine.NodeReporter](e, "NodeReporter")
	c, ok := e.eng.(engine.Clustered)
	if !ok || c.Cluster() == nil {
		if rep := r.Report(); rep.Invites || rep.Commit != 0 || !rep.Expires.IsZero() || rep.Formats != nil || rep.Peers != nil {
			e.Fatalf("an engine that runs alone reports %+v", rep)
		}
		return
	}
	e.leads(c.Cluster())
	e.put("a", "1")
	rep := r.Report()
	if rep.Commit == 0 || !rep.Expires.After(time.Now()) {
		e.Fatalf("after a write: %+v", rep)
	}
	for _, f := range rep.Formats {
		if f.Name == "" || f.Version < 1 {
			e.Fatalf("a format is %+v", f)
		}
	}
	for i, p := range rep.Peers {
		if p.ID == c.Cluster().State().Self || i > 0 && p.ID <= rep.Peers[i-1].ID {
			e.Fatalf("the other nodes are %+v", rep.Peers)
		}
	}
}

// leads waits until the engine's node leads its cluster, or skips the case if another one does.
func (e *env) leads(c engine.Cluster) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, e.o.Wait)
	defer cancel()
	n, err := c.AwaitLeader(ctx)
	if err != nil {
		e.Fatalf("await a leader: %v", err)
	}
	if n.ID != c.State().Self {
		e.Skipf("skipped: another node leads")
	}
}

// membersCase checks what changes no member; enginetest has no second node.
func membersCase(e *env) {
	m := optional[engine.MemberChanger](e, "MemberChanger")
	c, ok := e.eng.(engine.Clustered)
	if !ok || c.Cluster() == nil {
		e.is("removing a node of an engine that runs alone", m.RemoveNode(e.ctx, 1), engine.ErrUnsupported)
		_, _, err := m.Invite(false)
		e.is("an invitation of an engine that runs alone", err, engine.ErrUnsupported)
		return
	}
	e.leads(c.Cluster())
	self := c.Cluster().State().Self
	for _, id := range []uint64{0, 1 << 40} {
		if err := m.RemoveNode(e.ctx, id); engine.CodeOf(err) != engine.CodeNotFound {
			e.Fatalf("removing node %d, which is no member: %v", id, err)
		}
	}
	if len(c.Cluster().State().Nodes) == 1 {
		if err := m.RemoveNode(e.ctx, self); engine.CodeOf(err) != engine.CodeInvalid {
			e.Fatalf("removing the last node: %v", err)
		}
	}
	e.put("a", "1")
	if r, ok := e.eng.(engine.NodeReporter); !ok || !r.Report().Invites {
		_, _, err := m.Invite(false)
		if engine.CodeOf(err) != engine.CodeInvalid {
			e.Fatalf("an invitation where there can be none: %v", err)
		}
		return
	}
	seen := map[uint64]bool{0: true}
	for _, n := range c.Cluster().State().Nodes {
		seen[n.ID] = true
	}
	for _, replica := range []bool{false, true} {
		id, text, err := m.Invite(replica)
		if err != nil || len(text) == 0 || seen[id] {
			e.Fatalf("an invitation is for node %d, has %d bytes, %v", id, len(text), err)
		}
		seen[id] = true
	}
}
