package record

import (
	"context"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

// trimChanges is how many changes one transaction removes.
const trimChanges = 500

// trimStep removes some of the changes that are older than their collection keeps them, and reports whether there may be
// more. If nothing is old, it writes nothing. Changes that functions of After have not seen yet are kept.
func (db *DB) trimStep(ctx context.Context) (more bool, err error) {
	old := false
	_, err = db.eng.View(ctx, engine.Read{Level: engine.Local}, func(tx engine.Tx) error {
		old = false
		c, err := db.load(tx)
		if err != nil {
			return err
		}
		for _, k := range c.all {
			if k.History.Keep == 0 || old {
				continue
			}
			if old, err = keys.Old(tx, k, tx.Now().Add(-k.History.Keep)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || !old {
		return false, err
	}
	removed := 0
	_, err = db.eng.Update(ctx, func(tx engine.Tx) error {
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

// Redact removes the data of a record's changes from its history: of the revision rev, or of all of them if rev is 0. The
// record as it is now keeps its data; Purge removes both. What was redacted is no longer known at any time between two
// changes, so the record cannot be seen or restored as it was then. Who did what and when remains, with who redacted it
// and when, and the chain of changes can still be verified. Other changes of the same member may have its value as
// "old", and every keys.FullEvery revisions there is a full copy: redact these as well. Only system actors may redact.
// At most keys.MaxRedact changes are redacted at a time. It returns how many there were.
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
