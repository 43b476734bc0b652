package tables

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"strconv"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/value"
)

// search is a Search under way.
type search struct {
	*keys.Search
	d      *Driver
	tx     engine.Tx
	c      *keys.Collection
	where  where
	exact  bool // what meets where is what is searched
	never  bool // nothing is
	budget int  // of rows to read
	plan   keys.Plan
}

// errBudget ends a search that has read too much.
var errBudget = errors.New("too many records")

func (d *Driver) newSearch(tx engine.Tx, c *keys.Collection, s *keys.Search, budget int) *search {
	f := &search{Search: s.Bound(), d: d, tx: tx, c: c, where: where{c: c}, exact: s.Past == nil, budget: budget, plan: keys.Plan{Access: "table"}}
	if s.Past == nil {
		switch s.Deleted {
		case query.Live:
			f.where.add("NOT is_deleted")
		case query.Trash:
			f.where.add("is_deleted")
		}
	}
	for _, t := range f.Tests {
		f.never = f.never || t.Cond.Never()
		if s.Past == nil {
			f.exact = f.where.condition(t.Cond) && f.exact
		} else if id := idsOf(c, t.Cond); id != nil {
			f.where.condition(id)
		}
	}
	f.plan.Exact = f.exact
	return f
}

// idsOf returns what a condition asks of ids, which do not change as time passes; nil if nothing.
func idsOf(c *keys.Collection, cond *query.Cond) *query.Cond {
	var all []*query.Cond
	for _, x := range cond.Conjuncts(nil) {
		b := x.Bounds(c.Compiled)
		if len(b) > 0 && !slices.ContainsFunc(b, func(b query.Bound) bool { return b.Name != "id" }) {
			all = append(all, x)
		}
	}
	if all == nil {
		return nil
	}
	return query.All(all...)
}

// Find implements keys.Driver.
func (d *Driver) Find(tx engine.Tx, c *keys.Collection, s *keys.Search) (*keys.Page, error) {
	f := d.newSearch(tx, c, s, cmp.Or(s.Most, keys.MaxScan)+s.Offset+s.Limit)
	page := &keys.Page{}
	var err error
	switch {
	case f.never:
		f.plan = keys.Plan{Access: "nothing", Exact: true}
	case s.Past == nil || len(s.Orders) == 1:
		err = f.page(page)
	default:
		err = f.sort(page)
	}
	if errors.Is(err, errBudget) {
		err = &keys.ScanError{Collection: c.Name, Limit: f.budget - s.Offset - s.Limit}
	}
	page.Plan = f.plan
	page.Plan.Returned = len(page.Docs)
	return page, err
}

// page takes the records in the order of the table.
func (f *search) page(p *keys.Page) error {
	skip, size := f.Offset, 0
	for x, err := range f.docs(f.Orders, f.Offset+f.Limit+1) {
		switch {
		case err != nil:
			return err
		case skip > 0:
			skip--
			continue
		case len(p.Docs) == f.Limit || size > keys.MaxPageBytes:
			p.More = true
			return nil
		}
		p.Docs = append(p.Docs, x)
		size += x.Size()
	}
	return nil
}

// sort takes all records as they were, and sorts them. It keeps only what it sorts by, and reads the page again.
func (f *search) sort(p *keys.Page) error {
	type found struct {
		key []value.Value
		id  string
	}
	f.plan.Sorted = true
	var all []found
	texts := 0
	for x, err := range f.docs(f.Orders[len(f.Orders)-1:], chunk) {
		if err != nil {
			return err
		}
		key := f.Orders.Key(x)
		for _, v := range key {
			text, _ := v.Text()
			texts += len(text)
		}
		if all = append(all, found{key, x.ID}); texts > keys.MaxSortBytes {
			return errBudget
		}
	}
	slices.SortFunc(all, func(x, y found) int { return f.Orders.Compare(x.key, y.key) })
	size := 0
	for _, x := range all[min(f.Offset, len(all)):] {
		if len(p.Docs) == f.Limit || size > keys.MaxPageBytes {
			p.More = true
			break
		}
		now, err := keys.Get(f.tx, f.c, x.id)
		if err == nil {
			now, err = f.Meets(now)
		}
		if err != nil {
			return err
		}
		p.Docs = append(p.Docs, now)
		size += now.Size()
	}
	return nil
}

