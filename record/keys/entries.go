package keys

import (
	"bytes"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/value"
)

// index writes the entries of a record in all indexes, after it has checked all of them. before and after may be nil.
func (c *Collection) index(tx engine.Tx, before, after *Doc) error {
	for i := range c.stored {
		if err := c.stored[i].check(tx, c.ID, after); err != nil {
			return err
		}
	}
	for i := range c.stored {
		if err := c.stored[i].write(tx, c.ID, before, after); err != nil {
			return err
		}
	}
	return nil
}

// check reports why the index cannot have the values of a record.
func (x *Index) check(tx engine.Tx, collection uint32, after *Doc) error {
	if after == nil {
		return nil
	}
	entry := x.entryKey(collection, after)
	if len(entry)-len(after.ID) > MaxEntryBytes {
		return &TooLongError{x.Index}
	}
	key := x.uniqueKey(collection, after)
	if key == nil {
		return nil
	}
	id, ok, err := tx.Get(key)
	if err != nil || !ok || string(id) == after.ID {
		return err
	}
	return &DuplicateError{Index: x.Index, ID: string(id)}
}

func (x *Index) write(tx engine.Tx, collection uint32, before, after *Doc) error {
	var oldEntry, newEntry, oldUnique, newUnique []byte
	if before != nil {
		oldEntry, oldUnique = x.entryKey(collection, before), x.uniqueKey(collection, before)
	}
	if after != nil {
		newEntry, newUnique = x.entryKey(collection, after), x.uniqueKey(collection, after)
	}
	if !x.Ready && oldUnique != nil {
		// Before the record was added to the index, another one may have taken its values.
		if id, _, err := tx.Get(oldUnique); err != nil {
			return err
		} else if string(id) != before.ID {
			oldUnique = nil
		}
	}
	for _, key := range []struct {
		was, is []byte
		val     string
	}{{oldEntry, newEntry, ""}, {oldUnique, newUnique, after.id()}} {
		if bytes.Equal(key.was, key.is) {
			continue
		}
		if key.was != nil {
			if err := tx.Delete(key.was); err != nil {
				return err
			}
		}
		if key.is != nil {
			if err := tx.Put(key.is, []byte(key.val)); err != nil {
				return err
			}
		}
	}
	return nil
}

// id returns the id of the record, "" for nil.
func (d *Doc) id() string {
	if d == nil {
		return ""
	}
	return d.ID
}

// Referring implements Driver.
func (ordered) Referring(tx engine.Tx, c *Collection, field int, id value.Value, n int) (all []string, err error) {
	for i := range c.stored {
		x := &c.stored[i]
		if p := x.parts[0]; p.column || p.index != field || !x.Ready {
			continue
		}
		all, err := x.ids(tx, c.ID, id, n)
		slices.Sort(all) // the index may have them in the order of another field
		return all, err
	}
	for d, err := range Docs(tx, c, "") {
		if err != nil {
			return nil, err
		}
		if !d.Deleted && d.Field(field) == id && len(all) < n {
			all = append(all, d.ID)
		}
	}
	return all, nil
}

// ids returns the ids of at most n records that are not in the trash and whose first value is v.
func (x *Index) ids(tx engine.Tx, collection uint32, v value.Value, n int) (all []string, err error) {
	lo := appendPart(append(x.prefix(entryKeys, collection), 0), v, x.parts[0].desc)
	for p, err := range tx.Scan(lo, engine.PrefixEnd(lo)) {
		if err != nil {
			return nil, err
		}
		id, err := x.entryID(p.Key)
		if err != nil {
			return nil, err
		}
		if all = append(all, id); len(all) == n {
			break
		}
	}
	return all, nil
}
