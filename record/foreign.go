package record

import (
	"context"
	"errors"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

const (
	foreignEvery = 250 * time.Millisecond // how often DB looks for changes that other programs have made with SQL
	guardEvery   = time.Minute            // how often it makes sure that they would be noticed
)

// foreign takes in the changes that other programs have made to the tables of collections. On an engine without such
// tables it only waits.
func (db *DB) foreign(ctx context.Context) error {
	tick := time.NewTicker(foreignEvery)
	defer tick.Stop()
	var guarded time.Time
	last := "" // error
	for {
		inbox, more, err := db.takeSome(ctx)
		if err == nil && !inbox {
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
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// TakeIn takes in some of the changes that other programs have made with SQL, which Run does all the time. more reports
// that there may be others.
func (db *DB) TakeIn(ctx context.Context) (more bool, err error) {
	_, more, err = db.takeSome(ctx)
	return more, err
}

// takeSome takes in some changes. more reports that there may be others.
func (db *DB) takeSome(ctx context.Context) (inbox, more bool, err error) {
	waiting, inbox, err := db.waiting(ctx)
	for _, id := range waiting {
		n := 0
		if n, err = db.takeIn(ctx, id); err != nil {
			break
		}
		more = more || n > 0
	}
	return inbox, more, err
}

func (db *DB) waiting(ctx context.Context) (all []uint32, inbox bool, err error) {
	_, err = db.eng.View(ctx, engine.Read{}, func(tx engine.Tx) (err error) {
		all, inbox, err = keys.WaitingIn(tx)
		return err
	})
	return all, inbox, err
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
