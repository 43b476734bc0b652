package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/skerrydb/skerry/web"
)

// stub is a reusable ResponseWriter that allocates nothing.
type stub struct {
	header http.Header
	status int
	n      int
}

func (s *stub) Header() http.Header         { return s.header }
func (s *stub) WriteHeader(status int)      { s.status = status }
func (s *stub) Write(p []byte) (int, error) { s.n += len(p); return len(p), nil }
func (s *stub) WriteString(p string) (int, error) {
	s.n += len(p)
	return len(p), nil
}

func (s *stub) reset() { clear(s.header); s.status, s.n = 0, 0 }

// plainText is what both sides of the benchmark set.
var plainText = []string{"text/plain; charset=utf-8"}

// bare is a ServeMux of net/http with the same routes as routed.
func bare() http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = plainText
		w.WriteHeader(200)
		_, _ = w.(interface{ WriteString(string) (int, error) }).WriteString("hello")
	}
	mux.HandleFunc("GET /hello", answer)
	mux.HandleFunc("GET /users/{id}/posts/{post}", answer)
	return mux
}

// routed is an application without headers, sessions and log: the router alone.
func routed(tb testing.TB) *web.App {
	app := newApp(tb, web.Options{})
	app.Get("/hello", func(c *web.Context) error { return c.Text(200, "hello") })
	app.Get("/users/{id}/posts/{post}", func(c *web.Context) error {
		if _, err := c.Path("id").Int64(); err != nil {
			return err
		}
		if _, err := c.Query("page").Or("1").Int64In(1, 100); err != nil {
			return err
		}
		return c.Text(200, "hello")
	})
	return app
}

func requests() map[string]*http.Request {
	return map[string]*http.Request{
		"plain":  httptest.NewRequest("GET", "/hello", nil),
		"values": httptest.NewRequest("GET", "/users/17/posts/4?a=1&page=2", nil),
	}
}

// BenchmarkRouter measures the cost of the application beyond net/http's ServeMux.
func BenchmarkRouter(b *testing.B) {
	for name, r := range requests() {
		for side, h := range map[string]http.Handler{"net-http": bare(), "web": routed(b)} {
			b.Run(name+"/"+side, func(b *testing.B) {
				w := &stub{header: http.Header{}}
				b.ReportAllocs()
				for b.Loop() {
					w.reset()
					h.ServeHTTP(w, r)
				}
				if w.status != 200 || w.n != 5 {
					b.Fatalf("responded %d with %d bytes", w.status, w.n)
				}
			})
		}
	}
}
