package web_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/view"
)

// newSessions returns a store of sessions on its own engine.
func newSessions(tb testing.TB) *session.Store { return sessionsWith(tb, session.Options{}) }

// sessionsWith is newSessions with options.
func sessionsWith(tb testing.TB, o session.Options) *session.Store {
	tb.Helper()
	eng, err := embedded.Open(tb.TempDir(), embedded.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { eng.Close() })
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	sessions, err := session.New(store, o)
	if err != nil {
		tb.Fatal(err)
	}
	return sessions
}

func newApp(tb testing.TB, o web.Options) *web.App {
	tb.Helper()
	app, err := web.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return app
}

func newViews(tb testing.TB, o view.Options) *view.Views {
	tb.Helper()
	views, err := view.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return views
}

// expectPanic fails the test unless fn panics.
func expectPanic(t *testing.T, what string, fn func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s does not panic", what)
		}
	}()
	fn()
}

// site serves an application over TLS, with a browser that keeps its cookies and
// does not follow redirects.
type site struct {
	tb  testing.TB
	app *web.App
	srv *httptest.Server
	jar http.CookieJar
}

// serve makes a site of what add adds to an application.
func serve(tb testing.TB, o web.Options, add func(*web.App)) *site {
	tb.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	app := newApp(tb, o)
	add(app)
	srv := httptest.NewTLSServer(app)
	tb.Cleanup(srv.Close)
	jar, _ := cookiejar.New(nil)
	srv.Client().Jar = jar
	srv.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &site{tb, app, srv, jar}
}

// answer is one complete response.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request.
func (s *site) do(method, path, body string, header ...string) answer {
	s.tb.Helper()
	return request(s.tb, s.srv.Client(), method, s.srv.URL+path, strings.NewReader(body), header...)
}

// request sends a request and reads the whole response.
func request(tb testing.TB, client *http.Client, method, url string, body io.Reader, header ...string) answer {
	tb.Helper()
	resp := send(context.Background(), tb, client, method, url, body, header...)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatalf("%s %s: %v", method, url, err)
	}
	for name, lines := range resp.Trailer {
		resp.Header[http.TrailerPrefix+name] = lines
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// send sends a request; header has pairs of a name and a value.
func send(ctx context.Context, tb testing.TB, client *http.Client, method, url string, body io.Reader, header ...string) *http.Response {
	tb.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		tb.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		tb.Fatalf("%s %s: %v", method, url, err)
	}
	return resp
}

