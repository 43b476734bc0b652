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

// ElementID implements value.Element: an int64, a string or a value.UUID; nil if the
// vertex had an id of its own and was removed before it was read.
func (v *Vertex) ElementID() any {
	if !hasOwnID(v.num) {
		return int64(v.num >> 1)
	}
	if v.id == nil {
		raw, ok, err := v.record()
		v.t.note(err)
		if !ok || err != nil {
			return nil
		}
		r := reader{b: raw}
		flags, _ := r.head()
		if v.id = r.value(0); r.bad || flags&flagOwnID == 0 {
			v.t.note(v.damaged())
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

func (v *Vertex) key() []byte { return v.t.key(roomVertices, v.num) }

func (v *Vertex) damaged() error { return corrupt("vertex", v.key()) }

// stored returns the vertex's record, also of one that is being removed, and whether
// there is one.
func (v *Vertex) stored() ([]byte, bool, error) {
	raw, ok, err := v.t.get(v.key())
	if ok && len(raw) == 0 {
		return nil, false, v.damaged()
	}
	return raw, ok, err
}

// record returns the vertex's record, and whether there is one.
func (v *Vertex) record() ([]byte, bool, error) {
	if v.raw != nil && v.read == v.t.version {
		return v.raw, len(v.raw) > 0, nil
	}
	raw, ok, err := v.stored()
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
		return nil, v.damaged()
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
	if len(raw) == 0 {
		return false, nil
	}
	r.byte()
	has := false
	for m := r.uvarint(); m > 0 && !r.bad; m-- {
		has = r.uvarint() == n || has
	}
	if r.bad {
		return false, v.damaged()
	}
	return has, nil
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
	return v.parse(raw)
}

// parse reads a record that is not empty.
func (v *Vertex) parse(raw []byte) (*vertexRecord, error) {
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
	if r.bad || len(r.b) != 0 || (rec.id != nil) != hasOwnID(v.num) {
		return nil, v.damaged()
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
	if len(props) > MaxProperties {
		return nil, limit("an element or a property has at most %d properties (MaxProperties)", MaxProperties)
	}
	b = binary.AppendUvarint(b, uint64(len(props)))
	for _, p := range props {
		if b, err = appendProperty(binary.AppendUvarint(b, p.key), p.val); err != nil {
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
		if b, err = appendProperty(binary.AppendUvarint(binary.AppendUvarint(b, p.key), p.num), p.val); err != nil {
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
	b, err := after.encode()
	if err != nil {
		return err
	}
	lacks, err := v.allow(after)
	if err != nil {
		return err
	}
	if err := v.t.reindexVertex(v, before, after); err != nil {
		return err
	}
	if err := v.t.put(v.key(), b); err != nil {
		return err
	}
	v.raw, v.read = b, v.t.version
	v.t.owe(lacks, value.KindVertex, v.num)
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
	if err := t.allowVertex(rec); err != nil {
		return nil, err
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
	own, n, err := ownID(id)
	switch {
	case err != nil:
		return nil, err
	case id == nil:
		num, err := t.nextVertex(c)
		return &Vertex{t: t, num: num}, err
	case own == nil:
		v := &Vertex{t: t, num: uint64(n) << 1}
		if err := v.free(id); err != nil {
			return nil, err
		}
		if uint64(n) > c.vertex {
			if c.passVertex(uint64(n)); c.vertex == uint64(n) {
				return v, nil
			}
		}
		if t.added == nil {
			t.added = map[uint64]uint64{}
		}
		t.added[v.num] = t.version + 1
		return v, nil
	}
	if n >= ownIDs {
		if err := (&Vertex{t: t, num: uint64(n) << 1}).free(id); err != nil {
			return nil, err
		}
	}
	if err := c.nextVertex(); err != nil {
		return nil, err
	}
	v := &Vertex{t: t, num: c.vertex<<1 | 1, id: own}
	rec.id = own
	return v, t.nameElement(value.KindVertex, own, appendNumber(nil, v.num))
}

// nextVertex returns the next number of a vertex without an id of its own. From
// ownIDs on, another one may have it as such an id.
func (t *Tx) nextVertex(c *counters) (uint64, error) {
	for {
		if err := c.nextVertex(); err != nil {
			return 0, err
		}
		if c.own != nil { // reserved numbers may be ids of elements that came later
			if _, ok, err := t.tx.Get(t.key(roomVertices, c.vertex<<1)); err != nil {
				return 0, err
			} else if ok {
				continue
			}
		}
		if c.vertex < ownIDs {
			return c.vertex << 1, nil
		}
		key, err := t.idKey(value.KindVertex, int64(c.vertex))
		if err != nil {
			return 0, err
		}
		if _, ok, err := t.tx.Get(key); !ok || err != nil {
			return c.vertex << 1, err
		}
	}
}

// free returns CodeExists if there is a vertex with v's number, which id says.
func (v *Vertex) free(id any) error {
	raw, ok, err := v.stored()
	switch {
	case err != nil || !ok:
		return err
	case raw[0]&flagLeaving != 0:
		return engine.Errorf(CodeExists, "the vertex with the id %s is still being removed", value.Text(id))
	}
	return taken("vertex", id)
}

func taken(kind string, id any) error {
	return engine.Errorf(CodeExists, "there is a %s with the id %s already", kind, value.Text(id))
}

// ownID returns an id as it is stored, or nil if a vertex's number says it. n is the
// id if that is a whole number.
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
	return n, n, nil
}

// possibleID returns the same, and whether an element can have the id.
func possibleID(id any) (own any, n int64, ok bool) {
	own, n, err := ownID(id)
	return own, n, err == nil && id != nil
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
	switch _, ok, err := t.tx.Get(key); {
	case err != nil:
		return err
	case ok && kind == value.KindEdge:
		return taken("edge", id)
	case ok:
		return taken("vertex", id)
	}
	return t.put(key, at)
}

// Vertex returns the vertex with an id, and whether there is one. Text of digits
// also finds a vertex by its number.
func (t *Tx) Vertex(id any) (*Vertex, bool, error) {
	v, err := t.find(id)
	if v == nil || err != nil {
		return nil, false, err
	}
	ok, err := v.Exists()
	return v, ok, err
}

// find returns the vertex that has an id, if one has; nil: none.
func (t *Tx) find(id any) (*Vertex, error) {
	own, n, ok := possibleID(id)
	switch {
	case !ok: // no vertex has such an id
		return nil, nil
	case own == nil:
		return &Vertex{t: t, num: uint64(n) << 1}, nil
	}
	key, err := t.idKey(value.KindVertex, own)
	if err != nil {
		return nil, err
	}
	raw, ok, err := t.tx.Get(key)
	if err != nil {
		return nil, err
	}
	if !ok {
		switch x := own.(type) {
		case string:
			n = digits(x)
		case value.UUID:
			n = -1
		}
		if n < 0 {
			return nil, nil
		}
		return &Vertex{t: t, num: uint64(n) << 1}, nil
	}
	num, rest, ok := number(raw)
	if !ok || len(rest) != 0 || !hasOwnID(num) {
		return nil, corrupt("id", key)
	}
	return &Vertex{t: t, num: num, id: own}, nil
}

// digits returns the number that text has in its only decimal form; -1: none.
func digits(s string) (n int64) {
	if s[0] == '0' && s != "0" || strings.Trim(s, "0123456789") != "" || len(s) > 18 {
		return -1
	}
	for _, c := range s {
		n = n*10 + int64(c-'0')
	}
	return n
}

// Vertices calls yield with all vertices that are there when it is called, until
// yield returns an error, which it returns. yield may write.
func (t *Tx) Vertices(yield func(*Vertex) error) error {
	start, err := t.now()
	if err != nil {
		return err
	}
	lo, hi := within(t.key(roomVertices))
	if t.writes && t.apart == nil { // reserved numbers may be below others
		hi = t.key(roomVertices, (start.vertex+1)<<1)
	}
	skip := len(lo)
	var page []Vertex
	take := func(p engine.Pair) error {
		num, rest, ok := number(p.Key[skip:])
		if !ok || len(rest) != 0 || len(p.Val) == 0 {
			return corrupt("vertex", p.Key)
		}
		if p.Val[0]&flagLeaving == 0 {
			page = append(page, Vertex{t: t, num: num, raw: t.keep(p.Val), read: t.version})
		}
		return nil
	}
	return t.pages(lo, hi, take, func() error {
		found := page
		page = make([]Vertex, 0, min(2*len(found), maxPage)) // those that were yielded may be kept
		for i := range found {
			v := &found[i]
			if t.writes {
				if ok, err := v.Exists(); err != nil || !ok || !t.hasVertex(start, v.num) {
					if err != nil {
						return err
					}
					continue
				}
			}
			if err := yield(v); err != nil {
				return err
			}
		}
		return nil
	})
}
