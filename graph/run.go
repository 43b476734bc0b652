package graph

import (
	"context"
	"time"
)

// resumeEvery is how often Run looks for removals that were interrupted.
const resumeEvery = time.Minute

// Run finishes removals that were interrupted, on this node or another one, until
// ctx ends. It returns nil then. What fails is tried again: on a node that does not
// lead, for instance.
func (d *DB) Run(ctx context.Context) error {
	tick := time.NewTicker(resumeEvery)
	defer tick.Stop()
	for {
		_ = d.Resume(ctx) // the next round tries again
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
