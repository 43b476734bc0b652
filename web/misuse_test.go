package web_test

import (
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/view"
)

// TestSessionTooLate: changes to a session after the response has begun are logged, with the route, and in
// debug mode cut the connection. A response that middleware still buffers has not begun.
func TestSessionTooLate(t *testing.T) {
	for _, debug := range []bool{true, false} {
		var log journal
		s := serve(t, web.Options{Sessions: newSessions(t), Global: newSessions(t), Debug: debug, Logger: log.logger()}, func(a *web.App) {
			late := func(c *web.Context) error {
				if err := c.Text(200, "x"); err != nil {
					return err
				}
				return visits.Set(c.Session(), 5)
			}
			a.Get("/late", late)
			a.Get("/held", late, web.ETag(web.ETagOptions{}))
			a.Get("/login", func(c *web.Context) error {
				defer c.Session().Login("bo")
				return c.NoContent()
			})
			a.Get("/global", func(c *web.Context) error {
				g, err := c.Global()
				if err != nil {
					return err
				}
				defer g.Login("bo")
				return c.NoContent()
			})
			a.Get("/look", func(c *web.Context) error { return countVisit(c) })
		})
		for path, which := range map[string]string{"/late": "session", "/login": "session", "/global": "global session"} {
			resp, err := s.srv.Client().Get(s.srv.URL + path)
			if (err != nil) != debug {
				t.Errorf("debug %v: %s: %v", debug, path, err)
			}
			if err == nil {
				resp.Body.Close()
			}
			want := "the handler of GET " + path + " changed the " + which + " after its response had begun"
			if got := log.take(); strings.Count(got, "ERROR") != 1 || !strings.Contains(got, want) || strings.Contains(got, "SaveSession") != (path != "/global") {
				t.Errorf("debug %v: %s: %s", debug, path, got)
			}
		}
		if got := s.do("GET", "/look", ""); got.body != "1" {
			t.Errorf("a change that was too late was saved: %s", got.body)
		}
		if got := s.do("GET", "/held", ""); got.status != 200 || s.do("GET", "/look", "").body != "6" {
			t.Errorf("a change before a buffered response was sent is lost: %+v", got)
		}
		if got := log.take(); strings.Contains(got, "ERROR") {
			t.Error(got)
		}
	}
}

// TestSaveSessionTooLate: in a stream, an existing session can be saved; one that would need another cookie
// cannot.
func TestSaveSessionTooLate(t *testing.T) {
	var log journal
	var failed error
	s := serve(t, web.Options{Sessions: newSessions(t), Logger: log.logger()}, func(a *web.App) {
		a.Get("/stream", func(c *web.Context) error {
			c.Writer.WriteHeader(http.StatusOK)
			if c.Query("login").Given() {
				c.Session().Login("bo")
			}
			if c.Query("logout").Given() {
				c.Session().Logout()
			} else if err := visits.Set(c.Session(), 7); err != nil {
				return err
			}
			failed = c.SaveSession()
			return nil
		})
		a.Get("/look", countVisit)
		a.Get("/who", func(c *web.Context) error { return c.Text(200, c.Session().User()) })
	})
	if s.do("GET", "/stream", ""); failed == nil || !strings.Contains(failed.Error(), "GET /stream has begun") {
		t.Errorf("a new session: %v", failed)
	}
	s.do("GET", "/look", "")
	if s.do("GET", "/stream", ""); failed != nil {
		t.Errorf("one that the browser has: %v", failed)
	}
	if got := s.do("GET", "/look", ""); got.body != "8" {
		t.Errorf("a saved change is lost: %s", got.body)
	}
	if s.do("GET", "/stream?logout=1", ""); failed != nil || s.do("GET", "/look", "").body != "1" {
		t.Errorf("a logout: %v", failed)
	}
	if s.do("GET", "/stream?login=1", ""); failed == nil || s.do("GET", "/who", "").body == "bo" {
		t.Errorf("a login: %v", failed)
	}
	if got := log.take(); strings.Contains(got, "ERROR") {
		t.Errorf("it is also logged: %s", got)
	}
}

// TestNoSessions: an application without sessions reports that in the log, which is the default logger if the
// program has set none.
func TestNoSessions(t *testing.T) {
	var log journal
	before := slog.Default()
	slog.SetDefault(log.logger())
	defer slog.SetDefault(before)
	app := newApp(t, web.Options{})
	app.Get("/x", func(c *web.Context) error { return c.Text(200, c.Session().User()) })
	bodyOf(app, "/x")
	if got := log.take(); !strings.Contains(got, "this application has no sessions (Options.Sessions)") {
		t.Errorf("the log has %q", got)
	}
}

