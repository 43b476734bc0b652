package admin_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/web"
)

// cached adds a cache with a life of a minute, at /cached/{id}.
func cached(t *testing.T) func(*skerry.Services, *web.App) {
	return func(s *skerry.Services, app *web.App) {
		c, err := s.Cache(cache.Options{Name: "things", TTL: time.Minute, MemoryBytes: 8 << 20, Source: cache.Func(func(_ context.Context, id string) (cache.Entry, error) {
			return cache.Entry{Body: []byte(id), Type: "text/plain"}, nil
		})})
		if err != nil {
			t.Error(err)
			return
		}
		app.Cached("/cached/{id}", c, web.CachedOptions{})
	}
}

// read reads from the application.
func (w *world) read(path string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.srv.HTTPURL()+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := w.client().http.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		w.t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
}

// TestCaches: the page says who answered reads, and superadmins empty a cache.
func TestCaches(t *testing.T) {
	t.Parallel()
	var s *skerry.Services
	w := start(t, withUsers(t, &s, cached(t)))
	anna := w.anna()
	for range 4 {
		w.read("/cached/one")
	}
	page := anna.get("/admin/caches").expect(200, "things", "Entries are at most 1m0s old.", "75.0 %", "25.0 %", "1 entries")
	if !strings.Contains(page.Body, "Empty the cache") {
		t.Error("a superadmin cannot empty the cache")
	}
	anna.post("/admin/caches/things/flush").expect(200, "The cache is empty.", "0 entries")
	anna.post("/admin/caches/%3Cb%3E/flush").expect(404).lacks("<b>")
	anna.get("/admin/log").expect(200, "cache.flush", "things")
	ben := anna.invite(viewersEmail, "viewer")
	ben.get("/admin/caches").expect(200, "things").lacks("Empty the cache")
	ben.post("/admin/caches/things/flush").expect(403)
}

func TestLooksCaches(t *testing.T) {
	t.Parallel()
	var s *skerry.Services
	w := start(t, withUsers(t, &s, cached(t)))
	c := w.open()
	w.read("/cached/one")
	c.visit("/admin/caches")
	c.looks("caches")
}
