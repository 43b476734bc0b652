package kv

import (
	"encoding/binary"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
)

// The layout in the engine. Do not change it: data on disk depends on it. DESIGN.md has it
// as a table.
const (
	dataPrefix  = keyspace.KV       // 'k' space key             → a record
	expiryIndex = keyspace.KVExpiry // 'x' due(8) space key      → nothing: a key to expire
	graveIndex  = keyspace.KVGraves // 'y' due(8) space key      → nothing: a tombstone to clear

	flagExpires = 1 << 0 // an expiry follows the revision
	flagTomb    = 1 << 1 // the key is deleted; kept only for its revision
	flagTime    = 1 << 2 // the transaction's time follows, with the mark: see markedTime
	flagsKnown  = flagExpires | flagTomb | flagTime

	keyOverhead = 1 + 8 + 1     // bytes before the key, at most
	valOverhead = 1 + 8 + 8 + 8 // bytes before the value, at most
)

// record is what is stored for one key.
type record struct {
	rev  Revision
	ms   int64  // expiry in milliseconds since 1970; 0: never
	at   uint64 // time of the transaction in microseconds; at most rev
	tomb bool
	mark uint8 // see Entry.Mark
	data []byte
}

// appendRecord appends the stored form of r to b.
func appendRecord(b []byte, r *record) []byte {
	flags := byte(0)
	if r.ms != 0 {
		flags |= flagExpires
	}
	if r.tomb {
		flags |= flagTomb
	}
	if r.at != uint64(r.rev) || r.mark != 0 {
		flags |= flagTime
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint64(b, uint64(r.rev))
	if flags&flagExpires != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(r.ms))
	}
	if flags&flagTime != 0 {
		b = binary.BigEndian.AppendUint64(b, r.markedTime())
	}
	return append(b, r.data...)
}

// parse reads what appendRecord wrote; data aliases b. After an error r has no meaning.
func (r *record) parse(b []byte) error {
	if len(b) < 9 {
		return engine.Errorf(engine.CodeCorrupt, "read record: %d bytes are too few", len(b))
	}
	flags := b[0]
	if flags&^byte(flagsKnown) != 0 {
		return engine.Errorf(engine.CodeFormatNewer, "read record: unknown format bits %#x", flags)
	}
	rev := binary.BigEndian.Uint64(b[1:])
	b = b[9:]
	*r = record{rev: Revision(rev), at: rev, tomb: flags&flagTomb != 0, data: b}
	if flags&(flagExpires|flagTime) == 0 {
		return nil
	}
	need := 0
	if flags&flagExpires != 0 {
		need += 8
	}
	if flags&flagTime != 0 {
		need += 8
	}
	if len(b) < need {
		return engine.Errorf(engine.CodeCorrupt, "read record: the header is truncated")
	}
	if flags&flagExpires != 0 {
		r.ms = int64(binary.BigEndian.Uint64(b))
		b = b[8:]
	}
	if flags&flagTime != 0 {
		if !r.setMarkedTime(binary.BigEndian.Uint64(b)) {
			return engine.Errorf(engine.CodeCorrupt, "read record: its time is too far after its revision")
		}
		b = b[8:]
	}
	r.data = b
	return nil
}

// markedTime returns the field that encodes both the transaction's time and the mark.
// Without a mark, the field is the time, which is before the revision; a time equal to the
// revision is not stored. With a mark, the field is after the revision: by twice the
// difference between revision and time, plus one for mark 2.
//
// Versions that do not know marks read the field as the time, which only Flush uses. It is
// then late by at most 1 µs, plus 3 µs for each further change of the key in its
// transaction.
func (r *record) markedTime() uint64 {
	if r.mark == 0 {
		return r.at
	}
	return uint64(r.rev) + 2*(uint64(r.rev)-r.at) + uint64(r.mark-1)
}

// setMarkedTime parses what markedTime returned. It reports whether field is valid.
func (r *record) setMarkedTime(field uint64) bool {
	rev := uint64(r.rev)
	if field < rev {
		r.at = field
		return true
	}
	before := (field - rev) / 2
	r.at, r.mark = rev-before, 1+uint8((field-rev)%2)
	return before <= rev
}

// due returns the index that contains the record and the millisecond from which it may be
// deleted. A zero prefix means that it is in no index.
func (r *record) due() (prefix byte, ms int64) {
	switch {
	case r.tomb:
		// The first whole millisecond at which every clock reading is greater
		// than the revision, so that the key can begin anew without it.
		return graveIndex, int64(r.rev/1000) + 1
	case r.ms != 0:
		return expiryIndex, r.ms
	}
	return 0, 0
}

func (r *record) entry() Entry {
	return Entry{Val: r.data, Rev: r.rev, Expires: expiresAt(r.ms), Mark: r.mark}
}

func expiresAt(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func appendDataKey(b []byte, space uint8, key []byte) []byte {
	return append(append(b, dataPrefix, space), key...)
}

func appendIndexKey(b []byte, prefix byte, ms int64, space uint8, key []byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, prefix), uint64(ms))
	return append(append(b, space), key...)
}

// parseIndexKey splits an index key. key aliases b.
func parseIndexKey(b []byte) (ms int64, space uint8, key []byte, ok bool) {
	if len(b) <= keyOverhead {
		return 0, 0, nil, false
	}
	return int64(binary.BigEndian.Uint64(b[1:])), b[9], b[10:], true
}

// spaceEnd returns the first engine key after all data keys of space.
func spaceEnd(space uint8) []byte {
	if space == 255 {
		return []byte{dataPrefix + 1}
	}
	return []byte{dataPrefix, space + 1}
}

// Decode returns the event of one write of an engine.Change. ok is false if the write is to
// no key of kv or only to an index entry. Pos and Time are left zero; Key and Val alias the
// write. Decode reports the clearing of a tombstone as another deletion of the same key;
// Events does not.
func Decode(w engine.Write) (e Event, ok bool) {
	if len(w.Key) < 3 || w.Key[0] != dataPrefix {
		return Event{}, false
	}
	e = Event{Space: w.Key[1], Key: w.Key[2:], Deleted: w.Deleted}
	if w.Deleted {
		return e, true
	}
	var r record
	if err := r.parse(w.Val); err != nil {
		return Event{}, false
	}
	if e.Deleted = r.tomb; !r.tomb {
		e.Entry = r.entry()
	}
	return e, true
}
