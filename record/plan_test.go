package record_test

import (
	"errors"
	"testing"

	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// TestPlan: a plan says what a migration would do and lose, in both directions, and changes nothing.
func TestPlan(t *testing.T) {
	t.Parallel()
	eng := recordengine.Open(t, recordengine.Options{})
	pins := schema.Collection{Name: "pins", Fields: []schema.Field{{Name: "x", Type: schema.Int}}}
	fill(t, withCollections(t, eng, notes(), pins), 0, 3)
	next := notes()
	next.Fields = next.Fields[:2]
	db := withCollections(t, eng, next)
	for range 2 {
		all, losses, err := db.Plan(t.Context(), record.MigrateOptions{})
		must(t, err)
		if len(all) != 2 || all[0].Undefined || !all[1].Undefined || len(all[0].Steps) != 1 || len(all[1].Steps) != 0 {
			t.Errorf("migrations: %+v", all)
		}
		if len(losses) != 1 || losses[0].Records != 3 || losses[0].IDs[0] != "n0" {
			t.Errorf("losses: %+v", losses)
		}
	}
	all, losses, err := db.Plan(t.Context(), record.MigrateOptions{AllowLoss: true, Down: true, Collections: []string{"notes"}})
	if err != nil || len(all) != 1 || len(all[0].Steps) != 0 || losses != nil {
		t.Errorf("nothing to take back: %+v, %+v, %v", all, losses, err)
	}
	_, err = db.Migrate(t.Context(), record.MigrateOptions{AllowLoss: true})
	must(t, err)
	if all, _, err = db.Plan(t.Context(), record.MigrateOptions{Down: true, Collections: []string{"notes"}}); err != nil || len(all) != 1 || len(all[0].Steps) != 1 {
		t.Errorf("to take back: %+v, %v", all, err)
	}
	if _, _, err := db.Plan(t.Context(), record.MigrateOptions{Collections: []string{"none"}}); !errors.Is(err, record.ErrUnknownCollection) {
		t.Errorf("an unknown collection: %v", err)
	}
	if has, err := db.HasTables(t.Context()); has != recordengine.Tables() || err != nil {
		t.Errorf("tables: %v, %v", has, err)
	}
}
