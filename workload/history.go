package workload

import (
	"context"
	"fmt"

	"github.com/skerrydb/skerry/engine"
)

// history calls fn with every change after a position, up to one that it commits itself
// at key mark, and checks that positions only grow. If the engine no longer has them all,
// the error matches engine.ErrTruncated.
func history(ctx context.Context, eng engine.Engine, name string, mark []byte, after engine.Position, fn func(engine.Change) error) error {
	last, err := eng.Update(ctx, func(tx engine.Tx) error { return tx.Put(mark, []byte(name)) })
	if err != nil {
		return fmt.Errorf("mark the end of the history: %w", err)
	}
	seen := after
	for c, err := range eng.Changes(ctx, after) {
		if err != nil {
			return fmt.Errorf("read changes up to %d, at %d: %w", last, seen, err)
		}
		if len(c.Writes) == 0 {
			if c.Pos < seen {
				return violation(name, "heartbeat of %d after position %d", c.Pos, seen)
			}
			if c.Pos >= last {
				return violation(name, "heartbeat of %d, but the change of %d had not come", c.Pos, last)
			}
			seen = c.Pos
			continue
		}
		if c.Pos <= seen {
			return violation(name, "change of position %d after %d", c.Pos, seen)
		}
		if c.Pos > last {
			return violation(name, "change of position %d, but that of %d had not come", c.Pos, last)
		}
		seen = c.Pos
		if err := fn(c); err != nil {
			return err
		}
		if c.Pos == last {
			return nil
		}
	}
	return violation(name, "the changes ended without an error at %d, before %d", seen, last)
}
