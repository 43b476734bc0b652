package keys

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// MaxPathScan is how many records a search reads on an engine.PathStore.
const MaxPathScan = 4_000

// NeedsParted returns what records require of an engine.PathStore.
func NeedsParted() engine.Promises {
	all := Needs()
	return engine.Promises{
		Atomic:       engine.OnePartition, // a record and its history change together
		Serializable: true,                // revisions
		MaxKeyBytes:  MaxIDBytes + 64,
		MaxValBytes:  all.MaxValBytes,
		MaxTxBytes:   2 * all.MaxValBytes,
	}
}

// parted is the Driver for an engine.PathStore: a record and its history are in one partition, whose keys a Parted makes,
// and the entries of indexes are access paths. There is no log, and nothing counts or lists the records of a collection.
type parted struct{ ordered }

// parted reports whether the records of the collection are in partitions.
func (c *Collection) parted() bool {
	_, ok := c.place.driver.(parted)
	return ok
}

// InPartitions reports whether each record is in a partition of its own, so that nothing is known of all of them.
func (c *Collection) InPartitions() bool { return c.parted() }

// Refusals returns why a collection cannot be in partitions, each by the name of what cannot be had.
func Refusals(k *schema.Compiled) error {
	var bad []error
	add := func(format string, args ...any) {
		bad = append(bad, engine.Errorf(engine.CodeUnsupported, format+" of collection %s: this engine changes one partition at a time; %s", args...))
	}
	for _, x := range k.Indexes {
		if x.Unique {
			add("unique index %s", x.Name, k.Name, "uniqueness over partitions cannot be promised; use the id for what must be unique")
		}
	}
	for _, f := range k.Fields {
		if f.Type == schema.Reference {
			add("reference %s", f.Name, k.Name, "records cannot be checked and deleted together; store the id in a text field, with an index")
		}
	}
	if k.History.Keep != 0 {
		add("history.keep", k.Name, "there is no log of a collection from which old changes could be removed")
	}
	return errors.Join(bad...)
}

// refused is the error of what a collection in partitions does not have.
func (c *Collection) refused(what string) error {
	return engine.Errorf(engine.CodeUnsupported, "collection %s has no %s, because this engine keeps each record in a partition of its own", c.Name, what)
}

// Refused returns an error that names what cannot be had of the collection if its records are in partitions, otherwise nil.
func (c *Collection) Refused(what string) error {
	if c.parted() {
		return c.refused(what)
	}
	return nil
}

// Documents implements Driver.
func (parted) Documents(_ engine.Tx, c *Collection, _ string) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) { yield(Document{}, c.refused("list of its records")) }
}

// Log implements Driver.
func (parted) Log(_ engine.Tx, c *Collection, _, _ uint64, _ bool) iter.Seq2[LogEntry, error] {
	return func(yield func(LogEntry, error) bool) { yield(LogEntry{}, c.refused("log of changes")) }
}

// Put implements Driver. The entries of the document are stored before the transaction commits, and those that it no longer
// has are removed afterwards; see Parted.
func (parted) Put(tx engine.Tx, c *Collection, before, after *Doc, val []byte) error {
	t, err := partedOf(tx)
	if err != nil {
		return err
	}
	for i := range c.stored {
		if after != nil {
			if err := c.stored[i].CheckLength(after); err != nil {
				return err
			}
		}
	}
	rev := uint64(0) // of the record after the change
	if after != nil {
		rev = after.Rev
	} else {
		rev = before.Rev + 1
	}
	for i := range c.stored {
		var was, is []byte
		if before != nil {
			was = c.stored[i].entryKey(c.ID, before)
		}
		if after != nil {
			is = c.stored[i].entryKey(c.ID, after)
		}
		if bytes.Equal(was, is) {
			continue
		}
		if is != nil {
			t.insert = append(t.insert, c.stored[i].pathEntry(is, stampOf(rev)))
		}
		if was != nil {
			t.obsolete = append(t.obsolete, c.stored[i].pathEntry(was, stampWithout(rev)))
		}
	}
	if after == nil {
		return tx.Delete(docKey(c.ID, before.ID))
	}
	return tx.Put(docKey(c.ID, after.ID), val)
}

// Revisions give the entries of a record their stamps. An entry of revision n has 2n; if revision n is known to have no such
// entry, its removal has 2n+1. So a removal undoes what was stored for revision n or before, also for attempts to write them
// that failed, and nothing that is stored for a later revision, in whatever order these arrive.
func stampOf(rev uint64) int64      { return int64(2 * rev) }
func stampWithout(rev uint64) int64 { return int64(2*rev + 1) }

// pathEntry returns the entry of an index with a key.
func (x *Index) pathEntry(key []byte, stamp int64) engine.PathEntry {
	n := x.partition(key)
	return engine.PathEntry{Partition: key[:n:n], Key: key[n:], Stamp: stamp}
}

