package keys

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"iter"

	"github.com/skerrydb/skerry/engine"
)

// ordered is the Driver that stores records in the ordered keys of an engine.
type ordered struct{}

// Document implements Driver.
func (ordered) Document(tx engine.Tx, c *Collection, id string) (val []byte, ok bool, err error) {
	return tx.Get(docKey(c.ID, id))
}

// Documents implements Driver.
func (ordered) Documents(tx engine.Tx, c *Collection, after string) iter.Seq2[Document, error] {
	lo := docKey(c.ID, after)
	if after != "" {
		lo = append(lo, 0)
	}
	return func(yield func(Document, error) bool) {
		for p, err := range tx.Scan(lo, prefix(docKeys, c.ID+1)) {
			if err != nil {
				yield(Document{}, err)
				return
			}
			if !yield(Document{string(p.Key[6:]), p.Val}, nil) {
				return
			}
		}
	}
}

// Put implements Driver.
func (ordered) Put(tx engine.Tx, c *Collection, before, after *Doc, val []byte) error {
	if err := c.index(tx, before, after); err != nil {
		return err
	}
	if after == nil {
		return tx.Delete(docKey(c.ID, before.ID))
	}
	return tx.Put(docKey(c.ID, after.ID), val)
}

// Append implements Driver.
func (ordered) Append(tx engine.Tx, c *Collection, ch *Change, hash [sha256.Size]byte) error {
	if err := tx.Put(historyKey(c.ID, ch.ID, ch.Rev), appendChange(nil, ch)); err != nil {
		return err
	}
	return tx.Put(logKey(c.ID, ch.Seq), appendLog(nil, ch, hash))
}

// Replace implements Driver.
func (ordered) Replace(tx engine.Tx, c *Collection, ch *Change) error {
	return tx.Put(historyKey(c.ID, ch.ID, ch.Rev), appendChange(nil, ch))
}

// Forget implements Driver.
func (ordered) Forget(tx engine.Tx, c *Collection, ch *Change) error {
	if err := tx.Delete(logKey(c.ID, ch.Seq)); err != nil {
		return err
	}
	return tx.Delete(historyKey(c.ID, ch.ID, ch.Rev))
}

// Change implements Driver.
func (ordered) Change(tx engine.Tx, c *Collection, id string, rev uint64) (*Change, error) {
	val, ok, err := tx.Get(historyKey(c.ID, id, rev))
	if err != nil || !ok {
		return nil, err
	}
	return c.readChange(id, rev, val)
}

// ChangesOf implements Driver.
func (ordered) ChangesOf(tx engine.Tx, c *Collection, id string, from, to uint64, back bool) iter.Seq2[*Change, error] {
	lo, hi := historyKey(c.ID, id, from), historyKey(c.ID, id, to)
	if to == 0 {
		hi = append(append(prefix(historyKeys, c.ID), id...), 1)
	}
	return func(yield func(*Change, error) bool) {
		for p, err := range scan(tx, lo, hi, back) {
			var ch *Change
			if err == nil {
				ch, err = c.readChange(id, binary.BigEndian.Uint64(p.Key[len(p.Key)-8:]), p.Val)
			}
			if !yield(ch, err) || err != nil {
				return
			}
		}
	}
}

// Log implements Driver.
func (ordered) Log(tx engine.Tx, c *Collection, from, to uint64, back bool) iter.Seq2[LogEntry, error] {
	lo, hi := logKey(c.ID, from), logKey(c.ID, to)
	if to == 0 {
		hi = prefix(logKeys, c.ID+1)
	}
	return func(yield func(LogEntry, error) bool) {
		for p, err := range scan(tx, lo, hi, back) {
			var e LogEntry
			if err == nil {
				e, err = c.readLog(p)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func scan(tx engine.Tx, lo, hi []byte, back bool) iter.Seq2[engine.Pair, error] {
	if back {
		return tx.ScanBack(lo, hi)
	}
	return tx.Scan(lo, hi)
}

// readKeys yields the keys in a range, in the order of the way.
func (f *search) readKeys(a *access, x span) iter.Seq2[engine.Pair, error] {
	return scan(f.tx, x.lo, x.hi, a.back)
}

// LinkBytes is how many bytes of its hash a change has in the log, by which a verification finds where a chain breaks.
const LinkBytes = 8

// appendLog appends the entry of a change in the log of its collection: uvarint rev, LinkBytes of the hash, id.
func appendLog(dst []byte, ch *Change, hash [sha256.Size]byte) []byte {
	return append(append(binary.AppendUvarint(dst, ch.Rev), hash[:LinkBytes]...), ch.ID...)
}

func (c *Collection) readLog(p engine.Pair) (e LogEntry, err error) {
	e.Seq = binary.BigEndian.Uint64(p.Key[len(p.Key)-8:])
	r := reader{b: p.Val}
	e.Rev = r.uvarint()
	if r.bad || len(r.b) <= LinkBytes {
		return e, engine.Errorf(engine.CodeCorrupt, "change %d of %s: its entry in the log is damaged", e.Seq, c.Name)
	}
	e.Link, e.ID = string(r.b[:LinkBytes]), string(r.b[LinkBytes:])
	return e, nil
}

// Describe implements Driver.
func (ordered) Describe(engine.Tx, *Collection) error { return nil }

// Build implements Driver.
func (ordered) Build(tx engine.Tx, c *Collection, d *Doc) error {
	for i := range c.stored {
		if c.stored[i].Ready {
			continue
		}
		if err := c.stored[i].check(tx, c.ID, d); err != nil {
			return err
		}
		if err := c.stored[i].write(tx, c.ID, nil, d); err != nil {
			return err
		}
	}
	return nil
}

// Sweep implements Driver.
func (ordered) Sweep(tx engine.Tx, collection uint32, index uint16) (n int, err error) {
	x := Index{ID: index}
	for _, kind := range []byte{entryKeys, uniqueKeys} {
		if n, err = deleteSome(tx, x.prefix(kind, collection)); err != nil || n > 0 {
			break
		}
	}
	return n, err
}

// Drop implements Driver.
func (ordered) Drop(tx engine.Tx, collection uint32) (n int, err error) {
	for _, kind := range []byte{docKeys, entryKeys, uniqueKeys, historyKeys, logKeys} {
		if n, err = deleteSome(tx, prefix(kind, collection)); err != nil || n > 0 {
			break
		}
	}
	return n, err
}

// deleteSome deletes at most MaxStepRecords keys with a prefix, and returns how many.
func deleteSome(tx engine.Tx, prefix []byte) (n int, err error) {
	var some [][]byte
	for p, err := range tx.Scan(prefix, engine.PrefixEnd(prefix)) {
		if err != nil {
			return 0, err
		}
		if some = append(some, bytes.Clone(p.Key)); len(some) == MaxStepRecords {
			break
		}
	}
	for _, key := range some {
		if err := tx.Delete(key); err != nil {
			return 0, err
		}
	}
	return len(some), nil
}