// misuses adds handlers, and returns their expected log in debug mode by path.
func misuses(a *web.App) map[string]string {
	said := map[string]string{}
	add := func(path, want string, h web.Handler, m ...web.Middleware) {
		a.Get(path, h, m...)
		said[path] = strings.ReplaceAll(want, "X", "the handler of GET "+path)
	}
	text := func(c *web.Context) error { return c.Text(200, "x") }
	nothing := func(*web.Context) error { return nil }
	twice := func(c *web.Context) error { _ = text(c); return c.NoContent() }
	add("/forgot", "X returned without a response", nothing)
	add("/forgot/held", "X returned without a response", nothing, web.ETag(web.ETagOptions{}), web.Compress(web.CompressOptions{}))
	add("/forgot/nested", "X returned without a response", nothing, nested)
	add("/twice", "X responded twice", twice)
	add("/twice/held", "X responded twice", twice, web.ETag(web.ETagOptions{}), web.Compress(web.CompressOptions{}))
	add("/twice/write", "X responded twice", func(c *web.Context) error { _, _ = c.Writer.Write(nil); return text(c) })
	add("/text", "", text, nested, web.ETag(web.ETagOptions{}))
	add("/none", "", func(c *web.Context) error { return c.NoContent() })
	add("/redirect", "", func(c *web.Context) error { return c.Redirect("/text") })
	add("/fails", "", func(*web.Context) error { return web.Wrong("/x", "is wrong") }, web.ETag(web.ETagOptions{}))
	add("/content", "", func(c *web.Context) error {
		return c.Content("a.txt", time.Unix(1, 0), strings.NewReader("some text"))
	})
	add("/stream", "", func(c *web.Context) error { return c.Stream(200, "text/plain", strings.NewReader("")) })
	add("/early", "", func(c *web.Context) error { c.Writer.WriteHeader(http.StatusEarlyHints); return text(c) })
	add("/events", "", func(c *web.Context) error { return c.SSE(web.EventOptions{}, func(*web.Events) error { return nil }) })
	add("/late", "", func(c *web.Context) error { <-c.Done(); return nil }, web.Timeout(time.Millisecond))
	add("/hijack", "", func(c *web.Context) error {
		conn, _, err := http.NewResponseController(c.Writer).Hijack()
		if err != nil {
			return err
		}
		_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
		return conn.Close()
	}, web.ETag(web.ETagOptions{}))
	return said
}

// nested makes the next handler run a nested one of this package.
func nested(next http.Handler) http.Handler {
	return web.Handler(func(c *web.Context) error { next.ServeHTTP(c.Writer, c.Request); return nil })
}

// TestForgottenAnswers: in debug mode the log names handlers that have responded never or twice, once each,
// and no others.
func TestForgottenAnswers(t *testing.T) {
	for _, debug := range []bool{true, false} {
		var log journal
		var said map[string]string
		s := serve(t, web.Options{Debug: debug, Logger: log.logger()}, func(a *web.App) { said = misuses(a) })
		for path, want := range said {
			s.do("GET", path, "", "If-Range", "Thu, 01 Jan 1970 00:00:01 GMT", "Range", "bytes=2-3")
			got := log.take()
			if debug && want != "" && (strings.Count(got, "\n") != 1 || !strings.Contains(got, want)) || (!debug || want == "") && got != "" {
				t.Errorf("debug %v: %s: %q, want %q", debug, path, got, want)
			}
			if path == "/hijack" || strings.HasPrefix(path, "/twice") {
				continue
			}
			if s.do("HEAD", path, ""); log.take() != "" {
				t.Errorf("debug %v: HEAD %s is logged", debug, path)
			}
		}
	}
}

// TestScriptsWithoutNonce: in debug mode the log names the scripts that the default policy blocks, once each,
// also in files that change while the program runs.
func TestScriptsWithoutNonce(t *testing.T) {
	for name, c := range map[string]struct {
		o    web.Options
		want bool
	}{
		"debug": {web.Options{Debug: true}, true}, "not": {web.Options{}, false}, "off": {web.Options{Debug: true, Headers: web.Headers{Off: true}}, false},
		"own": {web.Options{Debug: true, Headers: web.Headers{CSP: "default-src 'self'"}}, false},
	} {
		var log journal
		dir := t.TempDir()
		writeFile(t, dir+"/home.html", "<p>\n<script>x</script>")
		c.o.Views, c.o.Logger = newViews(t, view.Options{FS: os.DirFS(dir), Reload: true}), log.logger()
		s := serve(t, c.o, func(a *web.App) {
			a.Get("/", func(c *web.Context) error { return c.Render("home", nil) })
		})
		check := func(when, want string) {
			t.Helper()
			if got := log.take(); c.want && (strings.Count(got, "\n") != 1 || !strings.Contains(got, want)) || !c.want && got != "" {
				t.Errorf("%s, %s: %q", name, when, got)
			}
		}
		s.do("GET", "/", "")
		s.do("GET", "/", "")
		check("at the start", `home.html:2: this script has no nonce; the Content-Security-Policy blocks it: write <script nonce=\"{{.nonce}}\">`)
		writeFile(t, dir+"/other.z.html", "<style></style>")
		s.do("GET", "/", "")
		check("a new file", `other.z.html:1: this style has no nonce; the Content-Security-Policy blocks it: write <style nonce=\"#{nonce}\">`)
	}
}
