package keys

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// TestBounds: a value is within the bounds of a field if and only if it is within each of them.
func TestBounds(t *testing.T) {
	rng := seed.Rand(t)
	domain := []value.Value{{}, value.OfInt(0), value.OfInt(1), value.OfInt(2), value.OfInt(3)}
	for range 5_000 {
		var all []query.Bound
		for range 1 + rng.IntN(4) {
			x := query.Bound{Name: "n", Op: []expr.Op{expr.Equal, expr.Less, expr.LessEqual, expr.Greater, expr.GreaterEqual}[rng.IntN(5)], Values: []value.Value{domain[rng.IntN(5)]}}
			for x.Op == expr.Equal && rng.IntN(2) == 0 {
				x.Values = append(x.Values, domain[rng.IntN(5)])
			}
			all = append(all, x)
		}
		b, never := boundsOf(all)
		for _, v := range domain {
			want := true
			for _, x := range all {
				want = want && holds(v, x)
			}
			in := b["n"].within(v)
			if b["n"].equal {
				in = false
				for _, x := range b["n"].values {
					in = in || x == v
				}
			}
			if got := in && !never; got != want {
				t.Fatalf("%v within %+v: %v, want %v (%+v, never %v)", v, all, got, want, b["n"], never)
			}
		}
	}
}

// holds reports whether a value is within one bound.
func holds(v value.Value, x query.Bound) bool {
	for _, w := range x.Values {
		c := value.Compare(v, w)
		ordered := !v.IsNull() && !w.IsNull()
		if x.Op == expr.Equal && c == 0 || ordered && (x.Op == expr.Less && c < 0 || x.Op == expr.LessEqual && c <= 0 || x.Op == expr.Greater && c > 0 || x.Op == expr.GreaterEqual && c >= 0) {
			return true
		}
	}
	return false
}

