package record

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

const (
	foreignEvery = 250 * time.Millisecond // how often DB looks for changes that other programs have made with SQL
	foreignIdle  = 2 * time.Second        // the same while no collection is in tables
	guardEvery   = time.Minute            // how often it makes sure that they would be noticed
)

// foreign takes in the changes that other programs have made to the tables of collections. On an engine without such
// tables it only waits.
func (db *DB) foreign(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var guarded time.Time
	last := "" // error
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		where, more, err := db.takeSome(ctx)
		if err == nil && where == nowhere {
			<-ctx.Done()
			return ctx.Err()
		}
		if err == nil && time.Since(guarded) > guardEvery {
			err = db.guarded(ctx)
			guarded = time.Now()
		}
		switch {
		case errors.Is(err, engine.ErrClosed):
			return err
		case err == nil || errors.Is(err, engine.ErrReadOnly): // the process that can write does it
			last = ""
		case ctx.Err() == nil && err.Error() != last:
			last = err.Error()
			db.o.Logger.Warn("changes that other programs have made with SQL are not taken in yet", "err", err)
		}
		switch {
		case more && err == nil:
			timer.Reset(0)
		case where == inNone:
			timer.Reset(foreignIdle)
		default:
			timer.Reset(foreignEvery)
		}
	}
}

// inTables says where other programs can change records.
type inTables int

const (
	inSome  inTables = iota // in the tables of some collections
	inNone                  // in none now
	nowhere                 // the engine has no tables
)

// TakeIn takes in some of the changes that other programs have made with SQL, which Run does all the time. more reports
// that there may be others.
func (db *DB) TakeIn(ctx context.Context) (more bool, err error) {
	_, more, err = db.takeSome(ctx)
	return more, err
}

// takeSome takes in some changes. more reports that there may be others.
func (db *DB) takeSome(ctx context.Context) (where inTables, more bool, err error) {
	waiting, where, err := db.waiting(ctx)
	for _, id := range waiting {
		n := 0
		if n, err = db.takeIn(ctx, id); err != nil {
			break
		}
		more = more || n > 0
	}
	return where, more, err
}

// waiting returns the ids of some collections of which changes wait.
func (db *DB) waiting(ctx context.Context) (all []uint32, where inTables, err error) {
	_, err = db.eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		all, where = nil, nowhere
		if !keys.HasTables(tx) {
			return nil
		}
		c, err := db.load(tx)
		if err != nil {
			return err
		}
		if where = inNone; slices.ContainsFunc(c.all, (*keys.Collection).InTables) {
			where = inSome
			all, err = keys.WaitingIn(tx)
		}
		return err
	})
	return all, where, err
}

// takeIn takes in some changes of a collection, and returns how many.
func (db *DB) takeIn(ctx context.Context, id uint32) (int, error) {
	var taken []keys.Taken
	name := ""
	_, err := db.eng.Update(ctx, func(tx engine.Tx) error {
		taken = nil
		all, err := db.load(tx)
		if err != nil {
			return err
		}
		c := all.byID(id)
		if c == nil {
			return nil // it was dropped
		}
		name = c.Name
		taken, err = keys.TakeIn(tx, c, "", keys.MaxTake)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, x := range taken {
		if x.Problem != nil {
			db.o.Logger.Warn("a change that another program made with SQL is not valid; it was recorded", "collection", name, "record", x.ID, "by", x.By, "problem", x.Problem)
		}
	}
	return len(taken), nil
}

// guarded logs the collections in which changes of other programs would go unnoticed.
func (db *DB) guarded(ctx context.Context) error {
	_, err := db.eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		all, err := db.load(tx)
		if err != nil {
			return err
		}
		for _, c := range all.all {
			err := keys.Guarded(tx, c)
			if fault, ok := errors.AsType[*keys.Fault](err); ok {
				db.o.Logger.Error("a table was changed by hand", "err", fault)
			} else if err != nil {
				return err
			}
		}
		return nil
	})
	return err
}
