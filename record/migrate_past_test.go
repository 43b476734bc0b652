package record_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// paper is a collection before and after a migration that renames by to author, removes old and secret, and makes n a
// text and code a number.
func paper(migrated bool) schema.Collection {
	c := schema.Collection{Name: "papers", Fields: []schema.Field{{Name: "title", Type: schema.Text}, {Name: "by", Type: schema.Text}, {Name: "n", Type: schema.Int},
		{Name: "code", Type: schema.Text}, {Name: "old", Type: schema.Text}, {Name: "secret", Type: schema.Password}},
		Indexes: []schema.Index{{Name: "by_n", Fields: []schema.IndexField{{Name: "n"}, {Name: "by"}}}}}
	if migrated {
		c.Fields = []schema.Field{c.Fields[0], {Name: "author", Type: schema.Text, Was: []string{"by"}}, {Name: "n", Type: schema.Text}, {Name: "code", Type: schema.Int}}
		c.Indexes = []schema.Index{{Name: "by_n", Fields: []schema.IndexField{{Name: "n"}, {Name: "author"}}}}
	}
	return c
}

// archive is an engine with papers, whose clock moves by a second with each change.
type archive struct {
	t   *testing.T
	eng engine.Engine
	*record.DB
	now   time.Time
	since time.Time // when eve began
}

func (a *archive) open(c schema.Collection) {
	a.t.Helper()
	var err error
	a.DB, err = record.Open(a.eng, record.Options{Passwords: plain{}})
	must(a.t, err)
	must(a.t, a.Define(c))
}

func (a *archive) as(id string, fn func(tx *record.Tx) error) {
	a.t.Helper()
	a.now = a.now.Add(time.Second)
	must(a.t, update(a.t, a.DB, record.Actor{ID: id, System: true}, fn))
}

func (a *archive) set(by, id, patch string) {
	a.t.Helper()
	a.as(by, func(tx *record.Tx) error { return ignore(tx.Update("papers", id, []byte(patch), 0)) })
}

// openArchive writes papers as ann and eve, in revisions 1 and 2, migrates, and lets bob write the title of each in the
// next revision. With rewritten, a migration has written the records anew before that.
func openArchive(t *testing.T, rewritten bool) *archive {
	a := &archive{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	a.eng = recordengine.Open(t, recordengine.Options{Memory: true, Now: func() time.Time { return a.now }})
	a.open(paper(false))
	for id, data := range map[string]string{"a": `{"title":"A","by":"ann","n":1,"code":"7","old":"o","secret":"s"}`, "b": `{"title":"B","by":"ann","n":2,"code":"8","old":"p"}`} {
		a.as("ann", func(tx *record.Tx) error { return ignore(tx.Create("papers", id, []byte(data))) })
	}
	a.now = a.now.Add(time.Second)
	a.since = a.now
	a.set("eve", "a", `{"by":"eve","n":5,"old":"q"}`)
	a.set("eve", "b", `{"code":"9"}`)
	a.open(paper(true))
	_, err := a.Migrate(t.Context(), record.MigrateOptions{AllowLoss: true})
	must(t, err)
	if rewritten {
		finish(t, a.DB)
	}
	for _, id := range []string{"a", "b"} {
		a.set("bob", id, `{"title":"of bob"}`)
	}
	return a
}

// eachArchive runs a test before and after records are rewritten by a migration, and checks that everything agrees.
func eachArchive(t *testing.T, test func(t *testing.T, a *archive)) {
	for _, rewritten := range []bool{false, true} {
		t.Run(fmt.Sprint("rewritten=", rewritten), func(t *testing.T) {
			a := openArchive(t, rewritten)
			test(t, a)
			finish(t, a.DB)
			sound(t, a.eng, a.DB, "papers")
		})
	}
}

// data returns the data of a record as JSON, as it is or was.
func data(tx *record.Tx, id string, m record.Moment) (string, error) {
	r, err := tx.GetAsOf("papers", id, m)
	if m == (record.Moment{}) {
		r, err = tx.Get("papers", id)
	}
	if err != nil {
		return "", err
	}
	return string(r.Collection().AppendPublic(nil, r.Data)), nil
}

// TestPastOfMigrated: records and queries of the past have today's names and types, and nothing of fields that are gone.
func TestPastOfMigrated(t *testing.T) {
	eachArchive(t, func(t *testing.T, a *archive) {
		do(t, a.DB, func(tx *record.Tx) error {
			for rev, want := range map[uint64]string{1: `{"title":"A","author":"ann","n":"1","code":7}`, 2: `{"title":"A","author":"eve","n":"5","code":7}`} {
				if got, err := data(tx, "a", record.Moment{Rev: rev}); err != nil || got != want {
					t.Errorf("revision %d: %s, %v; want %s", rev, got, err, want)
				}
			}
			return nil
		})
		for params, want := range map[string]string{`asof=2&filter=author="ann"`: "a b", `asof=3&filter=author="ann"`: "b", `asof=3&filter=n="5"`: "a", `asof=3&filter=code>7`: "b", `asof=4&filter=code=9`: "b", `filter=author="eve"`: "a", `filter=n="5" %26%26 author="eve"`: "a"} {
			ids, pages, err := list(t, a.DB, record.Program(), "papers", params+"&sort=id")
			if got := strings.Join(ids, " "); err != nil || got != want {
				t.Errorf("%s: %s, %v; want %s", params, got, err, want)
			}
			for _, p := range pages {
				if text := string(p.AppendJSON(nil)); strings.Contains(text, `"old"`) || strings.Contains(text, `"secret"`) {
					t.Errorf("%s shows a field that is gone: %s", params, text)
				}
			}
		}
		_, err := a.View(t.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) error {
			_, err := tx.ParseQuery("papers", url.Values{"asof": {"2"}, "filter": {`by = "ann"`}})
			return err
		})
		if !errors.Is(err, record.ErrQuery) {
			t.Errorf("a filter by a name of the past: %v", err)
		}
	})
}

