package web_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/web"
)

// pixel is the beginning of a PNG.
const pixel = "\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\rIHDR"

// part is one part of a form; a file if it has a name.
type part struct{ field, file, text string }

// formOf returns a multipart form and its Content-Type.
func formOf(tb testing.TB, parts ...part) (body, media string) {
	tb.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, p := range parts {
		add := func() (io.Writer, error) { return w.CreateFormField(p.field) }
		if p.file != "" {
			add = func() (io.Writer, error) { return w.CreateFormFile(p.field, p.file) }
		}
		to, err := add()
		if err == nil {
			_, err = io.WriteString(to, p.text)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.String(), w.FormDataContentType()
}

// uploads is a site that responds with what it has received.
func uploads(tb testing.TB, o web.UploadOptions) *site {
	return serve(tb, web.Options{MaxBody: 1000}, func(a *web.App) {
		a.Post("/", func(c *web.Context) error {
			o := o
			var form struct {
				Title string `json:"title"`
			}
			if o.TempDir != "none" {
				o.Fields = &form
			}
			var got []string
			err := c.Uploads(o, func(f *web.File) error {
				b, err := io.ReadAll(f)
				got = append(got, fmt.Sprintf("%s %s %s %d", f.Field, f.Name, f.Type, len(b)))
				return err
			})
			if err != nil {
				return err
			}
			return c.Text(200, form.Title+"|"+strings.Join(got, "|"))
		})
		a.Post("/unread", func(c *web.Context) error {
			if err := c.Uploads(o, func(*web.File) error { return nil }); err != nil {
				return err
			}
			return c.Text(200, "ok")
		})
	})
}

// TestUploads: files and fields, in any order, as they come.
func TestUploads(t *testing.T) {
	s := uploads(t, web.UploadOptions{MaxFileBytes: 5000, MaxBytes: 20_000, MaxFiles: 5, Types: []string{"image/*", "text/plain"}})
	big := strings.Repeat("x", 5000)
	for _, c := range []struct {
		parts  []part
		status int
		want   string
	}{
		{[]part{{"a", "p.png", pixel}, {"title", "", "T"}, {"b", `C:\dir\..\t.txt`, big}}, 200, "T|a p.png image/png 16|b t.txt text/plain 5000"},
		{[]part{{"title", "", "T"}, {"a", "empty.txt", ""}}, 200, "T|a empty.txt text/plain 0"},
		{[]part{{"title", "", "T"}}, 200, "T|"},
		{[]part{{"a", "p.png", pixel}}, 400, "/title: is missing"},
		{[]part{{"title", "", "T"}, {"a", "p.png", big + "y"}}, 413, "/a: the file has more than 5000 bytes, the limit"},
		{[]part{{"title", "", "T"}, {"a", "p.png", "<html><script>"}}, 415, "/a: must be image/* or text/plain, but looks like text/html"},
		{[]part{{"a", "1", "1"}, {"a", "2", "2"}, {"a", "3", "3"}, {"a", "4", "4"}, {"a", "5", "5"}, {"a", "6", "6"}}, 400, "more than 5 files"},
		{[]part{{"title", "", strings.Repeat("t", 1001)}}, 413, "the fields of the form take more than 1000 bytes"},
		{[]part{{"title", "", "T"}, {"x", "", "1"}}, 400, "/x: is not known"},
		{[]part{{"a", "1", big}, {"a", "2", big}, {"a", "3", big}, {"a", "4", big}}, 413, "over the limit of 20000"},
	} {
		body, media := formOf(t, c.parts...)
		got := s.do("POST", "/", body, "Content-Type", media)
		text := got.body
		if got.status != 200 {
			text = places(t, got) + problemOf(t, got).Detail
		}
		if got.status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%.100v: %d %s; want %d %s", c.parts, got.status, text, c.status, c.want)
		}
	}
	body, media := formOf(t, part{"a", "f", big + "y"})
	if got := s.do("POST", "/unread", body, "Content-Type", media); got.status != 413 {
		t.Errorf("a file that is too long and not read: %+v", got)
	}
	none := uploads(t, web.UploadOptions{TempDir: "none"})
	body, media = formOf(t, part{"title", "", "T"})
	if got := none.do("POST", "/", body, "Content-Type", media); places(t, got) != "/title: is not known" {
		t.Errorf("an unexpected field: %+v", got)
	}
}

// TestBrokenUploads: truncated and malformed uploads are the client's mistake, with a text that explains it.
func TestBrokenUploads(t *testing.T) {
	s := uploads(t, web.UploadOptions{})
	field := "--b\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\n"
	file := "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\n"
	form := "multipart/form-data; boundary=b"
	for _, c := range []struct {
		media, body string
		status      int
		want        string
	}{
		{form, field + "T\r\n--b--\r\n", 200, ""}, {form, field + "T\r\n--b--", 200, ""},
		{"multipart/form-data", field + "T\r\n--b--", 415, "must have a boundary"}, {"application/json", "{}", 415, "must be multipart/form-data"},
		{form, "", 400, "cut off"}, {form, field, 400, "cut off"}, {form, field + "T", 400, "cut off"}, {form, field + "T\r\n--b", 400, "cut off"},
		{form, file, 400, "cut off"}, {form, file + "abc", 400, "cut off"}, {form, file + strings.Repeat("x", 70_000), 400, "cut off"}, {form, file + "abc\r\n--b\r\nConte", 400, "cannot be read"},
		{form, "--b\r\nno header\r\n\r\nT\r\n--b--", 400, "cannot be read"}, {form, "--b\r\nContent-Type: text/plain\r\n\r\nT\r\n--b--", 400, "part 1 of the form has no name"},
		{form, "--b\r\nContent-Disposition: form-data; name=\"\xff\"\r\n\r\nT\r\n--b--", 400, "has no name"},
		{form, "--b\r\nContent-Disposition: attachment; name=\"x\"\r\n\r\nT\r\n--b--", 400, "has no name"},
		{form, strings.Repeat(file+"\r\n", 10_000) + "--b--", 400, "more than 20 files"}, {form, strings.Repeat(field+"\r\n", 10_000) + "--b--", 400, "more than 1000 fields"},
		{form, field + "T\r\n--c\r\n--b--", 200, ""},
	} {
		got := s.do("POST", "/", c.body, "Content-Type", c.media)
		if got.status != c.status || c.want != "" && !strings.Contains(problemOf(t, got).Detail, c.want) {
			t.Errorf("%s %.90q: %+v; want %d %s", c.media, c.body, got, c.status, c.want)
		}
	}
}

// TestUploadToTemporaryFile: the file exists while the handler runs, and is removed after it, even after a
// panic.
func TestUploadToTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Post("/", func(c *web.Context) error {
			var kept *os.File
			err := c.Uploads(web.UploadOptions{TempDir: dir, MaxFileBytes: 100}, func(f *web.File) (err error) {
				kept, err = f.Temp()
				return err
			})
			if err != nil {
				return err
			}
			text, err := io.ReadAll(kept)
			if err != nil {
				return err
			}
			if c.Query("panic").Given() {
				panic("after the upload")
			}
			if c.Query("keep").Given() {
				if err := os.Rename(kept.Name(), filepath.Join(dir, "kept")); err != nil {
					return err
				}
			}
			return c.Text(200, string(text))
		})
	})
	body, media := formOf(t, part{"f", "x", "content"})
	long, longMedia := formOf(t, part{"f", "x", strings.Repeat("y", 101)})
	for _, c := range []struct {
		path, body, media string
		status            int
	}{{"/", body, media, 200}, {"/?panic", body, media, 500}, {"/", long, longMedia, 413}, {"/?keep", body, media, 200}} {
		got := s.do("POST", c.path, c.body, "Content-Type", c.media)
		if got.status != c.status || c.status == 200 && got.body != "content" {
			t.Errorf("%s: %+v", c.path, got)
		}
	}
	eventually.True(t, "the temporary files are removed", func() bool { // after the last bytes were sent
		left, err := os.ReadDir(dir)
		return err == nil && len(left) == 1 && left[0].Name() == "kept"
	})
}

