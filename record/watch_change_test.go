package record_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// TestSubscribersOfChangedCollections checks that a stream ends when rules or fields of its collection change, that the
// next one begins with the state under the new rules, and that streams of other collections go on.
func TestSubscribersOfChangedCollections(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{})
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

// crowd are subscribers of orders, of which some never read.
type crowd struct {
	*house
	all  []*record.Stream
	deaf []*record.Stream // get all changes, and are never read before the collection is removed
}

// gather subscribes n times, each with a filter of its own; each tenth has another collection, too.
func (c *crowd) gather(n, deaf int) {
	c.t.Helper()
	for i := range n {
		sub := with(c.t, record.Subscription{Filter: fmt.Sprintf(`title = "%d" || n = %d`, i/2, i)}, "orders/*")
		if i%10 == 0 {
			sub = with(c.t, sub, "plain/*")
		}
		s, err := c.Subscribe(c.t.Context(), record.Actor{ID: fmt.Sprint(i)}, sub)
		must(c.t, err)
		c.all = append(c.all, s)
	}
	for range deaf {
		s, err := c.Subscribe(c.t.Context(), record.Actor{}, with(c.t, record.Subscription{}, "orders/*"))
		must(c.t, err)
		c.deaf = append(c.deaf, s)
	}
}

// drain reads a stream to its end, and returns how many events it had and why it ended.
func (c *crowd) drain(ctx context.Context, s *record.Stream) (events int, why engine.Code) {
	defer s.Close()
	for {
		m, err := s.Next(ctx)
		if err != nil {
			return events, engine.CodeOf(err)
		}
		events += len(m.Events)
	}
}

// TestDropWithSubscribers removes a collection that has 5,000 subscribers, in a soak 100,000, half of whom are not
// reading, and some that have not read a thousand changes. All end: those that were too slow as truncated, and the others
// because the collection is unknown. Subscribers of another collection go on.
func TestDropWithSubscribers(t *testing.T) {
	n, deaf := 5_000, 20
	if os.Getenv("SKERRY_SOAK") != "" {
		n, deaf = 100_000, 100
	}
	c := &crowd{house: openHouse(t, recordengine.Open(t, recordengine.Options{Memory: true}), feed.Options{})}
	c.gather(n, deaf)
	other := c.subscribe(record.Actor{}, record.Subscription{}, "plain/*")
	other.want("")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var events atomic.Int64
	var reading sync.WaitGroup
	read := func(s *record.Stream, want engine.Code) {
		n, why := c.drain(ctx, s)
		if why != want {
			t.Errorf("a stream ends with %s, not %s", why, want)
		}
		events.Add(int64(n))
	}
	for _, s := range c.all[:n/2] {
		reading.Go(func() { read(s, record.CodeUnknownCollection) })
	}
	c.create("orders", "a", `{"title":"7","n":99}`)
	for i := range record.MaxQueuedChanges {
		c.create("orders", fmt.Sprint("more", i), fmt.Sprintf(`{"title":"none","n":%d}`, -1-i))
	}
	started := time.Now()
	must(t, c.DropCollection(t.Context(), "orders", true))
	reading.Wait()
	for _, s := range c.all[n/2:] {
		read(s, record.CodeUnknownCollection)
	}
	t.Logf("%d streams ended in %v", n, time.Since(started))
	if got := events.Load(); got != 3 {
		t.Errorf("%d events, want 3", got)
	}
	for _, s := range c.deaf {
		if n, why := c.drain(ctx, s); why != engine.CodeTruncated || n != record.MaxQueuedChanges {
			t.Errorf("a stream that was not read ends with %s after %d events", why, n)
		}
	}
	c.create("plain", "p", `{}`)
	other.want("create plain/p")
}
