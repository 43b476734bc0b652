package account_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/auth/oidc"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
	"github.com/skerrydb/skerry/web/problem"
)

const (
	base  = "https://app.example" // of links in emails; not where the tests reach it
	good  = "correct horse battery"
	other = "a staple of another kind"
	htmls = "text/html,application/xhtml+xml,*/*;q=0.8"
)

// clock is moved by hand.
type clock struct{ us atomic.Int64 }

func (c *clock) Now() time.Time      { return time.UnixMicro(c.us.Load()).UTC() }
func (c *clock) Add(d time.Duration) { c.us.Add(d.Microseconds()) }

// world is an application with accounts over TLS, on a real engine.
type world struct {
	t        *testing.T
	app      *web.App
	users    *auth.Auth
	sessions *session.Store
	outbox   *mail.Outbox
	clock    *clock
	srv      *httptest.Server
	seen     int // emails that were looked at
}

// settings say what a world has besides the usual.
type settings struct {
	auth    auth.Options
	web     web.Options
	account account.Options
	add     func(*web.App, *auth.Auth)
	before  func(w *world) // runs before each transaction of sessions alone
}

// hooked is an engine with something that runs before its transactions.
type hooked struct {
	engine.Engine
	before func()
}

func (h *hooked) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	h.before()
	return h.Engine.Update(ctx, fn)
}

func open(t *testing.T, o settings) *world {
	t.Helper()
	w := &world{t: t, clock: &clock{}, outbox: mail.NewOutbox(0)}
	w.clock.us.Store(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC).UnixMicro())
	eng, err := embedded.Open(t.TempDir(), embedded.Options{Now: w.clock.Now, Logger: slog.New(slog.DiscardHandler)})
	must(t, "open the engine", err)
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	if o.account.Now == nil {
		o.account.Now = w.clock.Now
	}
	w.serve(eng, o)
	return w
}

// serve serves an application on eng.
func (w *world) serve(eng engine.Engine, o settings) {
	t := w.t
	t.Helper()
	store, err := kv.New(eng, kv.Options{})
	must(t, "open the store", err)
	ofSessions := store
	if o.before != nil {
		ofSessions, err = kv.New(&hooked{eng, func() { o.before(w) }}, kv.Options{})
		must(t, "open the store of sessions", err)
	}
	w.sessions, err = session.New(ofSessions, session.Options{})
	must(t, "sessions", err)
	if o.auth.Argon2 == (auth.Params{}) {
		o.auth.Argon2 = auth.Params{MemoryKiB: 64, Passes: 1} // argon2 is not under test
	}
	o.auth.Sessions = w.sessions
	w.users, err = auth.New(store, o.auth)
	must(t, "users", err)
	o.web.Sessions, o.web.User = w.sessions, account.User(w.users)
	w.app, err = web.New(o.web)
	must(t, "the application", err)
	w.app.Get("/whoami", func(c *web.Context) error {
		u, err := c.User()
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, u)
	})
	if o.add != nil {
		o.add(w.app, w.users)
	}
	o.account.Sessions = w.sessions
	if o.account.Mail == nil {
		o.account.Mail = w.outbox
	}
	if o.account.BaseURL == "" {
		o.account.BaseURL = base
	}
	_, err = account.New(w.app, w.users, o.account)
	must(t, "accounts", err)
	w.srv = httptest.NewTLSServer(w.app)
	t.Cleanup(w.srv.Close)
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// browser is one with its cookies. It does not follow redirects.
type browser struct {
	w      *world
	client *http.Client
	accept string
}

