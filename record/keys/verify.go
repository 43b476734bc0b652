package keys

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/skerrydb/skerry/engine"
)

// Fault is an inconsistency in the stored data of a collection.
type Fault struct {
	Collection string `json:"collection"`
	Seq        uint64 `json:"seq,omitempty"` // of the change, if it is about one
	ID         string `json:"id,omitempty"`  // of the record, if it is about one
	Rev        uint64 `json:"rev,omitempty"`
	Text       string `json:"text"`
}

// Error describes the fault.
func (f *Fault) Error() string {
	text := "collection " + f.Collection
	if f.Seq != 0 {
		text += fmt.Sprintf(", change %d", f.Seq)
	}
	if f.ID != "" {
		text += ", record " + f.ID
	}
	if f.Rev != 0 {
		text += fmt.Sprintf(", revision %d", f.Rev)
	}
	return text + ": " + f.Text
}

// Verifier checks all that is stored of one collection: the chain of changes, the history, documents, counters and
// indexes. Each Step runs in a separate transaction, and others may write in between.
type Verifier struct {
	c     *Collection
	phase int
	after []byte // what the phase has looked at last

	seq  uint64 // chain: the last change, and its hash
	hash [sha256.Size]byte

	began         uint64 // documents: the number of changes when the phase began
	live, deleted uint64
	waiting       bool // another program has changed a record
	tries         int

	Changes, Records, Entries int  // how many were looked at
	Uncounted                 bool // the counters were not compared, because others kept writing
}

// NewVerifier returns a Verifier of a collection.
func NewVerifier(c *Collection) *Verifier { return &Verifier{c: c} }

// Step checks the next n pieces. done is set after the last. The first fault ends the verification; it is returned as a
// *Fault.
func (v *Verifier) Step(tx engine.Tx, n int) (done bool, err error) {
	phases := []func(tx engine.Tx, n Counters, most int) (more bool, err error){v.chain, v.histories, v.documents, v.indexes}
	counters, err := ReadCounters(tx, v.c)
	if err != nil {
		return false, v.fault(err)
	}
	if v.after == nil {
		v.begin(counters)
	}
	more, err := phases[v.phase](tx, counters, n)
	if err != nil || more {
		return false, v.fault(err)
	}
	v.phase, v.after = v.phase+1, nil
	return v.phase == len(phases), nil
}

// chain looks at the log.
func (v *Verifier) chain(tx engine.Tx, n Counters, most int) (more bool, err error) {
	from := uint64(0)
	if v.after != nil {
		from = binary.BigEndian.Uint64(v.after) + 1
	}
	for e, err := range v.c.driver().Log(tx, v.c, from, 0, false) {
		if err == nil {
			err = v.link(tx, n, e)
		}
		if err != nil {
			return false, err
		}
		v.after = binary.BigEndian.AppendUint64(nil, e.Seq)
		if most--; most == 0 {
			return true, nil
		}
	}
	return false, v.endChain(n)
}

// documents looks at the records.
func (v *Verifier) documents(tx engine.Tx, n Counters, most int) (more bool, err error) {
	for d, err := range v.c.driver().Documents(tx, v.c, string(v.after)) {
		if err == nil {
			err = v.document(tx, n, d)
		}
		if err != nil {
			return false, err
		}
		v.after = []byte(d.ID)
		if most--; most == 0 {
			return true, nil
		}
	}
	more, err = v.endDocuments(n)
	if more {
		v.after = nil
	}
	return more, err
}

func (v *Verifier) histories(tx engine.Tx, _ Counters, most int) (more bool, err error) {
	_, v.after, err = v.c.driver().Inspect(tx, v.c, Histories, v.after, most)
	return v.after != nil, err
}

func (v *Verifier) indexes(tx engine.Tx, _ Counters, most int) (more bool, err error) {
	looked, next, err := v.c.driver().Inspect(tx, v.c, Indexes, v.after, most)
	v.Entries += looked
	v.after = next
	return next != nil, err
}

// begin prepares a phase.
func (v *Verifier) begin(n Counters) {
	v.seq, v.hash = n.Anchor, n.AnchorHash
	v.began, v.live, v.deleted, v.waiting = n.Seq, 0, 0, false
}

// fault makes a Fault of an error about damaged data.
func (v *Verifier) fault(err error) error {
	if e, ok := errors.AsType[*engine.Error](err); ok && e.Code == engine.CodeCorrupt {
		return &Fault{Collection: v.c.Name, Text: err.Error()}
	}
	return err
}

func (v *Verifier) failed(ch *Change, format string, args ...any) error {
	return v.c.fault(ch, format, args...)
}

func (c *Collection) fault(ch *Change, format string, args ...any) error {
	return &Fault{Collection: c.Name, Seq: ch.Seq, ID: ch.ID, Rev: ch.Rev, Text: fmt.Sprintf(format, args...)}
}

