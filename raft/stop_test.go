package raft

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
)

var errPoison = errors.New("this entry cannot be applied")

// TestStopAtAnEntry: a node that cannot apply an entry applies none after it, completes no
// read, and reports that it has stopped.
func TestStopAtAnEntry(t *testing.T) {
	c := three(t)
	c.put("a")
	l, _ := c.leader()
	sick := c.nodes[l.id%3+1]
	eventually.True(c.t, "node to have a", func() bool { return slices.Contains(sick.have(), "a") })
	sick.set(func() { sick.poison = "b" })
	c.put("b")
	c.put("c")
	eventually.True(c.t, "the node to end", func() (ok bool) {
		sick.set(func() { ok = sick.failed != nil && sick.ended })
		return ok
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := sick.node.ReadIndex(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("a read on a node that has ended: %v", err)
	}
	if have := sick.have(); slices.Contains(have, "c") {
		t.Errorf("the node went on: it has %q", have)
	}
	if err := sick.failed; !errors.Is(err, errPoison) {
		t.Errorf("it ended because of %v", err)
	}
}
