package keys

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// The layout in the engine. Do not change it: data on disk depends on it. DESIGN.md has it as a table. Every key begins
// with the prefix of records and one of these bytes; a collection is 4 bytes, an index 2, all numbers are big endian.
const (
	schemaKeys  = 's' // name                           → the description and state of a collection
	epochKey    = 'e' //                                → a text that changes with the descriptions
	docKeys     = 'd' // collection id                  → a document
	entryKeys   = 'i' // collection index deleted values id → nothing; the id as in appendEntryID
	uniqueKeys  = 'u' // collection index values        → id of the record that has them
	historyKeys = 'h' // collection id 0 rev            → a change
	logKeys     = 'l' // collection seq                 → id and rev of the change
	counterKeys = 'c' // collection                     → counters
	cursorKeys  = 'a' // collection name                → number of the last change that a function of After has seen
	lastKey     = 'n' //                                → the highest id that a collection has had
	workKeys    = 'w' // collection                     → what a migration has left to do
	versionKeys = 'v' // collection version             → the description before a migration
)

// Limits of keys.
const (
	MaxIDBytes    = 64    // id of a record
	MaxEntryBytes = 1_500 // values of a record in one index
)

// CheckID reports why id is not a valid record id: 1 to MaxIDBytes letters, digits, _ and -.
func CheckID(id string) error {
	if id == "" || len(id) > MaxIDBytes {
		return fmt.Errorf("an id must have 1 to %d characters, not %d", MaxIDBytes, len(id))
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return fmt.Errorf("%q is not a valid id: use only the letters a to z and A to Z, digits, _ and -", id)
		}
	}
	return nil
}

// IsLog reports whether a key belongs to the log of changes of a collection.
func IsLog(key []byte) bool {
	return len(key) > 2 && key[0] == keyspace.Records && key[1] == logKeys
}

func prefix(kind byte, collection uint32) []byte {
	return binary.BigEndian.AppendUint32(append(make([]byte, 0, 64), keyspace.Records, kind), collection)
}

func docKey(collection uint32, id string) []byte {
	return append(prefix(docKeys, collection), id...)
}

// historyKey returns the key of a change. No id has a zero byte, so the changes of a record lie together.
func historyKey(collection uint32, id string, rev uint64) []byte {
	return binary.BigEndian.AppendUint64(append(append(prefix(historyKeys, collection), id...), 0), rev)
}

func logKey(collection uint32, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(prefix(logKeys, collection), seq)
}

// Index is a stored index of a collection.
type Index struct {
	schema.Index
	ID    uint16 // never used again within the collection
	Ready bool   // built: all records are in it
	parts []part
}

// part is a field of an index.
type part struct {
	column bool
	index  int // in schema.Columns, or of the field
	desc   bool
}

func (p part) of(d *Doc) value.Value {
	if p.column {
		return d.Column(p.index)
	}
	return d.Field(p.index)
}

// newIndex prepares an index of a collection, which schema.Compile has checked.
func newIndex(k *schema.Compiled, x schema.Index, id uint16, ready bool) Index {
	n := Index{Index: x, ID: id, Ready: ready}
	for _, f := range x.Fields {
		n.parts = append(n.parts, partOf(k, f))
	}
	return n
}

// partOf returns the part for a field or column of k.
func partOf(k *schema.Compiled, f schema.IndexField) part {
	if i, ok := k.Index(f.Name); ok {
		return part{false, i, f.Desc}
	}
	columns := schema.Columns()
	return part{true, slices.IndexFunc(columns[:], func(c schema.Column) bool { return c.Name == f.Name }), f.Desc}
}

func (x *Index) prefix(kind byte, collection uint32) []byte {
	return binary.BigEndian.AppendUint16(prefix(kind, collection), x.ID)
}

// appendValues appends the values of a record in the order of the index. null reports whether one of them is null.
func (x *Index) appendValues(dst []byte, d *Doc) (key []byte, null bool) {
	for _, p := range x.parts {
		v := p.of(d)
		null = null || v.IsNull()
		dst = appendPart(dst, v, p.desc)
	}
	return dst, null
}

func appendPart(dst []byte, v value.Value, desc bool) []byte {
	if desc {
		return v.AppendKeyDesc(dst)
	}
	return v.AppendKey(dst)
}

// entryKey returns the key of a record in the index.
func (x *Index) entryKey(collection uint32, d *Doc) []byte {
	deleted := byte(0)
	if d.Deleted {
		deleted = 1
	}
	key, _ := x.appendValues(append(x.prefix(entryKeys, collection), deleted), d)
	return x.appendEntryID(key, d.ID)
}

// appendEntryID appends the id of a record to the key of its entry. Ids sort in the direction of the last field, as
// they do in query.Orders: a scan in either direction then gives an order that listings ask for. A descending id has
// its bytes inverted and 0xff after them.
func (x *Index) appendEntryID(dst []byte, id string) []byte {
	if !x.descending() {
		return append(dst, id...)
	}
	for _, c := range []byte(id) {
		dst = append(dst, ^c)
	}
	return append(dst, 0xff)
}

// entryID returns the id at the end of the key of an entry.
func (x *Index) entryID(key []byte) (string, error) {
	rest := key[min(len(key), entryPrefixBytes):]
	for _, p := range x.parts {
		var err error
		if rest, err = value.SkipKey(rest, p.desc); err != nil {
			return "", engine.Errorf(engine.CodeCorrupt, "an entry of index %s is damaged: %w", x.Name, err)
		}
	}
	if !x.descending() {
		return string(rest), nil
	}
	if len(rest) == 0 || rest[len(rest)-1] != 0xff {
		return "", engine.Errorf(engine.CodeCorrupt, "an entry of index %s is damaged: its id has no end", x.Name)
	}
	id := make([]byte, len(rest)-1)
	for i := range id {
		id[i] = ^rest[i]
	}
	return string(id), nil
}

// entryPrefixBytes is what stands before the values in the key of an entry: prefix, kind, collection, index, deleted.
const entryPrefixBytes = 1 + 1 + 4 + 2 + 1

// descending reports whether ids in the index sort in descending order.
func (x *Index) descending() bool { return x.parts[len(x.parts)-1].desc }

// uniqueKey returns the key that only one record may have, or nil if the record is not compared with others: it is
// deleted, or one of its values is null.
func (x *Index) uniqueKey(collection uint32, d *Doc) []byte {
	key, null := x.appendValues(x.prefix(uniqueKeys, collection), d)
	if null || d.Deleted || !x.Unique {
		return nil
	}
	return key
}
