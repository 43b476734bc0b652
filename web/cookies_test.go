package web_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
)

const sessionCookie = "__Host-skerry-session"

// members serves an application that knows the logged-in user, without a cookie jar.
func members(tb testing.TB, o web.Options, more ...web.Middleware) *site {
	s := serve(tb, o, func(a *web.App) {
		a.Use(more...)
		a.Get("/who", func(c *web.Context) error { return c.Text(200, "<"+c.Session().User()+">"+page(2000)) })
		loginRoutes(a)
	})
	s.srv.Client().Jar = nil
	return s
}

// login returns the cookie of a new session.
func (s *site) login() string {
	s.tb.Helper()
	got := s.do("POST", "/login", "")
	cookie, _, _ := strings.Cut(got.header.Get("Set-Cookie"), ";")
	if got.status != 204 || !strings.HasPrefix(cookie, sessionCookie+"=") {
		s.tb.Fatalf("login: %+v", got)
	}
	return cookie
}

// who returns the user of a request with those cookies.
func (s *site) who(cookies string) string {
	s.tb.Helper()
	got := s.do("GET", "/who", "", "Cookie", cookies)
	if got.status != 200 {
		s.tb.Errorf("Cookie of %d bytes: %d %s", len(cookies), got.status, got.body)
	}
	user, _, _ := strings.Cut(strings.TrimPrefix(got.body, "<"), ">")
	return user
}

// TestForgedCookies: only exactly the tokens that were issued are accepted.
func TestForgedCookies(t *testing.T) {
	s := members(t, web.Options{Sessions: newSessions(t)})
	good := s.login()
	token := strings.TrimPrefix(good, sessionCookie+"=")
	if s.who(good) != "anna" {
		t.Fatal("the cookie does not work")
	}
	raw := make([]byte, 32)
	rand.Read(raw)
	last := token[len(token)-1:]
	for _, cookies := range []string{
		"", sessionCookie + "=", sessionCookie + "=x", sessionCookie + "=" + base64.RawURLEncoding.EncodeToString(raw),
		good[:len(good)-1], good + "A", good + "=", good[:len(good)-1] + map[bool]string{true: "B", false: "A"}[last == "A"],
		sessionCookie + "=" + strings.ToLower(token), sessionCookie + "=" + strings.Repeat("A", 50000), sessionCookie + "=%00%0d%0a",
		"skerry-session=" + token, "__Secure-skerry-session=" + token, strings.ToLower(good), "x" + good,
		good + "; " + good, good + "; " + sessionCookie + "=other", sessionCookie + "=other; " + good, // a neighbour can have set one of them
	} {
		if cookies == strings.ToLower(good) && strings.ToLower(token) == token {
			continue
		}
		if user := s.who(cookies); user != "" {
			t.Errorf("%.100s counts as %s", cookies, user)
		}
	}
	if s.who("a=b; "+good+"; c=d") != "anna" {
		t.Error("it does not work among other cookies")
	}
}

// TestReplayedCookies: the cookie of an ended session is anonymous.
func TestReplayedCookies(t *testing.T) {
	sessions := sessionsWith(t, session.Options{Idle: session.MinIdle})
	s := members(t, web.Options{Sessions: sessions})
	out := s.login()
	s.do("POST", "/logout", "", "Cookie", out)
	again := s.login()
	renewed, _, _ := strings.Cut(s.do("POST", "/login", "", "Cookie", again).header.Get("Set-Cookie"), ";")
	revoked := s.login()
	if s.who(renewed) != "anna" || s.who(revoked) != "anna" {
		t.Fatal("the new cookies do not work")
	}
	for name, cookie := range map[string]string{"after the logout": out, "before the second login": again} {
		if user := s.who(cookie); user != "" {
			t.Errorf("a cookie from %s counts as %s", name, user)
		}
	}
	if _, _, err := sessions.RevokeAll(t.Context(), "anna"); err != nil {
		t.Fatal(err)
	}
	for _, cookie := range []string{revoked, renewed} {
		if user := s.who(cookie); user != "" {
			t.Errorf("a revoked cookie counts as %s", user)
		}
	}
	expired := s.login()
	time.Sleep(session.MinIdle + 10*time.Millisecond)
	if user := s.who(expired); user != "" {
		t.Errorf("an expired cookie counts as %s", user)
	}
}

