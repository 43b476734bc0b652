package account_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
	"github.com/skerrydb/skerry/web/problem"
)

// keyed is a world with routes for API keys.
func keyed(t *testing.T) *world {
	return open(t, settings{account: account.Options{Scopes: []string{"todo:read", "todo:write"}}, add: func(app *web.App, users *auth.Auth) {
		app.Use(account.Keys(users))
		app.Get("/todo", func(c *web.Context) error {
			u, err := c.User()
			if err != nil {
				return err
			}
			_, byKey := account.KeyOf(c)
			return c.JSON(200, map[string]any{"email": u.Email, "key": byKey, "session": c.Session().User()})
		}, account.RequireScope("todo:read"))
		app.Post("/todo", func(c *web.Context) error { return c.NoContent() }, account.RequireScope("todo:write"))
	}})
}

// TestKeys: a key is created after confirming the password, shown once, used by programs without cookies
// within its scopes, and revoked.
func TestKeys(t *testing.T) {
	t.Parallel()
	w := keyed(t)
	w.user("ann@example.org")
	b := w.program().login("ann@example.org", good)
	for what, form := range map[string][]string{
		"no name": {"name", " ", "scopes", "todo:read", "password", good}, "no scope": {"name", "x", "scopes", "", "password", good},
		"another scope": {"name", "x", "scopes", "todo:read admin", "password", good}, "any scope": {"name", "x", "scopes", "*", "password", good},
		"no password": {"name", "x", "scopes", "todo:read"},
	} {
		b.post("/account/keys", form...).fails(t, what, engine.CodeInvalid)
	}
	b.do("POST", "/account/keys", `{"name":"x","scopes":["todo:read"],"days":3651,"password":"`+good+`"}`).fails(t, "too many days", engine.CodeInvalid)
	b.post("/account/keys", "name", "x", "scopes", "todo:read", "password", other).fails(t, "a wrong password", auth.CodeWrongCredentials)
	w.noEmail()
	got := b.do("POST", "/account/keys", `{"name":"reader","scopes":["todo:read"],"days":2,"password":"`+good+`"}`).is(t, "create", 201, "")
	var made struct{ ID, Key string }
	must(t, "the key", json.Unmarshal([]byte(got.body), &made))
	w.email()
	if got := b.get("/account/keys").is(t, "list", 200, ""); !strings.Contains(got.body, made.ID) || strings.Contains(got.body, made.Key) {
		t.Errorf("%s", got.body)
	}
	by := []string{"Authorization", "Bearer " + made.Key}
	p := w.program()
	if got := p.do("GET", "/todo", "", by...); got.status != 200 || got.body != `{"email":"ann@example.org","key":true,"session":""}`+"\n" || got.header.Get("Set-Cookie") != "" {
		t.Errorf("by the key: %+v", got)
	}
	got = p.do("POST", "/todo", "{}", by...)
	if got.fails(t, "without the scope", problem.CodeForbidden); !strings.Contains(got.header.Get("WWW-Authenticate"), "insufficient_scope") {
		t.Errorf("%v", got.header)
	}
	p.get("/todo").fails(t, "nobody", engine.CodeUnauthenticated)
	if got := b.get("/todo"); got.status != 200 || !strings.Contains(got.body, `"key":false`) {
		t.Errorf("in a session: %+v", got)
	}
	for _, bad := range []string{"Bearer", "Bearer x", "bearer " + made.Key + "x", "Bearer " + made.Key[:len(made.Key)-1], "Bearer " + strings.Repeat("a", 4000)} {
		got := b.do("GET", "/todo", "", "Authorization", bad)
		if got.fails(t, bad, engine.CodeUnauthenticated); !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%v", got.header)
		}
	}
	w.browser().login("ann@example.org", good).post("/account/keys/revoke", "id", made.ID).is(t, "revoke", 303, "/account/keys?done=key-revoked")
	p.do("GET", "/todo", "", by...).fails(t, "a revoked key", engine.CodeUnauthenticated)
	b.post("/account/keys/revoke", "id", made.ID).fails(t, "revoke again", engine.CodeNotFound)
	w.clock.Add(3 * 24 * time.Hour)
}

// TestKeysEnd: by time, and with their owner.
func TestKeysEnd(t *testing.T) {
	t.Parallel()
	w := keyed(t)
	u := w.user("ann@example.org")
	b := w.program().login("ann@example.org", good)
	use := func() int {
		got := b.do("POST", "/account/keys", `{"name":"x","scopes":["todo:read"],"days":2,"password":"`+good+`"}`)
		var made struct{ Key string }
		must(t, "the key", json.Unmarshal([]byte(got.body), &made))
		w.email()
		if got := w.program().do("GET", "/todo", "", "Authorization", "Bearer "+made.Key); got.status != 200 {
			t.Errorf("a new key: %d %s", got.status, got.body)
		}
		if len(w.outbox.List()) == 1 {
			w.clock.Add(48*time.Hour + time.Second)
		} else if _, err := w.users.Disable(t.Context(), u.ID, true); err != nil {
			t.Error(err)
		}
		return w.program().do("GET", "/todo", "", "Authorization", "Bearer "+made.Key).status
	}
	if got := use(); got != http.StatusUnauthorized {
		t.Errorf("a key that has ended: %d", got)
	}
	b.login("ann@example.org", good)
	if got := use(); got != http.StatusUnauthorized {
		t.Errorf("a key of a user who is disabled: %d", got)
	}
}