// link looks at an entry of the log.
func (v *Verifier) link(tx engine.Tx, n Counters, e LogEntry) error {
	v.Changes++
	ch, err := v.c.logged(tx, e)
	if err != nil {
		return err
	}
	if n.Anchor > v.seq { // older changes were removed meanwhile
		v.seq, v.hash = n.Anchor, n.AnchorHash
	}
	at := &Change{Seq: e.Seq, ID: e.ID, Rev: e.Rev}
	switch {
	case ch == nil:
		return v.failed(at, "the change is in the log but not in the history")
	case ch.Seq != e.Seq:
		return v.failed(at, "the change has number %d in the history", ch.Seq)
	case e.Seq <= n.Anchor:
		return nil
	case e.Seq != v.seq+1:
		return v.failed(&Change{Seq: v.seq + 1}, "the change is missing; the next one has number %d", e.Seq)
	case e.Seq > n.Seq:
		return v.failed(at, "there are only %d changes", n.Seq)
	}
	v.seq, v.hash = e.Seq, ch.hash(v.hash)
	if string(v.hash[:LinkBytes]) != e.Link {
		return v.failed(at, "the chain is broken: the change was altered or moved")
	}
	return nil
}

func (v *Verifier) endChain(n Counters) error {
	if n.Anchor > v.seq {
		v.seq, v.hash = n.Anchor, n.AnchorHash
	}
	switch {
	case v.seq < n.Seq:
		return v.failed(&Change{Seq: v.seq + 1}, "the change is missing; %d changes were made", n.Seq)
	case v.hash != n.Head:
		return v.failed(&Change{Seq: v.seq}, "the chain does not end with the stored hash")
	}
	return nil
}

// document looks at a record.
func (v *Verifier) document(tx engine.Tx, n Counters, x Document) error {
	v.Records++
	if isWaiting(x.Val) {
		v.waiting = true // the history does not have it yet
		return nil
	}
	d, err := v.c.read(x.ID, x.Val)
	if err != nil {
		return err
	}
	if d.Deleted {
		v.deleted++
	} else {
		v.live++
	}
	if err := v.compare(tx, n, d, x.Val); err != nil {
		return err
	}
	return v.c.driver().Indexed(tx, v.c, d)
}

// compare compares a record with its history, back to a full copy.
func (v *Verifier) compare(tx engine.Tx, n Counters, d *Doc, stored []byte) error {
	var envelope Doc
	data, _ := envelope.readEnvelope(stored) // was read before
	o := hide(v.c.Compiled, members(data))
	newest := true
	for ch, err := range ChangesOf(tx, v.c, d.ID, 0) {
		if err != nil {
			return err
		}
		if newest {
			if ch.Rev != d.Rev || ch.Op > Restore || d.Deleted != (ch.Op == Delete) || d.Marks[ch.Op-Create] != (Mark{ch.At, ch.By}) {
				return v.failed(ch, "the record does not match its last change")
			}
			newest = false
		}
		if ch.Redacted() {
			return nil
		}
		if ch.Full != nil {
			full, err := envelope.readEnvelope(ch.Full)
			if err != nil || envelope.Rev != ch.Rev || !o.equal(members(full)) {
				return v.failed(ch, "the record does not match its history")
			}
			return nil
		}
		edits, err := Edits(ch.Body)
		if err != nil {
			return v.failed(ch, "%v", err)
		}
		for _, e := range edits {
			if now, ok := o.byName[e.Name]; ok != (e.Now != nil) || !bytes.Equal(now, e.Now) {
				return v.failed(ch, "the %s of the record does not match its history", e.Name)
			}
			o.set(e.Name, e.Old)
		}
		if ch.Op == Create {
			if len(o.list) > 0 {
				return v.failed(ch, "the record has %s, which no change has set", o.list[0].name)
			}
			return nil
		}
	}
	if newest && (n.Anchor == 0 || d.lastMark().After(n.AnchorAt)) {
		return v.failed(&Change{ID: d.ID, Rev: d.Rev}, "the record has no history")
	}
	return nil
}

// equal reports whether the objects have the same members.
func (o *object) equal(x object) bool {
	for name, raw := range o.byName {
		if other, ok := x.byName[name]; !ok || !bytes.Equal(raw, other) {
			return false
		}
	}
	return len(o.byName) == len(x.byName)
}

func (v *Verifier) endDocuments(n Counters) (again bool, err error) {
	switch {
	case v.waiting:
	case n.Seq == v.began && (n.Live != v.live || n.Deleted != v.deleted):
		return false, v.failed(&Change{}, "there are %d records and %d in the trash; the counters say %d and %d", v.live, v.deleted, n.Live, n.Deleted)
	case n.Seq == v.began:
		return false, nil
	}
	v.tries++
	v.Uncounted = v.tries == maxTries
	return !v.Uncounted, nil
}

// maxTries is how often the records are counted before the counters are left alone.
const maxTries = 3
