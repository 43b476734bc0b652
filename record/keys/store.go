package keys

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// FullEvery is how many revisions of a record there are from one full copy of its data in the history to the next.
const FullEvery = 32

// Needs returns what records require of an engine.
func Needs() engine.Promises {
	return engine.Promises{
		Atomic:       engine.AllKeys, // a record, its indexes and its history change together
		Serializable: true,           // unique indexes, references, revisions
		Ordered:      true,           // indexes
		Snapshot:     true,           // listings
		Clock:        true,           // the times of a history do not go back
		MaxKeyBytes:  MaxEntryBytes + MaxIDBytes + 16,
	}
}

// DuplicateError says that another record has the same values in a unique index.
type DuplicateError struct {
	Index schema.Index
	ID    string // of the other record
}

// Error names the fields.
func (e *DuplicateError) Error() string {
	var names []byte
	for i, f := range e.Index.Fields {
		if i > 0 {
			names = append(names, " and "...)
		}
		names = append(names, f.Name...)
	}
	return fmt.Sprintf("another record has the same %s", names)
}

// TooLongError says that the values of an indexed record are longer than MaxEntryBytes.
type TooLongError struct{ Index schema.Index }

// Error names the index.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("the values for index %s take more than %d bytes", e.Index.Name, MaxEntryBytes)
}

// Get returns the record with an id, also if it is in the trash; nil if there is none.
func Get(tx engine.Tx, c *Collection, id string) (*Doc, error) {
	if id == "" || len(id) > MaxIDBytes {
		return nil, nil
	}
	val, ok, err := tx.Get(docKey(c.ID, id))
	if err != nil || !ok {
		return nil, err
	}
	return c.read(id, val)
}

func (c *Collection) read(id string, val []byte) (*Doc, error) {
	d, err := readDoc(c.Compiled, id, val)
	if err != nil {
		return nil, engine.Errorf(engine.CodeCorrupt, "read a record: %w", err)
	}
	return d, nil
}

// Counters are what a collection counts.
type Counters struct {
	Live, Deleted uint64            // records
	Seq           uint64            // changes
	Head          [sha256.Size]byte // hash of the last change
}

// ReadCounters returns the counters of a collection.
func ReadCounters(tx engine.Tx, c *Collection) (n Counters, err error) {
	val, ok, err := tx.Get(prefix(counterKeys, c.ID))
	if err != nil || !ok {
		return n, err
	}
	r := reader{b: val}
	n.Live, n.Deleted, n.Seq = r.uvarint(), r.uvarint(), r.uvarint()
	if r.bad || copy(n.Head[:], r.b) != len(n.Head) {
		return n, engine.Errorf(engine.CodeCorrupt, "the counters of collection %s are damaged", c.Name)
	}
	return n, nil
}

func (n *Counters) write(tx engine.Tx, c *Collection) error {
	b := binary.AppendUvarint(nil, n.Live)
	b = binary.AppendUvarint(binary.AppendUvarint(b, n.Deleted), n.Seq)
	return tx.Put(prefix(counterKeys, c.ID), append(b, n.Head[:]...))
}

// count adds a record to the counters, or removes it with by = -1. d may be nil.
func (n *Counters) count(d *Doc, by int) {
	switch {
	case d == nil:
	case d.Deleted:
		n.Deleted += uint64(by)
	default:
		n.Live += uint64(by)
	}
}

// Put stores the change of a record from before, nil if it is new, to after, whose Rev must be above that of all changes
// of a record with its id. It sets ID, Rev and Seq of the change, of which the caller has set Op, At, By and Request,
// and writes the change to the history. Errors about the values are *DuplicateError and *TooLongError; nothing is
// written then.
func Put(tx engine.Tx, c *Collection, before, after *Doc, ch *Change) error {
	if err := c.index(tx, before, after); err != nil {
		return err
	}
	if err := tx.Put(docKey(c.ID, after.ID), appendDoc(nil, c.Compiled, after)); err != nil {
		return err
	}
	n, err := ReadCounters(tx, c)
	if err != nil {
		return err
	}
	n.count(before, -1)
	n.count(after, 1)
	if err := c.log(tx, &n, before, after, ch); err != nil {
		return err
	}
	return n.write(tx, c)
}

// log writes a change to the history.
func (c *Collection) log(tx engine.Tx, n *Counters, before, after *Doc, ch *Change) error {
	n.Seq++
	ch.ID, ch.Rev, ch.Seq = after.ID, after.Rev, n.Seq
	is := c.Append(nil, after.Data)
	var was []byte
	if before != nil {
		was = c.Append(nil, before.Data)
	}
	if ch.Body = diff(c.Compiled, was, is); ch.Rev%FullEvery == 0 {
		ch.Full = is
	}
	n.Head = ch.hash(n.Head)
	if c.History.Off && before != nil {
		if err := c.forget(tx, before.ID, before.Rev); err != nil {
			return err
		}
	}
	if err := tx.Put(historyKey(c.ID, ch.ID, ch.Rev), appendChange(nil, ch)); err != nil {
		return err
	}
	return tx.Put(logKey(c.ID, ch.Seq), appendLog(nil, ch, n.Head))
}

