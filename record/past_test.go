package record_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
)

// bodies returns the pages of a listing as JSON.
func bodies(t *testing.T, db *record.DB, a record.Actor, collection string, params url.Values) string {
	t.Helper()
	_, pages, err := list(t, db, a, collection, params.Encode())
	must(t, err)
	var parts []string
	for _, p := range pages {
		text := string(p.AppendJSON(nil))
		if p.Next != "" {
			text = strings.Replace(text, p.Next, "", 1) // a cursor belongs to one state
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n")
}

// renameTeam creates or changes one of two teams.
func renameTeam(tx *record.Tx, pick func(...string) string) error {
	team := pick("t1", "t2")
	if _, err := tx.Get("teams", team); err != nil {
		_, err := tx.Create("teams", team, fmt.Appendf(nil, `{"name":%q}`, pick("red", "blue")))
		return err
	}
	_, err := tx.Update("teams", team, fmt.Appendf(nil, `{"name":%q}`, pick("red", "blue", "green")), 0)
	return err
}

// changeGame creates, changes, deletes or restores one of the games, and returns how many changes that were.
func changeGame(tx *record.Tx, rng *rand.Rand, pick func(...string) string) (changes int, err error) {
	team := pick("t1", "t2")
	if _, err := tx.Get("teams", team); err != nil || rng.IntN(3) == 0 {
		team = ""
	}
	id, data := fmt.Sprint("g", rng.IntN(8)), fmt.Appendf(nil, `{"points":%d,"note":%q,"team":%q}`, rng.IntN(4), pick("a", "b", "ab"), team)
	data = []byte(strings.Replace(string(data), `""`, "null", 1))
	r, err := tx.Update("games", id, data, 0)
	switch {
	case errors.Is(err, record.ErrNotFound):
		if _, err = tx.Restore("games", id, 0); errors.Is(err, record.ErrNotFound) {
			_, err = tx.Create("games", id, data)
		}
		return 1, err
	case err != nil:
		return 0, err
	case r.Marks[keys.Updated].At.Equal(tx.Engine().Now()):
		changes++
	}
	if rng.IntN(4) == 0 {
		changes++
		_, err = tx.Delete("games", id, 0)
	}
	return changes, err
}

// TestPast: a query of the past finds what the same query found then, by the number of a change and by the time.
func TestPast(t *testing.T) {
	rng := seed.Rand(t)
	pick := func(all ...string) string { return all[rng.IntN(len(all))] }
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db, err := record.Open(recordengine.Open(t, recordengine.Options{Now: func() time.Time { return now }}), record.Options{})
	must(t, err)
	must(t, db.Define(
		schema.Collection{Name: "teams", Fields: []schema.Field{{Name: "name", Type: schema.Text}}},
		schema.Collection{Name: "games", Fields: []schema.Field{{Name: "points", Type: schema.Int}, {Name: "note", Type: schema.Text}, {Name: "team", Type: schema.Reference, Collection: "teams", OnDelete: schema.SetNull}},
			Indexes: []schema.Index{{Name: "by_points", Fields: []schema.IndexField{{Name: "points"}}}}}))
	type state struct {
		params url.Values
		at     time.Time
		seq    int
		want   string
	}
	var states []state
	seq := 0
	for range 60 {
		now = now.Add(time.Second)
		must(t, update(t, db, record.Program(), func(tx *record.Tx) error { return renameTeam(tx, pick) }))
		now = now.Add(time.Second)
		changes := 0
		must(t, update(t, db, record.Program(), func(tx *record.Tx) (err error) { changes, err = changeGame(tx, rng, pick); return err }))
		seq += changes
		s := state{params: url.Values{"sort": {pick("", "-points", "note,-created", "-updated")}, "limit": {pick("3", "1000")}, "deleted": {pick("live", "trash", "all")}, "count": {"true"},
			"filter": {pick("", "points > 1", `note ~ "a"`, `team.name = "red"`, `id = "g3" || points = 2`, "updated > created", `rev > 2 && team != null`)}, "expand": {pick("", "team", "team.games(team)", "team.games(team).team")}}, at: now, seq: seq}
		if rng.IntN(4) == 0 {
			s.params = url.Values{"aggregate": {"count,sum(points)"}, "group": {"note"}, "filter": s.params["filter"]}
		}
		s.want = bodies(t, db, record.Program(), "games", s.params)
		states = append(states, s)
	}
	for i, s := range states {
		moments := []string{s.at.Format(time.RFC3339Nano)}
		if s.seq > 0 && (i == 0 || states[i-1].seq < s.seq) { // the time of a change is that of the whole state
			moments = append(moments, fmt.Sprint(s.seq))
		}
		for _, m := range moments {
			s.params.Set("asof", m)
			if got := bodies(t, db, record.Program(), "games", s.params); got != s.want {
				t.Fatalf("state %d, %v:\n got %s\nwant %s", i, s.params, got, s.want)
			}
		}
	}
}

// TestPastUnderRules: the past is for actors who may see histories, without what was redacted or purged.
func TestPastUnderRules(t *testing.T) {
	db, err := record.Open(recordengine.Open(t, recordengine.Options{}), record.Options{})
	must(t, err)
	must(t, db.Define(
		schema.Collection{Name: "notes", Fields: []schema.Field{{Name: "text", Type: schema.Text}, {Name: "owner", Type: schema.Text}}, Rules: schema.Rules{List: "true", View: "true", History: "owner = @auth.id"}},
		schema.Collection{Name: "logs", Fields: []schema.Field{{Name: "text", Type: schema.Text}}, Rules: schema.Rules{List: "true", View: "true"}}))
	for _, op := range []func(tx *record.Tx) error{
		func(tx *record.Tx) error {
			_, err := tx.Create("notes", "a", []byte(`{"text":"secret of ann","owner":"ann"}`))
			return err
		},
		func(tx *record.Tx) error {
			_, err := tx.Create("notes", "b", []byte(`{"text":"secret of bob","owner":"bob"}`))
			return err
		},
		func(tx *record.Tx) error {
			_, err := tx.Create("notes", "c", []byte(`{"text":"purged","owner":"ann"}`))
			return err
		},
		func(tx *record.Tx) error {
			_, err := tx.Update("notes", "a", []byte(`{"text":"public"}`), 0)
			return err
		},
		func(tx *record.Tx) error {
			_, err := tx.Update("notes", "b", []byte(`{"text":"public"}`), 0)
			return err
		},
		func(tx *record.Tx) error { _, err := tx.Delete("notes", "c", 0); return err },
		func(tx *record.Tx) error { return tx.Purge("notes", "c", 0) },
	} {
		must(t, update(t, db, record.Program(), op))
	}
	ann := record.Actor{ID: "ann"}
	for _, c := range []struct{ params, want string }{{`asof=3`, "a"}, {`asof=3&filter=text~"secret"`, "a"}, {`asof=3&filter=text="public"`, ""}, {`asof=5&filter=text="public"`, "a"}, {`filter=text="public"`, "a b"}} {
		if ids, _, err := list(t, db, ann, "notes", c.params); err != nil || strings.Join(ids, " ") != c.want {
			t.Errorf("%s: %v, %v; want %s", c.params, ids, err, c.want)
		}
	}
	if _, _, err := list(t, db, ann, "logs", "asof=1"); !errors.Is(err, record.ErrRefused) {
		t.Errorf("anyone sees the past: %v", err)
	}
	_, err = db.View(t.Context(), engine.Read{}, ann, func(tx *record.Tx) error {
		_, err := tx.ParseQuery("notes", url.Values{"asof": {"-1"}})
		return err
	})
	if !errors.Is(err, record.ErrQuery) {
		t.Errorf("%v", err)
	}
}
