package record_test

import (
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// TestCollections: descriptions are listed before and after the first write has stored them, and as they are stored.
func TestCollections(t *testing.T) {
	t.Parallel()
	eng := recordengine.Open(t, recordengine.Options{})
	names := func(db *record.DB) (all []string) {
		list, err := db.Collections(t.Context(), engine.Read{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			all = append(all, c.Name+" "+c.Label)
		}
		return all
	}
	open := func(c ...schema.Collection) *record.DB {
		db, err := record.Open(eng, record.Options{})
		if err == nil {
			err = db.Define(c...)
		}
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	text := []schema.Field{{Name: "t", Type: schema.Text}}
	db := open(schema.Collection{Name: "b", Label: "old", Fields: text}, schema.Collection{Name: "a", Fields: text})
	for _, what := range []string{"before", "after"} {
		if got := names(db); len(got) != 2 || got[0] != "a " || got[1] != "b old" {
			t.Errorf("%s the first write: %q", what, got)
		}
		if _, err := db.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
			_, err := tx.Create("a", "", []byte(`{"t":"x"}`))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(open(schema.Collection{Name: "b", Label: "new", Fields: text}, schema.Collection{Name: "c", Fields: text})); len(got) != 3 || got[1] != "b old" || got[2] != "c " {
		t.Errorf("of another program: %q", got)
	}
}