// forget removes a change from the history.
func (c *Collection) forget(tx engine.Tx, id string, rev uint64) error {
	key := historyKey(c.ID, id, rev)
	val, ok, err := tx.Get(key)
	if err != nil || !ok {
		return err
	}
	ch, err := readChange(id, rev, val)
	if err != nil {
		return engine.Errorf(engine.CodeCorrupt, "read the history: %w", err)
	}
	if err := tx.Delete(logKey(c.ID, ch.Seq)); err != nil {
		return err
	}
	return tx.Delete(key)
}

// linkBytes is how many bytes of its hash a change has in the log, by which a verification finds where a chain breaks.
const linkBytes = 8

// appendLog appends the entry of a change in the log of its collection: uvarint rev, linkBytes of the hash, id.
func appendLog(dst []byte, ch *Change, hash [sha256.Size]byte) []byte {
	return append(append(binary.AppendUvarint(dst, ch.Rev), hash[:linkBytes]...), ch.ID...)
}

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
	return &DuplicateError{x.Index, string(id)}
}

func (x *Index) write(tx engine.Tx, collection uint32, before, after *Doc) error {
	var oldEntry, newEntry, oldUnique, newUnique []byte
	if before != nil {
		oldEntry, oldUnique = x.entryKey(collection, before), x.uniqueKey(collection, before)
	}
	if after != nil {
		newEntry, newUnique = x.entryKey(collection, after), x.uniqueKey(collection, after)
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

// Remove deletes a record for good: the bodies of its changes are redacted, and the purge becomes its last change.
func Remove(tx engine.Tx, c *Collection, before *Doc, ch *Change) error {
	if err := c.index(tx, before, nil); err != nil {
		return err
	}
	if err := tx.Delete(docKey(c.ID, before.ID)); err != nil {
		return err
	}
	n, err := ReadCounters(tx, c)
	if err != nil {
		return err
	}
	n.count(before, -1)
	n.Seq++
	ch.ID, ch.Rev, ch.Seq, ch.Body = before.ID, before.Rev+1, n.Seq, []byte("[]")
	n.Head = ch.hash(n.Head)
	if err := c.redactAll(tx, before.ID); err != nil {
		return err
	}
	if err := tx.Put(historyKey(c.ID, ch.ID, ch.Rev), appendChange(nil, ch)); err != nil {
		return err
	}
	if err := tx.Put(logKey(c.ID, ch.Seq), appendLog(nil, ch, n.Head)); err != nil {
		return err
	}
	return n.write(tx, c)
}

// redactAll removes the bodies of all changes of a record.
func (c *Collection) redactAll(tx engine.Tx, id string) error {
	changes, err := History(tx, c, id, 0, 0)
	if err != nil {
		return err
	}
	for _, ch := range changes {
		if ch.Redacted() {
			continue
		}
		ch.redact()
		if err := tx.Put(historyKey(c.ID, id, ch.Rev), appendChange(nil, ch)); err != nil {
			return err
		}
	}
	return nil
}

// History returns the changes of a record with revisions below before, the newest first, at most n of them. 0 as before or n is no
// bound.
func History(tx engine.Tx, c *Collection, id string, before uint64, n int) (all []*Change, err error) {
	lo, hi := historyKey(c.ID, id, 0), historyKey(c.ID, id, before)
	if before == 0 {
		hi = append(append(prefix(historyKeys, c.ID), id...), 1)
	}
	for p, err := range tx.ScanBack(lo, hi) {
		if err != nil {
			return nil, err
		}
		ch, err := readChange(id, binary.BigEndian.Uint64(p.Key[len(p.Key)-8:]), p.Val)
		if err != nil {
			return nil, engine.Errorf(engine.CodeCorrupt, "read the history: %w", err)
		}
		if all = append(all, ch); len(all) == n {
			break
		}
	}
	return all, nil
}

// Docs yields the records of a collection with ids above after, by id, those in the trash as well.
func Docs(tx engine.Tx, c *Collection, after string) func(yield func(*Doc, error) bool) {
	lo := docKey(c.ID, after)
	if after != "" {
		lo = append(lo, 0)
	}
	return func(yield func(*Doc, error) bool) {
		for p, err := range tx.Scan(lo, prefix(docKeys, c.ID+1)) {
			if err != nil {
				yield(nil, err)
				return
			}
			d, err := c.read(string(p.Key[6:]), p.Val)
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// Referring returns the ids of at most n records that are not in the trash and whose reference, a field by its number,
// is to id.
func Referring(tx engine.Tx, c *Collection, field int, id value.Value, n int) (all []string, err error) {
	for i := range c.stored {
		x := &c.stored[i]
		if p := x.parts[0]; p.column || p.index != field || !x.Ready {
			continue
		}
		return x.ids(tx, c.ID, id, n)
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
