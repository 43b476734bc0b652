package record

import (
	"context"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/schema"
)

// On an engine.PathStore each record is in a partition of its own, and a transaction changes one record; see keys.Parted.

// refuses returns the error of what needs more than one record, if each is in a partition of its own.
func (db *DB) refuses(what string) error {
	if db.parted == nil {
		return nil
	}
	return engine.Errorf(engine.CodeUnsupported, "%s: not on this engine, which keeps each record in a partition of its own and knows nothing of all of them", what)
}

// Alone returns an error that names what, if it cannot be stored in one transaction with a record; otherwise nil.
func (db *DB) Alone(what string) error {
	if db.parted == nil {
		return nil
	}
	return engine.Errorf(engine.CodeUnsupported, "%s: not on this engine, whose transactions change one record and nothing else", what)
}

// describe does what settle does, before a transaction of an engine whose transactions cannot change collections and records.
func (db *DB) describe(ctx context.Context) error {
	if db.parted == nil {
		return nil
	}
	// That a collection is in db.catalog is not enough: a transaction under way, or one that has failed, may have put it there.
	all, known := db.definitions(), db.catalog.Load()
	if known != nil && db.stored.Load() == int64(len(all)) && !slices.ContainsFunc(all, func(k *schema.Compiled) bool { return known.byName[k.Name] == nil }) {
		return nil
	}
	err := db.updateCatalog(ctx, func(tx engine.Tx) error {
		_, err := db.settle(tx)
		return err
	})
	if err == nil {
		db.stored.Store(int64(len(all)))
	}
	return err
}

// updateCatalog runs a transaction that changes the descriptions of collections.
func (db *DB) updateCatalog(ctx context.Context, fn func(engine.Tx) error) error {
	if db.parted != nil {
		return db.parted.UpdateCatalog(ctx, fn)
	}
	_, err := db.eng.Update(ctx, fn)
	return err
}

// refusesSteps returns the error for the first step of a migration that needs all records of the collection, if each is in a
// partition of its own.
func (db *DB) refusesSteps(steps []schema.Step) error {
	for _, s := range steps {
		if s.Loses || s.Rewrites() || s.Kind == schema.AddIndex || s.Kind == schema.DropIndex || s.Kind == schema.DropCollection {
			if err := db.refuses("migration of collection " + s.Collection + " (" + s.Text + ")"); err != nil {
				return err
			}
		}
	}
	return nil
}
