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
	after []byte // key of the last pair of the phase that was looked at

	seq  uint64 // chain: the last change, and its hash
	hash [sha256.Size]byte

	began         uint64 // documents: the number of changes when the phase began
	live, deleted uint64
	tries         int

	Changes, Records, Entries int  // how many were looked at
	Uncounted                 bool // the counters were not compared, because others kept writing
}

// NewVerifier returns a Verifier of a collection.
func NewVerifier(c *Collection) *Verifier { return &Verifier{c: c} }

// Step checks the next n pairs. done is set after the last. The first fault ends the verification; it is returned as a
// *Fault.
func (v *Verifier) Step(tx engine.Tx, n int) (done bool, err error) {
	phases := []struct {
		kind byte
		look func(tx engine.Tx, n Counters, p engine.Pair) error
		end  func(n Counters) (again bool, err error)
	}{
		{logKeys, v.link, v.endChain}, {historyKeys, v.logged, nil}, {docKeys, v.document, v.endDocuments}, {entryKeys, v.entry, nil}, {uniqueKeys, v.unique, nil},
	}
	counters, err := ReadCounters(tx, v.c)
	if err != nil {
		return false, v.fault(err)
	}
	x := phases[v.phase]
	lo, hi := prefix(x.kind, v.c.ID), prefix(x.kind, v.c.ID+1)
	if v.after != nil {
		lo = append(bytes.Clone(v.after), 0)
	} else {
		v.begin(counters)
	}
	for p, err := range tx.Scan(lo, hi) {
		if err == nil {
			err = x.look(tx, counters, p)
		}
		if err != nil {
			return false, v.fault(err)
		}
		v.after = bytes.Clone(p.Key)
		if n--; n == 0 {
			return false, nil
		}
	}
	if x.end != nil {
		again, err := x.end(counters)
		if err != nil || again {
			v.after = nil
			return false, err
		}
	}
	v.phase, v.after = v.phase+1, nil
	return v.phase == len(phases), nil
}

// begin prepares a phase.
func (v *Verifier) begin(n Counters) {
	v.seq, v.hash = n.Anchor, n.AnchorHash
	v.began, v.live, v.deleted = n.Seq, 0, 0
}

// fault makes a Fault of an error about damaged data.
func (v *Verifier) fault(err error) error {
	if e, ok := errors.AsType[*engine.Error](err); ok && e.Code == engine.CodeCorrupt {
		return &Fault{Collection: v.c.Name, Text: err.Error()}
	}
	return err
}

func (v *Verifier) failed(ch *Change, format string, args ...any) error {
	return &Fault{Collection: v.c.Name, Seq: ch.Seq, ID: ch.ID, Rev: ch.Rev, Text: fmt.Sprintf(format, args...)}
}

// link looks at an entry of the log.
func (v *Verifier) link(tx engine.Tx, n Counters, p engine.Pair) error {
	v.Changes++
	e, err := v.c.readLog(p)
	if err != nil {
		return err
	}
	ch, err := v.c.change(tx, e.id, e.rev)
	if err != nil {
		return err
	}
	if n.Anchor > v.seq { // older changes were removed meanwhile
		v.seq, v.hash = n.Anchor, n.AnchorHash
	}
	at := &Change{Seq: e.seq, ID: e.id, Rev: e.rev}
	switch {
	case ch == nil:
		return v.failed(at, "the change is in the log but not in the history")
	case ch.Seq != e.seq:
		return v.failed(at, "the change has number %d in the history", ch.Seq)
	case e.seq <= n.Anchor:
		return nil
	case e.seq != v.seq+1:
		return v.failed(&Change{Seq: v.seq + 1}, "the change is missing; the next one has number %d", e.seq)
	case e.seq > n.Seq:
		return v.failed(at, "there are only %d changes", n.Seq)
	}
	v.seq, v.hash = e.seq, ch.hash(v.hash)
	if string(v.hash[:linkBytes]) != e.link {
		return v.failed(at, "the chain is broken: the change was altered or moved")
	}
	return nil
}

