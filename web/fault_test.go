package web_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/web"
)

// hiding is middleware that wraps a ResponseWriter without Unwrap.
func hiding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	})
}

// TestMiddlewareThatHides: the log names the middleware at fault.
func TestMiddlewareThatHides(t *testing.T) {
	for _, around := range []string{"everything", "a route"} {
		var log bytes.Buffer
		app := newApp(t, web.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		answer := func(c *web.Context) error { return c.Text(200, "x") }
		if around == "everything" {
			app.Use(hiding)
			app.Get("/x", answer)
		} else {
			app.Get("/x", answer, hiding)
		}
		w := httptest.NewRecorder()
		app.ServeHTTP(w, httptest.NewRequest("GET", "/x", nil))
		if w.Code != 500 || !strings.Contains(log.String(), "without an Unwrap method") || !strings.Contains(log.String(), "struct { http.ResponseWriter }") {
			t.Errorf("around %s: %d\n%s", around, w.Code, log.String())
		}
	}
}

// TestErrorf: a status that is not an error is a mistake in the program.
func TestErrorf(t *testing.T) {
	expectPanic(t, "Errorf(200)", func() { _ = web.Errorf(200, "fine", "fine") })
}

// TestFaultsOf: the data for a page that shows a form again.
func TestFaultsOf(t *testing.T) {
	var m web.Mistakes
	m.Field("/name", "is %s", "missing")
	m.Field("/name", "is a second one")
	m.Field("", "all of it")
	m.Add(web.WrongParameter("page", "is too large"))
	got := web.FaultsOf(m.Err())
	if len(got) != 3 || got["name"] != "is missing" || got["page"] != "is too large" || got[""] != "all of it" {
		t.Errorf("%v", got)
	}
	if got := web.FaultsOf(nil); len(got) != 0 {
		t.Errorf("of no error: %v", got)
	}
}

// TestAccepts: the preferred type, by weights and by specificity.
func TestAccepts(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Get("/", func(c *web.Context) error { return c.Text(200, c.Accepts("text/csv", "application/json", "text/html")) })
	})
	for accept, want := range map[string]string{
		"": "text/csv", "*/*": "text/csv", "application/json": "application/json", "text/*;q=0.5, application/json;q=0.4": "text/csv",
		"text/*, text/csv;q=0": "text/html", "text/*;q=0.9,text/html;level=1;q=0.95": "text/html", "image/png": "", "*/*;q=0": "", "text/csv;q=0.001": "text/csv",
		"TEXT/HTML": "text/html", "*/html, application/json;q=.5": "", "text/csv;q=1.001, text/html;q=1.000": "text/html", "nonsense": "", "text/csv;q=0.1234,application/json;q=0.1": "application/json",
		strings.Repeat("a/b,", 100) + "text/csv": "", "text/csv;q=0.2;q=0.9, application/json;q=0.5": "application/json",
	} {
		header := []string{"Accept", accept}
		if accept == "" {
			header = nil
		}
		if got := s.do("GET", "/", "", header...); got.body != want {
			t.Errorf("%.60q: %q, want %q", accept, got.body, want)
		}
	}
}

// TestRouterAllocations: a route that responds with plain bytes allocates only its Context beyond what net/http's
// ServeMux allocates.
func TestRouterAllocations(t *testing.T) {
	ours, theirs := routed(t), bare()
	for name, r := range requests() {
		w := &stub{header: http.Header{}}
		count := func(h http.Handler) float64 {
			return testing.AllocsPerRun(200, func() {
				w.reset()
				h.ServeHTTP(w, r)
			})
		}
		if got, want := count(ours), count(theirs)+1; got > want {
			t.Errorf("%s: %v allocations, want at most %v", name, got, want)
		}
	}
}
