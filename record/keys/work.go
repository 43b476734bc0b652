package keys

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/record/schema"
)

// Limits of one step of Work.
const (
	MaxStepRecords = 500     // records that a step of a migration reads, or entries that it deletes
	MaxStepBytes   = 4 << 20 // bytes of records that a step of a migration reads
)

// Work is the unfinished work of a migration. It is stored, so any node that can write continues it. Until it is done,
// queries do not use the indexes that are being built, but changes of records maintain them.
type Work struct {
	Collection uint32   `json:"collection"`
	Rewrite    bool     `json:"rewrite,omitempty"` // records are written again, as the new description has them
	Sweep      []uint16 `json:"sweep,omitempty"`   // indexes whose entries are deleted
	Drop       string   `json:"drop,omitempty"`    // the collection had this name, and is deleted
	After      string   `json:"after,omitempty"`   // id of the last record that is done
	Done       uint64   `json:"done,omitempty"`    // records that are done

	// Failed says why the work cannot go on: two records have the same values for a unique index, or a value is too long
	// for one. Alter or Retry begins it again.
	Failed string `json:"failed,omitempty"`
}

func workKey(collection uint32) []byte { return prefix(workKeys, collection) }

func versionKey(collection uint32, version uint64) []byte {
	return binary.BigEndian.AppendUint64(prefix(versionKeys, collection), version)
}

// Works returns the work of all collections.
func Works(tx engine.Tx) (all []*Work, err error) {
	for p, err := range tx.Scan([]byte{keyspace.Records, workKeys}, []byte{keyspace.Records, workKeys + 1}) {
		if err != nil {
			return nil, err
		}
		w := &Work{}
		if err := json.Unmarshal(p.Val, w); err != nil {
			return nil, engine.Errorf(engine.CodeCorrupt, "record: read the state of a migration: %w", err)
		}
		all = append(all, w)
	}
	return all, nil
}

func (w *Work) save(tx engine.Tx) error {
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return tx.Put(workKey(w.Collection), text)
}

// find returns the work of a collection, a new one if there is none.
func find(tx engine.Tx, collection uint32) (*Work, error) {
	w := &Work{Collection: collection}
	val, ok, err := tx.Get(workKey(collection))
	if err != nil || !ok {
		return w, err
	}
	return w, json.Unmarshal(val, w)
}

// Alter stores another description of a collection. The former description becomes Previous; with undo, the latest
// Previous is removed instead. What cannot be done at once becomes Work. rewrite says that records must be rewritten.
// all are the collections that Load returned.
func Alter(tx engine.Tx, all []*Collection, c *Collection, k *schema.Compiled, rewrite, undo bool) (*Collection, error) {
	n := c.Next(k)
	if err := c.keepVersion(tx, undo); err != nil {
		return nil, err
	}
	w, err := find(tx, c.ID)
	if err != nil {
		return nil, err
	}
	kept := map[uint16]bool{}
	for _, x := range n.stored {
		kept[x.ID] = true
	}
	building := slices.ContainsFunc(n.stored, func(x Index) bool { return !x.Ready })
	for _, x := range c.stored {
		if !kept[x.ID] {
			w.Sweep = append(w.Sweep, x.ID)
		}
	}
	w.Rewrite = w.Rewrite || rewrite
	w.After, w.Done, w.Failed = "", 0, ""
	if w.Rewrite || building || len(w.Sweep) > 0 {
		if err := w.save(tx); err != nil {
			return nil, err
		}
	}
	return n, Save(tx, all, n)
}

func (c *Collection) keepVersion(tx engine.Tx, undo bool) error {
	if undo {
		_, key, err := previous(tx, c)
		if err != nil || key == nil {
			return err
		}
		return tx.Delete(key)
	}
	text, err := json.Marshal(c.Collection)
	if err != nil {
		return err
	}
	return tx.Put(versionKey(c.ID, c.Version), text)
}

// Previous returns the description that a collection had before the last Alter that was not undone.
func Previous(tx engine.Tx, c *Collection) (old schema.Collection, ok bool, err error) {
	old, key, err := previous(tx, c)
	return old, key != nil, err
}

func previous(tx engine.Tx, c *Collection) (old schema.Collection, key []byte, err error) {
	for p, err := range tx.ScanBack(versionKey(c.ID, 0), prefix(versionKeys, c.ID+1)) {
		if err != nil {
			return old, nil, err
		}
		if err := json.Unmarshal(p.Val, &old); err != nil {
			return old, nil, engine.Errorf(engine.CodeCorrupt, "record: read an older description of %s: %w", c.Name, err)
		}
		return old, bytes.Clone(p.Key), nil
	}
	return old, nil, nil
}

// Drop removes a collection. Work deletes its records.
func Drop(tx engine.Tx, c *Collection) error {
	if err := tx.Delete(schemaKey(c.Name)); err != nil {
		return err
	}
	if err := (&Work{Collection: c.ID, Drop: c.Name}).save(tx); err != nil {
		return err
	}
	return bumpEpoch(tx)
}

