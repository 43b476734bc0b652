package account_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
	"github.com/skerrydb/skerry/web/view"
)

// TestLayout: the pages of this package are shown in the application's own layout,
// with what the layout needs, and the login page links to the application's own page
// for new accounts.
func TestLayout(t *testing.T) {
	t.Parallel()
	views, err := view.New(view.Options{FS: fstest.MapFS{"layout.html": {Data: []byte(`<!doctype html><title>{{.title}}</title>{{.user}}|{{.contents}}`)}}})
	must(t, "views", err)
	w := open(t, settings{web: web.Options{Views: views}, account: account.Options{
		Views: views, RegisterPath: "/join", Locals: func(*web.Context) web.Locals { return web.Locals{"user": "<me>"} },
	}})
	got := w.browser().get("/account/login").is(t, "login", 200, "")
	if !strings.HasPrefix(got.body, "<!doctype html><title>Log in</title>&lt;me&gt;|<style nonce=\"") || strings.Count(got.body, "<!doctype") != 1 || !strings.Contains(got.body, `<a href="/join">`) {
		t.Errorf("%s", got.body)
	}
	_, rest, _ := strings.Cut(got.body, `<style nonce="`)
	nonce, _, _ := strings.Cut(rest, `"`)
	if csp := got.header.Get("Content-Security-Policy"); nonce == "" || !strings.Contains(csp, "'nonce-"+nonce+"'") {
		t.Errorf("the nonce of the style is %q, the policy %s", nonce, csp)
	}
	if got := w.browser().get("/account/register"); got.status != 404 {
		t.Errorf("there are two pages for new accounts: %d", got.status)
	}
}

// TestOwnPagesWarnOfNothing: a page of the application need not use the locals that this package, and the
// error page of package web, offer; unused locals of its own handlers are logged.
func TestOwnPagesWarnOfNothing(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	views, err := view.New(view.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), FS: fstest.MapFS{
		"account/login.html": {Data: []byte(`<form>{{.email}}</form>`)},
		"error.html":         {Data: []byte(`<h1>{{.title}}</h1>`)},
		"own.html":           {Data: []byte(`<p>{{.used}}</p>`)},
	}})
	must(t, "views", err)
	w := open(t, settings{web: web.Options{Views: views, Debug: true}, account: account.Options{Views: views}, add: func(app *web.App, _ *auth.Auth) {
		app.Get("/own", func(c *web.Context) error { return c.Render("own", web.Locals{"used": 1, "unused": 2}) })
	}})
	b := w.browser()
	b.get("/account/login").is(t, "login", 200, "")
	b.post("/account/login", "email", "ann@example.org", "password", "x").is(t, "login", 401, "")
	if got := b.get("/nothing"); got.status != 404 || !strings.HasPrefix(got.body, "<h1>") {
		t.Errorf("the error page: %d %s", got.status, got.body)
	}
	if log.Len() > 0 {
		t.Errorf("the log says: %s", log.String())
	}
	b.get("/own")
	if !strings.Contains(log.String(), "local=unused") {
		t.Errorf("the log says of an unused local: %s", log.String())
	}
}