// partition returns the length of the part of an entry's key that is its partition: all up to the first value.
func (x *Index) partition(key []byte) int {
	rest, err := value.SkipKey(key[entryPrefixBytes:], x.parts[0].desc)
	if err != nil {
		panic("BUG: the key of an entry has no value: " + err.Error())
	}
	return len(key) - len(rest)
}

// Append implements Driver. The last revision of a record that was purged has a key of its own, so that the next record with
// its id continues from there.
func (parted) Append(tx engine.Tx, c *Collection, ch *Change, _ [sha256.Size]byte) error {
	if err := tx.Put(historyKey(c.ID, ch.ID, ch.Rev), appendChange(nil, ch)); err != nil {
		return err
	}
	if ch.Op != Purge {
		return nil
	}
	return tx.Put(purgedKey(c.ID, ch.ID), binary.AppendUvarint(nil, ch.Rev))
}

// purgedKeys is a kind of key that only collections in partitions have: the last revision of a purged record.
const purgedKeys = 'p'

func purgedKey(collection uint32, id string) []byte {
	return append(prefix(purgedKeys, collection), id...)
}

// Forget implements Driver.
func (parted) Forget(tx engine.Tx, c *Collection, ch *Change) error {
	return tx.Delete(historyKey(c.ID, ch.ID, ch.Rev))
}

// finalRev returns the last revision of a record, 0 if there never was one.
func (c *Collection) finalRev(tx engine.Tx, id string) (uint64, error) {
	val, ok, err := tx.Get(docKey(c.ID, id))
	if err != nil {
		return 0, err
	}
	var d Doc
	if ok {
		if _, err := d.readEnvelope(val); err != nil {
			return 0, engine.Errorf(engine.CodeCorrupt, "record %s of %s: %w", id, c.Name, err)
		}
		return d.Rev, nil
	}
	val, _, err = tx.Get(purgedKey(c.ID, id))
	r := reader{b: val}
	if err == nil && val != nil {
		d.Rev = r.uvarint()
	}
	return d.Rev, err
}

// changesAtOnce is how many changes of a record are read together.
const changesAtOnce = 16

// ChangesOf implements Driver. The revisions of a record have no gaps, so its changes are read by their keys.
func (parted) ChangesOf(tx engine.Tx, c *Collection, id string, from, to uint64, back bool) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		last, err := c.finalRev(tx, id)
		if err != nil {
			yield(nil, err)
			return
		}
		lo, hi := max(from, 1), last+1
		if to != 0 {
			hi = min(hi, to)
		}
		if c.History.Off {
			lo = max(lo, last)
		}
		for lo < hi {
			n := min(hi-lo, changesAtOnce)
			var revs []uint64
			for i := range n {
				if back {
					revs = append(revs, hi-1-i)
				} else {
					revs = append(revs, lo+i)
				}
			}
			if back {
				hi -= n
			} else {
				lo += n
			}
			some, err := c.changesAt(tx, id, revs)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, ch := range some {
				if !yield(ch, nil) {
					return
				}
			}
		}
	}
}

// changesAt returns the changes of a record with some revisions that are kept.
func (c *Collection) changesAt(tx engine.Tx, id string, revs []uint64) (all []*Change, err error) {
	keys := make([][]byte, len(revs))
	for i, rev := range revs {
		keys[i] = historyKey(c.ID, id, rev)
	}
	vals, err := engine.GetMany(tx, keys)
	if err != nil {
		return nil, err
	}
	for i, val := range vals {
		if val == nil {
			continue
		}
		ch, err := c.readChange(id, revs[i], val)
		if err != nil {
			return nil, err
		}
		all = append(all, ch)
	}
	return all, nil
}

// Find implements Driver.
func (parted) Find(tx engine.Tx, c *Collection, s *Search) (*Page, error) {
	f, err := newSearch(tx, c, s, min(cmp.Or(s.Most, MaxScan)+s.Offset+s.Limit, MaxPathScan))
	if err != nil {
		return nil, err
	}
	return f.find()
}

// Count implements Driver.
func (d parted) Count(tx engine.Tx, c *Collection, s *Search) (n int, p Plan, err error) {
	p, err = d.Each(tx, c, s, func(*Doc) error { n++; return nil })
	if _, tooMany := errors.AsType[*ScanError](err); tooMany && s.AtLeast {
		p.Cut, err = true, nil
	}
	return n, p, err
}

// Each implements Driver.
func (parted) Each(tx engine.Tx, c *Collection, s *Search, fn func(*Doc) error) (Plan, error) {
	all := Search{Tests: s.Tests, Deleted: s.Deleted, Orders: s.Orders, Past: s.Past, AtLeast: s.AtLeast, everything: true}
	f, err := newSearch(tx, c, &all, min(cmp.Or(s.Most, MaxCount), MaxPathScan))
	if err != nil {
		return Plan{}, err
	}
	return f.each(fn)
}

// Referring implements Driver. Collections in partitions have no references.
func (parted) Referring(_ engine.Tx, c *Collection, _ int, _ value.Value, _ int) ([]string, error) {
	return nil, c.refused("references")
}

