package todo_test

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/examples/todo"
	"github.com/skerrydb/skerry/webtest"
)

// patience is how long a test waits, on a busy machine.
const patience = 60 * time.Second

const password = "correct horse"

// start serves the application on a new engine.
func start(t *testing.T, w skerry.Web) *webtest.Site {
	t.Helper()
	w.Name = "todo"
	if w.Application == nil {
		w.Application = todo.Application
	}
	return webtest.Start(t, w, todo.Procedures()...)
}

// register creates an account and returns a browser that is logged in.
func register(at *webtest.Site, email string) *webtest.Browser {
	b := at.Browser()
	b.Get("/register").Submit("form", "email", email, "password", password).ExpectPath("/").Expect(200, email)
	return b
}

// send makes a request; header has alternating names and values.
func send(t *testing.T, b *webtest.Browser, method, path, body string, header ...string) *webtest.Page {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, b.Site.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return b.Do(r)
}

// TestList uses the application without scripts.
func TestList(t *testing.T) {
	t.Parallel()
	at := start(t, skerry.Web{})
	b := at.Browser()
	b.Get("/").ExpectPath("/account/login?next=%2F").Expect(200, "Create an account", `name="next" value="/"`)
	b.Get("/account/login").Click("Create an account").Submit("form", "email", "anna@example.org", "password", password).ExpectPath("/").Expect(200, "anna@example.org")
	b.Get("/").ExpectPath("/").Expect(200, "Nothing to do yet.")
	b.Get("/").Lacks("/undo")
	b.Post("/add", "text", "  buy \t milk ").ExpectPath("/").Expect(200, "<span>buy milk</span>", "Undo adding")
	b.Post("/add", "text", "sleep").ExpectPath("/").Expect(200, "<span>buy milk</span>", "<span>sleep</span>")
	b.Post("/done", "id", "1").ExpectPath("/").Expect(200, `<li class="done" id="item-1">`, `<li id="item-2">`, "Undo doing")
	b.Post("/done", "id", "1").ExpectPath("/").Expect(200, "Undo doing") // again: no other change
	b.Get("/progress").ExpectPath("/progress").Expect(200, "1 of 2 done", "const latest = 'buy milk'", "const total =  2 ", `"text":"sleep"`)
	b.Post("/undo").ExpectPath("/").Expect(200, `<li id="item-1">`, `<li id="item-2">`)
	b.Get("/").Lacks("/undo", `class="done"`)
	b.Post("/undo").ExpectPath("/undo").Expect(422, "there is nothing to undo", "<span>sleep</span>")
	b.Post("/add", "text", "wrong").ExpectPath("/").Expect(200, "<span>wrong</span>")
	b.Post("/undo").Lacks("wrong")
	b.Get("/?find=MILK").ExpectPath("/?find=MILK").Expect(200, "buy milk", `value="MILK"`)
	b.Get("/?find=MILK").Lacks("sleep")
	list := b.Get("/").Submit("#item-1 form[action=/done]")
	if done := list.Find(".done span").Text(); done != "buy milk" {
		t.Errorf("done: %q", done)
	}
	list.Submit("#item-1 form[action=/reopen]").ExpectPath("/").Lacks(`class="done"`, "/undo")
	list = b.Get("/").Submit("#item-1 form[action=/remove]").ExpectPath("/").Expect(200, "Undo deleting").Lacks("milk")
	list.Submit("form[action=/undo]").ExpectPath("/").Expect(200, "<span>buy milk</span>")

	ben := register(at, "ben@example.org")
	ben.Get("/").Lacks("milk", "sleep", "anna")
	ben.Get("/progress").Lacks("milk", "sleep", "anna")
	ben.Post("/done", "id", "1").ExpectPath("/done").Expect(404, "there is no item 1")
	ben.Post("/undo").ExpectPath("/undo").Expect(422, "there is nothing to undo")

	b.Post("/account/logout").ExpectPath("/account/login?done=logout").Expect(200, "You are logged out.")
	b.Get("/progress").ExpectPath("/account/login?next=%2Fprogress").Expect(200)
	b.Post("/add", "text", "not mine").ExpectPath("/add").Expect(401, "nobody is logged in")
	b.Post("/account/login", "email", "anna@example.org", "password", password, "next", "/progress").ExpectPath("/progress").Expect(200, "0 of 2 done").Lacks("not mine")
}

