package keys

import (
	"bytes"
	"slices"
	"testing"

	"github.com/skerrydb/skerry/record/schema"
)

// TestEntryOrder: entries sort by their values and then by id in the direction of the last field, and their ids are
// read back.
func TestEntryOrder(t *testing.T) {
	k := collection(t).Compiled
	doc := func(id, data string) *Doc {
		d, err := k.Patch(schema.Data{}, []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		return &Doc{ID: id, Rev: 1, Data: d}
	}
	docs := []*Doc{doc("b", `{"n":1}`), doc("a", `{"title":"x","n":1}`), doc("ab", `{"title":"x","n":1}`), doc("c", `{"title":"x\u0001","n":1}`), doc("-", `{"title":"y","n":-3}`)}
	for _, c := range []struct {
		fields []schema.IndexField
		want   string
	}{
		{[]schema.IndexField{{Name: "title"}}, "b a ab c - "}, {[]schema.IndexField{{Name: "title", Desc: true}}, "- c ab a b "},
		{[]schema.IndexField{{Name: "n"}, {Name: "title", Desc: true}}, "- c ab a b "}, {[]schema.IndexField{{Name: "n", Desc: true}, {Name: "title"}}, "b a ab c - "}, {[]schema.IndexField{{Name: "rev", Desc: true}}, "c b ab a - "},
	} {
		x := newIndex(k, schema.Index{Name: "x", Fields: c.fields}, 7, true)
		var keys [][]byte
		for _, d := range docs {
			keys = append(keys, x.entryKey(3, d))
		}
		got := ""
		slices.SortFunc(keys, bytes.Compare)
		for _, key := range keys {
			id, err := x.entryID(key)
			if err != nil {
				t.Fatal(err)
			}
			got += id + " "
		}
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.fields, got, c.want)
		}
	}
}
