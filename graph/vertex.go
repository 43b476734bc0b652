package graph

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// DefaultLabel is the label of a vertex that was added without one.
const DefaultLabel = "vertex"

// Vertex is a vertex of a transaction. It reads its record when it is asked for
// what is in it.
type Vertex struct {
	t   *Tx
	num uint64

	raw  []byte // the record; nil: not read
	read uint64 // t.version then
	id   any    // its own one; nil: not read
}

// Kind implements value.Stored.
func (v *Vertex) Kind() value.Kind { return value.KindVertex }

// AppendHash implements value.Stored.
func (v *Vertex) AppendHash(b []byte) []byte {
	if !hasOwnID(v.num) {
		return value.AppendHash(append(b, 'V'), int64(v.num>>1))
	}
	return value.AppendHash(append(b, 'V'), v.ElementID())
}

// Number returns a number that identifies the vertex in its graph.
func (v *Vertex) Number() uint64 { return v.num }

// ElementID implements value.Element: an int64, a string or a value.UUID.
func (v *Vertex) ElementID() any {
	if !hasOwnID(v.num) {
		return int64(v.num >> 1)
	}
	if v.id == nil {
		raw, _, err := v.record()
		v.t.note(err)
		r := reader{b: raw}
		if r.head(); len(raw) > 0 {
			v.id = r.value(0)
		}
	}
	return v.id
}

// ElementLabel implements value.Element.
func (v *Vertex) ElementLabel() string {
	labels, err := v.Labels()
	v.t.note(err)
	return strings.Join(labels, value.LabelSeparator)
}

// note keeps an error that has no other way out.
func (t *Tx) note(err error) {
	if t.fail == nil {
		t.fail = err
	}
}

// Detached implements value.Stored.
func (v *Vertex) Detached() value.Element { return v.value() }

func (v *Vertex) value() *value.Vertex {
	return &value.Vertex{ID: v.ElementID(), Label: v.ElementLabel()}
}

// Flags of a record. They are stored: do not change them.
const (
	flagOwnID = 1 << iota
	flagLeaving
)

// record returns the vertex's record, and whether there is one.
func (v *Vertex) record() ([]byte, bool, error) {
	if v.raw != nil && v.read == v.t.version {
		return v.raw, len(v.raw) > 0, nil
	}
	raw, ok, err := v.t.get(v.t.key(roomVertices, v.num))
	if err != nil {
		return nil, false, err
	}
	if !ok || raw[0]&flagLeaving != 0 {
		raw, ok = []byte{}, false
	}
	v.raw, v.read = raw, v.t.version
	return raw, ok, nil
}

// Exists reports whether the vertex is in the graph.
func (v *Vertex) Exists() (bool, error) {
	_, ok, err := v.record()
	return ok, err
}

// head reads the flags and the labels of a record. What follows is the own id, if
// the flags say so, and the properties.
func (r *reader) head() (flags byte, labels []uint64) {
	if len(r.b) == 0 {
		return 0, nil
	}
	flags = r.byte()
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		labels = append(labels, r.uvarint())
	}
	return flags, labels
}

// Labels returns the vertex's labels; none if it is not in the graph any more.
func (v *Vertex) Labels() ([]string, error) {
	raw, _, err := v.record()
	if err != nil {
		return nil, err
	}
	r := reader{b: raw}
	_, nums := r.head()
	if r.bad {
		return nil, corrupt("vertex", v.t.key(roomVertices, v.num))
	}
	out := make([]string, len(nums))
	for i, n := range nums {
		if out[i], err = v.t.textOf(n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// HasLabel reports whether the vertex has a label.
func (v *Vertex) HasLabel(label string) (bool, error) {
	raw, _, err := v.record()
	if err != nil {
		return false, err
	}
	n, err := v.t.numberOf(label)
	if n == 0 || err != nil {
		return false, err
	}
	r := reader{b: raw}
	_, nums := r.head()
	return slices.Contains(nums, n), nil
}

// vertexRecord is a record that is to be changed.
type vertexRecord struct {
	labels []uint64
	id     any // its own; nil: none
	next   uint64
	props  []vertexProp
}

type vertexProp struct {
	key, num uint64
	val      any
	metas    []prop
}

// prop is a property of an edge or of a vertex's property.
type prop struct {
	key uint64
	val any
}

func (v *Vertex) decode() (*vertexRecord, error) {
	raw, ok, err := v.record()
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, engine.Errorf(CodeNoElement, "the vertex %s has been removed", value.Text(v.lastID()))
	}
	r := reader{b: raw}
	flags, labels := r.head()
	rec := &vertexRecord{labels: labels}
	if flags&flagOwnID != 0 {
		rec.id = r.value(0)
	}
	rec.next = r.uvarint()
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		p := vertexProp{key: r.uvarint(), num: r.uvarint(), val: r.value(0)}
		p.metas = r.props()
		rec.props = append(rec.props, p)
	}
	if r.bad || len(r.b) != 0 {
		return nil, corrupt("vertex", v.t.key(roomVertices, v.num))
	}
	return rec, nil
}

// lastID is ElementID of a vertex that may be gone.
func (v *Vertex) lastID() any {
	if hasOwnID(v.num) && v.id == nil {
		return "with a name of its own"
	}
	return v.ElementID()
}

func (r *reader) props() (out []prop) {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		out = append(out, prop{r.uvarint(), r.value(0)})
	}
	return out
}

