package record

import (
	"context"
	"errors"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

// Plan returns the migrations that Migrate with the same options would carry out, and the records that would lose data by
// them. It changes nothing. It looks for these records, which reads all records of the collections whose steps may lose data,
// unless AllowLoss is set.
func (db *DB) Plan(ctx context.Context, o MigrateOptions) (all []Migration, losses []Loss, err error) {
	_, err = db.eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		c, err := db.load(tx)
		if err != nil {
			return err
		}
		all, err = db.migrations(tx, c, o)
		return err
	})
	if err != nil || o.AllowLoss || db.parted != nil {
		return all, nil, err
	}
	err = db.checkLosses(ctx, o, map[string]uint64{})
	if l, ok := errors.AsType[*LossError](err); ok {
		return all, l.Losses, nil
	}
	return all, nil, err
}

// HasTables reports whether the engine has tables to which Convert can move records.
func (db *DB) HasTables(ctx context.Context) (has bool, err error) {
	_, err = db.eng.View(ctx, engine.Read{Level: engine.Local}, func(tx engine.Tx) error {
		has = db.parted == nil && keys.HasTables(tx)
		return nil
	})
	return has, err
}
