package postgres

import (
	"encoding/binary"
	"errors"

	"github.com/skerrydb/skerry/cache"
)

// The output of the plugin pgoutput, protocol version 1 (PostgreSQL: "Logical Replication Message Formats").

var errMessage = errors.New("a malformed message of logical replication")

// relation is a table as the stream describes it before its first change.
type relation struct {
	id      uint32
	schema  string
	name    string
	columns []column
}

type column struct {
	name     string
	identity bool // part of the replica identity
}

// value is one column of a row.
type value struct {
	kind byte // n: null, u: not sent as it has not changed, t: text
	text []byte
}

// message is what one message says. Only the fields of its kind are set; its bytes are those of the message.
type message struct {
	kind byte // B, C, R, I, U, D, T, or 0: nothing of interest

	xid      uint32         // B
	end      cache.Position // C: after the commit record
	commit   cache.Position // B and C: the commit record
	relation relation       // R

	id       uint32 // I, U, D: the relation
	old, now []value
	oldKind  byte     // U, D: K: old has the replica identity, O: all columns; 0: there is no old
	ids      []uint32 // T: the relations
}

// decode reads a message.
func decode(b []byte) (m message, err error) {
	r := reader{b: b}
	switch m.kind = r.byte(); m.kind {
	case 'B':
		m.commit = cache.Position(r.uint64())
		r.uint64() // time
		m.xid = r.uint32()
	case 'C':
		r.byte() // flags
		m.commit, m.end = cache.Position(r.uint64()), cache.Position(r.uint64())
		r.uint64() // time
	case 'R':
		m.relation = r.relation()
	case 'I':
		m.id = r.uint32()
		if r.byte() != 'N' {
			r.bad = true
		}
		m.now = r.row()
	case 'U':
		m.id = r.uint32()
		kind := r.byte()
		if kind == 'K' || kind == 'O' {
			m.oldKind, m.old = kind, r.row()
			kind = r.byte()
		}
		if kind != 'N' {
			r.bad = true
		}
		m.now = r.row()
	case 'D':
		m.id = r.uint32()
		if m.oldKind = r.byte(); m.oldKind != 'K' && m.oldKind != 'O' {
			r.bad = true
		}
		m.old = r.row()
	case 'T':
		n := r.uint32()
		r.byte() // options
		for range n {
			if r.bad {
				break
			}
			m.ids = append(m.ids, r.uint32())
		}
	case 'O', 'Y', 'M': // origin, type, a message of a program
		return message{}, nil
	default:
		r.bad = true
	}
	if r.bad || len(r.b) > 0 {
		return message{}, errMessage
	}
	return m, nil
}

// reader takes a message apart. After the first mistake it is bad and returns zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.bad = nil, true
		return nil
	}
	taken := r.b[:n:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// text reads a string that ends with a zero.
func (r *reader) text() string {
	for i, c := range r.b {
		if c == 0 {
			s := string(r.b[:i])
			r.b = r.b[i+1:]
			return s
		}
	}
	r.b, r.bad = nil, true
	return ""
}

func (r *reader) relation() (t relation) {
	t.id = r.uint32()
	t.schema, t.name = r.text(), r.text()
	r.byte() // which replica identity
	for range r.uint16() {
		if r.bad {
			break
		}
		c := column{identity: r.byte()&1 != 0}
		c.name = r.text()
		r.uint32() // type
		r.uint32() // its modifier
		t.columns = append(t.columns, c)
	}
	return t
}

func (r *reader) row() []value {
	n := int(r.uint16())
	if n > len(r.b) { // each column has at least a byte
		r.b, r.bad = nil, true
		return nil
	}
	row := make([]value, n)
	for i := range row {
		v := &row[i]
		switch v.kind = r.byte(); v.kind {
		case 'n', 'u':
		case 't':
			v.text = r.take(int(r.uint32()))
		default: // binary is not asked for
			r.b, r.bad = nil, true
		}
	}
	return row
}
