package record_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// TestPasswordsOfATransaction: users set only so many passwords at once, whatever the runs of the transaction, and none is
// hashed before it is known that there are too many. The program sets any number.
func TestPasswordsOfATransaction(t *testing.T) {
	hashed := 0
	db := openHashing(t, func(context.Context, string) error { hashed++; return nil })
	create := func(a record.Actor, n int, password string) error {
		hashed = 0
		return update(t, db, a, func(tx *record.Tx) error {
			for i := range n {
				if _, err := tx.Create("people", "", fmt.Appendf(nil, `{"secret":%q}`, strings.ReplaceAll(password, "#", fmt.Sprint(i)))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	ann := record.Actor{ID: "ann"}
	if err := create(ann, record.MaxPasswords, "p#"); err != nil || hashed != record.MaxPasswords {
		t.Errorf("%d passwords: %v, %d hashed", record.MaxPasswords, err, hashed)
	}
	if err := create(ann, record.MaxPasswords+1, "p#"); !errors.Is(err, engine.ErrLimit) || hashed != 0 {
		t.Errorf("a password too many: %v, %d hashed", err, hashed)
	}
	if err := create(ann, record.MaxPasswords+1, "same"); err != nil || hashed != 1 {
		t.Errorf("the same password often: %v, %d hashed", err, hashed)
	}
	if err := create(record.Program(), 3*record.MaxPasswords, "p#"); err != nil || hashed != 3*record.MaxPasswords {
		t.Errorf("the program: %v, %d hashed", err, hashed)
	}
	hashed = 0
	err := update(t, db, ann, func(tx *record.Tx) error { // other passwords in each run
		for range record.MaxPasswords/2 + 1 {
			if _, err := tx.Create("people", "", fmt.Appendf(nil, `{"secret":"q%d-%p"}`, hashed, tx)); err != nil {
				return err
			}
			hashed++
		}
		return nil
	})
	if !errors.Is(err, engine.ErrLimit) {
		t.Errorf("other passwords in each run: %v", err)
	}
}

func openHashing(t *testing.T, during func(context.Context, string) error) *record.DB {
	t.Helper()
	db, err := record.Open(recordengine.Open(t, recordengine.Options{}), record.Options{Passwords: plain{during}})
	must(t, err)
	must(t, db.Define(schema.Collection{Name: "people", Rules: schema.Rules{Create: "true"}, Fields: []schema.Field{{Name: "secret", Type: schema.Password}}}))
	return db
}

// TestStrangersHashing: strangers cannot fill the queue of passwords that are to be hashed.
func TestStrangersHashing(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	db := openHashing(t, func(_ context.Context, password string) error {
		if password == "slow" {
			begun <- struct{}{}
			<-goOn
		}
		return nil
	})
	create := func(a record.Actor, password string) error {
		return update(t, db, a, func(tx *record.Tx) error {
			_, err := tx.Create("people", "", fmt.Appendf(nil, `{"secret":%q}`, password))
			return err
		})
	}
	var strangers sync.WaitGroup
	for range record.MaxStrangersHashing {
		strangers.Go(func() {
			if err := create(record.Actor{}, "slow"); err != nil {
				t.Errorf("a stranger: %v", err)
			}
		})
		<-begun
	}
	if err := create(record.Actor{}, "quick"); !errors.Is(err, engine.ErrQueueFull) {
		t.Errorf("a stranger too many: %v", err)
	}
	if err := errors.Join(create(record.Actor{ID: "ann"}, "quick"), create(record.Program(), "quick")); err != nil {
		t.Errorf("a user and the program meanwhile: %v", err)
	}
	close(goOn)
	strangers.Wait()
	if err := create(record.Actor{}, "quick"); err != nil {
		t.Errorf("a stranger afterwards: %v", err)
	}
}

// league is a DB with games of 100 teams, and secrets of theirs that nobody may see.
func league(t *testing.T, games int) *record.DB {
	t.Helper()
	open := schema.Rules{List: "true", View: "true", History: "true"}
	db := openWith(t, recordengine.Options{Memory: true},
		schema.Collection{Name: "teams", Rules: open, Fields: []schema.Field{{Name: "name", Type: schema.Text}}},
		schema.Collection{Name: "games", Rules: open, Fields: []schema.Field{{Name: "n", Type: schema.Int}, {Name: "team", Type: schema.Reference, Collection: "teams"}}},
		schema.Collection{Name: "secrets", Rules: schema.Rules{List: "n = -1", View: "n = -1"}, Fields: []schema.Field{{Name: "n", Type: schema.Int}, {Name: "team", Type: schema.Reference, Collection: "teams"}}})
	do(t, db, func(tx *record.Tx) error {
		for i := range 100 {
			if _, err := tx.Create("teams", fmt.Sprintf("t%02d", i), []byte(`{"name":"x"}`)); err != nil {
				return err
			}
			for range 30 {
				if _, err := tx.Create("secrets", "", fmt.Appendf(nil, `{"n":1,"team":"t%02d"}`, i)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	addGames(t, db, 0, games)
	return db
}

func addGames(t *testing.T, db *record.DB, from, to int) {
	t.Helper()
	do(t, db, func(tx *record.Tx) error {
		for i := from; i < to; i++ {
			if _, err := tx.Create("games", fmt.Sprintf("g%06d", i), fmt.Appendf(nil, `{"n":%d,"team":"t%02d"}`, i, i%100)); err != nil {
				return err
			}
		}
		return nil
	})
}

// find returns one page of a collection.
func find(t *testing.T, db *record.DB, a record.Actor, collection, params string) (page *record.Page, err error) {
	t.Helper()
	p, err := url.ParseQuery(params)
	must(t, err)
	_, err = db.View(t.Context(), engine.Read{}, a, func(tx *record.Tx) error {
		q, err := tx.ParseQuery(collection, p)
		if err == nil {
			page, err = tx.Find(collection, q)
		}
		return err
	})
	return page, err
}

// TestLimitsOfQueries: what one query of a user reads is bounded in each of its parts, also for users who may list all. The
// program has higher limits.
func TestLimitsOfQueries(t *testing.T) {
	db := league(t, record.MaxCounted)
	ann := record.Actor{ID: "ann"}
	const counted = "count=true&limit=1&filter=n!=-1"
	count := func(a record.Actor, total int, atLeast bool) {
		t.Helper()
		page, err := find(t, db, a, "games", counted)
		if err != nil || page.Total != total || page.AtLeast != atLeast {
			t.Errorf("%q counts %+v, %v; want %d, %v", a.ID, page, err, total, atLeast)
		} else if got := strings.Contains(string(page.AppendJSON(nil)), fmt.Sprintf(`"total":%d,"total_at_least":true`, total)); got != atLeast {
			t.Errorf("%s", page.AppendJSON(nil))
		}
	}
	count(ann, record.MaxCounted, false)
	if _, err := find(t, db, ann, "games", "aggregate=sum(n)&filter=n!=-1"); err != nil {
		t.Errorf("a sum of %d records: %v", record.MaxCounted, err)
	}
	addGames(t, db, record.MaxCounted, record.MaxCounted+1)
	count(ann, record.MaxCounted, true)
	count(record.Program(), record.MaxCounted+1, false)
	if page, err := find(t, db, ann, "games", "count=true&limit=0"); err != nil || page.Total != record.MaxCounted+1 || page.AtLeast {
		t.Errorf("a count without reading: %+v, %v", page, err)
	}
	many := strings.TrimSuffix(strings.Repeat(`team.name="y"||team.name="z"||`, 6), "||") // more references than MaxFollowed for all records
	for _, c := range []struct{ collection, params, want string }{
		{"games", "aggregate=sum(n)&filter=n!=-1", "more than 10000 records of games"},
		{"games", "asof=2&sort=n&filter=n=-1", "more than 2000 records of games"},
		{"games", "asof=2&offset=2001", "skips at most 2000 records"},
		{"games", "filter=" + url.QueryEscape("n<9990&&("+many+")"), "more than 100000 references"},
		{"games", "limit=1000&expand=" + url.QueryEscape("team.secrets(team)"), "more than 20000 records"},
	} {
		if recordengine.Tables() && strings.Contains(c.params, "expand") {
			continue // PostgreSQL looks at the rule, and no record is read that it does not show
		}
		if _, err := find(t, db, ann, c.collection, c.params); engine.CodeOf(err) != record.CodeScan || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: %v; want %s", c.params, err, c.want)
		}
		if _, err := find(t, db, record.Program(), c.collection, c.params); err != nil && strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s of the program: %v", c.params, err)
		}
	}
	for _, params := range []string{"asof=10001&limit=1000&offset=1000", "filter=" + url.QueryEscape("n<8000&&("+many+")"), "limit=600&expand=" + url.QueryEscape("team.secrets(team)")} {
		if _, err := find(t, db, ann, "games", params); err != nil {
			t.Errorf("%.60s: %v", params, err)
		}
	}
}

// TestLimitsOfSubscriptions: the state and what a subscription resumes with are bounded in bytes, and so is what its filter
// does for each change.
func TestLimitsOfSubscriptions(t *testing.T) {
	h := openHouse(t, recordengine.Open(t, recordengine.Options{Memory: true}), feed.Options{})
	ann := record.Actor{ID: "ann"}
	r := h.subscribe(ann, record.Subscription{}, "orders/*")
	r.want("")
	h.create("orders", "a", `{}`)
	r.want("create orders/a")
	first := r.last
	large := strings.Repeat("x", 1<<20-200)
	topics := []string{"orders/a"}
	for i := range record.MaxReplayedBytes>>20 + 1 {
		id := fmt.Sprint("r", i)
		h.create("orders", id, fmt.Sprintf(`{"title":%q}`, large))
		topics = append(topics, "orders/"+id)
	}
	h.catchUp(h.do(func(*record.Tx) error { return nil })) // a subscription receives what the hub has not seen yet as events, whatever their size
	resumed := h.subscribe(ann, record.Subscription{Resume: first, Limit: 1}, "orders/*")
	if m, err := resumed.Next(t.Context()); err != nil || m.State == nil {
		t.Errorf("beyond the limit of bytes a subscription resumes with events: %v", err)
	}
	_, err := h.Subscribe(t.Context(), ann, with(t, record.Subscription{}, topics...))
	if engine.CodeOf(err) != record.CodeTooLarge {
		t.Errorf("the state of %d large records: %v", len(topics), err)
	}
	h.subscribe(ann, record.Subscription{}, topics[:8]...)
	filter := func(n int) string {
		var terms []string
		for i := range n {
			terms = append(terms, fmt.Sprintf("team.name=%q", fmt.Sprint(i)))
		}
		return strings.Join(terms, "||")
	}
	sub := record.Subscription{Filter: filter(record.MaxFollowing + 1)}
	if _, err := h.Subscribe(t.Context(), record.Actor{Roles: []string{"red"}}, with(t, sub, "plans/*")); engine.CodeOf(err) != record.CodeTooLarge {
		t.Errorf("a filter that follows too many references: %v", err)
	}
	h.subscribe(record.Program(), sub, "plans/*")
	h.subscribe(record.Actor{Roles: []string{"red"}}, record.Subscription{Filter: filter(record.MaxFollowing)}, "plans/*")
}

// TestLargeExpansions: expansions do not make a page of small records large, whether the records that they add are many or the
// same.
func TestLargeExpansions(t *testing.T) {
	db := league(t, 0)
	for i := range 20 { // not at once: that is more than one transaction may write on some engines
		do(t, db, func(tx *record.Tx) error {
			return ignore(tx.Update("teams", fmt.Sprintf("t%02d", i), fmt.Appendf(nil, `{"name":%q}`, strings.Repeat("x", 1<<20-100)), 0))
		})
	}
	addGames(t, db, 0, 20)
	for i, filter := range []string{"id!=null", `team="t00"`} {
		if i == 1 {
			do(t, db, func(tx *record.Tx) error {
				for i := range 20 {
					if _, err := tx.Update("games", fmt.Sprintf("g%06d", i), []byte(`{"team":"t00"}`), 0); err != nil {
						return err
					}
				}
				return nil
			})
		}
		params := "expand=team&filter=" + url.QueryEscape(filter)
		if _, err := find(t, db, record.Actor{ID: "ann"}, "games", params+"&limit=20"); engine.CodeOf(err) != record.CodeTooLarge {
			t.Errorf("%s: 20 large records: %v", filter, err)
		}
		if page, err := find(t, db, record.Actor{ID: "ann"}, "games", params+"&limit=15"); err != nil || len(page.Items) != 15 {
			t.Errorf("%s: 15 large records: %v", filter, err)
		}
		if _, err := find(t, db, record.Program(), "games", params+"&limit=20"); err != nil {
			t.Errorf("%s: 20 large records for the program: %v", filter, err)
		}
	}
}

// TestResumeReadsSoMuch: a subscription that resumes looks at a bounded number of changes, of whatever the store has, and
// begins with the state if there are more.
func TestResumeReadsSoMuch(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{Memory: true})
	h := openHouse(t, eng, feed.Options{})
	ann := record.Actor{ID: "ann"}
	r := h.subscribe(ann, record.Subscription{}, "orders/*")
	r.want("")
	h.create("orders", "a", `{}`)
	r.want("create orders/a")
	first := r.last
	other := func(n int) {
		_, err := engine.UpdateEach(t.Context(), eng, n, func(tx engine.Tx, _ int) error { return tx.Put([]byte{1, 1}, []byte("x")) })
		must(t, err)
	}
	other(record.MaxReplayRead - 100)
	h.patch("orders", "a", `{"n":1}`)
	r.want("update orders/a") // the hub has come so far
	resumed := h.subscribe(ann, record.Subscription{Resume: first}, "orders/*")
	resumed.has["orders/a"] = ""
	resumed.want("update orders/a")
	other(100)
	h.patch("orders", "a", `{"n":2}`)
	r.want("update orders/a")
	h.subscribe(ann, record.Subscription{Resume: first}, "orders/*").want("state orders/a")
}
