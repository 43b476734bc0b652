package records_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/records"
)

// station is an application with streams of events on a real server.
type station struct {
	t     testing.TB
	db    *record.DB
	url   string
	actor atomic.Pointer[record.Actor] // of all requests
	srv   *httptest.Server
}

func broadcast(t testing.TB) *station {
	t.Helper()
	eng := recordengine.Open(t, recordengine.Options{})
	f, err := feed.New(eng, feed.Options{})
	must(t, err)
	db, err := record.Open(eng, record.Options{Feed: f})
	must(t, err)
	must(t, db.Define(
		schema.Collection{Name: "news", Rules: schema.Rules{List: "true", View: `public || owner = @auth.id`, Subscribe: "true"},
			Fields: []schema.Field{{Name: "text", Type: schema.Text}, {Name: "n", Type: schema.Int}, {Name: "public", Type: schema.Bool, Default: "true"}, {Name: "owner", Type: schema.Text}}},
		schema.Collection{Name: "drafts", Rules: schema.Rules{List: "true", View: "true"}, Fields: []schema.Field{{Name: "text", Type: schema.Text}}},
	))
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	running.Go(func() { _ = db.Run(ctx) })
	s := &station{t: t, db: db}
	s.actor.Store(&record.Actor{ID: "ann"})
	app, err := web.New(web.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	records.Mount(app, db, records.Options{CheckEvery: 10 * time.Millisecond, Actor: func(c *web.Context) (record.Actor, error) {
		a := *s.actor.Load()
		a.Request = c.RequestID()
		return a, nil
	}})
	s.srv = httptest.NewServer(app)
	s.url = s.srv.URL + "/api/events?"
	t.Cleanup(func() {
		app.EndStreams()
		s.srv.Close()
		stop()
		running.Wait()
	})
	s.do(func(*record.Tx) error { return nil }) // stores the collections
	return s
}

// do runs fn as the program.
func (s *station) do(fn func(tx *record.Tx) error) {
	s.t.Helper()
	_, err := s.db.Update(s.t.Context(), record.Program(), fn)
	must(s.t, err)
}

func (s *station) create(id, data string) {
	s.t.Helper()
	s.do(func(tx *record.Tx) error { _, err := tx.Create("news", id, []byte(data)); return err })
}

func (s *station) patch(id, data string) {
	s.t.Helper()
	s.do(func(tx *record.Tx) error { _, err := tx.Update("news", id, []byte(data), 0); return err })
}

// source reads a stream as a browser does.
type source struct {
	t      testing.TB
	resp   *http.Response
	lines  *bufio.Reader
	lastID string
	has    map[string]string // the records that the client has, by id
}

// open connects. lastID is what an earlier connection has received.
func (s *station) open(query, lastID string) *source {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	s.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+query, nil)
	must(s.t, err)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := s.srv.Client().Do(req)
	must(s.t, err)
	s.t.Cleanup(func() { resp.Body.Close() })
	return &source{s.t, resp, bufio.NewReaderSize(resp.Body, 2<<20), lastID, map[string]string{}}
}

// message is the data of any event.
type message struct {
	Position         uint64
	Op, ID           string
	First, Last      bool
	Large            bool
	Record           json.RawMessage
	More             []string
	Collection, name string
	Records          []struct {
		Collection string
		Record     json.RawMessage
	}
}

// next reads an event; nil at the end of the stream.
func (s *source) next() *message {
	s.t.Helper()
	var m message
	id, data := "", ""
	for {
		line, err := s.lines.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		must(s.t, err)
		name, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			id = text
		case "event":
			m.name = text
		case "data":
			data = text
		case "":
			if data == "" {
				continue // a comment
			}
			if id != "" {
				s.lastID = id
			}
			must(s.t, json.Unmarshal([]byte(data), &m))
			s.apply(&m)
			return &m
		}
	}
}

// apply does what a client does with an event.
func (s *source) apply(m *message) {
	idOf := func(text json.RawMessage) string {
		var r struct{ ID string }
		must(s.t, json.Unmarshal(text, &r))
		return r.ID
	}
	if m.name == "state" {
		if m.First {
			clear(s.has)
		}
		for _, r := range m.Records {
			s.has[idOf(r.Record)] = string(r.Record)
		}
		return
	}
	if _, had := s.has[m.ID]; had == (m.Op == "create") {
		s.t.Errorf("%s of %s; the client had it: %v", m.Op, m.ID, had)
	}
	if delete(s.has, m.ID); m.Op != "delete" {
		s.has[m.ID] = string(m.Record)
	}
}

