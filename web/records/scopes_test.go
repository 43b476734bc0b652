package records_test

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/records"
)

// scopes allow what auth.Key allows.
func scopes(list string) func(string) bool {
	return func(scope string) bool {
		return slices.ContainsFunc(strings.Fields(list), func(s string) bool {
			begin, wild := strings.CutSuffix(s, "*")
			return s == scope || wild && strings.HasPrefix(scope, begin)
		})
	}
}

// keyed serves the blog to API keys of ann, or of a superadmin, with the scopes in the header Scopes.
func keyed(t *testing.T, middleware ...web.Middleware) *site {
	t.Helper()
	s := open(t)
	app, err := web.New(web.Options{Superadmins: []string{"root@example.org"}, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	app.Use(func(next http.Handler) http.Handler {
		return web.Handler(func(c *web.Context) error {
			if u := c.Request.Header.Get("User"); u != "" {
				c.SetKey(web.User{ID: u, Email: u + "@example.org", Verified: true}, web.Key{Allows: scopes(c.Request.Header.Get("Scopes"))})
			}
			next.ServeHTTP(c.Writer, c.Request)
			return nil
		})
	})
	records.Mount(app, s.db, records.Options{Middleware: middleware})
	s.h = app
	return s
}

// TestScopes: an API key may do what the rules allow its owner, in the collections that its scopes name.
func TestScopes(t *testing.T) {
	s := keyed(t)
	const read, write = "records:posts:read", "records:posts:write"
	ask := func(scopes, method, path, body string) *reply {
		t.Helper()
		return s.ask("ann", method, path, body, "Scopes", scopes)
	}
	const post = `{"id":"one","data":{"title":"x"}}`
	for _, scopes := range []string{"", read, "records:users:write", "posts", "records:post:*", "todo:*"} {
		ask(scopes, "POST", "/api/posts", post).is(403, `"code":"forbidden"`, "lacks the scope "+write)
		ask(scopes, "POST", "/api/tx", `{"ops":[{"op":"create","collection":"posts","data":{"title":"x"}}]}`).is(403, "lacks the scope "+write)
	}
	// The owner is a record that the key must be able to view.
	ask(write, "POST", "/api/posts", post).is(422, `users has no record`)
	ask(write+" records:users:read", "POST", "/api/posts", post).is(201)
	ask("records:*", "PATCH", "/api/posts/one", `{"data":{"likes":1}}`).is(200)
	ask(write, "POST", "/api/tx", `{"ops":[{"op":"update","collection":"posts","id":"one","data":{"likes":2}}]}`).is(200)
	ask(read, "PATCH", "/api/posts/one", `{"data":{"likes":1}}`).is(403, "lacks the scope "+write)
	ask(read, "DELETE", "/api/posts/one", "").is(403, write)
	ask(read, "POST", "/api/posts/one/revert", `{"to":1}`).is(403, write)
	for _, path := range []string{"/api/posts", "/api/posts/one", "/api/posts/one/history", "/api/posts?format=csv", "/api/tx?collection=posts"} {
		ask(read, "GET", path, "").is(200)
		ask(write, "HEAD", path, "").is(200)
		ask("records:posts:*", "GET", path, "").is(200)
		ask("records:users:read", "GET", path, "").is(403, "lacks the scope "+read)
	}

	// Nothing of other collections comes with it.
	ask(read, "GET", "/api/tx?collection=posts&collection=users", "").is(403, "records:users:read")
	ask(read, "GET", "/api/posts?expand=owner", "").is(200, `"expand":{"owner":null}`)
	ask(read+" records:users:read", "GET", "/api/posts?expand=owner", "").is(200, `"name":"ann"`)
	ask(read, "GET", `/api/posts?filter=owner.name="ann"`, "").is(200, `"items":[]`)
	ask(read+" records:users:read", "GET", `/api/posts?filter=owner.name="ann"`, "").is(200, `"id":"one"`)

	// A key has the rules of its owner, and never makes a superadmin.
	s.ask("root", "GET", "/api/secrets", "", "Scopes", "records:*").is(403, "record_refused")
	s.ask("bob", "GET", "/api/posts/one", "", "Scopes", "*").is(404)
	// The description of the API is for people.
	ask("*", "GET", "/openapi.json", "").is(403, "forbidden")
	ask("*", "GET", "/api", "").is(403, "forbidden")
}

// TestScopeAround: a key that a RequireScope around the routes has accepted needs no others.
func TestScopeAround(t *testing.T) {
	s := keyed(t, web.RequireScope("api"))
	s.ask("ann", "POST", "/api/posts", `{"id":"one","data":{"title":"x"}}`, "Scopes", "api").is(201)
	s.ask("ann", "GET", "/api/posts?expand=owner", "", "Scopes", "api").is(200, `"name":"ann"`)
	s.ask("ann", "GET", "/api/posts", "", "Scopes", "records:*").is(403, "lacks the scope api")
	s.ask("", "GET", "/api/posts", "").is(401)
}

// TestScopesBehindLogin: routes for users are for keys of users, too.
func TestScopesBehindLogin(t *testing.T) {
	s := keyed(t, web.RequireUser(""))
	s.ask("ann", "GET", "/api/posts", "", "Scopes", "records:posts:read").is(200)
	s.ask("ann", "GET", "/api/posts", "", "Scopes", "records:users:read").is(403)
	s.ask("", "GET", "/api/posts", "").is(401)
}
