package keys

import (
	"bytes"
	"encoding/binary"

	"github.com/skerrydb/skerry/engine"
)

// Inspect implements Driver.
func (ordered) Inspect(tx engine.Tx, c *Collection, p Part, after []byte, n int) (looked int, next []byte, err error) {
	kinds := []byte{historyKeys}
	if p == Indexes {
		kinds = []byte{entryKeys, uniqueKeys}
	}
	for i, kind := range kinds {
		lo := prefix(kind, c.ID)
		switch {
		case bytes.HasPrefix(after, lo):
			lo = append(bytes.Clone(after), 0)
		case after != nil && i+1 < len(kinds):
			continue // after is of the next kind
		}
		for p, err := range tx.Scan(lo, prefix(kind, c.ID+1)) {
			if err == nil {
				looked++
				err = c.inspect(tx, kind, p)
			}
			if err != nil {
				return looked, nil, err
			}
			if looked == n {
				return looked, bytes.Clone(p.Key), nil
			}
		}
	}
	return looked, nil, nil
}

// inspect looks at a pair of one kind.
func (c *Collection) inspect(tx engine.Tx, kind byte, p engine.Pair) error {
	switch kind {
	case historyKeys:
		return c.inHistory(tx, p)
	case entryKeys:
		return c.entry(tx, p)
	}
	return c.unique(tx, p)
}

// inHistory looks at a change in the history.
func (c *Collection) inHistory(tx engine.Tx, p engine.Pair) error {
	at := bytes.IndexByte(p.Key[6:], 0)
	if at < 0 || len(p.Key) != 6+at+9 {
		return c.fault(&Change{}, "the history has the damaged key %x", p.Key)
	}
	ch, err := c.readChange(string(p.Key[6:6+at]), binary.BigEndian.Uint64(p.Key[6+at+1:]), p.Val)
	if err != nil {
		return err
	}
	val, ok, err := tx.Get(logKey(c.ID, ch.Seq))
	if err != nil {
		return err
	}
	if !ok {
		return c.fault(ch, "the change is in the history but not in the log")
	}
	e, err := c.readLog(engine.Pair{Key: logKey(c.ID, ch.Seq), Val: val})
	if err == nil && (e.ID != ch.ID || e.Rev != ch.Rev) {
		err = c.fault(ch, "the log has revision %d of record %s in its place", e.Rev, e.ID)
	}
	return err
}

// Indexed implements Driver.
func (ordered) Indexed(tx engine.Tx, c *Collection, d *Doc) error {
	for i := range c.stored {
		x := &c.stored[i]
		if !x.Ready {
			continue
		}
		if _, ok, err := tx.Get(x.entryKey(c.ID, d)); err != nil || !ok {
			return orFault(err, c.fault(&Change{ID: d.ID, Rev: d.Rev}, "the record is not in index %s", x.Name))
		}
		key := x.uniqueKey(c.ID, d)
		if key == nil {
			continue
		}
		if val, ok, err := tx.Get(key); err != nil || !ok || string(val) != d.ID {
			return orFault(err, c.fault(&Change{ID: d.ID, Rev: d.Rev}, "the record does not own its values in the unique index %s", x.Name))
		}
	}
	return nil
}

func orFault(err, fault error) error {
	if err != nil {
		return err
	}
	return fault
}

// entry looks at an entry of an index.
func (c *Collection) entry(tx engine.Tx, p engine.Pair) error {
	x := c.indexOf(p.Key)
	if x == nil {
		return nil
	}
	id, err := x.entryID(p.Key)
	if err != nil {
		return err
	}
	d, err := Get(tx, c, id)
	if err != nil {
		return err
	}
	if d == nil || !bytes.Equal(x.entryKey(c.ID, d), p.Key) {
		return c.fault(&Change{ID: id}, "index %s has an entry that does not belong to the record", x.Name)
	}
	return nil
}

// unique looks at the values of a record in a unique index.
func (c *Collection) unique(tx engine.Tx, p engine.Pair) error {
	x := c.indexOf(p.Key)
	if x == nil {
		return nil
	}
	d, err := Get(tx, c, string(p.Val))
	if err != nil {
		return err
	}
	if d == nil || !bytes.Equal(x.uniqueKey(c.ID, d), p.Key) {
		return c.fault(&Change{ID: string(p.Val)}, "the unique index %s has values that do not belong to the record", x.Name)
	}
	return nil
}

// indexOf returns the index of a key, nil if it is of one that is no longer used.
func (c *Collection) indexOf(key []byte) *Index {
	if len(key) < entryPrefixBytes-1 {
		return nil
	}
	id := binary.BigEndian.Uint16(key[6:])
	for i := range c.stored {
		if c.stored[i].ID == id {
			return &c.stored[i]
		}
	}
	return nil
}
