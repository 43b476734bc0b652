package web_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/lane"
)

// serveLane serves an application as a Skerry server does, until the test ends.
func serveLane(t *testing.T, app *web.App) (s *lane.Server, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = lane.New(lane.Options{HTTP: web.NewServer(app, slog.New(slog.DiscardHandler)), Routes: app.LaneRoutes()})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-ended })
	return s, l.Addr().String()
}

// askLane sends a request with header lines on a connection of its own, and describes the response.
func askLane(t *testing.T, addr, path string, lines ...string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: h\r\n%s\r\n", path, strings.Join(append(lines, ""), "\r\n"))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(path, err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(path, err)
	}
	res.Header.Set("Date", "some")
	return fmt.Sprintf("%d %v %q", res.StatusCode, res.Header, body)
}

// TestCachedFast: an entry in memory is sent without a handler as it is with one.
func TestCachedFast(t *testing.T) {
	t.Parallel()
	for _, headers := range []web.Headers{{}, {Off: true}, {CSP: "-", HSTS: -1}} {
		from := newCache(t)
		app := newApp(t, web.Options{Headers: headers})
		app.Cached("/d/{id}", from, web.CachedOptions{MaxAge: time.Minute})
		_, addr := serveLane(t, app)
		for _, key := range []string{"text", "plain", "empty", "private", "none", "broken", "..", "."} {
			for _, accept := range []string{"", "gzip", "zstd, gzip", "gzip;q=0, *", "identity", "br", "gzip;q=0.5, zstd;q=0.1"} {
				var lines []string
				if accept != "" {
					lines = []string{"Accept-Encoding: " + accept}
				}
				_, _ = from.Get(t.Context(), key, cache.Read{})
				before := from.Stats().MemoryHits
				got := askLane(t, addr, "/d/"+key, lines...)
				if hits := from.Stats().MemoryHits; (key == "text" || key == "plain" || key == "empty") && hits != before+1 {
					t.Errorf("%s: %d hits", key, hits-before)
				}
				want := askLane(t, addr, "/d/"+key, append(lines, "Cookie: a=b")...) // through net/http
				if strings.HasPrefix(want, "4") || strings.HasPrefix(want, "5") {    // a problem, with the id of its request
					got, want = got[:3], want[:3]
				}
				if got != want {
					t.Errorf("%s, Accept-Encoding %q: responds\n%.700s\nnet/http\n%.700s", key, accept, got, want)
				}
			}
		}
	}
}

// TestCachedNotFast: where something else has a part in the response, the handler sends it.
func TestCachedNotFast(t *testing.T) {
	t.Parallel()
	pass := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Passed", "yes")
			next.ServeHTTP(w, r)
		})
	}
	other := func(c *web.Context) error { return c.Text(http.StatusOK, "another route") }
	for name, q := range map[string]struct {
		build      func(app *web.App, from *cache.Cache)
		path, want string
	}{
		"nothing":    {func(app *web.App, from *cache.Cache) { app.Cached("/d/{id}", from, web.CachedOptions{}) }, "/d/plain", "departments"},
		"middleware": {func(app *web.App, from *cache.Cache) { app.Use(pass); app.Cached("/d/{id}", from, web.CachedOptions{}) }, "/d/plain", "X-Passed"},
		"of the group": {func(app *web.App, from *cache.Cache) {
			app.Group("", pass).Cached("/d/{id}", from, web.CachedOptions{})
		}, "/d/plain", "X-Passed"},
		"of the route": {func(app *web.App, from *cache.Cache) { app.Cached("/d/{id}", from, web.CachedOptions{}, pass) }, "/d/plain", "X-Passed"},
		"another route": {func(app *web.App, from *cache.Cache) {
			app.Cached("/d/{id}", from, web.CachedOptions{})
			app.Get("/d/plain", other)
		}, "/d/plain", "another route"},
		"of a host": {func(app *web.App, from *cache.Cache) {
			app.Cached("/d/{id}", from, web.CachedOptions{})
			app.Handle("GET h/d/plain", web.Handler(other))
		}, "/d/plain", "another route"},
		"a literal route": {func(app *web.App, from *cache.Cache) {
			app.Cached("/d/{id}", from, web.CachedOptions{})
			app.HandleLiteral("GET", "/{rest}", web.Handler(other))
		}, "/d/plain", "another route"},
		"a key of its own": {func(app *web.App, from *cache.Cache) {
			app.Cached("/d/{id}", from, web.CachedOptions{Key: func(*web.Context) (string, error) { return "empty", nil }})
		}, "/d/plain", "V3"},
		"a position": {func(app *web.App, from *cache.Cache) {
			app.Cached("/d/{id}", from, web.CachedOptions{AtLeast: func(c *web.Context) (cache.Position, error) {
				c.Header().Set("X-Passed", "yes")
				return 0, nil
			}})
		}, "/d/plain", "X-Passed"},
	} {
		t.Run(name, func(t *testing.T) {
			from := newCache(t)
			app := newApp(t, web.Options{})
			q.build(app, from)
			s, addr := serveLane(t, app)
			for _, key := range []string{"plain", "empty"} {
				_, _ = from.Get(t.Context(), key, cache.Read{})
			}
			if got := askLane(t, addr, q.path); !strings.Contains(strings.ToUpper(got), strings.ToUpper(q.want)) {
				t.Errorf("responds %.600s without %q", got, q.want)
			}
			if fast := len(app.LaneRoutes()) > 1; fast != (name == "nothing") {
				t.Errorf("without a handler: %v", fast)
			}
			if n := s.Metrics("")[0].Value; n != 1 {
				t.Errorf("%v requests in the lane", n)
			}
		})
	}
}
