package record

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// Limits of one page of a history.
const (
	MaxHistory      = 1_000   // changes of one page
	MaxHistoryBytes = 8 << 20 // patches of one page, unless it is only one
)

// Change is one change of a record, as its history keeps it.
type Change struct {
	Collection string
	ID         string
	Rev        uint64    // of the record after the change
	Seq        uint64    // of the change in the collection
	Op         string    // create, update, delete, restore or purge
	At         time.Time // UTC, microseconds
	By         string    // id of the user; "": the program
	Request    string    // id of the request; may be ""

	// Patch is a JSON Patch (RFC 6902) of the data, whose operations have the value before as "old". An operation on a
	// password has neither. Patch is nil if it was redacted.
	Patch      json.RawMessage
	RedactedAt time.Time
	RedactedBy string
}

// Redacted reports whether the Patch was redacted.
func (ch *Change) Redacted() bool { return ch.Patch == nil }

// AppendJSON appends the change in the form that clients receive.
func (ch *Change) AppendJSON(dst []byte) []byte {
	texts := func(name, text string) {
		if text != "" {
			dst = value.AppendText(append(append(append(dst, `,"`...), name...), `":`...), text)
		}
	}
	times := func(name string, at time.Time) {
		v, _ := value.OfTime(at)
		dst = v.AppendJSON(append(append(append(dst, `,"`...), name...), `":`...))
	}
	dst = value.AppendText(append(dst, `{"collection":`...), ch.Collection)
	texts("id", ch.ID)
	dst = strconv.AppendUint(append(dst, `,"rev":`...), ch.Rev, 10)
	dst = strconv.AppendUint(append(dst, `,"seq":`...), ch.Seq, 10)
	texts("op", ch.Op)
	times("at", ch.At)
	texts("by", ch.By)
	texts("request", ch.Request)
	if ch.Redacted() {
		times("redacted", ch.RedactedAt)
		texts("redacted_by", ch.RedactedBy)
	} else {
		dst = append(append(dst, `,"patch":`...), ch.Patch...)
	}
	return append(dst, '}')
}

// MarshalJSON returns what AppendJSON appends.
func (ch *Change) MarshalJSON() ([]byte, error) { return ch.AppendJSON(nil), nil }

func newChange(c *collection, ch *keys.Change) *Change {
	return &Change{
		Collection: c.Name, ID: ch.ID, Rev: ch.Rev, Seq: ch.Seq, Op: ch.Op.String(), At: ch.At, By: ch.By, Request: ch.Request,
		Patch: ch.Public(c.Compiled), RedactedAt: ch.Redaction.At, RedactedBy: ch.Redaction.By,
	}
}

// History returns at most n changes of a record with revisions below before, newest first. If before is 0, it begins
// with the latest change. A page may be shorter than n if its changes are large; an empty page is the end. The history
// rule is evaluated on the current record, even if it is in the trash. Only system actors see the history of a purged
// record.
func (t *Tx) History(collection, id string, before uint64, n int) ([]*Change, error) {
	if n < 1 || n > MaxHistory {
		return nil, engine.Errorf(engine.CodeLimit, "a page of history must have 1 to %d changes, not %d", MaxHistory, n)
	}
	c, _, err := t.historic(collection, id)
	if err != nil {
		return nil, err
	}
	var all []*Change
	size := 0
	for ch, err := range keys.ChangesOf(t.tx, c.Collection, id, before) {
		if err != nil {
			return nil, err
		}
		x := newChange(c, ch)
		if size += len(x.Patch); size > MaxHistoryBytes && len(all) > 0 {
			break
		}
		if all = append(all, x); len(all) == n {
			break
		}
	}
	if len(all) == 0 && before == 0 {
		return nil, notFound(c, id)
	}
	return all, nil
}

// historic returns a record whose history the actor may see, nil if it was purged.
func (t *Tx) historic(name, id string) (*collection, *keys.Doc, error) {
	c, err := t.collection(name)
	if err != nil {
		return nil, nil, err
	}
	if keys.CheckID(id) != nil {
		return nil, nil, notFound(c, id)
	}
	d, err := keys.Get(t.tx, c.Collection, id)
	if err != nil {
		return nil, nil, err
	}
	if d == nil {
		if t.actor.System {
			return c, nil, nil
		}
		return nil, nil, notFound(c, id)
	}
	if ok, err := t.allows(c, History, d, nil); ok || err != nil {
		return c, d, err
	}
	if ok, err := t.allows(c, View, d, nil); err != nil || !ok || d.Deleted {
		if err == nil {
			err = notFound(c, id)
		}
		return nil, nil, err
	}
	return nil, nil, engine.Errorf(CodeRefused, "the history rule of %s does not allow this", c.Name)
}

// Moment is a past state: after the last change at or before At, after change number Seq of the collection, or after
// revision Rev of a record. Exactly one must be set.
type Moment = keys.Moment

// GetAsOf returns an earlier state of a record without its passwords, even if it was in the trash. The history rule is
// evaluated on the current record. The error matches ErrNotFound if there was no such record, and ErrHistoryGone if the
// history no longer has that state.
func (t *Tx) GetAsOf(collection, id string, m Moment) (*Record, error) {
	if set := bit(!m.At.IsZero()) + bit(m.Seq != 0) + bit(m.Rev != 0); set != 1 {
		return nil, engine.Errorf(engine.CodeInvalid, "give exactly one of a time, a change number and a revision")
	}
	c, d, err := t.historic(collection, id)
	if err != nil {
		return nil, err
	}
	if err := c.Refused("numbers of changes"); err != nil && m.Seq != 0 {
		return nil, err
	}
	if d == nil || m.Rev > d.Rev {
		return nil, notFound(c, id)
	}
	past, err := keys.PastOf(t.tx, c.Collection, d, m)
	if err != nil {
		return nil, t.stored(c, err)
	}
	if past == nil {
		return nil, notFound(c, id)
	}
	return newRecord(c, past), nil
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Revert restores the data of revision to in a new change. It needs the update rule and the history rule. Passwords
// keep their current values. Unless rev is 0, the record must have that revision.
func (t *Tx) Revert(collection, id string, to, rev uint64) (*Record, error) {
	c, before, err := t.visible(collection, id, false)
	if err != nil {
		return nil, err
	}
	if err := checkRev(c, before, rev); err != nil {
		return nil, err
	}
	past, err := t.GetAsOf(collection, id, Moment{Rev: to})
	if err != nil {
		return nil, err
	}
	data := past.Data
	for i := range c.Fields {
		if c.Fields[i].Type == schema.Password {
			data = data.With(i, before.Data.Get(i))
		}
	}
	return t.save(c, before, data)
}
