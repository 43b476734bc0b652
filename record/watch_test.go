package record_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// news are collections to subscribe to.
func news() []schema.Collection {
	open := schema.Rules{List: "true", View: "true", Subscribe: "true"}
	mine := schema.Rules{List: `owner = @auth.id || public`, View: `owner = @auth.id || public`, Subscribe: `@auth.id != null`}
	team := schema.Rules{List: `team.name = @auth.name`, View: `team.name = @auth.name`, Subscribe: "true"}
	title, n := schema.Field{Name: "title", Type: schema.Text}, schema.Field{Name: "n", Type: schema.Int}
	return []schema.Collection{
		{Name: "orders", Fields: []schema.Field{title, n, {Name: "hash", Type: schema.Password}}, Rules: open},
		{Name: "notes", Fields: []schema.Field{title, {Name: "owner", Type: schema.Text}, {Name: "public", Type: schema.Bool}}, Rules: mine},
		{Name: "teams", Fields: []schema.Field{{Name: "name", Type: schema.Text}}, Rules: schema.Rules{View: "true"}},
		{Name: "plans", Fields: []schema.Field{title, {Name: "team", Type: schema.Reference, Collection: "teams"}}, Rules: team},
		{Name: "secrets", Fields: []schema.Field{title}, Rules: schema.Rules{List: "true", View: "true"}},
		{Name: "recent", Fields: []schema.Field{title}, Rules: schema.Rules{List: "true", View: "updated > @now - 1d", Subscribe: "true"}},
		{Name: "plain", Fields: []schema.Field{title, n}, Rules: open, History: schema.History{Off: true}},
		{Name: "closed", Fields: []schema.Field{title}, Rules: schema.Rules{List: "true", View: `updated_by != "x"`, Subscribe: "true"}, History: schema.History{Off: true}},
		{Name: "edited", Fields: []schema.Field{title}, Rules: schema.Rules{List: "true", View: "updated_by = @auth.id || deleted_by = @auth.id", Subscribe: "true"}},
	}
}

// house is a DB with a feed.
type house struct {
	*record.DB
	t    testing.TB
	feed *feed.Feed
	ctx  context.Context // of subscriptions
	stop func()
}

func openHouse(t testing.TB, eng engine.Engine, fo feed.Options) *house {
	t.Helper()
	f, err := feed.New(eng, fo)
	must(t, err)
	db, err := record.Open(eng, record.Options{Feed: f, Passwords: plain{}})
	must(t, err)
	must(t, db.Define(news()...))
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	running.Go(func() { _ = db.Run(ctx) })
	h := &house{db, t, f, t.Context(), sync.OnceFunc(func() { stop(); running.Wait() })}
	t.Cleanup(h.stop)
	must(t, update(t, db, record.Program(), func(*record.Tx) error { return nil })) // stores the collections
	return h
}

// do runs fn as the program.
func (h *house) do(fn func(tx *record.Tx) error) engine.Position {
	h.t.Helper()
	pos, err := h.Update(h.t.Context(), record.Program(), fn)
	must(h.t, err)
	return pos
}

func (h *house) create(collection, id, data string) {
	h.t.Helper()
	h.do(func(tx *record.Tx) error { _, err := tx.Create(collection, id, []byte(data)); return err })
}

func (h *house) patch(collection, id, data string) {
	h.t.Helper()
	h.do(func(tx *record.Tx) error { _, err := tx.Update(collection, id, []byte(data), 0); return err })
}

func (h *house) remove(collection, id string) {
	h.t.Helper()
	h.do(func(tx *record.Tx) error { _, err := tx.Delete(collection, id, 0); return err })
}

// reader reads a stream and knows what its subscriber has.
type reader struct {
	*record.Stream
	t    testing.TB
	last string // id of the last message
	pos  engine.Position
	has  map[string]string // records by collection and id
}

func (h *house) subscribe(a record.Actor, sub record.Subscription, topics ...string) *reader {
	h.t.Helper()
	s, err := h.Subscribe(h.ctx, a, with(h.t, sub, topics...))
	must(h.t, err)
	h.t.Cleanup(s.Close)
	return &reader{Stream: s, t: h.t, has: map[string]string{}}
}

// with returns sub with topics.
func with(t testing.TB, sub record.Subscription, topics ...string) record.Subscription {
	t.Helper()
	for _, text := range topics {
		topic, err := record.ParseTopic(text)
		must(t, err)
		sub.Topics = append(sub.Topics, topic)
	}
	return sub
}

