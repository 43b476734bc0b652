package graph

import (
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// Edge is an edge of a transaction. It reads its record when it is asked for what
// is in it.
type Edge struct {
	t                   *Tx
	out, label, in, num uint64

	raw   []byte // the record
	known bool   // raw is what the graph had at version read
	read  uint64
	id    any // its own one; nil: not read
}

// Kind implements value.Stored.
func (e *Edge) Kind() value.Kind { return value.KindEdge }

// AppendHash implements value.Stored.
func (e *Edge) AppendHash(b []byte) []byte { return value.AppendHash(append(b, 'E'), e.ElementID()) }

// ElementID implements value.Element: a string, or the edge's own id; nil if the edge
// had an id of its own and was removed before it was read.
func (e *Edge) ElementID() any {
	if !hasOwnID(e.num) {
		b := strconv.AppendUint(make([]byte, 0, 32), e.num>>1, 36)
		for _, n := range []uint64{e.out, e.label, e.in} {
			b = strconv.AppendUint(append(b, '-'), n, 36)
		}
		return string(b)
	}
	if e.id == nil {
		raw, ok, err := e.record()
		e.t.note(err)
		if !ok || err != nil {
			return nil
		}
		r := reader{b: raw}
		flags := r.byte()
		if e.id = r.value(0); r.bad || flags&flagOwnID == 0 {
			e.t.note(corrupt("edge", e.key()))
		}
	}
	return e.id
}

// ElementLabel implements value.Element.
func (e *Edge) ElementLabel() string {
	s, err := e.t.textOf(e.label)
	e.t.note(err)
	return s
}

// Detached implements value.Stored.
func (e *Edge) Detached() value.Element {
	return &value.Edge{ID: e.ElementID(), Label: e.ElementLabel(), Out: e.Out().value(), In: e.In().value()}
}

// Out returns the vertex that the edge leaves.
func (e *Edge) Out() *Vertex { return &Vertex{t: e.t, num: e.out} }

// In returns the vertex that the edge enters.
func (e *Edge) In() *Vertex { return &Vertex{t: e.t, num: e.in} }

// Other returns the vertex at the other end than v.
func (e *Edge) Other(v *Vertex) *Vertex {
	if v.num == e.out {
		return e.In()
	}
	return e.Out()
}

func (e *Edge) key() []byte  { return e.t.key(roomOut, e.out, e.label, e.in, e.num) }
func (e *Edge) back() []byte { return e.t.key(roomIn, e.in, e.label, e.out, e.num) }

// record returns the edge's record, which may be empty, and whether it is in the
// graph.
func (e *Edge) record() (raw []byte, ok bool, err error) {
	if e.known && e.read == e.t.version {
		return e.raw, true, nil
	}
	if hides, err := e.t.hides(e.out, e.in); hides || err != nil {
		e.known = false
		return nil, false, err
	}
	return e.stored()
}

// stored returns the record also of an edge that is being removed.
func (e *Edge) stored() (raw []byte, ok bool, err error) {
	if e.raw, ok, err = e.t.get(e.key()); err != nil {
		return nil, false, err
	}
	e.known, e.read = ok, e.t.version
	return e.raw, ok, nil
}

// Exists reports whether the edge is in the graph.
func (e *Edge) Exists() (bool, error) {
	_, ok, err := e.record()
	return ok, err
}

type edgeRecord struct {
	id    any // its own; nil: none
	props []prop
}

func (e *Edge) decode() (*edgeRecord, error) {
	raw, ok, err := e.record()
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, engine.Errorf(CodeNoElement, "the edge has been removed")
	}
	return e.parseRecord(raw)
}

func (e *Edge) parseRecord(raw []byte) (*edgeRecord, error) {
	if len(raw) == 0 && !hasOwnID(e.num) {
		return &edgeRecord{}, nil
	}
	r, rec := reader{b: raw}, &edgeRecord{}
	if r.byte()&flagOwnID != 0 {
		rec.id = r.value(0)
	}
	rec.props = r.props()
	if r.bad || len(r.b) != 0 || (rec.id != nil) != hasOwnID(e.num) {
		return nil, corrupt("edge", e.key())
	}
	return rec, nil
}

func (rec *edgeRecord) encode() (b []byte, err error) {
	switch {
	case rec.id == nil && len(rec.props) == 0:
		return []byte{}, nil
	case rec.id == nil:
		return appendProps([]byte{0}, rec.props)
	}
	if b, err = appendValue([]byte{flagOwnID}, rec.id, 0); err != nil {
		return nil, err
	}
	return appendProps(b, rec.props)
}

