package keys

import (
	"encoding/binary"

	"github.com/skerrydb/skerry/engine"
)

// Inbox is a Driver whose documents other programs can change. Their changes are visible at once, but have no number and
// are not in the history before TakeIn has taken them in. Until then Document and Documents return the form of
// AppendWaiting, and Put and Take fail with a conflict if a change has arrived that the transaction has not seen.
type Inbox interface {
	Driver

	// Waiting returns the ids of some collections of which changes wait.
	Waiting(tx engine.Tx) ([]uint32, error)

	// Foreign returns the first n changes that wait, of one record or, if id is "", of all whose rows are not locked.
	Foreign(tx engine.Tx, c *Collection, id string, n int) ([]Foreign, error)

	// Take replaces what the history knows of a record with after, whose stored form is val. f is the change that led to
	// it, and waits no more.
	Take(tx engine.Tx, c *Collection, f *Foreign, after *Doc, val []byte) error

	// Again reports whether the transaction is run again because it has read what another program has changed since.
	Again(tx engine.Tx) bool

	// Guarded returns a *Fault if changes of other programs would go unnoticed.
	Guarded(tx engine.Tx, c *Collection) error
}

// Foreign is a change of a record by another program.
type Foreign struct {
	N           int64 // identifies it; later ones are larger
	ID          string
	Deleted     bool
	Data        []byte // without passwords
	By, Request string
	Known       []byte // the document as the history knows it; empty if there is none
	Left        int    // how many changes of the record wait, with this one
}

// MaxTake is how many changes of other programs one transaction takes in.
const MaxTake = 500

// Taken is a change that was taken in.
type Taken struct {
	ID      string
	By      string
	Problem error // schema.Problems of the data, which the collection would have refused
}

// WaitingIn returns the ids of some collections of which changes of other programs wait. There must be one in tables.
func WaitingIn(tx engine.Tx) ([]uint32, error) {
	in, ok := native(tx).Driver.(Inbox)
	if !ok {
		return nil, nil
	}
	return in.Waiting(tx)
}

// Guarded returns a *Fault if changes that other programs make to a collection would go unnoticed.
func Guarded(tx engine.Tx, c *Collection) error {
	if in, ok := c.driver().(Inbox); ok {
		return in.Guarded(tx, c)
	}
	return nil
}

// AppendWaiting appends the form of a document that another program has changed: d are its columns, public its data without
// passwords, and known the form before, which has the passwords.
func (c *Collection) AppendWaiting(dst []byte, d *Doc, public, known []byte) ([]byte, error) {
	data, err := c.withPasswords(public, known)
	if err != nil {
		return nil, err
	}
	return append(appendEnvelope(dst, d, waitingForm), data...), nil
}

// waitingForm is the number of no form of data; AppendWaiting has it instead of one.
const waitingForm = 0

// withPasswords returns data with the passwords of a stored document.
func (c *Collection) withPasswords(public, known []byte) ([]byte, error) {
	if len(known) == 0 || len(c.Secrets()) == 0 {
		return public, nil
	}
	var d Doc
	data, err := d.readEnvelope(known)
	if err != nil {
		return nil, engine.Errorf(engine.CodeCorrupt, "read a record of %s: %w", c.Name, err)
	}
	old, now := members(data), members(public)
	for _, name := range c.Secrets() {
		if raw, ok := old.byName[name]; ok {
			now.set(name, raw)
		}
	}
	return now.text(), nil
}

// TakeIn takes in at most n changes that other programs have made to a collection, or to one of its records unless id is
// "": it gives them revisions and numbers, and writes them to the history.
func TakeIn(tx engine.Tx, c *Collection, id string, n int) (all []Taken, err error) {
	in, ok := c.driver().(Inbox)
	if !ok {
		return nil, nil
	}
	list, err := in.Foreign(tx, c, id, n)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	counters, err := ReadCounters(tx, c)
	if err != nil {
		return nil, err
	}
	known := map[string][]byte{} // documents after the changes so far
	for i := range list {
		f := &list[i]
		if val, again := known[f.ID]; again {
			f.Known = val
		}
		t := taking{in: in, tx: tx, c: c, f: f}
		if known[f.ID], err = t.run(&counters); err != nil {
			return nil, err
		}
		all = append(all, Taken{f.ID, f.By, c.Check(t.after.Data, func(int) bool { return true })})
	}
	return all, counters.write(tx, c)
}

