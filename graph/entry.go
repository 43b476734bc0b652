package graph

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// The first byte of a value in an index is its type. They are in the order of
// value.Order, and stored: do not change them.
const (
	entryBool   = 1
	entryNumber = 2
	entryTime   = 3
	entryText   = 4
	entryUUID   = 5
)

// AppendIndexKey appends a value so that the bytes of values have the order of
// value.Order, but for values that look the same in an index: strings that differ
// only after about indexText bytes, and numbers that are the same as a float64. It
// reports false if values of v's type are in no index. It is stored: do not change it.
func AppendIndexKey(b []byte, v any) ([]byte, bool) {
	switch x := v.(type) {
	case bool:
		if x {
			return append(b, entryBool, 1), true
		}
		return append(b, entryBool, 0), true
	case time.Time:
		b = binary.BigEndian.AppendUint64(append(b, entryTime), uint64(x.Unix())^1<<63)
		return binary.BigEndian.AppendUint32(b, uint32(x.Nanosecond())), true
	case string:
		return append(appendIndexText(append(b, entryText), x), 0, 1), true
	case value.UUID:
		return append(append(b, entryUUID), x[:]...), true
	}
	f, ok := value.Float(v)
	if !ok || value.IsNaN(v) {
		return b, false
	}
	if f == 0 {
		f = 0 // not -0
	}
	bits := math.Float64bits(f)
	if bits>>63 == 0 {
		bits ^= 1 << 63
	} else {
		bits = ^bits
	}
	return binary.BigEndian.AppendUint64(append(b, entryNumber), bits), true
}

// appendIndexText appends the beginning of a string, with zeros escaped.
func appendIndexText(b []byte, s string) []byte {
	for at, i := len(b), 0; i < len(s) && len(b)-at < indexText; i++ {
		if b = append(b, s[i]); s[i] == 0 {
			b = append(b, 0xff)
		}
	}
	return b
}

// skipIndexKey returns what follows a value that AppendIndexKey wrote; nil: it is
// damaged.
func skipIndexKey(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	size := 0
	switch b[0] {
	case entryBool:
		size = 2
	case entryNumber:
		size = 9
	case entryTime:
		size = 13
	case entryText:
		return skipIndexText(b[1:])
	case entryUUID:
		size = 17
	}
	if size == 0 || len(b) < size {
		return nil
	}
	return b[size:]
}

func skipIndexText(b []byte) []byte {
	for i := 0; i+1 < len(b); i++ {
		if b[i] != 0 {
			continue
		}
		switch b[i+1] {
		case 1:
			return b[i+2:]
		case 0xff:
			i++
		default:
			return nil
		}
	}
	return nil
}

// entries returns the keys of an element's entries in an index, sorted: one, or with
// several values of a property one for each.
func (ix *Index) entries(t *Tx, labels []uint64, vals func(key uint64) []any) ([][]byte, error) {
	if ix.label != 0 && !slices.Contains(labels, ix.label) {
		return nil, nil
	}
	out := [][]byte{t.key(roomEntries, ix.num)}
	for _, k := range ix.keys {
		all := vals(k)
		if len(all) > 0 && len(out) > MaxEntries/len(all) {
			return nil, limit("an element has at most %d entries in an index (MaxEntries): it has too many values of %s", MaxEntries, strings.Join(ix.Keys, ", "))
		}
		var next [][]byte
		for _, v := range all {
			for _, b := range out {
				if e, ok := AppendIndexKey(slices.Clip(b), v); ok {
					next = append(next, e)
				}
			}
		}
		out = next
	}
	slices.SortFunc(out, bytes.Compare)
	return slices.CompactFunc(out, bytes.Equal), nil
}

func (rec *vertexRecord) values(key uint64) (out []any) {
	for _, p := range rec.props {
		if p.key == key {
			out = append(out, p.val)
		}
	}
	return out
}

func (rec *edgeRecord) values(key uint64) (out []any) {
	for _, p := range rec.props {
		if p.key == key {
			out = append(out, p.val)
		}
	}
	return out
}

// states are what an element had, and has, of an index.
type states struct {
	id            []uint64 // the element's numbers
	labels, were  []uint64
	before, after func(key uint64) []any
}

func (t *Tx) reindexVertex(v *Vertex, before, after *vertexRecord) error {
	return t.reindex(value.KindVertex, states{[]uint64{v.num}, after.labels, before.labels, before.values, after.values})
}

func (t *Tx) reindexEdge(e *Edge, before, after *edgeRecord) error {
	label := []uint64{e.label}
	return t.reindex(value.KindEdge, states{e.numbers(), label, label, before.values, after.values})
}

func (e *Edge) numbers() []uint64 { return []uint64{e.out, e.label, e.in, e.num} }

