package web_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/view"
)

func TestETag(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Use(web.ETag(web.ETagOptions{MaxBytes: 10000}))
		a.Handle("/{size}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, _ := strconv.Atoi(r.PathValue("size"))
			q := r.URL.Query()
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Last-Modified", "Sat, 21 Nov 2026 12:00:00 GMT")
			if q.Has("store") {
				w.Header().Set("Cache-Control", "private, No-Store")
			}
			if q.Has("own") {
				w.Header().Set("ETag", `"own"`)
			}
			if status, _ := strconv.Atoi(q.Get("status")); status != 0 {
				w.WriteHeader(status)
			}
			if q.Has("quiet") && r.Method == "HEAD" {
				return
			}
			_, _ = io.WriteString(w, page(n/2))
			if q.Has("flush") {
				_ = http.NewResponseController(w).Flush()
			}
			_, _ = io.WriteString(w, page(n-n/2))
		}))
	})
	for _, c := range []struct {
		path   string
		tagged bool
	}{
		{"/5000", true}, {"/10000", true}, {"/10001", false}, {"/0", false}, {"/500?store", false},
		{"/500?flush", false}, {"/500?status=201", false}, {"/500?status=404", false}, {"/500?own", true},
	} {
		got := s.do("GET", c.path, "")
		tag := got.header.Get("ETag")
		if (tag != "") != c.tagged || tag == `"own"` != strings.Contains(c.path, "own") || tag != "" && tag != `"own"` && !strings.HasPrefix(tag, `W/"`) {
			t.Errorf("%s: %d, ETag %q", c.path, got.status, tag)
		}
		if !c.tagged {
			continue
		}
		for _, method := range []string{"GET", "HEAD"} {
			for _, match := range []string{tag, `"other", ` + tag, `W/"x" ,` + strings.TrimPrefix(tag, "W/"), "*"} {
				again := s.do(method, c.path, "", "If-None-Match", match)
				if again.status != 304 || again.body != "" || again.header.Get("ETag") != tag || again.header.Get("Content-Type") != "" {
					t.Errorf("%s %s, If-None-Match %s: %+v", method, c.path, match, again)
				}
			}
			for _, match := range []string{`"other"`, `W/"other"`, strings.Trim(tag, `W/"`), `nonsense, ` + tag, `"`, "W/", ""} {
				if again := s.do(method, c.path, "", "If-None-Match", match); again.status != 200 || method == "GET" && again.body != got.body {
					t.Errorf("%s %s, If-None-Match %s: %+v", method, c.path, match, again.status)
				}
			}
			if again := s.do(method, c.path, "", "If-None-Match", `"a"`, "If-None-Match", tag); again.status != 304 {
				t.Errorf("%s %s: in a second line: %d", method, c.path, again.status)
			}
		}
		if post := s.do("PUT", c.path, "", "If-None-Match", tag); post.status != 200 || post.body != got.body {
			t.Errorf("PUT %s: %d", c.path, post.status)
		}
	}
	if got := s.do("HEAD", "/5000?quiet", ""); got.header.Get("ETag") != "" {
		t.Errorf("HEAD without a body was hashed: %+v", got)
	}
	if a, b := s.do("GET", "/5000", ""), s.do("GET", "/5001", ""); a.header.Get("ETag") == b.header.Get("ETag") {
		t.Error("two responses have one tag")
	}
}

// TestETagAndCompress: on either side of Compress, a client that has a response gets 304, whichever encoding
// it uses now.
func TestETagAndCompress(t *testing.T) {
	etag, compress := web.ETag(web.ETagOptions{}), web.Compress(web.CompressOptions{})
	for name, order := range map[string][]web.Middleware{"outside": {etag, compress}, "inside": {compress, etag}} {
		s := serve(t, web.Options{}, func(a *web.App) {
			a.Use(order...)
			a.Get("/", func(c *web.Context) error { return c.HTML(200, page(5000)) })
			a.Get("/own", func(c *web.Context) error {
				c.Header().Set("ETag", `"own"`)
				return c.HTML(200, page(5000))
			})
		})
		for _, path := range []string{"/", "/own"} {
			for _, accept := range []string{"gzip", "zstd", "identity"} {
				got := s.do("GET", path, "", "Accept-Encoding", accept)
				tag := got.header.Get("ETag")
				if decoded(t, got) != page(5000) || tag == "" || accept != "identity" && !strings.HasPrefix(tag, "W/") {
					t.Errorf("ETag %s, %s, %s: %q", name, path, accept, tag)
				}
				for range 2 { // encoders that are used again write the same
					again := s.do("GET", path, "", "Accept-Encoding", accept, "If-None-Match", tag)
					if again.status != 304 || again.body != "" || again.header.Get("Content-Encoding") != "" || again.header.Get("Vary") != "Accept-Encoding" ||
						strings.TrimPrefix(again.header.Get("ETag"), "W/") != strings.TrimPrefix(tag, "W/") {
						t.Errorf("ETag %s, %s, %s: %+v", name, path, accept, again)
					}
				}
			}
		}
	}
}

// TestETagOfPages: a page that prints its nonce is different each time; one that does not is the same.
func TestETagOfPages(t *testing.T) {
	views := newViews(t, view.Options{FS: fstest.MapFS{
		"inline.html": {Data: []byte(`<script nonce="{{.nonce}}">1</script>`)},
		"plain.html":  {Data: []byte(`<p>{{.title}}</p>`)},
	}})
	s := serve(t, web.Options{Views: views}, func(a *web.App) {
		a.Use(web.ETag(web.ETagOptions{}))
		for _, name := range []string{"inline", "plain"} {
			a.Get("/"+name, func(c *web.Context) error { return c.Render(name, nil) })
		}
	})
	if got := s.do("GET", "/inline", ""); got.header.Get("ETag") != "" {
		t.Errorf("%+v", got)
	}
	first := s.do("GET", "/plain", "")
	if got := s.do("GET", "/plain", "", "If-None-Match", first.header.Get("ETag")); got.status != 304 {
		t.Errorf("%+v then %+v", first, got)
	}
}
