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
		return nil, engine.Errorf(CodeRefused, "the history rule of %s does not allow listing its past", c.Name)
	}
	most := 0
	if !t.actor.System {
		if q.Offset > MaxPast {
			return nil, engine.Errorf(CodeScan, "a query of the past skips at most %d records; continue with the cursor", MaxPast)
		}
		most = max(1, MaxPast-q.Offset)
	}
	m := Moment{At: q.AsOf.At, Seq: q.AsOf.Seq}
	others := m
	if m.Seq != 0 { // numbers are those of the collection
		others = Moment{}
		for ch, err := range keys.Changes(t.tx, c.Collection, m.Seq+1) {
			if err != nil {
				return nil, err
			}
			others.At = ch.At
			break
		}
	}
	env := t.seen
	env.Follow = func(collection, id string) (query.Row, error) {
		to := t.catalog.byName[collection]
		if to == nil || others.At.IsZero() {
			return nil, nil
		}
		now, err := keys.Get(t.tx, to.Collection, id)
		if now == nil || err != nil {
			return nil, err
		}
		d, err := t.past(to, now, others)
		if d == nil || err != nil || d.Deleted {
			return nil, err
		}
		return d, nil
	}
	return &keys.Search{Tests: []keys.Test{{Cond: q.Where, Env: &env}}, Deleted: q.Deleted, Orders: q.Orders, After: q.After, Offset: q.Offset, Limit: q.Limit, Most: most,
		Past: func(now *keys.Doc) (*keys.Doc, error) { return t.past(c, now, m) }}, nil
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
