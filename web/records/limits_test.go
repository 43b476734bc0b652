package records_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/records"
)

// openNotes serves collections, with users as open has them. hold opens a stream of events that lasts until goOn is closed.
func openNotes(t *testing.T, o web.Options, all ...schema.Collection) (s *site, goOn chan struct{}) {
	t.Helper()
	db, err := record.Open(recordengine.Open(t, recordengine.Options{}), record.Options{})
	must(t, err)
	must(t, db.Define(all...))
	o.Superadmins, o.Logger = []string{"root@example.org"}, slog.New(slog.DiscardHandler)
	app, err := web.New(o)
	must(t, err)
	app.Use(func(next http.Handler) http.Handler {
		return web.Handler(func(c *web.Context) error {
			if u := c.Request.Header.Get("User"); u != "" {
				c.SetUser(web.User{ID: u, Email: u + "@example.org", Verified: true})
			}
			next.ServeHTTP(c.Writer, c.Request)
			return nil
		})
	})
	goOn = make(chan struct{})
	app.Get("/hold", func(c *web.Context) error {
		return c.SSE(web.EventOptions{}, func(*web.Events) error { <-goOn; return nil })
	})
	records.Mount(app, db, records.Options{})
	return &site{t, db, app}, goOn
}

func notes(name string, rules schema.Rules) schema.Collection {
	return schema.Collection{Name: name, Rules: rules, Fields: []schema.Field{{Name: "title", Type: schema.Text}}}
}

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (b unread) Read([]byte) (int, error) {
	b.t.Error("the body is read")
	return 0, io.EOF
}

// TestRefusedUnread: who certainly may not change anything is refused before the body is read. What can be seen of a record
// is as it is without that.
func TestRefusedUnread(t *testing.T) {
	member := schema.Rules{List: "true", View: "true", Create: `@auth.id != null`, Update: `@auth.id != null && title != null`, Delete: `@auth.id = "ann"`}
	s, _ := openNotes(t, web.Options{}, notes("notes", member), notes("closed", schema.Rules{}), notes("updates", schema.Rules{Update: "@auth.id != null"}))
	s.ask("root", "POST", "/api/notes", `{"id":"a","data":{"title":"x"}}`).is(201)
	ask := func(user, method, path, media string, status int, code string) {
		t.Helper()
		r := httptest.NewRequest(method, "http://localhost"+path, unread{t})
		r.ContentLength = -1
		r.Header.Set("Content-Type", media)
		r.Header.Set("User", user)
		w := httptest.NewRecorder()
		s.h.ServeHTTP(w, r)
		(&reply{w, t, user + " " + method + " " + path}).is(status, code)
	}
	const json = "application/json"
	for _, media := range []string{asCSV, asJSON, json} {
		ask("", "POST", "/api/notes", media, 403, `"code":"record_refused"`)
		ask("bob", "POST", "/api/closed", media, 403, "record_refused")
		ask("bob", "POST", "/api/nothing", media, 404, "unknown_collection")
	}
	ask("", "POST", "/api/updates?existing=update", asCSV, 403, "record_refused")
	ask("bob", "POST", "/api/updates", asCSV, 403, "record_refused")
	ask("", "PATCH", "/api/notes/a", json, 403, "record_refused")
	ask("", "PATCH", "/api/notes/b", json, 404, "record_not_found")
	ask("bob", "PATCH", "/api/closed/a", json, 404, "record_not_found")
	ask("", "POST", "/api/notes/a/revert", json, 403, "record_refused")
	ask("", "PATCH", "/api/notes?filter=", json, 403, "record_refused")
	ask("bob", "DELETE", "/api/notes?filter=", json, 403, "record_refused")
	ask("", "POST", "/api/tx", json, 403, "record_refused")
	// Whatever may be allowed is read.
	s.ask("bob", "POST", "/api/updates?existing=update", "id,title\na,x\n", "Content-Type", asCSV).is(422, "the create rule of updates")
	s.ask("bob", "POST", "/api/tx", `{"ops":[]}`).is(200)
	s.ask("bob", "PATCH", "/api/notes/a", `{"data":{"title":"y"}}`).is(200)
}

