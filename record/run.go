package record

import (
	"context"
	"errors"
)

// Run does what happens in the background, until ctx ends or the engine is closed, and returns the reason: it carries out
// migrations, removes changes that are not to be kept any longer, delivers changes to subscriptions, and calls the functions of
// After. Every node calls it, once; work that is only for the leader waits on the others.
func (db *DB) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts := []func(context.Context) error{db.work, db.runHooks}
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