// TestKeysManageNothing: a key does not become a whole account, whoever's cookies
// come with it, and the browser's session is not that of a request with a key.
func TestKeysManageNothing(t *testing.T) {
	t.Parallel()
	w := keyed(t)
	u := w.user("ann@example.org")
	w.user("bob@example.org")
	key, _, err := w.users.CreateKey(t.Context(), u.ID, "all", []string{"*"}, time.Time{})
	must(t, "a key", err)
	b := w.program().login("bob@example.org", good)
	by := []string{"Authorization", "Bearer " + key}
	for _, path := range []string{"", "/password", "/totp", "/sessions", "/keys", "/email"} {
		b.do("GET", "/account"+path, "", by...).fails(t, path, problem.CodeForbidden)
	}
	for _, path := range []string{"/password", "/name", "/totp/enrol", "/keys", "/keys/revoke", "/sessions/revoke-others", "/email"} {
		b.do("POST", "/account"+path, `{"name":"Eve"}`, by...).fails(t, path, problem.CodeForbidden)
	}
	if got := b.do("GET", "/todo", "", by...); got.body != `{"email":"ann@example.org","key":true,"session":""}`+"\n" {
		t.Errorf("%s", got.body)
	}
	if b.who() != "bob@example.org" {
		t.Error("the session has gone")
	}
}

// TestKeysFailClosed: a key opens only what names a scope that it has, whoever its owner
// is, wherever the middleware of keys stands, and whatever cookies come with it.
func TestKeysFailClosed(t *testing.T) {
	t.Parallel()
	reached := ""
	w := open(t, settings{web: web.Options{Superadmins: []string{"ann@example.org"}}, account: account.Options{Scopes: []string{"blog:read", "blog:write"}}, add: func(app *web.App, users *auth.Auth) {
		app.Use(account.Keys(users))
		at := func(g interface {
			Get(string, web.Handler, ...web.Middleware)
		}, path string, m ...web.Middleware) {
			g.Get(path, func(c *web.Context) error {
				reached = path
				if c.IsSuperadmin() {
					reached += " as a superadmin"
				}
				return c.NoContent()
			}, m...)
		}
		at(app, "/public")
		at(app, "/user", web.RequireUser("/account/login"))
		at(app, "/admin", web.RequireSuperadmin())
		at(app, "/write", web.RequireScope("blog:write"))
		at(app, "/read", web.RequireScope("blog:read"))
		at(app, "/write/user", web.RequireScope("blog:write"), web.RequireUser(""))
		at(app, "/user/write", web.RequireUser(""), web.RequireScope("blog:write"))
		at(app, "/write/admin", web.RequireScope("blog:write"), web.RequireSuperadmin())
		at(app.Group("/all", web.RequireScope("blog:write")), "/read", web.RequireScope("blog:read"))
		app.Handle("GET /plain", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = "/plain" }))
	}})
	u := w.user("ann@example.org")
	text, _, err := w.users.CreateKey(t.Context(), u.ID, "blog", []string{"blog:write"}, time.Time{})
	must(t, "a key", err)
	b := w.program().login("ann@example.org", good)
	for path, open := range map[string]bool{
		"/public": false, "/plain": false, "/user": false, "/admin": false, "/read": false, "/write": true, "/write/user": true,
		"/user/write": false, "/write/admin": false, "/all/read": false, "/healthz": false, "/whoami": false,
		"/account/login": false, "/account/register": false, "/account/keys": false, "/account/reset/confirm?token=x": false, "/account/verify?token=x": false,
	} {
		for _, accept := range []string{"*/*", htmls} {
			reached = ""
			got := b.do("GET", path, "", "Authorization", "Bearer "+text, "Accept", accept)
			if open {
				if got.status != http.StatusNoContent || reached != path {
					t.Errorf("%s: %d, reached %q", path, got.status, reached)
				}
				continue
			}
			if got.status != http.StatusForbidden || reached != "" || got.header.Get("Set-Cookie") != "" {
				t.Errorf("%s as %s: %d, reached %q, cookie %q", path, accept, got.status, reached, got.header.Get("Set-Cookie"))
			}
		}
	}
	for _, path := range []string{"/login", "/logout", "/register", "/verify", "/reset", "/reset/confirm"} {
		b.do("POST", "/account"+path, `{}`, "Authorization", "Bearer "+text).fails(t, path, problem.CodeForbidden)
	}
	for _, path := range []string{"/user", "/admin", "/read", "/write/admin"} {
		if got := b.get(path); got.status != http.StatusNoContent || reached != path+" as a superadmin" {
			t.Errorf("in the session, %s: %d, reached %q", path, got.status, reached)
		}
	}
}
