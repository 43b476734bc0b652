package record

import (
	"errors"
	"net/url"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// MaxScan is how many records a listing reads at most.
const MaxScan = 10_000

// Page is what Find has found.
type Page struct {
	Items []*Record
	Total int    // records of all pages, if the query counts them
	Next  string // the cursor of the page that follows, "" if this is the last one

	Groups []query.Values // if the query has aggregates

	query   *query.Query
	related [][]query.Related // of Items, if the query expands any
}

// ParseQuery reads a query of a collection from the parameters of a URL; see query.Parse.
func (t *Tx) ParseQuery(collection string, params url.Values) (*query.Query, error) {
	return t.parse(collection, func(s query.Scope) (*query.Query, error) { return query.Parse(params, s) })
}

// ParseQueryJSON reads a query of a collection from a JSON object; see query.ParseJSON.
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
// are for actors who may delete them.
func (t *Tx) Find(collection string, q *query.Query) (*Page, error) {
	c, err := t.collection(collection)
	if err != nil {
		return nil, err
	}
	if !q.AsOf.IsZero() {
		return nil, engine.Errorf(engine.CodeUnsupported, "a listing cannot show the past yet")
	}
	list, view, trash := t.rule(c, List), t.rule(c, View), t.rule(c, Delete)
	f := &finder{t: t, c: c, q: q, list: query.All(list, view), trash: trash, where: q.Where.Bind(&t.seen)}
	if never := list.Never() || view.Never(); never && q.Deleted != query.Trash || trash.Never() && q.Deleted == query.Trash {
		return nil, engine.Errorf(CodeRefused, "the rules of %s do not allow listing its records", c.Name)
	}
	p := &Page{query: q}
	if len(q.Aggregates) > 0 {
		return p, f.aggregate(p)
	}
	if err := f.scan(p); err != nil {
		return nil, err
	}
	return p, t.expand(p)
}

// finder is one Find.
type finder struct {
	t           *Tx
	c           *collection
	q           *query.Query
	list, trash *query.Cond // of the rules: about records, and about those in the trash
	where       *query.Cond
}

// each calls fn with every record that meets the query, by id, until fn returns false.
func (f *finder) each(after string, fn func(d *keys.Doc) (bool, error)) error {
	read := 0
	for d, err := range keys.Docs(f.t.tx, f.c.Collection, after) {
		if err != nil {
			return err
		}
		if read++; read > MaxScan {
			return engine.Errorf(CodeTooLarge, "the query would read more than %d records of %s", MaxScan, f.c.Name)
		}
		ok, err := f.meets(d)
		if err == nil && ok {
			ok, err = fn(d)
			if err == nil && !ok {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) meets(d *keys.Doc) (bool, error) {
	if !f.q.Deleted.Includes(d.Deleted) {
		return false, nil
	}
	rule := f.list
	if d.Deleted {
		rule = f.trash
	}
	if ok, err := rule.Holds(&f.t.env, d, nil); !ok || err != nil {
		return false, err
	}
	return f.where.Holds(&f.t.seen, d, nil)
}

// found is a record with the values that it is sorted by.
type found struct {
	*keys.Doc
	key []value.Value
}

// scan finds the records of the page.
func (f *finder) scan(p *Page) error {
	q := f.q
	byID := len(q.Orders) == 1 && !q.Orders[0].Desc
	after := ""
	if byID && q.After != nil && !q.Count {
		after, _ = q.After[0].Text()
	}
	var all []found
	err := f.each(after, func(d *keys.Doc) (bool, error) {
		p.Total++
		key := q.Orders.Key(d)
		if q.After == nil || q.Orders.Compare(key, q.After) > 0 {
			all = append(all, found{d, key})
		}
		return q.Count || !byID || len(all) <= q.Offset+q.Limit, nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b found) int { return q.Orders.Compare(a.key, b.key) })
	all = all[min(q.Offset, len(all)):]
	if len(all) > q.Limit && q.Limit > 0 {
		p.Next = q.Cursor(f.c.Compiled, all[q.Limit-1])
	}
	for _, x := range all[:min(q.Limit, len(all))] {
		p.Items = append(p.Items, newRecord(f.c, x.Doc))
	}
	return nil
}

func (f *finder) aggregate(p *Page) error {
	groups := query.NewGroups(f.q)
	err := f.each("", func(d *keys.Doc) (bool, error) { return true, groups.Add(d) })
	if err == nil {
		p.Groups, err = groups.Values()
	}
	return invalidQuery(err)
}

// expand finds the records that those of a page refer to, or that refer to them.
func (t *Tx) expand(p *Page) error {
	if len(p.query.Expand) == 0 {
		return nil
	}
	x := query.NewExpander(lookup{t})
	for _, r := range p.Items {
		related, err := x.Expand(r, p.query.Expand)
		if err != nil {
			return invalidQuery(err)
		}
		p.related = append(p.related, related)
	}
	return nil
}

// lookup finds related records that the actor may view.
type lookup struct{ t *Tx }

// Get implements query.Lookup.
func (l lookup) Get(k *schema.Compiled, id string) (query.Row, error) {
	c, d, err := l.t.referred(k.Name, id)
	if d == nil || err != nil {
		return nil, err
	}
	if ok, err := l.t.allows(c, View, d, nil); !ok || err != nil {
		return nil, err
	}
	return newRecord(c, d), nil
}

// Referring implements query.Lookup.
func (l lookup) Referring(k *schema.Compiled, field int, id string, n int) (rows []query.Row, err error) {
	c := l.t.catalog.byName[k.Name]
	want, err := value.OfText(id)
	if c == nil || err != nil {
		return nil, err
	}
	ids, err := keys.Referring(l.t.tx, c.Collection, field, want, MaxScan)
	if err != nil {
		return nil, err
	}
	f := &finder{t: l.t, c: c, q: &query.Query{}, list: query.All(l.t.rule(c, List), l.t.rule(c, View)), where: query.Always()}
	for _, other := range ids {
		d, err := keys.Get(l.t.tx, c.Collection, other)
		if err != nil {
			return nil, err
		}
		if ok, err := f.meets(d); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		if rows = append(rows, newRecord(c, d)); len(rows) == n {
			break
		}
	}
	return rows, nil
}