// TestUploadCutOff: a client that disconnects in the middle is not mistaken for one that has sent everything,
// and a chunked body ends at its limit.
func TestUploadCutOff(t *testing.T) {
	ended := make(chan error, 1)
	_, url, _ := listen(t, web.Options{}, time.Minute, func(a *web.App) {
		a.Post("/", func(c *web.Context) error {
			err := c.Uploads(web.UploadOptions{}, func(f *web.File) error { _, err := io.Copy(io.Discard, f); return err })
			ended <- err
			return err
		})
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\nabc")
	conn.Close()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "body_incomplete") {
			t.Errorf("it counts as complete: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the handler does not end")
	}
}

// TestSafeFileName: no name is a path or a device, or disguises what it is.
func TestSafeFileName(t *testing.T) {
	for name, want := range map[string]string{
		"a.txt": "a.txt", "../../etc/passwd": "passwd", `..\..\boot.ini`: "boot.ini", "": "file", ".": "file", "..": "file", "/": "file", "a/": "file",
		".htaccess": "htaccess", "a\x00b\r\nc.txt": "abc.txt", "Übersicht 1.pdf": "Übersicht 1.pdf", `a"b<c>.txt`: "a_b_c_.txt", "con": "_con", "NUL.txt": "_NUL.txt", "COM1.log": "_COM1.log", "console": "console",
		"x\u202Egpj.exe": "xgpj.exe", "\xff\xfe.txt": "txt", " a . ": "a", "123": "123",
		strings.Repeat("ä", 100) + ".jpeg": strings.Repeat("ä", 57) + ".jpeg",
		strings.Repeat("a", 200):           strings.Repeat("a", web.MaxFileName),
	} {
		got := web.SafeFileName(name)
		if got != want || len(got) > web.MaxFileName || !utf8.ValidString(got) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
