package records_test

import (
	"encoding/json"
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

// blog is what most tests serve.
func blog() []schema.Collection {
	const mine = `owner = @auth.id`
	return []schema.Collection{
		{Name: "users", Fields: []schema.Field{{Name: "name", Type: schema.Text, Required: true}}, Rules: schema.Rules{View: "true"}},
		{Name: "posts", Rules: schema.Rules{List: `public || ` + mine, View: `public || ` + mine, Create: mine, Update: mine, Delete: mine, History: mine},
			Fields: []schema.Field{
				{Name: "title", Type: schema.Text, Required: true, Min: "1", Max: "20"},
				{Name: "owner", Type: schema.Reference, Collection: "users", Required: true, Default: "@auth.id"},
				{Name: "public", Type: schema.Bool, Default: "false"},
				{Name: "likes", Type: schema.Int, Default: "0"},
				{Name: "price", Type: schema.Decimal, Scale: 2},
				{Name: "about", Type: schema.JSON},
			}},
		{Name: "secrets", Fields: []schema.Field{{Name: "text", Type: schema.Text}}},
		{Name: "tree", Fields: []schema.Field{{Name: "parent", Type: schema.Reference, Collection: "tree"}, {Name: "n", Type: schema.Int, Max: "9"}}},
	}
}

// site is an application with records.
type site struct {
	t  testing.TB
	db *record.DB
	h  http.Handler
}

// open serves the blog with the users ann and bob. Requests name their user in the header User; "root" is a superadmin.
func open(t testing.TB) *site {
	t.Helper()
	db, err := record.Open(recordengine.Open(t, recordengine.Options{}), record.Options{})
	must(t, err)
	must(t, db.Define(blog()...))
	_, err = db.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
		for _, id := range []string{"ann", "bob"} {
			if _, err := tx.Create("users", id, []byte(`{"name":"`+id+`"}`)); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	app, err := web.New(web.Options{Superadmins: []string{"root@example.org"}, Logger: slog.New(slog.DiscardHandler)})
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
	records.Mount(app, db, records.Options{})
	return &site{t, db, app}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reply is the response to a request.
type reply struct {
	*httptest.ResponseRecorder
	t    testing.TB
	what string
}

// ask sends a request of a user. headers are names and values.
func (s *site) ask(user, method, path, body string, headers ...string) *reply {
	s.t.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if user != "" {
		r.Header.Set("User", user)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	return &reply{w, s.t, user + " " + method + " " + path + " " + body}
}

// is expects a status and texts in the body.
func (r *reply) is(status int, texts ...string) *reply {
	r.t.Helper()
	if r.Code != status {
		r.t.Errorf("%.200s: status %d, want %d: %.1000s", r.what, r.Code, status, r.Body)
	}
	for _, text := range texts {
		if !strings.Contains(r.Body.String(), text) {
			r.t.Errorf("%.200s: no %s in %.1000s", r.what, text, r.Body)
		}
	}
	return r
}

// json reads the body.
func (r *reply) json() (v struct {
	ID    string
	Rev   uint64
	Items []struct {
		ID   string
		Data map[string]any
	}
	Next  string
	Total *int
}) {
	r.t.Helper()
	if err := json.Unmarshal(r.Body.Bytes(), &v); err != nil {
		r.t.Fatalf("%s: %v in %s", r.what, err, r.Body)
	}
	return v
}

// TestLife walks through the life of a record.
func TestLife(t *testing.T) {
	s := open(t)
	r := s.ask("ann", "POST", "/api/posts", `{"data":{"title":"First","price":"1.5"}}`).is(201, `"title":"First"`, `"owner":"ann"`, `"price":"1.50"`, `"created_by":"ann"`, `"rev":1`)
	at := "/api/posts/" + r.json().ID
	if got := r.Header().Get("Location"); got != at {
		t.Errorf("Location %s, want %s", got, at)
	}
	s.ask("ann", "GET", at, "").is(200, r.Body.String())
	s.ask("bob", "GET", at, "").is(404, "record_not_found")
	s.ask("", "GET", at, "").is(404, "record_not_found")
	s.ask("bob", "PATCH", at, `{"data":{"title":"Mine"}}`).is(404, "record_not_found")
	s.ask("ann", "PATCH", at, `{"data":{"public":true,"price":null}}`).is(200, `"rev":2`, `"public":true`)
	s.ask("bob", "GET", at, "").is(200, `"First"`)
	s.ask("bob", "PATCH", at, `{"data":{"title":"Mine"}}`).is(403, "record_refused")
	s.ask("bob", "DELETE", at, "").is(403, "record_refused")
	s.ask("bob", "POST", "/api/posts", `{"data":{"title":"Hers","owner":"ann"}}`).is(403, "record_refused")
	s.ask("ann", "DELETE", at, "").is(204)
	s.ask("ann", "GET", at, "").is(404)
	s.ask("bob", "POST", at+"/restore", "").is(404)
	s.ask("ann", "POST", at+"/restore", "").is(200, `"is_deleted":false`)
	s.ask("ann", "DELETE", at, "").is(204)
	s.ask("ann", "DELETE", at+"?purge", "").is(204)
	s.ask("ann", "POST", at+"/restore", "").is(404)
	s.ask("ann", "POST", "/api/posts", `{"id":"own","data":{"title":"Own id"}}`).is(201, `"id":"own"`)
	s.ask("ann", "POST", "/api/posts", `{"id":"own","data":{"title":"Again"}}`).is(409, "record_exists")
}

// TestList: pages, filters, orders, counts, projections and what they do not show.
func TestList(t *testing.T) {
	s := open(t)
	for i, title := range []string{"a", "b", "c", "d", "e"} {
		public := "false"
		if i%2 == 0 {
			public = "true"
		}
		s.ask("ann", "POST", "/api/posts", `{"data":{"title":"`+title+`","public":`+public+`,"likes":`+string('5'-rune(i))+`}}`).is(201)
	}
	titles := func(user, query string) (all, next string, total *int) {
		t.Helper()
		v := s.ask(user, "GET", "/api/posts?"+query, "").is(200).json()
		for _, x := range v.Items {
			all += x.Data["title"].(string)
		}
		return all, v.Next, v.Total
	}
	for _, c := range []struct{ user, query, want string }{
		{"ann", "", "abcde"},
		{"ann", "sort=likes", "edcba"},
		{"ann", "sort=-created", "edcba"},
		{"bob", "", "ace"},
		{"", "filter=title%20%3D%20%22b%22", ""}, // a filter finds nothing that the rules hide
		{"bob", "filter=likes+%3C+5&sort=-title", "ec"},
		{"ann", `filter=owner.name+~+"nn"+%26%26+likes+in+(1,2)`, "de"},
		{"bob", "offset=1&limit=1", "c"},
	} {
		if got, _, _ := titles(c.user, c.query); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.user, c.query, got, c.want)
		}
	}
	first, next, total := titles("bob", "limit=2&sort=-likes&count=true")
	second, last, _ := titles("bob", "limit=2&sort=-likes&after="+next)
	if first != "ac" || second != "e" || last != "" || total == nil || *total != 3 {
		t.Errorf("pages %q and %q, then %q, total %v", first, second, last, total)
	}
	s.ask("bob", "GET", "/api/posts?fields=title&limit=1", "").is(200, `"data":{"title":"a"}}]`)
	s.ask("bob", "GET", "/api/posts?expand=owner&limit=1", "").is(200, `"expand":{"owner":{"id":"ann"`)
	s.ask("root", "GET", "/api/users?expand=posts(owner)", "").is(200, `"posts(owner)":{"items":[{"id":`)
	s.ask("bob", "GET", "/api/posts?aggregate=count,sum(likes)", "").is(200, `{"groups":[{"count":3,"sum(likes)":9}]}`)
	s.ask("bob", "GET", "/api/secrets", "").is(403, "record_refused")
	s.ask("root", "GET", "/api/secrets", "").is(200, `{"items":[]}`)
	s.ask("bob", "GET", "/api/nothing", "").is(404, "unknown_collection")
	s.ask("bob", "GET", "/api/posts?filter=likes>1+%26%26+titel+%3D+1", "").is(400, "query_invalid", `"parameter":"filter"`, "did you mean title?", "at character 12")
}

// TestInvalid: problems point to the values of the body.
func TestInvalid(t *testing.T) {
	s := open(t)
	s.ask("ann", "POST", "/api/posts", `{"data":{"title":"","likes":"x","foo":1}}`).is(422, "record_invalid", `"pointer":"/data/likes"`, `"pointer":"/data/foo"`)
	s.ask("ann", "POST", "/api/posts", `{"id":"a/b","data":{"title":"x"}}`).is(422, `"pointer":"/id"`)
	s.ask("ann", "POST", "/api/posts", `{"title":"x"}`).is(400, `"pointer":"/data"`, `"pointer":"/title"`)
	s.ask("ann", "POST", "/api/posts", `{"data":`).is(400)
}

// TestServe: servers that match paths literally have the same routes.
func TestServe(t *testing.T) {
	s := open(t)
	app, err := web.New(web.Options{Programs: true, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	app.AddErrors(record.Catalog())
	app.HandleLiteral("", "/api/{rest}", web.Handler(records.New(s.db, records.Options{Actor: records.Operator}).Serve))
	s.h = app
	s.ask("", "POST", "/api/secrets", `{"id":"s","data":{"text":"x"}}`).is(201, `"text":"x"`)
	s.ask("", "HEAD", "/api/secrets/s", "").is(200)
	s.ask("", "DELETE", "/api/secrets/s", "").is(204)
	s.ask("", "POST", "/api/secrets/s/restore", "").is(200)
	s.ask("", "POST", "/api/tx", `{"ops":[]}`).is(200)
	s.ask("", "GET", "/api/tx?collection=secrets", "").is(200)
	s.ask("", "GET", "/api/other", "").is(404, "unknown_collection")
	s.ask("", "GET", "/api/secrets/s/other", "").is(404, "no_route")
	s.ask("", "GET", "/api//", "").is(404, "no_route")
	if got := s.ask("", "PUT", "/api/secrets/s", "").is(405, "method_not_allowed").Header().Get("Allow"); got != "GET, PATCH, DELETE, OPTIONS" {
		t.Errorf("Allow: %s", got)
	}
}

// TestOpenAPI: the document describes the collections that the sender may know of, and nothing is missing that the
// routes have.
func TestOpenAPI(t *testing.T) {
	s := open(t)
	r := s.ask("", "GET", "/openapi.json", "").is(200, `"openapi":"3.1.0"`, `"/api/posts/{id}/history"`, `"posts.Create"`)
	if strings.Contains(r.Body.String(), "secrets") {
		t.Error("a stranger sees a collection that is closed to everybody")
	}
	s.ask("root", "GET", "/openapi.json", "").is(200, `"/api/secrets/{id}"`)
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string
			Parameters  []struct{ Name string }
		}
	}
	text := r.Body.Bytes()
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), `"parameters":[{"in":"path","name":"id","required":true,"schema":{"type":"string"}}]`, `"parameters":{}`)), &doc); err != nil {
		t.Fatal(err)
	}
	ids, operations := map[string]bool{}, 0
	for _, item := range doc.Paths {
		for method, op := range item {
			if method != "parameters" {
				ids[op.OperationID] = true
				operations++
			}
		}
	}
	lines := records.New(s.db, records.Options{}).Table()
	const single = 3 // routes that are about no collection
	if want := single + 2*(len(lines)-single); operations != want || len(ids) != want {
		t.Errorf("%d operations with %d ids, want %d of each", operations, len(ids), want)
	}
	page := s.ask("", "GET", "/api", "").is(200, "<code>/api/posts</code>", "likes", "/openapi.json")
	if strings.Contains(page.Body.String(), "secrets") {
		t.Error("the page shows a closed collection")
	}
}