// begun is an import whose body does not end.
type begun struct {
	body   *io.PipeWriter
	status chan int
}

// start sends the beginning of an import and waits until it is read.
func (s *site) start(user, address string) begun {
	s.t.Helper()
	in, out := io.Pipe()
	r := httptest.NewRequest("POST", "http://localhost/api/notes", in)
	r.Header.Set("Content-Type", asCSV)
	r.Header.Set("User", user)
	r.RemoteAddr = address + ":1"
	b := begun{out, make(chan int, 1)}
	go func() {
		w := httptest.NewRecorder()
		s.h.ServeHTTP(w, r)
		b.status <- w.Code
		in.Close()
	}()
	_, err := out.Write([]byte("title\n"))
	must(s.t, err)
	return b
}

// TestImportsAtOnce: only so many imports and changes by filter run at once: of a caller, of all strangers, and of all. Operators
// are not among them.
func TestImportsAtOnce(t *testing.T) {
	open := schema.Rules{List: "true", View: "true", Create: "true", Update: "true", Delete: "true"}
	s, _ := openNotes(t, web.Options{}, notes("notes", open))
	var all []begun
	start := func(user, address string) { t.Helper(); all = append(all, s.start(user, address)) }
	post := func(user string, status int, text string) {
		t.Helper()
		s.ask(user, "POST", "/api/notes", "title\nx\n", "Content-Type", asCSV).is(status, text)
		s.ask(user, "DELETE", "/api/notes?filter=", "").is(status, text)
	}
	for i := range records.MaxStrangersWriting {
		start("", "10.0.0."+string(rune('1'+i)))
	}
	post("", 503, `"code":"queue_full"`)
	for i := range records.MaxWriting - records.MaxStrangersWriting {
		start("user"+string(rune('a'+i/records.MaxWritingEach)), "10.0.0.9")
	}
	post("usera", 429, `"code":"rate_limited"`)
	post("other", 503, `"code":"queue_full"`)
	s.ask("root", "POST", "/api/notes", "title\nx\n", "Content-Type", asCSV).is(200)
	s.ask("", "POST", "/api/notes", `{"data":{"title":"x"}}`).is(201)
	for _, b := range all {
		must(t, b.body.Close())
		if got := <-b.status; got != 200 {
			t.Errorf("an import that has begun: %d", got)
		}
	}
	post("", 200, "")
	post("usera", 200, "")
}

// stalled is a client that does not read what it receives.
type stalled struct {
	*httptest.ResponseRecorder
	begun chan struct{} // nil: it was closed
	goOn  chan struct{}
}

func (w *stalled) Write(p []byte) (int, error) {
	if w.begun != nil {
		close(w.begun)
		w.begun = nil
	}
	<-w.goOn
	return w.ResponseRecorder.Write(p)
}

// TestExportsAtOnce: exports that nobody reads are few, and those of strangers leave some for users.
func TestExportsAtOnce(t *testing.T) {
	s, _ := openNotes(t, web.Options{}, notes("notes", schema.Rules{List: "true", View: "true", Create: "true"}))
	s.ask("ann", "POST", "/api/notes", `{"data":{"title":"x"}}`).is(201)
	all, strangers, each := records.ExportsAt(s.db.Views())
	goOn, ended := make(chan struct{}), make(chan int)
	n := int64(0)
	stall := func(user, address string) {
		r := httptest.NewRequest("GET", "http://localhost/api/notes?format=csv", nil)
		r.Header.Set("User", user)
		r.RemoteAddr = address + ":1"
		begun := make(chan struct{})
		w := &stalled{httptest.NewRecorder(), begun, goOn}
		go func() { s.h.ServeHTTP(w, r); ended <- w.Code }()
		<-begun
		n++
	}
	export := func(user string, status int) {
		t.Helper()
		s.ask(user, "GET", "/api/notes?format=jsonl", "").is(status)
	}
	for range each {
		stall("ann", "10.0.0.1")
	}
	export("ann", 429)
	for i := range strangers {
		stall("", "10.0.0."+string(rune('1'+i/each)))
	}
	export("", 503)
	export("bob", 200)
	for i := range all - n {
		stall("user"+string(rune('a'+i/each)), "10.0.0.1")
	}
	export("bob", 503)
	export("root", 200)
	close(goOn)
	for range n {
		if got := <-ended; got != 200 {
			t.Errorf("an export that has begun: %d", got)
		}
	}
	export("ann", 200)
	export("", 200)
}

