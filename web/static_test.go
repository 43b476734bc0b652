package web_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/view"
)

// someFiles are the files of most tests here.
func someFiles() fstest.MapFS {
	return fstest.MapFS{
		"css/app.css":      {Data: []byte("body{}")},
		"js/app.js":        {Data: []byte("1;")},
		"js/more.mjs":      {Data: []byte("export {}")},
		"js/todo.js":       {Data: []byte("2;")},
		"img/a b&c.png":    {Data: []byte("png")},
		"favicon.ico":      {Data: []byte("ico")},
		"LICENSE":          {Data: []byte("free")},
		"old.deadbeef.css": {Data: []byte("named by a bundler")},
		".env":             {Data: []byte("SECRET")},
		".git/config":      {Data: []byte("SECRET")},
		"empty.txt":        {},
	}
}

func newAssets(t testing.TB, o web.AssetOptions) *web.Assets {
	t.Helper()
	a, err := web.NewAssets(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func urlOf(t testing.TB, a *web.Assets, name string) string {
	t.Helper()
	url, err := a.URL(name)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

const forever, ask = "public, max-age=31536000, immutable", "no-cache"

// TestAddressOfAFile: browsers may cache the address with the hash forever; addresses without it, or with that
// of another version, must be revalidated.
func TestAddressOfAFile(t *testing.T) {
	a := newAssets(t, web.AssetOptions{FS: someFiles(), Root: []string{"favicon.ico"}})
	s := serve(t, web.Options{Assets: a, Headers: web.Headers{Off: true}}, func(*web.App) {})
	css := urlOf(t, a, "css/app.css")
	if !strings.HasPrefix(css, "/assets/css/app.") || !strings.HasSuffix(css, ".css") || len(css) != len("/assets/css/app.12345678.css") {
		t.Fatalf("the address is %s", css)
	}
	for _, c := range []struct{ path, cache, media, body string }{
		{css, forever, "text/css; charset=utf-8", "body{}"},
		{"/assets/css/app.css", ask, "text/css; charset=utf-8", "body{}"},
		{"/assets/css/app.00000000.css", ask, "text/css; charset=utf-8", "body{}"},
		{"/assets/old.deadbeef.css", ask, "text/css; charset=utf-8", "named by a bundler"},
		{urlOf(t, a, "old.deadbeef.css"), forever, "text/css; charset=utf-8", "named by a bundler"},
		{urlOf(t, a, "LICENSE"), forever, "application/octet-stream", "free"},
		{"/assets/LICENSE", ask, "application/octet-stream", "free"},
		{urlOf(t, a, "img/a b&c.png"), forever, "image/png", "png"},
		{"/assets/empty.txt", ask, "text/plain; charset=utf-8", ""},
		{"/favicon.ico", ask, "image/x-icon", "ico"},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			got := s.do(method, c.path, "")
			if method == "HEAD" {
				c.body = ""
			}
			if got.status != 200 || got.body != c.body || got.header.Get("Cache-Control") != c.cache ||
				got.header.Get("Content-Type") != c.media || got.header.Get("X-Content-Type-Options") != "nosniff" || got.header.Get("Set-Cookie") != "" {
				t.Errorf("%s %s: %+v", method, c.path, got)
			}
		}
		etag := s.do("GET", c.path, "").header.Get("ETag")
		if got := s.do("GET", c.path, "", "If-None-Match", etag); got.status != 304 || got.body != "" || got.header.Get("Cache-Control") != c.cache {
			t.Errorf("%s again: %+v", c.path, got)
		}
	}
	if got := s.do("GET", css, "", "Range", "bytes=1-3"); got.status != 206 || got.body != "ody" {
		t.Errorf("a range: %+v", got)
	}
	if got := s.do("POST", css, ""); got.status != 405 {
		t.Errorf("a POST: %+v", got)
	}
}

// TestWhatIsNoFile: only files of the folder are served, under their names; other requests get an error in the
// client's form.
func TestWhatIsNoFile(t *testing.T) {
	s := serve(t, web.Options{Assets: newAssets(t, web.AssetOptions{FS: someFiles()})}, func(*web.App) {})
	d := serve(t, web.Options{Assets: newAssets(t, web.AssetOptions{FS: someFiles(), Reload: true})}, func(*web.App) {})
	for _, path := range []string{
		"", "css", "css/", "none", "none.12345678.css", ".env", "..env", ".git/config", "css/../.env", "css/%2e%2e/.env", "%2e%2e/%2e%2e/etc/passwd",
		"..%2f..%2fetc/passwd", "css%2fapp.css%00", "%00", "css%5capp.css", "..%5c.env", "C:%5cx", "con", "NUL.txt", "lpt1.css", "css/app.css.", "css/app.css%20",
		"css/app.css::$DATA", "%ff", "css//app.css", strings.Repeat("a/", 600) + "x", strings.Repeat("x", 5000), "%2fetc/passwd", "app.css?x=/css/app.css", ".12345678.css",
	} {
		for _, s := range []*site{s, d} {
			got := s.do("GET", "/assets/"+path, "")
			if got.status == 307 || got.status == 301 { // to the cleaner path, which is no better
				got = s.do("GET", got.header.Get("Location"), "")
			}
			if path == "css//app.css" {
				if got.status != 200 {
					t.Errorf("the cleaned path: %+v", got)
				}
				continue
			}
			if got.status != 404 || !strings.Contains(got.body, `"code":"no_route"`) || strings.Contains(got.body, "SECRET") || got.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%.80s: %d %.200s", path, got.status, got.body)
			}
		}
	}
	if got := s.do("GET", "/assets/none", "", "Accept", "text/html"); got.status != 404 || got.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("in a browser: %+v", got)
	}
}

