package todo_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/examples/todo"
)

// patience is how long a test waits for what must happen on a busy machine.
const patience = 60 * time.Second

const password = "correct horse"

// serve serves the application on db, over TLS, and returns its address.
func serve(t *testing.T, db *embedded.DB, w skerry.Web) (url string, stop func()) {
	t.Helper()
	w.Name = "todo"
	if w.Application == nil {
		w.Application = todo.Application
	}
	borrowed := httptest.NewTLSServer(nil)
	defer borrowed.Close()
	s, err := skerry.Open(db, skerry.Options{
		HTTP: "127.0.0.1:0", RESP: skerry.Off, Admin: skerry.Off, TLS: &tls.Config{Certificates: borrowed.TLS.Certificates},
		Procedures: todo.Procedures(), Web: w, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	for end := time.Now().Add(patience); s.Ready() != nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		s.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return s.HTTPURL(), stop
}

// start serves the application on an engine of its own.
func start(t *testing.T, w skerry.Web) string {
	t.Helper()
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	at, _ := serve(t, db, w)
	return at
}

// browser keeps its cookies, and follows redirects.
type browser struct {
	t      *testing.T
	client *http.Client
	at     string
}

func newBrowser(t *testing.T, at string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // tests on loopback
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{t, &http.Client{Jar: jar, Transport: transport, Timeout: patience}, at}
}

// page is an answer: where it came from in the end, and what it says.
type page struct {
	path   string
	status int
	header http.Header
	text   string
}

func (b *browser) do(method, path, body string, header ...string) page {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.at+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return page{resp.Request.URL.RequestURI(), resp.StatusCode, resp.Header, string(text)}
}

func (b *browser) get(path string) page { b.t.Helper(); return b.do("GET", path, "") }

// post sends a form, whose fields are pairs.
func (b *browser) post(path string, fields ...string) page {
	b.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return b.do("POST", path, form.Encode())
}

// register makes an account and is logged in then.
func (b *browser) register(email string) {
	b.t.Helper()
	b.post("/register", "email", email, "password", password).is(b.t, "/", 200, email)
}

// is fails unless the page is that of path, with that status and all these texts.
func (p page) is(t *testing.T, path string, status int, texts ...string) {
	t.Helper()
	if p.path != path || p.status != status {
		t.Errorf("%s, %d; want %s, %d", p.path, p.status, path, status)
	}
	for _, text := range texts {
		if !strings.Contains(p.text, text) {
			t.Errorf("the page does not have %q", text)
		}
	}
	if t.Failed() {
		t.Fatal(p.text)
	}
}

// lacks fails if the page has one of these texts.
func (p page) lacks(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(p.text, text) {
			t.Fatalf("the page has %q:\n%s", text, p.text)
		}
	}
}

// TestList is what a user does, without scripts.
func TestList(t *testing.T) {
	t.Parallel()
	at := start(t, skerry.Web{})
	b := newBrowser(t, at)
	b.get("/").is(t, "/account/login?next=%2F", 200, "Make an account", `name="next" value="/"`)
	b.register("anna@example.org")
	b.get("/").is(t, "/", 200, "Nothing is to be done.")
	b.get("/").lacks(t, "/undo")
	b.post("/add", "text", "  buy \t milk ").is(t, "/", 200, "<span>buy milk</span>", "Undo adding")
	b.post("/add", "text", "sleep").is(t, "/", 200, "<span>buy milk</span>", "<span>sleep</span>")
	b.post("/done", "id", "1").is(t, "/", 200, `<li class="done" id="item-1">`, `<li id="item-2">`, "Undo doing")
	b.post("/done", "id", "1").is(t, "/", 200, "Undo doing") // again: no other change
	b.get("/progress").is(t, "/progress", 200, "1 of 2 done", "const latest = 'buy milk'", "const total =  2 ", `"text":"sleep"`)
	b.post("/undo").is(t, "/", 200, `<li id="item-1">`, `<li id="item-2">`)
	b.get("/").lacks(t, "/undo", `class="done"`)
	b.post("/undo").is(t, "/undo", 422, "there is nothing to undo", "<span>sleep</span>")
	b.post("/add", "text", "wrong").is(t, "/", 200, "<span>wrong</span>")
	b.post("/undo").lacks(t, "wrong")
	b.get("/?find=MILK").is(t, "/?find=MILK", 200, "buy milk", `value="MILK"`)
	b.get("/?find=MILK").lacks(t, "sleep")

	ben := newBrowser(t, at)
	ben.register("ben@example.org")
	ben.get("/").lacks(t, "milk", "sleep", "anna")
	ben.get("/progress").lacks(t, "milk", "sleep", "anna")
	ben.post("/done", "id", "1").is(t, "/done", 404, "there is no item 1")
	ben.post("/undo").is(t, "/undo", 422, "there is nothing to undo")

	b.post("/account/logout").is(t, "/account/login?done=logout", 200, "You are logged out.")
	b.get("/progress").is(t, "/account/login?next=%2Fprogress", 200)
	b.post("/add", "text", "not mine").is(t, "/add", 401, "nobody is logged in")
	b.post("/account/login", "email", "anna@example.org", "password", password, "next", "/progress").is(t, "/progress", 200, "0 of 2 done")
}

// TestLogin: what is wrong is said, beside what was typed; no address leads elsewhere.
func TestLogin(t *testing.T) {
	t.Parallel()
	at := start(t, skerry.Web{})
	b := newBrowser(t, at)
	b.register("anna@example.org")
	b.post("/account/logout")
	for _, c := range []struct {
		path, email, password string
		status                int
		want                  string
	}{
		{"/account/login", "anna@example.org", "battery staple", 401, "he e-mail address or the password is wrong"},
		{"/account/login", "nobody@example.org", password, 401, "he e-mail address or the password is wrong"},
		{"/register", "anna@example.org", "battery staple", 422, "he e-mail address or the password is wrong"},
		{"/register", "ben@example.org", "short", 422, "8 characters"},
		{"/register", "ben", password, 422, "an e-mail address"},
	} {
		got := b.post(c.path, "email", c.email, "password", c.password)
		got.is(t, c.path, c.status, c.want, `value="`+c.email+`"`)
		got.lacks(t, c.password)
	}
	b.get("/").is(t, "/account/login?next=%2F", 200)
	for _, next := range []string{"https://evil.example/", "//evil.example/", `/\evil.example/`, "evil", "", "/\tx", "javascript:alert(1)"} {
		b.post("/account/login", "email", "anna@example.org", "password", password, "next", next).is(t, "/", 200)
	}
	b.post("/register", "email", "anna@example.org").is(t, "/register", 400, "password")
	b.post("/register", "email", "a", "password", "b", "admin", "1").is(t, "/register", 400, "admin")
	b.get("/account").is(t, "/account", 200, "anna@example.org")
}

// TestForgotten: where there is mail, as there is in development, a forgotten password
// is reset by a letter; without, there is no such way.
func TestForgotten(t *testing.T) {
	t.Parallel()
	without := newBrowser(t, start(t, skerry.Web{}))
	without.get("/account/login").lacks(t, "Forgotten")
	without.get("/account/reset").is(t, "/account/reset", 404)
	at := start(t, skerry.Web{Debug: true})
	b := newBrowser(t, at)
	b.register("anna@example.org")
	b.post("/account/logout").is(t, "/account/login?done=logout", 200, `href="/account/reset"`)
	b.get("/account/register").is(t, "/account/register", 404) // the example has its own
	b.post("/account/reset", "email", "anna@example.org").is(t, "/account/sent", 200)
	_, rest, _ := strings.Cut(b.get("/_dev/outbox/1").text, at+"/account/reset/confirm?token=")
	token, _, _ := strings.Cut(rest, `"`)
	b.post("/account/reset/confirm", "token", token, "password", "battery staple").is(t, "/account/login?done=reset", 200)
	b.post("/account/login", "email", "anna@example.org", "password", "battery staple").is(t, "/", 200, "Nothing is to be done.")
}

// TestRefusals: broken forms, texts that are too long, other origins.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, start(t, skerry.Web{}))
	b.register("anna@example.org")
	b.post("/add", "text", strings.Repeat("ü", todo.MaxText)).is(t, "/", 200, strings.Repeat("ü", todo.MaxText))
	for _, text := range []string{strings.Repeat("ü", todo.MaxText+1), "", " \t\r\n "} {
		b.post("/add", "text", text).is(t, "/add", 422, "1 to 200 characters", "ü", "Undo adding")
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
		b.do("POST", c.path, c.body, c.header...).is(t, c.path, c.status, c.want, "reference")
		json := b.do("POST", c.path, c.body, append([]string{"Accept", "application/json"}, c.header...)...)
		json.is(t, c.path, c.status, `"code":"`)
	}
	b.get("/nothing").is(t, "/nothing", 404, "reference")
	b.get("/add").is(t, "/add", 405, "reference")
	b.get("/").lacks(t, "item-2") // nothing of it was done
}

