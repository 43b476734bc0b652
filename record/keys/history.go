package keys

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// MaxRedact is how many changes one transaction redacts.
const MaxRedact = 10_000

// describe sets the body of a change, and the full copy if it is time for one. was are the data before as they were
// stored, and text is the record after.
func (c *Collection) describe(ch *Change, was, text []byte) {
	var envelope Doc
	data, _ := envelope.readEnvelope(text) // was just written
	if ch.Op == Create {
		if ch.Body = data; len(c.Secrets()) > 0 {
			now := hide(c.Compiled, members(data))
			ch.Body = now.text()
		}
		return
	}
	now := hide(c.Compiled, members(data))
	ch.Body = diff(hide(c.Compiled, members(was)), now)
	if ch.Rev%FullEvery == 0 {
		ch.Full = append(text[:len(text)-len(data):len(text)-len(data)], now.text()...)
	}
}

// log writes a change to the history, and forgets the one before it if the collection keeps none.
func (c *Collection) log(tx engine.Tx, n *Counters, ch *Change) error {
	n.Seq++
	if c.parted() {
		n.Seq = ch.Rev
	}
	ch.Seq = n.Seq
	n.Head = ch.hash(n.Head)
	if c.History.Off {
		n.Anchor, n.AnchorHash, n.AnchorAt = n.Seq, n.Head, ch.At
		if err := c.forget(tx, ch.ID, ch.Rev-1); err != nil {
			return err
		}
	}
	return c.driver().Append(tx, c, ch, n.Head)
}

// forget removes a change from the history, if it is there.
func (c *Collection) forget(tx engine.Tx, id string, rev uint64) error {
	ch, err := c.change(tx, id, rev)
	if err != nil || ch == nil {
		return err
	}
	return c.driver().Forget(tx, c, ch)
}

func (c *Collection) readChange(id string, rev uint64, val []byte) (*Change, error) {
	ch, err := readChange(id, rev, val)
	if err != nil {
		return nil, engine.Errorf(engine.CodeCorrupt, "read the history of %s: %w", c.Name, err)
	}
	return ch, nil
}

// Changes yields the changes of a collection with numbers below before, the newest first. 0 is no bound.
func Changes(tx engine.Tx, c *Collection, before uint64) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		for e, err := range c.driver().Log(tx, c, 0, before, true) {
			var ch *Change
			if err == nil {
				ch, err = c.inLog(tx, e)
			}
			if !yield(ch, err) || err != nil {
				return
			}
		}
	}
}

// History returns the changes of a record with revisions below before, the newest first, at most n of them. 0 as before
// or n is no bound.
func History(tx engine.Tx, c *Collection, id string, before uint64, n int) (all []*Change, err error) {
	for ch, err := range ChangesOf(tx, c, id, before) {
		if err != nil {
			return nil, err
		}
		if all = append(all, ch); len(all) == n {
			break
		}
	}
	return all, nil
}

// ChangesOf yields the changes of a record with revisions below before, the newest first. 0 is no bound.
func ChangesOf(tx engine.Tx, c *Collection, id string, before uint64) iter.Seq2[*Change, error] {
	return c.driver().ChangesOf(tx, c, id, 0, before, true)
}

// Remove deletes a record for good: it redacts the bodies of its changes, and the purge becomes its last change. If
// more than MaxRedact changes have bodies, nothing is written and the error is engine.CodeLimit: redact some first.
func Remove(tx engine.Tx, c *Collection, before *Doc, ch *Change) error {
	if err := checkOrigin(ch.By, ch.Request); err != nil {
		return err
	}
	if _, err := c.stillThere(tx, before, before.ID); err != nil {
		return err
	}
	if _, err := Redact(tx, c, before.ID, 0, Mark{ch.At, ch.By}); err != nil {
		return err
	}
	if err := c.driver().Put(tx, c, before, nil, nil); err != nil {
		return err
	}
	n, err := ReadCounters(tx, c)
	if err != nil {
		return err
	}
	n.count(before, -1)
	ch.ID, ch.Rev, ch.Body = before.ID, before.Rev+1, []byte("[]")
	if err := c.log(tx, &n, ch); err != nil || c.parted() {
		return err
	}
	return n.write(tx, c)
}