func (e *Edge) save(before, after *edgeRecord) error {
	b, err := after.encode()
	if err != nil {
		return err
	}
	lacks, err := e.allow(after)
	if err != nil {
		return err
	}
	if err := e.t.reindexEdge(e, before, after); err != nil {
		return err
	}
	if err := e.t.put(e.key(), b); err != nil {
		return err
	}
	e.raw, e.known, e.read = b, true, e.t.version
	e.t.owe(lacks, value.KindEdge, e.out, e.label, e.in, e.num)
	return nil
}

// AddEdge adds an edge between two vertices of this transaction. id is its own id,
// as of AddVertex, or nil. CodeNoElement: one of the vertices is not in the graph.
func (t *Tx) AddEdge(label string, out, in *Vertex, id any) (*Edge, error) {
	for _, v := range []*Vertex{out, in} {
		if ok, err := v.Exists(); err != nil || !ok {
			if err != nil {
				return nil, err
			}
			return nil, engine.Errorf(CodeNoElement, "an edge %q needs the vertex %s, which is not in the graph", label, value.Text(v.lastID()))
		}
	}
	if err := t.allowEdge(label, out, in); err != nil {
		return nil, err
	}
	n, err := t.give(label)
	if err != nil {
		return nil, err
	}
	c, err := t.counters()
	if err != nil {
		return nil, err
	}
	rec := &edgeRecord{}
	if id != nil {
		if rec.id, err = edgeID(id); err != nil {
			return nil, err
		}
		if err := t.freeEdge(rec.id, c); err != nil {
			return nil, err
		}
	}
	if err := c.nextEdge(); err != nil {
		return nil, err
	}
	e := &Edge{t: t, out: out.num, label: n, in: in.num, num: c.edge << 1}
	if id != nil {
		e.num, e.id = e.num|1, rec.id
		at := []byte{}
		for _, n := range []uint64{e.out, e.label, e.in, e.num} {
			at = appendNumber(at, n)
		}
		if err := t.nameElement(value.KindEdge, rec.id, at); err != nil {
			return nil, err
		}
	}
	if err := e.save(&edgeRecord{}, rec); err != nil {
		return nil, err
	}
	return e, t.put(e.back(), nil)
}

// freeEdge returns CodeExists if an edge has an id that looks like those that edges
// are given. From then on none is given it: the counter passes it.
func (t *Tx) freeEdge(id any, c *counters) error {
	e := &Edge{t: t}
	if !e.parse(id) {
		return nil
	}
	if _, ok, err := e.stored(); ok || err != nil {
		if err != nil {
			return err
		}
		return taken("edge", id)
	}
	if n := e.num >> 1; n > c.edge {
		c.passEdge(n)
	}
	return nil
}

// edgeID returns an edge's own id as it is stored.
func edgeID(id any) (any, error) {
	own, n, err := ownID(id)
	if own == nil && err == nil {
		own = n
	}
	return own, err
}

// Edge returns the edge with an id, and whether there is one.
func (t *Tx) Edge(id any) (*Edge, bool, error) {
	own, _ := edgeID(id)
	if own == nil || id == nil {
		return nil, false, nil // no edge has such an id
	}
	key, err := t.idKey(value.KindEdge, own)
	if err != nil {
		return nil, false, err
	}
	raw, ok, err := t.tx.Get(key)
	if err != nil {
		return nil, false, err
	}
	e := &Edge{t: t}
	if ok {
		var at [4]uint64
		if !numbers(raw, 0, at[:]) {
			return nil, false, corrupt("id", key)
		}
		e.out, e.label, e.in, e.num, e.id = at[0], at[1], at[2], at[3], own
	} else if !e.parse(own) {
		return t.edgeOfText(own)
	}
	ok, err = e.Exists()
	return e, ok, err
}

// edgeOfText returns the edge whose own id is the number that text of digits says.
func (t *Tx) edgeOfText(id any) (*Edge, bool, error) {
	if s, ok := id.(string); ok {
		if n := digits(s); n >= 0 {
			return t.Edge(n)
		}
	}
	return nil, false, nil
}

// parse reads the text that ElementID returns.
func (e *Edge) parse(id any) bool {
	s, _ := id.(string)
	parts := strings.Split(s, "-")
	if len(parts) != 4 {
		return false
	}
	var at [4]uint64
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 36, 64)
		if err != nil || strconv.FormatUint(n, 36) != p {
			return false
		}
		at[i] = n
	}
	e.num, e.out, e.label, e.in = at[0]<<1, at[1], at[2], at[3]
	return at[0] < ownIDs // more are never given
}
