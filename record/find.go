package record

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// Page is the result of Find.
type Page struct {
	Items []*Record
	Total int    // records of all pages, if the query counts them
	Next  string // the cursor of the page that follows, "" if this is the last one

	// AtLeast means that Total is a lower bound, because counting has stopped at MaxCounted records. The totals of System
	// actors are exact.
	AtLeast bool

	Groups []query.Values // if the query has aggregates
	More   bool           // there are more groups than the query asks for

	Plan  *keys.Plan // of Items or Groups, if the query asks for it
	Count *keys.Plan // of Total, if the query asks for it

	query   *query.Query
	related [][]query.Related // of Items, if the query expands any
	work    work
}

// Collection returns the description of a collection in this transaction.
func (t *Tx) Collection(name string) (*schema.Compiled, error) {
	c, err := t.collection(name)
	if err != nil {
		return nil, err
	}
	return c.Compiled, nil
}

// Collections returns the descriptions of the collections that have a rule which may allow something, for system actors
// of all, by name.
func (t *Tx) Collections() []*schema.Compiled {
	all := map[string]*schema.Compiled{}
	for _, k := range t.db.definitions() {
		all[k.Name] = k
	}
	for name, c := range t.catalog.byName {
		all[name] = c.Compiled
	}
	maps.DeleteFunc(all, func(_ string, k *schema.Compiled) bool { return !t.actor.System && k.Rules == schema.Rules{} })
	var list []*schema.Compiled
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}

// ParseQuery parses the parameters of a URL as a query of a collection; see query.Parse.
func (t *Tx) ParseQuery(collection string, params url.Values) (*query.Query, error) {
	return t.parse(collection, func(s query.Scope) (*query.Query, error) { return query.Parse(params, s) })
}

// ParseQueryJSON parses a JSON object as a query of a collection; see query.ParseJSON.
func (t *Tx) ParseQueryJSON(collection string, text []byte) (*query.Query, error) {
	return t.parse(collection, func(s query.Scope) (*query.Query, error) { return query.ParseJSON(text, s) })
}

func (t *Tx) parse(collection string, read func(query.Scope) (*query.Query, error)) (*query.Query, error) {
	c, err := t.collection(collection)
	if err != nil {
		return nil, err
	}
	q, err := read(query.Scope{Collection: c.Compiled, Other: t.catalog.compiled})
	return q, invalidQuery(err)
}

// invalidQuery gives the error of a query its code.
func invalidQuery(err error) error {
	x, ok := errors.AsType[*query.Error](err)
	switch {
	case !ok:
		return err
	case x.Code == query.CodeTooLarge:
		return engine.Errorf(CodeTooLarge, "%w", x)
	}
	return engine.Errorf(CodeQuery, "%w", x)
}

