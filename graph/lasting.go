package graph

import (
	"context"
	"errors"

	"github.com/skerrydb/skerry/engine"
)

// ErrNumbers: all numbers that a Lasting has reserved are given. Nothing was added.
var ErrNumbers = errors.New("graph: the reserved numbers are used up")

// MaxReserved bounds for how many vertices, and edges, Reserve reserves numbers.
const MaxReserved = 1 << 20

// Lasting is what a transaction over several calls has of a graph besides its
// snapshot: names, and numbers for what it adds. They are given in transactions of
// their own, so that it does not conflict with others that add elements or names. It
// is for one call at a time.
type Lasting struct {
	d     *DB
	graph uint64 // its number
	names names

	vertex, edge         uint64 // the numbers that were given last
	lastVertex, lastEdge uint64

	owing map[owed]struct{} // of all calls, also of those that were undone
}

// Lasting returns what a transaction over several calls needs for the graph with a
// name. Its snapshot must be older: call it when the transaction has begun.
func (d *DB) Lasting(ctx context.Context, name string) (*Lasting, error) {
	l := &Lasting{d: d, names: names{numbers: map[string]uint64{}, texts: map[uint64]string{}}, owing: map[owed]struct{}{}}
	_, err := d.eng.View(ctx, engine.Read{}, func(tx engine.Tx) (err error) {
		l.graph, err = graphNumber(tx, name)
		return err
	})
	return l, err
}

// Reserve reserves numbers for n more vertices and n more edges. Those that are not
// used, or are left of the last ones, stay free for ever.
func (l *Lasting) Reserve(ctx context.Context, n uint64) error {
	if n == 0 || n > MaxReserved {
		return engine.Errorf(engine.CodeLimit, "numbers are reserved for 1 to %d elements (MaxReserved)", MaxReserved)
	}
	return l.update(ctx, func(t *Tx) error {
		c, err := t.counters()
		if err != nil {
			return err
		}
		l.vertex, l.edge, l.lastVertex, l.lastEdge = c.vertex, c.edge, c.vertex+n, c.edge+n
		c.vertex, c.edge, c.changed = l.lastVertex, l.lastEdge, true
		return nil
	})
}

func (l *Lasting) update(ctx context.Context, fn func(*Tx) error) error {
	_, err := l.d.eng.Update(ctx, func(tx engine.Tx) error {
		t := begin(tx, l.graph, true)
		return t.end(fn(t))
	})
	return err
}

func (l *Lasting) view(ctx context.Context, fn func(*Tx) error) error {
	_, err := l.d.eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		t := begin(tx, l.graph, false)
		return t.end(fn(t))
	})
	return err
}

// Begin is Begin of a call of the transaction. ctx is that of the call.
func (l *Lasting) Begin(ctx context.Context, tx engine.Tx, writes bool) *Tx {
	t := begin(tx, l.graph, writes)
	t.names, t.apart, t.owing, t.parsed = l.names, &apart{ctx, l}, l.owing, &l.d.parsed
	t.next = &counters{vertex: l.vertex, edge: l.edge, own: l}
	return t
}

// Incomplete reports whether Complete may fail.
func (l *Lasting) Incomplete() bool { return len(l.owing) > 0 }

// Complete returns CodeSchema if an element that the transaction has written lacks a
// property that the schema requires. It must be called before the commit, in the transaction.
func (l *Lasting) Complete(ctx context.Context, tx engine.Tx) error {
	return l.Begin(ctx, tx, false).Complete()
}

// apart looks names up, and gives them, in other transactions than that of a Tx.
type apart struct {
	ctx context.Context
	l   *Lasting
}

func (a *apart) numberOf(name string) (n uint64, err error) {
	err = a.l.view(a.ctx, func(t *Tx) (err error) {
		n, err = t.numberOf(name)
		return err
	})
	return n, err
}

func (a *apart) give(name string) (n uint64, err error) {
	err = a.l.update(a.ctx, func(t *Tx) (err error) {
		n, err = t.give(name)
		return err
	})
	return n, err
}

func (a *apart) textOf(n uint64) (s string, err error) {
	err = a.l.view(a.ctx, func(t *Tx) (err error) {
		s, err = t.textOf(n)
		return err
	})
	return s, err
}

// nextVertex and nextEdge give the next number.
func (c *counters) nextVertex() error {
	if c.own != nil && c.vertex >= c.own.lastVertex {
		return ErrNumbers
	}
	c.vertex, c.changed = c.vertex+1, true
	return nil
}

func (c *counters) nextEdge() error {
	if c.own != nil && c.edge >= c.own.lastEdge {
		return ErrNumbers
	}
	c.edge, c.changed = c.edge+1, true
	return nil
}

// passVertex and passEdge make the counter pass a number that an id of its own says.
func (c *counters) passVertex(n uint64) {
	if c.own == nil || n <= c.own.lastVertex {
		c.vertex, c.changed = max(c.vertex, n), true
		return
	}
	c.passed.vertex = max(c.passed.vertex, n)
}

func (c *counters) passEdge(n uint64) {
	if c.own == nil || n <= c.own.lastEdge {
		c.edge, c.changed = max(c.edge, n), true
		return
	}
	c.passed.edge = max(c.passed.edge, n)
}

// endReserved keeps which numbers were given, and raises the stored counters if they
// must pass a number: in a transaction of its own, which does no harm if this one is
// not committed.
func (t *Tx) endReserved() error {
	c := t.next
	c.own.vertex, c.own.edge = c.vertex, c.edge
	if c.passed == (passed{}) {
		return nil
	}
	return c.own.update(t.apart.ctx, func(t *Tx) error {
		stored, err := t.counters()
		if err == nil {
			stored.passVertex(c.passed.vertex)
			stored.passEdge(c.passed.edge)
		}
		return err
	})
}