// TestHugeCookies: many and long cookies are accepted, or refused in HTTP's way.
func TestHugeCookies(t *testing.T) {
	s := members(t, web.Options{Sessions: newSessions(t)})
	good := s.login()
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "c%d=%d; ", i, i)
	}
	if user := s.who(many.String() + good); user != "anna" {
		t.Errorf("with 1,000 cookies before it: %q", user)
	}
	if user := s.who("big=" + strings.Repeat("x", 40000) + "; " + good); user != "anna" {
		t.Errorf("with a large cookie before it: %q", user)
	}
	for range 3 {
		many.WriteString(many.String())
	}
	// net/http ignores all cookies if there are so many.
	if user := s.who(many.String() + good); user != "" && user != "anna" {
		t.Errorf("with 8,000 cookies: %q", user)
	}
}

// TestLostUpdate: of two concurrent requests that increment one value, one gets a conflict, even with a
// compressed response; nothing is lost.
func TestLostUpdate(t *testing.T) {
	got, set := make(chan struct{}), make(chan struct{})
	s := serve(t, web.Options{Sessions: newSessions(t)}, func(a *web.App) {
		a.Use(web.Compress(web.CompressOptions{}), web.ETag(web.ETagOptions{}))
		count := func(meet bool) web.Handler {
			return func(c *web.Context) error {
				n, _, err := visits.Get(c.Session())
				if err != nil {
					return err
				}
				if meet {
					got <- struct{}{}
					<-set
				}
				if err := visits.Set(c.Session(), n+1); err != nil {
					return err
				}
				return c.HTML(200, strconv.Itoa(n+1)+page(3000))
			}
		}
		a.Get("/count", count(false))
		a.Get("/meet", count(true))
	})
	s.do("GET", "/count", "")
	answers := make([]answer, 2)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { answers[i] = s.do("GET", "/meet", "", "Accept-Encoding", "zstd") })
	}
	<-got
	<-got
	close(set)
	wg.Wait()
	if answers[0].status > answers[1].status {
		answers[0], answers[1] = answers[1], answers[0]
	}
	if won := answers[0]; won.status != 200 || decoded(t, won) != "2"+page(3000) {
		t.Errorf("the first request: %d", won.status)
	}
	lost := answers[1]
	if lost.status != 409 || !strings.Contains(lost.body, `"code":"conflict"`) || lost.header.Get("Content-Encoding") != "" || lost.header.Get("ETag") != "" || lost.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("the second request: %+v", lost)
	}
	if after := s.do("GET", "/count", "", "Accept-Encoding", "identity"); !strings.HasPrefix(after.body, "3<") {
		t.Errorf("afterwards it is %.10s", after.body)
	}
}

// TestSessionCookieIsNotCached: shared caches do not store a response with a session's cookie.
func TestSessionCookieIsNotCached(t *testing.T) {
	s := serve(t, web.Options{Sessions: newSessions(t)}, func(a *web.App) {
		for i, control := range []string{"", "public, max-age=60", "s-maxage=60", "private, max-age=60"} {
			a.Get("/"+strconv.Itoa(i), func(c *web.Context) error {
				if control != "" {
					c.Header().Set("Cache-Control", control)
				}
				c.Session().Login("anna")
				return c.Text(200, "hello")
			})
		}
	})
	for i, want := range []string{"no-store", "no-store", "no-store", "private, max-age=60"} {
		got := s.do("GET", "/"+strconv.Itoa(i), "")
		if got.header.Get("Set-Cookie") == "" || got.header.Get("Cache-Control") != want || !strings.Contains(strings.Join(got.header["Vary"], ","), "Cookie") {
			t.Errorf("%d: %+v", i, got.header)
		}
	}
}