// TestHistoryOfMigrated: the history keeps what was written, except passwords, also of fields that are gone.
func TestHistoryOfMigrated(t *testing.T) {
	eachArchive(t, func(t *testing.T, a *archive) {
		do(t, a.DB, func(tx *record.Tx) error {
			all, err := tx.History("papers", "a", 0, 100)
			if err != nil {
				return err
			}
			first := string(all[len(all)-1].Patch)
			if !strings.Contains(first, `{"op":"add","path":"/by","value":"ann"}`) || !strings.Contains(first, `{"op":"add","path":"/old","value":"o"}`) {
				t.Errorf("the creation is %s", first)
			}
			text, err := json.Marshal(all)
			if strings.Contains(string(text), "sha256") {
				t.Errorf("the history shows a password: %s", text)
			}
			return err
		})
	})
}

// TestRevertMigrated: a record gets back what it was before the migration, under today's names.
func TestRevertMigrated(t *testing.T) {
	eachArchive(t, func(t *testing.T, a *archive) {
		a.as("ann", func(tx *record.Tx) error { return ignore(tx.Revert("papers", "a", 1, 0)) })
		do(t, a.DB, func(tx *record.Tx) error {
			got, err := data(tx, "a", record.Moment{})
			if want := `{"title":"A","author":"ann","n":"1","code":7}`; got != want {
				t.Errorf("%s, want %s", got, want)
			}
			return err
		})
	})
}

// TestUndoMigrated: a user's changes before a migration can be taken back after it, also where other users have changed
// other fields since, by which the records were written in today's form.
func TestUndoMigrated(t *testing.T) {
	eachArchive(t, func(t *testing.T, a *archive) {
		all, err := a.Undo(t.Context(), record.Program(), "eve", a.since, false)
		must(t, err)
		var got []string
		for _, u := range all {
			got = append(got, u.String())
		}
		slices.Sort(got)
		if want := "papers a: update author, n\npapers b: update code"; strings.Join(got, "\n") != want {
			t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), want)
		}
		do(t, a.DB, func(tx *record.Tx) error {
			for id, want := range map[string]string{"a": `{"title":"of bob","author":"ann","n":"1","code":7}`, "b": `{"title":"of bob","author":"ann","n":"2","code":8}`} {
				if got, err := data(tx, id, record.Moment{}); err != nil || got != want {
					t.Errorf("%s: %s, %v; want %s", id, got, err, want)
				}
			}
			return nil
		})
	})
}

// TestUndoChangeMigrated: a later change of the same field, under its new name, is a conflict. So is a value that the
// field cannot have any more.
func TestUndoChangeMigrated(t *testing.T) {
	a := openArchive(t, true)
	a.set("bob", "a", `{"author":"bob"}`)
	a.as("bob", func(tx *record.Tx) error {
		u, err := tx.UndoChange("papers", "a", 2)
		if want := "papers a: not undone: someone else has since changed author"; err == nil && u.String() != want {
			t.Errorf("%v, want %s", u, want)
		}
		return err
	})
	first := schema.Collection{Name: "papers", Fields: []schema.Field{{Name: "code", Type: schema.Text}}}
	a = &archive{t: t, eng: recordengine.Open(t, recordengine.Options{Memory: true})}
	a.open(first)
	a.as("ann", func(tx *record.Tx) error { return ignore(tx.Create("papers", "a", []byte(`{"code":"x"}`))) })
	a.set("eve", "a", `{"code":"9"}`)
	first.Fields[0].Type = schema.Int
	a.open(first)
	_, err := a.Migrate(t.Context(), record.MigrateOptions{})
	must(t, err)
	a.as("bob", func(tx *record.Tx) error {
		u, err := tx.UndoChange("papers", "a", 2)
		if want := "papers a: not undone: code cannot have the value that it had"; err == nil && u.String() != want {
			t.Errorf("%v, want %s", u, want)
		}
		return err
	})
	finish(t, a.DB)
	sound(t, a.eng, a.DB, "papers")
}
