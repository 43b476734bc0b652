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

// Index finds vertices or edges by their properties. Its definition does not change.
type Index struct {
	On     value.Kind // KindVertex or KindEdge
	Label  string     // of the elements that it has; "": of all
	Keys   []string   // an element is in it that has all these properties, with values that can be ordered
	Unique bool       // no two elements have the same values

	num     uint64
	label   uint64
	keys    []uint64
	Filling bool // it does not have all elements yet, so that nothing can be found by it
}

// Indexes returns the graph's indexes. The caller must not change them.
func (t *Tx) Indexes() ([]*Index, error) {
	if t.indexes != nil {
		return t.indexes, nil
	}
	all := []*Index{}
	lo, hi := within(t.key(roomIndexes))
	for p, err := range t.tx.Scan(lo, hi) {
		if err != nil {
			return nil, err
		}
		var num [1]uint64
		ix := &Index{}
		r := reader{b: p.Val}
		flags := r.byte()
		ix.Unique, ix.Filling = flags&1 != 0, flags&2 != 0
		ix.On, ix.label = value.Kind(r.byte()), r.uvarint()
		for n := r.uvarint(); n > 0 && !r.bad; n-- {
			ix.keys = append(ix.keys, r.uvarint())
		}
		if !numbers(p.Key, len(lo), num[:]) || r.bad || len(r.b) != 0 {
			return nil, corrupt("index", p.Key)
		}
		ix.num = num[0]
		all = append(all, ix)
	}
	for _, ix := range all { // names are read after the scan: reads may not be nested on every engine
		if err := t.nameIndex(ix); err != nil {
			return nil, err
		}
	}
	t.indexes = all
	return all, nil
}

func (t *Tx) nameIndex(ix *Index) (err error) {
	if ix.label != 0 {
		if ix.Label, err = t.textOf(ix.label); err != nil {
			return err
		}
	}
	for _, k := range ix.keys {
		name, err := t.textOf(k)
		if err != nil {
			return err
		}
		ix.Keys = append(ix.Keys, name)
	}
	return nil
}

// same reports whether two indexes have the same elements in the same order.
func (ix *Index) same(o *Index) bool {
	return ix.On == o.On && ix.Label == o.Label && slices.Equal(ix.Keys, o.Keys)
}

// DefineIndex adds an index, which is Filling until all elements are in it: see
// DB.AddIndex. One with the same elements is returned as it is.
func (t *Tx) DefineIndex(ix Index) (*Index, error) {
	all, err := t.Indexes()
	if err != nil {
		return nil, err
	}
	switch {
	case ix.On != value.KindVertex && ix.On != value.KindEdge:
		return nil, engine.Errorf(CodeSchema, "an index is on vertices or on edges")
	case len(ix.Keys) == 0 || len(ix.Keys) > MaxIndexKeys:
		return nil, limit("an index has 1 to %d keys (MaxIndexKeys)", MaxIndexKeys)
	case len(all) >= MaxIndexes:
		return nil, limit("a graph has at most %d indexes (MaxIndexes)", MaxIndexes)
	}
	for _, o := range all {
		if ix.same(o) {
			if ix.Unique != o.Unique {
				return nil, engine.Errorf(CodeSchema, "there is an index on %s already, which differs in Unique", strings.Join(ix.Keys, ", "))
			}
			return o, nil
		}
		ix.num = max(ix.num, o.num)
	}
	ix.num++
	ix.Filling = true
	if ix.Label != "" {
		if ix.label, err = t.give(ix.Label); err != nil {
			return nil, err
		}
	}
	for _, k := range ix.Keys {
		n, err := t.give(k)
		if err != nil {
			return nil, err
		}
		ix.keys = append(ix.keys, n)
	}
	t.indexes = append(slices.Clone(all), &ix)
	return &ix, t.putIndex(&ix)
}

