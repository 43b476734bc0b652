package keys

import (
	"cmp"
	"crypto/sha256"

	"github.com/skerrydb/skerry/engine"
)

// Converter is a Driver to which and from which collections can be converted.
type Converter interface {
	Driver

	// Prepare makes sure that Describe can be called.
	Prepare(tx engine.Tx) error

	// Quietly runs fn. Nobody is told of what fn writes, in whatever Driver: it only stores again what is stored already.
	Quietly(tx engine.Tx, fn func() error) error

	// Moment returns a text by which Passed knows the moment of a transaction.
	Moment(tx engine.Tx) (string, error)

	// Passed returns nil if all who read began to after a moment, and otherwise an error that will pass.
	Passed(tx engine.Tx, moment string) error
}

// Conversion is the unfinished move of a collection's records between the keys and the Driver of the engine.
//
// It begins with a description by which all changes are written in both places, and everything is read in the old one. Then
// it copies the documents by their ids and the changes that were there by their numbers. What was copied or written since is
// therefore the same in both places at any time, so that one transaction can end this with a description that names only the
// new place. Afterwards the old one is emptied. Every step is one transaction that also stores how far it came.
type Conversion struct {
	Tables bool   `json:"tables"`           // to the Driver of the engine; otherwise to keys
	Stage  Stage  `json:"stage"`            // what is done now
	Sweep  bool   `json:"sweep,omitempty"`  // the place to be emptied is the Driver of the engine
	After  string `json:"after,omitempty"`  // id of the last document that was copied
	Seq    uint64 `json:"seq,omitempty"`    // number of the last change that was copied
	Until  uint64 `json:"until,omitempty"`  // number of the last change that is to be copied
	Copied uint64 `json:"copied,omitempty"` // documents and changes
	Moment string `json:"moment,omitempty"` // after the flip, before the Driver of the engine is emptied

	Most int `json:"-"` // documents or changes that a step copies; 0: maxCopied
}

// Stage is what a Conversion does.
type Stage string

// The stages, in order. In the data: do not change.
const (
	CopyDocuments Stage = "documents"
	CopyChanges   Stage = "changes"
	SweepOld      Stage = "sweep"
)

// Limits of one step of a Conversion, which keeps other writers waiting.
const (
	maxCopied = 200
	lookAhead = 50 // changes that are read at once
)

// InTables reports whether the records are in the Driver of the engine, not in keys.
func (c *Collection) InTables() bool { return c.place.native }

// At returns c with its records where those of n, another description of it, are.
func (c *Collection) At(n *Collection) *Collection {
	x := *c
	x.place = n.place
	return &x
}

// HasTables reports whether the engine has a Driver of its own, so that records may be there.
func HasTables(tx engine.Tx) bool { return native(tx).Driver != nil }

// Converting reports whether the records are being copied to another place.
func (c *Collection) Converting() bool { return c.place.also }

// Convert begins to move the records of a collection to the Driver of the engine, or from there to keys. If they are there it
// does nothing, or gives up a conversion to the other place. all are those of Load.
func Convert(tx engine.Tx, all []*Collection, c *Collection, tables bool) (began bool, err error) {
	own, ok := native(tx).Driver.(Converter)
	if !ok && (tables || c.place.native) {
		return false, engine.Errorf(engine.CodeUnsupported, "collection %s: this engine has no tables of records; PostgreSQL does", c.Name)
	}
	w, err := find(tx, c.ID)
	if err != nil {
		return false, err
	}
	n := *c
	switch v := w.Convert; {
	case v != nil && v.Stage == SweepOld && tables != c.place.native:
		return false, engine.Errorf(engine.CodeConflict, "collection %s was just converted, and what it left is being removed; try again once that is done", c.Name)
	case v != nil && v.Tables == tables && w.Failed != "":
		return true, w.Retry(tx)
	case v != nil && v.Tables == tables || v == nil && tables == c.place.native:
		return false, nil
	case v != nil: // give up
		v.Stage, v.Sweep, v.Tables, w.Failed = SweepOld, v.Tables, tables, ""
		n.place, err = placeOf(c.place.native, false, own)
	default:
		w.Convert = &Conversion{Tables: tables, Stage: CopyDocuments}
		n.place, err = placeOf(c.place.native, true, own)
		if err == nil && tables {
			err = own.Prepare(tx)
		}
	}
	if err == nil {
		err = Save(tx, all, &n) // from now on other programs cannot change the records
	}
	if err == nil && w.Convert.Stage == CopyDocuments {
		err = w.until(tx, c)
	}
	if err != nil {
		return false, err
	}
	return true, w.save(tx)
}

// until notes which changes are there, after those of other programs were taken in.
func (w *Work) until(tx engine.Tx, c *Collection) error {
	if err := TakeAll(tx, c); err != nil {
		return err
	}
	k, err := ReadCounters(tx, c)
	w.Convert.Until = k.Seq
	return err
}