// TestNames: buttons of items with the same text have different names, on the whole list
// and among search results.
func TestNames(t *testing.T) {
	t.Parallel()
	b := register(start(t, skerry.Web{}), "anna@example.org")
	for _, text := range []string{"milk", "sleep", "Milk", "milk"} {
		b.Post("/add", "text", text).Expect(200)
	}
	b.Post("/done", "id", "1").Expect(200)
	b.Get("/").Expect(200, `aria-label="Done: sleep"`, `aria-label="Delete: sleep"`,
		`value="3" aria-label="Done (1 of 3): Milk"`, `value="3" aria-label="Delete (1 of 3): Milk"`,
		`value="4" aria-label="Done (2 of 3): milk"`, `value="4" aria-label="Delete (2 of 3): milk"`,
		`value="1" aria-label="Not done (3 of 3): milk"`, `value="1" aria-label="Delete (3 of 3): milk"`)
	b.Get("/?find=milk").Expect(200, `"Done (1 of 3): Milk"`, `"Done (2 of 3): milk"`, `"Not done (3 of 3): milk"`)
	b.Post("/remove", "id", "3").Expect(200)
	b.Post("/remove", "id", "4").Expect(200, `"Not done: milk"`, `"Delete: milk"`)
}

// TestLogin: errors are shown beside what was typed; no address redirects to another site.
func TestLogin(t *testing.T) {
	t.Parallel()
	at := start(t, skerry.Web{})
	b := register(at, "anna@example.org")
	b.Post("/account/logout")
	for _, c := range []struct {
		path, email, password string
		status                int
		want                  string
	}{
		{"/account/login", "anna@example.org", "battery staple", 401, "he email address or the password is wrong"},
		{"/account/login", "nobody@example.org", password, 401, "he email address or the password is wrong"},
		{"/register", "anna@example.org", "battery staple", 422, "he email address or the password is wrong"},
		{"/register", "ben@example.org", "short", 422, "8 characters"},
		{"/register", "ben", password, 422, "an email address"},
	} {
		got := b.Post(c.path, "email", c.email, "password", c.password)
		got.ExpectPath(c.path).Expect(c.status, `value="`+c.email+`"`)
		if said := got.Find("[role=alert]").Text(); !strings.Contains(said, c.want) {
			t.Errorf("%s of %s shows %q, want %q", c.path, c.email, said, c.want)
		}
		got.Lacks(c.password)
	}
	b.Get("/").ExpectPath("/account/login?next=%2F").Expect(200)
	for _, next := range []string{"https://evil.example/", "//evil.example/", `/\evil.example/`, "evil", "", "/\tx", "javascript:alert(1)"} {
		b.Post("/account/login", "email", "anna@example.org", "password", password, "next", next).ExpectPath("/").Expect(200)
	}
	b.Post("/register", "email", "anna@example.org").ExpectPath("/register").Expect(400, "password")
	b.Post("/register", "email", "a", "password", "b", "admin", "1").ExpectPath("/register").Expect(400, "admin")
	b.Get("/account").ExpectPath("/account").Expect(200, "anna@example.org")
}

// TestForgotten: with mail, as in development, a forgotten password is reset by email;
// without, it cannot be.
func TestForgotten(t *testing.T) {
	t.Parallel()
	without := start(t, skerry.Web{Application: func(s *skerry.Services) (http.Handler, error) {
		s.Mail = nil
		return todo.Application(s)
	}}).Browser()
	without.Get("/account/login").Expect(200, "Create an account").Lacks("Forgot")
	without.Get("/account/reset").ExpectPath("/account/reset").Expect(404)
	at := start(t, skerry.Web{})
	b := register(at, "anna@example.org")
	login := b.Post("/account/logout").ExpectPath("/account/login?done=logout")
	b.Get("/account/register").ExpectPath("/account/register").Expect(404) // the example has its own
	login.Click("Forgot your password?").Submit("form", "email", "anna@example.org").ExpectPath("/account/sent").Expect(200)
	b.Get(at.LastMail("anna@example.org").Link()).Submit("form", "password", "battery staple").ExpectPath("/account/login?done=reset").Expect(200)
	b.Login("anna@example.org", "battery staple").ExpectPath("/").Expect(200, "Nothing to do yet.")
}

