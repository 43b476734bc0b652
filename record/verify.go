package record

import (
	"context"
	"errors"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

// verifyStep is how many pairs one transaction of a verification looks at.
const verifyStep = 500

// Fault is a place where the data of a collection contradict each other.
type Fault = keys.Fault

// Verification is what Verify has found out about one collection.
type Verification struct {
	Collection string `json:"collection"`
	Changes    int    `json:"changes"` // how many were looked at
	Records    int    `json:"records"`
	Entries    int    `json:"entries"` // of indexes

	// Uncounted is set if the numbers of records were not compared with the counters, because others kept writing.
	Uncounted bool `json:"uncounted,omitempty"`

	// Fault is the first fault, with which the verification of the collection has ended.
	Fault *Fault `json:"fault,omitempty"`
}

// Verify looks for contradictions within collections, all of them if none is named: changes that were altered, removed,
// inserted or moved after they were written, and records, counters and index entries that are not what the changes have
// made of them. It reads in steps, between which others may write, and calls progress, which may be nil, after each.
//
// Someone who can write the store can also write a chain of hashes anew from the first change on. To detect that, keep
// Head at another place.
func (db *DB) Verify(ctx context.Context, names []string, progress func(Verification)) (all []Verification, err error) {
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
		next := v
		_, err := db.eng.View(ctx, engine.Read{Level: engine.Local}, func(tx engine.Tx) error {
			c, err := db.load(tx)
			if err != nil {
				return err
			}
			next = v // the function may run twice
			if now := c.byName[k.Name]; now != nil && now.Version != k.Version {
				k, next = now.Collection, *keys.NewVerifier(now.Collection) // it was migrated
			}
			done, err = next.Step(tx, verifyStep)
			return err
		})
		v = next
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

// Head is the end of the chain of changes of a collection.
type Head struct {
	Collection string `json:"collection"`
	Changes    uint64 `json:"changes"` // since the creation of the collection
	Hash       []byte `json:"hash"`    // SHA-256
}

// Head returns the end of the chain of changes of a collection.
func (t *Tx) Head(collection string) (Head, error) {
	c, err := t.collection(collection)
	if err != nil {
		return Head{}, err
	}
	if !t.actor.System {
		return Head{}, engine.Errorf(CodeRefused, "only the program and superadmins may read the head of a chain")
	}
	n, err := keys.ReadCounters(t.tx, c.Collection)
	return Head{c.Name, n.Seq, n.Head[:]}, err
}
