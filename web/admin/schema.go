package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
)

// schemaPage is how many collections one page of Schema, and of Rules, has.
const schemaPage = 100

func (a *Admin) addSchema(g *web.Group) {
	g.Get("/schema", a.schemaList)
	g.Post("/schema", a.schemaUpAll)
	g.Get("/schema.json", a.schemaWork)
	g.Get("/schema/{collection}", a.schemaOne)
	g.Get("/schema/{collection}/change", a.schemaChange)
	g.Post("/schema/{collection}/up", a.schemaUp)
	g.Post("/schema/{collection}/down", a.schemaDown)
	g.Post("/schema/{collection}/drop", a.schemaDrop)
	g.Post("/schema/{collection}/convert", a.schemaConvert)
}

// stored is a collection with what the store has of it.
type stored struct {
	schema.Collection
	record.Migration
	Path          string // of its page
	Live, Trash   uint64
	Counted       bool // Live and Trash are known
	Steps         []change
	Cost          string   // of all steps, in words
	State         []string // in words
	Pending, Busy bool
}

// catalog returns all collections with their migrations, by name. It reads descriptions, not records.
func (a *Admin) catalog(ctx context.Context) ([]stored, error) {
	described, err := a.o.Records.Collections(ctx, engine.Read{Level: engine.Local})
	if err != nil {
		return nil, err
	}
	migrations, err := a.o.Records.Migrations(ctx)
	if err != nil {
		return nil, err
	}
	var all []stored
	for _, m := range migrations {
		s := stored{Migration: m, Path: Prefix + "/schema/" + url.PathEscape(m.Collection), Busy: m.Progress != nil}
		s.Name = m.Collection
		if i := slices.IndexFunc(described, func(c schema.Collection) bool { return c.Name == m.Collection }); i >= 0 {
			s.Collection = described[i]
		}
		s.Pending = m.Refused != "" || len(m.Steps) > 0 && m.Version > 0
		s.State = a.stateWords(m)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b stored) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// count adds the numbers of records, which the store keeps. Where each record is in a partition of its own it does not, and
// they stay unknown.
func (a *Admin) count(ctx context.Context, all []stored) error {
	if a.o.Records.Alone("the number of records") != nil {
		return nil //nolint:nilerr // unknown
	}
	_, err := a.o.Records.View(ctx, engine.Read{Level: engine.Local}, record.Program(), func(tx *record.Tx) error {
		for i := range all {
			s := &all[i]
			if s.Version == 0 {
				continue
			}
			for deleted, into := range map[string]*uint64{"live": &s.Live, "trash": &s.Trash} {
				q, err := tx.ParseQuery(s.Name, url.Values{"count": {"true"}, "limit": {"0"}, "deleted": {deleted}})
				if errors.Is(err, record.ErrUnknownCollection) {
					continue // dropped since
				}
				if err != nil {
					return err
				}
				page, err := tx.Find(s.Name, q)
				if err != nil {
					return err
				}
				*into = uint64(page.Total)
			}
			s.Counted = true
		}
		return nil
	})
	return err
}

func (a *Admin) schemaList(c *web.Context) error { return a.showSchema(c, http.StatusOK, nil, nil) }

// showSchema shows all collections: what is pending first, then a page of their table.
func (a *Admin) showSchema(c *web.Context, status int, problem error, losses []loss) error {
	all, err := a.catalog(c)
	if err != nil {
		return err
	}
	var pending, busy, left []stored
	loses := false
	for _, s := range all {
		switch {
		case s.Busy:
			busy = append(busy, s)
		case s.Undefined:
			left = append(left, s)
		}
		if s.Pending {
			pending = append(pending, s)
			loses = loses || slices.ContainsFunc(s.Migration.Steps, func(x schema.Step) bool { return x.Loses })
		}
	}
	more := len(pending) > schemaPage
	pending = pending[:min(len(pending), schemaPage)]
	if err := a.count(c, pending); err != nil {
		return err
	}
	for i := range pending {
		p := &pending[i]
		p.Steps, p.Cost = a.changes(p, p.Migration.Steps), a.workWords(p, p.Migration.Steps)
	}
	page, next := pageOf(all, c.Query("after").String())
	if err := a.count(c, page); err != nil {
		return err
	}
	slow, err := a.slowQueries(c, "")
	if err != nil {
		return err
	}
	locals := web.Locals{"title": a.text("Schema"), "slow": slow, "collections": page, "total": len(all), "next": next, "pending": pending, "more": more, "busy": busy,
		"left": left[:min(len(left), schemaPage)], "loses": loses, "losses": losses, "problem": ""}
	if problem != nil {
		locals["problem"] = c.Detail(problem)
	}
	return a.show(c, status, "schema", locals)
}

// pageOf returns the collections after a name, at most schemaPage, and the name after which the next page begins.
func pageOf(all []stored, after string) (page []stored, next string) {
	i, found := slices.BinarySearchFunc(all, after, func(s stored, name string) int { return cmp.Compare(s.Name, name) })
	if found {
		i++
	}
	page = all[i:]
	if len(page) > schemaPage {
		page = page[:schemaPage]
		next = page[schemaPage-1].Name
	}
	return slices.Clone(page), next
}

// one returns the collection that the path names.
func (a *Admin) one(c *web.Context) (stored, error) {
	name := c.Path("collection").String()
	all, err := a.catalog(c)
	if err != nil {
		return stored{}, err
	}
	i := slices.IndexFunc(all, func(s stored) bool { return s.Name == name })
	if i < 0 {
		return stored{}, engine.Errorf(record.CodeUnknownCollection, "there is no collection %.80q", name)
	}
	return all[i], a.count(c, all[i:i+1])
}

// indexRow is an index as the page shows it.
type indexRow struct {
	Name, Fields string
	Unique       bool
	Implied      bool // not declared: it finds records by a reference
	Complete     bool
}

// ruleRow is a rule as the page shows it.
type ruleRow struct{ Operation, Rule string }

func (a *Admin) schemaOne(c *web.Context) error {
	s, err := a.one(c)
	if err != nil {
		return err
	}
	var found []loss
	if c.Query("losses").String() != "" && mayWrite(c) { // it reads all records
		ctx, stop := context.WithTimeout(c, verifyLimit)
		defer stop()
		_, all, err := a.o.Records.Plan(ctx, record.MigrateOptions{Collections: []string{s.Name}})
		if errors.Is(err, context.DeadlineExceeded) && c.Err() == nil {
			return a.showStored(c, http.StatusUnprocessableEntity, s, engine.Errorf(engine.CodeLimit, "reading the records took more than %s and was given up; a migration looks for such records too, without a limit", verifyLimit), nil)
		}
		if err != nil {
			return err
		}
		found = lossesOf(all)
	}
	return a.showStored(c, http.StatusOK, s, nil, found)
}

// showStored shows one collection. problem is why an action on it failed, losses are the records that would lose data by it.
func (a *Admin) showStored(c *web.Context, status int, s stored, problem error, losses []loss) error {
	s.Steps, s.Cost = a.changes(&s, s.Migration.Steps), a.workWords(&s, s.Migration.Steps)
	var down []change
	refused := ""
	if s.Version > 0 {
		back, _, err := a.o.Records.Plan(c, record.MigrateOptions{Collections: []string{s.Name}, Down: true, AllowLoss: true})
		if err != nil {
			return err
		}
		for _, m := range back {
			down, refused = append(down, a.changes(&s, m.Steps)...), m.Refused
		}
	}
	tables, err := a.o.Records.HasTables(c)
	if err != nil {
		return err
	}
	slow, err := a.slowQueries(c, s.Name)
	if err != nil {
		return err
	}
	locals := web.Locals{
		"title": s.Name, "s": s, "slow": slow, "fields": a.fieldRows(s.Fields), "indexes": indexRows(s), "rules": ruleRows(s.Rules),
		"loses": losing(s.Steps), "down": down, "down_loses": losing(down), "down_refused": refused, "tables": tables, "losses": losses, "looked": c.Query("losses").String() != "" && mayWrite(c) && problem == nil,
		"code": collectionCode(s.Collection), "problem": "", "types": schema.Types(),
	}
	if n := len(s.Migration.Steps); n > 0 && s.Version > 0 {
		locals["to"] = collectionCode(s.Migration.Steps[n-1].After)
	} else {
		locals["to"] = ""
	}
	if problem != nil {
		locals["problem"] = c.Detail(problem)
	}
	return a.show(c, status, "collection", locals)
}

func losing(all []change) bool {
	return slices.ContainsFunc(all, func(x change) bool { return x.Loses })
}

// indexRows returns the declared indexes, and those that references need.
func indexRows(s stored) []indexRow {
	complete := func(name string) bool { return s.Progress == nil || !slices.Contains(s.Progress.Building, name) }
	var all []indexRow
	for _, x := range s.Indexes {
		all = append(all, indexRow{x.Name, indexFields(x), x.Unique, false, complete(x.Name)})
	}
	if k, err := s.Compile(); err == nil { // it is stored, so it compiles
		for _, x := range k.Implied() {
			all = append(all, indexRow{x.Name, indexFields(x), false, true, complete(x.Name)})
		}
	}
	return all
}

// ruleRows returns the rules in the order of the operations.
func ruleRows(r schema.Rules) []ruleRow {
	return []ruleRow{{"list", r.List}, {"view", r.View}, {"create", r.Create}, {"update", r.Update}, {"delete", r.Delete}, {"history", r.History}, {"subscribe", r.Subscribe}}
}
