package keys

import (
	"crypto/sha256"
	"errors"
	"iter"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/value"
)

// Driver stores the documents and changes of collections. It gives them no meaning: what a document, a change or the
// chain is, which changes there are and who wins is decided above it. Documents and changes cross this border in the form
// of the values of their keys, in which subscribers also receive them.
//
// A Driver has no state of its own, so that one value serves all transactions. Its methods follow the rules of
// engine.Tx: what it returns is valid until the next write, and nothing may be written while one of its iterators runs.
// ordered is the Driver for the ordered keys of any engine.
type Driver interface {
	Reader
	Writer
	Searcher
	Keeper
}

// Native is attached to an engine (engine.Attacher) that can store records in a Driver of its own. The description of a
// collection says in which Driver its records are; a Conversion changes that.
type Native struct {
	Driver Driver
	Create bool // new collections belong to it too
}

// Reader reads documents and changes.
type Reader interface {
	// Document returns the stored form of a document, and whether there is one.
	Document(tx engine.Tx, c *Collection, id string) (val []byte, ok bool, err error)

	// Documents yields the documents with ids above after, sorted by id.
	Documents(tx engine.Tx, c *Collection, after string) iter.Seq2[Document, error]

	// Change returns the change of a record with a revision, nil if it is not kept.
	Change(tx engine.Tx, c *Collection, id string, rev uint64) (*Change, error)

	// ChangesOf yields the changes of a record with from <= rev < to, with back the newest first. 0 as to is no bound.
	ChangesOf(tx engine.Tx, c *Collection, id string, from, to uint64, back bool) iter.Seq2[*Change, error]

	// Log yields the entries of the changes with from <= seq < to, with back the newest first. 0 as to is no bound.
	Log(tx engine.Tx, c *Collection, from, to uint64, back bool) iter.Seq2[LogEntry, error]
}

// Writer changes documents and changes.
type Writer interface {
	// Put stores the document after, whose stored form is val, and what finds it. before is what is stored now, nil if
	// there is nothing. If after is nil, it removes the document. Before it writes anything, it returns a *TooLongError
	// or *DuplicateError if an index cannot have the values.
	Put(tx engine.Tx, c *Collection, before, after *Doc, val []byte) error

	// Append adds a change to the end of the history. hash is that of the chain up to it.
	Append(tx engine.Tx, c *Collection, ch *Change, hash [sha256.Size]byte) error

	// Replace stores a change that was redacted.
	Replace(tx engine.Tx, c *Collection, ch *Change) error

	// Forget removes a change, of which ID, Rev and Seq are set.
	Forget(tx engine.Tx, c *Collection, ch *Change) error
}

// Searcher finds documents. The functions of the same names document the methods.
type Searcher interface {
	Find(tx engine.Tx, c *Collection, s *Search) (*Page, error)
	Count(tx engine.Tx, c *Collection, s *Search) (int, Plan, error)
	Each(tx engine.Tx, c *Collection, s *Search, fn func(*Doc) error) (Plan, error)
	Referring(tx engine.Tx, c *Collection, field int, id value.Value, n int) ([]string, error)
}

// Keeper prepares a collection for its description, and looks after what only the Driver knows of.
type Keeper interface {
	// Describe prepares for a description, which has just been stored: for a new collection, or for indexes that have
	// become ready. It returns a *DuplicateError if two records have the same values in a unique one.
	Describe(tx engine.Tx, c *Collection) error

	// Build adds a document to the indexes that are not ready. It returns the errors of Put.
	Build(tx engine.Tx, c *Collection, d *Doc) error

	// Sweep removes at most MaxStepRecords entries of an index that is no longer used, and returns how many.
	Sweep(tx engine.Tx, collection uint32, index uint16) (int, error)

	// Drop removes at most MaxStepRecords documents, entries and changes of a collection, and returns how many.
	Drop(tx engine.Tx, collection uint32) (int, error)

	// Indexed returns a *Fault if a record is not in an index as it should be.
	Indexed(tx engine.Tx, c *Collection, d *Doc) error

	// Inspect compares at most n pieces of what a Driver stores in addition to documents and changes with these: of a
	// part, those after the place that the call before returned, nil for the first. It returns how many there were, and
	// the next place or nil at the end. A difference is a *Fault.
	Inspect(tx engine.Tx, c *Collection, p Part, after []byte, n int) (looked int, next []byte, err error)
}

