package keys

import (
	"bytes"

	"github.com/skerrydb/skerry/engine"
)

// CheckIndexes compares the indexes of a collection that are ready, and its counters, with its records. The error names
// the first record that an index lacks, or has without reason. It reads all of the collection.
func CheckIndexes(tx engine.Tx, c *Collection) error {
	var n Counters
	entries := make([]int, len(c.stored))
	for d, err := range Docs(tx, c, "") {
		if err != nil {
			return err
		}
		n.count(d, 1)
		for i := range c.stored {
			x := &c.stored[i]
			if !x.Ready {
				continue
			}
			if err := x.has(tx, c, d); err != nil {
				return err
			}
			if entries[i]++; x.uniqueKey(c.ID, d) != nil {
				entries[i]++
			}
		}
	}
	for i := range c.stored {
		x, found := &c.stored[i], 0
		for _, kind := range []byte{entryKeys, uniqueKeys} {
			lo := x.prefix(kind, c.ID)
			for _, err := range tx.Scan(lo, engine.PrefixEnd(lo)) {
				if err != nil {
					return err
				}
				found++
			}
		}
		if x.Ready && found != entries[i] {
			return engine.Errorf(engine.CodeCorrupt, "index %s of %s has %d entries, not %d", x.Name, c.Name, found, entries[i])
		}
	}
	is, err := ReadCounters(tx, c)
	if err == nil && (is.Live != n.Live || is.Deleted != n.Deleted) {
		err = engine.Errorf(engine.CodeCorrupt, "collection %s counts %d records and %d in the trash, not %d and %d", c.Name, is.Live, is.Deleted, n.Live, n.Deleted)
	}
	return err
}

// has reports an entry of a record that the index lacks.
func (x *Index) has(tx engine.Tx, c *Collection, d *Doc) error {
	if _, ok, err := tx.Get(x.entryKey(c.ID, d)); err != nil || !ok {
		if err == nil {
			err = engine.Errorf(engine.CodeCorrupt, "index %s of %s lacks record %s", x.Name, c.Name, d.ID)
		}
		return err
	}
	key := x.uniqueKey(c.ID, d)
	if key == nil {
		return nil
	}
	id, _, err := tx.Get(key)
	if err == nil && !bytes.Equal(id, []byte(d.ID)) {
		err = engine.Errorf(engine.CodeCorrupt, "unique index %s of %s has record %q for the values of %s", x.Name, c.Name, id, d.ID)
	}
	return err
}

// Entries returns how many entries the indexes of a collection have, also those that are not there any more.
func Entries(tx engine.Tx, c *Collection) (n int, err error) {
	lo := prefix(entryKeys, c.ID)
	for _, err := range tx.Scan(lo, engine.PrefixEnd(lo)) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}