// next reads one message and returns it as text.
func (r *reader) next() string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	m, err := r.Next(ctx)
	must(r.t, err)
	if m.Position < r.pos || m.Position == r.pos && m.State == nil {
		r.t.Errorf("position %d after %d", m.Position, r.pos)
	}
	r.last, r.pos = m.ID, m.Position
	var parts []string
	if m.State != nil {
		clear(r.has)
	}
	for _, s := range m.State {
		for _, x := range s.Records {
			r.has[s.Collection+"/"+x.ID] = string(x.AppendJSON(nil))
			parts = append(parts, "state "+s.Collection+"/"+x.ID)
		}
		if s.More {
			parts = append(parts, "more")
		}
	}
	for _, e := range m.Events {
		name := e.Collection + "/" + e.ID
		parts = append(parts, e.Op+" "+name)
		if _, had := r.has[name]; had == (e.Op == "create") {
			r.t.Errorf("%s of %s at %d; the subscriber had it: %v", e.Op, name, m.Position, had)
		}
		if delete(r.has, name); e.Record != nil {
			r.has[name] = string(e.Record.AppendJSON(nil))
		}
	}
	return strings.Join(parts, ", ")
}

func (r *reader) want(messages ...string) {
	r.t.Helper()
	for _, want := range messages {
		if got := r.next(); got != want {
			r.t.Errorf("message %q, want %q", got, want)
		}
	}
}

// wantEnd reads up to the end of the stream.
func (r *reader) wantEnd(want error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	for {
		if _, err := r.Next(ctx); err != nil {
			if !errors.Is(err, want) {
				r.t.Errorf("the stream ends with %v, want %v", err, want)
			}
			return
		}
	}
}

func TestSubscribe(t *testing.T) {
	h := openHouse(t, recordengine.Open(t, recordengine.Options{}), feed.Options{})
	h.create("orders", "a", `{"title":"A","n":1,"hash":"pass"}`)
	h.create("orders", "b", `{"title":"B","n":5}`)
	all := h.subscribe(record.Actor{}, record.Subscription{}, "orders/*", "plain/*")
	many := h.subscribe(record.Actor{}, record.Subscription{Filter: "n > 3"}, "orders/*")
	one := h.subscribe(record.Actor{}, record.Subscription{}, "orders/a", "orders/z", "orders/a")
	sorted := h.subscribe(record.Actor{}, record.Subscription{Sort: "-n", Limit: 1}, "orders/*")
	all.want("state orders/a, state orders/b")
	many.want("state orders/b")
	one.want("state orders/a")
	sorted.want("state orders/b, more")
	h.patch("orders", "a", `{"n":4}`)
	h.patch("orders", "b", `{"n":3}`)
	h.patch("orders", "a", `{"title":"AA"}`)
	h.create("plain", "p", `{"n":9}`)
	h.patch("plain", "p", `{"n":10}`)
	h.remove("orders", "a")
	h.do(func(tx *record.Tx) error { _, err := tx.Restore("orders", "a", 0); return err })
	h.do(func(tx *record.Tx) error {
		_, err := tx.Delete("orders", "a", 0)
		_, err2 := tx.Delete("orders", "b", 0)
		_, err3 := tx.Create("orders", "z", []byte(`{"n":7}`))
		return errors.Join(err, err2, err3)
	})
	h.do(func(tx *record.Tx) error { return tx.Purge("orders", "a", 0) })
	h.create("orders", "a", `{}`)
	all.want("update orders/a", "update orders/b", "update orders/a", "create plain/p", "update plain/p", "delete orders/a", "create orders/a",
		"delete orders/a, delete orders/b, create orders/z", "create orders/a")
	many.want("create orders/a", "delete orders/b", "update orders/a", "delete orders/a", "create orders/a", "delete orders/a, create orders/z")
	one.want("update orders/a", "update orders/a", "delete orders/a", "create orders/a", "delete orders/a, create orders/z", "create orders/a")
	for name, text := range all.has {
		if strings.Contains(text, "hash") {
			t.Errorf("%s has a password: %s", name, text)
		}
	}
	h.stop()
	all.wantEnd(engine.ErrClosed)
	all.Close()
	if _, err := h.Subscribe(t.Context(), record.Program(), with(t, record.Subscription{}, "orders/*")); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("subscribe after the end: %v", err)
	}
}

