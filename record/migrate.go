package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
)

// maxLostIDs is how many ids of records a Loss names.
const maxLostIDs = 5

// Migration is the difference between a stored collection and another description of it.
type Migration struct {
	Collection string        `json:"collection"`
	Version    uint64        `json:"version"` // of the stored description; 0: there is none
	Steps      []schema.Step `json:"steps,omitempty"`
	Refused    string        `json:"refused,omitempty"` // why there are no steps to the other description
	Place      Place         `json:"place,omitempty"`   // where the records are, "" if in keys; only of Migrations
	Progress   *Progress     `json:"progress,omitempty"`

	// Undefined reports that the program does not define the collection: it is only stored.
	Undefined bool `json:"-"`
}

// Progress is the progress of the work that an earlier migration left.
type Progress struct {
	What   []string `json:"what"` // in words
	Done   uint64   `json:"done"` // records
	Of     uint64   `json:"of"`
	Failed string   `json:"failed,omitempty"` // why it does not go on; the next migration begins it again

	// Building are the names of the indexes that are not complete.
	Building []string `json:"-"`
}

// Loss reports how many records would lose data in a step.
type Loss struct {
	Step    schema.Step `json:"step"`
	Records uint64      `json:"records"`
	IDs     []string    `json:"ids"` // of some
}

// LossError reports that a migration would lose data.
type LossError struct{ Losses []Loss }

// Error describes the first step that loses data.
func (e *LossError) Error() string {
	l := e.Losses[0]
	text := fmt.Sprintf("%q would lose data of %d records or make them invalid, for example %s", l.Step.Text, l.Records, l.IDs[0])
	if more := len(e.Losses) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more steps)", more)
	}
	return text
}

// MigrateOptions are the options of Migrate. The zero value migrates all collections to what the program defines.
type MigrateOptions struct {
	Collections []string // nil: all
	Down        bool     // to the description before the last migration instead
	AllowLoss   bool     // also if data is lost
}

// Migrations returns the differences between the stored collections and those that the program defines, sorted by name,
// with the progress of earlier migrations.
func (db *DB) Migrations(ctx context.Context) (all []Migration, err error) {
	_, err = db.eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		c, err := db.load(tx)
		if err != nil {
			return err
		}
		all, err = db.migrations(tx, c, MigrateOptions{})
		if err != nil {
			return err
		}
		for i := range all {
			if k := c.byName[all[i].Collection]; k != nil && k.InTables() {
				all[i].Place = InTables
			}
		}
		return addProgress(tx, c, &all)
	})
	return all, err
}

// migrations returns the migrations that o selects.
func (db *DB) migrations(tx engine.Tx, c *catalog, o MigrateOptions) (all []Migration, err error) {
	targets, undefined := map[string]schema.Collection{}, map[string]bool{}
	for _, k := range db.definitions() {
		targets[k.Name] = k.Collection
	}
	for _, k := range c.all {
		if _, ok := targets[k.Name]; !ok {
			targets[k.Name], undefined[k.Name] = k.Collection, true
		}
	}
	for name, to := range targets {
		if o.Collections != nil && !slices.Contains(o.Collections, name) {
			continue
		}
		m := Migration{Collection: name, Undefined: undefined[name]}
		from := schema.Collection{}
		if k := c.byName[name]; k != nil {
			m.Version, from = k.Version, k.Collection.Collection
			if o.Down {
				old, ok, err := keys.Previous(tx, k.Collection)
				if err != nil {
					return nil, err
				}
				if to = old; !ok {
					to = from
				}
			}
		} else if o.Down {
			continue
		}
		steps, err := schema.Diff(from, to)
		if m.Steps = steps; err != nil {
			m.Refused = err.Error()
		}
		all = append(all, m)
	}
	for _, name := range o.Collections {
		if _, ok := targets[name]; !ok {
			return nil, engine.Errorf(CodeUnknownCollection, "there is no collection %.80q", name)
		}
	}
	slices.SortFunc(all, func(a, b Migration) int { return strings.Compare(a.Collection, b.Collection) })
	return all, nil
}

// Migrate updates the stored descriptions in one transaction and returns the migrations that it carried out. Run then
// builds indexes and rewrites records while requests are served. If records would lose data and AllowLoss is not set,
// the error matches ErrLoses and wraps a *LossError.
func (db *DB) Migrate(ctx context.Context, o MigrateOptions) (done []Migration, err error) {
	seen := map[string]uint64{} // by collection: the last change that was looked at
	if !o.AllowLoss && db.parted == nil {
		if err := db.checkLosses(ctx, o, seen); err != nil {
			return nil, err
		}
	}
	err = db.updateCatalog(ctx, func(tx engine.Tx) error {
		c, err := db.settle(tx)
		if err != nil {
			return err
		}
		all, err := db.migrations(tx, c, o)
		if err != nil {
			return err
		}
		done = nil
		for _, m := range all {
			if err := db.refusesSteps(m.Steps); err != nil {
				return err
			}
			if m.Refused != "" {
				return engine.Errorf(CodeMigration, "collection %s cannot be migrated: %s", m.Collection, m.Refused)
			}
			if len(m.Steps) == 0 {
				continue
			}
			if err := db.apply(tx, c, m, o, seen); err != nil {
				return err
			}
			done = append(done, m)
		}
		if err := retryFailed(tx); err != nil {
			return err
		}
		return db.checkRules(tx, c)
	})
	db.wakeUp()
	if err != nil {
		return nil, err
	}
	return done, nil
}

