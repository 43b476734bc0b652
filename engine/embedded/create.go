package embedded

import (
	"context"
	"time"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// Unused reports whether a data folder is missing or empty, except for what CreateAfter leaves when its process is killed.
func Unused(dir string) bool { return requireEmpty(journal.OS(), dir) == nil }

// CreateAfter creates a data folder without data whose positions and times come after pos and at: those of another
// engine, whose data is about to be moved there. The folder must be Unused.
func CreateAfter(ctx context.Context, dir string, pos engine.Position, at time.Time, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	if err := requireEmpty(o.FS, dir); err != nil {
		return err
	}
	_, err = writeFolder(ctx, &snapshot{tree: btree.NewPairs(), pos: pos, time: at.UnixMicro()}, dir, o)
	return err
}
