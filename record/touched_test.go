package record_test

import (
	"slices"
	"testing"

	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record"
)

// TestTouched: every write of a record names it, and a change of a collection's description names none but says that any
// record may look different.
func TestTouched(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{})
	h := openHouse(t, eng, feed.Options{})
	var steps []func()
	step := func(fn func()) { steps = append(steps, fn) }
	step(func() { h.create("notes", "a", `{"title":"one"}`) })
	step(func() { h.patch("notes", "a", `{"title":"two"}`) })
	step(func() { h.remove("notes", "a") })
	step(func() { h.create("plain", "p", `{"n":1}`) }) // without a history
	step(func() { h.remove("plain", "p") })
	step(func() {
		h.do(func(tx *record.Tx) error {
			for _, id := range []string{"x", "y"} {
				if _, err := tx.Create("orders", id, []byte(`{}`)); err != nil {
					return err
				}
			}
			return nil
		})
	})
	wants := [][]string{{"notes/a"}, {"notes/a"}, {"notes/a"}, {"plain/p"}, {"plain/p"}, {"orders/x", "orders/y"}}
	last := h.do(func(*record.Tx) error { return nil })
	sub, err := h.feed.Subscribe(feed.Filter{Prefixes: record.Watched()}, last)
	must(t, err)
	defer sub.Close()
	for i, fn := range steps {
		fn()
		var got []string
		for c := range sub.C {
			if all := h.Touched(c, func(collection, id string) { got = append(got, collection+"/"+id) }); all {
				t.Errorf("step %d: everything may have changed", i)
			}
			slices.Sort(got)
			if got = slices.Compact(got); len(got) >= len(wants[i]) {
				break
			}
		}
		if !slices.Equal(got, wants[i]) {
			t.Errorf("step %d: %v, want %v", i, got, wants[i])
		}
	}

	next := news()
	next[1].Rules.View = "true"
	other, err := record.Open(eng, record.Options{})
	must(t, err)
	must(t, other.Define(next...))
	_, err = other.Migrate(t.Context(), record.MigrateOptions{AllowLoss: true})
	must(t, err)
	for c := range sub.C {
		if h.Touched(c, func(string, string) {}) {
			break
		}
	}
	if err := sub.Err(); err != nil {
		t.Error(err)
	}

	fresh, err := record.Open(eng, record.Options{}) // it knows no collection yet
	must(t, err)
	h.create("notes", "b", `{}`)
	for c := range sub.C {
		if len(c.Writes) > 0 {
			if !fresh.Touched(c, func(collection, id string) { t.Errorf("names %s/%s", collection, id) }) {
				t.Error("a record of an unknown collection")
			}
			break
		}
	}
}