func appendProps(b []byte, props []prop) (_ []byte, err error) {
	b = binary.AppendUvarint(b, uint64(len(props)))
	for _, p := range props {
		if b, err = appendValue(binary.AppendUvarint(b, p.key), p.val, 0); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (rec *vertexRecord) encode() (b []byte, err error) {
	if len(rec.props) > MaxProperties {
		return nil, limit("a vertex has at most %d properties (MaxProperties)", MaxProperties)
	}
	flags := byte(0)
	if rec.id != nil {
		flags |= flagOwnID
	}
	b = binary.AppendUvarint(append(b, flags), uint64(len(rec.labels)))
	for _, l := range rec.labels {
		b = binary.AppendUvarint(b, l)
	}
	if rec.id != nil {
		if b, err = appendValue(b, rec.id, 0); err != nil {
			return nil, err
		}
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, rec.next), uint64(len(rec.props)))
	for _, p := range rec.props {
		if b, err = appendValue(binary.AppendUvarint(binary.AppendUvarint(b, p.key), p.num), p.val, 0); err != nil {
			return nil, err
		}
		if b, err = appendProps(b, p.metas); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// save stores a changed record and what the indexes have of it.
func (v *Vertex) save(before, after *vertexRecord) error {
	if err := v.t.reindexVertex(v, before, after); err != nil {
		return err
	}
	b, err := after.encode()
	if err != nil {
		return err
	}
	if err := v.t.put(v.t.key(roomVertices, v.num), b); err != nil {
		return err
	}
	v.raw, v.read = b, v.t.version
	return nil
}

// AddVertex adds a vertex with at least one label; none means DefaultLabel. id is
// its own id, a whole number, a string or a value.UUID, or nil: it gets a number.
// CodeExists: another vertex has it.
func (t *Tx) AddVertex(labels []string, id any) (*Vertex, error) {
	if len(labels) == 0 {
		labels = []string{DefaultLabel}
	}
	if len(labels) > MaxLabels {
		return nil, limit("a vertex has at most %d labels (MaxLabels)", MaxLabels)
	}
	rec := &vertexRecord{}
	for _, l := range labels {
		n, err := t.give(l)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(rec.labels, n) {
			rec.labels = append(rec.labels, n)
		}
	}
	v, err := t.newVertex(id, rec)
	if err != nil {
		return nil, err
	}
	return v, v.save(&vertexRecord{}, rec)
}

// newVertex returns a vertex with a number that no other one has.
func (t *Tx) newVertex(id any, rec *vertexRecord) (*Vertex, error) {
	c, err := t.counters()
	if err != nil {
		return nil, err
	}
	switch own, n, err := ownID(id); {
	case err != nil:
		return nil, err
	case id == nil:
		c.vertex, c.changed = c.vertex+1, true
		return &Vertex{t: t, num: c.vertex << 1}, nil
	case own == nil:
		v := &Vertex{t: t, num: uint64(n) << 1}
		if _, ok, err := t.tx.Get(t.key(roomVertices, v.num)); ok || err != nil {
			return nil, taken(err, "vertex", id)
		}
		if uint64(n) > c.vertex {
			c.vertex, c.changed = uint64(n), true
		}
		return v, nil
	default:
		c.vertex, c.changed = c.vertex+1, true
		v := &Vertex{t: t, num: c.vertex<<1 | 1, id: own}
		rec.id = own
		return v, t.nameElement(value.KindVertex, own, appendNumber(nil, v.num))
	}
}

func taken(err error, kind string, id any) error {
	if err != nil {
		return err
	}
	return engine.Errorf(CodeExists, "there is a %s with the id %s already", kind, value.Text(id))
}

// ownID returns an id as it is stored, or its number if that is what a vertex's
// number says.
func ownID(id any) (own any, n int64, err error) {
	switch x := id.(type) {
	case nil:
		return nil, 0, nil
	case string:
		if x == "" || len(x) > MaxIDBytes {
			return nil, 0, limit("an id has 1 to %d bytes (MaxIDBytes)", MaxIDBytes)
		}
		return x, 0, nil
	case value.UUID:
		return x, 0, nil
	}
	n, ok := value.Int(id)
	switch {
	case !ok:
		return nil, 0, engine.Errorf(CodeValue, "an id is a whole number of 64 bits, a string or a UUID, not %s", value.Describe(id))
	case n >= 0 && n < ownIDs:
		return nil, n, nil
	}
	return n, 0, nil
}

func (t *Tx) idKey(kind value.Kind, id any) ([]byte, error) {
	return appendValue(append(t.key(roomIDs), byte(kind)), id, 0)
}

// nameElement lets an element be found by an id of its own.
func (t *Tx) nameElement(kind value.Kind, id any, at []byte) error {
	key, err := t.idKey(kind, id)
	if err != nil {
		return err
	}
	if _, ok, err := t.tx.Get(key); ok || err != nil {
		return taken(err, map[value.Kind]string{value.KindVertex: "vertex", value.KindEdge: "edge"}[kind], id)
	}
	return t.put(key, at)
}

// Vertex returns the vertex with an id, and whether there is one. Text of digits
// also finds a vertex by its number.
func (t *Tx) Vertex(id any) (*Vertex, bool, error) {
	own, n, err := ownID(id)
	if err != nil {
		return nil, false, nil // no vertex has such an id
	}
	v := &Vertex{t: t, num: uint64(n) << 1}
	if own != nil {
		key, err := t.idKey(value.KindVertex, own)
		if err != nil {
			return nil, false, err
		}
		raw, ok, err := t.tx.Get(key)
		if err != nil {
			return nil, false, err
		}
		if !ok {
			return t.vertexOfText(own)
		}
		if v.num, raw, ok = number(raw); !ok || len(raw) != 0 {
			return nil, false, corrupt("id", key)
		}
		v.id = own
	}
	ok, err := v.Exists()
	return v, ok, err
}

func (t *Tx) vertexOfText(id any) (*Vertex, bool, error) {
	s, ok := id.(string)
	if !ok || strings.Trim(s, "0123456789") != "" || len(s) > 16 {
		return nil, false, nil
	}
	n := int64(0)
	for _, c := range s {
		n = n*10 + int64(c-'0')
	}
	if n >= ownIDs {
		return nil, false, nil
	}
	return t.Vertex(n)
}

// Vertices calls yield with all vertices that are there when it is called, until
// yield returns an error, which it returns. yield may write.
func (t *Tx) Vertices(yield func(*Vertex) error) error {
	lo, hi := within(t.key(roomVertices))
	if t.writes {
		c, err := t.counters()
		if err != nil {
			return err
		}
		hi = t.key(roomVertices, (c.vertex+1)<<1)
	}
	var found []Vertex
	take := func(p engine.Pair) error {
		var num [1]uint64
		if !numbers(p.Key, len(lo), num[:]) || len(p.Val) == 0 {
			return corrupt("vertex", p.Key)
		}
		if p.Val[0]&flagLeaving == 0 {
			found = append(found, Vertex{t: t, num: num[0], raw: t.keep(p.Val), read: t.version})
		}
		return nil
	}
	return t.pages(lo, hi, take, func() error {
		page := found
		found = nil // those of the page may be kept
		for i := range page {
			if t.writes && page[i].read != t.version {
				if ok, err := page[i].Exists(); err != nil || !ok {
					if err != nil {
						return err
					}
					continue
				}
			}
			if err := yield(&page[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