// Document is a document in its stored form.
type Document struct {
	ID  string
	Val []byte
}

// LogEntry is what the log of a collection has of a change.
type LogEntry struct {
	Seq, Rev uint64
	ID       string
	Link     string  // the first LinkBytes of the hash of the chain up to the change
	Change   *Change // nil unless the Driver has read it at the same time
}

// Part is one of the parts that Inspect looks at.
type Part int

// The parts, in the order in which a Verifier looks at them.
const (
	Histories Part = iota // the changes by record
	Indexes               // the entries of indexes
)

// driver returns the Driver of the collection.
func (c *Collection) driver() Driver {
	if c.place.driver != nil {
		return c.place.driver
	}
	return ordered{}
}

// Outside implements engine.Outside.
func (n Native) Outside(tx engine.Tx) (what string, err error) {
	all, err := Load(tx)
	if err != nil {
		return "", err
	}
	for _, c := range all {
		if c.place.native || c.place.also {
			return "the records of collection " + c.Name, nil
		}
	}
	return "", nil
}

// Behind returns the names of collections that are in keys although new ones would be in the Driver of the engine.
func Behind(tx engine.Tx) (names []string, err error) {
	all, err := Load(tx)
	if err != nil || !native(tx).Create {
		return nil, err
	}
	for _, c := range all {
		if !c.place.native {
			names = append(names, c.Name)
		}
	}
	return names, nil
}

// native returns what the engine has of its own, zero if it has nothing.
func native(tx engine.Tx) (n Native) {
	if a, ok := tx.(engine.Attacher); ok {
		n, _ = a.Attached().(Native)
	}
	return n
}

// errNoTables reports that the engine lacks the Driver to which a collection belongs.
var errNoTables = errors.New("its records are not in keys but in tables, which this engine does not have")

// change returns the change of a record with a revision, nil if it is not kept.
func (c *Collection) change(tx engine.Tx, id string, rev uint64) (*Change, error) {
	return c.driver().Change(tx, c, id, rev)
}

// logged returns the change of an entry of the log, nil if it is not kept.
func (c *Collection) logged(tx engine.Tx, e LogEntry) (*Change, error) {
	if e.Change != nil {
		return e.Change, nil
	}
	return c.change(tx, e.ID, e.Rev)
}

// inLog is logged for an entry whose change must be there.
func (c *Collection) inLog(tx engine.Tx, e LogEntry) (*Change, error) {
	ch, err := c.logged(tx, e)
	if err == nil && ch == nil {
		err = engine.Errorf(engine.CodeCorrupt, "change %d of %s is in the log but not in the history", e.Seq, c.Name)
	}
	return ch, err
}

// Ordered returns the Driver that stores records in the ordered keys of any engine.
func Ordered() Driver { return ordered{} }

// Read returns the record of a document.
func (c *Collection) Read(d Document) (*Doc, error) { return c.read(d.ID, d.Val) }

// Form returns a number that is the same for descriptions with the same form of data.
func (c *Collection) Form() uint64 { return c.form }

// DocumentKey returns the key of a document, with which a Driver publishes that it has stored one.
func DocumentKey(c *Collection, id string) []byte { return docKey(c.ID, id) }

// CheckLength returns a *TooLongError if the values of a record are too long for the index.
func (x *Index) CheckLength(d *Doc) error {
	if len(x.entryKey(0, d))-len(d.ID) > MaxEntryBytes {
		return &TooLongError{x.Index}
	}
	return nil
}

// Values returns the values of a record in the order of the index.
func (x *Index) Values(d *Doc) (all []value.Value) {
	for _, p := range x.parts {
		all = append(all, p.of(d))
	}
	return all
}