// TestEventsAskTheLimitFirst: a stream over the limit is refused before its state is looked for.
func TestEventsAskTheLimitFirst(t *testing.T) {
	s, goOn := openNotes(t, web.Options{MaxStreams: 1}, notes("notes", schema.Rules{List: "true", View: "true", Subscribe: "true"}))
	s.ask("", "GET", "/api/events?topic=notes/*", "").is(501) // without a feed nobody can subscribe
	begun, ended := make(chan struct{}), make(chan struct{})
	open := make(chan struct{})
	close(open)
	go func() {
		s.h.ServeHTTP(&stalled{httptest.NewRecorder(), begun, open}, httptest.NewRequest("GET", "http://localhost/hold", nil))
		close(ended)
	}()
	<-begun
	s.ask("ann", "GET", "/api/events?topic=notes/*", "").is(503, `"code":"queue_full"`)
	close(goOn)
	<-ended
	s.ask("", "GET", "/api/events?topic=notes/*", "").is(501)
}

// TestDocumentsAreMadeOnce: the descriptions of the API are the same for all who see the same collections, until these
// change, and cost next to nothing.
func TestDocumentsAreMadeOnce(t *testing.T) {
	all := []schema.Collection{notes("closed", schema.Rules{})}
	for i := range 50 {
		all = append(all, notes("notes"+string(rune('a'+i/26))+string(rune('a'+i%26)), schema.Rules{List: "true"}))
	}
	s, _ := openNotes(t, web.Options{}, all...)
	for _, path := range []string{"/openapi.json", "/api"} {
		first := s.ask("", "GET", path, "").is(200, "notesab")
		s.ask("root", "GET", path, "").is(200, "closed", "notesab")
		again := s.ask("ann", "GET", path, "").is(200)
		if again.Body.String() != first.Body.String() || strings.Contains(first.Body.String(), "closed") {
			t.Errorf("%s differs, or has what is closed", path)
		}
		tag := first.Header().Get("ETag")
		s.ask("ann", "GET", path, "", "If-None-Match", tag).is(304)
		s.ask("root", "GET", path, "", "If-None-Match", tag).is(200)
		if n := testing.AllocsPerRun(5, func() { s.ask("", "GET", path, "", "If-None-Match", tag) }); n > 300 {
			t.Errorf("%s takes %v allocations again", path, n)
		}
	}
}

// TestLargeResults: a transaction of small operations on large records does not get a response of any size.
func TestLargeResults(t *testing.T) {
	open := schema.Rules{List: "true", View: "true", Create: "true", Update: "true"}
	s, _ := openNotes(t, web.Options{}, notes("notes", open))
	s.ask("ann", "POST", "/api/notes", `{"id":"a","data":{"title":"`+strings.Repeat("x", 1<<20-100)+`"}}`).is(201)
	ops := func(n int) string {
		return `{"ops":[{"op":"create","collection":"notes","data":{"title":"new"}}` + strings.Repeat(`,{"op":"update","collection":"notes","id":"a","data":{}}`, n) + `]}`
	}
	s.ask("ann", "POST", "/api/tx", ops(records.MaxResultBytes>>20+1)).is(400, `"code":"limit"`)
	s.ask("ann", "POST", "/api/tx", ops(records.MaxResultBytes>>20-1)).is(200)
	if got := s.ask("ann", "GET", "/api/notes?count=true&fields=id", "").json(); *got.Total != 2 {
		t.Errorf("%d notes", *got.Total)
	}
}
