package tables_test

import (
	"net/url"
	"testing"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// TestGuess has two processes on one database. What one does to a collection is there in the next view of the other, which
// assumes at first that its collections are still those it used last.
func TestGuess(t *testing.T) {
	at := pgserver.Shared(t).Database(t)
	open := func(fields ...schema.Field) *record.DB {
		t.Helper()
		db, err := record.Open(openNativeAt(t, at, nil), record.Options{})
		if err == nil {
			all := schema.Rules{List: "true", View: "true", Create: "true", Update: "true", Delete: "true"}
			err = db.Define(schema.Collection{Name: "notes", Fields: fields, Rules: all})
		}
		if err == nil {
			_, err = db.Migrate(t.Context(), record.MigrateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	text := schema.Field{Name: "text", Type: schema.Text}
	older := open(text)
	if _, err := older.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
		_, err := tx.Create("notes", "a", []byte(`{"text":"x"}`))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	find := func(filter string) (found, runs int) {
		t.Helper()
		if _, err := older.View(t.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) error {
			runs++
			q, err := tx.ParseQuery("notes", url.Values{"filter": {filter}})
			if err != nil {
				return err
			}
			page, err := tx.Find("notes", q)
			if err == nil {
				found = len(page.Items)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return found, runs
	}
	for range 3 {
		if found, runs := find(`text = "x"`); found != 1 || runs != 1 {
			t.Fatalf("found %d records in %d runs, want 1 in 1", found, runs)
		}
	}
	open(text, schema.Field{Name: "more", Type: schema.Int})
	if found, runs := find("more = null"); found != 1 || runs != 2 {
		t.Errorf("after a migration by another process: found %d records in %d runs, want 1 in 2", found, runs)
	}
	if found, runs := find("more = null"); found != 1 || runs != 1 {
		t.Errorf("then: found %d records in %d runs, want 1 in 1", found, runs)
	}
}