// TestRefusals: broken forms, texts that are too long, other origins.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := register(start(t, skerry.Web{}), "anna@example.org")
	b.Post("/add", "text", strings.Repeat("ü", todo.MaxText)).ExpectPath("/").Expect(200, strings.Repeat("ü", todo.MaxText))
	for _, text := range []string{strings.Repeat("ü", todo.MaxText+1), "", " \t\r\n "} {
		b.Post("/add", "text", text).ExpectPath("/add").Expect(422, "1 to 200 characters", "ü", "Undo adding")
	}
	for _, c := range []struct {
		path, body string
		status     int
		want       string
		header     []string
	}{
		{"/add", "", 400, "text", nil},
		{"/add", "text=a&text=b", 400, "text", nil},
		{"/add", "text=a&user=ben", 400, "user", nil},
		{"/add", "text=%zz", 400, "malformed", nil},
		{"/add", "text=%ff", 400, "UTF-8", nil},
		{"/add", `{"text":1}`, 400, "text", []string{"Content-Type", "application/json"}},
		{"/add", `{"text":`, 400, "JSON", []string{"Content-Type", "application/json"}},
		{"/add", "text=a", 415, "form", []string{"Content-Type", "text/plain"}},
		{"/add", "text=" + strings.Repeat("a", 2<<20), 413, "limit", nil},
		{"/add", "text=a", 403, "origin", []string{"Sec-Fetch-Site", "cross-site"}},
		{"/done", "id=x", 400, "id", nil},
		{"/done", "id=", 400, "id", nil},
		{"/done", "id=99999999999999999999", 400, "id", nil},
		{"/done", "id=-1", 404, "-1", nil},
		{"/done", "id=2", 404, "2", nil},
		{"/undo", "all=1", 400, "all", nil},
	} {
		send(t, b, "POST", c.path, c.body, c.header...).ExpectPath(c.path).Expect(c.status, c.want, "reference")
		json := send(t, b, "POST", c.path, c.body, append([]string{"Accept", "application/json"}, c.header...)...)
		json.ExpectPath(c.path).Expect(c.status, `"code":"`)
	}
	b.Get("/nothing").ExpectPath("/nothing").Expect(404, "reference")
	b.Get("/add").ExpectPath("/add").Expect(405, "reference")
	b.Get("/").Lacks("item-2") // nothing was changed
}

// TestJSON: a program gets the results of procedures, and errors with their codes.
func TestJSON(t *testing.T) {
	t.Parallel()
	b := register(start(t, skerry.Web{}), "anna@example.org")
	ask := func(path, body string) *webtest.Page {
		t.Helper()
		return send(t, b, "POST", path, body, "Accept", "application/json", "Content-Type", "application/json")
	}
	ask("/add", `{"text":"buy milk"}`).ExpectPath("/add").Expect(200, `{"id":1,"text":"buy milk","added":"`)
	ask("/done", `{"id":1}`).ExpectPath("/done").Expect(200, `"done":"`)
	ask("/undo", `{}`).ExpectPath("/undo").Expect(200, `{"added":false,"id":1}`)
	ask("/undo", `{}`).ExpectPath("/undo").Expect(422, `"code":"nothing_to_undo"`, `"detail":"there is nothing to undo","`)
	ask("/add", `{"text":""}`).ExpectPath("/add").Expect(400, `"code":"invalid"`, `"detail":"an item must have 1 to 200 characters","`)
	b.Post("/account/logout")
	ask("/add", `{"text":"x"}`).ExpectPath("/add").Expect(401, `"code":"unauthenticated"`)
}

// listen opens a stream of events. The returned function waits for n of them and returns
// everything received so far.
func listen(t *testing.T, b *webtest.Browser, after, last string) func(n int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", b.Site.URL+"/events?after="+after, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := b.Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	var got strings.Builder
	return func(n int) string {
		t.Helper()
		for strings.Count(got.String(), "event: changed\n") < n || !strings.HasSuffix(got.String(), "\n\n") {
			p := make([]byte, 1000)
			m, err := resp.Body.Read(p)
			if got.Write(p[:m]); err != nil {
				t.Fatalf("%v after %q", err, got.String())
			}
		}
		return got.String()
	}
}

// TestEvents: a page gets an event for every change since it was rendered, and none for
// other users' changes.
func TestEvents(t *testing.T) {
	t.Parallel()
	at := start(t, skerry.Web{})
	anna, ben := register(at, "anna@example.org"), register(at, "ben@example.org")
	_, rest, _ := strings.Cut(anna.Get("/").Body, `data-position="`)
	position, _, _ := strings.Cut(rest, `"`)
	ben.Post("/add", "text", "secret of ben")
	anna.Post("/add", "text", "one") // before the stream is open

	read := listen(t, anna, position, "")
	read(1)
	ben.Post("/add", "text", "another secret")
	anna.Post("/done", "id", "1")
	read(2)
	anna.Post("/undo")
	got := read(3)
	if n := strings.Count(got, "event:"); n != 3 || strings.Contains(got, "secret") {
		t.Errorf("%d events: %q", n, got)
	}
	// A browser that reconnects gets only newer events.
	_, second, _ := strings.Cut(got, "\nid: ")
	_, second, _ = strings.Cut(second, "\nid: ")
	second, _, _ = strings.Cut(second, "\n")
	if again := listen(t, anna, position, second)(1); !strings.HasSuffix(got, strings.TrimPrefix(again, ":\n\n")) || strings.Contains(again, "id: "+second+"\n") {
		t.Errorf("after %s of %q: %q", second, got, again)
	}
	anna.Get("/events?after=x").ExpectPath("/events?after=x").Expect(400, "after")
	send(t, at.Browser(), "GET", "/events?after=0", "", "Accept", "text/event-stream").ExpectPath("/events?after=0").Expect(401)
}

// escaped returns text as a value in a query.
func escaped(text string) string { return url.QueryEscape(text) }

// copySource copies the views and assets to a new folder, where a test can change them.
func copySource(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"views", "assets"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