// TestJSON: a program gets the results of procedures, and refusals with their codes.
func TestJSON(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, start(t, skerry.Web{}))
	b.register("anna@example.org")
	ask := func(path, body string) page {
		t.Helper()
		return b.do("POST", path, body, "Accept", "application/json", "Content-Type", "application/json")
	}
	ask("/add", `{"text":"buy milk"}`).is(t, "/add", 200, `{"id":1,"text":"buy milk","added":"`)
	ask("/done", `{"id":1}`).is(t, "/done", 200, `"done":"`)
	ask("/undo", `{}`).is(t, "/undo", 200, `{"added":false,"id":1}`)
	ask("/undo", `{}`).is(t, "/undo", 422, `"code":"nothing_to_undo"`, `"detail":"there is nothing to undo","`)
	ask("/add", `{"text":""}`).is(t, "/add", 400, `"code":"invalid"`, `"detail":"what is to be done has 1 to 200 characters","`)
	b.post("/account/logout")
	ask("/add", `{"text":"x"}`).is(t, "/add", 401, `"code":"unauthenticated"`)
}

// listen opens a stream of events. What it returns waits until n of them have come,
// and returns all that has.
func listen(t *testing.T, b *browser, after, last string) func(n int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", b.at+"/events?after="+after, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := b.client.Do(r)
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

// TestEvents: a page that was shown hears of every change since, and of those of
// others nothing.
func TestEvents(t *testing.T) {
	t.Parallel()
	at := start(t, skerry.Web{})
	anna, ben := newBrowser(t, at), newBrowser(t, at)
	anna.register("anna@example.org")
	ben.register("ben@example.org")
	_, rest, _ := strings.Cut(anna.get("/").text, `data-position="`)
	position, _, _ := strings.Cut(rest, `"`)
	ben.post("/add", "text", "secret of ben")
	anna.post("/add", "text", "one") // before anybody listens

	read := listen(t, anna, position, "")
	read(1)
	ben.post("/add", "text", "another secret")
	anna.post("/done", "id", "1")
	read(2)
	anna.post("/undo")
	got := read(3)
	if n := strings.Count(got, "event:"); n != 3 || strings.Contains(got, "secret") {
		t.Errorf("%d events: %q", n, got)
	}
	// Who comes again gets what is new since.
	_, second, _ := strings.Cut(got, "\nid: ")
	_, second, _ = strings.Cut(second, "\nid: ")
	second, _, _ = strings.Cut(second, "\n")
	if again := listen(t, anna, position, second)(1); !strings.HasSuffix(got, strings.TrimPrefix(again, ":\n\n")) || strings.Contains(again, "id: "+second+"\n") {
		t.Errorf("after %s of %q: %q", second, got, again)
	}
	anna.get("/events?after=x").is(t, "/events?after=x", 400, "after")
	newBrowser(t, at).do("GET", "/events?after=0", "", "Accept", "text/event-stream").is(t, "/events?after=0", 401)
}

// escaped is text as a value in a query.
func escaped(text string) string { return url.QueryEscape(text) }

// copySource copies the views and assets to a folder of its own, where a test can
// change them.
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
