package keys

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// Limits of a search.
const (
	MaxScan      = 10_000  // records that a search reads besides those that it skips and returns
	MaxCount     = 100_000 // records that counting and aggregates read
	MaxSortBytes = 4 << 20 // texts by which a search sorts records that no index has in order
	MaxPageBytes = 4 << 20 // records of a page; one that is larger ends early
)

// Search says which records to find.
type Search struct {
	Tests   []Test // all must hold
	Deleted query.Deleted
	Orders  query.Orders  // ends with the id; not used by Count and Each
	After   []value.Value // key of the record before the first, by Orders; nil: from the beginning
	Offset  int           // records to skip
	Limit   int           // records to return

	// Most is how many records are read at most: by Find besides those that it skips and returns. 0 is MaxScan for Find, and
	// MaxCount for Count and Each.
	Most int

	// AtLeast makes Count stop at Most instead of failing. Plan.Cut then reports that there may be more records.
	AtLeast bool

	// Past, if not nil, returns the record to look at instead of one that is there now, nil if there is none. No index is
	// used then.
	Past func(now *Doc) (*Doc, error)

	everything bool  // every record is wanted, in any order
	sizes      sizes // nil: the planner counts or guesses how many records are in ranges
}

// Test is a condition and what it looks at.
type Test struct {
	Cond *query.Cond
	Env  *query.Env
}

// Page is what Find has found.
type Page struct {
	Docs []*Doc
	More bool // there are more after these
	Plan Plan
}

// Plan is how records were found.
type Plan struct {
	Access   string   `json:"access"`           // "nothing", "id", "index", "documents", "union", or of a count "counters"
	Index    string   `json:"index,omitempty"`  // its name
	Bounds   []string `json:"bounds,omitempty"` // fields by which the index or the documents were narrowed
	Ranges   int      `json:"ranges,omitempty"` // of keys
	Backward bool     `json:"backward,omitempty"`
	Sorted   bool     `json:"sorted,omitempty"` // in memory
	Exact    bool     `json:"exact,omitempty"`  // the bounds say all that the conditions ask
	Expected int      `json:"expected"`         // records in the ranges
	Read     int      `json:"read"`             // records that were read
	Met      int      `json:"-"`                // of them, those that the search finds, on whatever page
	Returned int      `json:"returned"`
	Cut      bool     `json:"cut,omitempty"`      // a count has stopped at its limit
	Branches []Branch `json:"branches,omitempty"` // of a union
}

// nothing is how no record is found because none can meet the conditions.
var nothing = Plan{Access: "nothing", Exact: true}

// ScanError says that a search would read too many records.
type ScanError struct {
	Collection string
	Limit      int
	Want       *schema.Index // the index that would help; nil if none would
	Building   string        // the name of an index that will help once it is built
}

// Error says which index would help.
func (e *ScanError) Error() string {
	text := fmt.Sprintf("the query would read more than %d records of %s", e.Limit, e.Collection)
	switch {
	case e.Building != "":
		return text + fmt.Sprintf("; the index %s will help once it is built", e.Building)
	case e.Want == nil:
		return text + "; no index would help; narrow the filter"
	}
	var names []string
	for _, f := range e.Want.Fields {
		if f.Desc {
			f.Name += " desc"
		}
		names = append(names, f.Name)
	}
	return text + fmt.Sprintf("; an index on (%s) would help", strings.Join(names, ", "))
}

// errBudget ends a search that has read too much.
var errBudget = errors.New("too many records")

// search is a Search under way.
type search struct {
	*Search
	tx     engine.Tx
	c      *Collection
	bounds bounds
	ways   []*access // none: nothing can be found
	budget int       // of records to read
	read   int
	met    int // of read: records of the search

	seen    map[string]bool     // of a union: ids of the records that it has come to
	lacking []schema.IndexField // of an index that would make a union possible
}

// Bound returns s with the values of variables in its conditions.
func (s *Search) Bound() *Search {
	b := *s
	b.Tests = make([]Test, len(s.Tests))
	for i, t := range s.Tests {
		b.Tests[i] = Test{t.Cond.Bind(t.Env), t.Env}
	}
	return &b
}

