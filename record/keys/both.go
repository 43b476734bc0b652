package keys

import (
	"crypto/sha256"
	"errors"

	"github.com/skerrydb/skerry/engine"
)

// both is the Driver of a collection that a Conversion copies. All is read in one place, in which everything is; what is
// written goes to both. The other place has the copied documents and changes, and those that were written since the copying
// began. Nobody is told of what is written there.
type both struct {
	Driver // from
	to     Driver
	native Converter // one of the two
}

// placeOf returns the place that a description names. own is the Driver of the engine, nil if it has none.
func placeOf(native, also bool, own Driver) (place, error) {
	p := place{native: native, also: also}
	if (native || also) && own == nil {
		return p, errNoTables
	}
	if native {
		p.driver = own
	}
	if !also {
		return p, nil
	}
	n, ok := own.(Converter)
	switch {
	case !ok:
		return p, errNoTables
	case native:
		p.driver = &both{n, ordered{}, n}
	default:
		p.driver = &both{ordered{}, n, n}
	}
	return p, nil
}

// again does in the other place what was done in the first one since mark. If that fails, it undoes all of it.
func (b *both) again(tx engine.Tx, mark int, fn func() error) error {
	err := b.native.Quietly(tx, fn)
	if err == nil {
		return nil
	}
	if s, ok := tx.(engine.Savepointer); ok {
		return errors.Join(err, s.RollbackTo(mark))
	}
	return err
}

func savepoint(tx engine.Tx) int {
	if s, ok := tx.(engine.Savepointer); ok {
		return s.Savepoint()
	}
	return 0
}

// Put implements Driver.
func (b *both) Put(tx engine.Tx, c *Collection, before, after *Doc, val []byte) error {
	mark := savepoint(tx)
	if err := b.Driver.Put(tx, c, before, after, val); err != nil {
		return err
	}
	return b.again(tx, mark, func() error { return b.to.Put(tx, c, before, after, val) })
}

// Append implements Driver.
func (b *both) Append(tx engine.Tx, c *Collection, ch *Change, hash [sha256.Size]byte) error {
	mark := savepoint(tx)
	if err := b.Driver.Append(tx, c, ch, hash); err != nil {
		return err
	}
	return b.again(tx, mark, func() error { return b.to.Append(tx, c, ch, hash) })
}

// Replace implements Driver. The change is copied in its new form if it is not in the other place yet.
func (b *both) Replace(tx engine.Tx, c *Collection, ch *Change) error {
	mark := savepoint(tx)
	if err := b.Driver.Replace(tx, c, ch); err != nil {
		return err
	}
	return b.again(tx, mark, func() error { return b.to.Replace(tx, c, ch) })
}

// Forget implements Driver.
func (b *both) Forget(tx engine.Tx, c *Collection, ch *Change) error {
	mark := savepoint(tx)
	if err := b.Driver.Forget(tx, c, ch); err != nil {
		return err
	}
	return b.again(tx, mark, func() error { return b.to.Forget(tx, c, ch) })
}

// Describe implements Driver.
func (b *both) Describe(tx engine.Tx, c *Collection) error {
	if err := b.Driver.Describe(tx, c); err != nil {
		return err
	}
	return b.to.Describe(tx, c)
}

// Build implements Driver.
func (b *both) Build(tx engine.Tx, c *Collection, d *Doc) error {
	mark := savepoint(tx)
	if err := b.Driver.Build(tx, c, d); err != nil {
		return err
	}
	return b.again(tx, mark, func() error { return b.to.Build(tx, c, d) })
}

// Sweep implements Driver.
func (b *both) Sweep(tx engine.Tx, collection uint32, index uint16) (int, error) {
	n, err := b.Driver.Sweep(tx, collection, index)
	if err == nil && n == 0 {
		err = b.native.Quietly(tx, func() error { n, err = b.to.Sweep(tx, collection, index); return err })
	}
	return n, err
}
