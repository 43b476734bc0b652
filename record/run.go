package record

import (
	"context"
)

// Run does what happens in the background, until ctx ends or the engine is closed: it builds indexes and rewrites records
// after migrations, removes changes that are not to be kept any longer, and calls the functions of After. Every node
// runs it; where others lead, it waits.
func (db *DB) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error)
	parts := []func(context.Context) error{db.runWork}
	for _, run := range parts {
		go func() { ended <- run(ctx) }()
	}
	var err error
	for range parts {
		if e := <-ended; err == nil {
			err = e
			cancel()
		}
	}
	return err
}