// Build implements Driver.
func (parted) Build(_ engine.Tx, c *Collection, _ *Doc) error {
	return c.refused("indexes that are built later")
}

// Sweep implements Driver.
func (parted) Sweep(engine.Tx, uint32, uint16) (int, error) { return 0, errParted }

// Drop implements Driver.
func (parted) Drop(engine.Tx, uint32) (int, error) { return 0, errParted }

var errParted = engine.Errorf(engine.CodeUnsupported, "record: this engine keeps each record in a partition of its own and cannot list them")

// Indexed implements Driver.
func (parted) Indexed(_ engine.Tx, c *Collection, _ *Doc) error { return c.refused("verification") }

// Inspect implements Driver.
func (parted) Inspect(_ engine.Tx, c *Collection, _ Part, _ []byte, _ int) (int, []byte, error) {
	return 0, nil, c.refused("verification")
}

// PathError says that a query has no access path.
type PathError struct {
	Collection string
	Want       []schema.IndexField // of the index that would be one; nil: none would
}

// Error says which index would be a path.
func (e *PathError) Error() string {
	text := fmt.Sprintf("the query has no access path to the records of %s: ", e.Collection)
	if e.Want == nil {
		return text + "compare the id or the first field of an index with =, because this engine cannot list a collection"
	}
	var names []byte
	for i, f := range e.Want {
		if i > 0 {
			names = append(names, ", "...)
		}
		if names = append(names, f.Name...); f.Desc {
			names = append(names, " desc"...)
		}
	}
	return text + fmt.Sprintf("declare an index on (%s)", names)
}

// noPath returns the error for a search without an access path.
func (f *search) noPath() error {
	if f.Past != nil {
		return f.c.refused("states of the past of more than one record")
	}
	e := &PathError{Collection: f.c.Name, Want: f.wanted(f.bounds, true)}
	if f.lacking != nil && len(f.wanted(f.bounds, false)) == 0 {
		e.Want = f.lacking
	}
	if !slices.ContainsFunc(e.Want, func(x schema.IndexField) bool { return f.bounds[x.Name] != nil && f.bounds[x.Name].equal }) && f.lacking == nil {
		e.Want = nil
	}
	return e
}

// paths returns the ways that are access paths: by ids, or by an index whose first field has one of some values.
func (s *Search) paths(c *Collection, b bounds) (all []*access) {
	if s.Past != nil {
		return nil
	}
	for i := range c.stored {
		x := &c.stored[i]
		if e := b[x.Fields[0].Name]; e == nil || !e.equal || len(e.values)*2 > maxRanges {
			continue
		}
		if a := s.entries(c, x, b); a != nil {
			all = append(all, a)
		}
	}
	return all
}

// readPath yields the keys of the entries in a range, and announces their documents.
func (f *search) readPath(a *access, x span) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) {
		t, err := partedOf(f.tx)
		if err != nil {
			yield(engine.Pair{}, err)
			return
		}
		n := a.index.partition(x.lo)
		part, lo, hi := x.lo[:n:n], x.lo[n:], []byte(nil)
		if bytes.HasPrefix(x.hi, part) {
			hi = x.hi[n:]
		}
		for {
			size := pathPage
			if !f.everything && a.sorted {
				size = min(size, f.Offset+f.Limit+1)
			}
			list, err := t.rangeOf(part, lo, hi, a.back, size)
			if err == nil {
				err = f.announce(a, part, list)
			}
			if err != nil {
				yield(engine.Pair{}, err)
				return
			}
			for _, key := range list {
				if !yield(engine.Pair{Key: append(slices.Clip(part), key...)}, nil) {
					return
				}
			}
			if len(list) < size {
				return
			}
			if last := list[len(list)-1]; a.back {
				hi = last
			} else {
				lo = append(slices.Clip(last), 0)
			}
		}
	}
}

// pathPage is how many entries are read at once.
const pathPage = 128

// announce reads the documents of entries together.
func (f *search) announce(a *access, part []byte, list [][]byte) error {
	var keys [][]byte
	for _, key := range list[:min(len(list), f.budget-f.read)] {
		id, err := a.index.entryID(append(slices.Clip(part), key...))
		if err != nil {
			return err
		}
		keys = append(keys, docKey(f.c.ID, id))
	}
	_, err := engine.GetMany(f.tx, keys)
	return err
}

// atEntry returns the record that an entry leads to, nil if it is not where the entry says: the entry is older than the
// record, or of a change that was never made. One that is older is removed after the view.
func (f *search) atEntry(a *access, key []byte, id string) (*Doc, error) {
	d, err := Get(f.tx, f.c, id)
	if d == nil || err != nil || bytes.Equal(a.index.entryKey(f.c.ID, d), key) {
		return d, err
	}
	t, err := partedOf(f.tx)
	if err == nil && len(t.obsolete) < maxStale {
		t.obsolete = append(t.obsolete, a.index.pathEntry(bytes.Clone(key), stampWithout(d.Rev)))
	}
	return nil, err
}

// maxStale is how many stale entries a view removes.
const maxStale = 100
