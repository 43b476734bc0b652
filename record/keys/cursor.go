package keys

import (
	"encoding/binary"

	"github.com/skerrydb/skerry/engine"
)

// cursorKey returns the key of how far a function that is called after changes has come: collection, name.
func cursorKey(collection uint32, name string) []byte {
	return append(prefix(cursorKeys, collection), name...)
}

// Cursor returns the number of the last change of a collection that a named After function has processed, and whether
// it is stored.
func Cursor(tx engine.Tx, c *Collection, name string) (seq uint64, ok bool, err error) {
	val, ok, err := tx.Get(cursorKey(c.ID, name))
	if err != nil || !ok {
		return 0, false, err
	}
	r := reader{b: val}
	if seq = r.uvarint(); r.bad {
		return 0, false, engine.Errorf(engine.CodeCorrupt, "the position of %s in %s is damaged", name, c.Name)
	}
	return seq, true, nil
}

// SetCursor stores the number of the last change that a named After function has processed.
func SetCursor(tx engine.Tx, c *Collection, name string, seq uint64) error {
	return tx.Put(cursorKey(c.ID, name), binary.AppendUvarint(nil, seq))
}

// After returns the first change of a collection with a number above seq, or nil if there is none.
func After(tx engine.Tx, c *Collection, seq uint64) (*Change, error) {
	for e, err := range c.driver().Log(tx, c, seq+1, 0, false) {
		if err != nil {
			return nil, err
		}
		return c.inLog(tx, e)
	}
	return nil, nil
}
