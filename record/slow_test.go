package record_test

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
)

// tasks is a collection without an index that helps anyone but those who ask for one team.
func tasks(indexes ...schema.Index) schema.Collection {
	return schema.Collection{Name: "tasks", Extra: true, Fields: []schema.Field{
		{Name: "state", Type: schema.Select, Options: []string{"open", "done", "late"}}, {Name: "n", Type: schema.Int}, {Name: "price", Type: schema.Decimal, Scale: 2}, {Name: "ratio", Type: schema.Float},
		{Name: "due", Type: schema.Time}, {Name: "owner", Type: schema.Text}, {Name: "team", Type: schema.Text}, {Name: "paid", Type: schema.Bool}, {Name: "tags", Type: schema.Select, Many: true, Options: []string{"a", "b"}}, {Name: "meta", Type: schema.JSON},
	}, Indexes: append([]schema.Index{record.By("team")}, indexes...), Rules: schema.Rules{List: "owner = @auth.id", View: "true"}}
}

const manyTasks = 600

// fillTasks creates tasks: of each 20, one is late; owners, prices and so on have 100 values each, and all are of two teams.
func fillTasks(t testing.TB, db *record.DB) {
	t.Helper()
	do(t, db, func(tx *record.Tx) error {
		for i := range manyTasks {
			state, k := []string{"open", "done"}[i%2], i*7%100
			if i%20 == 0 {
				state = "late"
			}
			data := fmt.Sprintf(`{"state":%q,"n":%d,"price":"%d.50","ratio":%d.5,"due":"2026-01-01T00:%02d:%02dZ","owner":"o%02d","team":"t%d","paid":%v,"tags":["a"],"meta":{"size":%d}}`, state, k, k, k, k/60, k%60, k, i%2, i%50 == 0, k)
			if _, err := tx.Create("tasks", fmt.Sprintf("t%04d", i), []byte(data)); err != nil {
				return err
			}
		}
		return nil
	})
}

// ask runs a query; it may be refused.
func ask(t testing.TB, db *record.DB, a record.Actor, params string) *record.Page {
	t.Helper()
	p, err := url.ParseQuery(strings.ReplaceAll(params, "&&", "%26%26"))
	must(t, err)
	var page *record.Page
	_, err = db.View(t.Context(), engine.Read{}, a, func(tx *record.Tx) error {
		q, err := tx.ParseQuery("tasks", p)
		if err == nil {
			page, err = tx.Find("tasks", q)
		}
		return err
	})
	if err != nil && engine.CodeOf(err) != record.CodeScan {
		t.Fatal(err)
	}
	return page
}

// slow returns the only slow query.
func slow(t testing.TB, db *record.DB) record.SlowQuery {
	t.Helper()
	all, err := db.SlowQueries(t.Context())
	must(t, err)
	if len(all) != 1 {
		t.Fatalf("%d slow queries: %+v", len(all), all)
	}
	return all[0]
}

// reopen returns a DB on the same engine that calls all queries slow.
func reopen(t testing.TB, eng engine.Engine, c schema.Collection) *record.DB {
	t.Helper()
	db := withCollections(t, eng, c)
	db.SetSlow(0, 0)
	return db
}

// indexText returns the indexes of an advice, as By reads them.
func indexText(a keys.Advice) string {
	var all []string
	for _, x := range a.Indexes {
		var names []string
		for _, f := range x.Fields {
			names = append(names, map[bool]string{true: "-"}[f.Desc]+f.Name)
		}
		all = append(all, strings.Join(names, ","))
	}
	return strings.Join(all, " ")
}