// fill creates the records from a number up to another: n is the number, s has ten values and t is null.
func (s *shelf) fill(tb testing.TB, from, to int) {
	tb.Helper()
	for ; from < to; from += 2_000 {
		s.update(tb, func(tx engine.Tx) error {
			for i := from; i < min(to, from+2_000); i++ {
				d := &Doc{ID: fmt.Sprintf("r%06d", i), Marks: [Stamps]Mark{Created: {At: s.now}}}
				var err error
				if d.Data, err = s.c.Patch(schema.Data{}, fmt.Appendf(nil, `{"n":%d,"s":"s%d","d":"%d.5","b":%v}`, i, i%10, i%1000, i%2 == 0)); err != nil {
					return err
				}
				if err := Put(tx, s.c, nil, d, &Change{Op: Create, At: s.now}); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// TestScanTooLarge: a search reads MaxScan records and no more, and its error names the index that would help.
func TestScanTooLarge(t *testing.T) {
	s := newShelf(t, seed.Rand(t), schema.Index{Name: "by_s", Fields: []schema.IndexField{{Name: "s"}, {Name: "n", Desc: true}}})
	find := func(filter, sort string, limit int) (*Page, error) {
		q := s.search(t, filter, sort, query.Live)
		q.Limit = limit
		var page *Page
		_, err := s.eng.View(context.Background(), engine.Read{}, func(tx engine.Tx) (err error) { page, err = Find(tx, s.c, q); return err })
		return page, err
	}
	s.fill(t, 0, MaxScan)
	if page, err := find("d = 7.5 && b = false", "", 3); err != nil || len(page.Docs) != 3 {
		t.Errorf("%d records are too many: %v", MaxScan, err)
	}
	if page, err := find("b = false", "-d", 3); err != nil || page.Docs[0].ID != "r009999" || page.Plan.Read != MaxScan || !page.Plan.Sorted {
		t.Errorf("%d records are too many to sort: %+v, %v", MaxScan, page, err)
	}
	s.fill(t, MaxScan, MaxScan+20)
	const beyond = "the query would read more than 10000 records of c; "
	for _, c := range []struct{ filter, sort, want string }{
		{"d = -1 && b", "", beyond + "an index on (b, d) would help"}, {"d > 1000 && b", "-t", beyond + "an index on (b, d) would help"}, {"d = -1", "-t,n", beyond + "an index on (d, t desc, n) would help"},
		{"", "-t", beyond + "an index on (t desc) would help"}, {`s ~ "none"`, "", beyond + "no index would help; narrow the filter"}, {`s in ("s0","s1","s2","s3","s4","s5","s6","s7","s8","s9") && f = 0`, "", beyond + "an index on (f, s) would help"},
		{`s = "s3" && n = 5 || d = -1`, "-n", beyond + "an index on (d) would help"}, {`s = "s11" || b && (d > 2000 || d = -1)`, "", beyond + "an index on (b, d) would help"}, {`b && (d = -1 || s ~ "none")`, "", beyond + "an index on (b) would help"},
	} {
		_, err := find(c.filter, c.sort, 3)
		if e, ok := errors.AsType[*ScanError](err); !ok || e.Error() != c.want {
			t.Errorf("%s sort %s: %v\nwant %s", c.filter, c.sort, err, c.want)
		}
	}
	for _, c := range []struct {
		filter, sort string
		read         int
	}{{`s = "s3"`, "-n", 4}, {`s = "s3"`, "n", 4}, {`s in ("s3","s4")`, "s,-n", 5}, {"", "s,-n,-id", 4}, {"", "-s,n", 4}, {`s = "s3" && n < 1000 && n > 900`, "t", 10}, {`s = "s3" && b = false`, "-n", 4}, {`id = "r000007"`, "-t", 1},
		{`s = "s3" || s = "s4" && n < 5000`, "-n", 6}, {`s = "s3" || s = "s4" && n < 5000`, "n,id", 6}, {`s = "s3" && n > 9900 || id = "r000001" || s = "s3" && n > 9950`, "d", 20}, {"b = false", "", 8}, {"", "-id", 4}} {
		page, err := find(c.filter, c.sort, 3)
		if err != nil || len(page.Docs) > 3 || page.Plan.Read > c.read {
			t.Errorf("%s sort %s: %+v, %v; want at most %d read", c.filter, c.sort, page, err, c.read)
		}
	}
	many := s.c
	s.c = s.c.Next(s.c.Compiled)
	for i := range s.c.stored {
		s.c.stored[i].Ready = false
	}
	if _, err := find(`s = "s3"`, "", 3); err != nil {
		t.Errorf("a scan that finds three records soon: %v", err)
	}
	if _, err := find(`s = "s11"`, "", 3); err == nil || !strings.HasSuffix(err.Error(), "the index by_s will help once it is built") {
		t.Errorf("%v", err)
	}
	s.c = many
}

// TestBudgets: counting and aggregates stop beyond their limit, and large records end a page early.
func TestBudgets(t *testing.T) {
	s := newShelf(t, seed.Rand(t))
	s.fill(t, 0, 60)
	q := s.search(t, "d != 3.5", "", query.Live)
	all := *q
	all.everything = true
	s.view(t, func(tx engine.Tx) {
		for _, c := range []struct {
			budget int
			ok     bool
		}{{60, true}, {59, false}} {
			f, err := newSearch(tx, s.c, &all, c.budget)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			_, err = f.each(func(*Doc) error { n++; return nil })
			if _, tooMany := errors.AsType[*ScanError](err); tooMany == c.ok || c.ok && n != 59 {
				t.Errorf("with a budget of %d: %d records, %v", c.budget, n, err)
			}
		}
		broken := errors.New("broken")
		if _, err := Each(tx, s.c, q, func(*Doc) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
	})
	large := strings.Repeat("x", 1<<20-100)
	s.update(t, func(tx engine.Tx) error {
		for i := range 6 {
			d := &Doc{ID: fmt.Sprintf("x%02d", i)}
			var err error
			if d.Data, err = s.c.Patch(schema.Data{}, fmt.Appendf(nil, `{"s":%q,"n":%d}`, large, i)); err == nil {
				err = Put(tx, s.c, nil, d, &Change{Op: Create, At: s.now})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	s.view(t, func(tx engine.Tx) {
		for _, sort := range []string{"id", "-n"} {
			q := s.search(t, `id > "x"`, sort, query.Live)
			q.Limit = 100
			page, err := Find(tx, s.c, q)
			if err != nil || len(page.Docs) != 5 || !page.More {
				t.Errorf("sort %s: %d records of a MiB on a page, %v", sort, len(page.Docs), err)
			}
		}
		q := s.search(t, `id > "x"`, "s", query.Live)
		q.Limit = 3
		if _, err := Find(tx, s.c, q); err == nil {
			t.Error("six texts of a MiB are sorted")
		}
	})
}
