package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// literals adds routes whose responses name the route.
func literals(a *web.App) {
	say := func(text string) web.Handler {
		return func(c *web.Context) error { return c.Text(200, text+" "+c.Request.URL.Path) }
	}
	a.HandleLiteral("GET, HEAD", "/db/{key}", say("get"))
	a.HandleLiteral("PUT", "/db/{key}", say("put"))
	a.HandleLiteral("GET, HEAD", "/db/", say("list"))
	a.HandleLiteral("", "/call/{name}", say("call"))
	a.HandleLiteral("GET", "/whole", say("whole"))
}

// TestLiteralRoutes: paths are matched byte for byte, and nothing is redirected.
func TestLiteralRoutes(t *testing.T) {
	notFound := func(*web.Context) error { return engine.Errorf(problem.CodeNoRoute, "not here") }
	app := newApp(t, web.Options{Programs: true, NotFound: notFound})
	literals(app)
	for _, c := range []struct {
		method, path string
		status       int
		says         string // in the body, or what Allow is
	}{
		{"GET", "/db/a//b", 200, "get /db/a//b"},
		{"GET", "/db/a/../b", 200, "get /db/a/../b"},
		{"GET", "/db/%2e%2e", 200, "get /db/.."},
		{"PUT", "/db/x", 200, "put /db/x"},
		{"PUT", "/db/", 200, "put /db/"},
		{"GET", "/db/", 200, "list /db/"}, // the whole path comes first
		{"BREW", "/call/x", 200, "call /call/x"},
		{"GET", "/whole", 200, "whole /whole"},
		{"GET", "/%64b/x", 404, "not here"},
		{"GET", "/whol%65", 404, "not here"},
		{"GET", "//db/x", 404, "not here"},
		{"GET", "/whole/", 404, "not here"},
		{"GET", "/healthz", 404, "not here"},
		{"DELETE", "/db/x", 405, "GET, HEAD, PUT, OPTIONS"},
		{"OPTIONS", "/db/x", 204, "GET, HEAD, PUT, OPTIONS"},
		{"HEAD", "/whole", 405, "GET, OPTIONS"},
		{"POST", "/db/", 405, "GET, HEAD, OPTIONS"},
	} {
		r, w := httptest.NewRequest(c.method, c.path, http.NoBody), httptest.NewRecorder()
		r.Header.Set("Accept", "text/html")
		app.ServeHTTP(w, r)
		said := w.Body.String()
		if w.Code == 405 || w.Code == 204 {
			said = w.Header().Get("Allow")
		}
		if w.Code != c.status || !strings.Contains(said, c.says) {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, said)
		}
		if w.Code >= 400 && w.Header().Get("Content-Type") != problem.Type {
			t.Errorf("%s %s: a program gets %s", c.method, c.path, w.Header().Get("Content-Type"))
		}
	}
}

// TestLiteralBesideOthers: literal routes come before those of the ServeMux, which still serve all other
// paths.
func TestLiteralBesideOthers(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		literals(a)
		a.Get("/{rest...}", func(c *web.Context) error { return c.Text(200, "mux") })
	})
	for path, want := range map[string]string{"/db/a//b": "get /db/a//b", "/other": "mux", "/healthz": "ok\n"} {
		if got := s.do("GET", path, ""); got.status != 200 || got.body != want {
			t.Errorf("%s: %d %q", path, got.status, got.body)
		}
	}
}

// TestMetricsOfNodes: requests forwarded by other nodes are counted apart from those of clients.
func TestMetricsOfNodes(t *testing.T) {
	app := newApp(t, web.Options{Programs: true})
	literals(app)
	for _, h := range []http.Handler{app, app.NodeHandler(), app.NodeHandler()} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, "/db/x", http.NoBody))
	}
	got := metricsOf(app)
	for key, want := range map[string]float64{"web_requests_total /db/{key} PUT 2xx": 1, "web_requests_total node PUT 2xx": 2} {
		if got[key].Value != want {
			t.Errorf("%s is %v, not %v: %v", key, got[key].Value, want, got)
		}
	}
}