// TestRequestsMakeNoHeaders: clients' values do not become response headers.
func TestRequestsMakeNoHeaders(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Get("/echo", func(c *web.Context) error {
			c.Header().Set("X-Echo", c.Request.URL.Query().Get("v"))
			http.SetCookie(c.Writer, &http.Cookie{Name: "v", Value: c.Request.URL.Query().Get("v")})
			return c.NoContent()
		})
	})
	got := s.do("GET", "/echo?v=a%0d%0aX-Evil:+1%0d%0a%0d%0a<script>", "")
	if got.header.Get("X-Evil") != "" || got.body != "" || strings.ContainsAny(got.header.Get("X-Echo")+got.header.Get("Set-Cookie"), "\r\n") || strings.Contains(got.header.Get("Set-Cookie"), "; X") {
		t.Errorf("%+v", got)
	}
	for _, id := range []string{"a b", "a\tb", "ä", "<b>", strings.Repeat("a", 65), "a;b", "a\"b"} {
		got := s.do("GET", "/none", "", "X-Request-Id", id)
		if now := got.header.Get("X-Request-Id"); now == id || now == "" || strings.Contains(got.body, id) {
			t.Errorf("X-Request-Id %q is used: %+v", id, got)
		}
	}
	if got := s.do("GET", "/none", "", "X-Request-Id", "good-1.x_Y"); got.header.Get("X-Request-Id") != "good-1.x_Y" {
		t.Errorf("%+v", got.header)
	}
}

// TestUserChanges: the logged-in user is that of the session, also right after a handler has changed it; a
// user of SetUser stays.
func TestUserChanges(t *testing.T) {
	o := web.Options{Sessions: newSessions(t), Superadmins: []string{"anna@example.com"}}
	o.User = func(_ context.Context, id string) (web.User, error) {
		return web.User{ID: id, Email: id + "@example.com", Verified: true}, nil
	}
	describe := func(c *web.Context) string {
		id := "nobody"
		if u, err := c.User(); err == nil {
			id = u.ID
		}
		return fmt.Sprintf("%s %v %v; ", id, c.LoggedIn(), c.IsSuperadmin())
	}
	s := serve(t, o, func(a *web.App) {
		a.Post("/", func(c *web.Context) error {
			text := describe(c)
			c.Session().Login("anna")
			text += describe(c)
			c.Session().Login("bob")
			text += describe(c)
			c.Session().Logout()
			text += describe(c)
			c.SetUser(web.User{ID: "key"})
			return c.Text(200, text+describe(c))
		})
	})
	want := "nobody false false; anna true true; bob true false; nobody false false; key true false; "
	if got := s.do("POST", "/", ""); got.body != want {
		t.Errorf("%d %q, want %q", got.status, got.body, want)
	}
}

// TestPersonalAnswers: responses that depend on the user are neither stored by shared caches nor shown to the
// next user of the browser.
func TestPersonalAnswers(t *testing.T) {
	t.Parallel()
	o := web.Options{Sessions: newSessions(t), Global: sessionsWith(t, session.Options{Namespace: "global"}), Superadmins: []string{"anna@example.com"}}
	s := serve(t, o, func(a *web.App) {
		page := func(path string, look func(c *web.Context)) {
			a.Get(path, func(c *web.Context) error {
				look(c)
				if control := c.Query("control").String(); control != "" {
					c.Header().Set("Cache-Control", control)
				}
				return c.Text(200, "page")
			})
		}
		page("/public", func(*web.Context) {})
		page("/session", func(c *web.Context) { _ = c.Session().User() })
		page("/user", func(c *web.Context) { _, _ = c.User() })
		page("/logged-in", func(c *web.Context) { _ = c.LoggedIn() })
		page("/superadmin", func(c *web.Context) { _ = c.IsSuperadmin() })
		page("/global", func(c *web.Context) { _, _ = c.Global() })
		page("/key", func(c *web.Context) {
			c.SetKey(web.User{}, web.Key{})
			_, _ = c.User()
		})
	})
	for _, c := range []struct{ path, vary, control string }{
		{"/public", "", ""}, {"/session", "Cookie", "private"}, {"/user", "Cookie", "private"}, {"/logged-in", "Cookie", "private"},
		{"/superadmin", "Cookie", "private"}, {"/global", "Cookie", "private"}, {"/key", "Cookie, Authorization", "private"},
		{"/session?control=no-store", "Cookie", "no-store"}, {"/session?control=max-age=60", "Cookie", "max-age=60, private"},
		{"/session?control=no-cache", "Cookie", "no-cache, private"}, {"/session?control=public,max-age=60", "Cookie", "public,max-age=60"},
		{"/public?control=max-age=60", "", "max-age=60"},
	} {
		got := s.do("GET", c.path, "")
		if vary := strings.Join(got.header["Vary"], ", "); vary != c.vary || got.header.Get("Cache-Control") != c.control {
			t.Errorf("%s: Vary %q, Cache-Control %q; want %q, %q", c.path, vary, got.header.Get("Cache-Control"), c.vary, c.control)
		}
	}
}