func newSearch(tx engine.Tx, c *Collection, s *Search, budget int) (*search, error) {
	f := &search{Search: s.Bound(), tx: tx, c: c, budget: budget}
	var all []query.Bound
	bounded, never := true, false
	for _, t := range f.Tests {
		all = append(all, t.Cond.Bounds(c.Compiled)...)
		bounded = bounded && t.Cond.Bounded(c.Compiled)
		never = never || t.Cond.Never()
	}
	var outside bool
	if f.bounds, outside = boundsOf(all); never || outside {
		return f, nil
	}
	return f, f.choose(all, bounded)
}

// choose finds the ways to the records, the best first. all are the bounds; bounded reports whether nothing else is asked
// for.
func (f *search) choose(all []query.Bound, bounded bool) (err error) {
	if f.ways, err = f.accesses(f.tx, f.c, f.bounds, bounded); err != nil {
		return err
	}
	if !bounded && f.Past == nil && (len(f.ways) == 0 || !f.ways[0].byID) {
		unions, never, err := f.unions(all)
		if err != nil || never {
			f.ways = nil
			return err
		}
		f.ways = append(f.ways, unions...)
	}
	if len(f.ways) == 0 {
		return f.noPath()
	}
	f.rank(f.ways)
	return nil
}

// Find returns one page of records. It returns a *ScanError rather than read more records than s.Most allows.
func Find(tx engine.Tx, c *Collection, s *Search) (*Page, error) {
	if s.Limit == 0 && c.parted() {
		_, err := newSearch(tx, c, s, MaxPathScan) // it must have a path all the same
		return &Page{}, err
	}
	if s.Limit == 0 {
		return &Page{}, nil
	}
	return c.driver().Find(tx, c, s)
}

// Find implements Driver.
func (ordered) Find(tx engine.Tx, c *Collection, s *Search) (*Page, error) {
	f, err := newSearch(tx, c, s, cmp.Or(s.Most, MaxScan)+s.Offset+s.Limit)
	if err != nil {
		return nil, err
	}
	return f.find()
}

func (f *search) find() (*Page, error) {
	page := Page{Plan: nothing}
	err := f.try(func(a *access) (err error) {
		page = Page{}
		if a.sorted {
			err = f.page(a, &page)
		} else {
			err = f.sort(a, &page)
		}
		page.Plan = f.plan(a)
		page.Plan.Returned = len(page.Docs)
		return err
	})
	if err != nil && page.Plan.Access == nothing.Access {
		page.Plan = f.plan(f.ways[0]) // none was tried
	}
	return &page, err
}

// try calls fn with the best way, and if that needs too much with others whose ranges are small enough.
func (f *search) try(fn func(a *access) error) error {
	for i, a := range f.ways {
		if a.counted && a.count > f.budget && (i > 0 || !a.sorted || f.everything) {
			continue // it must read all, or is no better than the ways before it
		}
		f.begin(a)
		if err := fn(a); !errors.Is(err, errBudget) {
			return err
		}
	}
	if len(f.ways) == 0 {
		return nil
	}
	return f.tooMany()
}

// page takes the records from a way that has them in order.
func (f *search) page(a *access, p *Page) error {
	skip, size := f.Offset, 0
	for d, err := range f.inOrder(a) {
		switch {
		case err != nil:
			return err
		case skip > 0:
			skip--
			continue
		case len(p.Docs) == f.Limit || size > MaxPageBytes:
			p.More = true
			return nil
		}
		p.Docs = append(p.Docs, d)
		size += d.size
	}
	return nil
}

// sort takes all records from a way and sorts them. It keeps only what it sorts by, and reads the page again.
func (f *search) sort(a *access, p *Page) error {
	type found struct {
		key []value.Value
		id  string
	}
	var all []found
	texts := 0
	for d, err := range f.docs(a) {
		if err != nil {
			return err
		}
		key := f.Orders.Key(d)
		for _, v := range key {
			text, _ := v.Text()
			texts += len(text)
		}
		if all = append(all, found{key, d.ID}); texts > MaxSortBytes {
			return errBudget
		}
	}
	slices.SortFunc(all, func(x, y found) int { return f.Orders.Compare(x.key, y.key) })
	size := 0
	for _, x := range all[min(f.Offset, len(all)):] {
		if len(p.Docs) == f.Limit || size > MaxPageBytes {
			p.More = true
			break
		}
		d, err := Get(f.tx, f.c, x.id)
		if err == nil {
			d, err = f.past(d)
		}
		if err != nil {
			return err
		}
		p.Docs = append(p.Docs, d)
		size += d.size
	}
	return nil
}