func (v *Verifier) endChain(n Counters) (bool, error) {
	if n.Anchor > v.seq {
		v.seq, v.hash = n.Anchor, n.AnchorHash
	}
	switch {
	case v.seq < n.Seq:
		return false, v.failed(&Change{Seq: v.seq + 1}, "the change is missing; %d changes were made", n.Seq)
	case v.hash != n.Head:
		return false, v.failed(&Change{Seq: v.seq}, "the chain does not end with the stored hash")
	}
	return false, nil
}

// logged looks at a change in the history.
func (v *Verifier) logged(tx engine.Tx, _ Counters, p engine.Pair) error {
	at := bytes.IndexByte(p.Key[6:], 0)
	if at < 0 || len(p.Key) != 6+at+9 {
		return v.failed(&Change{}, "the history has the damaged key %x", p.Key)
	}
	ch, err := v.c.readChange(string(p.Key[6:6+at]), binary.BigEndian.Uint64(p.Key[6+at+1:]), p.Val)
	if err != nil {
		return err
	}
	val, ok, err := tx.Get(logKey(v.c.ID, ch.Seq))
	if err != nil {
		return err
	}
	if !ok {
		return v.failed(ch, "the change is in the history but not in the log")
	}
	e, err := v.c.readLog(engine.Pair{Key: logKey(v.c.ID, ch.Seq), Val: val})
	if err == nil && (e.id != ch.ID || e.rev != ch.Rev) {
		err = v.failed(ch, "the log has revision %d of record %s in its place", e.rev, e.id)
	}
	return err
}

// document looks at a record.
func (v *Verifier) document(tx engine.Tx, n Counters, p engine.Pair) error {
	v.Records++
	id := string(p.Key[6:])
	d, err := v.c.read(id, p.Val)
	if err != nil {
		return err
	}
	if d.Deleted {
		v.deleted++
	} else {
		v.live++
	}
	if err := v.compare(tx, n, d, p.Val); err != nil {
		return err
	}
	for i := range v.c.stored {
		x := &v.c.stored[i]
		if !x.Ready {
			continue
		}
		if _, ok, err := tx.Get(x.entryKey(v.c.ID, d)); err != nil || !ok {
			return orFault(err, v.failed(&Change{ID: id, Rev: d.Rev}, "the record is not in index %s", x.Name))
		}
		key := x.uniqueKey(v.c.ID, d)
		if key == nil {
			continue
		}
		if val, ok, err := tx.Get(key); err != nil || !ok || string(val) != id {
			return orFault(err, v.failed(&Change{ID: id, Rev: d.Rev}, "the record does not own its values in the unique index %s", x.Name))
		}
	}
	return nil
}

func orFault(err, fault error) error {
	if err != nil {
		return err
	}
	return fault
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

// entry looks at an entry of an index.
func (v *Verifier) entry(tx engine.Tx, _ Counters, p engine.Pair) error {
	v.Entries++
	x := v.index(p.Key)
	if x == nil {
		return nil
	}
	id, err := x.entryID(p.Key)
	if err != nil {
		return err
	}
	d, err := Get(tx, v.c, id)
	if err != nil {
		return err
	}
	if d == nil || !bytes.Equal(x.entryKey(v.c.ID, d), p.Key) {
		return v.failed(&Change{ID: id}, "index %s has an entry that does not belong to the record", x.Name)
	}
	return nil
}

// unique looks at the values of a record in a unique index.
func (v *Verifier) unique(tx engine.Tx, _ Counters, p engine.Pair) error {
	v.Entries++
	x := v.index(p.Key)
	if x == nil {
		return nil
	}
	d, err := Get(tx, v.c, string(p.Val))
	if err != nil {
		return err
	}
	if d == nil || !bytes.Equal(x.uniqueKey(v.c.ID, d), p.Key) {
		return v.failed(&Change{ID: string(p.Val)}, "the unique index %s has values that do not belong to the record", x.Name)
	}
	return nil
}

// index returns the index of a key, nil if it is of one that is no longer used.
func (v *Verifier) index(key []byte) *Index {
	if len(key) < entryPrefixBytes-1 {
		return nil
	}
	id := binary.BigEndian.Uint16(key[6:])
	for i := range v.c.stored {
		if v.c.stored[i].ID == id {
			return &v.c.stored[i]
		}
	}
	return nil
}