func (w *world) browser() *browser {
	jar, _ := cookiejar.New(nil)
	return &browser{w, &http.Client{Transport: w.srv.Client().Transport, Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, htmls}
}

// program is a client that speaks JSON.
func (w *world) program() *browser {
	b := w.browser()
	b.accept = ""
	return b
}

// answer is one complete response.
type answer struct {
	status int
	header http.Header
	body   string
}

// do makes one request; header has pairs of a name and a value.
func (b *browser) do(method, path, body string, header ...string) answer {
	b.w.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, b.w.srv.URL+path, strings.NewReader(body))
	must(b.w.t, path, err)
	if b.accept != "" {
		r.Header.Set("Accept", b.accept)
	}
	if method == http.MethodPost {
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if strings.HasPrefix(body, "{") {
			r.Header.Set("Content-Type", "application/json")
			r.Header.Del("Sec-Fetch-Site")
		}
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := b.client.Do(r)
	must(b.w.t, method+" "+path, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(b.w.t, method+" "+path, err)
	return answer{resp.StatusCode, resp.Header, string(text)}
}

func (b *browser) get(path string) answer { b.w.t.Helper(); return b.do("GET", path, "") }

// post sends a form of pairs of a name and a value, as JSON if b is a program.
func (b *browser) post(path string, pairs ...string) answer {
	b.w.t.Helper()
	if b.accept == "" {
		all := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			if all[pairs[i]] = pairs[i+1]; pairs[i] == "scopes" {
				all[pairs[i]] = strings.Fields(pairs[i+1])
			}
		}
		text, err := json.Marshal(all)
		must(b.w.t, path, err)
		return b.do("POST", path, string(text))
	}
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return b.do("POST", path, form.Encode())
}

// is fails the test unless the response has the status and, if to is not "", redirects to to.
func (a answer) is(t *testing.T, what string, status int, to string) answer {
	t.Helper()
	if a.status != status || a.header.Get("Location") != to {
		t.Fatalf("%s: %d to %q, want %d to %q\n%s", what, a.status, a.header.Get("Location"), status, to, text(a.body))
	}
	if a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: Cache-Control %q", what, a.header.Get("Cache-Control"))
	}
	return a
}

// fails fails the test unless the response is a problem with that code and its status.
func (a answer) fails(t *testing.T, what string, code engine.Code) {
	t.Helper()
	var p problem.Problem
	status := problem.All(auth.Catalog(), oidc.Catalog(), mail.Catalog(), session.Catalog()).Of(code).Status
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.Code != code || a.status != status || a.header.Get("Content-Type") != problem.Type {
		t.Errorf("%s: %d %s %v, want %s", what, a.status, a.body, err, code)
	}
}

var (
	styles = regexp.MustCompile(`(?s)<style.*?</style>`)
	tags   = regexp.MustCompile(`<[^>]*>`)
	spaces = regexp.MustCompile(`\s+`)
)

// text is what a page says.
func text(page string) string {
	return strings.TrimSpace(spaces.ReplaceAllString(tags.ReplaceAllString(styles.ReplaceAllString(page, ""), " "), " "))
}

// email returns the one email that was sent since the last look.
func (w *world) email() mail.Message {
	w.t.Helper()
	list := w.outbox.List()
	if len(list) != w.seen+1 {
		w.t.Fatalf("%d new emails, want one: %+v", len(list)-w.seen, list)
	}
	w.seen++
	return list[0].Message
}

func (w *world) noEmail() {
	w.t.Helper()
	if list := w.outbox.List(); len(list) != w.seen {
		w.t.Fatalf("%d new emails: %s", len(list)-w.seen, list[0].Message.Subject)
	}
}

var links = regexp.MustCompile(regexp.QuoteMeta(base) + `(/\S*)`)

// link returns the path that an email leads to, and the token in it.
func (w *world) link(m mail.Message) (path, token string) {
	w.t.Helper()
	found := links.FindStringSubmatch(m.Text)
	if found == nil {
		w.t.Fatalf("an email without a link: %s", m.Text)
	}
	u, err := url.Parse(found[1])
	must(w.t, "the link of an email", err)
	return found[1], u.Query().Get("token")
}

// user makes a user who has verified the address.
func (w *world) user(email string) auth.User {
	w.t.Helper()
	u, err := w.users.Create(w.t.Context(), email, good, true)
	must(w.t, "make a user", err)
	return u
}

// login logs b in.
func (b *browser) login(email, password string) *browser {
	b.w.t.Helper()
	if got := b.post("/account/login", "email", email, "password", password); got.status != 303 && (b.accept != "" || got.status != 200) {
		b.w.t.Fatalf("login of %s: %d %s", email, got.status, text(got.body))
	}
	return b
}

// who returns the address of the logged-in user, "" if there is none.
func (b *browser) who() string {
	b.w.t.Helper()
	got := b.do("GET", "/whoami", "", "Accept", "application/json")
	var u web.User
	if got.status == 200 {
		must(b.w.t, "whoami", json.Unmarshal([]byte(got.body), &u))
	} else if got.status != 401 {
		b.w.t.Fatalf("whoami: %d %s", got.status, got.body)
	}
	return u.Email
}
