package embedded

import (
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
)

// TestReport: each node reports the others with their versions; the leader also how far they are behind, and only the node with the
// key that it can invite.
func TestReport(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3)
	c.put("a", "1")
	c.transfer(2)
	for id, db := range c.dbs {
		eventually.True(t, "a node reports the others", func() bool {
			rep := db.Report()
			ok := rep.Version == "0.1.0" && rep.Commit > 0 && rep.Expires.After(time.Now().AddDate(9, 0, 0)) && rep.Invites == (id == 1) && len(rep.Formats) > 0 && len(rep.Peers) == 2
			for _, p := range rep.Peers {
				ok = ok && p.ID != id && p.Version == "0.1.0" && p.Connected && p.Behind == 0
			}
			return ok
		})
	}
	if err := c.dbs[3].Close(); err != nil {
		t.Fatal(err)
	}
	c.put("b", "1")
	eventually.True(t, "the leader reports that node 3 is away and behind", func() bool {
		for _, p := range c.dbs[2].Report().Peers {
			if p.ID == 3 {
				return !p.Connected && p.Behind > 0 && p.Error != ""
			}
		}
		return false
	})
}

// TestInviteWhileRunning: a running node and `skerry cluster invite` on its folder never issue an id twice, nor one of a node that was
// removed.
func TestInviteWhileRunning(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3)
	if err := c.dbs[2].RemoveNode(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if err := c.dbs[2].RemoveNode(t.Context(), 3); err != nil {
		t.Errorf("removing it again: %v", err)
	}
	for want := uint64(4); want < 8; want += 2 {
		id, text, err := c.dbs[1].Invite(want == 6)
		if err != nil || id != want {
			t.Fatalf("node %d, %v", id, err)
		}
		dir := t.TempDir()
		if node, err := Accept(dir, text, Options{Logger: quiet()}); err != nil || node != want {
			t.Errorf("node %d, %v", node, err)
		}
		if text, err = Invite(c.dirs[1]); err != nil {
			t.Fatal(err)
		}
		if node, err := Accept(t.TempDir(), text, Options{Logger: quiet()}); err != nil || node != want+1 {
			t.Errorf("node %d, %v", node, err)
		}
	}
	if _, _, err := c.dbs[2].Invite(false); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("a node without the key invites: %v", err)
	}
}
