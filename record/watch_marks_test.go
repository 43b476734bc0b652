package record_test

import (
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
)

// as does something to a record as a user whom no rule binds.
func (h *house) as(user string, op record.Op) {
	h.t.Helper()
	_, err := h.Update(h.t.Context(), record.Actor{ID: user, System: true}, func(tx *record.Tx) error {
		_, err := tx.Do(op)
		return err
	})
	must(h.t, err)
}

// TestSubscribeByMarks checks filters by who has updated, deleted or restored a record, and when.
func TestSubscribeByMarks(t *testing.T) {
	h := openHouse(t, recordengine.Open(t, recordengine.Options{}), feed.Options{})
	by := h.subscribe(record.Actor{}, record.Subscription{Filter: `updated_by = "ann"`}, "orders/*")
	never := h.subscribe(record.Actor{}, record.Subscription{Filter: `updated = null`}, "orders/a", "orders/b")
	recent := h.subscribe(record.Actor{}, record.Subscription{Filter: `updated > @now - 1d`}, "orders/*")
	back := h.subscribe(record.Actor{}, record.Subscription{Filter: `restored_by != "ann" && deleted_by = "bob"`}, "orders/*")
	for _, r := range []*reader{by, never, recent, back} {
		r.want("")
	}
	start := by.last
	update := func(user, data string) {
		h.as(user, record.Op{Kind: keys.Update, Collection: "orders", ID: "a", Data: []byte(data)})
	}
	h.create("orders", "a", `{}`)
	update("ann", `{"n":1}`)
	update("ann", `{"n":2}`)
	update("bob", `{"n":3}`)
	update("ann", `{"n":4}`)
	h.as("bob", record.Op{Kind: keys.Delete, Collection: "orders", ID: "a"})
	h.as("eve", record.Op{Kind: keys.Restore, Collection: "orders", ID: "a"})
	h.as("bob", record.Op{Kind: keys.Delete, Collection: "orders", ID: "a"})
	h.as("ann", record.Op{Kind: keys.Restore, Collection: "orders", ID: "a"})
	events := []string{"create orders/a", "update orders/a", "delete orders/a", "create orders/a", "delete orders/a", "create orders/a", "delete orders/a", "create orders/a"}
	by.want(events...)
	never.want("create orders/a", "delete orders/a")
	recent.want("create orders/a", "update orders/a", "update orders/a", "update orders/a", "delete orders/a", "create orders/a", "delete orders/a", "create orders/a")
	back.want("create orders/a", "delete orders/a")

	// The same from the history, which is later than the changes.
	again := h.subscribe(record.Actor{}, record.Subscription{Filter: `updated_by = "ann"`, Resume: start}, "orders/*")
	again.want(events...)
}

// TestSubscribeByMarksOfRules checks rules about who has updated or deleted a record: that each subscriber sees what they
// allow, and nothing if what they ask for is not known.
func TestSubscribeByMarksOfRules(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{})
	h := openHouse(t, eng, feed.Options{})
	ann := h.subscribe(record.Actor{ID: "ann"}, record.Subscription{}, "edited/*")
	bob := h.subscribe(record.Actor{ID: "bob"}, record.Subscription{}, "edited/*", "orders/*")
	root := h.subscribe(record.Program(), record.Subscription{}, "edited/*")
	for _, r := range []*reader{ann, bob, root} {
		r.want("")
	}
	update := func(user, data string) {
		h.as(user, record.Op{Kind: keys.Update, Collection: "edited", ID: "a", Data: []byte(data)})
	}
	h.create("edited", "a", `{}`)
	update("ann", `{"title":"secret of ann"}`)
	update("ann", `{"title":"still"}`)
	update("bob", `{"title":"secret of bob"}`)
	ann.want("create edited/a", "update edited/a", "delete edited/a")
	bob.want("create edited/a")

	// Without the history before it, nobody knows who saw the record before the next change.
	_, err := eng.Update(t.Context(), func(tx engine.Tx) error {
		c, err := h.Stored(tx, "edited")
		if err != nil {
			return err
		}
		n, err := keys.Trim(tx, c, tx.Now().Add(time.Hour), 1<<62, 1_000)
		if n != 4 {
			t.Errorf("%d changes are removed, want 4", n)
		}
		return err
	})
	must(t, err)
	update("eve", `{"title":"secret of eve"}`)
	ann.wantEnd(engine.ErrTruncated)
	bob.wantEnd(engine.ErrTruncated)
	root.want("create edited/a", "update edited/a", "update edited/a", "update edited/a", "update edited/a")
	next := h.subscribe(record.Actor{ID: "eve"}, record.Subscription{Resume: ann.last}, "edited/*")
	next.want("state edited/a")
	update("bob", `{"title":"of bob"}`)
	next.want("delete edited/a")
}