// open requests a stream, which ends after a minute at the latest.
func open(t *testing.T, client *http.Client, url string, header ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	resp := send(ctx, t, client, "GET", url, nil, header...)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// plainServer serves h without TLS and returns its address.
func plainServer(tb testing.TB, h http.Handler) string {
	tb.Helper()
	srv := httptest.NewServer(h)
	tb.Cleanup(srv.Close)
	return srv.URL
}

// get sends a request on a new connection.
func get(tb testing.TB, url string, header ...string) answer {
	tb.Helper()
	return request(tb, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "GET", url, nil, header...)
}

var visits = session.NewKey[int]("visits")

// TestSessionOfABrowser: reading never creates a session; a value lasts; a login changes the token; an invalid
// token counts as none.
func TestSessionOfABrowser(t *testing.T) {
	s := serve(t, web.Options{Sessions: newSessions(t)}, func(a *web.App) {
		a.Get("/look", func(c *web.Context) error { return c.Text(200, c.Session().User()) })
		a.Get("/visit", func(c *web.Context) error {
			n, _, err := visits.Get(c.Session())
			if err != nil {
				return err
			}
			if err := visits.Set(c.Session(), n+1); err != nil {
				return err
			}
			return c.Text(200, strings.Repeat("I", n+1))
		})
		a.Post("/fail", func(c *web.Context) error {
			if err := visits.Set(c.Session(), 100); err != nil {
				return err
			}
			return engine.Errorf(engine.CodeConflict, "no")
		})
		a.Post("/login", func(c *web.Context) error {
			c.Session().Login("anna")
			return c.Redirect("/look")
		})
		a.Post("/logout", func(c *web.Context) error {
			c.Session().Logout()
			return c.Redirect("/look")
		})
	})
	if got := s.do("GET", "/look", ""); got.header.Get("Set-Cookie") != "" {
		t.Errorf("reading has created the session %s", got.header.Get("Set-Cookie"))
	}
	first := s.do("GET", "/visit", "")
	cookie := first.header.Get("Set-Cookie")
	for _, want := range []string{"__Host-skerry-session=", "Path=/", "HttpOnly", "Secure", "SameSite=Lax"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %q has no %s", cookie, want)
		}
	}
	if got := s.do("GET", "/visit", ""); got.body != "II" || got.header.Get("Set-Cookie") != "" {
		t.Errorf("the second visit: %+v", got)
	}
	if got := s.do("POST", "/fail", ""); got.status != 409 {
		t.Errorf("a handler that fails: %+v", got)
	}
	in := s.do("POST", "/login", "")
	if got := in.header.Get("Set-Cookie"); in.status != 303 || got == "" || got == cookie {
		t.Errorf("the login: %+v", in)
	}
	old, _, _ := strings.Cut(cookie, ";")
	if got := s.do("GET", "/visit", ""); got.body != "III" {
		t.Errorf("a visit after the login, and after a handler that failed: %+v", got)
	}
	if got := s.do("GET", "/look", ""); got.body != "anna" {
		t.Errorf("the logged-in user: %+v", got)
	}
	if got := s.do("POST", "/logout", ""); !strings.Contains(got.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("the logout: %+v", got)
	}
	s.srv.Client().Jar = nil
	if got := s.do("GET", "/look", "", "Cookie", old); got.body != "" || got.header.Get("Set-Cookie") != "" {
		t.Errorf("the token from before the login: %+v", got)
	}
}

// TestErrorsInTheFormOfTheClient: programs get problems, browsers get pages.
func TestErrorsInTheFormOfTheClient(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Get("/x", func(c *web.Context) error { return engine.Errorf(engine.CodeNotFound, "no <b> here") })
		a.Get("/panic", func(*web.Context) error { panic("secret") })
	})
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"GET", "/x", 404, "not_found"}, {"GET", "/none", 404, "no_route"}, {"POST", "/x", 405, "method_not_allowed"}, {"GET", "/panic", 500, "internal"},
	} {
		got := s.do(c.method, c.path, "")
		if got.status != c.status || got.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(got.body, `"code":"`+c.code+`"`) {
			t.Errorf("%s %s: %+v", c.method, c.path, got)
		}
		got = s.do(c.method, c.path, "", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
		if got.status != c.status || got.header.Get("Content-Type") != "text/html; charset=utf-8" || strings.Contains(got.body, "secret") || strings.Contains(got.body, "<b> here") {
			t.Errorf("%s %s in a browser: %+v", c.method, c.path, got)
		}
		if c.status == 405 && got.header.Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("Allow: %q", got.header.Get("Allow"))
		}
	}
}

// TestCleanerPaths: redirects of the ServeMux lead to the requested path, escaped once, on this host.
func TestCleanerPaths(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Get("/{name}/", func(c *web.Context) error { return c.NoContent() })
		a.Get("/x/{name}", func(c *web.Context) error { return c.NoContent() })
	})
	for asked, to := range map[string]string{
		"/x//a%20b":              "/x/a%20b",
		"/x//a%2fb?q=%2525":      "/x/a%2fb?q=%2525",
		"//x/%2525":              "/x/%2525",
		"/x//%5Ca%25":            "/x/%5Ca%25",
		"/x/../y%25/":            "/y%25/",
		"/a%25":                  "/a%25/",
		"/a%2525?b":              "/a%2525/?b",
		"/%0d%0aX:%25":           "/%0D%0AX:%25/",
		"/%5Cevil.example%2F%25": "/%5Cevil.example/%25/", // a browser takes /\ for //
	} {
		if got := s.do("GET", asked, ""); got.status != 307 || got.header.Get("Location") != to {
			t.Errorf("%s: %d %q, want %q", asked, got.status, got.header.Get("Location"), to)
		}
	}
}
