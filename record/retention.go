package record

import (
	"context"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

// trimChanges is how many changes one transaction removes.
const trimChanges = 500

// trimStep removes some expired changes and reports whether there may be more. It keeps changes that After functions
// have not processed. If nothing has expired, it does not write.
func (db *DB) trimStep(ctx context.Context) (more bool, err error) {
	removed := 0
	_, err = db.eng.Update(ctx, func(tx engine.Tx) error { // not a view first: see work
		removed = 0
		c, err := db.load(tx)
		if err != nil {
			return err
		}
		for _, k := range c.all {
			if k.History.Keep == 0 {
				continue
			}
			seen, err := db.seenBy(tx, k)
			if err != nil {
				return err
			}
			n, err := keys.Trim(tx, k, tx.Now().Add(-k.History.Keep), seen, trimChanges-removed)
			if removed += n; err != nil || removed >= trimChanges {
				return err
			}
		}
		return nil
	})
	return removed > 0, err
}

// Redact removes data from the history of a record: of revision rev, or of all revisions if rev is 0. It redacts at
// most keys.MaxRedact changes and returns their number. Only system actors may redact.
//
// The current record keeps its data; Purge removes both. The history keeps who made each change and when, and records
// who redacted it and when. The chain can still be verified. Past states that depend on a redacted change can no longer
// be read or restored. Other changes of the same member may have its value as "old", and full copies, at every
// keys.FullEvery revisions, have it too: redact these as well.
func (t *Tx) Redact(collection, id string, rev uint64) (int, error) {
	c, err := t.collection(collection)
	if err != nil {
		return 0, err
	}
	if !t.actor.System {
		return 0, engine.Errorf(CodeRefused, "only the program and superadmins may redact the history")
	}
	if keys.CheckID(id) != nil {
		return 0, notFound(c, id)
	}
	n, err := keys.Redact(t.tx, c.Collection, id, rev, keys.Mark{At: t.tx.Now().UTC(), By: t.actor.ID})
	if err == nil && n == 0 {
		if all, err := keys.History(t.tx, c.Collection, id, 0, 1); err != nil || len(all) == 0 {
			return 0, notFound(c, id)
		}
	}
	return n, err
}