// Find returns a page of the records that meet a query, and that the actor may both list and view. Those in the trash
// are for actors who may delete them. A query of the past finds the records whose history the actor may see as they were
// then, except for those that were purged or redacted since.
func (t *Tx) Find(collection string, q *query.Query) (*Page, error) {
	c, err := t.collection(collection)
	if err != nil {
		return nil, err
	}
	if q.Explain && !t.actor.System {
		return nil, engine.Errorf(CodeRefused, "only superadmins can explain queries, because plans count records that other users may not see")
	}
	t.finding, t.followed = true, 0
	defer func() { t.finding = false }()
	search, err := t.search(c, q)
	if err != nil {
		return nil, err
	}
	p, start := &Page{query: q}, time.Now()
	err = t.found(c, search, p)
	t.note(c, search, p, time.Since(start), err)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// found finds what a query asks for.
func (t *Tx) found(c *collection, s *keys.Search, p *Page) (err error) {
	q := p.query
	if len(q.Aggregates) > 0 {
		err = t.aggregate(c, s, p)
	} else {
		err = t.page(c, s, p)
	}
	if err == nil && len(p.Next) > query.MaxCursorBytes {
		err = &query.Error{Code: query.CodeTooLarge, Member: "sort", Text: "the last record of the page has values that are too long for a cursor; sort by something shorter"}
	}
	if err != nil {
		return invalidQuery(err)
	}
	return t.expand(c, p, Moment{At: q.AsOf.At, Seq: q.AsOf.Seq})
}

// search returns a query together with the rules.
func (t *Tx) search(c *collection, q *query.Query) (*keys.Search, error) {
	if !q.AsOf.IsZero() {
		return t.searchPast(c, q)
	}
	rule, err := t.listed(c, q.Deleted)
	if err != nil {
		return nil, err
	}
	return &keys.Search{Tests: []keys.Test{{Cond: rule, Env: &t.env}, {Cond: q.Where, Env: &t.seen}}, Deleted: q.Deleted, Orders: q.Orders, After: q.After, Offset: q.Offset, Limit: q.Limit}, nil
}

// listed returns the condition on records that the actor may list.
func (t *Tx) listed(c *collection, d query.Deleted) (*query.Cond, error) {
	live, trash := query.All(t.rule(c, List), t.rule(c, View)).Bind(&t.env), t.rule(c, Delete)
	if live.Never() && d != query.Trash || trash.Never() && d == query.Trash {
		return nil, engine.Errorf(CodeRefused, "the rules of %s do not allow listing its records", c.Name)
	}
	switch {
	case d == query.Live || live.Always() && trash.Always():
		return live, nil
	case d == query.Trash:
		return trash, nil
	}
	deleted := func(is bool) *query.Cond { return query.Is(c.Compiled, "is_deleted", value.OfBool(is)) }
	return query.Any(query.All(deleted(false), live), query.All(deleted(true), trash)), nil
}

// page finds the records of a page, and counts those of all pages.
func (t *Tx) page(c *collection, s *keys.Search, p *Page) error {
	found, err := keys.Find(t.tx, c.Collection, s)
	if found != nil && s.Limit > 0 {
		p.work.add(found.Plan, false, s.Offset+len(found.Docs))
	}
	if err != nil {
		return scanned(err)
	}
	for _, d := range found.Docs {
		p.Items = append(p.Items, newRecord(c, d))
	}
	if found.More {
		p.Next = p.query.Cursor(c.Compiled, found.Docs[len(found.Docs)-1])
	}
	if p.query.Explain {
		p.Plan = &found.Plan
	}
	if !p.query.Count {
		return nil
	}
	total, plan, err := keys.Count(t.tx, c.Collection, t.counting(s))
	p.work.add(plan, true, plan.Met)
	if p.Total, p.AtLeast = total, plan.Cut; p.query.Explain {
		p.Count = &plan
	}
	return scanned(err)
}

// scanned gives the error of a search that would read too much its code.
func scanned(err error) error {
	if e, ok := errors.AsType[*keys.ScanError](err); ok {
		return engine.Errorf(CodeScan, "%w", e)
	}
	if e, ok := errors.AsType[*keys.PathError](err); ok {
		return engine.Errorf(CodeNoPath, "%w", e)
	}
	return err
}

func (t *Tx) aggregate(c *collection, s *keys.Search, p *Page) error {
	groups := query.NewGroups(p.query)
	plan, err := keys.Each(t.tx, c.Collection, t.counting(s), func(d *keys.Doc) error { return groups.Add(d) })
	p.work.add(plan, true, plan.Met)
	if err != nil {
		return scanned(err)
	}
	if p.query.Explain {
		p.Plan = &plan
	}
	p.Groups, err = groups.Values()
	if p.More = len(p.Groups) > p.query.Limit; p.More {
		p.Groups = p.Groups[:p.query.Limit]
	}
	return err
}

// expand finds the records that those of a page of c refer to, or that refer to them, at a moment or, if that is zero, now.
func (t *Tx) expand(c *collection, p *Page, m Moment) error {
	if len(p.query.Expand) == 0 {
		return nil
	}
	l := &lookup{t: t}
	if m != (Moment{}) {
		var err error
		if l.past, err = t.pastAt(c, m); err != nil {
			return err
		}
	}
	x := query.NewExpander(l)
	for _, r := range p.Items {
		related, err := x.Expand(r, p.query.Expand)
		if err != nil {
			return invalidQuery(err)
		}
		if err := l.allowBytes(0, sizeOf(related)); err != nil {
			return err
		}
		p.related = append(p.related, related)
	}
	return nil
}

// lookup finds related records that the actor may view, or in the past those whose history the actor may see.
type lookup struct {
	t     *Tx
	read  int // records
	bytes int // of them
	shown int // bytes of records that were added to the page

	past *past // nil: the present
	then map[reference]map[string][]string
}

// Get implements query.Lookup.
func (l *lookup) Get(k *schema.Compiled, id string) (query.Row, error) {
	if err := l.allow(1); err != nil {
		return nil, err
	}
	if l.past != nil {
		c, d, err := l.past.get(k.Name, id)
		if d == nil || err != nil {
			return nil, err
		}
		return newRecord(c, d), nil
	}
	c, d, err := l.t.referred(k.Name, id)
	if d == nil || err != nil {
		return nil, err
	}
	if err := l.allowBytes(d.Size(), 0); err != nil {
		return nil, err
	}
	if ok, err := l.t.allows(c, View, d, nil); !ok || err != nil {
		return nil, err
	}
	return newRecord(c, d), nil
}

// Referring implements query.Lookup.
func (l *lookup) Referring(k *schema.Compiled, field int, id string, n int) (rows []query.Row, err error) {
	c := l.t.catalog.byName[k.Name]
	want, err := value.OfText(id)
	if c == nil || err != nil {
		return nil, err
	}
	if l.past != nil {
		return l.referringThen(c, field, id, n)
	}
	orders, err := query.ParseOrders("id", query.Scope{Collection: c.Compiled})
	if err != nil {
		return nil, err
	}
	s, err := l.t.search(c, &query.Query{Where: query.Is(c.Compiled, c.Fields[field].Name, want), Orders: orders, Limit: n})
	if err != nil {
		if engine.CodeOf(err) == CodeRefused {
			return nil, nil // the actor may see none of them
		}
		return nil, err
	}
	if !l.t.actor.System {
		s.Most = max(1, min(keys.MaxScan, MaxExpandedRead-l.read))
	}
	found, err := keys.Find(l.t.tx, c.Collection, s)
	if _, tooMany := errors.AsType[*keys.ScanError](err); tooMany && s.Most > 0 && s.Most < keys.MaxScan {
		err = l.allow(MaxExpandedRead)
	}
	if err != nil {
		return nil, scanned(err)
	}
	if err := l.allow(max(1, found.Plan.Read)); err != nil {
		return nil, err
	}
	for _, d := range found.Docs {
		if err := l.allowBytes(d.Size(), 0); err != nil {
			return nil, err
		}
		rows = append(rows, newRecord(c, d))
	}
	return rows, nil
}