// Redact removes the bodies of a record's changes, or of one revision, and returns how many there were. Who made each
// change and when remains, and so does the chain. If there are more than MaxRedact, nothing is written and the error is
// engine.CodeLimit.
func Redact(tx engine.Tx, c *Collection, id string, rev uint64, m Mark) (int, error) {
	if err := checkOrigin(m.By, ""); err != nil {
		return 0, err
	}
	var all []*Change
	before := uint64(0)
	if rev != 0 {
		before = rev + 1
	}
	for ch, err := range ChangesOf(tx, c, id, before) {
		if err != nil {
			return 0, err
		}
		if rev != 0 && ch.Rev != rev {
			break
		}
		if ch.Redacted() {
			continue
		}
		if all = append(all, ch); len(all) > MaxRedact {
			return 0, engine.Errorf(engine.CodeLimit, "record %s of %s has more than %d changes to redact; redact single revisions first", id, c.Name, MaxRedact)
		}
	}
	for _, ch := range all {
		ch.redact(m)
		if err := c.driver().Replace(tx, c, ch); err != nil {
			return 0, err
		}
	}
	return len(all), nil
}

// Moment is a past state: after the last change at or before At, after change number Seq of the collection, or after
// revision Rev of a record. Exactly one is set.
type Moment struct {
	At  time.Time
	Seq uint64
	Rev uint64
}

// after reports whether the change was made after m.
func (m Moment) after(ch *Change) bool {
	switch {
	case m.Rev != 0:
		return ch.Rev > m.Rev
	case m.Seq != 0:
		return ch.Seq > m.Seq
	}
	return ch.At.After(m.At)
}

// GoneError reports that a state can no longer be determined.
type GoneError struct {
	ID       string
	Redacted uint64 // the revision whose change was redacted; 0: older changes were removed
}

// Error says why.
func (e *GoneError) Error() string {
	if e.Redacted != 0 {
		return fmt.Sprintf("revision %d of record %s was redacted", e.Redacted, e.ID)
	}
	return fmt.Sprintf("the history of record %s does not reach back that far", e.ID)
}

// Past returns an earlier state of a record without passwords, or nil if there was no such record. It reads about
// FullEvery changes. A purged record has no past states. The error may be a *GoneError.
func Past(tx engine.Tx, c *Collection, id string, m Moment) (*Doc, error) {
	d, err := Get(tx, c, id)
	if err != nil || d == nil {
		return nil, err
	}
	return PastOf(tx, c, d, m)
}

// PastOf is Past for a record that was read in the same transaction.
func PastOf(tx engine.Tx, c *Collection, d *Doc, m Moment) (*Doc, error) {
	at, known, err := c.revisionAt(tx, d, m)
	if err != nil {
		return nil, err
	}
	if at == d.Rev {
		return withoutPasswords(c.Compiled, *d), nil
	}
	var changes []*Change // up to the state, the newest first, back to one from which it can be built
	for ch, err := range ChangesOf(tx, c, d.ID, at+1) {
		if err != nil {
			return nil, err
		}
		if ch.Op == Purge {
			known = known || len(changes) == 0
			break
		}
		changes = append(changes, ch)
		if ch.Redacted() || len(changes) > FullEvery {
			break
		}
		if ch.Op == Create || ch.Full != nil {
			return c.forward(d, changes)
		}
	}
	if known && len(changes) == 0 {
		return nil, nil // there was none yet, or it had been purged
	}
	return c.backward(tx, d, at, changes)
}

// revisionAt returns the revision that a record had, and whether it is certain that there was none before the oldest
// one that is kept.
func (c *Collection) revisionAt(tx engine.Tx, d *Doc, m Moment) (rev uint64, known bool, err error) {
	var oldest *Change
	for ch, err := range c.driver().ChangesOf(tx, c, d.ID, 0, d.Rev+1, false) {
		if err != nil {
			return 0, false, err
		}
		oldest = ch
		break
	}
	if oldest == nil || m.after(oldest) {
		if oldest != nil && oldest.Op == Create {
			return oldest.Rev - 1, true, nil
		}
		n, err := ReadCounters(tx, c)
		if err != nil {
			return 0, false, err
		}
		first := d.Rev + 1
		if oldest != nil {
			first = oldest.Rev
		}
		if m.Rev != 0 && m.Rev < first-1 || m.Seq != 0 && m.Seq < n.Anchor || m.Rev == 0 && m.Seq == 0 && m.At.Before(n.AnchorAt) {
			return 0, false, &GoneError{ID: d.ID}
		}
		return first - 1, false, nil
	}
	lo, hi := oldest.Rev, d.Rev // the revision is one of these; their changes have no gaps
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		ch, err := c.change(tx, d.ID, mid)
		if err != nil {
			return 0, false, err
		}
		if ch == nil {
			return 0, false, engine.Errorf(engine.CodeCorrupt, "record %s of %s has no change %d", d.ID, c.Name, mid)
		}
		if m.after(ch) {
			hi = mid - 1
		} else {
			lo = mid
		}
	}
	return lo, false, nil
}

