package admin_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine/embedded"
)

const (
	email    = "anna@example.org"
	password = "correct horse battery"
)

// cheap is the cost of passwords in tests, which hash a thousand of them.
var cheap = auth.Params{MemoryKiB: 64, Passes: 1}

// world is a server with the admin page that runs until its test ends.
type world struct {
	t    *testing.T
	URL  string // of the admin listener
	link string // for the first administrator
	srv  *skerry.Server
	dir  string
}

// start runs a server on a new folder. o may have an application, procedures and more.
func start(t *testing.T, o skerry.Options) *world {
	t.Helper()
	return startWith(t, o, func(*embedded.DB, *skerry.Options) {})
}

// startWith is start with options that need the engine.
func startWith(t *testing.T, o skerry.Options, more func(db *embedded.DB, o *skerry.Options)) *world {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	w := &world{t: t, dir: t.TempDir()}
	db, err := embedded.Open(w.dir, embedded.Options{Logger: log, LogReserveBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	links := make(chan string, 1)
	o.HTTP, o.RESP, o.Admin, o.Logger, o.Build, o.Dir = "127.0.0.1:0", skerry.Off, "127.0.0.1:0", log, "test", w.dir
	o.AdminHashing = cheap
	o.AdminLink = func(u string) { links <- u }
	more(db, &o)
	if w.srv, err = skerry.Open(db, o); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.srv.Run(context.Background()) }()
	t.Cleanup(func() {
		w.srv.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	w.URL = w.srv.AdminURL()
	select {
	case w.link = <-links:
	case <-time.After(eventually.Limit):
		t.Fatal("there is no set-up link")
	}
	return w
}

// client is the browser of one administrator, without scripts.
type client struct {
	w    *world
	http *http.Client
}

func (w *world) client() *client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	transport := &http.Transport{}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &client{w, &http.Client{Jar: jar, Transport: transport, Timeout: time.Minute}}
}

// answer is a response after redirects.
type answer struct {
	t      *testing.T
	Status int
	Path   string // with its query
	Body   string
	Header http.Header
}

func (c *client) do(method, path string, form url.Values) *answer {
	c.w.t.Helper()
	if !strings.HasPrefix(path, "http") {
		path = c.w.URL + path
	}
	r, err := http.NewRequestWithContext(c.w.t.Context(), method, path, strings.NewReader(form.Encode()))
	if err != nil {
		c.w.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return c.send(r)
}

func (c *client) send(r *http.Request) *answer {
	c.w.t.Helper()
	resp, err := c.http.Do(r)
	if err != nil {
		c.w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.w.t.Fatal(err)
	}
	return &answer{c.w.t, resp.StatusCode, resp.Request.URL.RequestURI(), string(b), resp.Header}
}

func (c *client) get(path string) *answer { c.w.t.Helper(); return c.do(http.MethodGet, path, nil) }

// post sends a form, given as alternating names and values.
func (c *client) post(path string, fields ...string) *answer {
	c.w.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return c.do(http.MethodPost, path, form)
}

// expect fails the test unless the response has a status and contains all texts.
func (a *answer) expect(status int, texts ...string) *answer {
	a.t.Helper()
	if a.Status != status {
		a.t.Fatalf("status %d, want %d: %s\n%s", a.Status, status, a.Path, a.Body)
	}
	for _, text := range texts {
		if !strings.Contains(a.Body, text) {
			a.t.Fatalf("%s lacks %q:\n%s", a.Path, text, a.Body)
		}
	}
	return a
}

// lacks fails the test if the response contains one of the texts.
func (a *answer) lacks(texts ...string) *answer {
	a.t.Helper()
	for _, text := range texts {
		if strings.Contains(a.Body, text) {
			a.t.Fatalf("%s contains %q:\n%s", a.Path, text, a.Body)
		}
	}
	return a
}

var secretInPage = regexp.MustCompile(`<code>([A-Z2-7]{16,})</code>`)

// setUp sets an account up with a link, its second factor included, and returns the secret of that.
func (c *client) setUp(link, email string) (secret string) {
	c.w.t.Helper()
	c.get(link).expect(200, "Set up your account")
	c.post(link, "email", email, "password", password).expect(200, "Two-factor")
	page := c.post("/admin/account/totp/enrol", "password", password).expect(200)
	found := secretInPage.FindStringSubmatch(page.Body)
	if found == nil {
		c.w.t.Fatalf("no secret in %s", page.Body)
	}
	secret = found[1]
	c.post("/admin/account/totp/confirm", "code", code(c.w.t, secret)).expect(200)
	c.get("/admin").expect(200, "Overview")
	return secret
}

// anna returns the browser of the first administrator, who is logged in.
func (w *world) anna() *client {
	w.t.Helper()
	c := w.client()
	c.setUp(w.link, email)
	return c
}

func code(t *testing.T, secret string) string {
	t.Helper()
	code, err := totp.GenerateCode(secret, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// TestSetup: the link of the first administrator works once, and nothing else lets anybody in.
func TestSetup(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	stranger := w.client()
	if at := stranger.get("/admin").expect(200, "Log in").Path; !strings.HasPrefix(at, "/admin/account/login") {
		t.Errorf("a stranger is at %s", at)
	}
	stranger.get("/admin/setup/WRONG").expect(400)
	stranger.post("/admin/setup/WRONG", "email", email, "password", password).expect(400)
	stranger.post(w.link, "email", "nobody", "password", password).expect(422, "nobody")
	stranger.post(w.link, "email", email, "password", "short").expect(422, "12")
	w.anna()
	w.client().get(w.link).expect(400, "already used")
	stranger.get("/admin/overview").lacks("Nothing is wrong.")
}

// TestNoFactor: an account without a second factor sees nothing but the page that sets one up.
func TestNoFactor(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	c := w.client()
	c.post(w.link, "email", email, "password", password).expect(200, "Two-factor")
	for _, path := range []string{"/admin/overview", "/admin/log"} {
		if at := c.get(path).expect(200).Path; at != "/admin/account/totp" {
			t.Errorf("%s leads to %s", path, at)
		}
	}
}
