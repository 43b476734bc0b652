package web_test

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/web"
)

// polyglot is a GIF by its first bytes, and a script.
const polyglot = `GIF89a=1;document.documentElement.textContent="it " + "ran"`

// TestUploadNames: the stored name of a file depends on its bytes.
func TestUploadNames(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Post("/", func(c *web.Context) error {
			text := ""
			err := c.Uploads(web.UploadOptions{}, func(f *web.File) error {
				text += f.Name + " " + f.ClientName + " " + f.Type
				return nil
			})
			if err != nil {
				return err
			}
			return c.Text(200, text)
		})
	})
	for _, c := range []struct{ name, content, want string }{
		{"a.js", polyglot, "a.gif a.js image/gif"},
		{"b.html", "<html><script>alert(1)</script>", "b.bin b.html text/html"},
		{"b.gif", "<html><script>alert(1)</script>", "b.bin b.gif text/html"},
		{"c.png", `<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>`, "c.bin c.png text/xml"},
		{"d.png", `<svg xmlns="http://www.w3.org/2000/svg"/>`, "d.txt d.png text/plain"},
		{"p.tar.jpeg", pixel, "p.tar.png p.tar.jpeg image/png"},
		{"f", "\x00\x00\x00\x1cftypavif\x00\x00\x00\x00", "f.avif f image/avif"},
		{".htaccess", "Options All", "htaccess.txt htaccess text/plain"},
		{"CON.js", polyglot, "_CON.gif _CON.js image/gif"},
		{strings.Repeat("n", 150) + ".js", polyglot, strings.Repeat("n", 116) + ".gif " + strings.Repeat("n", 117) + ".js image/gif"},
	} {
		body, media := formOf(t, part{"file", c.name, c.content})
		if got := s.do("POST", "/", body, "Content-Type", media); got.body != c.want {
			t.Errorf("%s: %d %q, want %q", c.name, got.status, got.body, c.want)
		}
	}
}

// TestContentIsSafe: no name, header or option makes users' content anything but what its bytes are, and it
// never runs.
func TestContentIsSafe(t *testing.T) {
	for what, o := range map[string]web.Headers{"defaults": {}, "off": {Off: true}, "report only": {CSPReportOnly: true, CSP: "script-src *"}} {
		s := serve(t, web.Options{Headers: o}, func(a *web.App) {
			a.Post("/{name}", func(c *web.Context) error {
				text, err := io.ReadAll(c.Request.Body)
				if err != nil {
					return err
				}
				c.Header().Set("Content-Type", "text/html")
				if c.Query("as").String() != "" {
					c.Attachment(c.Query("as").String())
				}
				return c.Content(c.Path("name").String(), time.Time{}, bytes.NewReader(text))
			})
		})
		for _, c := range []struct{ path, content, media, saved string }{
			{"/a.js", polyglot, "image/gif", ""},
			{"/a.html", pixel, "image/png", ""},
			{"/a.html?as=b.png", pixel, "image/png", "b.png"},
			{"/b.png", "<html><script>", "text/html; charset=utf-8", "b.png"},
			{"/b.svg", `<svg onload="alert(1)">`, "text/plain; charset=utf-8", "b.svg"},
			{"/b.xml", `<?xml version="1.0"?><svg/>`, "text/xml; charset=utf-8", "b.xml"},
			{"/b.pdf", "%PDF-1.7", "application/pdf", "b.pdf"},
			{"/a.css", "", "text/plain; charset=utf-8", "a.css"},
			{"/v", "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom", "video/mp4", ""},
		} {
			got := s.do("POST", c.path, c.content)
			kind, params, _ := mime.ParseMediaType(got.header.Get("Content-Disposition"))
			h := got.header
			if got.status != 200 || got.body != c.content || h.Get("Content-Type") != c.media || params["filename"] != c.saved || (kind == "attachment") != (c.saved != "") ||
				h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Security-Policy") != web.ContentCSP || h["Content-Security-Policy-Report-Only"] != nil {
				t.Errorf("%s, %s: %+v", what, c.path, got)
			}
		}
		got := s.do("POST", "/a.html", pixel, "Range", "bytes=0-1,4-5")
		if got.status != 206 || !strings.HasPrefix(got.header.Get("Content-Type"), "multipart/byteranges") || got.header.Get("Content-Security-Policy") != web.ContentCSP {
			t.Errorf("%s, two ranges: %+v", what, got)
		}
		if got := s.do("POST", "/b.svg", "<svg>", "Range", "bytes=90-"); got.status != 416 || got.header.Get("Content-Disposition") != "" || got.header.Get("Content-Security-Policy") == web.ContentCSP {
			t.Errorf("%s, no such range: %+v", what, got)
		}
	}
}

// TestPolyglotInBrowser: Chromium runs a GIF that is a script if the client's name is trusted, but not if it
// is served as users' content.
func TestPolyglotInBrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
			t.Fatalf("%v, and SKERRY_REQUIRE_SERVERS=1", err)
		}
		t.Skip(err)
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	app := newApp(t, web.Options{})
	app.Post("/upload", func(c *web.Context) error {
		return c.Uploads(web.UploadOptions{}, func(f *web.File) error {
			text, err := io.ReadAll(f)
			if err == nil {
				err = root.WriteFile(f.Name, text, 0o600)
			}
			if err == nil {
				err = root.WriteFile(f.ClientName, text, 0o600)
			}
			return err
		})
	})
	app.Get("/trusted/{name}", func(c *web.Context) error { return c.TrustedFileFS(root.FS(), c.Path("name").String()) })
	app.Get("/files/{name}", func(c *web.Context) error { return c.FileFS(root.FS(), c.Path("name").String()) })
	app.Get("/page", func(c *web.Context) error { // into which somebody has put what the policy allows
		page := "<!doctype html><body>shown"
		for src := range strings.FieldsSeq(c.Query("src").String()) {
			page += `<script src="` + src + `"></script>`
		}
		return c.HTML(200, page)
	})
	srv := httptest.NewServer(app)
	t.Cleanup(srv.Close)
	body, media := formOf(t, part{"f", "a.js", polyglot}, part{"f", "b.html", `<!doctype html><body>shown<script src="a.js"></script>`})
	resp, err := http.Post(srv.URL+"/upload", media, strings.NewReader(body))
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	for path, want := range map[string]string{
		"/trusted/b.html": "it ran", // so that the other one proves something
		"/page?src=/files/a.js+/files/a.gif+/trusted/a.gif": "shown",
	} {
		if got := visible(t, chromium, srv.URL+path); !strings.Contains(got, want) || want != "it ran" && strings.Contains(got, "it ran") {
			t.Errorf("%s shows %q, want %q", path, got, want)
		}
	}
}

// visible returns the page that Chromium shows at an address.
func visible(t *testing.T, chromium, at string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := []string{"--headless", "--disable-gpu", "--disable-crash-reporter", "--user-data-dir=" + filepath.Join(t.TempDir(), "profile"), "--dump-dom", at}
	if os.Getuid() == 0 {
		args = append([]string{"--no-sandbox"}, args...)
	}
	cmd := exec.CommandContext(ctx, chromium, args...)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	return string(out)
}
