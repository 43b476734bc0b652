package record_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// TestSubscribersOfChangedCollections checks that a stream ends when rules or fields of its collection change, that the
// next one begins with the state under the new rules, and that streams of other collections go on.
func TestSubscribersOfChangedCollections(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{})
	h := openHouse(t, eng, feed.Options{})
	h.create("notes", "a", `{"public":true}`)
	ann := record.Actor{ID: "ann"}
	notes, orders := h.subscribe(ann, record.Subscription{}, "notes/*"), h.subscribe(ann, record.Subscription{}, "orders/*")
	both := h.subscribe(ann, record.Subscription{}, "orders/*", "notes/a")
	notes.want("state notes/a")
	orders.want("")
	both.want("state notes/a")
	change := func(rules func(*schema.Rules)) {
		t.Helper()
		next := news()
		i := slices.IndexFunc(next, func(c schema.Collection) bool { return c.Name == "notes" })
		rules(&next[i].Rules)
		db, err := record.Open(eng, record.Options{})
		must(t, err)
		must(t, db.Define(next...))
		_, err = db.Migrate(t.Context(), record.MigrateOptions{AllowLoss: true})
		must(t, err)
	}
	change(func(r *schema.Rules) { r.View = "owner = @auth.id" })
	notes.wantEnd(engine.ErrTruncated)
	both.wantEnd(engine.ErrTruncated)
	h.create("orders", "o", `{}`)
	orders.want("create orders/o")
	again := h.subscribe(ann, record.Subscription{Resume: notes.last}, "notes/*")
	again.want("")
	h.create("notes", "b", `{"owner":"ann"}`)
	again.want("create notes/b")
	change(func(r *schema.Rules) { r.Subscribe = "" })
	again.wantEnd(engine.ErrTruncated)
	if _, err := h.Subscribe(t.Context(), ann, with(t, record.Subscription{}, "notes/*")); engine.CodeOf(err) != record.CodeUnknownCollection {
		t.Errorf("a collection that is closed now: %v", err)
	}
}

// TestDropWithSubscribers removes a collection that has 10,000 subscribers, in a soak 100,000. All end, soon, and those
// of another collection go on.
func TestDropWithSubscribers(t *testing.T) {
	n := 10_000
	if os.Getenv("SKERRY_SOAK") != "" {
		n = 100_000
	}
	h := openHouse(t, testengine.Open(t, testengine.Options{Memory: true}), feed.Options{})
	streams := make([]*record.Stream, n)
	for i := range streams {
		sub := with(t, record.Subscription{Filter: fmt.Sprintf(`title = "%d" || n = %d`, i/2, i)}, "orders/*")
		if i%10 == 0 {
			sub = with(t, sub, "plain/*")
		}
		s, err := h.Subscribe(t.Context(), record.Actor{ID: fmt.Sprint(i)}, sub)
		must(t, err)
		streams[i] = s
	}
	other := h.subscribe(record.Actor{}, record.Subscription{}, "plain/*")
	other.want("")
	h.create("orders", "a", `{"title":"7","n":99}`)
	started := time.Now()
	must(t, h.DropCollection(t.Context(), "orders", true))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events := 0
	for i, s := range streams {
		for {
			m, err := s.Next(ctx)
			if err == nil {
				events += len(m.Events)
				continue
			}
			if engine.CodeOf(err) != record.CodeUnknownCollection {
				t.Fatalf("stream %d ends with %v", i, err)
			}
			break
		}
		s.Close()
	}
	t.Logf("%d streams ended in %v", n, time.Since(started))
	if events != 3 {
		t.Errorf("%d events, want 3", events)
	}
	h.create("plain", "p", `{}`)
	other.want("create plain/p")
}