// Count returns how many records there are, whatever the order and page of s.
func Count(tx engine.Tx, c *Collection, s *Search) (int, Plan, error) {
	return c.driver().Count(tx, c, s)
}

// Count implements Driver.
func (ordered) Count(tx engine.Tx, c *Collection, s *Search) (int, Plan, error) {
	all := Search{Tests: s.Tests, Deleted: s.Deleted, Orders: s.Orders, Past: s.Past, AtLeast: s.AtLeast, everything: true}
	f, err := newSearch(tx, c, &all, cmp.Or(s.Most, MaxCount))
	if err != nil || len(f.ways) == 0 {
		return 0, nothing, err
	}
	if s.Past == nil && !slices.ContainsFunc(f.Tests, func(t Test) bool { return !t.Cond.Always() }) {
		n, err := ReadCounters(tx, c)
		total := 0
		for _, deleted := range []bool{false, true} {
			if s.Deleted.Includes(deleted) {
				total += int(n.of(deleted))
			}
		}
		return total, Plan{Access: "counters"}, err
	}
	for _, a := range f.ways {
		if a.whole && a.counted && !a.byID && a.parts == nil {
			return a.count, f.plan(a), nil
		}
	}
	n := 0
	p, err := f.each(func(*Doc) error { n++; return nil })
	if _, tooMany := errors.AsType[*ScanError](err); tooMany && s.AtLeast {
		p.Cut, err = true, nil
	}
	return n, p, err
}

func (n *Counters) of(deleted bool) uint64 {
	if deleted {
		return n.Deleted
	}
	return n.Live
}

// Each calls fn for every record, in any order, until fn fails. It returns a *ScanError rather than read more than s.Most
// records.
func Each(tx engine.Tx, c *Collection, s *Search, fn func(*Doc) error) (Plan, error) {
	return c.driver().Each(tx, c, s, fn)
}

// Each implements Driver.
func (ordered) Each(tx engine.Tx, c *Collection, s *Search, fn func(*Doc) error) (Plan, error) {
	all := Search{Tests: s.Tests, Deleted: s.Deleted, Orders: s.Orders, Past: s.Past, everything: true}
	f, err := newSearch(tx, c, &all, cmp.Or(s.Most, MaxCount))
	if err != nil {
		return Plan{}, err
	}
	return f.each(fn)
}

// each tries only the best way: fn must not see a record twice.
func (f *search) each(fn func(*Doc) error) (p Plan, err error) {
	if len(f.ways) == 0 {
		return nothing, nil
	}
	a := f.ways[0]
	if a.counted && a.count > f.budget && !f.AtLeast {
		return f.plan(a), f.tooMany()
	}
	f.begin(a)
	for d, err := range f.docs(a) {
		if err == nil {
			err = fn(d)
		}
		if errors.Is(err, errBudget) {
			err = f.tooMany()
		}
		if err != nil {
			return f.plan(a), err
		}
	}
	return f.plan(a), nil
}

func (f *search) plan(a *access) Plan {
	p := Plan{Access: "documents", Bounds: a.used, Ranges: len(a.ranges), Backward: a.back && a.sorted && !f.everything, Sorted: !a.sorted && !f.everything, Exact: a.whole, Expected: a.count, Read: f.read, Met: f.met}
	switch {
	case a.parts != nil:
		p.Access, p.Branches = "union", f.branches(a)
	case a.byID:
		p.Access = "id"
	case a.index != nil:
		p.Access, p.Index = "index", a.index.Name
	}
	return p
}

