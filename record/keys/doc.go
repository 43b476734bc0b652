// Package keys stores records in the ordered keys of an engine: documents, index entries and the history of changes. It
// also finds records by these keys. An engine that has a better place for documents and changes provides a Driver.
//
// Put and Remove are the only ways to change a record; Find, Count and Each search and report a Plan. All
// functions work in a transaction of the caller. A *Collection is immutable. Results do not alias the engine's memory.
// Errors are typed (*DuplicateError, *ScanError and others) or have an engine code.
//
// It knows the layout of the keys and how to find records by them. It must not know who may do what, or why a record
// changes.
package keys

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// Doc is a record as stored.
type Doc struct {
	ID      string
	Rev     uint64 // 1 after the creation, one more with each change
	Deleted bool   // in the trash

	// Who did something last, and when, by Stamp. A zero Mark means never.
	Marks [Stamps]Mark

	Data schema.Data

	form uint64 // of the collection when the record was written
	size int    // as it is stored, in bytes
}

// Mark is a time and an actor.
type Mark struct {
	At time.Time // UTC, microseconds
	By string    // id of the user; "": the program
}

// Stamp says what a Mark of a Doc is about.
type Stamp int

// The stamps. In the data: do not change.
const (
	Created Stamp = iota
	Updated
	Deleted
	Restored
	Stamps int = iota // how many there are
)

// Column returns a column of the record by its index in schema.Columns.
func (d *Doc) Column(i int) value.Value {
	switch {
	case i == 0:
		return text(d.ID)
	case i == 1:
		return value.OfInt(int64(d.Rev))
	case i == 2:
		return value.OfBool(d.Deleted)
	case i < 3+Stamps:
		if at := d.Marks[i-3].At; !at.IsZero() {
			v, _ := value.OfTime(at)
			return v
		}
		return value.Value{}
	}
	if by := d.Marks[i-3-Stamps].By; by != "" {
		return text(by)
	}
	return value.Value{}
}

// text returns a text that was checked before.
func text(s string) value.Value {
	v, _ := value.OfText(s)
	return v
}

// Field returns the value of a field by its index.
func (d *Doc) Field(i int) value.Value { return d.Data.Get(i) }

// Extra returns a member of the data that is not a field.
func (d *Doc) Extra(name string) value.Value { return d.Data.Extra(name) }

// Size returns how many bytes the record took when it was read, without its key; 0 if it was not read.
func (d *Doc) Size() int { return d.size }

// The first byte of a stored document. In the data: do not change.
const docFormat = 2

// flagDeleted is the bit of a record in the trash among the flags; bit 1+s says that there is a Mark of Stamp s.
const flagDeleted = 1

// appendDoc appends the document as it is stored, without its id:
//
//	format, flags, uvarint rev, uvarint form of the collection, then for each mark that is set: varint of its time in microseconds less that of the mark
//	before, uvarint length of the actor, actor; then the data as JSON
func appendDoc(dst []byte, c *Collection, d *Doc) []byte {
	return c.Append(appendEnvelope(dst, d, c.form), d.Data)
}

// appendEnvelope appends what comes before the data.
func appendEnvelope(dst []byte, d *Doc, form uint64) []byte {
	flags := byte(0)
	if d.Deleted {
		flags = flagDeleted
	}
	for s, m := range d.Marks {
		if !m.At.IsZero() {
			flags |= 2 << s
		}
	}
	dst = append(dst, docFormat, flags)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, d.Rev), form)
	last := int64(0)
	for _, m := range d.Marks {
		if m.At.IsZero() {
			continue
		}
		at := m.At.UnixMicro()
		dst = binary.AppendVarint(dst, at-last)
		dst = binary.AppendUvarint(dst, uint64(len(m.By)))
		dst = append(dst, m.By...)
		last = at
	}
	return dst
}

// readDoc reads what appendDoc has written. The result does not alias b.
func readDoc(c *Collection, id string, b []byte) (*Doc, error) {
	d := &Doc{ID: id, size: len(b)}
	data, err := d.readEnvelope(b)
	if err != nil {
		return nil, fmt.Errorf("record %s of %s: %w", id, c.Name, err)
	}
	if d.form == c.form {
		d.Data, err = c.Keep(bytes.Clone(data))
	} else {
		d.Data, err = c.Parse(data)
	}
	if err != nil {
		return nil, fmt.Errorf("record %s of %s: %w", id, c.Name, err)
	}
	return d, nil
}

func (d *Doc) readEnvelope(b []byte) (data []byte, err error) {
	if len(b) < 2 || b[0] != docFormat {
		return nil, fmt.Errorf("unknown format")
	}
	flags := b[1]
	d.Deleted = flags&flagDeleted != 0
	r := reader{b: b[2:]}
	d.Rev, d.form = r.uvarint(), r.uvarint()
	last := int64(0)
	for s := range d.Marks {
		if flags&(2<<s) == 0 {
			continue
		}
		last += r.varint()
		d.Marks[s] = Mark{time.UnixMicro(last).UTC(), r.text()}
	}
	if r.bad || flags>>(1+Stamps) != 0 {
		return nil, fmt.Errorf("damaged")
	}
	return r.b, nil
}

// reader cuts values from bytes. After the first that is not there, all are zero and bad is set.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	return n * uint64(r.cut(size))
}

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.b)
	return n * int64(r.cut(size))
}

// cut removes size bytes and returns 1, or 0 if they are not there.
func (r *reader) cut(size int) int {
	if r.bad = r.bad || size <= 0; r.bad {
		return 0
	}
	r.b = r.b[size:]
	return 1
}

func (r *reader) text() string {
	n := r.uvarint()
	if r.bad = r.bad || n > uint64(len(r.b)); r.bad {
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *reader) hash() (h [sha256.Size]byte) {
	if r.bad = r.bad || len(r.b) < len(h); !r.bad {
		r.b = r.b[copy(h[:], r.b):]
	}
	return h
}