// want reads events and compares them.
func (s *source) want(events ...string) {
	s.t.Helper()
	for _, want := range events {
		m := s.next()
		if m == nil {
			s.t.Fatalf("the stream has ended; want %s", want)
		}
		got := m.name
		if m.name == "change" {
			got = m.Op + " " + m.ID
		} else if !m.First || !m.Last {
			got = fmt.Sprint("state, first ", m.First, ", last ", m.Last)
		}
		if got != want || m.Position == 0 {
			s.t.Errorf("event %q at position %d, want %q", got, m.Position, want)
		}
	}
}

// TestEvents reads the state and what follows it, also after a reconnection. A record that does not match any more
// leaves with its id alone.
func TestEvents(t *testing.T) {
	s := broadcast(t)
	s.create("a", `{"n":1}`)
	s.create("b", `{"n":5}`)
	all, many := s.open("topic=news/*", ""), s.open("topic=news/*&filter="+url.QueryEscape("n > 3")+"&sort=-n&limit=10", "")
	one := s.open("topic=news/b&topic=news/c", "")
	if h := all.resp.Header; h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", h)
	}
	for r, n := range map[*source]int{all: 2, many: 1, one: 1} {
		if r.want("state"); len(r.has) != n {
			t.Errorf("the state has %v, want %d records", r.has, n)
		}
	}
	s.patch("a", `{"n":4}`)
	s.patch("b", `{"n":2}`)
	all.want("update a", "update b")
	many.want("create a", "delete b")
	one.want("update b")
	resumed := s.open("topic=news/*", all.lastID)
	resumed.has = maps.Clone(all.has)
	s.do(func(tx *record.Tx) error {
		if _, err := tx.Create("news", "c", []byte(`{"text":"ü\n\"`+strings.Repeat("x", 100)+`"}`)); err != nil {
			return err
		}
		_, err := tx.Delete("news", "a", 0)
		return err
	})
	before := all.lastID
	all.want("create c")
	if all.lastID != before {
		t.Error("an event that is not the last of its change has an id")
	}
	all.want("delete a")
	resumed.want("create c", "delete a")
	one.want("create c")
	if !maps.Equal(all.has, resumed.has) || all.has["c"] != one.has["c"] || !strings.Contains(all.has["c"], `ü\n\"xxx`) {
		t.Errorf("%v, resumed %v, one %v", all.has, resumed.has, one.has)
	}
	s.open("topic=news/*", "1-x").want("state")
	if head, err := s.srv.Client().Head(s.url + "topic=news/*"); err != nil || head.StatusCode != 200 {
		t.Errorf("HEAD: %v, %v", head, err)
	}
}

// TestEventsLeak checks that what a client may not see neither comes nor goes.
func TestEventsLeak(t *testing.T) {
	s := broadcast(t)
	s.create("mine", `{"owner":"ann","public":false}`)
	s.create("hidden", `{"owner":"bob","public":false,"text":"secret"}`)
	r := s.open("topic=news/*&topic=news/hidden&topic=news/mine", "")
	byID := s.open("topic=news/hidden", "")
	r.want("state")
	byID.want("state")
	s.patch("hidden", `{"n":1}`)
	s.patch("mine", `{"n":1}`)
	s.patch("hidden", `{"public":true,"text":"shown"}`)
	s.patch("hidden", `{"public":false,"text":"secret"}`)
	s.do(func(tx *record.Tx) error { _, err := tx.Delete("news", "hidden", 0); return err })
	s.create("end", `{}`)
	r.want("update mine", "create hidden", "delete hidden", "create end")
	byID.want("create hidden", "delete hidden")
}

func TestEventsRefused(t *testing.T) {
	s := broadcast(t)
	answers := map[string]bool{}
	for _, c := range []struct {
		query  string
		status int
		text   string
	}{
		{"topic=nothing/*", 404, "unknown_collection"}, {"topic=drafts/*&filter=!", 404, "unknown_collection"}, {"topic=drafts/x", 404, "unknown_collection"}, {"topic=news/*&topic=drafts/*", 404, "unknown_collection"},
		{"", 400, "query_invalid"}, {"topic=news", 400, "query_invalid"}, {"topic=news/*&filter=nn%3D1", 400, "did you mean"}, {"topic=news/*&filter=updated%3D1", 400, "query_invalid"},
		{"topic=news/*&limit=0", 400, `"limit"`}, {"topic=news/*&limit=x", 400, `"limit"`}, {"topic=news/*&limit=1001", 400, "query_invalid"}, {"topic=news/*&page=2", 400, `"page"`}, {"topic=news/*&sort=a&sort=b", 400, `"sort"`}, {"topic=%zz", 400, "malformed"},
		{strings.Repeat("topic=news/a&", record.MaxTopics+1), 400, "query_invalid"}, {"topic=news/*&filter=" + strings.Repeat("(", 2_000), 400, "query_invalid"},
	} {
		r := s.open(c.query, "")
		body, err := io.ReadAll(r.resp.Body)
		must(t, err)
		if r.resp.StatusCode != c.status || !strings.Contains(string(body), c.text) {
			t.Errorf("%.60s: %d, want %d: %s", c.query, r.resp.StatusCode, c.status, body)
		}
		if c.status == 404 {
			var p struct{ Title, Detail, Code string }
			must(t, json.Unmarshal(body, &p))
			answers[strings.NewReplacer("nothing", "NAME", "drafts", "NAME").Replace(fmt.Sprint(p))] = true
		}
	}
	if len(answers) != 1 {
		t.Errorf("unknown collections and forbidden ones have different answers: %v", answers)
	}
}

