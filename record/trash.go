package record

import (
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// Limits of a deletion.
const (
	MaxCascade      = 10_000 // records that one deletion deletes or changes
	MaxCascadeDepth = 16     // references from the first of these to the last
)

// Delete moves a record into the trash. rev is the revision that it must have; 0 is any. What happens to records that
// refer to it is said by their references.
func (t *Tx) Delete(collection, id string, rev uint64) (*Record, error) {
	c, before, err := t.visible(collection, id, false)
	if err != nil {
		return nil, err
	}
	if err := checkRev(c, before, rev); err != nil {
		return nil, err
	}
	if ok, err := t.allows(c, Delete, before, nil); err != nil {
		return nil, err
	} else if !ok {
		return nil, engine.Errorf(CodeRefused, "the delete rule of %s does not allow this", c.Name)
	}
	left := MaxCascade
	return t.delete(c, before, &left)
}

// delete moves a record into the trash, and before it what refers to it.
func (t *Tx) delete(c *collection, before *keys.Doc, left *int) (*Record, error) {
	after := *before
	after.Deleted = true
	after.Rev++
	t.stamp(&after, keys.Deleted)
	r, err := t.put(c, before, &after, keys.Delete) // first, so that a cycle of references ends here
	if err != nil {
		return nil, err
	}
	for _, f := range c.referrers {
		if err := t.release(c, before.ID, f, left); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// release does what a reference says to the records that refer to a deleted one.
func (t *Tx) release(c *collection, id string, f referrer, left *int) error {
	want, err := value.OfText(id)
	if err != nil {
		return err
	}
	ids, err := keys.Referring(t.tx, f.from.Collection, f.field, want, *left+1)
	if err != nil || len(ids) == 0 {
		return err
	}
	field := &f.from.Fields[f.field]
	if field.OnDelete == schema.Restrict {
		return engine.Errorf(CodeReferenced, "record %s of %s cannot be deleted: record %s of %s refers to it as %s", id, c.Name, ids[0], f.from.Name, field.Name)
	}
	if *left -= len(ids); *left < 0 {
		return engine.Errorf(engine.CodeLimit, "deleting record %s of %s would change more than %d records", id, c.Name, MaxCascade)
	}
	if t.deep++; t.deep > MaxCascadeDepth {
		return engine.Errorf(engine.CodeLimit, "deleting record %s of %s would follow more than %d references", id, c.Name, MaxCascadeDepth)
	}
	defer func() { t.deep-- }()
	for _, other := range ids {
		before, err := keys.Get(t.tx, f.from.Collection, other)
		if err != nil || before == nil || before.Deleted {
			if err != nil {
				return err
			}
			continue // the same deletion has reached it on another way
		}
		if field.OnDelete == schema.Cascade {
			_, err = t.delete(f.from, before, left)
		} else {
			after := *before
			after.Data = after.Data.With(f.field, value.Value{})
			after.Rev++
			t.stamp(&after, keys.Updated)
			_, err = t.put(f.from, before, &after, keys.Update)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Restore takes a record out of the trash. What it refers to must be there, and its values for unique indexes must be
// free.
func (t *Tx) Restore(collection, id string, rev uint64) (*Record, error) {
	c, before, err := t.visible(collection, id, true)
	if err != nil {
		return nil, err
	}
	if err := checkRev(c, before, rev); err != nil {
		return nil, err
	}
	after := *before
	after.Deleted = false
	if err := t.checkReferences(c, &after, func(int) bool { return false }); err != nil {
		return nil, err
	}
	after.Rev++
	t.stamp(&after, keys.Restored)
	return t.put(c, before, &after, keys.Restore)
}

// Purge deletes a record in the trash for good. Its history keeps who did what and when, but no data.
func (t *Tx) Purge(collection, id string, rev uint64) error {
	c, before, err := t.visible(collection, id, true)
	if err != nil {
		return err
	}
	if err := checkRev(c, before, rev); err != nil {
		return err
	}
	return t.stored(c, keys.Remove(t.tx, c.Collection, before, t.change(keys.Purge)))
}