// Retry restarts failed work.
func (w *Work) Retry(tx engine.Tx) error {
	w.After, w.Done, w.Failed = "", 0, ""
	return w.save(tx)
}

// Step processes at most MaxStepRecords records or entries. c is the collection, nil if it is being dropped, and all
// are the collections that Load returned.
func (w *Work) Step(tx engine.Tx, all []*Collection, c *Collection) error {
	switch {
	case w.Failed != "":
		return nil
	case c == nil:
		return w.stepDrop(tx)
	case len(w.Sweep) > 0:
		return w.stepSweep(tx, c)
	}
	batch, err := w.batch(tx, c)
	if err != nil {
		return err
	}
	for _, p := range batch {
		if err := w.record(tx, c, p); err != nil {
			dup, long := (*DuplicateError)(nil), (*TooLongError)(nil)
			if !errors.As(err, &dup) && !errors.As(err, &long) {
				return err
			}
			w.Failed = fmt.Sprintf("record %s: %v", p.id, err)
			if dup != nil {
				w.Failed += ", " + dup.ID
			}
			return w.save(tx)
		}
		w.After = p.id
		w.Done++
	}
	if len(batch) > 0 {
		return w.save(tx)
	}
	return w.finish(tx, all, c)
}

// stored is a record as it is stored.
type stored struct {
	id  string
	val []byte
}

// batch returns the next records, none if there are no more.
func (w *Work) batch(tx engine.Tx, c *Collection) (batch []stored, err error) {
	lo, size := docKey(c.ID, w.After), 0
	if w.After != "" {
		lo = append(lo, 0)
	}
	for p, err := range tx.Scan(lo, prefix(docKeys, c.ID+1)) {
		if err != nil {
			return nil, err
		}
		batch = append(batch, stored{string(p.Key[6:]), bytes.Clone(p.Val)})
		if size += len(p.Val); len(batch) == MaxStepRecords || size >= MaxStepBytes {
			break
		}
	}
	return batch, nil
}

// record does one record.
func (w *Work) record(tx engine.Tx, c *Collection, s stored) error {
	d, err := c.read(s.id, s.val)
	if err != nil {
		return err
	}
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
	if !w.Rewrite || d.Deleted { // a record in the trash is written when it is restored
		return nil
	}
	after := *d
	after.Data = c.Fill(d.Data)
	text := appendDoc(nil, c, &after)
	if bytes.Equal(text, s.val) {
		return nil
	}
	var envelope Doc
	was, _ := envelope.readEnvelope(s.val) // was read before
	now, _ := envelope.readEnvelope(text)
	if o := members(was); o.equal(members(now)) {
		return tx.Put(docKey(c.ID, d.ID), text)
	}
	at := tx.Now().UTC()
	after.Rev++
	after.Marks[Updated] = Mark{At: at}
	return Put(tx, c, d, &after, &Change{Op: Update, At: at, Request: "migration"})
}

// finish makes the indexes ready, and ends the work.
func (w *Work) finish(tx engine.Tx, all []*Collection, c *Collection) error {
	if err := tx.Delete(workKey(c.ID)); err != nil {
		return err
	}
	return Save(tx, all, c.complete())
}

// stepSweep deletes entries of an index.
func (w *Work) stepSweep(tx engine.Tx, c *Collection) error {
	x := Index{ID: w.Sweep[0]}
	for _, kind := range []byte{entryKeys, uniqueKeys} {
		if n, err := deleteSome(tx, x.prefix(kind, c.ID)); err != nil || n > 0 {
			return err
		}
	}
	if w.Sweep = w.Sweep[1:]; len(w.Sweep) > 0 {
		return w.save(tx)
	}
	w.Sweep = nil
	if w.Rewrite || slices.ContainsFunc(c.stored, func(x Index) bool { return !x.Ready }) {
		return w.save(tx)
	}
	return tx.Delete(workKey(c.ID))
}

// stepDrop deletes keys of a collection.
func (w *Work) stepDrop(tx engine.Tx) error {
	for _, kind := range []byte{docKeys, entryKeys, uniqueKeys, historyKeys, logKeys, counterKeys, versionKeys} {
		n, err := deleteSome(tx, prefix(kind, w.Collection))
		if err != nil {
			return err
		}
		if n > 0 {
			w.Done += uint64(n)
			return w.save(tx)
		}
	}
	return tx.Delete(workKey(w.Collection))
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

// ChangedSince yields the ids of the records that changes after seq are about, one for each change.
func ChangedSince(tx engine.Tx, c *Collection, seq uint64) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for p, err := range tx.Scan(logKey(c.ID, seq+1), prefix(logKeys, c.ID+1)) {
			if err != nil {
				yield("", err)
				return
			}
			_, n := binary.Uvarint(p.Val)
			if n <= 0 || len(p.Val) < n+linkBytes {
				yield("", engine.Errorf(engine.CodeCorrupt, "the log of collection %s is damaged", c.Name))
				return
			}
			if !yield(string(p.Val[n+linkBytes:]), nil) {
				return
			}
		}
	}
}
