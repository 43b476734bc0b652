package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
)

var language = session.NewKey[string]("language")

// shared adds routes that read and write the global session.
func shared(a *web.App) {
	a.Get("/read", func(c *web.Context) error {
		g, err := c.Global()
		if err != nil {
			return err
		}
		v, _, err := language.Get(g)
		if err != nil {
			return err
		}
		return c.Text(200, g.User()+" "+v)
	})
	a.Post("/write", func(c *web.Context) error {
		g, err := c.Global()
		if err != nil {
			return err
		}
		g.Login("anna")
		if err := language.Set(g, "en"); err != nil {
			return err
		}
		return c.Redirect("/read")
	})
	a.Post("/end", func(c *web.Context) error {
		g, err := c.Global()
		if err != nil {
			return err
		}
		g.Logout()
		return c.NoContent()
	})
}

// TestGlobalSession: two applications share the global session of a browser, each also has its own session,
// and both see a logout from the global one.
func TestGlobalSession(t *testing.T) {
	global := newSessions(t)
	one := serve(t, web.Options{Name: "one", Global: global}, shared)
	two := serve(t, web.Options{Name: "two", Global: global}, shared)
	two.srv.Client().Jar = one.jar // both are on 127.0.0.1: cookies know no ports
	if got := one.do("GET", "/read", ""); got.body != " " || got.header.Get("Set-Cookie") != "" {
		t.Errorf("reading has created a session: %+v", got)
	}
	if got := one.do("POST", "/write", "").header.Get("Set-Cookie"); !strings.HasPrefix(got, "__Host-skerry-global=") || !strings.Contains(got, "; Secure") || strings.Contains(got, "Domain") {
		t.Errorf("the cookie: %s", got)
	}
	if got := two.do("GET", "/read", ""); got.body != "anna en" {
		t.Errorf("the other application sees %+v", got)
	}
	if got := two.do("POST", "/end", "").header.Get("Set-Cookie"); !strings.Contains(got, "Max-Age=0") {
		t.Errorf("the logout: %s", got)
	}
	if got := one.do("GET", "/read", ""); got.body != " " {
		t.Errorf("after the logout: %+v", got)
	}
	wide := serve(t, web.Options{Global: global, GlobalDomain: "example.org"}, shared)
	if got := wide.do("POST", "/write", "").header.Get("Set-Cookie"); !strings.HasPrefix(got, "__Secure-skerry-global=") || !strings.Contains(got, "Domain=example.org") {
		t.Errorf("the cookie of a domain: %s", got)
	}
	none := serve(t, web.Options{}, shared)
	if got := none.do("GET", "/read", ""); got.status != http.StatusInternalServerError {
		t.Errorf("without global sessions: %+v", got)
	}
}
