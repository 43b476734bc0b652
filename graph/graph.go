// Package graph keeps property graphs: vertices and edges with labels, properties
// and ids, and the indexes over them.
//
// It knows how elements lie on ordered keys and what must hold between them: an
// edge has both its vertices, and an index has what the elements have. It must not
// know Gremlin's steps, nor how drivers speak.
//
// All reads and writes are in transactions of the engine, so that a graph, records
// and keys change together. DESIGN.md has the layout and its reasons.
package graph

import (
	"context"
	"encoding/binary"

	"github.com/skerrydb/skerry/engine"
)

// Default is the name of the graph that is always there.
const Default = "g"

const defaultGraph = 1 // its number, which is stored: do not change it

// DB has the graphs of one engine. It is safe for concurrent use. It does not need
// to be closed and does not close the engine.
type DB struct {
	eng   engine.Engine
	batch int // how many bytes one transaction of a batch writes, at most

	parsed parsed
}

// Needs returns what graphs need of an engine.
func Needs() engine.Promises {
	return engine.Promises{Atomic: engine.AllKeys, Serializable: true, Ordered: true, Snapshot: true, MaxKeyBytes: maxKeyBytes}
}

// New returns the graphs on eng. If eng lacks a promise that they need, the error
// matches engine.ErrUnsupported and names the promise.
func New(eng engine.Engine) (*DB, error) {
	if err := eng.Promises().Meets("graphs", Needs()); err != nil {
		return nil, err
	}
	most := eng.Promises().MaxTxBytes
	if most == 0 {
		most = leastTxBytes
	}
	return &DB{eng: eng, batch: min(most/4, batchBytes)}, nil
}

// View runs fn on one snapshot of the graph with a name, as engine.Engine's View
// does. A name without a graph is CodeNoGraph.
func (d *DB) View(ctx context.Context, r engine.Read, name string, fn func(*Tx) error) (engine.Position, error) {
	return d.eng.View(ctx, r, func(tx engine.Tx) error {
		t, err := Begin(tx, name, false)
		if err != nil {
			return err
		}
		t.parsed = &d.parsed
		return t.end(fn(t))
	})
}

// Update runs fn in a transaction on the graph with a name, as engine.Engine's
// Update does: fn may run more than once.
func (d *DB) Update(ctx context.Context, name string, fn func(*Tx) error) (engine.Position, error) {
	return d.eng.Update(ctx, func(tx engine.Tx) error {
		t, err := Begin(tx, name, true)
		if err != nil {
			return err
		}
		t.parsed = &d.parsed
		return t.end(fn(t))
	})
}

// Tx is a graph within one transaction of the engine. It is valid as long as that,
// and only in its goroutine. So are the elements that it returns. A transaction of
// the engine must not have two Tx of the same graph: each has counters of its own.
//
// A call that fails writes nothing, or the transaction fails: End returns the
// error of a write that the engine refused, so that no half of a change is committed.
type Tx struct {
	tx     engine.Tx
	writes bool
	prefix []byte // of the graph's keys

	version uint64 // of what elements have read: the number of writes so far
	written int    // bytes
	names   names
	apart   *apart              // where names are looked up and given; nil: in tx
	next    *counters           // nil: not read yet
	indexes []*Index            // nil: not read yet
	dropped []uint64            // numbers of indexes that are being removed; read with indexes
	stored  [2][]byte           // the schema in force and the next one; read with indexes
	schemas []*rules            // what they say; nil: not parsed yet
	parsed  *parsed             // of the DB; nil: the transaction was not begun by one
	owing   map[owed]struct{}   // elements that lacked what a schema requires
	leaving map[uint64]struct{} // vertices that are being removed; nil: not read yet
	added   map[uint64]uint64   // vertices that were added with a number below the counter, and at which version
	ends    []hop               // for Neighbours; in use while a page is read
	fail    error               // of a write, or of a read that had no way to return it
}

// Begin returns the graph with a name within tx, in which fn of Update or View
// runs. writes: something may write in tx, to the graph or to other keys, so that what
// is read must be copied. Whoever calls Begin calls End last.
func Begin(tx engine.Tx, name string, writes bool) (*Tx, error) {
	num, err := graphNumber(tx, name)
	if err != nil {
		return nil, err
	}
	return begin(tx, num, writes), nil
}

func begin(tx engine.Tx, num uint64, writes bool) *Tx {
	return &Tx{tx: tx, writes: writes, prefix: graphPrefix(num), names: names{numbers: map[string]uint64{}, texts: map[uint64]string{}}}
}

// End writes what the transaction has to write last. It returns the error of a write
// that failed, or of a read that a method of an element could not return, or that of
// Complete: not in a transaction of a Lasting, which lasts longer.
func (t *Tx) End() error { return t.end(nil) }

