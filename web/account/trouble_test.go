package account_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/auth/oidc"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
	"github.com/skerrydb/skerry/web/view"
)

// TestRateLimits: after too many attempts, the response has a Retry-After.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	few := auth.Limit{N: 2, Per: 10 * time.Minute}
	w := open(t, settings{auth: auth.Options{Limits: auth.Limits{Login: few, Email: few, RegisterFrom: few, Code: few}}})
	w.user("ann@example.org")
	w.user("bob@example.org")
	for _, b := range []*browser{w.program(), w.browser()} {
		email := map[bool]string{true: "ann@example.org", false: "bob@example.org"}[b.accept == ""]
		for path, fields := range map[string][]string{"/account/login": {"password", other}, "/account/reset": nil} {
			var got answer
			for range 3 {
				got = b.post(path, append([]string{"email", email}, fields...)...)
			}
			after, err := strconv.Atoi(got.header.Get("Retry-After"))
			if got.status != 429 || err != nil || after < 500 || after > 601 {
				t.Errorf("%s: %d, Retry-After %q", path, got.status, got.header.Get("Retry-After"))
			}
			if b.accept == "" {
				got.fails(t, path, auth.CodeRateLimited)
			} else if !strings.Contains(got.body, "Too many attempts") || !strings.Contains(got.body, `value="bob@example.org"`) {
				t.Errorf("%s", text(got.body))
			}
		}
	}
	w.clock.Add(11 * time.Minute)
	w.browser().login("ann@example.org", good)
}

// broken is a mail server's queue that accepts nothing.
type broken struct{ tried int }

func (b *broken) Send(ctx context.Context, _ mail.Message) error {
	if b.tried++; ctx.Done() != nil {
		return fmt.Errorf("the email depends on a client that may go away")
	}
	return engine.Errorf(engine.CodeQueueFull, "the queue is full")
}

// TestMailDown: responses do not change, the failure is logged, and the user can try again.
func TestMailDown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	down := &broken{}
	w := open(t, settings{account: account.Options{Mail: down}, web: web.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))}})
	w.user("ann@example.org")
	p := w.program()
	one, two := p.post("/account/reset", "email", "ann@example.org"), p.post("/account/reset", "email", "none@example.org")
	if one.whole() != two.whole() || one.status != 202 || down.tried != 1 {
		t.Errorf("%s\n%s", one.whole(), two.whole())
	}
	p.post("/account/register", "email", "bob@example.org", "password", good).is(t, "register", 202, "")
	p.login("ann@example.org", good).post("/account/password", "old", good, "password", other).is(t, "password", 204, "")
	if down.tried != 3 || strings.Count(log.String(), "an email was not sent") != 3 || strings.Contains(log.String(), "token=") || strings.Contains(log.String(), "go away") {
		t.Errorf("%d tried; log: %s", down.tried, log.String())
	}
}

// TestViews: an application's own page takes the place of the built-in one.
func TestViews(t *testing.T) {
	t.Parallel()
	views, err := view.New(view.Options{FS: fstest.MapFS{
		"layout.html":        {Data: []byte(`<!doctype html><title>{{.title}}</title>{{.contents}}`)},
		"account/login.html": {Data: []byte(`<form method="post" action="{{.prefix}}/login">ours {{.problem}} {{.email}} {{.next}}</form>`)},
	}})
	must(t, "views", err)
	w := open(t, settings{web: web.Options{Views: views}, account: account.Options{Views: views, Prefix: "/me"}})
	b := w.browser()
	if got := b.get("/me/login?next=/x").is(t, "login", 200, ""); got.body != `<!doctype html><title>Log in</title><form method="post" action="/me/login">ours   /x</form>` {
		t.Errorf("%s", got.body)
	}
	if got := b.post("/me/login", "email", "ann@example.org", "password", "x").is(t, "login", 401, ""); !strings.Contains(got.body, "ours The email address or the password is wrong. ann@example.org") {
		t.Errorf("%s", got.body)
	}
	if got := b.get("/me/register").is(t, "register", 200, ""); !strings.Contains(got.body, `action="/me/register"`) {
		t.Errorf("%s", got.body)
	}
}

// TestEmails: the application may write its own.
func TestEmails(t *testing.T) {
	t.Parallel()
	w := open(t, settings{account: account.Options{Email: func(l account.Email) mail.Message {
		l.Message.Subject = string(l.Kind) + " " + l.User.Email + " " + strings.SplitAfter(l.Link, "?")[0]
		return l.Message
	}}})
	w.user("ann@example.org")
	w.browser().post("/account/reset", "email", "ann@example.org")
	if m := w.email(); m.Subject != "reset ann@example.org https://app.example/account/reset/confirm?" {
		t.Errorf("%s", m.Subject)
	}
}

// TestOptions: what makes no sense is said at the start, all of it.
func TestOptions(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	app, err := web.New(web.Options{Sessions: w.sessions})
	must(t, "an application", err)
	box := mail.NewOutbox(0)
	for want, o := range map[string]account.Options{
		"Sessions is not set":                       {},
		"Prefix must be":                            {Sessions: w.sessions, Prefix: "account"},
		"Prefix must be a path":                     {Sessions: w.sessions, Prefix: "/{x}"},
		"AfterLogin must be":                        {Sessions: w.sessions, AfterLogin: "//evil.example"},
		"AfterLogin must be a path":                 {Sessions: w.sessions, AfterLogin: `/\evil.example`},
		"BaseURL is not set":                        {Sessions: w.sessions, Mail: box},
		"BaseURL must be":                           {Sessions: w.sessions, Mail: box, BaseURL: "https://x.example/"},
		"BaseURL must be https":                     {Sessions: w.sessions, Mail: box, BaseURL: "ftp://x.example"},
		"the ID A/b of a provider must be":          {Sessions: w.sessions, BaseURL: base, Providers: []account.Provider{{ID: "A/b"}}},
		"oidc: option Issuer is empty":              {Sessions: w.sessions, BaseURL: base, Providers: []account.Provider{{ID: "a", OIDC: oidc.Options{ClientID: "x"}}}},
		"RegisterPath must be":                      {Sessions: w.sessions, RegisterPath: "join"},
		`the name "Name" of a field must be unique`: {Sessions: w.sessions, Fields: []account.Field{{Name: "Name"}}},
		`the name "email" of a field`:               {Sessions: w.sessions, Fields: []account.Field{{Name: "email"}}},
		`the name "a" of a field`:                   {Sessions: w.sessions, Fields: []account.Field{{Name: "a"}, {Name: "a"}}},
		"negative MaxLength":                        {Sessions: w.sessions, Fields: []account.Field{{Name: "a", MaxLength: -1}}},
		"there are 17 Fields, at most 16":           {Sessions: w.sessions, Fields: make([]account.Field, 17)},
		"Sessions is not set; AfterLogin must be a": {AfterLogin: "x"},
	} {
		if _, err := account.New(app, w.users, o); engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
	if _, err := account.New(app, w.users, account.Options{Sessions: w.sessions}); err != nil {
		t.Errorf("without mail: %v", err)
	}
}

// TestRoutesByOptions: routes that cannot work do not exist.
func TestRoutesByOptions(t *testing.T) {
	t.Parallel()
	w := open(t, settings{account: account.Options{Closed: true}})
	for _, path := range []string{"/account/register", "/account/keys", "/account/oidc/x/callback", "/account/identities"} {
		if got := w.browser().get(path); got.status != 404 {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	if got := w.browser().get("/account/login"); strings.Contains(got.body, "/register") || !strings.Contains(got.body, "/reset") {
		t.Errorf("%s", got.body)
	}
}
