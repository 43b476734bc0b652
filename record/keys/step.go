package keys

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
)

// Watched returns the prefixes of the keys that Steps and EpochOf look at.
func Watched() [][]byte {
	return [][]byte{{keyspace.Records, docKeys}, {keyspace.Records, historyKeys}, {keyspace.Records, logKeys}, {keyspace.Records, epochKey}}
}

// EpochOf reports whether a change of the engine changed the description of a collection.
func EpochOf(c engine.Change) bool {
	return slices.ContainsFunc(c.Writes, func(w engine.Write) bool { return string(w.Key) == string(epoch) })
}

// Step is what one transaction did to one record: at least one change.
type Step struct {
	Collection uint32
	ID         string
	doc        []byte // as it is stored after the transaction; nil: it is not
	changes    []*Change
	forgotten  []uint64 // revisions of changes that the transaction has removed from the history
}

// Steps returns what a change of the engine did to records of the collections for which want returns true, in the order
// of the last change of each.
func Steps(c engine.Change, want func(collection uint32) bool) ([]*Step, error) {
	var all []*Step
	byKey := map[string]*Step{} // collection and id
	for _, w := range c.Writes {
		if len(w.Key) < 7 || w.Key[0] != keyspace.Records || w.Key[1] != docKeys || !want(binary.BigEndian.Uint32(w.Key[2:])) {
			continue
		}
		s := &Step{Collection: binary.BigEndian.Uint32(w.Key[2:]), ID: string(w.Key[6:])}
		if !w.Deleted {
			s.doc = w.Val
		}
		all = append(all, s)
		byKey[string(w.Key[2:])] = s
	}
	if all == nil {
		return nil, nil
	}
	logged := logged(c)
	for _, w := range c.Writes {
		if len(w.Key) < 7+9 || w.Key[0] != keyspace.Records || w.Key[1] != historyKeys {
			continue
		}
		at := len(w.Key) - 9
		s := byKey[string(w.Key[2:at])]
		if s == nil {
			continue
		}
		rev := binary.BigEndian.Uint64(w.Key[at+1:])
		if w.Deleted {
			s.forgotten = append(s.forgotten, rev)
			continue
		}
		ch, err := readChange(s.ID, rev, w.Val)
		if err != nil {
			return nil, engine.Errorf(engine.CodeCorrupt, "read the history: %w", err)
		}
		if !ch.Redacted() || logged[string(logKey(s.Collection, ch.Seq))] { // otherwise it is older, and was only redacted
			s.changes = append(s.changes, ch)
		}
	}
	all = slices.DeleteFunc(all, func(s *Step) bool { return len(s.changes) == 0 }) // written in another form, or dropped
	for _, s := range all {
		slices.SortFunc(s.changes, func(a, b *Change) int { return cmp.Compare(a.Rev, b.Rev) })
	}
	slices.SortStableFunc(all, func(a, b *Step) int { return cmp.Compare(a.seq(), b.seq()) })
	return all, nil
}

// logged returns the keys in the log of the changes that a transaction has made.
func logged(c engine.Change) map[string]bool {
	all := map[string]bool{}
	for _, w := range c.Writes {
		if IsLog(w.Key) && !w.Deleted {
			all[string(w.Key)] = true
		}
	}
	return all
}

func (s *Step) seq() uint64 { return s.Last().Seq }

// Last returns the last change of the record.
func (s *Step) Last() *Change { return s.changes[len(s.changes)-1] }

// Bytes returns how large the record is after the transaction, as it is stored.
func (s *Step) Bytes() int { return len(s.doc) }