// reindex replaces an element's entries. It writes none if one of them is refused.
func (t *Tx) reindex(on value.Kind, s states) error {
	all, err := t.Indexes()
	if err != nil {
		return err
	}
	var gone, added [][]byte
	for _, ix := range all {
		if ix.On != on {
			continue
		}
		old, err := ix.entries(t, s.were, s.before)
		if err != nil {
			return err
		}
		now, err := ix.entries(t, s.labels, s.after)
		if err != nil {
			return err
		}
		old, now = different(old, now)
		for _, b := range old {
			gone = append(gone, withNumbers(b, s.id))
		}
		for _, b := range now {
			full := withNumbers(b, s.id)
			if err := t.alone(ix, b, full, s); err != nil {
				return err
			}
			added = append(added, full)
		}
	}
	for _, key := range gone {
		if err := t.delete(key); err != nil {
			return err
		}
	}
	for _, key := range added {
		if err := t.put(key, nil); err != nil {
			return err
		}
	}
	return nil
}

func withNumbers(b []byte, nums []uint64) []byte {
	b = slices.Clip(b)
	for _, n := range nums {
		b = appendNumber(b, n)
	}
	return b
}

// different returns what only one of two sorted lists has.
func different(old, now [][]byte) (gone, added [][]byte) {
	for len(old) > 0 && len(now) > 0 {
		switch c := bytes.Compare(old[0], now[0]); {
		case c < 0:
			gone, old = append(gone, old[0]), old[1:]
		case c > 0:
			added, now = append(added, now[0]), now[1:]
		default:
			old, now = old[1:], now[1:]
		}
	}
	return append(gone, old...), append(added, now...)
}

// alone returns CodeUnique if ix is unique, and another element than the one with the
// entry mine has the same values.
func (t *Tx) alone(ix *Index, b, mine []byte, s states) error {
	if !ix.Unique {
		return nil
	}
	if _, err := t.leavers(); err != nil {
		return err
	}
	var others []entry
	lo, hi := within(b)
	for p, err := range t.tx.Scan(lo, hi) {
		if err != nil {
			return err
		}
		if bytes.Equal(p.Key, mine) {
			continue
		}
		e, err := t.entry(ix, p.Key)
		if err != nil {
			return err
		}
		if !e.hidden(t, ix) {
			others = append(others, e)
		}
	}
	for _, e := range others { // those that look the same in the index may differ
		o := e.element(t, ix)
		same, err := ix.hasSame(o, s.after)
		if err != nil {
			return err
		}
		if same {
			kind, id := "vertices", (&Vertex{t: t, num: s.id[0]}).ElementID()
			if ix.On == value.KindEdge {
				kind, id = "edges", (&Edge{t: t, out: s.id[0], label: s.id[1], in: s.id[2], num: s.id[3]}).ElementID()
			}
			return engine.Errorf(CodeUnique, "the %s with the ids %s and %s would have the same %s, which is unique",
				kind, value.Text(o.ElementID()), value.Text(id), strings.Join(ix.Keys, ", "))
		}
	}
	return nil
}

// hasSame reports whether an element has one of the values for each of the keys.
func (ix *Index) hasSame(e value.Stored, vals func(key uint64) []any) (bool, error) {
	var theirs func(key uint64) []any
	switch x := e.(type) {
	case *Vertex:
		rec, err := x.decode()
		if err != nil {
			return false, err
		}
		theirs = rec.values
	case *Edge:
		rec, err := x.decode()
		if err != nil {
			return false, err
		}
		theirs = rec.values
	}
	for _, k := range ix.keys {
		mine := vals(k)
		if !slices.ContainsFunc(theirs(k), func(v any) bool {
			return slices.ContainsFunc(mine, func(m any) bool { return value.Equal(v, m) })
		}) {
			return false, nil
		}
	}
	return true, nil
}

// entry has the numbers of the element of an entry: of a vertex only the first.
type entry struct {
	at  [4]uint64
	key []byte // what comes before them, if it is needed
}

// entry reads a key.
func (t *Tx) entry(ix *Index, key []byte) (e entry, err error) {
	rest := key[min(len(key), len(t.prefix)+1):]
	_, rest, ok := number(rest) // the index
	for range ix.keys {
		rest = skipIndexKey(rest)
	}
	n := 1
	if ix.On == value.KindEdge {
		n = 4
	}
	if !ok || rest == nil || !numbers(rest, 0, e.at[:n]) {
		return e, corrupt("entry of an index", key)
	}
	e.key = key[:len(key)-len(rest)]
	return e, nil
}

// hidden reports whether the element is being removed. leavers was called before.
func (e *entry) hidden(t *Tx, ix *Index) bool {
	if ix.On == value.KindVertex {
		return t.isHidden(e.at[0], e.at[0])
	}
	return t.isHidden(e.at[0], e.at[2])
}

func (e *entry) element(t *Tx, ix *Index) value.Stored {
	if ix.On == value.KindVertex {
		return &Vertex{t: t, num: e.at[0]}
	}
	return &Edge{t: t, out: e.at[0], label: e.at[1], in: e.at[2], num: e.at[3]}
}
