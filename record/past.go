package record

import (
	"errors"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
)

// searchPast returns a query of the past together with the rules.
func (t *Tx) searchPast(c *collection, q *query.Query) (*keys.Search, error) {
	if t.rule(c, History).Never() {
		return nil, engine.Errorf(CodeRefused, "the history rule of %s does not allow queries of the past", c.Name)
	}
	most := 0
	if !t.actor.System {
		if q.Offset > MaxPast {
			return nil, engine.Errorf(CodeScan, "a query of the past skips at most %d records; continue with the cursor", MaxPast)
		}
		most = max(1, MaxPast-q.Offset)
	}
	p, err := t.pastAt(c, Moment{At: q.AsOf.At, Seq: q.AsOf.Seq})
	if err != nil {
		return nil, err
	}
	env := t.seen
	env.Follow = func(collection, id string) (query.Row, error) {
		if err := t.follows(); err != nil {
			return nil, err
		}
		_, d, err := p.get(collection, id)
		if d == nil || err != nil {
			return nil, err
		}
		return d, nil
	}
	return &keys.Search{Tests: []keys.Test{{Cond: q.Where, Env: &env}}, Deleted: q.Deleted, Orders: q.Orders, After: q.After, Offset: q.Offset, Limit: q.Limit, Most: most,
		Past: func(now *keys.Doc) (*keys.Doc, error) { return t.past(c, now, p.at) }}, nil
}

// past is a state of all collections in the past.
type past struct {
	t      *Tx
	of     *collection
	at     Moment // of this collection
	others Moment // of the others; zero: it is not known
}

// pastAt returns the state of all collections at a moment of one of them. m is no revision.
func (t *Tx) pastAt(c *collection, m Moment) (*past, error) {
	if err := c.Refused("numbers of changes"); err != nil && m.Seq != 0 {
		return nil, err
	}
	p := &past{t, c, m, m}
	if m.Seq == 0 {
		return p, nil
	}
	p.others = Moment{} // numbers are those of the collection
	for ch, err := range keys.Changes(t.tx, c.Collection, m.Seq+1) {
		if err != nil {
			return nil, err
		}
		p.others.At = ch.At
		break
	}
	return p, nil
}

// get returns a record of a collection as it was, if it was not in the trash and the actor may see its history; nil if not.
func (p *past) get(name, id string) (*collection, *keys.Doc, error) {
	c := p.t.catalog.byName[name]
	if c == nil {
		return nil, nil, nil
	}
	now, err := keys.Get(p.t.tx, c.Collection, id)
	if now == nil || err != nil {
		return c, nil, err
	}
	d, err := p.then(c, now)
	if d == nil || err != nil || d.Deleted {
		return c, nil, err
	}
	return c, d, nil
}

// then returns what a record was; nil if it was not there or the actor may not see it.
func (p *past) then(c *collection, now *keys.Doc) (*keys.Doc, error) {
	at := p.others
	if c.Name == p.of.Name {
		at = p.at
	}
	if at == (Moment{}) {
		return nil, nil
	}
	return p.t.past(c, now, at)
}

// reference is a field that refers to records.
type reference struct {
	collection string
	field      int
}

// referring returns the ids of the records whose field referred to a record then, sorted. The first call for a field reads
// all records of its collection: no index knows the past.
func (l *lookup) referring(c *collection, field int, id string) ([]string, error) {
	at := reference{c.Name, field}
	if all, ok := l.then[at]; ok {
		return all[id], nil
	}
	all := map[string][]string{}
	orders, err := query.ParseOrders("id", query.Scope{Collection: c.Compiled})
	if err != nil {
		return nil, err
	}
	s := &keys.Search{Orders: orders, Past: func(now *keys.Doc) (*keys.Doc, error) { return l.past.then(c, now) }}
	if !l.t.actor.System {
		s.Most = max(1, MaxPast-l.read)
	}
	plan, err := keys.Each(l.t.tx, c.Collection, s, func(d *keys.Doc) error {
		if to, ok := d.Field(field).Text(); ok {
			all[to] = append(all[to], d.ID)
		}
		return nil
	})
	if _, tooMany := errors.AsType[*keys.ScanError](err); tooMany && s.Most > 0 {
		err = l.allow(MaxPast)
	}
	if err != nil {
		return nil, scanned(err)
	}
	if l.then == nil {
		l.then = map[reference]map[string][]string{}
	}
	l.then[at] = all
	return all[id], l.allow(plan.Read)
}

// referringThen is Referring in the past.
func (l *lookup) referringThen(c *collection, field int, id string, n int) (rows []query.Row, err error) {
	ids, err := l.referring(c, field, id)
	if err != nil {
		return nil, err
	}
	for _, id := range ids[:min(n, len(ids))] {
		if err := l.allow(1); err != nil {
			return nil, err
		}
		_, d, err := l.past.get(c.Name, id)
		if err != nil {
			return nil, err
		}
		if d != nil {
			rows = append(rows, newRecord(c, d))
		}
	}
	return rows, nil
}

// GetWith returns a page of one record, with the fields that a query asks for and what it expands; the rest of the query
// is not used. The record is that of Get or, if m is not zero, of GetAsOf, and then what is expanded is as it was at that
// moment, for actors who may see its history.
func (t *Tx) GetWith(collection, id string, m Moment, q *query.Query) (*Page, error) {
	var r *Record
	var err error
	if m == (Moment{}) {
		r, err = t.Get(collection, id)
	} else {
		r, err = t.GetAsOf(collection, id, m)
	}
	if err != nil {
		return nil, err
	}
	if m.Rev != 0 && len(q.Expand) > 0 {
		changes, err := keys.History(t.tx, r.in.Collection, id, m.Rev+1, 1)
		if err != nil {
			return nil, err
		}
		if len(changes) == 0 || changes[0].Rev != m.Rev {
			return nil, t.stored(r.in, &keys.GoneError{ID: id})
		}
		m = Moment{Seq: changes[0].Seq}
	}
	t.finding, t.followed = true, 0
	defer func() { t.finding = false }()
	p := &Page{query: q, Items: []*Record{r}}
	return p, t.expand(r.in, p, m)
}

// past returns a record as it was; nil if it was not there, its state then was redacted, or the actor may not see its
// history.
func (t *Tx) past(c *collection, now *keys.Doc, m Moment) (*keys.Doc, error) {
	if ok, err := t.allows(c, History, now, nil); !ok || err != nil {
		return nil, err
	}
	d, err := keys.PastOf(t.tx, c.Collection, now, m)
	if gone, ok := errors.AsType[*keys.GoneError](err); ok && gone.Redacted != 0 {
		return nil, nil
	}
	return d, t.stored(c, err)
}