// TestAdvice: for each query the planner advises an index or says why it does not, and once there is the index it uses that.
func TestAdvice(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{})
	fillTasks(t, withCollections(t, eng, tasks()))
	ann := record.Actor{ID: "o07"}
	for _, c := range []struct {
		params, want string
		reason       keys.Reason
		actor        record.Actor
		guess        bool // a planner that cannot count would not use an index: it takes the order for more selective
	}{
		{params: `filter=owner="o07"`, want: "owner"},
		{params: `filter=price=7.5`, want: "price"},
		{params: `filter="o07"=owner`, want: "owner"},
		{params: `filter=owner="o07"&&state="late"`, want: "owner,state"},
		{params: `filter=owner in ("o01","o02","o03")`, want: "owner"},
		{params: `filter=state="late"&&n>90&sort=n`, want: "state,n"},
		{params: `filter=team="t1"&&owner="o07"`, want: "owner,team"},
		{params: `sort=-n&limit=5`, want: "-n"},
		{params: `sort=n,-due&limit=5`, want: "n,-due"},
		{params: `filter=state="open"&sort=-created&limit=3`, want: "state,-created"},
		{params: `filter=owner="o07"&aggregate=sum(n)`, want: "owner"},
		{params: `filter=owner="o07"&limit=0&count=true`, want: "owner"},
		{params: `filter=owner="o07"&&meta.size>90`, want: "owner"},
		{params: `filter=owner="o07"||n=99`, want: "owner n"},
		{params: `filter=is_deleted=false&&owner="o07"`, want: "owner"},
		{params: `filter=due>"2026-01-01T00:01:37Z"&sort=due`, want: "due"},
		{params: ``, want: "owner", actor: ann},
		{params: `filter=state="late"`, want: "owner,state", actor: record.Actor{ID: "o00"}},
		{params: `filter=n>98`, want: "n", guess: true},
		{params: `filter=n>98&&price<50&&paid`, want: "paid,n"},
		{params: `filter=n>50&sort=-due&limit=5`, want: "-due"},
		{params: `filter=n=7&sort=n&limit=1000`, want: "n"},
		{params: `filter=meta.size=7`, reason: keys.Unbounded},
		{params: `filter=tags ?= "b"`, reason: keys.Unbounded},
		{params: `filter=!(owner!="o07")`, reason: keys.Unbounded},
		{params: `filter=owner~"o07"`, reason: keys.Unbounded},
		{params: `filter=owner="o07"||meta.size=8`, reason: keys.Unbounded},
		{params: `filter=color="red"`, reason: keys.Unbounded},
		{params: `filter=owner="o07"&asof=2030-01-01T00:00:00Z`, reason: keys.InPast},
		{params: `limit=50`, reason: record.Enough},
		{params: `filter=team="t1"&limit=50`, reason: record.Enough},
	} {
		if c.actor.ID == "" {
			c.actor = record.Program()
		}
		name := c.params + " of " + c.actor.ID
		db := reopen(t, eng, tasks())
		ask(t, db, c.actor, c.params)
		x := slow(t, db)
		if recordengine.Tables() {
			if x.Advice.Reason != keys.OtherEngine && c.reason != keys.InPast || x.Access != "table" {
				t.Errorf("%s in tables: %+v", name, x)
			}
			continue
		}
		if c.guess && recordengine.Remote() {
			c.want, c.reason = "", keys.NoGain
		}
		if got := indexText(x.Advice); got != c.want || x.Advice.Reason != c.reason {
			t.Errorf("%s: advised %q, %q; want %q, %q; %+v", name, got, x.Advice.Reason, c.want, c.reason, x)
			continue
		}
		if len(x.Advice.Indexes) > 0 {
			used(t, eng, c.actor, c.params, name, x.Advice.Indexes)
		}
	}
}

// used fails unless a query uses some indexes once they are there.
func used(t *testing.T, eng engine.Engine, a record.Actor, params, name string, indexes []schema.Index) {
	t.Helper()
	var want []string
	for i := range indexes {
		indexes[i].Name = fmt.Sprint("advised_", i)
		want = append(want, indexes[i].Name)
	}
	for _, now := range []schema.Collection{tasks(indexes...), tasks()} {
		db := reopen(t, eng, now)
		_, err := db.Migrate(t.Context(), record.MigrateOptions{})
		must(t, err)
		finish(t, db)
		if len(now.Indexes) == 1 {
			return // as it was
		}
		ask(t, db, a, params)
		all, err := db.SlowQueries(t.Context())
		must(t, err)
		// An engine may have tried with the former indexes first.
		all = slices.DeleteFunc(all, func(x record.SlowQuery) bool { return x.Advice.Reason == keys.Exists })
		if len(all) != 1 {
			t.Fatalf("%s: %+v", name, all)
		}
		x := all[0]
		var got []string
		if x.Access == "index" {
			got = []string{x.Index}
		}
		do(t, db, func(tx *record.Tx) error {
			if x.Access != "union" {
				return nil
			}
			p, _ := url.ParseQuery(strings.ReplaceAll(params, "&&", "%26%26") + "&explain=true")
			q, err := tx.ParseQuery("tasks", p)
			if err != nil {
				return err
			}
			page, err := tx.Find("tasks", q)
			got = nil
			for _, b := range page.Plan.Branches {
				got = append(got, b.Index)
			}
			return err
		})
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: with the advised index it is found by %s %v, want %v", name, x.Access, got, want)
		}
		if x.Advice.Indexes != nil && len(x.Advice.Indexes) >= len(want) {
			t.Errorf("%s: with %v, more indexes are advised: %+v", name, want, x.Advice)
		}
	}
}

