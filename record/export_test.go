package record

import (
	"context"
	"net/url"
	"runtime"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

// WorkStep does one step of the work that migrations have left.
func (db *DB) WorkStep(ctx context.Context) (more bool, err error) { return db.workStep(ctx) }

// TrimStep removes some of the changes that are not to be kept any longer.
func (db *DB) TrimStep(ctx context.Context) (more bool, err error) { return db.trimStep(ctx) }

// Stored returns a collection as it is stored.
func (db *DB) Stored(tx engine.Tx, name string) (*keys.Collection, error) {
	c, err := db.load(tx)
	if err != nil {
		return nil, err
	}
	return c.byName[name].Collection, nil
}

// HubWait waits until subscriptions have been served all changes up to a position.
func (db *DB) HubWait(ctx context.Context, pos engine.Position) error {
	for {
		var at engine.Position
		if err := db.hub.do(ctx, func(h *hub) { at = h.pos }); err != nil || at >= pos {
			return err
		}
		runtime.Gosched()
	}
}

// SetSlow sets what slow queries are.
func (db *DB) SetSlow(reads int, took time.Duration) { db.slow.reads, db.slow.time = reads, took }

// Note records a query of a shape of its own that took a time.
func (t *Tx) Note(collection, filter string, took time.Duration) error {
	q, err := t.ParseQuery(collection, url.Values{"filter": {filter}})
	if err != nil {
		return err
	}
	c, err := t.collection(collection)
	if err != nil {
		return err
	}
	s, err := t.search(c, q)
	if err == nil {
		t.note(c, s, &Page{query: q}, took, nil)
	}
	return err
}
