package keys

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// FullEvery is the number of revisions from one full copy in the history to the next.
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
		MaxValBytes:  4 * schema.MaxDataBytes, // a change of all members, with a full copy
		MaxTxBytes:   16 * schema.MaxDataBytes,
	}
}

// DuplicateError reports that another record has the same values in a unique index.
type DuplicateError struct {
	Index schema.Index
	ID    string // of the other record
	Of    string // id of the record, if it is not one that the caller knows
}

func (e *DuplicateError) of() string {
	if e == nil {
		return ""
	}
	return e.Of
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

// TooLongError reports that the indexed values of a record are longer than MaxEntryBytes.
type TooLongError struct{ Index schema.Index }

// Error names the index.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("the values for index %s take more than %d bytes", e.Index.Name, MaxEntryBytes)
}

// Get returns the record with an id, even if it is in the trash, or nil if there is none.
func Get(tx engine.Tx, c *Collection, id string) (*Doc, error) {
	if id == "" || len(id) > MaxIDBytes {
		return nil, nil
	}
	val, ok, err := c.driver().Document(tx, c, id)
	if err != nil || !ok {
		return nil, err
	}
	return c.read(id, val)
}

func (c *Collection) read(id string, val []byte) (*Doc, error) {
	d, err := readDoc(c, id, val)
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

	// The history is complete after the change Anchor: those up to it may have been removed, because they were too old
	// or the collection keeps none.
	Anchor     uint64
	AnchorHash [sha256.Size]byte
	AnchorAt   time.Time // time of that change
}

// ReadCounters returns the counters of a collection. One in partitions has none; they are zero.
func ReadCounters(tx engine.Tx, c *Collection) (n Counters, err error) {
	if c.parted() {
		return n, nil
	}
	val, ok, err := tx.Get(prefix(counterKeys, c.ID))
	if err != nil || !ok {
		return n, err
	}
	r := reader{b: val}
	n.Live, n.Deleted, n.Seq, n.Head = r.uvarint(), r.uvarint(), r.uvarint(), r.hash()
	if len(r.b) > 0 {
		n.Anchor, n.AnchorHash = r.uvarint(), r.hash()
		n.AnchorAt = time.UnixMicro(r.varint()).UTC()
	}
	if r.bad || len(r.b) > 0 {
		return n, engine.Errorf(engine.CodeCorrupt, "the counters of collection %s are damaged", c.Name)
	}
	return n, nil
}

func (n *Counters) write(tx engine.Tx, c *Collection) error {
	b := binary.AppendUvarint(nil, n.Live)
	b = binary.AppendUvarint(binary.AppendUvarint(b, n.Deleted), n.Seq)
	b = append(b, n.Head[:]...)
	if n.Anchor > 0 {
		b = append(binary.AppendUvarint(b, n.Anchor), n.AnchorHash[:]...)
		b = binary.AppendVarint(b, n.AnchorAt.UnixMicro())
	}
	return tx.Put(prefix(counterKeys, c.ID), b)
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

// StaleError reports that the record has changed since it was read.
type StaleError struct{ ID string }

// Error names the record.
func (e *StaleError) Error() string {
	return fmt.Sprintf("record %s has changed in the meantime; read it and try again", e.ID)
}

// Put stores the change of a record from before, nil if it is new, to after, whose Rev must be above that of all changes
// of a record with its id. It sets ID, Rev and Seq of the change, of which the caller has set Op, At, By and Request,
// and writes the change to the history. Errors about the values are *DuplicateError, *TooLongError and *StaleError;
// nothing is written then.
func Put(tx engine.Tx, c *Collection, before, after *Doc, ch *Change) error {
	if err := checkOrigin(ch.By, ch.Request); err != nil {
		return err
	}
	was, err := c.stillThere(tx, before, after.ID)
	if err != nil {
		return err
	}
	text := appendDoc(nil, c, after)
	ch.ID, ch.Rev = after.ID, after.Rev
	c.describe(ch, was, text) // before the first write, which invalidates was
	if err := c.driver().Put(tx, c, before, after, text); err != nil {
		return err
	}
	n, err := ReadCounters(tx, c)
	if err != nil {
		return err
	}
	n.count(before, -1)
	n.count(after, 1)
	if err := c.log(tx, &n, ch); err != nil || c.parted() {
		return err
	}
	return n.write(tx, c)
}

// checkOrigin refuses who makes a change, or in which request, if a text of PostgreSQL could not hold it.
func checkOrigin(by, request string) error {
	for _, s := range []string{by, request} {
		if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
			return engine.Errorf(engine.CodeInvalid, "record: %.80q cannot be the actor or the request of a change: it must be UTF-8 without NUL", s)
		}
	}
	return nil
}

// stillThere returns the data of before as they are stored, perhaps for an earlier description of the collection, and
// checks that no one has changed the record since before was read. The result is valid until the next write.
func (c *Collection) stillThere(tx engine.Tx, before *Doc, id string) ([]byte, error) {
	val, ok, err := c.document(tx, id)
	switch {
	case err != nil:
		return nil, err
	case ok != (before != nil):
		return nil, c.stale(tx, id)
	case !ok:
		return nil, nil
	}
	var is Doc
	data, err := is.readEnvelope(val)
	if err != nil {
		return nil, engine.Errorf(engine.CodeCorrupt, "record %s of %s: %w", id, c.Name, err)
	}
	if is.Rev != before.Rev {
		return nil, c.stale(tx, id)
	}
	return data, nil
}

// Docs yields the records of a collection with ids above after, sorted by id, including those in the trash.
func Docs(tx engine.Tx, c *Collection, after string) func(yield func(*Doc, error) bool) {
	return func(yield func(*Doc, error) bool) {
		for x, err := range c.driver().Documents(tx, c, after) {
			var d *Doc
			if err == nil {
				d, err = c.read(x.ID, x.Val)
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// Referring returns the ids of at most n records that are not in the trash and whose reference, a field by its number,
// is to id; they are sorted, so that what is done to them has the same order on every engine.
func Referring(tx engine.Tx, c *Collection, field int, id value.Value, n int) ([]string, error) {
	return c.driver().Referring(tx, c, field, id, n)
}
