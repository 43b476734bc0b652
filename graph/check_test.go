package graph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph/value"
)

// open returns the graphs on a new engine.
func open(tb testing.TB) *DB {
	tb.Helper()
	d, err := New(testengine.Open(tb, testengine.Options{Memory: true}))
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func mustUpdate(tb testing.TB, d *DB, name string, fn func(*Tx) error) {
	tb.Helper()
	if _, err := d.Update(tb.Context(), name, fn); err != nil {
		tb.Fatal(err)
	}
}

func mustView(tb testing.TB, d *DB, name string, fn func(*Tx) error) {
	tb.Helper()
	if _, err := d.View(tb.Context(), engine.Read{}, name, fn); err != nil {
		tb.Fatal(err)
	}
}

// wantCode fails the test unless err has a code.
func wantCode(tb testing.TB, what string, err error, code engine.Code) {
	tb.Helper()
	if engine.CodeOf(err) != code {
		tb.Errorf("%s: the error is %v, want %s", what, err, code)
	}
}

// mustCheck checks all graphs of an engine.
func mustCheck(tb testing.TB, d *DB) {
	tb.Helper()
	if err := check(context.Background(), d); err != nil {
		tb.Fatal(err)
	}
}

// check walks all keys of all graphs: every edge has both keys and both vertices,
// every entry of an index its element and the other way round, every id its element.
func check(ctx context.Context, d *DB) error {
	names, err := d.Names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := d.View(ctx, engine.Read{}, name, func(t *Tx) error {
			c := &checker{t: t, vertices: map[uint64]bool{}, halves: map[string]int{}, ids: map[string][]byte{}, entries: map[string]bool{}}
			return errors.Join(c.run()...)
		}); err != nil {
			return fmt.Errorf("graph %q: %w", name, err)
		}
	}
	return nil
}

type checker struct {
	t        *Tx
	all      []engine.Pair
	vertices map[uint64]bool   // and whether they are being removed
	halves   map[string]int    // of edges: 1 at the out vertex, 2 at the in vertex
	ids      map[string][]byte // keys that there must be, with their values
	entries  map[string]bool   // that there may be, and whether they must
	errs     []error
}

func (c *checker) errorf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func (c *checker) run() []error {
	lo, hi := within(c.t.prefix)
	for p, err := range c.t.tx.Scan(lo, hi) {
		if err != nil {
			return []error{err}
		}
		c.all = append(c.all, engine.Pair{Key: bytes.Clone(p.Key), Val: bytes.Clone(p.Val)})
	}
	counters, err := c.t.counters()
	if err != nil {
		return []error{err}
	}
	indexes, err := c.t.Indexes()
	if err != nil {
		return []error{err}
	}
	for _, p := range c.all {
		if p.Key[len(c.t.prefix)] == roomVertices {
			c.vertex(p, counters.vertex, indexes)
		}
	}
	for _, p := range c.all {
		switch p.Key[len(c.t.prefix)] {
		case roomOut:
			c.edge(p, counters.edge, indexes)
			c.half(p)
		case roomIn:
			c.half(p)
		}
	}
	c.schema()
	for half, has := range c.halves {
		if has != 3 {
			c.errorf("an edge %x has only half %d", half, has)
		}
	}
	for _, p := range c.all {
		c.rest(p, indexes)
	}
	for key := range c.ids {
		c.errorf("the key %q is missing", key)
	}
	for key, must := range c.entries {
		if must {
			c.errorf("the entry %q is missing", key)
		}
	}
	return c.errs
}

func (c *checker) vertex(p engine.Pair, most uint64, indexes []*Index) {
	var num [1]uint64
	if !numbers(p.Key, len(c.t.prefix)+1, num[:]) {
		c.errorf("the key %q is damaged", p.Key)
		return
	}
	v := &Vertex{t: c.t, num: num[0]}
	rec, err := v.parse(p.Val)
	if err != nil {
		c.errorf("%w", err)
		return
	}
	leaving := p.Val[0]&flagLeaving != 0
	c.vertices[v.num] = leaving
	if v.num>>1 > most {
		c.errorf("the vertex %d is beyond the counter %d", v.num, most)
	}
	if leaving {
		c.ids[string(c.t.key(roomLeaving, v.num))] = nil
	}
	if rec.id != nil {
		c.id(value.KindVertex, rec.id, v.num)
	}
	for _, l := range rec.labels {
		c.name(l)
	}
	seen := map[uint64]bool{}
	for _, q := range rec.props {
		c.name(q.key)
		if seen[q.num] || q.num >= rec.next {
			c.errorf("the vertex %d has two properties %d, or the next is %d", v.num, q.num, rec.next)
		}
		seen[q.num] = true
	}
	for _, ix := range indexes {
		if ix.On == value.KindVertex {
			c.expect(ix, rec.labels, rec.values, !leaving, v.num)
		}
	}
}