// TestSubscribeRules checks that events are decided for each subscriber by the rules, and that nothing leaks.
func TestSubscribeRules(t *testing.T) {
	h := openHouse(t, recordengine.Open(t, recordengine.Options{}), feed.Options{})
	ann := h.subscribe(record.Actor{ID: "ann"}, record.Subscription{}, "notes/*")
	bob := h.subscribe(record.Actor{ID: "bob"}, record.Subscription{}, "notes/*", "notes/one")
	root := h.subscribe(record.Program(), record.Subscription{}, "notes/*")
	for _, r := range []*reader{ann, bob, root} {
		r.want("")
	}
	h.create("notes", "one", `{"owner":"ann","title":"x"}`)
	h.create("notes", "two", `{"owner":"bob","title":"x"}`)
	h.patch("notes", "one", `{"title":"secret"}`)
	h.patch("notes", "one", `{"public":true}`)
	h.patch("notes", "one", `{"owner":"bob","public":false}`)
	h.patch("notes", "one", `{"owner":"eve"}`)
	h.remove("notes", "one")
	h.remove("notes", "two")
	ann.want("create notes/one", "update notes/one", "update notes/one", "delete notes/one")
	bob.want("create notes/two", "create notes/one", "update notes/one", "delete notes/one", "delete notes/two")
	root.want("create notes/one", "create notes/two", "update notes/one", "update notes/one", "update notes/one", "update notes/one", "delete notes/one", "delete notes/two")

	// Rules that follow references are decided for each subscriber at the present.
	h.create("teams", "t1", `{"name":"red"}`)
	h.create("teams", "t2", `{"name":"blue"}`)
	red := h.subscribe(record.Actor{Name: "red"}, record.Subscription{}, "plans/*")
	blue := h.subscribe(record.Actor{Name: "blue"}, record.Subscription{Filter: `team.name != "green"`}, "plans/*", "plans/p")
	red.want("")
	blue.want("")
	h.create("plans", "p", `{"team":"t1"}`)
	h.patch("plans", "p", `{"team":"t2"}`)
	red.want("create plans/p", "delete plans/p")
	blue.want("create plans/p")
}

func TestSubscribeRefused(t *testing.T) {
	h := openHouse(t, recordengine.Open(t, recordengine.Options{}), feed.Options{})
	answers := map[string]bool{}
	for _, c := range []struct {
		sub   record.Subscription
		topic string
		want  engine.Code
	}{
		{record.Subscription{}, "nothing/*", record.CodeUnknownCollection}, {record.Subscription{Filter: "!!"}, "secrets/*", record.CodeUnknownCollection},
		{record.Subscription{}, "secrets/a", record.CodeUnknownCollection}, {record.Subscription{}, "notes/*", record.CodeUnknownCollection},
		{record.Subscription{Filter: "title ="}, "orders/*", record.CodeQuery}, {record.Subscription{Filter: "name = 1"}, "orders/*", record.CodeQuery}, {record.Subscription{Sort: "name"}, "orders/*", record.CodeQuery},
		{record.Subscription{Filter: "updated > @now - 1d"}, "plain/*", record.CodeQuery}, {record.Subscription{Filter: `n = 1 || !(restored_by = "x")`}, "plain/*", record.CodeQuery}, {record.Subscription{}, "closed/*", engine.CodeUnsupported}, {record.Subscription{}, "closed/a", engine.CodeUnsupported},
		{record.Subscription{Limit: -1}, "orders/*", record.CodeQuery}, {record.Subscription{Limit: 1_001}, "orders/*", record.CodeQuery}, {record.Subscription{Topics: make([]record.Topic, record.MaxTopics)}, "orders/*", record.CodeQuery},
	} {
		_, err := h.Subscribe(t.Context(), record.Actor{}, with(t, c.sub, c.topic))
		if engine.CodeOf(err) != c.want {
			t.Errorf("%s with %+v: %v, want %s", c.topic, c.sub, err, c.want)
		}
		if c.want == record.CodeUnknownCollection {
			name, _, _ := strings.Cut(c.topic, "/")
			answers[strings.ReplaceAll(fmt.Sprint(err), name, "NAME")] = true
		}
	}
	if len(answers) != 1 {
		t.Errorf("unknown collections and forbidden ones have different answers: %q", slices.Collect(maps.Keys(answers)))
	}
	if _, err := h.Subscribe(t.Context(), record.Actor{}, record.Subscription{}); engine.CodeOf(err) != record.CodeQuery {
		t.Errorf("no topic: %v", err)
	}
	for _, text := range []string{"", "orders", "orders/", "/a", "orders/a/b", "orders/**", "orders/é", "/"} {
		if _, err := record.ParseTopic(text); engine.CodeOf(err) != record.CodeQuery {
			t.Errorf("topic %q: %v", text, err)
		}
	}
	if _, err := open(t).Subscribe(t.Context(), record.Actor{}, with(t, record.Subscription{}, "posts/*")); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("without a feed: %v", err)
	}
}