// apply changes one collection. seen has the last change at which its records were checked for losses.
func (db *DB) apply(tx engine.Tx, c *catalog, m Migration, o MigrateOptions, seen map[string]uint64) error {
	k := c.byName[m.Collection].Collection
	to, err := m.Steps[len(m.Steps)-1].After.Compile()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(m.Steps, func(s schema.Step) bool { return s.Loses }) && !o.AllowLoss {
		since, ok := seen[m.Collection]
		if !ok {
			return engine.Errorf(engine.CodeConflict, "collection %s changed during the migration; try again", m.Collection)
		}
		if err := checkSince(tx, k, to, m.Steps, since); err != nil {
			return err
		}
	}
	_, err = keys.Alter(tx, c.all, k, to, slices.ContainsFunc(m.Steps, schema.Step.Rewrites), o.Down)
	return err
}

// checkLosses checks all records of the collections whose steps may lose data, without blocking writes.
func (db *DB) checkLosses(ctx context.Context, o MigrateOptions, seen map[string]uint64) error {
	var losses []Loss
	_, err := db.eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		losses = nil
		c, err := db.load(tx)
		if err != nil {
			return err
		}
		all, err := db.migrations(tx, c, o)
		if err != nil {
			return err
		}
		for _, m := range all {
			if !slices.ContainsFunc(m.Steps, func(s schema.Step) bool { return s.Loses }) {
				continue
			}
			k := c.byName[m.Collection].Collection
			n, err := keys.ReadCounters(tx, k)
			if err != nil {
				return err
			}
			seen[m.Collection] = n.Seq
			to, err := m.Steps[len(m.Steps)-1].After.Compile()
			if err != nil {
				return err
			}
			l := newLosses(k, to, m.Steps)
			for d, err := range keys.Docs(tx, k, "") {
				if err == nil {
					err = l.look(d)
				}
				if err == nil {
					err = ctx.Err()
				}
				if err != nil {
					return err
				}
			}
			losses = append(losses, l.found()...)
		}
		return nil
	})
	return cmp.Or(err, lossError(losses))
}

func lossError(losses []Loss) error {
	if len(losses) == 0 {
		return nil
	}
	return engine.Errorf(CodeLoses, "nothing was changed: %w", &LossError{losses})
}

// losses finds the records that lose data by steps.
type losses struct {
	from, to *schema.Compiled
	all      []Loss
}

func newLosses(k *keys.Collection, to *schema.Compiled, steps []schema.Step) *losses {
	l := &losses{from: k.Compiled, to: to}
	for _, s := range steps {
		if s.Loses {
			l.all = append(l.all, Loss{Step: s})
		}
	}
	return l
}

func (l *losses) look(d *keys.Doc) error {
	is, err := l.to.Parse(l.from.Append(nil, d.Data))
	if err != nil {
		return err
	}
	for i := range l.all {
		x := &l.all[i]
		if !x.Step.Lost(l.from, d.Data, l.to, is) {
			continue
		}
		if x.Records++; len(x.IDs) < maxLostIDs {
			x.IDs = append(x.IDs, d.ID)
		}
	}
	return nil
}

func (l *losses) found() []Loss {
	return slices.DeleteFunc(l.all, func(x Loss) bool { return x.Records == 0 })
}

// checkSince looks at the records that have changed since a change of the collection.
func checkSince(tx engine.Tx, k *keys.Collection, to *schema.Compiled, steps []schema.Step, since uint64) error {
	l := newLosses(k, to, steps)
	for id, err := range keys.ChangedSince(tx, k, since) {
		if err != nil {
			return err
		}
		d, err := keys.Get(tx, k, id)
		if err == nil && d != nil {
			err = l.look(d)
		}
		if err != nil {
			return err
		}
	}
	return lossError(l.found())
}

// checkRules refuses descriptions by which rules have become wrong, of the same collection or of another one.
func (db *DB) checkRules(tx engine.Tx, before *catalog) error {
	all, err := keys.Load(tx)
	if err != nil {
		return err
	}
	after := newCatalog("", all)
	var bad error
	for _, k := range after.all {
		for op, r := range after.byName[k.Name].rules {
			if was := before.byName[k.Name]; r.broken == nil || was != nil && was.rules[op].broken != nil {
				continue
			}
			bad = errors.Join(bad, r.broken)
		}
	}
	if bad != nil {
		return engine.Errorf(CodeMigration, "the migration would break a rule: %w", bad)
	}
	return nil
}

