package record

import (
	"fmt"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
)

// catalog has all collections at one epoch. It is immutable.
type catalog struct {
	epoch  string
	all    []*keys.Collection // as they are stored
	byName map[string]*collection
}

// collection is a stored collection with its parsed rules.
type collection struct {
	*keys.Collection
	rules     [operations]rule
	referrers []referrer
}

// rule is a parsed rule. A broken rule allows nobody.
type rule struct {
	text   string
	cond   *query.Cond
	broken error
}

// referrer is a field of another collection that refers to this one.
type referrer struct {
	from  *collection
	field int
}

func newCatalog(epoch string, all []*keys.Collection) *catalog {
	c := &catalog{epoch: epoch, all: all, byName: map[string]*collection{}}
	for _, k := range all {
		c.byName[k.Name] = &collection{Collection: k}
	}
	for _, k := range all {
		from := c.byName[k.Name]
		from.readRules(c.compiled)
		for i, f := range from.Fields {
			if to := c.byName[f.Collection]; f.Type == schema.Reference && to != nil {
				to.referrers = append(to.referrers, referrer{from, i})
			}
		}
	}
	return c
}

// compiled returns the description of a collection, nil if there is none.
func (c *catalog) compiled(name string) *schema.Compiled {
	if k := c.byName[name]; k != nil {
		return k.Compiled
	}
	return nil
}

func (c *collection) readRules(other func(string) *schema.Compiled) {
	r := c.Rules
	for op, text := range [operations]string{r.List, r.View, r.Create, r.Update, r.Delete, r.History, r.Subscribe} {
		c.rules[op] = readRule(text, query.Scope{Collection: c.Compiled, Other: other, New: Operation(op) == Update})
		if err := c.rules[op].broken; err != nil {
			c.rules[op].broken = fmt.Errorf("the %v rule of %s: %w", Operation(op), c.Name, err)
		}
	}
}

func readRule(text string, s query.Scope) rule {
	r := rule{text: text}
	if text == "" {
		return r
	}
	x, err := expr.Parse(text)
	if err == nil {
		r.cond, err = query.Check(x, s)
	}
	r.broken = err
	return r
}

// load returns the collections at the state of tx.
func (db *DB) load(tx engine.Tx) (*catalog, error) {
	epoch, err := keys.Epoch(tx)
	if err != nil {
		return nil, err
	}
	if c := db.catalog.Load(); c != nil && c.epoch == epoch {
		return c, nil
	}
	all, err := keys.Load(tx)
	if err != nil {
		return nil, err
	}
	c := newCatalog(epoch, all)
	db.catalog.Store(c)
	return c, nil
}

// settle stores the collections that the program defines and the store lacks, and returns all collections.
func (db *DB) settle(tx engine.Tx) (*catalog, error) {
	c, err := db.load(tx)
	if err != nil {
		return nil, err
	}
	changed := false
	for _, d := range db.definitions() {
		if c.byName[d.Name] != nil {
			continue
		}
		if err := keys.Save(tx, c.all, (&keys.Collection{}).Next(d)); err != nil {
			return nil, err
		}
		changed = true
	}
	if !changed {
		return c, nil
	}
	return db.load(tx)
}
