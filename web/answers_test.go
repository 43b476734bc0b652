package web_test

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/skerrydb/skerry/web"
)

// countFaults counts faults of the program.
type countFaults struct{ n atomic.Int64 }

func (f *countFaults) Report(web.Fault) { f.n.Add(1) }

// TestFiles: ranges, conditional requests, names, and paths that are not files.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "report.txt")
	if err := os.WriteFile(file, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, to := range map[string]string{"out": "/etc/passwd", "dir": "../.."} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	faults := &countFaults{}
	s := serve(t, web.Options{Faults: faults}, func(a *web.App) {
		a.Get("/file", func(c *web.Context) error {
			c.Attachment("Übersicht; 1%.txt")
			return c.File(file)
		})
		a.Get("/dir", func(c *web.Context) error { return c.File(dir) })
		a.Get("/fs/{name...}", func(c *web.Context) error { return c.FileFS(root.FS(), c.Path("name").String()) })
		a.Get("/map/{name}", func(c *web.Context) error {
			return c.FileFS(fstest.MapFS{"a.html": {Data: []byte("<p>")}}, c.Path("name").String())
		})
		a.Get("/content", func(c *web.Context) error {
			c.Header().Set("ETag", `"7"`)
			return c.Content("x.csv", time.Time{}, strings.NewReader("a,b"))
		})
	})
	whole := s.do("GET", "/file", "")
	modified := whole.header.Get("Last-Modified")
	kind, params, err := mime.ParseMediaType(whole.header.Get("Content-Disposition"))
	if whole.body != "0123456789" || err != nil || kind != "attachment" || params["filename"] != "Übersicht; 1%.txt" || modified == "" {
		t.Errorf("%+v %v %v", whole, params, err)
	}
	for _, c := range []struct {
		method, path string
		header       []string
		status       int
		body         string
	}{
		{"GET", "/file", []string{"Range", "bytes=2-4"}, 206, "234"}, {"GET", "/file", []string{"Range", "bytes=-1"}, 206, "9"},
		{"GET", "/file", []string{"If-Modified-Since", modified}, 304, ""}, {"GET", "/content", []string{"If-None-Match", `"7"`}, 304, ""},
		{"GET", "/content", []string{"If-Match", `"8"`}, 412, ""}, {"HEAD", "/file", nil, 200, ""}, {"GET", "/content", nil, 200, "a,b"},
		{"GET", "/fs/report.txt", nil, 200, "0123456789"}, {"GET", "/map/a.html", nil, 200, "<p>"},
	} {
		if got := s.do(c.method, c.path, "", c.header...); got.status != c.status || got.body != c.body {
			t.Errorf("%s %s %v: %+v", c.method, c.path, c.header, got)
		}
	}
	if got := s.do("GET", "/file", "", "Range", "bytes=20-30"); got.status != 416 || problemOf(t, got).Code != web.CodeRangeNotSatisfiable || got.header.Get("Content-Range") != "bytes */10" || got.header.Get("Content-Disposition") != "" {
		t.Errorf("a range that it does not have: %+v", got)
	}
	for _, path := range []string{"/dir", "/fs/", "/fs/%2e%2e/secret", "/fs/..%2f..%2fetc%2fpasswd", "/fs/report.txt%00", "/fs/none", "/fs/report.txt/x", "/fs/" + strings.Repeat("n", 5000), "/fs/%2fetc%2fpasswd", "/map/b", "/fs/out", "/fs/dir/x"} {
		if got := s.do("GET", path, ""); got.status != 404 || strings.Contains(got.body, dir) {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if faults.n.Load() != 0 {
		t.Error("a fault was reported")
	}
}

// TestAttachmentNames: no name can end its header or impersonate another name.
func TestAttachmentNames(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Get("/", func(c *web.Context) error {
			c.Attachment(c.Query("n").String())
			return c.Text(200, "x")
		})
	})
	for query, want := range map[string]string{
		"a.txt": "a.txt", "a%0d%0aSet-Cookie:x": "aSet-Cookie_x", "%22%3Bfilename=x": "_;filename=x", "a%5cb": "b", "%e2%82%ac'()*,@=.txt": "€'()_,@=.txt", "50%25": "50%", "": "file",
	} {
		got := s.do("GET", "/?n="+query, "")
		_, params, err := mime.ParseMediaType(got.header.Get("Content-Disposition"))
		if err != nil || params["filename"] != want || got.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %q %q %v", query, got.header.Get("Content-Disposition"), params, err)
		}
	}
}

// slowly returns its texts one read after the other, and then err.
type slowly struct {
	texts []string
	err   error
}

func (r *slowly) Read(p []byte) (int, error) {
	if len(r.texts) == 0 {
		return 0, r.err
	}
	n := copy(p, r.texts[0])
	r.texts = r.texts[1:]
	return n, nil
}