// TestSlowShapes: queries that differ in values only have one shape, and no value is kept.
func TestSlowShapes(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{})
	do(t, reopen(t, eng, tasks()), func(*record.Tx) error { return nil })
	for _, x := range []struct{ a, b, want string }{
		{`owner="xsecret1"`, `owner = "xsecret2"`, `owner = ?`},
		{`n>71234&&n<81234`, `n < 98761 and n > 91234`, `n > ? && n < ?`},
		{`owner in ("xsecret","ysecret","z")`, `owner in ("a","b","c","d")`, `owner in (?, ?, … 4)`},
		{`owner=null||n=71234`, `n=4||owner=null`, `owner = null || n = ?`},
		{`due>@now - 71234s`, `due > @now - 3d`, `due > @now - ?`},
		{`!(owner~"xsecret%")&&(n=71234||n=1)`, `!(owner~"b")&&(n=7||n=8)`, `!(owner ~ ?) && (n = ? || n = ?)`},
		{`meta.size=71234`, `meta.size=5`, `meta.size = ?`},
		{`tags ?= "a"`, `tags ?= "b"`, `tags ?= ?`},
		{`paid`, `paid=false`, `paid = ?`},
		{`71234<n`, `5<n`, `? < n`},
	} {
		other := reopen(t, eng, tasks())
		for _, filter := range []string{x.a, x.b} {
			ask(t, other, record.Program(), url.Values{"filter": {filter}}.Encode())
		}
		s := slow(t, other)
		if s.Filter != x.want || s.Runs < 2 || s.Collection != "tasks" || s.Last.IsZero() {
			t.Errorf("%s and %s: %+v, want %s", x.a, x.b, s, x.want)
		}
		if text := fmt.Sprintf("%+v", s); strings.Contains(text, "secret") || strings.Contains(text, "71234") {
			t.Errorf("a value is kept: %s", text)
		}
	}
	other := reopen(t, eng, tasks())
	for _, params := range []string{"filter=n=1", "filter=n=1&sort=-n", "filter=n=1&deleted=all", "filter=n=1&limit=0&count=true", "filter=n=1&aggregate=sum(n)&group=state", "filter=n=1||n=2"} {
		ask(t, other, record.Program(), params)
	}
	ask(t, other, record.Actor{ID: "secret"}, "filter=n=1")
	all, err := other.SlowQueries(t.Context())
	if must(t, err); len(all) != 7 {
		t.Errorf("%d shapes: %+v", len(all), all)
	}
	if !slices.ContainsFunc(all, func(x record.SlowQuery) bool { return x.Rule == "owner = ?" }) {
		t.Errorf("no shape has what the rules ask: %+v", all)
	}
}

