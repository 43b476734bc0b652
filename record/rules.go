package record

import (
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
)

// allows reports whether the rule allows the operation. after is the record after an update, nil for other operations.
func (t *Tx) allows(c *collection, op Operation, d, after *keys.Doc) (bool, error) {
	if !t.actor.within(c, op) {
		return false, nil
	}
	if t.actor.System {
		return true, nil
	}
	r := &c.rules[op]
	if r.cond == nil {
		return false, nil
	}
	if after == nil {
		return r.cond.Holds(&t.env, d, nil)
	}
	return r.cond.Holds(&t.env, d, after)
}

// rule returns the condition of an operation bound to the actor. It never holds if the operation is not allowed at all.
func (t *Tx) rule(c *collection, op Operation) *query.Cond {
	if !t.actor.within(c, op) {
		return query.Never()
	}
	if t.actor.System {
		return query.Always()
	}
	if cond := c.rules[op].cond; cond != nil {
		return cond.Bind(&t.env)
	}
	return query.Never()
}

// May returns an error if it is certain, whatever a record of the collection is, that the actor may carry out none of some
// operations with it.
func (t *Tx) May(collection string, ops ...Operation) error {
	c, err := t.collection(collection)
	if err != nil {
		return err
	}
	for _, op := range ops {
		if !t.rule(c, op).Never() {
			return nil
		}
	}
	return orRefused(nil, c, ops[0])
}

// MayWrite returns an error if it is certain that the actor may change no record of any collection.
func (t *Tx) MayWrite() error {
	for _, k := range t.Collections() {
		if t.May(k.Name, Create, Update, Delete) == nil {
			return nil
		}
	}
	return engine.Errorf(CodeRefused, "no rule allows you to change records")
}

// follow returns a record that another one refers to, for rules.
func (t *Tx) follow(collection, id string) (query.Row, error) {
	c, d, err := t.referred(collection, id)
	if d == nil || err != nil || c == nil {
		return nil, err
	}
	return d, nil
}

// followSeen returns a record that another one refers to, if the actor may view it.
func (t *Tx) followSeen(collection, id string) (query.Row, error) {
	c, d, err := t.referred(collection, id)
	if d == nil || err != nil {
		return nil, err
	}
	if ok, err := t.allows(c, View, d, nil); !ok || err != nil {
		return nil, err
	}
	return d, nil
}

func (t *Tx) referred(name, id string) (*collection, *keys.Doc, error) {
	c := t.catalog.byName[name]
	if c == nil {
		return nil, nil, nil
	}
	if err := t.follows(); err != nil {
		return nil, nil, err
	}
	d, err := keys.Get(t.tx, c.Collection, id)
	if d == nil || err != nil || d.Deleted {
		return c, nil, err
	}
	return c, d, nil
}
