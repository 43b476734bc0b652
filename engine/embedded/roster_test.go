package embedded

import (
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// TestNewsOfAStranger: what a node says of itself can come into the log after the
// node was removed. It does not become known again by that.
func TestNewsOfAStranger(t *testing.T) {
	x, q := leading(t)
	q.yield(engine.ErrNotLeader)
	r := &roster{Members: raft.Members{Voters: []uint64{1, 2}}, Nodes: []nodeInfo{{ID: 1, Addr: "a"}, {ID: 2, Addr: "b"}}}
	x.at.roster = r.changed(raft.Members{Voters: []uint64{1}}, nil)
	if err := q.applyAll([]raft.Entry{
		{Index: 1, Term: 6, Data: nodeInfo{ID: 2, Addr: "c"}.note()},
		{Index: 2, Term: 6, Data: nodeInfo{ID: 1, Addr: "d"}.note()},
	}); err != nil {
		t.Fatal(err)
	}
	if n, ok := x.at.roster.node(2); ok {
		t.Errorf("node 2 was removed, and is %+v", n)
	}
	if n, _ := x.at.roster.node(1); n.Addr != "d" {
		t.Errorf("node 1 is %+v", n)
	}
	if x.at.index != 2 {
		t.Errorf("applied up to %d, want 2", x.at.index)
	}
}