// TakeAll takes in all changes that other programs have made to a collection.
func TakeAll(tx engine.Tx, c *Collection) error {
	for {
		if taken, err := TakeIn(tx, c, "", MaxTake); err != nil || len(taken) == 0 {
			return err
		}
	}
}

// taking takes in one change.
type taking struct {
	in    Inbox
	tx    engine.Tx
	c     *Collection
	f     *Foreign
	after Doc
}

// run returns the document after the change.
func (t *taking) run(n *Counters) (val []byte, err error) {
	f, c := t.f, t.c
	now := t.tx.Now().UTC()
	before, err := t.before()
	if err != nil {
		return nil, err
	}
	op, stamp := Create, Created
	switch {
	case before == nil:
		if t.after.Rev, err = c.lastRev(t.tx, f.ID); err != nil {
			return nil, err
		}
	case f.Deleted && !before.Deleted:
		op, stamp = Delete, Deleted
	case !f.Deleted && before.Deleted:
		op, stamp = Restore, Restored
	default:
		op, stamp = Update, Updated
	}
	text, err := c.withPasswords(f.Data, f.Known)
	if err == nil {
		t.after.Data, err = c.Parse(text)
	}
	if err != nil {
		return nil, engine.Errorf(engine.CodeCorrupt, "take in a change of record %s of %s: %w", f.ID, c.Name, err)
	}
	var was []byte
	if before != nil {
		var envelope Doc
		was, _ = envelope.readEnvelope(f.Known) // was read before
		if o := members(was); op == Update && o.equal(members(c.Append(nil, t.after.Data))) {
			val = appendDoc(nil, c, &t.after) // another form of the same values
			return val, t.in.Take(t.tx, c, f, &t.after, val)
		}
	}
	t.after.Rev++
	t.after.Deleted = f.Deleted
	t.after.Marks[stamp] = Mark{now, f.By}
	ch := &Change{ID: f.ID, Rev: t.after.Rev, Op: op, At: now, By: f.By, Request: f.Request}
	val = appendDoc(nil, c, &t.after)
	c.describe(ch, was, val)
	if err := t.in.Take(t.tx, c, f, &t.after, val); err != nil {
		return nil, err
	}
	n.count(before, -1)
	n.count(&t.after, 1)
	return val, c.log(t.tx, n, ch)
}

// before returns the record as the history knows it, nil if it does not, and begins after with it.
func (t *taking) before() (*Doc, error) {
	if len(t.f.Known) == 0 {
		t.after.ID = t.f.ID
		return nil, nil
	}
	before, err := t.c.read(t.f.ID, t.f.Known)
	if err != nil {
		return nil, err
	}
	t.after = *before
	return before, nil
}

// lastRev returns the revision of the last change of a record that is gone, 0 if there is none.
func (c *Collection) lastRev(tx engine.Tx, id string) (uint64, error) {
	last, err := History(tx, c, id, 0, 1)
	if err != nil || len(last) == 0 {
		return 0, err
	}
	return last[0].Rev, nil
}

// document returns a document for a transaction that will change it, after the changes of other programs to it were taken
// in.
func (c *Collection) document(tx engine.Tx, id string) (val []byte, ok bool, err error) {
	for {
		val, ok, err = c.driver().Document(tx, c, id)
		if err != nil || !ok || !isWaiting(val) {
			return val, ok, err
		}
		taken, err := TakeIn(tx, c, id, MaxTake)
		if err == nil && len(taken) == 0 {
			err = engine.Errorf(engine.CodeCorrupt, "record %s of %s: a change of another program is missing from the outbox", id, c.Name)
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// stale returns the error for a record that is not what the transaction has read.
func (c *Collection) stale(tx engine.Tx, id string) error {
	if in, ok := c.driver().(Inbox); ok && in.Again(tx) {
		return engine.Errorf(engine.CodeConflict, "another program has changed record %s of %s", id, c.Name)
	}
	return &StaleError{id}
}

// isWaiting reports whether a document has the form of AppendWaiting.
func isWaiting(val []byte) bool {
	if len(val) < 2 {
		return false
	}
	_, n := binary.Uvarint(val[2:]) // the revision
	return n > 0 && len(val) > 2+n && val[2+n] == waitingForm
}
