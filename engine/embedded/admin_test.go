package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/ports"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// TestClusterIsFull: one node more than MaxNodes is refused, and its folder says so.
func TestClusterIsFull(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3)
	// Learners that never start are members too.
	for id := uint64(4); id <= MaxNodes; id++ {
		if err := c.leader().group.admit(t.Context(), nodeInfo{ID: id, Addr: ports.Addr(t), Folder: "none"}); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(c.t, "node 1 to know all", func() bool {
		known, err := readNodes(journal.OS(), c.dirs[1])
		return err == nil && len(known) == MaxNodes
	})
	dir := t.TempDir()
	text, err := Invite(c.dirs[1])
	if err != nil {
		t.Fatal(err)
	}
	node, err := Accept(dir, text, Options{Logger: quiet()})
	if err != nil || node != MaxNodes+1 {
		t.Fatalf("node %d, %v", node, err)
	}
	err = MayJoin(t.Context(), dir, ports.Addr(t), []string{c.addrs[2]}, "0.1.0")
	if engine.CodeOf(err) != codeFull || !strings.Contains(err.Error(), "the cluster has 7 nodes that are no replicas, which is the limit; remove one first, or invite a replica") {
		t.Errorf("one node too many: %v", err)
	}
}

// TestSuspicion: a suspicion is confirmed only after it has lasted for long.
func TestSuspicion(t *testing.T) {
	var s suspicion
	now := time.Unix(1000, 0)
	for i, step := range []struct {
		after time.Duration
		heard bool
		last  uint64
		want  bool
	}{
		{0, true, 5, false},
		{suspicionWait / 2, true, 5, false},
		{suspicionWait, true, 6, false}, // the log has grown
		{suspicionWait / 2, false, 6, false},
		{suspicionWait, true, 6, false},
		{suspicionWait - 1, true, 6, false},
		{2, true, 6, true},
	} {
		now = now.Add(step.after)
		if got := s.confirmed(step.heard, step.last, now); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
}

// TestCheckOfANode: the log, the snapshots and the vote of a node are sound after
// a crash, and what is damaged is found.
func TestCheckOfANode(t *testing.T) {
	t.Parallel()
	c := newTrio(t, 3)
	pos := c.put("a", "1")
	eventually.True(c.t, "all nodes to have it", func() bool {
		for _, db := range c.dbs {
			if engine.Position(db.durable.Load()) < pos {
				return false
			}
		}
		return true
	})
	for _, db := range c.dbs {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for id, dir := range c.dirs {
		rep, err := Check(dir, Options{}, nil)
		if err != nil || !rep.OK() || rep.Node != id || rep.Term == 0 || rep.Position < pos || rep.Keys != 1 {
			t.Errorf("node %d: %+v, %v", id, rep, err)
		}
	}
	if err := os.WriteFile(filepath.Join(c.dirs[2], voteName), make([]byte, 2*voteStride), 0o600); err != nil {
		t.Fatal(err)
	}
	if rep, err := Check(c.dirs[2], Options{}, nil); err != nil || len(rep.Problems) != 1 || !strings.Contains(rep.Problems[0], "both copies of the vote are damaged") {
		t.Errorf("a damaged vote: %+v, %v", rep, err)
	}
	if err := os.Rename(filepath.Join(c.dirs[3], clusterDir), filepath.Join(t.TempDir(), "away")); err != nil {
		t.Fatal(err)
	}
	if rep, err := Check(c.dirs[3], Options{}, nil); err != nil || rep.OK() {
		t.Errorf("a node without its credentials: %+v, %v", rep, err)
	}
}
