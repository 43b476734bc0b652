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
	Native     bool     `json:"native,omitempty"`  // it had records in the Driver of the engine
	After      string   `json:"after,omitempty"`   // id of the last record that is done
	Done       uint64   `json:"done,omitempty"`    // records that are done

	Convert *Conversion `json:"convert,omitempty"` // its records change their place

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
	for _, x := range c.stored {
		if !kept[x.ID] {
			w.Sweep = append(w.Sweep, x.ID)
		}
	}
	w.Rewrite = w.Rewrite || rewrite
	w.After, w.Done, w.Failed = "", 0, ""
	if w.Rewrite || n.building() || len(w.Sweep) > 0 {
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
	w, err := find(tx, c.ID)
	if err != nil {
		return err
	}
	if err := (&Work{Collection: c.ID, Drop: c.Name, Native: c.place.native || w.Convert != nil}).save(tx); err != nil {
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
	case w.Convert != nil && !w.Rewrite && !c.building():
		return w.stepConvert(tx, all, c)
	}
	batch, err := w.batch(tx, c.driver(), c, w.After, MaxStepRecords)
	if err != nil {
		return err
	}
	for _, p := range batch {
		if err := w.record(tx, c, p); err != nil {
			return w.fail(tx, p.ID, err)
		}
		w.After = p.ID
		w.Done++
	}
	if len(batch) > 0 {
		return w.save(tx)
	}
	return w.finish(tx, all, c)
}

// fail stores that the work cannot go on because of a record, if that is why err is there.
func (w *Work) fail(tx engine.Tx, id string, err error) error {
	dup, long := (*DuplicateError)(nil), (*TooLongError)(nil)
	if !errors.As(err, &dup) && !errors.As(err, &long) {
		return err
	}
	w.Failed = fmt.Sprintf("record %s: %v", id, err)
	if dup != nil {
		w.Failed += ", " + dup.ID
	}
	return w.save(tx)
}

// batch returns the next records in a Driver, at most n, none if there are no more.
func (w *Work) batch(tx engine.Tx, d Driver, c *Collection, after string, n int) (batch []Document, err error) {
	size := 0
	for x, err := range d.Documents(tx, c, after) {
		if err != nil {
			return nil, err
		}
		batch = append(batch, Document{x.ID, bytes.Clone(x.Val)})
		if size += len(x.Val); len(batch) == n || size >= MaxStepBytes {
			break
		}
	}
	return batch, nil
}

// record does one record.
func (w *Work) record(tx engine.Tx, c *Collection, s Document) (err error) {
	if isWaiting(s.Val) {
		if s.Val, _, err = c.document(tx, s.ID); err != nil {
			return err
		}
	}
	d, err := c.read(s.ID, s.Val)
	if err != nil {
		return err
	}
	if err := c.driver().Build(tx, c, d); err != nil {
		return err
	}
	if !w.Rewrite || d.Deleted { // a record in the trash is written when it is restored
		return nil
	}
	after := *d
	after.Data = c.Fill(d.Data)
	text := appendDoc(nil, c, &after)
	if bytes.Equal(text, s.Val) {
		return nil
	}
	var envelope Doc
	was, _ := envelope.readEnvelope(s.Val) // was read before
	now, _ := envelope.readEnvelope(text)
	if o := members(was); o.equal(members(now)) {
		return c.driver().Put(tx, c, d, &after, text)
	}
	at := tx.Now().UTC()
	after.Rev++
	after.Marks[Updated] = Mark{At: at}
	return Put(tx, c, d, &after, &Change{Op: Update, At: at, Request: "migration"})
}

// finish makes the indexes ready, and ends the work.
func (w *Work) finish(tx engine.Tx, all []*Collection, c *Collection) error {
	n := c.complete()
	if err := n.driver().Describe(tx, n); err != nil { // before anything says that the indexes are ready
		dup, _ := errors.AsType[*DuplicateError](err)
		return w.fail(tx, dup.of(), err)
	}
	w.Rewrite, w.After, w.Done = false, "", 0
	if err := w.end(tx); err != nil {
		return err
	}
	return Save(tx, all, n)
}

// end ends the work of a migration; a conversion goes on.
func (w *Work) end(tx engine.Tx) error {
	if w.Convert != nil {
		return w.save(tx)
	}
	return tx.Delete(workKey(w.Collection))
}

// building reports whether an index is not ready.
func (c *Collection) building() bool {
	return slices.ContainsFunc(c.stored, func(x Index) bool { return !x.Ready })
}

// stepSweep deletes entries of an index.
func (w *Work) stepSweep(tx engine.Tx, c *Collection) error {
	if n, err := c.driver().Sweep(tx, c.ID, w.Sweep[0]); err != nil || n > 0 {
		return err
	}
	if w.Sweep = w.Sweep[1:]; len(w.Sweep) > 0 {
		return w.save(tx)
	}
	w.Sweep = nil
	if w.Rewrite || c.building() {
		return w.save(tx)
	}
	return w.end(tx)
}

// stepDrop deletes some of a collection.
func (w *Work) stepDrop(tx engine.Tx) error {
	n, err := 0, error(nil)
	if w.Native {
		d := native(tx).Driver
		if d == nil {
			return engine.Errorf(engine.CodeUnsupported, "record: drop collection %s: %w", w.Drop, errNoTables)
		}
		n, err = d.Drop(tx, w.Collection)
	}
	if err == nil && n == 0 {
		n, err = ordered{}.Drop(tx, w.Collection)
	}
	for _, kind := range []byte{counterKeys, versionKeys} {
		if err == nil && n == 0 {
			n, err = deleteSome(tx, prefix(kind, w.Collection))
		}
	}
	switch {
	case err != nil:
		return err
	case n == 0:
		return tx.Delete(workKey(w.Collection))
	}
	w.Done += uint64(n)
	return w.save(tx)
}

// ChangedSince yields the ids of the records that changes after seq are about, one for each change.
func ChangedSince(tx engine.Tx, c *Collection, seq uint64) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for e, err := range c.driver().Log(tx, c, seq+1, 0, false) {
			if !yield(e.ID, err) || err != nil {
				return
			}
		}
	}
}
