package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/view"
)

// BenchmarkPage measures the cost of a page beyond its template: a view alone, the application around it, and
// reading a session.
func BenchmarkPage(b *testing.B) {
	a := newAssets(b, web.AssetOptions{FS: someFiles(), List: []string{"css/app.css", "js/app.js"}})
	views := newViews(b, view.Options{FS: fstest.MapFS{
		"layout.html": {Data: []byte("<html><head><title>{{.title}}</title>{{.assets}}</head><body>{{.contents}}</body></html>")},
		"home.html":   {Data: []byte("<p>{{.name}}</p>" + strings.Repeat("some text that is the same for everybody ", 50))},
	}})
	locals := web.Locals{"title": "T", "name": "N"}
	var cookie string
	s := serve(b, web.Options{Views: views, Assets: a, Sessions: newSessions(b)}, func(app *web.App) {
		app.Get("/page", func(c *web.Context) error { return c.Render("home", locals) })
		app.Get("/login", func(c *web.Context) error { c.Session().Login("anna"); return c.NoContent() })
	})
	cookie, _, _ = strings.Cut(s.do("GET", "/login", "").header.Get("Set-Cookie"), ";")
	b.Run("view", func(b *testing.B) {
		all := web.Locals{"title": "T", "name": "N", "assets": "", "project_name": "", "is_superadmin": false, "debug_mode": false, "nonce": ""}
		var w strings.Builder
		b.ReportAllocs()
		for b.Loop() {
			w.Reset()
			if err := views.Render(&w, "home", all); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, path := range map[string]string{"page": "", "page with session": cookie, "asset": "/assets/js/app.js"} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequestWithContext(context.Background(), "GET", "/page", nil)
			if name == "asset" {
				r.URL.Path = path
			} else if path != "" {
				r.Header.Set("Cookie", path)
			}
			w := &stub{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				w.reset()
				s.app.ServeHTTP(w, r)
			}
		})
	}
}