// TestEventsEnd checks that a stream ends when its user changes, and that the next one begins with the state.
func TestEventsEnd(t *testing.T) {
	s := broadcast(t)
	s.create("a", `{}`)
	r := s.open("topic=news/*", "")
	r.want("state")
	s.actor.Store(&record.Actor{ID: "ann", Roles: []string{"editor"}})
	if m := r.next(); m != nil {
		t.Errorf("an event after the user has changed: %+v", m)
	}
	again := s.open("topic=news/*", r.lastID)
	again.want("state")
}

// TestLargeEvents checks that records that are too long for an event come without their data, and that a long state
// comes in parts.
func TestLargeEvents(t *testing.T) {
	s := broadcast(t)
	text := strings.Repeat("x", 300<<10)
	for i := range 5 {
		s.create(fmt.Sprint("r", i), `{"text":"`+text+`"}`)
	}
	huge := `{"text":"` + strings.Repeat("x", schema.MaxDataBytes-100) + `"}`
	s.create("huge", huge)
	r := s.open("topic=news/*", "")
	parts := 0
	for last := false; !last; parts++ {
		m := r.next()
		if last = m.Last; m.First != (parts == 0) || (r.lastID != "") != last {
			t.Errorf("part %d: first %v, last %v, id %q", parts, m.First, m.Last, r.lastID)
		}
	}
	if len(r.has) != 6 || parts < 3 || len(r.has["r4"]) < len(text) || r.has["huge"] != `{"id":"huge","large":true}` {
		t.Errorf("%d records in %d parts; the large one is %.100s", len(r.has), parts, r.has["huge"])
	}
	s.patch("huge", `{"n":1}`)
	if m := r.next(); m == nil || m.Op != "update" || !m.Large || m.Record != nil {
		t.Errorf("the change of a large record: %+v", m)
	}
	limited := s.open("topic=news/*&limit=2", "")
	if m := limited.next(); m == nil || !m.Last || len(m.More) != 1 || m.More[0] != "news" || len(m.Records) != 2 {
		t.Errorf("a limited state: %+v", m)
	}
}

// TestEventsStress has clients that disconnect and connect again while others write. At the end each has what is stored.
func TestEventsStress(t *testing.T) {
	s := broadcast(t)
	rng := seed.Rand(t)
	var writing, reading sync.WaitGroup
	wrote := make(chan bool)
	const writers, changes, readers = 3, 40, 8
	for range writers {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		writing.Go(func() {
			for range changes {
				id, data := fmt.Sprint("r", rng.IntN(6)), fmt.Appendf(nil, `{"n":%d,"public":%v}`, rng.IntN(3), rng.IntN(3) > 0)
				_, err := s.db.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
					if _, err := tx.Get("news", id); err != nil {
						_, err = tx.Create("news", id, data)
						return err
					}
					_, err := tx.Update("news", id, data, 0)
					return err
				})
				if err != nil {
					t.Error(err)
				}
				wrote <- true
			}
		})
	}
	results := make([]map[string]string, readers)
	for i := range readers {
		for range writers * changes / readers {
			<-wrote
		}
		pace := rand.New(rand.NewPCG(rng.Uint64(), 0))
		reading.Go(func() {
			r := s.open("topic=news/*&filter=n%3D1%20%7C%7C%20n%3D9", "")
			for {
				for n := 1 + pace.IntN(5); n > 0 && r.has["end"] == ""; n-- {
					if r.next() == nil {
						t.Error("the stream has ended")
						return
					}
				}
				if r.has["end"] != "" {
					results[i] = r.has
					return
				}
				r.resp.Body.Close()
				next := s.open("topic=news/*&filter=n%3D1%20%7C%7C%20n%3D9", r.lastID)
				next.has = r.has
				r = next
			}
		})
	}
	writing.Wait()
	s.create("end", `{"n":9}`)
	reading.Wait()
	want := s.open("topic=news/*&filter=n%3D1%20%7C%7C%20n%3D9", "")
	want.want("state")
	for i, has := range results {
		if !maps.Equal(has, want.has) {
			t.Errorf("client %d has %v, want %v", i, has, want.has)
		}
	}
}