// TestSlowBound: with very many shapes, those that cost most are kept, and new ones can become such.
func TestSlowBound(t *testing.T) {
	db := reopen(t, recordengine.Open(t, recordengine.Options{}), tasks())
	do(t, db, func(*record.Tx) error { return nil })
	_, err := db.View(t.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) error {
		note := func(name string, took time.Duration) error { return tx.Note("tasks", name+"=1", took) }
		err := note("costly", time.Hour)
		for i := range 10_000 {
			if err != nil {
				return err
			}
			err = note(fmt.Sprint("x", i), time.Millisecond)
			if i%100 == 0 {
				err = errors.Join(err, note("frequent", time.Second))
			}
		}
		long := strings.Repeat(`owner = "x" && `, 400) + "n = 1"
		return errors.Join(err, tx.Note("tasks", strings.ReplaceAll(long, `owner = "x"`, `meta.a`+strings.Repeat("b", 20)+` = "x"`), 2*time.Hour))
	})
	must(t, err)
	all, err := db.SlowQueries(t.Context())
	must(t, err)
	if len(all) != record.MaxSlowShapes {
		t.Errorf("%d shapes", len(all))
	}
	if all[0].Advice.Reason != record.TooLong && !recordengine.Tables() || len(all[0].Filter) > record.MaxShapeBytes+10 || all[1].Filter != "costly = ?" || all[2].Filter != "frequent = ?" || all[2].Runs < 100 {
		t.Errorf("the costliest shapes are %.200s, %+v, %+v", all[0].Filter, all[1], all[2])
	}
	for m := range db.Metrics() {
		if m.Name != "records_slow_queries_total" || m.Value < 10_102 {
			t.Errorf("metric %+v", m)
		}
	}
}

// TestSlowRefused: a query that is refused because it would read too much is slow.
func TestSlowRefused(t *testing.T) {
	if recordengine.Tables() {
		t.Skip("its server sorts")
	}
	db := withCollections(t, recordengine.Open(t, recordengine.Options{}), tasks())
	for range 10 {
		do(t, db, func(tx *record.Tx) error {
			for range 10 {
				if _, err := tx.Create("tasks", "", fmt.Appendf(nil, `{"owner":%q}`, strings.Repeat("x", 50_000))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	db.SetSlow(record.SlowReads, time.Hour)
	if page := ask(t, db, record.Program(), "sort=owner"); page != nil {
		t.Error("it is not refused")
	}
	if x := slow(t, db); x.Failed < 1 || x.Failed != x.Runs || x.Access != "documents" || !x.Sorted || indexText(x.Advice) != "owner" {
		t.Errorf("%+v", x)
	}
}

// TestSlowOnly: only slow queries and those that are refused are recorded.
func TestSlowOnly(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{})
	db := withCollections(t, eng, tasks())
	fillTasks(t, db)
	db.SetSlow(record.SlowReads, time.Hour)
	ask(t, db, record.Program(), `filter=meta.size=7`)
	if all, err := db.SlowQueries(t.Context()); len(all) != 0 || err != nil {
		t.Errorf("%+v, %v", all, err)
	}
	db.SetSlow(manyTasks/2, time.Hour)
	ask(t, db, record.Program(), `limit=500`)
	ask(t, db, record.Program(), `filter=owner~"none"`)
	if recordengine.Tables() {
		return // its server tests the condition
	}
	if x := slow(t, db); x.Read < manyTasks || x.Used != 0 || x.Failed != 0 || x.Most > x.Time {
		t.Errorf("%+v", x)
	}
	// The collection has other fields afterwards.
	other := tasks()
	other.Fields = slices.Clone(other.Fields)[1:]
	next := withCollections(t, eng, other)
	_, err := next.Migrate(t.Context(), record.MigrateOptions{AllowLoss: true})
	must(t, err)
	finish(t, next)
	if x := slow(t, db); x.Advice.Reason != record.Changed {
		t.Errorf("%+v", x.Advice)
	}
}

// TestSlowTogether: slow queries are recorded and looked at at the same time.
func TestSlowTogether(t *testing.T) {
	db := reopen(t, recordengine.Open(t, recordengine.Options{}), tasks())
	do(t, db, func(*record.Tx) error { return nil })
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 10 {
				_, err := db.View(t.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) error {
					return tx.Note("tasks", fmt.Sprintf("x%d = 1 && n = %d", j%3, i), time.Millisecond)
				})
				if err == nil {
					_, err = db.SlowQueries(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if list, err := db.SlowQueries(t.Context()); err != nil || len(list) != 3 || list[0].Runs+list[1].Runs+list[2].Runs < 40 {
		t.Errorf("%+v, %v", list, err)
	}
}
