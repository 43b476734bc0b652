package redis

import (
	"context"

	"github.com/skerrydb/skerry/engine"
)

// raisedID is the id of the entry with which Raise begins an epoch. It is stored: do not change it.
const raisedID = "raised"

// Raise implements engine.Raiser. It always begins an epoch, so that every process learns of it. What earlier
// epochs lost has become what a View may ask for.
func (d *db) Raise(ctx context.Context, p engine.Position) (raised engine.Position, err error) {
	const last = 1<<(64-epochShift) - 2
	if epochOf(p) > last {
		return 0, engine.Errorf(engine.CodeInvalid, "redis: positions cannot be raised to %d: that leaves no room for later ones", p)
	}
	if err := d.writable(); err != nil {
		return 0, err
	}
	err = d.retry(ctx, func(ctx context.Context) error {
		for {
			pos, _, err := d.current()
			if err != nil {
				return err
			}
			if raised = pos; pos >= p {
				return nil
			}
			next := max(p, engine.Position((epochOf(pos)+1)<<epochShift))
			keys := []string{d.n.meta, d.n.change, d.n.fork}
			word, err := raiseScript.Exec(ctx, d.c, keys, []string{formatPos(pos), formatPos(next), raisedID, d.n.moved}).ToString()
			switch {
			case err != nil:
				return err
			case word == "lost":
				return errLost
			case word == "ok":
				raised = next
				return d.adopt(ctx, next)
			}
			if err := d.sync(ctx, ""); err != nil { // the position is another one, or the server is
				return err
			}
		}
	})
	return raised, err
}

var _ engine.Raiser = (*db)(nil)