func writeFile(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestLinks: links that stay in the folder are followed, others never.
func TestLinks(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	writeFile(t, outside+"/secret.txt", "SECRET")
	writeFile(t, dir+"/in.txt", "in")
	for name, to := range map[string]string{"link.txt": "in.txt", "out.txt": outside + "/secret.txt", "folder": outside, "up.txt": "../" + filepath.Base(outside) + "/secret.txt"} {
		if err := os.Symlink(to, dir+"/"+name); err != nil {
			t.Skip(err)
		}
	}
	_, err := web.NewAssets(web.AssetOptions{Dir: dir})
	for _, name := range []string{"out.txt", "folder", "up.txt"} {
		if engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), name) {
			t.Errorf("links that lead out of the folder: %v", err)
		}
	}
	for _, o := range []web.AssetOptions{{Dir: dir, Reload: true}, {FS: os.DirFS(dir), Reload: true}} {
		s := serve(t, web.Options{Assets: newAssets(t, o)}, func(*web.App) {})
		for _, name := range []string{"out.txt", "folder/secret.txt", "up.txt", "folder"} {
			if got := s.do("GET", "/assets/"+name, ""); got.status != 404 || strings.Contains(got.body, "SECRET") {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if got := s.do("GET", "/assets/link.txt", ""); (got.status == 200) != (o.Dir != "") {
			t.Errorf("a link to a file in the folder: %+v", got)
		}
	}
}

// TestReload: in development a change is served at once, under another address.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/a.css", "one")
	a := newAssets(t, web.AssetOptions{Dir: dir, Reload: true})
	s := serve(t, web.Options{Assets: a}, func(*web.App) {})
	before := urlOf(t, a, "a.css")
	writeFile(t, dir+"/a.css", "two")
	writeFile(t, dir+"/b.css", "new")
	after := urlOf(t, a, "a.css")
	if before == after {
		t.Errorf("the address is %s as before", after)
	}
	for path, want := range map[string]string{after: "two", "/assets/a.css": "two", before: "two", "/assets/b.css": "new"} {
		got := s.do("GET", path, "")
		if got.body != want || (got.header.Get("Cache-Control") == forever) != (path == after) {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// TestLargeFile: it is not kept in memory, and gets no stale tag if it changes.
func TestLargeFile(t *testing.T) {
	dir := t.TempDir()
	text := strings.Repeat("0123456789", web.MaxKeptAsset/10+1)
	writeFile(t, dir+"/big.txt", text)
	a := newAssets(t, web.AssetOptions{Dir: dir})
	s := serve(t, web.Options{Assets: a}, func(*web.App) {})
	url := urlOf(t, a, "big.txt")
	got := s.do("GET", url, "")
	if got.body != text || got.header.Get("Cache-Control") != forever {
		t.Errorf("%d bytes, %v", len(got.body), got.header)
	}
	if got := s.do("GET", url, "", "Range", "bytes=1000003-1000005"); got.status != 206 || got.body != "345" {
		t.Errorf("a range: %+v", got)
	}
	etag := got.header.Get("ETag")
	writeFile(t, dir+"/big.txt", "another")
	if got := s.do("GET", url, "", "If-None-Match", etag); got.status != 200 || got.body != "another" || got.header.Get("Cache-Control") != ask {
		t.Errorf("after a change: %+v", got)
	}
	if err := os.Remove(dir + "/big.txt"); err != nil {
		t.Fatal(err)
	}
	if got := s.do("GET", url, ""); got.status != 404 {
		t.Errorf("after it was removed: %+v", got)
	}
}

// TestNotModifiedByTime: files on disk have a modification time.
func TestNotModifiedByTime(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/a.txt", "a")
	then := time.Now().Add(-time.Hour)
	if err := os.Chtimes(dir+"/a.txt", then, then); err != nil {
		t.Fatal(err)
	}
	s := serve(t, web.Options{Assets: newAssets(t, web.AssetOptions{Dir: dir})}, func(*web.App) {})
	for since, want := range map[time.Time]int{time.Now(): 304, then.Add(-time.Hour): 200} {
		if got := s.do("GET", "/assets/a.txt", "", "If-Modified-Since", since.UTC().Format(http.TimeFormat)); got.status != want {
			t.Errorf("since %v: %d", since, got.status)
		}
	}
}

// TestAssetList: pages load the listed files, in order, and a view loads more.
func TestAssetList(t *testing.T) {
	o := web.AssetOptions{FS: someFiles(), List: []string{"css/app.css", "js/app.js", "js/more.mjs"}, Pages: map[string][]string{"todo": {"js/todo.js"}}}
	for _, reload := range []bool{false, true} {
		o.Reload = reload
		a := newAssets(t, o)
		views := newViews(t, view.Options{Funcs: a.Funcs(), FS: fstest.MapFS{
			"layout.html":  {Data: []byte("<html>{{.assets}}{{.contents}}</html>")},
			"home.html":    {Data: []byte(`<img src="{{asset "img/a b&c.png"}}">`)},
			"todo.z.html":  {Data: []byte(`<img src="#{logo}">`)},
			"broken.html":  {Data: []byte(`{{asset "none.png"}}`)},
			"partial.html": {Data: []byte(`x`)},
		}})
		s := serve(t, web.Options{Assets: a, Views: views}, func(app *web.App) {
			app.Get("/", func(c *web.Context) error { return c.Render("home", nil) })
			app.Get("/todo", func(c *web.Context) error {
				return c.Render("todo", web.Locals{"logo": c.Asset("favicon.ico")})
			})
			app.Get("/broken", func(c *web.Context) error { return c.Render("broken", nil) })
		})
		list := `<link rel="stylesheet" href="` + urlOf(t, a, "css/app.css") + "\">\n" + `<script src="` + urlOf(t, a, "js/app.js") + "\"></script>\n" +
			`<script type="module" src="` + urlOf(t, a, "js/more.mjs") + "\"></script>\n"
		for path, want := range map[string]string{
			"/":     "<html>" + list + `<img src="` + strings.ReplaceAll(urlOf(t, a, "img/a b&c.png"), "&", "&amp;") + `"></html>`,
			"/todo": "<html>" + list + `<script src="` + urlOf(t, a, "js/todo.js") + "\"></script>\n" + `<img src="` + urlOf(t, a, "favicon.ico") + `"></html>`,
		} {
			if got := s.do("GET", path, ""); got.body != want {
				t.Errorf("%s:\n%s\nwant\n%s", path, got.body, want)
			}
		}
		if got := s.do("GET", "/broken", ""); got.status != 500 {
			t.Errorf("a page that needs a file which is not there: %+v", got)
		}
	}
}

// TestAssetsRefuse: invalid options are reported at the start, by name.
func TestAssetsRefuse(t *testing.T) {
	many := fstest.MapFS{}
	for i := range web.MaxAssets + 1 {
		many[strings.Repeat("x", i%200+1)+"/"+time.Duration(i).String()] = &fstest.MapFile{}
	}
	for what, c := range map[string]struct {
		o    web.AssetOptions
		code engine.Code
	}{
		"css/none.css":       {web.AssetOptions{FS: someFiles(), List: []string{"css/app.css", "css/none.css"}}, engine.CodeInvalid},
		`Pages["todo"]`:      {web.AssetOptions{FS: someFiles(), Pages: map[string][]string{"todo": {"js/none.js"}}}, engine.CodeInvalid},
		"robots.txt":         {web.AssetOptions{FS: someFiles(), Root: []string{"robots.txt"}}, engine.CodeInvalid},
		"https://cdn":        {web.AssetOptions{FS: someFiles(), List: []string{"https://cdn.example/x.js"}, Reload: true}, engine.CodeInvalid},
		"//cdn":              {web.AssetOptions{FS: someFiles(), List: []string{"//cdn.example/x.js"}, Reload: true}, engine.CodeInvalid},
		"favicon.ico":        {web.AssetOptions{FS: someFiles(), List: []string{"favicon.ico"}}, engine.CodeInvalid},
		"Dir and FS":         {web.AssetOptions{}, engine.CodeInvalid},
		"prefix":             {web.AssetOptions{FS: someFiles(), Prefix: "/"}, engine.CodeInvalid},
		"slash":              {web.AssetOptions{FS: someFiles(), Prefix: "/public"}, engine.CodeInvalid},
		"cannot be opened":   {web.AssetOptions{Dir: "/nowhere/at/all"}, engine.CodeInvalid},
		"NUL.css":            {web.AssetOptions{FS: fstest.MapFS{"css/NUL.css": {}}}, engine.CodeInvalid},
		`a\\b.css`:           {web.AssetOptions{FS: fstest.MapFS{`a\b.css`: {}}}, engine.CodeInvalid},
		"a:b.css":            {web.AssetOptions{FS: fstest.MapFS{"a:b.css": {}}}, engine.CodeInvalid},
		"more than 10000":    {web.AssetOptions{FS: many}, engine.CodeLimit},
		"a valid file name":  {web.AssetOptions{FS: fstest.MapFS{strings.Repeat("y", web.MaxAssetName+1): {}}}, engine.CodeInvalid},
		"brace":              {web.AssetOptions{FS: fstest.MapFS{"{x}": {}}, Root: []string{"{x}"}}, engine.CodeInvalid},
		"begins and ends":    {web.AssetOptions{FS: someFiles(), Prefix: "/{x}/"}, engine.CodeInvalid},
		"must not depend on": {web.AssetOptions{FS: someFiles(), List: []string{"/css/app.css"}}, engine.CodeInvalid},
	} {
		if _, err := web.NewAssets(c.o); engine.CodeOf(err) != c.code || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	var log bytes.Buffer
	newAssets(t, web.AssetOptions{FS: someFiles(), List: []string{"css/none.css"}, Reload: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.Contains(log.String(), "css/none.css") {
		t.Errorf("in development the log is %q", log.String())
	}
	views := newViews(t, view.Options{FS: fstest.MapFS{"home.html": {}}})
	a := newAssets(t, web.AssetOptions{FS: someFiles(), Pages: map[string][]string{"hmoe": {"js/todo.js"}}})
	if _, err := web.New(web.Options{Views: views, Assets: a}); engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), `"hmoe"`) {
		t.Errorf("a list for a view that is not there: %v", err)
	}
}

// TestStaticNeedsNoData: files are served even if the session cannot be read.
func TestStaticNeedsNoData(t *testing.T) {
	s := serve(t, web.Options{Sessions: newSessions(t), Assets: newAssets(t, web.AssetOptions{FS: someFiles()})}, func(*web.App) {})
	if got := s.do("GET", "/assets/js/app.js", "", "Cookie", sessionCookie+"=forged"); got.status != 200 || got.header.Get("Set-Cookie") != "" {
		t.Errorf("%+v", got)
	}
}