// stepConvert does some of a Conversion.
func (w *Work) stepConvert(tx engine.Tx, all []*Collection, c *Collection) (err error) {
	v, n, stage := w.Convert, 0, Stage("")
	b, copying := c.place.driver.(*both)
	switch {
	case v.Stage == SweepOld:
		if n, err = w.sweepOld(tx); err == nil && n == 0 {
			w.Convert = nil
		}
	case !copying:
		return engine.Errorf(engine.CodeCorrupt, "collection %s is not being converted, but work is stored for that", c.Name)
	case v.Stage == CopyDocuments:
		n, err = w.copyDocuments(tx, b, c)
		stage = CopyChanges
	default:
		n, err = w.copyChanges(tx, b, c)
		stage = SweepOld
	}
	if err != nil {
		return w.failConvert(tx, err)
	}
	v.Copied += uint64(n)
	if n > 0 || stage == "" {
		return w.end(tx)
	}
	if v.Stage = stage; stage == CopyChanges {
		return w.save(tx)
	}
	v.Sweep = !v.Tables
	if err := w.save(tx); err != nil {
		return err
	}
	return c.flip(tx, all, b.native)
}

// failConvert stores that the conversion cannot go on, if err is about the data.
func (w *Work) failConvert(tx engine.Tx, err error) error {
	if engine.CodeOf(err) == engine.CodeCorrupt {
		return w.GiveUp(tx, err)
	}
	return w.fail(tx, w.Convert.After, err)
}

// GiveUp stores why the work cannot go on.
func (w *Work) GiveUp(tx engine.Tx, why error) error {
	w.Failed = why.Error()
	return w.save(tx)
}

// Converting returns what a Conversion is doing, in words, "" if there is none, how much of it is done, and of how much.
func (w *Work) Converting(n Counters) (what string, done, of uint64) {
	v := w.Convert
	if v == nil {
		return "", 0, 0
	}
	what = "copying the records to "
	if v.Stage == SweepOld {
		what = "removing what was converted to "
	}
	if v.Tables {
		what += "tables"
	} else {
		what += "keys"
	}
	return what, v.Copied, max(v.Copied, n.Live+n.Deleted+v.Until-min(v.Until, n.Anchor))
}

// flip ends the copying: the records are in the other place now.
func (c *Collection) flip(tx engine.Tx, all []*Collection, own Driver) (err error) {
	n := *c
	if n.place, err = placeOf(!c.place.native, false, own); err != nil {
		return err
	}
	return Save(tx, all, &n)
}

// copyDocuments copies documents, and returns how many.
func (w *Work) copyDocuments(tx engine.Tx, b *both, c *Collection) (int, error) {
	batch, err := w.batch(tx, b.Driver, c, w.Convert.After, cmp.Or(w.Convert.Most, maxCopied))
	if err != nil {
		return 0, err
	}
	for _, x := range batch {
		d, err := c.read(x.ID, x.Val)
		if err == nil {
			err = b.native.Quietly(tx, func() error { return b.to.Put(tx, c, nil, d, x.Val) })
		}
		if err != nil {
			return 0, err
		}
		w.Convert.After = x.ID
	}
	return len(batch), nil
}

// logCopy is a change that is to be copied, with its link in the chain.
type logCopy struct {
	ch   *Change
	hash [sha256.Size]byte // begins with the link
}

// copyChanges copies changes, and returns how many.
func (w *Work) copyChanges(tx engine.Tx, b *both, c *Collection) (int, error) {
	var entries []LogEntry
	for e, err := range b.Driver.Log(tx, c, w.Convert.Seq+1, w.Convert.Until+1, false) {
		if err != nil {
			return 0, err
		}
		if entries = append(entries, e); len(entries) == cmp.Or(w.Convert.Most, maxCopied) {
			break
		}
	}
	var batch []logCopy
	size := 0
	for i, e := range entries {
		if i%lookAhead == 0 {
			c.expect(tx, entries[i:min(i+lookAhead, len(entries))])
		}
		ch, err := c.inLog(tx, e)
		if err != nil {
			return 0, err
		}
		x := logCopy{ch: ch}
		copy(x.hash[:], e.Link)
		batch = append(batch, x)
		if size += len(ch.Body) + len(ch.Full); size >= MaxStepBytes {
			break
		}
	}
	for _, x := range batch {
		if err := b.native.Quietly(tx, func() error { return b.to.Append(tx, c, x.ch, x.hash) }); err != nil {
			return 0, err
		}
		w.Convert.Seq = x.ch.Seq
	}
	return len(batch), nil
}

// expect announces that the changes of entries will be read, if they are in keys.
func (c *Collection) expect(tx engine.Tx, entries []LogEntry) {
	x, ok := tx.(engine.Expecter)
	if !ok || c.place.native || !x.Expects() {
		return
	}
	var all [][]byte
	for _, e := range entries {
		all = append(all, historyKey(c.ID, e.ID, e.Rev))
	}
	x.Expect(all)
}

// sweepOld empties the old place, and returns how much was removed.
func (w *Work) sweepOld(tx engine.Tx) (n int, err error) {
	own, ok := native(tx).Driver.(Converter)
	if !ok {
		return 0, engine.Errorf(engine.CodeUnsupported, "record: remove what a conversion left: %w", errNoTables)
	}
	d := Driver(ordered{})
	if v := w.Convert; v.Sweep {
		if v.Moment == "" {
			v.Moment, err = own.Moment(tx)
			return 1, err
		}
		if err := own.Passed(tx, v.Moment); err != nil {
			return 0, err
		}
		d = own
	}
	err = own.Quietly(tx, func() error { n, err = d.Drop(tx, w.Collection); return err })
	return n, err
}