func (c *checker) id(kind value.Kind, id any, nums ...uint64) {
	key, err := c.t.idKey(kind, id)
	if err != nil {
		c.errorf("%w", err)
	}
	c.ids[string(key)] = withNumbers(nil, nums)
}

func (c *checker) name(n uint64) {
	if _, err := c.t.textOf(n); err != nil {
		c.errorf("%w", err)
	}
}

// expect notes what an index must have of an element.
func (c *checker) expect(ix *Index, labels []uint64, vals func(uint64) []any, must bool, nums ...uint64) {
	keys, err := ix.entries(c.t, labels, vals)
	if err != nil {
		c.errorf("%w", err)
	}
	for _, key := range keys {
		c.entries[string(withNumbers(key, nums))] = must && !ix.Filling
	}
}

func (c *checker) half(p engine.Pair) {
	var at [4]uint64
	if !numbers(p.Key, len(c.t.prefix)+1, at[:]) {
		c.errorf("the key %q is damaged", p.Key)
		return
	}
	half := 1
	if p.Key[len(c.t.prefix)] == roomIn {
		half = 2
		at[0], at[2] = at[2], at[0]
	}
	c.halves[string(withNumbers(nil, at[:]))] |= half
	for _, num := range []uint64{at[0], at[2]} {
		if _, ok := c.vertices[num]; !ok {
			c.errorf("the edge %d lacks its vertex %d", at, num)
		}
	}
}

func (c *checker) edge(p engine.Pair, most uint64, indexes []*Index) {
	var at [4]uint64
	if !numbers(p.Key, len(c.t.prefix)+1, at[:]) {
		return
	}
	e := &Edge{t: c.t, out: at[0], label: at[1], in: at[2], num: at[3]}
	rec, err := e.parseRecord(p.Val)
	if err != nil {
		c.errorf("%w", err)
		return
	}
	c.name(e.label)
	if e.num>>1 > most {
		c.errorf("the edge %d is beyond the counter %d", at, most)
	}
	if rec.id != nil {
		c.id(value.KindEdge, rec.id, at[:]...)
	}
	for _, ix := range indexes {
		if ix.On == value.KindEdge {
			c.expect(ix, []uint64{e.label}, rec.values, !c.vertices[e.out] && !c.vertices[e.in], at[:]...)
		}
	}
}

// schema checks that all elements are as the schema in force says.
func (c *checker) schema() {
	s, err := c.t.rulesNow()
	if s == nil || err != nil {
		c.errs = append(c.errs, err)
		return
	}
	if last, err := c.t.lastVersion(); err != nil || s.version > last {
		c.errorf("the version %d of the schema is beyond the last %d: %w", s.version, last, err)
	}
	is := checking{t: c.t, s: []*rules{s}}
	for _, p := range c.all {
		if room := p.Key[len(c.t.prefix)]; room == roomVertices || room == roomOut {
			if err := is.element(p); err != nil {
				c.errs = append(c.errs, err)
			}
		}
	}
}

// rest checks the keys that follow from others.
func (c *checker) rest(p engine.Pair, indexes []*Index) {
	at := len(c.t.prefix) + 1
	switch p.Key[at-1] {
	case roomVertices, roomOut, roomIn, roomCounters, roomIndexes, roomSchemas:
	case roomNames:
		if n, rest, ok := number(p.Val); !ok || len(rest) != 0 {
			c.errorf("the number of the name %q is damaged", p.Key[at:])
		} else if s, err := c.t.textOf(n); err != nil || s != string(p.Key[at:]) {
			c.errorf("the name %q has the number %d of %q: %v", p.Key[at:], n, s, err)
		}
	case roomNumbers:
		if n, err := c.t.numberOf(string(p.Val)); err != nil || !bytes.Equal(c.t.key(roomNumbers, n), p.Key) {
			c.errorf("the number of the name %q is %d: %v", p.Val, n, err)
		}
	case roomIDs, roomLeaving:
		if want, ok := c.ids[string(p.Key)]; !ok || !bytes.Equal(want, p.Val) {
			c.errorf("the key %q has no element, or another one", p.Key)
		}
		delete(c.ids, string(p.Key))
	case roomEntries, roomFills:
		num, _, _ := number(p.Key[at:])
		if _, next, _ := c.t.Schema(); num == 0 && next != nil && p.Key[at-1] == roomFills {
			return
		}
		for _, ix := range indexes {
			if ix.num != num {
				continue
			}
			if p.Key[at-1] == roomFills {
				if !ix.Filling {
					c.errorf("the index %d is filled, and has %q", num, p.Key)
				}
				return
			}
			if _, ok := c.entries[string(p.Key)]; !ok {
				c.errorf("the entry %q has no element", p.Key)
			}
			delete(c.entries, string(p.Key))
			return
		}
		for _, dropped := range c.t.dropped {
			if dropped == num {
				return
			}
		}
		c.errorf("the key %q has no index", p.Key)
	default:
		c.errorf("the key %q is in no room", p.Key)
	}
}