// docs yields the records of the search in some orders. It reads them in pieces, the first with most rows, because a
// condition may need other records between two of them.
func (f *search) docs(orders query.Orders, most int) iter.Seq2[*keys.Doc, error] {
	return func(yield func(*keys.Doc, error) bool) {
		after := f.After
		if f.Past != nil {
			after = nil // the key is one of records as they were
		}
		for {
			most = min(most, f.budget-f.plan.Read+1)
			rows, more, err := f.rows(orders, after, most)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, now := range rows {
				if f.plan.Read == f.budget {
					yield(nil, errBudget)
					return
				}
				f.plan.Read++
				if f.Past == nil {
					after = orders.Key(now)
				} else {
					after = []value.Value{now.Column(0)}
				}
				x, err := f.Meets(now)
				if x != nil {
					f.plan.Met++
				}
				if (x != nil || err != nil) && !yield(x, err) || err != nil {
					return
				}
			}
			if !more {
				return
			}
			most = chunk
		}
	}
}

// rows reads at most n rows after a key, or fewer if they are large. more reports that there may be others.
func (f *search) rows(orders query.Orders, after []value.Value, n int) (all []*keys.Doc, more bool, err error) {
	w := where{f.c, slices.Clone(f.where.terms), slices.Clone(f.where.args)}
	if after != nil {
		w.after(orders, after)
	}
	sql := "SELECT " + documentColumns + " FROM " + f.d.table(f.c) + w.text() + order(f.c, orders) + " LIMIT " + strconv.Itoa(n)
	list, err := f.d.documentsOf(f.tx, f.c, sql, w.args, keys.MaxPageBytes)
	size := 0
	for _, x := range list {
		if err != nil {
			break
		}
		var d *keys.Doc
		d, err = f.c.Read(x)
		all = append(all, d)
		size += len(x.Val)
	}
	return all, len(all) == n || size > keys.MaxPageBytes, err
}

// Count implements keys.Driver.
func (d *Driver) Count(tx engine.Tx, c *keys.Collection, s *keys.Search) (int, keys.Plan, error) {
	f := d.everything(tx, c, s)
	if f.never {
		return 0, keys.Plan{Access: "nothing", Exact: true}, nil
	}
	if f.exact {
		var n int
		err := rowsOf(tx, "SELECT count(*) FROM "+d.table(c)+f.where.text(), f.where.args, []any{&n}, func() bool { return false })
		return n, f.plan, err
	}
	n := 0
	p, err := f.each(func(*keys.Doc) error { n++; return nil })
	if _, tooMany := errors.AsType[*keys.ScanError](err); tooMany && s.AtLeast {
		p.Cut, err = true, nil
	}
	return n, p, err
}

// Each implements keys.Driver.
func (d *Driver) Each(tx engine.Tx, c *keys.Collection, s *keys.Search, fn func(*keys.Doc) error) (keys.Plan, error) {
	f := d.everything(tx, c, s)
	if f.never {
		return keys.Plan{Access: "nothing", Exact: true}, nil
	}
	return f.each(fn)
}

func (d *Driver) everything(tx engine.Tx, c *keys.Collection, s *keys.Search) *search {
	all := &keys.Search{Tests: s.Tests, Deleted: s.Deleted, Orders: s.Orders, Past: s.Past}
	return d.newSearch(tx, c, all, cmp.Or(s.Most, keys.MaxCount))
}

func (f *search) each(fn func(*keys.Doc) error) (keys.Plan, error) {
	for x, err := range f.docs(f.Orders[len(f.Orders)-1:], chunk) {
		if err == nil {
			err = fn(x)
		}
		if errors.Is(err, errBudget) {
			err = &keys.ScanError{Collection: f.c.Name, Limit: f.budget}
		}
		if err != nil {
			return f.plan, err
		}
	}
	return f.plan, nil
}

// Referring implements keys.Driver.
func (d *Driver) Referring(tx engine.Tx, c *keys.Collection, field int, id value.Value, n int) (all []string, err error) {
	w := &where{c: c}
	w.add("NOT is_deleted")
	w.add(w.compare(c.Fields[field].Name, "=", id))
	var one string
	err = rowsOf(tx, "SELECT id FROM "+d.table(c)+w.text()+" ORDER BY id LIMIT "+strconv.Itoa(n), w.args, []any{&one}, func() bool {
		all = append(all, one)
		return true
	})
	return all, err
}
