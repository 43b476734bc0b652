package record

import (
	"context"
	"errors"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// A hash takes milliseconds, in which an engine that runs one transaction after the other would do nothing else. So no
// transaction computes one: the first run of a transaction that sets passwords ends with errUnhashed and the passwords
// that it has met. Then they are hashed, and the second run finds their hashes.

// Limits of hashing passwords. A hash takes milliseconds and megabytes.
const (
	MaxPasswords        = 10 // different passwords that one transaction of an actor who is not System sets
	MaxStrangersHashing = 16 // transactions of actors without an ID whose passwords are hashed, or wait for that, at once
)

// maxHashRounds bounds the runs of a transaction that sets different passwords each time it runs.
const maxHashRounds = 4

// errUnhashed ends a run of a transaction that found new passwords.
var errUnhashed = errors.New("record: passwords are not hashed yet")

// passwords are those that a transaction sets.
type passwords struct {
	hashes  map[string]value.Value
	missing []string
	limited map[string]bool // those of actors who are not System, of all runs
}

// hash returns the hash of a password. If it is not computed yet, hash returns the password itself, and the run will
// not be committed.
func (t *Tx) hash(password string) (value.Value, error) {
	switch {
	case t.db.o.Passwords == nil:
		return value.Value{}, engine.Errorf(engine.CodeUnsupported, "passwords cannot be stored: record.Options.Passwords is not set")
	case t.passwords == nil:
		return value.Value{}, engine.Errorf(engine.CodeUnsupported, "passwords can be set only in DB.Update, not in another transaction")
	}
	if err := t.passwords.admit(t.actor, password); err != nil {
		return value.Value{}, err
	}
	if h, ok := t.passwords.hashes[password]; ok {
		return h, nil
	}
	t.passwords.missing = append(t.passwords.missing, password)
	return value.OfText(password)
}

// admit counts a password that an actor sets, unless there are too many.
func (p *passwords) admit(a Actor, password string) error {
	if a.System || p.limited[password] {
		return nil
	}
	if len(p.limited) == MaxPasswords {
		return engine.Errorf(engine.CodeLimit, "one transaction sets at most %d passwords", MaxPasswords)
	}
	if p.limited == nil {
		p.limited = map[string]bool{}
	}
	p.limited[password] = true
	return nil
}

// compute hashes the missing passwords, which an actor has set.
func (p *passwords) compute(ctx context.Context, db *DB, a Actor) error {
	if a.ID == "" && !a.System {
		select {
		case db.strangersHashing <- struct{}{}:
			defer func() { <-db.strangersHashing }()
		default:
			return engine.Errorf(engine.CodeQueueFull, "passwords of %d requests without a user are being hashed already; try again later", MaxStrangersHashing)
		}
	}
	if p.hashes == nil {
		p.hashes = map[string]value.Value{}
	}
	for _, text := range p.missing {
		if _, ok := p.hashes[text]; ok {
			continue
		}
		h, err := db.o.Passwords.Hash(ctx, text)
		if err != nil {
			return err
		}
		if p.hashes[text], err = value.OfText(h); err != nil {
			return err
		}
	}
	p.missing = nil
	return nil
}

// updateHashed runs fn as one transaction, and again after hashing the passwords that it sets.
func (db *DB) updateHashed(ctx context.Context, a Actor, fn func(*Tx) error) (engine.Position, error) {
	if err := db.describe(ctx); err != nil {
		return 0, err
	}
	p := &passwords{}
	for range maxHashRounds {
		pos, err := db.eng.Update(ctx, func(tx engine.Tx) error {
			t, err := db.In(tx, a)
			if err != nil {
				return err
			}
			t.passwords, p.missing = p, nil
			if err := fn(t); err != nil {
				return err
			}
			if p.missing != nil {
				return errUnhashed
			}
			return nil
		})
		if !errors.Is(err, errUnhashed) {
			return pos, err
		}
		if err := p.compute(ctx, db, a); err != nil {
			return 0, err
		}
	}
	return 0, engine.Errorf(engine.CodeConflict, "the transaction sets different passwords each time it runs")
}

// CheckPassword reports whether a password matches that of a record, regardless of rules. Records in the trash have no
// password. It takes the same time if there is no such record or password, so that the time does not reveal which
// exist. The caller must limit the rate of guesses.
func (db *DB) CheckPassword(ctx context.Context, collection, id, field, password string) (bool, error) {
	if db.o.Passwords == nil {
		return false, engine.Errorf(engine.CodeUnsupported, "passwords cannot be checked: record.Options.Passwords is not set")
	}
	var hash string
	_, err := db.View(ctx, engine.Read{}, Program(), func(t *Tx) error {
		c, err := t.collection(collection)
		if err != nil {
			return err
		}
		i, ok := c.Index(field)
		if !ok || c.Fields[i].Type != schema.Password {
			return engine.Errorf(engine.CodeInvalid, "%s has no password field %.80q", collection, field)
		}
		hash = ""
		d, err := keys.Get(t.tx, c.Collection, id)
		if err == nil && d != nil && !d.Deleted {
			hash, _ = d.Field(i).Text()
		}
		return err
	})
	if err != nil {
		return false, err
	}
	if hash == "" {
		_, err := db.o.Passwords.Hash(ctx, password)
		return false, err
	}
	return db.o.Passwords.Matches(ctx, password, hash)
}
