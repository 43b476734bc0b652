package graph

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/skerrydb/skerry/engine"
)

// Schema returns the graph's schema, and the one that is being declared; nil: none.
func (d *DB) Schema(ctx context.Context, graph string) (now, next *Schema, err error) {
	_, err = d.View(ctx, engine.Read{}, graph, func(t *Tx) (err error) {
		now, next, err = t.Schema()
		return err
	})
	return now, next, err
}

// Schema returns the graph's schema, and the one that is being declared; nil: none.
func (t *Tx) Schema() (now, next *Schema, err error) {
	inForce, err := t.rulesNow()
	if err != nil {
		return nil, nil, err
	}
	declared, err := t.rulesNext()
	if err != nil {
		return nil, nil, err
	}
	if now, err = t.schema(inForce); err != nil {
		return nil, nil, err
	}
	next, err = t.schema(declared)
	return now, next, err
}

// SetSchema replaces the schema of a graph. Writes must obey the new one at once, and
// also the old one until all elements have been checked, in batches. Then the new
// one alone is in force. A schema that declares nothing removes the others at once.
//
// CodeSchema: an element, which the error names, is not as the schema says, or the
// version is not the one to be replaced; the old schema stays. If SetSchema is
// interrupted, writes must obey both schemas until a call with the same schema has
// checked the rest, or one with another schema replaces it.
func (d *DB) SetSchema(ctx context.Context, graph string, s Schema) error {
	want, err := s.normal()
	if err != nil {
		return err
	}
	var version uint64
	if _, err := d.Update(ctx, graph, func(t *Tx) error {
		version, err = t.declare(want)
		return err
	}); err != nil || version == 0 {
		return err
	}
	err = d.batches(ctx, graph, func(t *Tx) (bool, error) { return t.checkSome(version, d.batch) })
	if errors.Is(err, &engine.Error{Code: CodeSchema}) {
		return errors.Join(err, d.withdraw(ctx, graph, version))
	}
	return err
}

// declare stores a schema as the next one and returns its version; 0: nothing is left
// to be done.
func (t *Tx) declare(want *Schema) (version uint64, err error) {
	now, err := t.rulesNow()
	if err != nil {
		return 0, err
	}
	next, err := t.rulesNext()
	if err != nil {
		return 0, err
	}
	if want.Version != 0 && (now == nil || now.version != want.Version) {
		return 0, engine.Errorf(CodeSchema, "the schema of version %d is not in force, so it cannot be replaced", want.Version)
	}
	if want.isOpen() {
		if now != nil {
			if err := t.deleteRules(schemaInForce); err != nil {
				return 0, err
			}
		}
		return 0, t.dropNext(next)
	}
	s, err := t.compile(want)
	if err != nil {
		return 0, err
	}
	body := s.append(nil)
	switch {
	case now != nil && bytes.Equal(now.append(nil), body):
		return 0, t.dropNext(next)
	case next != nil && bytes.Equal(next.append(nil), body): // since an earlier call was interrupted
		return next.version, nil
	}
	if err := t.dropNext(next); err != nil {
		return 0, err
	}
	if s.version, err = t.lastVersion(); err != nil {
		return 0, err
	}
	s.version++
	if err := t.putLastVersion(s.version); err != nil {
		return 0, err
	}
	return s.version, t.putRules(schemaNext, s)
}

// lastVersion returns the version that a schema was given last; 0: none was.
func (t *Tx) lastVersion() (n uint64, err error) {
	key := t.key(roomSchemas)
	raw, ok, err := t.tx.Get(key)
	if err != nil {
		return 0, err
	}
	if ok {
		r := reader{b: raw}
		if n = r.uvarint(); r.bad || len(r.b) != 0 || n == 0 {
			return 0, corrupt("version of the schema", key)
		}
	}
	return n, nil
}

func (t *Tx) putLastVersion(n uint64) error {
	return t.put(t.key(roomSchemas), binary.AppendUvarint(nil, n))
}

// dropNext removes the next schema, if there is one.
func (t *Tx) dropNext(next *rules) error {
	if next == nil {
		return nil
	}
	if err := t.deleteRules(schemaNext); err != nil {
		return err
	}
	return t.delete(t.key(roomFills, 0))
}

// withdraw removes the next schema, if it has the version.
func (d *DB) withdraw(ctx context.Context, graph string, version uint64) error {
	_, err := d.Update(ctx, graph, func(t *Tx) error {
		next, err := t.rulesNext()
		if err != nil || next == nil || next.version != version {
			return err
		}
		return t.dropNext(next)
	})
	return err
}

