package record_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
)

// TestLongCursor: a page that a cursor cannot continue is refused, instead of the cursor.
func TestLongCursor(t *testing.T) {
	db, err := record.Open(recordengine.Open(t, recordengine.Options{}), record.Options{})
	must(t, err)
	must(t, db.Define(schema.Collection{Name: "texts", Fields: []schema.Field{{Name: "text", Type: schema.Text, Max: "20000"}}}))
	fill := func(size int) {
		must(t, update(t, db, record.Program(), func(tx *record.Tx) error {
			for i := range 3 {
				data := fmt.Appendf(nil, `{"text":"%d%s"}`, i, strings.Repeat("x", size))
				if _, err := tx.Update("texts", fmt.Sprint(i), data, 0); err == nil {
					continue
				}
				if _, err := tx.Create("texts", fmt.Sprint(i), data); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, c := range []struct {
		size   int
		params string
		ok     bool
	}{{query.MaxCursorBytes/4*3 - 100, "sort=text&limit=1", true}, {query.MaxCursorBytes, "sort=text&limit=1", false}, {query.MaxCursorBytes, "sort=-text&limit=3", true}, {query.MaxCursorBytes, "sort=id&limit=1", true}} {
		fill(c.size)
		ids, _, err := list(t, db, record.Program(), "texts", c.params)
		if c.ok && (err != nil || len(ids) != 3) || !c.ok && (engine.CodeOf(err) != record.CodeTooLarge || !strings.Contains(err.Error(), "too long for a cursor")) {
			t.Errorf("%s of texts of %d bytes: %v, %v", c.params, c.size, ids, err)
		}
	}
}
