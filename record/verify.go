package record

import (
	"context"
	"errors"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

// verifyStep is how many pairs one transaction of a verification reads.
const verifyStep = 500

// Fault is an inconsistency in the stored data of a collection.
type Fault = keys.Fault

// Verification is the result of Verify for one collection.
type Verification struct {
	Collection string `json:"collection"`
	Changes    int    `json:"changes"` // how many were looked at
	Records    int    `json:"records"`
	Entries    int    `json:"entries"` // of indexes

	// Uncounted is set if the counters could not be compared because others kept writing.
	Uncounted bool `json:"uncounted,omitempty"`

	// Fault is the first fault. The verification of the collection stops there.
	Fault *Fault `json:"fault,omitempty"`
}

// Verify looks for inconsistencies in the named collections, or in all if none is named: changes that were altered,
// removed, inserted or moved, and records, counters and index entries that do not match the changes. It reads in small
// steps and does not block writes. After each step it calls progress, unless it is nil.
//
// Anyone who can write the store can also recompute the chain of hashes. To detect that, keep the result of Tx.Head
// elsewhere.
func (db *DB) Verify(ctx context.Context, names []string, progress func(Verification)) (all []Verification, err error) {
	if err := db.refuses("verification"); err != nil {
		return nil, err
	}
	var c *catalog
	if _, err := db.eng.View(ctx, engine.Read{}, func(tx engine.Tx) (err error) { c, err = db.load(tx); return err }); err != nil {
		return nil, err
	}
	for _, name := range names {
		if c.byName[name] == nil {
			return nil, engine.Errorf(CodeUnknownCollection, "there is no collection %.80q", name)
		}
	}
	for _, k := range c.all {
		if len(names) > 0 && !slices.Contains(names, k.Name) {
			continue
		}
		v, err := db.verify(ctx, k, progress)
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

func (db *DB) verify(ctx context.Context, k *keys.Collection, progress func(Verification)) (r Verification, err error) {
	v := *keys.NewVerifier(k)
	for done := false; !done; {
		next, is := v, k
		_, err := db.eng.View(ctx, engine.Read{Level: engine.Local}, func(tx engine.Tx) error {
			c, err := db.load(tx)
			if err != nil {
				return err
			}
			next, is = v, k // the function may run twice
			if now := c.byName[k.Name]; now != nil && (now.Version != k.Version || now.InTables() != k.InTables()) {
				is, next = now.Collection, *keys.NewVerifier(now.Collection) // it was migrated or converted
			}
			done, err = next.Step(tx, verifyStep)
			return err
		})
		v, k = next, is
		r = Verification{Collection: k.Name, Changes: v.Changes, Records: v.Records, Entries: v.Entries, Uncounted: v.Uncounted}
		if f, ok := errors.AsType[*Fault](err); ok {
			r.Fault, done, err = f, true, nil
		}
		if err != nil {
			return r, err
		}
		if progress != nil {
			progress(r)
		}
	}
	return r, nil
}

// Head is the end of a collection's chain of changes.
type Head struct {
	Collection string `json:"collection"`
	Changes    uint64 `json:"changes"` // since the creation of the collection
	Hash       []byte `json:"hash"`    // SHA-256
}

// Head returns the end of a collection's chain of changes. Only system actors may read it.
func (t *Tx) Head(collection string) (Head, error) {
	c, err := t.collection(collection)
	if err != nil {
		return Head{}, err
	}
	if !t.actor.System {
		return Head{}, engine.Errorf(CodeRefused, "only the program and superadmins may read the head of a chain")
	}
	if err := c.Refused("chain of changes"); err != nil {
		return Head{}, err
	}
	n, err := keys.ReadCounters(t.tx, c.Collection)
	return Head{c.Name, n.Seq, n.Head[:]}, err
}