func (t *Tx) end(err error) error {
	switch {
	case err != nil:
		return err
	case t.fail != nil:
		return t.fail
	}
	if t.apart == nil {
		if err := t.Complete(); err != nil {
			return err
		}
	}
	switch {
	case t.next == nil || !t.next.changed && t.next.passed == (passed{}):
		return nil
	case t.next.own != nil:
		return t.endReserved()
	}
	return t.putCounters()
}

func (t *Tx) putCounters() error {
	t.next.changed = false
	return t.put(t.key(roomCounters), binary.AppendUvarint(binary.AppendUvarint(nil, t.next.vertex), t.next.edge))
}

// Err returns the first error of a write, or of a read that a method of an element
// could not return. End would return it.
func (t *Tx) Err() error { return t.fail }

// Writes reports whether the transaction may write.
func (t *Tx) Writes() bool { return t.writes }

// Engine returns the transaction of the engine.
func (t *Tx) Engine() engine.Tx { return t.tx }

func (t *Tx) put(key, val []byte) error {
	t.version++
	t.written += len(key) + len(val)
	err := t.tx.Put(key, val)
	t.note(err)
	return err
}

func (t *Tx) delete(key []byte) error {
	t.version++
	t.written += len(key)
	err := t.tx.Delete(key)
	t.note(err)
	return err
}

// note keeps an error for End.
func (t *Tx) note(err error) {
	if t.fail == nil {
		t.fail = err
	}
}

// get returns the value of key. In an Update it is a copy, since writes follow.
func (t *Tx) get(key []byte) ([]byte, bool, error) {
	raw, ok, err := t.tx.Get(key)
	return t.keep(raw), ok, err
}

func (t *Tx) keep(raw []byte) []byte {
	if t.writes && len(raw) > 0 {
		return append([]byte{}, raw...)
	}
	return raw
}

// counters are the numbers that were given last.
type counters struct {
	vertex, edge uint64
	changed      bool
	own          *Lasting // those that are given; nil: all that follow
	passed       passed   // with own
}

// passed are numbers that the stored counters must not be below.
type passed struct{ vertex, edge uint64 }

func (t *Tx) counters() (*counters, error) {
	if t.next != nil {
		return t.next, nil
	}
	key := t.key(roomCounters)
	raw, ok, err := t.tx.Get(key)
	if err != nil {
		return nil, err
	}
	c := &counters{}
	if ok {
		r := reader{b: raw}
		c.vertex, c.edge = r.uvarint(), r.uvarint()
		if r.bad || len(r.b) != 0 {
			return nil, corrupt("counters", key)
		}
	}
	t.next = c
	return c, nil
}

// moment is a state of the transaction. What is added later is not among the
// elements that a scan finds.
type moment struct {
	vertex, edge             uint64 // the counters
	beyondVertex, beyondEdge uint64 // numbers above are not the counters', but of ids
	version                  uint64
}

// now returns the state of the transaction.
func (t *Tx) now() (moment, error) {
	if !t.writes {
		const all = ^uint64(0)
		return moment{all, all, all, all, all}, nil
	}
	c, err := t.counters()
	if err != nil {
		return moment{}, err
	}
	m := moment{c.vertex, c.edge, ^uint64(0), ^uint64(0), t.version}
	if c.own != nil {
		m.beyondVertex, m.beyondEdge = c.own.lastVertex, c.own.lastEdge
	}
	return m, nil
}

// hasVertex reports whether a vertex that is there now was there at the moment.
func (t *Tx) hasVertex(m moment, num uint64) bool {
	n := num >> 1
	return (n <= m.vertex || n > m.beyondVertex) && t.added[num] <= m.version
}

// hasEdge reports the same of an edge, whose numbers only rise.
func (m moment) hasEdge(num uint64) bool {
	n := num >> 1
	return n <= m.edge || n > m.beyondEdge
}

// page collects the pairs of a scan until it has n of them, or maxPageBytes, and
// returns whether there may be more after the last. take copies what it needs: it must not write.
func (t *Tx) page(lo, hi []byte, n int, take func(p engine.Pair) error) (last []byte, more bool, err error) {
	s := &pageState{left: n} // in one piece, since a scan's body is a closure
	for p, err := range t.tx.Scan(lo, hi) {
		if err == nil {
			err = take(p)
		}
		if err != nil {
			s.err = err
			break
		}
		s.size += len(p.Val)
		if s.left--; s.left == 0 || s.size >= maxPageBytes {
			s.last = append(append(make([]byte, 0, len(p.Key)+1), p.Key...), 0)
			break
		}
	}
	return s.last, s.last != nil, s.err
}

type pageState struct {
	left, size int
	last       []byte
	err        error
}

// pages calls page until the end of a range, and after each of them flush, which
// may write.
func (t *Tx) pages(lo, hi []byte, take func(p engine.Pair) error, flush func() error) error {
	for n, more := firstPage, true; more; n = min(2*n, maxPage) {
		var err error
		if lo, more, err = t.page(lo, hi, n, take); err != nil {
			return err
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}
