package keys

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
)

// shelf is a collection on an engine, and a model of it.
type shelf struct {
	eng  engine.Engine
	c    *Collection
	docs map[string]*Doc
	now  time.Time
	rng  *rand.Rand
}

// fields are those of the collections in the tests; all have few values, so that records share them.
func fields() []schema.Field {
	return []schema.Field{{Name: "n", Type: schema.Int}, {Name: "s", Type: schema.Text}, {Name: "d", Type: schema.Decimal}, {Name: "b", Type: schema.Bool}, {Name: "t", Type: schema.Time}, {Name: "f", Type: schema.Float}, {Name: "r", Type: schema.Reference, Collection: "c"}}
}

func newShelf(t testing.TB, rng *rand.Rand, indexes ...schema.Index) *shelf {
	t.Helper()
	s := &shelf{eng: testengine.Open(t, testengine.Options{Memory: true}), docs: map[string]*Doc{}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), rng: rng}
	s.describe(t, &Collection{}, indexes)
	return s
}

// describe gives the collection other indexes.
func (s *shelf) describe(t testing.TB, from *Collection, indexes []schema.Index) {
	t.Helper()
	k, err := schema.Collection{Name: "c", Fields: fields(), Indexes: indexes}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	s.c = from.Next(k)
	s.update(t, func(tx engine.Tx) error {
		all, err := Load(tx)
		if err != nil {
			return err
		}
		return Save(tx, all, s.c)
	})
}