func retryFailed(tx engine.Tx) error {
	works, err := keys.Works(tx)
	if err != nil {
		return err
	}
	for _, w := range works {
		if w.Failed == "" {
			continue
		}
		if err := w.Retry(tx); err != nil {
			return err
		}
	}
	return nil
}

// addProgress adds the work that is left.
func addProgress(tx engine.Tx, c *catalog, all *[]Migration) error {
	works, err := keys.Works(tx)
	if err != nil {
		return err
	}
	for _, w := range works {
		p := &Progress{Done: w.Done, Failed: w.Failed}
		k := c.byID(w.Collection)
		if k == nil {
			p.What = []string{"deleting the records of " + w.Drop}
			*all = append(*all, Migration{Collection: w.Drop, Progress: p})
			continue
		}
		n, err := keys.ReadCounters(tx, k)
		if err != nil {
			return err
		}
		p.Of = max(n.Live+n.Deleted, w.Done) // some that are done may have been purged
		if what, done, of := w.Converting(n); what != "" {
			p.What, p.Done, p.Of = append(p.What, what), w.Done+done, p.Of+of
		}
		for _, x := range k.Stored() {
			if !x.Ready {
				p.What, p.Building = append(p.What, "building the index "+x.Name), append(p.Building, x.Name)
			}
		}
		if w.Rewrite {
			p.What = append(p.What, "rewriting records")
		}
		if len(w.Sweep) > 0 {
			p.What = append(p.What, "deleting old indexes")
		}
		if i := slices.IndexFunc(*all, func(m Migration) bool { return m.Collection == k.Name }); i >= 0 {
			(*all)[i].Progress = p
		}
	}
	return nil
}

// byID returns the stored collection with an id, nil if there is none.
func (c *catalog) byID(id uint32) *keys.Collection {
	for _, k := range c.all {
		if k.ID == id {
			return k
		}
	}
	return nil
}

// DropCollection deletes a collection with all its records and their history. The error matches ErrLoses if the
// collection has records and allowLoss is false, and ErrReferenced if other collections refer to it.
func (db *DB) DropCollection(ctx context.Context, name string, allowLoss bool) error {
	if err := db.refuses("removal of collection " + name); err != nil {
		return err
	}
	_, err := db.eng.Update(ctx, func(tx engine.Tx) error {
		c, err := db.load(tx)
		if err != nil {
			return err
		}
		k := c.byName[name]
		if k == nil {
			return engine.Errorf(CodeUnknownCollection, "there is no collection %.80q", name)
		}
		for _, r := range k.referrers {
			if r.from != k {
				return engine.Errorf(CodeReferenced, "field %s of %s refers to collection %s; remove the field first", r.from.Fields[r.field].Name, r.from.Name, name)
			}
		}
		n, err := keys.ReadCounters(tx, k.Collection)
		if err != nil {
			return err
		}
		if n.Live+n.Deleted > 0 && !allowLoss {
			return engine.Errorf(CodeLoses, "nothing was dropped: collection %s has %d records, and losing them was not allowed", name, n.Live+n.Deleted)
		}
		return keys.Drop(tx, k.Collection)
	})
	db.wakeUp()
	return err
}

// workEvery is how often Run looks for work that another node started.
const workEvery = time.Second

// wakeUp makes Run look for work at once.
func (db *DB) wakeUp() {
	select {
	case db.wake <- struct{}{}:
	default:
	}
}

// work builds indexes and rewrites records after migrations, in transactions of at most keys.MaxStepRecords records,
// and removes expired changes. It looks for work in transactions, not in views: a view every second makes an engine keep a
// state every second, and nodes that do not lead need not look.
func (db *DB) work(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-db.wake:
		}
		more := true
		for more && ctx.Err() == nil {
			var err error
			if more, err = db.workStep(ctx); err == nil && !more {
				more, err = db.trimStep(ctx)
			}
			if err != nil && ctx.Err() == nil && !engine.Passes(err) {
				return err
			}
			more = more && err == nil
		}
		timer.Reset(workEvery)
	}
}

// workStep does one step of each collection's work and reports whether there may be more.
func (db *DB) workStep(ctx context.Context) (more bool, err error) {
	var pending []uint32
	_, err = db.eng.Update(ctx, func(tx engine.Tx) error {
		pending = nil
		works, err := keys.Works(tx)
		for _, w := range works {
			if w.Failed == "" {
				pending = append(pending, w.Collection)
			}
		}
		return err
	})
	for _, id := range pending {
		if err != nil && !engine.Passes(err) {
			return false, err
		}
		_, err1 := db.eng.Update(ctx, func(tx engine.Tx) error {
			c, err := db.load(tx)
			if err != nil {
				return err
			}
			works, err := keys.Works(tx)
			if err != nil {
				return err
			}
			for _, w := range works {
				if w.Collection == id {
					return w.Step(tx, c.all, c.byID(id))
				}
			}
			return nil
		})
		err = cmp.Or(err, db.giveUp(ctx, id, err1)) // one that has to wait does not stop the others
	}
	return len(pending) > 0, err
}
