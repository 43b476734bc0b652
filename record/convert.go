package record

import (
	"context"
	"errors"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

// Place is where the records of a collection are stored.
type Place string

// The places. Every engine that can have records has keys; PostgreSQL also has tables, which other programs can read.
const (
	InKeys   Place = "keys"
	InTables Place = "tables"
)

// Convert begins to move the records of the named collections, or of all if none is named, to another place, and returns the
// names of those that are not there yet. Run does it in small steps while requests are served; Migrations has the progress.
// Nothing else changes: revisions, history, chain, cursors and past states stay the same, and subscriptions see nothing.
// If a collection is just being converted to the other place, that is given up.
func (db *DB) Convert(ctx context.Context, names []string, to Place) (begun []string, err error) {
	if to != InKeys && to != InTables {
		return nil, engine.Errorf(engine.CodeInvalid, "records are stored in %s or %s, not in %.40q", InKeys, InTables, to)
	}
	if err := db.refuses("conversion of collections"); err != nil {
		return nil, err
	}
	_, err = db.eng.Update(ctx, func(tx engine.Tx) error {
		begun = nil
		c, err := db.settle(tx)
		if err != nil {
			return err
		}
		for _, name := range names {
			if c.byName[name] == nil {
				return engine.Errorf(CodeUnknownCollection, "there is no collection %.80q", name)
			}
		}
		for _, k := range c.all {
			if len(names) > 0 && !slices.Contains(names, k.Name) {
				continue
			}
			began, err := keys.Convert(tx, c.all, k, to == InTables)
			if err != nil {
				return err
			}
			if began {
				begun = append(begun, k.Name)
			}
		}
		return nil
	})
	db.wakeUp()
	if err != nil {
		return nil, err
	}
	return begun, nil
}

// at returns c with the places in which the collections of now are stored.
func (c *catalog) at(now *catalog) *catalog {
	if c.epoch == now.epoch {
		return c
	}
	var all []*keys.Collection
	for _, k := range c.all {
		if n := now.byID(k.ID); n != nil {
			k = k.At(n)
		}
		all = append(all, k)
	}
	return newCatalog(c.epoch, all)
}

// giveUp notes that the work of a collection cannot go on because of err, if it is a conversion and err will not pass: the
// server did not take what a step wrote.
func (db *DB) giveUp(ctx context.Context, id uint32, err error) error {
	if err == nil || ctx.Err() != nil || engine.Passes(err) || errors.Is(err, engine.ErrClosed) {
		return err
	}
	failed := false
	_, uerr := db.eng.Update(ctx, func(tx engine.Tx) error {
		works, err2 := keys.Works(tx)
		if err2 != nil {
			return err2
		}
		for _, w := range works {
			if failed = w.Collection == id && w.Convert != nil; failed {
				return w.GiveUp(tx, err)
			}
		}
		return nil
	})
	if uerr == nil && failed {
		return nil
	}
	return errors.Join(err, uerr)
}