func (s *shelf) update(t testing.TB, fn func(tx engine.Tx) error) {
	t.Helper()
	if _, err := s.eng.Update(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

func (s *shelf) view(t testing.TB, fn func(tx engine.Tx)) {
	t.Helper()
	if _, err := s.eng.View(context.Background(), engine.Read{}, func(tx engine.Tx) error { fn(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

func (s *shelf) pick(all ...string) string { return all[s.rng.IntN(len(all))] }

// data returns the JSON of a random record.
func (s *shelf) data() string {
	var parts []string
	for _, c := range []struct{ name, values string }{
		{"n", "-1 0 1 2 3"}, {"s", `"" "a" "ab" "a\u0001" "b" "é"`}, {"d", `"-1.5" "0" "0.5" "10"`}, {"b", "true false"}, {"t", `"2025-12-31T00:00:00Z" "2026-01-01T00:00:00Z" "2026-01-02T00:00:00Z"`}, {"f", "-0.5 0 1.5"}, {"r", `"r1" "r2" "r10" "none"`},
	} {
		if s.rng.IntN(4) > 0 {
			parts = append(parts, fmt.Sprintf("%q:%s", c.name, s.pick(strings.Fields(c.values)...)))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// change creates, changes, deletes, restores or purges a random record.
func (s *shelf) change(t testing.TB, tx engine.Tx) error {
	id := fmt.Sprint("r", s.rng.IntN(40))
	before := s.docs[id]
	s.now = s.now.Add(time.Duration(s.rng.IntN(2)) * time.Hour)
	mark := Mark{s.now, s.pick("", "u1", "u2")}
	if before == nil {
		d := &Doc{ID: id, Marks: [Stamps]Mark{Created: mark}}
		var err error
		if d.Data, err = s.c.Patch(schema.Data{}, []byte(s.data())); err != nil {
			t.Fatal(err)
		}
		s.docs[id] = d
		return Put(tx, s.c, nil, d, &Change{Op: Create, At: s.now})
	}
	d := *before
	switch op := s.rng.IntN(6); {
	case op == 0 && d.Deleted:
		delete(s.docs, id)
		return Remove(tx, s.c, before, &Change{Op: Purge, At: s.now})
	case op <= 1:
		d.Deleted = !d.Deleted
		d.Marks[Deleted] = mark
	default:
		var err error
		if d.Data, err = s.c.Patch(schema.Data{}, []byte(s.data())); err != nil {
			t.Fatal(err)
		}
		d.Marks[Updated] = mark
	}
	s.docs[id] = &d
	return Put(tx, s.c, before, &d, &Change{Op: Update, At: s.now})
}

// filter returns the text of a random condition.
func (s *shelf) filter(depth int) string {
	if depth > 0 && s.rng.IntN(3) > 0 {
		switch s.rng.IntN(5) {
		case 0:
			return "(" + s.filter(depth-1) + " || " + s.filter(depth-1) + ")"
		case 1:
			return "!(" + s.filter(depth-1) + ")"
		}
		return s.filter(depth-1) + " && " + s.filter(depth-1)
	}
	order := s.pick("=", "=", "<", "<=", ">", ">=", "!=")
	switch s.rng.IntN(11) {
	case 0:
		return "n " + order + " " + s.pick("-1", "0", "1", "2", "null")
	case 1:
		return s.pick("1", "2") + " " + order + " n"
	case 2:
		return "s " + order + " " + s.pick(`""`, `"a"`, `"ab"`, `"é"`, "null")
	case 3:
		return "d " + order + " " + s.pick("-1.5", "0.50", `"10"`, "null", "n")
	case 4:
		return s.pick("b", "b = false", "b = null", "b < true", "is_deleted", "is_deleted = false", "is_deleted > false")
	case 5:
		return s.pick("t", "created", "updated", "deleted") + " " + order + " " + s.pick("@now", "@now - 1d", "@now + 3d", "null", `"2026-01-02"`)
	case 6:
		return s.pick("n in (1, 2, null)", "n in (0, 0, 9)", `s in ("a", "ab", "zz")`, "b in (true, null)", "n not in (1)", "n in ()", `id in ("r1", "r30", "none", "r2", "")`)
	case 7:
		return "id " + order + " " + s.pick(`"r2"`, `"r1"`, `"r10"`, `"r25"`, `"x/"`)
	case 8:
		return s.pick(`s ~ "a"`, `s ~ "%b"`, "created_by = @auth.id", `created_by = "u2"`, "rev > 2", "rev = 1", "f >= 0", "f = 1.5")
	case 9:
		return "r.n " + order + " " + s.pick("1", "null")
	}
	return s.pick(`r = "r1"`, `r = "r10"`, "r = null", `r.r.s ~ "a"`, `r in ("r1", "r2")`)
}

// sort returns what a random listing is sorted by.
func (s *shelf) sort() string {
	var parts []string
	names := []string{"n", "s", "d", "b", "t", "f", "r", "created", "updated", "rev", "created_by", "id"}
	s.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:s.rng.IntN(4)] {
		parts = append(parts, s.pick("", "-")+name)
	}
	return strings.Join(parts, ",")
}

// literal returns a value of a field or column.
func (s *shelf) literal(name string) string {
	return map[string]string{"n": s.pick("0", "1", "2", "null"), "s": s.pick(`"a"`, `"ab"`, `"é"`, "null"), "d": s.pick("0", "0.5", "null"), "b": s.pick("true", "false"), "t": s.pick(`"2026-01-01"`, `"2026-01-02"`), "f": s.pick("0", "1.5"),
		"r": s.pick(`"r1"`, `"r10"`), "created": s.pick("@now - 1d", `"2026-01-01T05:00:00Z"`), "updated": s.pick("@now - 1d", "null"), "rev": s.pick("1", "2", "3"), "created_by": s.pick("@auth.id", "null")}[name]
}

// aimed returns a condition and an order that an index has: values of the first fields, then perhaps a range, then the
// order of the others.
func (s *shelf) aimed(x schema.Index) (filter, sort string) {
	var terms, orders []string
	names := x.Fields
	if s.rng.IntN(3) == 0 { // a union of ranges of the index and others
		terms = append(terms, "("+s.choice(x)+")")
		names = names[1:]
	}
	for len(names) > 0 && s.rng.IntN(2) == 0 {
		name := names[0].Name
		if s.rng.IntN(3) == 0 {
			terms = append(terms, fmt.Sprintf("%s in (%s, %s)", name, s.literal(name), s.literal(name)))
		} else {
			terms = append(terms, name+" = "+s.literal(name))
		}
		if names = names[1:]; s.rng.IntN(4) == 0 {
			orders = append(orders, s.pick("", "-")+name)
		}
	}
	if len(names) > 0 && s.rng.IntN(2) == 0 {
		terms = append(terms, names[0].Name+" "+s.pick("<", "<=", ">", ">=")+" "+s.literal(names[0].Name))
	}
	if s.rng.IntN(4) == 0 {
		terms = append(terms, s.filter(0))
	}
	turned := s.rng.IntN(2) == 0
	for _, f := range names {
		sign := ""
		if f.Desc != turned {
			sign = "-"
		}
		if orders = append(orders, sign+f.Name); s.rng.IntN(4) == 0 {
			break
		}
	}
	return strings.Join(terms, " && "), strings.Join(orders, ",")
}

// choice returns a disjunction that begins with conditions on the first field of an index.
func (s *shelf) choice(x schema.Index) string {
	name := x.Fields[0].Name
	terms := []string{name + " = " + s.literal(name), name + " " + s.pick("<", ">", "=") + " " + s.literal(name) + " && " + s.filter(0)}
	for range s.rng.IntN(3) {
		other := name
		if all := s.c.Indexes; s.rng.IntN(2) == 0 {
			other = all[s.rng.IntN(len(all))].Fields[0].Name
		}
		terms = append(terms, s.pick(other+" = "+s.literal(other), other+" >= "+s.literal(other), `id = "r7"`, `id in ("r1", "r2", "r30")`, `id > "r3"`, `(id < "r12" || n = 1) && rev > 1`))
	}
	s.rng.Shuffle(len(terms), func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
	return strings.Join(terms, " || ")
}

// branches checks what is said of the parts of a union.
func (s *shelf) branches(t testing.TB, p *Plan, used map[string]int) {
	t.Helper()
	read := 0
	for _, b := range p.Branches {
		read += b.Read
		used["branch by "+b.Access]++
		if b.Access == "index" && len(b.Bounds) == 0 {
			t.Fatalf("a part of a union reads a whole index: %+v", p)
		}
	}
	if len(p.Branches) > 0 && read != p.Read || (p.Access == "union") != (len(p.Branches) > 0) {
		t.Fatalf("the parts of a union have read %d of %d records: %+v", read, p.Read, p)
	}
}

// indexes returns random indexes.
func (s *shelf) indexes() (all []schema.Index) {
	for i := range s.rng.IntN(6) {
		names := []string{"n", "s", "d", "b", "t", "f", "created", "updated", "rev", "created_by", "r"}
		s.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		x := schema.Index{Name: fmt.Sprint("x", i)}
		for _, name := range names[:1+s.rng.IntN(4)] {
			x.Fields = append(x.Fields, schema.IndexField{Name: name, Desc: s.rng.IntN(2) == 0})
		}
		all = append(all, x)
	}
	return all
}

// search returns a checked search, as a request makes one.
func (s *shelf) search(t testing.TB, filter, sort string, deleted query.Deleted) *Search {
	t.Helper()
	scope := query.Scope{Collection: s.c.Compiled, Other: func(string) *schema.Compiled { return s.c.Compiled }}
	var x expr.Expr
	var err error
	if filter != "" {
		if x, err = expr.Parse(filter); err != nil {
			t.Fatalf("%s: %v", filter, err)
		}
	}
	cond, err := query.Check(x, scope)
	if err != nil {
		t.Fatalf("%s: %v", filter, err)
	}
	orders, err := query.ParseOrders(sort, scope)
	if err != nil {
		t.Fatal(err)
	}
	env := &query.Env{Now: func() time.Time { return s.now }, Auth: query.Auth{ID: "u1"}, Follow: func(_, id string) (query.Row, error) {
		if d := s.docs[id]; d != nil && !d.Deleted && id != "r2" { // which may not be seen
			return d, nil
		}
		return nil, nil
	}}
	return &Search{Tests: []Test{{cond, env}}, Deleted: deleted, Orders: orders}
}

// model returns the ids of all records that a search finds, by asking each of them.
func (s *shelf) model(t testing.TB, q *Search) (ids []string) {
	t.Helper()
	var docs []*Doc
	for _, d := range s.docs {
		if ok, err := q.Tests[0].Cond.Holds(q.Tests[0].Env, d, nil); err != nil {
			t.Fatal(err)
		} else if ok && q.Deleted.Includes(d.Deleted) {
			docs = append(docs, d)
		}
	}
	slices.SortFunc(docs, func(a, b *Doc) int { return q.Orders.Compare(q.Orders.Key(a), q.Orders.Key(b)) })
	for _, d := range docs {
		ids = append(ids, d.ID)
	}
	return ids
}

// pages returns the ids of all records that a search finds, page by page, by a way; "" is the best.
func (s *shelf) pages(t testing.TB, tx engine.Tx, q Search, way string) (ids []string, p Plan) {
	t.Helper()
	for {
		page, err := s.find(tx, &q, way)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range page.Docs {
			ids = append(ids, d.ID)
		}
		if p = page.Plan; !page.More {
			return ids, p
		}
		if len(page.Docs) != q.Limit {
			t.Fatalf("a page of %d records, more follow, the limit is %d", len(page.Docs), q.Limit)
		}
		q.After = q.Orders.Key(page.Docs[len(page.Docs)-1])
	}
}

// find is Find by one way.
func (s *shelf) find(tx engine.Tx, q *Search, way string) (*Page, error) {
	if way == "" {
		return Find(tx, s.c, q)
	}
	f, err := newSearch(tx, s.c, q, MaxScan+q.Offset+q.Limit)
	if err != nil {
		return nil, err
	}
	f.ways = slices.DeleteFunc(f.ways, func(a *access) bool { return wayOf(a) != way })
	return f.find()
}

// wayOf returns a name for a way, the same for every page of a search.
func wayOf(a *access) string {
	switch {
	case a.index != nil:
		return fmt.Sprint("index ", a.index.ID, a.used)
	case a.parts == nil:
		return fmt.Sprint("documents", a.used)
	}
	return "union" // which one is the best may differ from page to page
}

// ways returns the names of all ways to the records of a search.
func (s *shelf) ways(t testing.TB, tx engine.Tx, q *Search, want int) (all []string) {
	t.Helper()
	f, err := newSearch(tx, s.c, q, MaxScan)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range f.ways {
		for _, p := range append(slices.Clip(a.parts), a) {
			if p.index != nil && !p.index.Ready {
				t.Fatalf("index %s is used before it is ready", p.index.Name)
			}
		}
		if _, ranked := tx.(engine.Ranker); ranked && a.whole && !a.byID && (a.count < want || a.parts == nil && a.count > want) {
			t.Fatalf("%d records, but the %d ranges of the exact %+v have %d", want, len(a.ranges), f.plan(a), a.count)
		}
		all = append(all, wayOf(a))
	}
	return append(all, "")
}

// check compares a random search, in all ways, with the model.
func (s *shelf) check(t testing.TB, used map[string]int) {
	t.Helper()
	filter, sort, deleted := s.filter(3), s.sort(), query.Deleted(s.rng.IntN(3))
	if x := s.c.Indexes; len(x) > 0 && s.rng.IntN(2) == 0 {
		filter, sort = s.aimed(x[s.rng.IntN(len(x))])
	} else if s.rng.IntN(8) == 0 {
		filter = ""
	}
	q := s.search(t, filter, sort, deleted)
	want := s.model(t, q)
	s.view(t, func(tx engine.Tx) {
		once, want := *q, slices.Clone(want) // the engine may run this again
		q := &once
		ways := s.ways(t, tx, q, len(want))
		for _, q.Limit = range []int{1, 2 + s.rng.IntN(8), 1000} {
			for _, way := range ways {
				got, plan := s.pages(t, tx, *q, way)
				if !slices.Equal(got, want) {
					t.Fatalf("%s sort %s, %v, pages of %d, way %s:\n got %v\nwant %v\n%+v\nindexes %+v", filter, sort, deleted, q.Limit, way, got, want, plan, s.c.Indexes)
				}
				used[fmt.Sprint(plan.Access, " sorted ", plan.Sorted, " backward ", plan.Backward, " ranges ", min(plan.Ranges, 2))]++
				s.branches(t, &plan, used)
			}
		}
		s.checkAfter(t, tx, *q, filter, sort, ways, want)
		q.Offset = s.rng.IntN(10)
		for _, way := range ways {
			if page, err := s.find(tx, q, way); err != nil || !slices.EqualFunc(page.Docs, want[min(q.Offset, len(want)):], func(d *Doc, id string) bool { return d.ID == id }) {
				t.Fatalf("%s sort %s, offset %d: %v, %v; want %v", filter, sort, q.Offset, page, err, want)
			}
		}
		n, plan, err := Count(tx, s.c, q)
		if err != nil || n != len(want) {
			t.Fatalf("%s, %v: count %d, %v; want %d; %+v", filter, deleted, n, err, len(want), plan)
		}
		used["count by "+plan.Access+fmt.Sprint(" exact ", plan.Exact)]++
		var each []string
		if _, err := Each(tx, s.c, q, func(d *Doc) error { each = append(each, d.ID); return nil }); err != nil {
			t.Fatal(err)
		}
		slices.Sort(each)
		slices.Sort(want)
		if !slices.Equal(each, want) {
			t.Fatalf("%s, %v: each %v, want %v", filter, deleted, each, want)
		}
	})
}

// checkAfter compares the page after a cursor that any record may have had: one that the search does not find, or that was
// deleted, or whose values were others than the conditions ask for now.
func (s *shelf) checkAfter(t testing.TB, tx engine.Tx, q Search, filter, sort string, ways, want []string) {
	t.Helper()
	ids := slices.Sorted(maps.Keys(s.docs))
	d := *s.docs[ids[s.rng.IntN(len(ids))]]
	d.ID = s.pick(d.ID, "r", "r2x", "zz", ids[0])
	q.After, q.Limit = q.Orders.Key(&d), 1000
	var after []string
	for _, id := range want {
		if q.Orders.Compare(q.Orders.Key(s.docs[id]), q.After) > 0 {
			after = append(after, id)
		}
	}
	for _, way := range ways {
		if got, plan := s.pages(t, tx, q, way); !slices.Equal(got, after) {
			t.Fatalf("%s sort %s, after %v, way %s:\n got %v\nwant %v\n%+v\nindexes %+v", filter, sort, q.After, way, got, after, plan, s.c.Indexes)
		}
	}
}

// found are the ways that TestFind must have gone.
var found = []string{
	"documents sorted false backward false ranges 1", "documents sorted false backward true ranges 1", "documents sorted true backward false ranges 1", "id sorted true backward false ranges 0", "index sorted true backward false ranges 1",
	"index sorted false backward false ranges 1", "index sorted false backward true ranges 1", "index sorted true backward false ranges 1", "index sorted false backward false ranges 2", "index sorted false backward true ranges 2", "index sorted true backward false ranges 2",
	"union sorted false backward false ranges 0", "union sorted true backward false ranges 0", "branch by id", "branch by index", "branch by documents",
	"count by union exact false",
	"count by counters exact false", "count by index exact true", "count by documents exact false", "count by index exact false", "count by id exact false",
}

// TestFind: whatever indexes there are, a search finds what a model finds, in its order, with pages of any size. It goes on
// until searches went all ways.
func TestFind(t *testing.T) {
	rng := seed.Rand(t)
	used := map[string]int{}
	missing := func(way string) bool { return used[way] == 0 }
	for shelves := 0; shelves < 6 || slices.ContainsFunc(found, missing); shelves++ {
		if shelves == 60 {
			t.Fatalf("not all ways were gone: %v", used)
		}
		checkShelf(t, rng, used)
	}
	t.Log(used)
}

// checkShelf checks random searches in a new collection, whose indexes and records change.
func checkShelf(t *testing.T, rng *rand.Rand, used map[string]int) {
	s := newShelf(t, rng)
	s.describe(t, &Collection{}, s.indexes())
	changes := func(n int) {
		before := s.docs
		s.update(t, func(tx engine.Tx) (err error) {
			s.docs = maps.Clone(before) // the engine may run this again
			for range n {
				err = errors.Join(err, s.change(t, tx))
			}
			return err
		})
	}
	changes(80)
	for range 20 {
		s.check(t, used)
	}
	s.describe(t, s.c, s.indexes()) // these are not ready
	changes(20)
	for range 10 {
		s.check(t, used)
	}
	for i := range s.c.stored {
		if x := &s.c.stored[i]; !x.Ready {
			s.update(t, func(tx engine.Tx) (err error) {
				for _, d := range s.docs {
					err = errors.Join(err, x.write(tx, s.c.ID, nil, d))
				}
				return err
			})
		}
	}
	s.c = s.c.complete()
	changes(20)
	for range 20 {
		s.check(t, used)
	}
}