// checkSome compares some elements with the next schema, which has the version, and
// lets that be in force after the last of them.
func (t *Tx) checkSome(version uint64, batch int) (done bool, err error) {
	now, err := t.rulesNow()
	if err != nil {
		return false, err
	}
	if now != nil && now.version == version { // another call has checked the rest
		return true, nil
	}
	next, err := t.rulesNext()
	switch {
	case err != nil:
		return false, err
	case next == nil || next.version != version:
		return false, engine.Errorf(CodeSchema, "another schema was declared, or the schema was removed, while its elements were checked")
	}
	at := t.key(roomFills, 0)
	from, _, err := t.get(at)
	if err != nil {
		return false, err
	}
	left, err := t.checkFrom(next, from, batch)
	if err != nil {
		return false, err
	}
	if left != nil {
		return false, t.put(at, left)
	}
	if err := t.dropNext(next); err != nil {
		return false, err
	}
	return true, t.putRules(schemaInForce, next)
}

// checkFrom checks elements from one on, whose key follows the prefix; nil: the first.
// It returns the one with which the next batch goes on; nil: there is none.
func (t *Tx) checkFrom(s *rules, from []byte, batch int) (left []byte, err error) {
	c := &checking{t: t, s: []*rules{s}, batch: batch}
	for _, room := range []byte{roomVertices, roomOut} {
		lo, hi := within(t.key(room))
		switch {
		case s.ignores(room), room == roomVertices && len(from) > 0 && from[0] == roomOut: // they come first
			continue
		case len(from) > 0 && from[0] == room:
			lo = append(slices.Clone(t.prefix), from...)
		}
		next, err := c.elements(lo, hi)
		if err != nil || next != nil {
			return next[min(len(t.prefix), len(next)):], err
		}
	}
	return nil, nil
}

// ignores reports whether a schema says nothing of the elements of a room.
func (s *rules) ignores(room byte) bool {
	if room == roomVertices {
		return !s.closed && len(s.vertices) == 0
	}
	return !s.closed && len(s.edges) == 0
}

// checking is a batch.
type checking struct {
	t           *Tx
	s           []*rules // one
	batch       int      // bytes that it reads
	reads, size int
}

// elements checks those between two keys. It returns the key of the one with which the
// next batch goes on; nil: there is none.
func (c *checking) elements(lo, hi []byte) (next []byte, err error) {
	for more := true; more; {
		var page []engine.Pair
		_, more, err = c.t.page(lo, hi, maxPage, func(p engine.Pair) error {
			page = append(page, engine.Pair{Key: slices.Clone(p.Key), Val: slices.Clone(p.Val)})
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			if c.reads > 0 && (c.reads >= batchReads || c.size >= c.batch) {
				return p.Key, nil
			}
			c.reads++
			c.size += len(p.Key) + len(p.Val)
			if err := c.element(p); err != nil {
				return nil, err
			}
			lo = append(p.Key, 0)
		}
	}
	return nil, nil
}

// element checks one that is not being removed.
func (c *checking) element(p engine.Pair) error {
	t := c.t
	if p.Key[len(t.prefix)] == roomVertices {
		var num [1]uint64
		if !numbers(p.Key, len(t.prefix)+1, num[:]) || len(p.Val) == 0 {
			return corrupt("vertex", p.Key)
		}
		v := &Vertex{t: t, num: num[0]}
		rec, err := v.parse(p.Val)
		if err != nil || p.Val[0]&flagLeaving != 0 {
			return err
		}
		return v.satisfies(c.s, rec)
	}
	var at [4]uint64
	if !numbers(p.Key, len(t.prefix)+1, at[:]) {
		return corrupt("edge", p.Key)
	}
	e := &Edge{t: t, out: at[0], label: at[1], in: at[2], num: at[3]}
	rec, err := e.parseRecord(p.Val)
	if err != nil {
		return err
	}
	if hidden, err := t.hides(e.out, e.in); hidden || err != nil {
		return err
	}
	if err := e.satisfies(c.s, rec); err != nil {
		return err
	}
	typ := typeOf(c.s[0].edges, e.label)
	if typ == nil {
		return nil
	}
	c.reads += 3 // about what follows
	if err := c.s[0].between(typ, e.Out(), e.In()); err != nil {
		return err
	}
	return c.s[0].alone(t, typ, e)
}

// takeSchema copies the schema of another graph, which has none yet. One that is
// being declared is in force then, since there is nothing to be checked.
func (t *Tx) takeSchema(from *Tx) error {
	last, err := from.lastVersion()
	if last == 0 || err != nil {
		return err
	}
	if err := t.putLastVersion(last); err != nil {
		return err
	}
	now, next, err := from.Schema()
	if next != nil {
		now = next
	}
	if err != nil || now == nil {
		return err
	}
	s, err := t.compile(now)
	if err != nil {
		return err
	}
	s.version = now.Version
	return t.putRules(schemaInForce, s)
}