// Live returns the record before and after the transaction; nil for one that did not exist or was in the trash. The
// record before lacks the marks that the transaction has set; Step.Marks adds them. known is false if the transaction does
// not say what the record was, because it has not left all its changes in the history with their bodies.
func (s *Step) Live(c *Collection) (before, after *Doc, known bool, err error) {
	d := &Doc{ID: s.ID}
	var data []byte
	if s.doc != nil {
		if data, err = d.readEnvelope(s.doc); err == nil {
			after, err = c.read(s.ID, s.doc)
		}
		if err != nil {
			return nil, nil, false, engine.Errorf(engine.CodeCorrupt, "read record %s of %s: %w", s.ID, c.Name, err)
		}
		if d.Deleted {
			after = nil
		}
	}
	if !s.whole(c) {
		return nil, after, false, nil
	}
	live, data, err := s.back(after != nil, data)
	if err != nil {
		return nil, nil, false, engine.Errorf(engine.CodeCorrupt, "read the history of record %s of %s: %w", s.ID, c.Name, err)
	}
	if !live || data == nil {
		return nil, after, !live, nil
	}
	before = &Doc{ID: s.ID, Rev: s.changes[0].Rev - 1}
	before.Marks = d.Marks
	for stamp := range before.Marks {
		if s.sets(Stamp(stamp)) {
			before.Marks[stamp] = Mark{}
		}
	}
	if before.Data, err = c.Parse(data); err != nil {
		return nil, nil, false, engine.Errorf(engine.CodeCorrupt, "record %s of %s before change %d: %w", s.ID, c.Name, s.changes[0].Rev, err)
	}
	return before, after, true, nil
}

// sets reports whether the transaction has set a mark of the record.
func (s *Step) sets(stamp Stamp) bool {
	return slices.ContainsFunc(s.changes, func(ch *Change) bool { return ch.Op == Create+Op(stamp) })
}

// Marks adds the marks that before, of Live, lacks. It reads at most FullEvery changes of the history before the
// transaction; tx may be of any later time. known is false if the history does not have them any more.
func (s *Step) Marks(tx engine.Tx, c *Collection, before *Doc) (known bool, err error) {
	var missing []Stamp
	for stamp := range Stamp(Stamps) {
		if s.sets(stamp) {
			missing = append(missing, stamp)
		}
	}
	next := before.Rev
	for ch, err := range ChangesOf(tx, c, s.ID, s.changes[0].Rev) {
		if err != nil {
			return false, err
		}
		if ch.Rev != next || before.Rev-next == FullEvery {
			return false, nil // one in between was removed, or so were copies
		}
		next--
		var copied Doc
		if ch.Full != nil {
			if _, err := copied.readEnvelope(ch.Full); err != nil {
				return false, engine.Errorf(engine.CodeCorrupt, "change %d of record %s of %s: its copy is damaged", ch.Rev, s.ID, c.Name)
			}
		}
		missing = slices.DeleteFunc(missing, func(stamp Stamp) bool {
			switch {
			case ch.Op == Create+Op(stamp):
				before.Marks[stamp] = Mark{ch.At, ch.By}
			case ch.Full != nil:
				before.Marks[stamp] = copied.Marks[stamp]
			}
			return ch.Op == Create+Op(stamp) || ch.Full != nil || ch.Op == Create
		})
		if len(missing) == 0 {
			return true, nil
		}
	}
	return len(missing) == 0, nil
}

// back goes back from the record after the changes to the record before them: whether it exists and is not in the trash,
// and its data, nil if that is not known.
func (s *Step) back(live bool, data []byte) (bool, []byte, error) {
	for _, ch := range slices.Backward(s.changes) {
		switch ch.Op {
		case Create, Purge, Restore:
			live = false
		case Delete:
			live = true
		}
		if ch.Op == Purge || ch.Redacted() {
			data = nil
		}
		if data == nil {
			continue
		}
		var err error
		if data, err = walk(data, ch.Body, true); err != nil {
			return false, nil, err
		}
	}
	return live, data, nil
}

// whole reports whether the changes are all of the transaction. A collection without a history keeps only the last change
// of each record.
func (s *Step) whole(c *Collection) bool {
	first, last := s.changes[0], s.Last()
	if last.Rev-first.Rev != uint64(len(s.changes)-1) {
		return false
	}
	if len(s.forgotten) > 0 {
		return slices.Min(s.forgotten) == first.Rev-1
	}
	return !c.History.Off || first.Op == Create
}

// Documents calls yield for each record that a change of the engine wrote or removed, in whatever way.
func Documents(c engine.Change, yield func(collection uint32, id string)) {
	for _, w := range c.Writes {
		if len(w.Key) >= 7 && w.Key[0] == keyspace.Records && w.Key[1] == docKeys {
			yield(binary.BigEndian.Uint32(w.Key[2:]), string(w.Key[6:]))
		}
	}
}