// forward builds a state from the last of changes, which is the oldest.
func (c *Collection) forward(now *Doc, changes []*Change) (*Doc, error) {
	d := Doc{ID: now.ID}
	o := members(nil)
	for _, ch := range slices.Backward(changes) {
		if ch.Full != nil {
			data, err := d.readEnvelope(ch.Full)
			if err != nil {
				return nil, engine.Errorf(engine.CodeCorrupt, "change %d of record %s: its copy is damaged", ch.Rev, now.ID)
			}
			o = members(data)
			continue
		}
		if err := o.walk(ch.Body, false); err != nil {
			return nil, engine.Errorf(engine.CodeCorrupt, "change %d of record %s: %w", ch.Rev, now.ID, err)
		}
		d.stamp(ch)
	}
	return c.built(d, o)
}

// backward builds the state with a revision from a later copy, because the history does not reach to an earlier one.
// changes are those up to it that are kept.
func (c *Collection) backward(tx engine.Tx, now *Doc, rev uint64, changes []*Change) (*Doc, error) {
	o, to, err := c.copyAfter(tx, now, rev)
	if err != nil {
		return nil, err
	}
	d := Doc{ID: now.ID, Rev: rev}
	d.Marks[Created] = now.Marks[Created]
	for ch, err := range ChangesOf(tx, c, now.ID, to) {
		if err != nil {
			return nil, err
		}
		if ch.Rev <= rev {
			break
		}
		if ch.Op == Purge {
			return nil, nil
		}
		if ch.Redacted() {
			return nil, &GoneError{now.ID, ch.Rev}
		}
		if err := o.walk(ch.Body, true); err != nil {
			return nil, engine.Errorf(engine.CodeCorrupt, "change %d of record %s: %w", ch.Rev, now.ID, err)
		}
		d.Deleted = ch.Op == Restore // what was restored had been deleted; otherwise it was not
	}
	for _, ch := range slices.Backward(changes) {
		d.stamp(ch)
	}
	return c.built(d, o)
}

// copyAfter returns the data of a record after a revision from the next full copy, or as they are now, and the revision
// up to which changes of these are to be undone.
func (c *Collection) copyAfter(tx engine.Tx, now *Doc, rev uint64) (o object, to uint64, err error) {
	var envelope Doc
	for up := rev + 1; up < now.Rev && up <= rev+FullEvery; up++ {
		ch, err := c.change(tx, now.ID, up)
		if err != nil {
			return o, 0, err
		}
		if ch == nil || ch.Full == nil {
			continue
		}
		data, err := envelope.readEnvelope(ch.Full)
		if err != nil {
			return o, 0, engine.Errorf(engine.CodeCorrupt, "change %d of record %s: its copy is damaged", up, now.ID)
		}
		return members(data), up + 1, nil
	}
	val, _, err := c.driver().Document(tx, c, now.ID)
	if err != nil {
		return o, 0, err
	}
	data, err := envelope.readEnvelope(val)
	if err != nil {
		return o, 0, engine.Errorf(engine.CodeCorrupt, "record %s of %s: %w", now.ID, c.Name, err)
	}
	return hide(c.Compiled, members(slices.Clone(data))), now.Rev + 1, nil
}

// stamp makes the envelope of d that of the record after a change.
func (d *Doc) stamp(ch *Change) {
	d.Rev = ch.Rev
	d.Deleted = ch.Op == Delete
	if ch.Op <= Restore {
		d.Marks[ch.Op-Create] = Mark{ch.At, ch.By}
	}
}

func (c *Collection) built(d Doc, o object) (*Doc, error) {
	var err error
	if d.Data, err = c.Parse(o.text()); err != nil {
		return nil, engine.Errorf(engine.CodeCorrupt, "revision %d of record %s: %w", d.Rev, d.ID, err)
	}
	return withoutPasswords(c.Compiled, d), nil
}

// withoutPasswords returns d without its passwords.
func withoutPasswords(k *schema.Compiled, d Doc) *Doc {
	for i := range k.Fields {
		if k.Fields[i].Type == schema.Password && !d.Data.Get(i).IsNull() {
			d.Data = d.Data.With(i, value.Value{})
		}
	}
	return &d
}

// WithMembers returns the data of a record with other members, each as JSON; nil is none. Names may be former ones of
// fields. Passwords stay as they are.
func WithMembers(c *Collection, d *Doc, set map[string][]byte) (schema.Data, error) {
	o := members(c.Append(nil, d.Data))
	for name, raw := range set {
		name = c.Current(name)
		if i, ok := c.Index(name); !ok || c.Fields[i].Type != schema.Password {
			o.set(name, raw)
		}
	}
	return c.Parse(o.text())
}

// Member returns a member of the data of a record as JSON, nil if there is none.
func Member(c *Collection, d *Doc, name string) []byte {
	o := members(c.Append(nil, d.Data))
	return o.byName[c.Current(name)]
}
