package graph

import (
	"slices"
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

// ElementID implements value.Element: a string, or the edge's own id.
func (e *Edge) ElementID() any {
	if !hasOwnID(e.num) {
		b := strconv.AppendUint(make([]byte, 0, 32), e.num>>1, 36)
		for _, n := range []uint64{e.out, e.label, e.in} {
			b = strconv.AppendUint(append(b, '-'), n, 36)
		}
		return string(b)
	}
	if e.id == nil {
		raw, _, err := e.record()
		e.t.note(err)
		if r := (reader{b: raw}); len(raw) > 0 {
			r.byte()
			e.id = r.value(0)
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
	case len(raw) == 0:
		return &edgeRecord{}, nil
	}
	r, rec := reader{b: raw}, &edgeRecord{}
	if r.byte()&flagOwnID != 0 {
		rec.id = r.value(0)
	}
	rec.props = r.props()
	if r.bad || len(r.b) != 0 {
		return nil, corrupt("edge", e.key())
	}
	return rec, nil
}

func (rec *edgeRecord) encode() (b []byte, err error) {
	switch {
	case len(rec.props) > MaxProperties:
		return nil, limit("an edge has at most %d properties (MaxProperties)", MaxProperties)
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
	if err := e.t.reindexEdge(e, before, after); err != nil {
		return err
	}
	b, err := after.encode()
	if err != nil {
		return err
	}
	if err := e.t.put(e.key(), b); err != nil {
		return err
	}
	e.raw, e.known, e.read = b, true, e.t.version
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
	n, err := t.give(label)
	if err != nil {
		return nil, err
	}
	c, err := t.counters()
	if err != nil {
		return nil, err
	}
	c.edge, c.changed = c.edge+1, true
	e, rec := &Edge{t: t, out: out.num, label: n, in: in.num, num: c.edge << 1}, &edgeRecord{}
	if id != nil {
		if rec.id, err = edgeID(id); err != nil {
			return nil, err
		}
		if _, ok, err := t.Edge(id); ok || err != nil {
			return nil, taken(err, "edge", id)
		}
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
	own, err := edgeID(id)
	if err != nil || own == nil {
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
		return nil, false, nil
	}
	ok, err = e.Exists()
	return e, ok, err
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
	return at[0] < 1<<62
}

// Direction says which edges of a vertex are meant.
type Direction byte

// The directions.
const (
	Out  Direction = 1
	In   Direction = 2
	Both Direction = Out | In
)

// Edges calls yield with the edges of v in a direction that have one of the labels,
// or any if there are none, until yield returns an error, which it returns. For
// Both, those that leave v come first, and an edge from v to itself twice. yield
// may write; edges that it adds are not among those yielded.
func (t *Tx) Edges(v *Vertex, dir Direction, labels []string, yield func(*Edge) error) error {
	nums, err := t.numbersOf(labels)
	if err != nil || len(labels) > 0 && len(nums) == 0 {
		return err
	}
	slices.Sort(nums)
	nums = slices.Compact(nums)
	for _, d := range []Direction{Out, In} {
		if dir&d == 0 {
			continue
		}
		prefixes := [][]byte{t.key(map[Direction]byte{Out: roomOut, In: roomIn}[d], v.num)}
		if len(nums) > 0 {
			at := prefixes[0]
			prefixes = prefixes[:0]
			for _, n := range nums {
				prefixes = append(prefixes, appendNumber(slices.Clone(at), n))
			}
		}
		for _, p := range prefixes {
			if err := t.edges(d, p, yield); err != nil {
				return err
			}
		}
	}
	return nil
}

// AllEdges calls yield with all edges of the graph, as Edges does.
func (t *Tx) AllEdges(yield func(*Edge) error) error { return t.edges(Out, t.key(roomOut), yield) }

// EdgesBetween calls yield with the edges from one vertex to another, as Edges does.
func (t *Tx) EdgesBetween(out *Vertex, label string, in *Vertex, yield func(*Edge) error) error {
	n, err := t.numberOf(label)
	if n == 0 || err != nil {
		return err
	}
	return t.edges(Out, t.key(roomOut, out.num, n, in.num), yield)
}

func (t *Tx) edges(d Direction, prefix []byte, yield func(*Edge) error) error {
	newest := ^uint64(0)
	if t.writes {
		c, err := t.counters()
		if err != nil {
			return err
		}
		newest = c.edge
	}
	lo, hi := within(prefix)
	var found []Edge
	take := func(p engine.Pair) error {
		var at [4]uint64
		if !numbers(p.Key, len(t.prefix)+1, at[:]) {
			return corrupt("edge", p.Key)
		}
		e := Edge{t: t, out: at[0], label: at[1], in: at[2], num: at[3]}
		if d == In {
			e.out, e.in = e.in, e.out
		} else {
			e.raw, e.known, e.read = t.keep(p.Val), true, t.version
		}
		if e.num>>1 <= newest {
			found = append(found, e)
		}
		return nil
	}
	return t.pages(lo, hi, take, func() error {
		page := found
		found = nil // those of the page may be kept
		before := t.version
		for i := range page {
			if t.version != before {
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

// Neighbours calls yield with the vertex at the other end of each of the edges
// that Edges yields.
func (t *Tx) Neighbours(v *Vertex, dir Direction, labels []string, yield func(*Vertex) error) error {
	return t.Edges(v, dir, labels, func(e *Edge) error {
		far := e.in
		if dir == In || dir == Both && e.out != v.num {
			far = e.out
		}
		return yield(&Vertex{t: t, num: far})
	})
}