// docs yields the records of the search in the order of the way.
func (f *search) docs(a *access) iter.Seq2[*Doc, error] {
	return func(yield func(*Doc, error) bool) {
		for _, p := range a.parts {
			for d, err := range f.docs(p) {
				if !yield(d, err) || err != nil {
					return
				}
			}
		}
		if len(a.ids) > 0 {
			f.withIDs(a, a.ids...)(yield)
			return // such a way has no ranges
		}
		for _, x := range a.ranges {
			for d, err := range f.within(a, x) {
				if !yield(d, err) || err != nil {
					return
				}
			}
		}
	}
}

// within yields the records of the search in one range.
func (f *search) within(a *access, x span) iter.Seq2[*Doc, error] {
	return func(yield func(*Doc, error) bool) {
		pairs := f.readPath
		if !f.c.parted() {
			pairs = f.readKeys
		}
		for p, err := range pairs(a, x) {
			var d *Doc
			if err == nil {
				d, err = f.load(a, p)
			}
			if (d != nil || err != nil) && !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// load returns the record that a pair of keys and values is or leads to; nil if it is not of the search.
func (f *search) load(a *access, p engine.Pair) (*Doc, error) {
	if f.read == f.budget {
		return nil, errBudget
	}
	f.read++
	a.read++
	var d *Doc
	var err error
	if a.index == nil {
		id := string(p.Key[len(prefix(docKeys, 0)):])
		if f.seen[id] {
			return nil, nil
		}
		d, err = f.c.read(id, p.Val)
	} else {
		var id string
		if id, err = a.index.entryID(p.Key); err == nil {
			if f.seen[id] {
				return nil, nil
			}
			if f.c.parted() {
				if d, err = f.atEntry(a, p.Key, id); d == nil {
					return nil, err
				}
			} else {
				d, err = Get(f.tx, f.c, id)
			}
		}
		if d == nil && err == nil {
			err = engine.Errorf(engine.CodeCorrupt, "index %s of %s has record %s, which does not exist", a.index.Name, f.c.Name, id)
		}
	}
	if err != nil {
		return nil, err
	}
	return f.meets(a, d)
}

// past returns the record to look at instead of d.
func (s *Search) past(d *Doc) (*Doc, error) {
	if s.Past == nil {
		return d, nil
	}
	past, err := s.Past(d)
	if past != nil {
		past.size = d.size // about
	}
	return past, err
}

// Meets returns d, or what it was, if that is a record that s finds; nil if not.
func (s *Search) Meets(d *Doc) (*Doc, error) {
	d, err := s.past(d)
	if d == nil || err != nil {
		return nil, err
	}
	if !s.Deleted.Includes(d.Deleted) {
		return nil, nil
	}
	for _, t := range s.Tests {
		if ok, err := t.Cond.Holds(t.Env, d, nil); !ok || err != nil {
			return nil, err
		}
	}
	if s.After != nil && s.Orders.Compare(s.Orders.Key(d), s.After) <= 0 {
		return nil, nil
	}
	return d, nil
}

// inOrder yields the records of all ranges, each of which has them in order, in order.
func (f *search) inOrder(a *access) iter.Seq2[*Doc, error] {
	if a.parts == nil && len(a.ranges) <= 1 {
		return f.docs(a)
	}
	return func(yield func(*Doc, error) bool) {
		var heads []*head
		for _, s := range f.streams(nil, a) {
			next, stop := iter.Pull2(s)
			defer stop()
			h := &head{next: next}
			if h.step(f.Orders) {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			first := 0
			for i, h := range heads {
				if h.err != nil || heads[first].err == nil && f.Orders.Compare(h.key, heads[first].key) < 0 {
					first = i
				}
			}
			h := heads[first]
			if !yield(h.doc, h.err) || h.err != nil {
				return
			}
			if !h.step(f.Orders) {
				heads = slices.Delete(heads, first, first+1)
			}
		}
	}
}

// head is the first record of a range that was not yielded yet.
type head struct {
	next func() (*Doc, error, bool)
	doc  *Doc
	err  error
	key  []value.Value
}

// step reads the next record, and reports whether there is one.
func (h *head) step(o query.Orders) (ok bool) {
	if h.doc, h.err, ok = h.next(); ok && h.err == nil {
		h.key = o.Key(h.doc)
	}
	return ok
}
