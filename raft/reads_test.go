package raft

import (
	"context"
	"sync"
	"testing"
	"time"
)

// TestReadsDoNotWaitForTheClock: reads that arrive while a request is in flight are
// requested as soon as its reply arrives.
func TestReadsDoNotWaitForTheClock(t *testing.T) {
	c := three(t)
	c.put("a")
	c.same(1, 2, 3)
	l, _ := c.leader()
	c.isolate(l.id%3+1, true) // or its answers would do for a clock
	for _, m := range c.nodes {
		m.tick.Stop()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for round := range 200 {
		var reads sync.WaitGroup
		for range 4 {
			reads.Go(func() {
				if _, err := l.node.ReadIndex(ctx); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		if reads.Wait(); t.Failed() {
			return
		}
	}
}
