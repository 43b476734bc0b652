package record

import (
	"slices"

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

// Delete moves a record into the trash. Unless rev is 0, the record must have that revision. Records that refer to it
// are handled as their reference fields specify; see schema.OnDelete.
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
	return t.delete(c, before)
}

// deletion is a planned deletion. The plan is complete before anything is written, so a refused deletion writes
// nothing, and the result does not depend on order.
type deletion struct {
	docs    []*deleted // to move into the trash; the first is what was asked for
	nulls   []*nulled
	seen    map[target]*deleted
	losing  map[target]*nulled
	holding []holder // that a reference restricts to; allowed if they are deleted as well
}

type target struct {
	c  *collection
	id string
}

type deleted struct {
	c      *collection
	before *keys.Doc
	depth  int // references from the first
}

// nulled is a record that loses references.
type nulled struct {
	c             *collection
	before, after *keys.Doc
}

type holder struct {
	target
	field string
	to    target
}

// delete moves a record into the trash and handles the records that refer to it.
func (t *Tx) delete(c *collection, before *keys.Doc) (*Record, error) {
	x := &deletion{seen: map[target]*deleted{}, losing: map[target]*nulled{}}
	x.add(c, before, 0)
	for next := 0; next < len(x.docs); { // release adds to them
		of := x.docs[next]
		next++
		for _, f := range of.c.referrers {
			if err := t.release(x, of, f); err != nil {
				return nil, err
			}
		}
	}
	for _, h := range x.holding {
		if x.seen[h.target] == nil {
			return nil, engine.Errorf(CodeReferenced, "record %s of %s cannot be deleted: record %s of %s refers to it in %s", h.to.id, h.to.c.Name, h.id, h.c.Name, h.field)
		}
	}
	return t.carryOut(x)
}

func (x *deletion) add(c *collection, d *keys.Doc, depth int) {
	n := &deleted{c, d, depth}
	x.docs = append(x.docs, n)
	x.seen[target{c, d.ID}] = n
}

// release plans what happens to the records that refer to a deleted one.
func (t *Tx) release(x *deletion, of *deleted, f referrer) error {
	want, err := value.OfText(of.before.ID)
	if err != nil {
		return err
	}
	ids, err := keys.Referring(t.tx, f.from.Collection, f.field, want, MaxCascade+1)
	if err != nil || len(ids) == 0 {
		return err
	}
	field := &f.from.Fields[f.field]
	if len(x.docs)+len(x.nulls)+len(x.holding)+len(ids) > MaxCascade {
		return engine.Errorf(engine.CodeLimit, "deleting record %s of %s would involve more than %d records; delete some of them first", x.docs[0].before.ID, x.docs[0].c.Name, MaxCascade)
	}
	if of.depth >= MaxCascadeDepth {
		return engine.Errorf(engine.CodeLimit, "deleting record %s of %s would follow a chain of more than %d references; delete the last ones first", x.docs[0].before.ID, x.docs[0].c.Name, MaxCascadeDepth)
	}
	for _, id := range ids {
		at := target{f.from, id}
		if x.seen[at] != nil {
			continue
		}
		if field.OnDelete == schema.Restrict {
			x.holding = append(x.holding, holder{at, field.Name, target{of.c, of.before.ID}})
			continue
		}
		d, err := keys.Get(t.tx, f.from.Collection, id)
		if err != nil {
			return err
		}
		if d == nil {
			return engine.Errorf(engine.CodeCorrupt, "an index of %s contains record %s, which does not exist", f.from.Name, id)
		}
		if field.OnDelete == schema.Cascade {
			x.add(f.from, d, of.depth+1)
			continue
		}
		n := x.losing[at]
		if n == nil {
			after := *d
			n = &nulled{f.from, d, &after}
			x.losing[at] = n
			x.nulls = append(x.nulls, n)
		}
		n.after.Data = n.after.Data.With(f.field, value.Value{})
	}
	return nil
}

// carryOut writes a planned deletion.
func (t *Tx) carryOut(x *deletion) (first *Record, err error) {
	x.nulls = slices.DeleteFunc(x.nulls, func(n *nulled) bool { return x.seen[target{n.c, n.before.ID}] != nil })
	for _, n := range x.nulls {
		if err := t.runBefore(n.c, keys.Update, n.before, n.after); err != nil {
			return nil, err
		}
	}
	for _, n := range x.docs {
		after := *n.before
		after.Deleted = true
		if err := t.runBefore(n.c, keys.Delete, n.before, &after); err != nil {
			return nil, err
		}
	}
	for _, n := range x.nulls {
		n.after.Rev++
		t.stamp(n.after, keys.Updated)
		if _, err := t.put(n.c, n.before, n.after, keys.Update); err != nil {
			return nil, err
		}
	}
	for i, n := range x.docs {
		after := *n.before
		after.Deleted = true
		after.Rev++
		t.stamp(&after, keys.Deleted)
		r, err := t.put(n.c, n.before, &after, keys.Delete)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first = r
		}
	}
	return first, nil
}

// Restore takes a record out of the trash. Records that it refers to must exist, and its values in unique indexes must
// be free.
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
	after.Data = c.Fill(after.Data)
	if err := t.checkReferences(c, &after, func(int) bool { return false }); err != nil {
		return nil, err
	}
	if err := t.runBefore(c, keys.Restore, before, &after); err != nil {
		return nil, err
	}
	after.Rev++
	t.stamp(&after, keys.Restored)
	return t.put(c, before, &after, keys.Restore)
}

// Purge permanently deletes a record that is in the trash. The history keeps who changed it and when, but no data.
func (t *Tx) Purge(collection, id string, rev uint64) error {
	c, before, err := t.visible(collection, id, true)
	if err != nil {
		return err
	}
	if err := checkRev(c, before, rev); err != nil {
		return err
	}
	if err := t.runBefore(c, keys.Purge, before, nil); err != nil {
		return err
	}
	return t.stored(c, keys.Remove(t.tx, c.Collection, before, t.change(keys.Purge)))
}
