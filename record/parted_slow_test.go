package record

import (
	"net/url"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
)

// TestPartedSlow: a query without an access path is refused, and the index that would be one is advised. With that it is found.
func TestPartedSlow(t *testing.T) {
	for _, c := range []struct {
		filter, want string
		reason       keys.Reason
	}{{`title = "one" && n > 3`, "by_title_n", ""}, {`title = "one" || n = 3`, "by_title by_n", ""}, {`n > 3`, "", keys.NoGain}, {`title ~ "one"`, "", keys.Unbounded}} {
		var indexes []schema.Index
		for _, again := range []bool{false, true} {
			db := openParted(t)
			k := notes()
			k.Indexes = append(k.Indexes, indexes...)
			if err := db.Define(k); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Update(t.Context(), Program(), func(tx *Tx) error {
				_, err := tx.Create("notes", "a", []byte(`{"owner":"anna","title":"one","n":5}`))
				return err
			}); err != nil {
				t.Fatal(err)
			}
			var page *Page
			_, err := db.View(t.Context(), engine.Read{}, Program(), func(tx *Tx) error {
				q, err := tx.ParseQuery("notes", url.Values{"filter": {c.filter}})
				if err == nil {
					page, err = tx.Find("notes", q)
				}
				return err
			})
			if again {
				if err != nil || len(page.Items) != 1 {
					t.Errorf("%s with %v: %v", c.filter, indexes, err)
				}
				break
			}
			all, wrong := db.SlowQueries(t.Context())
			if wrong != nil || len(all) != 1 || engine.CodeOf(err) != CodeNoPath {
				t.Fatalf("%s: %+v, %v, %v", c.filter, all, err, wrong)
			}
			got := ""
			for _, x := range all[0].Advice.Indexes {
				var names []string
				for _, f := range x.Fields {
					names = append(names, f.Name)
				}
				indexes = append(indexes, By(names...))
				got += " " + By(names...).Name
			}
			if x := all[0]; x.Failed < 1 || !x.Fixed || got != map[bool]string{true: " "}[c.want != ""]+c.want || x.Advice.Reason != c.reason {
				t.Errorf("%s: advised%s, %+v", c.filter, got, x)
			}
			if len(indexes) == 0 {
				break
			}
		}
	}
}
