package record

import (
	"context"
	"errors"
)

// Run runs background work until ctx ends or the engine is closed, and returns the reason. It carries out migrations,
// takes in changes of other programs, removes expired changes, delivers changes to subscriptions, and calls the After
// functions. Call it once on every node; work that only the leader does waits on the others.
func (db *DB) Run(ctx context.Context) error {
	if db.parted != nil {
		<-ctx.Done() // everything happens in the transactions
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts := []func(context.Context) error{db.work, db.runHooks, db.foreign}
	if db.hub != nil {
		parts = append(parts, db.hub.run)
	}
	ended := make(chan error, len(parts))
	for _, run := range parts {
		go func() { ended <- run(ctx) }()
	}
	first := <-ended
	cancel()
	for range len(parts) - 1 {
		if err := <-ended; errors.Is(first, context.Canceled) {
			first = err
		}
	}
	return first
}