func (t *Tx) putIndex(ix *Index) error {
	flags := byte(0)
	if ix.Unique {
		flags |= 1
	}
	if ix.Filling {
		flags |= 2
	}
	b := binary.AppendUvarint(append([]byte{flags}, byte(ix.On)), ix.label)
	b = binary.AppendUvarint(b, uint64(len(ix.keys)))
	for _, k := range ix.keys {
		b = binary.AppendUvarint(b, k)
	}
	return t.put(t.key(roomIndexes, ix.num), b)
}

// AppendIndexKey appends a value so that the bytes of values have the order of
// value.Order, but for values that look the same in an index: strings with the same
// first indexText bytes, and numbers that are the same as a float64. It reports
// false if values of v's type are in no index. It is stored: do not change it.
func AppendIndexKey(b []byte, v any) ([]byte, bool) {
	switch x := v.(type) {
	case bool:
		if x {
			return append(b, 1, 1), true
		}
		return append(b, 1, 0), true
	case time.Time:
		b = binary.BigEndian.AppendUint64(append(b, 3), uint64(x.Unix())^1<<63)
		return binary.BigEndian.AppendUint32(b, uint32(x.Nanosecond())), true
	case string:
		if len(x) > indexText {
			x = x[:indexText]
		}
		b = append(b, 4)
		for i := range len(x) {
			if b = append(b, x[i]); x[i] == 0 {
				b = append(b, 0xff)
			}
		}
		return append(b, 0, 1), true
	case value.UUID:
		return append(append(b, 5), x[:]...), true
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
	return binary.BigEndian.AppendUint64(append(b, 2), bits), true
}

// entries returns the keys of an element's entries in an index: one, or with
// several values of a property one for each.
func (ix *Index) entries(t *Tx, labels []uint64, vals func(key uint64) []any) [][]byte {
	if ix.label != 0 && !slices.Contains(labels, ix.label) {
		return nil
	}
	out := [][]byte{t.key(roomEntries, ix.num)}
	for _, k := range ix.keys {
		var next [][]byte
		for _, v := range vals(k) {
			for _, b := range out {
				if e, ok := AppendIndexKey(slices.Clip(b), v); ok {
					next = append(next, e)
				}
			}
		}
		out = next
	}
	slices.SortFunc(out, bytes.Compare)
	return slices.CompactFunc(out, bytes.Equal)
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

func (t *Tx) reindexVertex(v *Vertex, before, after *vertexRecord) error {
	all, err := t.Indexes()
	if err != nil {
		return err
	}
	for _, ix := range all {
		if ix.On != value.KindVertex {
			continue
		}
		old, now := ix.entries(t, before.labels, before.values), ix.entries(t, after.labels, after.values)
		if err := t.reindex(ix, old, now, after.values, []uint64{v.num}); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tx) reindexEdge(e *Edge, before, after *edgeRecord) error {
	all, err := t.Indexes()
	if err != nil {
		return err
	}
	for _, ix := range all {
		if ix.On != value.KindEdge {
			continue
		}
		label := []uint64{e.label}
		old, now := ix.entries(t, label, before.values), ix.entries(t, label, after.values)
		if err := t.reindex(ix, old, now, after.values, []uint64{e.out, e.label, e.in, e.num}); err != nil {
			return err
		}
	}
	return nil
}

// reindex replaces an element's entries in an index. id are its numbers.
func (t *Tx) reindex(ix *Index, old, now [][]byte, vals func(key uint64) []any, id []uint64) error {
	full := func(b []byte) []byte {
		for _, n := range id {
			b = appendNumber(slices.Clip(b), n)
		}
		return b
	}
	has := func(all [][]byte, b []byte) bool {
		return slices.ContainsFunc(all, func(o []byte) bool { return bytes.Equal(o, b) })
	}
	for _, b := range old {
		if !has(now, b) {
			if err := t.delete(full(b)); err != nil {
				return err
			}
		}
	}
	for _, b := range now {
		if has(old, b) {
			continue
		}
		if ix.Unique {
			if err := t.alone(ix, b, full(b), vals); err != nil {
				return err
			}
		}
		if err := t.put(full(b), nil); err != nil {
			return err
		}
	}
	return nil
}

// alone returns CodeUnique if another element than the one with the entry mine has
// the same values.
func (t *Tx) alone(ix *Index, b, mine []byte, vals func(key uint64) []any) error {
	var others []value.Stored
	lo, hi := within(b)
	for p, err := range t.tx.Scan(lo, hi) {
		if err != nil {
			return err
		}
		if bytes.Equal(p.Key, mine) {
			continue
		}
		e, err := t.entryElement(ix, p.Key)
		if err != nil {
			return err
		}
		others = append(others, e)
	}
	for _, e := range others { // those that look the same in the index may differ
		same, err := ix.hasSame(e, vals)
		if err != nil {
			return err
		}
		if same {
			return engine.Errorf(CodeUnique, "the %s with the id %s has the same %s, which is unique", ix.kind(), value.Text(e.ElementID()), strings.Join(ix.Keys, ", "))
		}
	}
	return nil
}

func (ix *Index) kind() string {
	if ix.On == value.KindEdge {
		return "edge"
	}
	return "vertex"
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

// Bound is one end of a range of values.
type Bound struct {
	Val  any
	Open bool // Val itself is outside; it may be found all the same
}

// Lookup calls yield with the elements of an index whose first properties have the
// values equal, and whose next one is between lo and hi, which may be nil, until
// yield returns an error, which it returns. It may find more than that: see
// AppendIndexKey. It returns false, having found nothing, if one of the values is in
// no index.
func (t *Tx) Lookup(ix *Index, equal []any, lo, hi *Bound, yield func(value.Stored) error) (bool, error) {
	prefix, ok := t.key(roomEntries, ix.num), true
	for _, v := range equal {
		if prefix, ok = AppendIndexKey(prefix, v); !ok {
			return false, nil
		}
	}
	from, to := within(prefix)
	if lo != nil {
		if from, ok = AppendIndexKey(slices.Clone(prefix), lo.Val); !ok {
			return false, nil
		}
		if hi == nil { // only values of the same type can be compared
			to = append(slices.Clone(prefix), from[len(prefix)]+1)
		}
	}
	if hi != nil {
		key, ok := AppendIndexKey(slices.Clone(prefix), hi.Val)
		if !ok {
			return false, nil
		}
		if to = engine.PrefixEnd(key); lo == nil {
			from = append(slices.Clone(prefix), key[len(prefix)])
		}
	}
	var found []value.Stored
	take := func(p engine.Pair) error {
		e, err := t.entryElement(ix, p.Key)
		found = append(found, e)
		return err
	}
	seen := map[uint64]bool{} // an element has an entry for each of several values
	return true, t.pages(from, to, take, func() error {
		page := found
		found = nil
		for _, e := range page {
			if v, ok := e.(*Vertex); ok && lo != hi {
				if seen[v.num] {
					continue
				}
				seen[v.num] = true
			}
			if err := yield(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// entryElement returns the element of an entry, whose numbers are at its end.
func (t *Tx) entryElement(ix *Index, key []byte) (value.Stored, error) {
	rest := key[len(t.key(roomEntries, ix.num)):]
	for range ix.keys {
		if rest = skipIndexKey(rest); rest == nil {
			return nil, corrupt("entry of an index", key)
		}
	}
	if ix.On == value.KindVertex {
		var at [1]uint64
		if !numbers(rest, 0, at[:]) {
			return nil, corrupt("entry of an index", key)
		}
		return &Vertex{t: t, num: at[0]}, nil
	}
	var at [4]uint64
	if !numbers(rest, 0, at[:]) {
		return nil, corrupt("entry of an index", key)
	}
	return &Edge{t: t, out: at[0], label: at[1], in: at[2], num: at[3]}, nil
}

// skipIndexKey returns what follows a value that AppendIndexKey wrote; nil: it is
// damaged.
func skipIndexKey(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	size := map[byte]int{1: 2, 2: 9, 3: 13, 5: 17}[b[0]]
	if b[0] == 4 {
		for i := 1; i+1 < len(b); i++ {
			if b[i] == 0 {
				if b[i+1] == 1 {
					return b[i+2:]
				}
				i++
			}
		}
		return nil
	}
	if size == 0 || len(b) < size {
		return nil
	}
	return b[size:]
}