// TestStream: the response is complete, an error, or cut off, but never a part that looks complete.
func TestStream(t *testing.T) {
	broken := errors.New("the disk is gone")
	s := serve(t, web.Options{}, func(a *web.App) {
		for path, from := range map[string]slowly{
			"/whole": {[]string{"a", "", "b"}, io.EOF}, "/empty": {nil, io.EOF}, "/at-once": {nil, broken}, "/half": {[]string{"a"}, broken},
		} {
			a.Get(path, func(c *web.Context) error {
				from := from
				return c.Stream(201, "text/csv", &from)
			})
		}
	})
	if got := s.do("GET", "/whole", ""); got.status != 201 || got.body != "ab" || got.header.Get("Content-Type") != "text/csv" {
		t.Errorf("%+v", got)
	}
	if got := s.do("GET", "/empty", ""); got.status != 201 || got.body != "" {
		t.Errorf("%+v", got)
	}
	if got := s.do("GET", "/at-once", ""); got.status != 500 || strings.Contains(got.body, "disk") {
		t.Errorf("%+v", got)
	}
	expectCut(t, s, "/half")
}

// expectCut requests a response that is cut off in the middle.
func expectCut(t *testing.T, s *site, path string, header ...string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.srv.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		r.Header.Set(header[0], header[1])
	}
	resp, err := s.srv.Client().Do(r)
	if err != nil {
		return // before the headers were sent
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("%s looks whole: %d %q", path, resp.StatusCode, body)
	}
}

// TestAnswersThatFail: what a handler does after its response or its failure.
func TestAnswersThatFail(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Get("/panic-half", func(c *web.Context) error {
			_ = c.Text(200, "half")
			_ = http.NewResponseController(c.Writer).Flush()
			panic("now")
		})
		a.Get("/error-half", func(c *web.Context) error {
			_ = c.Text(200, "half")
			return web.Errorf(418, "teapot", "too late")
		})
		a.Get("/twice", func(c *web.Context) error {
			c.Header().Set("X-First", "1")
			_ = c.Text(201, "a")
			return c.Text(202, "b")
		})
		a.Get("/nothing", func(*web.Context) error { return nil })
		a.Get("/abort", func(*web.Context) error { panic(http.ErrAbortHandler) })
		a.Get("/json", func(c *web.Context) error { return c.JSON(200, func() {}) })
		a.Handle("GET /plain", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, web.From(w, r).Route())
		}))
		a.Handle("GET /nested", web.Handler(func(c *web.Context) error {
			web.Handler(func(c *web.Context) error { return web.Errorf(409, "inner", "inner") }).ServeHTTP(c.Writer, c.Request)
			return nil
		}))
		a.Get("/early", func(c *web.Context) error {
			c.Writer.WriteHeader(http.StatusEarlyHints)
			return c.Text(200, "late")
		})
	})
	for path, want := range map[string]string{"/twice": "ab", "/nothing": "", "/plain": "GET /plain", "/early": "late"} {
		if got := s.do("GET", path, ""); got.status >= 300 || got.body != want {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if got := s.do("GET", "/twice", ""); got.status != 201 {
		t.Errorf("a second status: %+v", got)
	}
	if got := s.do("HEAD", "/plain", ""); got.status != 200 || got.body != "" {
		t.Errorf("HEAD: %+v", got)
	}
	if got := s.do("GET", "/nested", ""); got.status != 409 || problemOf(t, got).Code != "inner" {
		t.Errorf("a handler in a handler: %+v", got)
	}
	if got := s.do("GET", "/json", ""); got.status != 500 {
		t.Errorf("JSON of a func: %+v", got)
	}
	for _, path := range []string{"/panic-half", "/error-half", "/abort"} {
		expectCut(t, s, path)
	}
}

// TestHeaderInjection: no value of a user can begin another header, or be reported as a fault of the program.
func TestHeaderInjection(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Get("/set", func(c *web.Context) error {
			if err := c.SetHeader(c.Query("n").Or("X-Y").String(), c.Query("v").String()); err != nil {
				return err
			}
			return c.Text(200, "set")
		})
		a.Get("/to", func(c *web.Context) error { return c.Redirect(c.Query("v").String()) })
		a.Get("/any", func(c *web.Context) error { return c.RedirectTo(307, c.Query("v").String()) })
		a.Get("/status", func(c *web.Context) error { return c.RedirectTo(200, "/") })
	})
	for path, status := range map[string]int{
		"/set?v=a%09b": 200, "/set?v=a%0d%0aX-Z:1": 400, "/set?v=%00": 400, "/set?n=a%20b&v=1": 500, "/set?n=a:b&v=1": 500,
		"/to?v=/a%3fb=c": 303, "/to?v=//evil.example": 400, "/to?v=/%5cevil.example": 400, "/to?v=https://evil.example": 400, "/to?v=/%0d%0aX-Z:1": 400, "/to?v=/%09/evil.example": 400, "/to?v=": 400, "/to?v=javascript:x": 400,
		"/any?v=https://good.example/": 307, "/any?v=/%0aX-Z:1": 400, "/any?v=": 400, "/status": 500,
	} {
		got := s.do("GET", path, "")
		if got.status != status || got.header.Get("X-Z") != "" || status >= 400 && got.header.Get("Location") != "" {
			t.Errorf("%s: %+v", path, got)
		}
	}
}