func TestResume(t *testing.T) {
	h := openHouse(t, recordengine.Open(t, recordengine.Options{HistoryBytes: 20_000}), feed.Options{})
	ann := record.Actor{ID: "ann", Roles: []string{"r"}}
	r := h.subscribe(ann, record.Subscription{}, "orders/*")
	r.want("")
	h.create("orders", "a", `{}`)
	h.create("orders", "b", `{}`)
	r.want("create orders/a")
	first := r.last
	r.want("create orders/b")
	h.patch("orders", "a", `{"n":1}`)
	r.want("update orders/a")
	h.patch("orders", "b", `{"n":1}`)
	resumed := h.subscribe(record.Actor{ID: "ann", Roles: []string{"r"}, Request: "another"}, record.Subscription{Resume: first}, "orders/*")
	resumed.has["orders/a"] = ""
	resumed.want("create orders/b", "update orders/a", "update orders/b")
	h.patch("orders", "b", `{"n":2}`)
	resumed.want("update orders/b")

	const state = "state orders/a, state orders/b"
	h.subscribe(ann, record.Subscription{Resume: first, Filter: "title = null"}, "orders/*").want(state)
	h.subscribe(record.Actor{ID: "ann"}, record.Subscription{Resume: first}, "orders/*").want(state)
	for _, bad := range []string{"x", "-", "1-", "1-0123456789abcdef", first + "0", "99999999999999999999" + first[strings.Index(first, "-"):]} {
		h.subscribe(ann, record.Subscription{Resume: bad}, "orders/*").want(state)
	}
	for i := range 300 { // until the history has lost the position
		h.patch("orders", "a", fmt.Sprintf(`{"title":"%d %s"}`, i, strings.Repeat("x", 100)))
	}
	h.subscribe(ann, record.Subscription{Resume: first}, "orders/*").want(state)
}

// TestSubscriberDoesNotRead checks that a subscriber that does not read is ended after a bounded number of changes, from
// which it resumes, and that others are not affected.
func TestSubscriberDoesNotRead(t *testing.T) {
	h := openHouse(t, recordengine.Open(t, recordengine.Options{Memory: true}), feed.Options{})
	slow := h.subscribe(record.Actor{}, record.Subscription{}, "orders/*")
	other := h.subscribe(record.Actor{}, record.Subscription{}, "orders/*")
	slow.want("")
	other.want("")
	h.create("orders", "a", `{"n":0}`)
	slow.want("create orders/a")
	other.want("create orders/a")
	for i := range record.MaxQueuedChanges + 1 {
		h.patch("orders", "a", fmt.Sprintf(`{"n":%d}`, i+1))
		other.want("update orders/a")
	}
	for range record.MaxQueuedChanges {
		slow.want("update orders/a")
	}
	slow.wantEnd(engine.ErrTruncated)
	again := h.subscribe(record.Actor{}, record.Subscription{Resume: slow.last}, "orders/*")
	again.has["orders/a"] = ""
	again.want("update orders/a")
	if again.has["orders/a"] != other.has["orders/a"] {
		t.Errorf("the subscriber that resumes has %s, the other %s", again.has["orders/a"], other.has["orders/a"])
	}

	// The same in bytes. A single change always fits.
	large := `{"title":"` + strings.Repeat("x", 900_000) + `"}`
	for i := range 6 {
		h.create("orders", fmt.Sprint("l", i), large)
		other.next()
	}
	n := 0
	for ctx := t.Context(); ; n++ {
		if _, err := again.Next(ctx); err != nil {
			break
		}
	}
	if limit := record.MaxQueuedBytes / 900_000; n != limit {
		t.Errorf("%d large records were queued, want %d", n, limit)
	}
}
