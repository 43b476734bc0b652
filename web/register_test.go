package web_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/web"
)

// TestRoutesThatCannotBe: conflicting routes panic with the lines of both, paths without a slash with their
// line.
func TestRoutesThatCannotBe(t *testing.T) {
	say := func(c *web.Context) error { return c.Text(200, "x") }
	for name, c := range map[string]struct {
		add  func(a *web.App)
		want string
	}{
		"twice":           {func(a *web.App) { a.Get("/note", say); a.Get("/note", say) }, `^web: GET /note is registered at HERE and at HERE$`},
		"handle":          {func(a *web.App) { a.Get("/note", say); a.Handle("GET /note", web.Handler(say)) }, `^web: GET /note is registered at HERE and at HERE$`},
		"group":           {func(a *web.App) { a.Post("/g", say); a.Group("/g").Post("/", say) }, `^web: POST /g is registered at HERE and at HERE$`},
		"alike":           {func(a *web.App) { a.Get("/{a}", say); a.Get("/{b}", say) }, `^web: GET /{b} at HERE conflicts with GET /{a} at HERE: GET /{b} matches the same requests as GET /{a}$`},
		"none more exact": {func(a *web.App) { a.Get("/a/{x}", say); a.Get("/{y}/b", say) }, `^web: GET /{y}/b at HERE conflicts with GET /a/{x} at HERE: (?s:.*both match.*)$`},
		"of New":          {func(a *web.App) { a.Get("/healthz", say) }, `^web: GET /healthz is registered at web\.New and at HERE$`},
		"no slash":        {func(a *web.App) { a.Get("note", say) }, `^web: the path "note" at HERE must begin with a /$`},
		"host":            {func(a *web.App) { a.Get("note/x", say) }, `^web: the path "note/x" at HERE must begin with a /$`},
		"empty":           {func(a *web.App) { a.Get("", say) }, `^web: the path "" at HERE must begin with a /$`},
		"in a group":      {func(a *web.App) { a.Group("/g").Get("note", say) }, `^web: the path "note" at HERE must begin with a /$`},
		"a group":         {func(a *web.App) { a.Group("g") }, `^web: the prefix of a group "g" at HERE must begin with a /$`},
		"a handler":       {func(a *web.App) { a.Handle("GET note", http.NotFoundHandler()) }, `^web: the path "note" at HERE must begin with a /$`},
		"malformed":       {func(a *web.App) { a.Get("/{a", say) }, `^web: the route at HERE: .*bad wildcard`},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp(t, web.Options{})
			defer func() {
				want := regexp.MustCompile(strings.ReplaceAll(c.want, "HERE", `register_test\.go:\d+`))
				if got := fmt.Sprint(recover()); !want.MatchString(got) {
					t.Errorf("%q is not like %s", got, want)
				}
			}()
			c.add(app)
		})
	}
}

// TestRoutesThatCan: hosts at the top level, and groups without a prefix.
func TestRoutesThatCan(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		say := func(c *web.Context) error { return c.Text(200, c.Route()) }
		a.Group("").Get("/a", say)
		a.Group("/").Get("/b", say)
		a.Group("/c").Get("", say)
		a.Handle("GET 127.0.0.1/d", web.Handler(say))
	})
	for _, path := range []string{"/a", "/b", "/c", "/d"} {
		if got := s.do("GET", path, ""); got.status != 200 {
			t.Errorf("%s: %+v", path, got)
		}
	}
}
