package web_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// page returns n bytes of a page that can be compressed.
func page(n int) string {
	return strings.Repeat("<p>The quick brown fox jumps over the lazy dog.</p>\n", n/50+1)[:n]
}

// decoded returns the body of a response, decoded by its Content-Encoding.
func decoded(t *testing.T, a answer) string {
	t.Helper()
	var from io.Reader = strings.NewReader(a.body)
	switch coding := a.header.Get("Content-Encoding"); coding {
	case "":
	case "gzip":
		z, err := gzip.NewReader(from)
		if err != nil {
			t.Fatal(err)
		}
		from = z
	case "zstd":
		z, err := zstd.NewReader(from)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		from = z
	default:
		t.Fatalf("Content-Encoding %s", coding)
	}
	b, err := io.ReadAll(from)
	if err != nil {
		t.Fatalf("%s: %v", a.header.Get("Content-Encoding"), err)
	}
	return string(b)
}

func TestCompressNegotiates(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Use(web.Compress(web.CompressOptions{}))
		a.Get("/", func(c *web.Context) error { return c.HTML(200, page(5000)) })
	})
	for _, c := range []struct{ accept, want string }{
		{"identity", ""}, {"", ""}, {"br", ""}, {"gzip", "gzip"}, {"x-gzip", "gzip"}, {"GZip", "gzip"}, {"zstd", "zstd"},
		{"gzip, deflate, br, zstd", "zstd"}, {"gzip;q=1, zstd;q=0.5", "gzip"}, {"gzip;q=0.5, zstd;q=0.5", "zstd"},
		{"*", "zstd"}, {"*;q=0", ""}, {"zstd;q=0, *", "gzip"}, {"gzip;q=0", ""}, {"gzip;q=0, zstd;q=0, *;q=1", ""},
		{"gzip; Q=0.1", "gzip"}, {"gzip;q=nonsense", ""}, {"gzip;q=2", ""}, {"gzip;q=-1", ""}, {"gzip;q=NaN", ""}, {",,gzip,,", "gzip"},
		{"zstd;q=0.001, gzip;q=0.0001", "zstd"},
	} {
		got := s.do("GET", "/", "", "Accept-Encoding", c.accept)
		if coding := got.header.Get("Content-Encoding"); coding != c.want {
			t.Errorf("Accept-Encoding %q: %q, want %q", c.accept, coding, c.want)
		}
		if decoded(t, got) != page(5000) || got.header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: %d bytes, Vary %q", c.accept, len(decoded(t, got)), got.header.Get("Vary"))
		}
	}
}

// compressCase is a response that is or is not compressed.
type compressCase struct {
	name    string
	set     []string // headers of the response
	status  int
	size    int
	ask     []string // headers of the request
	want    bool
	noStore bool // with CompressOptions.NoStore
}

func TestCompressWhat(t *testing.T) {
	html := []string{"Content-Type", "text/html; charset=utf-8"}
	with := func(more ...string) []string { return append(append([]string{}, html...), more...) }
	for _, c := range []compressCase{
		{name: "page", set: html, size: 3000, want: true},
		{name: "error page", set: html, status: 404, size: 3000, want: true},
		{name: "shortest", set: html, size: web.DefaultCompressMin, want: true},
		{name: "too short", set: html, size: web.DefaultCompressMin - 1},
		{name: "empty", set: html},
		{name: "given length", set: with("Content-Length", "3000"), size: 3000, want: true},
		{name: "given short length", set: with("Content-Length", "10"), size: 10},
		{name: "JSON", set: []string{"Content-Type", "application/json"}, size: 3000, want: true},
		{name: "problem", set: []string{"Content-Type", "application/problem+json"}, size: 3000, want: true},
		{name: "sniffed", size: 3000, want: true},
		{name: "PNG", set: []string{"Content-Type", "image/png"}, size: 3000},
		{name: "SVG", set: []string{"Content-Type", "image/svg+xml"}, size: 3000, want: true},
		{name: "events", set: []string{"Content-Type", "text/event-stream"}, size: 3000},
		{name: "bad type", set: []string{"Content-Type", ";"}, size: 3000},
		{name: "encoded", set: with("Content-Encoding", "br"), size: 3000},
		{name: "identity", set: with("Content-Encoding", "identity"), size: 3000, want: true},
		{name: "part", set: with("Content-Range", "bytes 0-2999/9999"), status: 206, size: 3000},
		{name: "range requested", set: html, size: 3000, ask: []string{"Range", "bytes=0-10"}},
		{name: "no-transform", set: with("Cache-Control", "public, no-transform"), size: 3000},
		{name: "secret", set: with("Cache-Control", "no-store"), size: 3000},
		{name: "secret by choice", set: with("Cache-Control", "no-store"), size: 3000, noStore: true, want: true},
		{name: "no body", set: html, status: 204},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t) })
	}
}

func (c compressCase) run(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Use(web.Compress(web.CompressOptions{NoStore: c.noStore}))
		a.Handle("GET /", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(c.set); i += 2 {
				w.Header().Add(c.set[i], c.set[i+1])
			}
			if c.status != 0 {
				w.WriteHeader(c.status)
			}
			if c.size > 0 {
				_, _ = io.WriteString(w, page(c.size))
			}
		}))
	})
	for _, coding := range []string{"gzip", "zstd"} {
		got := s.do("GET", "/", "", append([]string{"Accept-Encoding", coding}, c.ask...)...)
		used := got.header.Get("Content-Encoding")
		if (used == coding) != c.want || got.status != max(c.status, 200) {
			t.Errorf("%s: status %d, Content-Encoding %q", coding, got.status, used)
		}
		if c.want {
			if decoded(t, got) != page(c.size) || len(got.body) > c.size/2 || got.header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s: %d bytes, Vary %q", coding, len(got.body), got.header.Get("Vary"))
			}
		} else if got.body != page(c.size) {
			t.Errorf("%s: %d bytes of body, want %d", coding, len(got.body), c.size)
		}
		head := s.do("HEAD", "/", "", append([]string{"Accept-Encoding", coding}, c.ask...)...)
		if head.body != "" || head.status != got.status || head.header.Get("Content-Encoding") != used || c.want && head.header.Get("Content-Length") != "" {
			t.Errorf("%s: HEAD: %+v", coding, head)
		}
	}
}

// TestCompressStreams: flushed data arrives before there is more.
func TestCompressStreams(t *testing.T) {
	for _, coding := range []string{"gzip", "zstd"} {
		t.Run(coding, func(t *testing.T) { compressedStream(t, coding) })
	}
}

func compressedStream(t *testing.T, coding string) {
	more := make(chan string)
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Use(web.Compress(web.CompressOptions{Types: []string{"text/event-stream"}}))
		a.Get("/", func(c *web.Context) error {
			c.Header().Set("Content-Type", "text/event-stream")
			rc := http.NewResponseController(c.Writer)
			for text := range more {
				fmt.Fprint(c.Writer, text)
				if err := rc.Flush(); err != nil {
					return err
				}
			}
			return nil
		})
	})
	go func() { more <- "line 0\n" }()
	resp := open(t, s.srv.Client(), s.srv.URL, "Accept-Encoding", coding)
	if resp.Header.Get("Content-Encoding") != coding {
		t.Fatalf("%+v", resp.Header)
	}
	var from io.Reader
	var err error
	if coding == "gzip" {
		from, err = gzip.NewReader(resp.Body)
	} else {
		from, err = zstd.NewReader(resp.Body, zstd.WithDecoderConcurrency(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(from)
	for i := range 5 {
		if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("line %d\n", i) {
			t.Fatalf("line %d is %q, %v", i, line, err)
		}
		if i < 4 {
			more <- fmt.Sprintf("line %d\n", i+1)
		}
	}
	close(more)
	if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
		t.Errorf("the end: %q, %v", rest, err)
	}
}

// TestCompressFailures: a failure before anything was sent is a complete problem, even if something was
// written; later the connection is cut.
func TestCompressFailures(t *testing.T) {
	noise := make([]byte, 400000)
	rand.Read(noise)
	write := func(c *web.Context, n int) {
		c.Header().Set("Content-Type", "text/html")
		c.Header().Set("ETag", `"x"`)
		text := page(n)
		if n > 100000 {
			text = hex.EncodeToString(noise[:n/2])
		}
		_, _ = io.WriteString(c.Writer, text)
	}
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Use(web.ETag(web.ETagOptions{MaxBytes: 500}), web.Compress(web.CompressOptions{}))
		for _, n := range []int{0, 100, 900, 50000, 800000} {
			a.Get("/fail/"+strconv.Itoa(n), func(c *web.Context) error {
				write(c, n)
				return engine.Errorf(engine.CodeConflict, "no")
			})
			a.Get("/panic/"+strconv.Itoa(n), func(c *web.Context) error {
				write(c, n)
				panic("no")
			})
			a.Get("/abort/"+strconv.Itoa(n), func(c *web.Context) error {
				write(c, n)
				panic(http.ErrAbortHandler)
			})
		}
	})
	for _, n := range []int{0, 100, 900, 50000} {
		for path, code := range map[string]string{"/fail/": "conflict", "/panic/": "internal"} {
			status := map[string]int{"conflict": 409, "internal": 500}[code]
			got := s.do("GET", path+strconv.Itoa(n), "", "Accept-Encoding", "zstd")
			if got.status != status || !strings.HasPrefix(got.body, "{") || !strings.Contains(got.body, `"code":"`+code+`"`) || got.header.Get("Content-Type") != "application/problem+json" || got.header.Get("Content-Encoding") != "" || got.header.Get("ETag") == `"x"` {
				t.Errorf("%s%d: %+v", path, n, got)
			}
		}
	}
	for _, path := range []string{"/fail/800000", "/panic/800000", "/abort/0", "/abort/100", "/abort/50000", "/abort/800000"} {
		expectCut(t, s, path, "Accept-Encoding", "zstd")
	}
}

// TestCompressTags: a strong tag becomes weak, also in a 304, and still matches.
func TestCompressTags(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Use(web.Compress(web.CompressOptions{}))
		a.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"17"`)
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.Header.Get("If-None-Match") == `W/"17"`:
				w.WriteHeader(304)
			case r.Method == "PUT" && r.Header.Get("If-Match") != `"W/x" , "17", "W/"`:
				w.WriteHeader(412)
			default:
				_, _ = io.WriteString(w, page(4000))
			}
		}))
	})
	for _, accept := range []string{"gzip", "identity"} {
		got, want := s.do("GET", "/", "", "Accept-Encoding", accept), `W/"17"`
		if accept == "identity" {
			want = `"17"`
		}
		if got.header.Get("ETag") != want {
			t.Errorf("%s: ETag %s", accept, got.header.Get("ETag"))
		}
	}
	if got := s.do("GET", "/", "", "If-None-Match", `W/"17"`); got.status != 304 || got.header.Get("ETag") != `W/"17"` || got.header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("%+v", got)
	}
	if got := s.do("PUT", "/", "", "If-Match", `"W/x" , W/"17", "W/"`); got.status != 200 {
		t.Errorf("%+v", got)
	}
}

// TestCompressManyAtOnce: reused encoders, even after responses that broke off, never mix up responses.
func TestCompressManyAtOnce(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Use(web.Compress(web.CompressOptions{}))
		a.Get("/{n}", func(c *web.Context) error {
			n, _ := strconv.Atoi(c.Request.PathValue("n"))
			c.Header().Set("Content-Type", "text/plain")
			for i := range n {
				fmt.Fprintf(c.Writer, "%d of %d\n", i, n)
				if n%7 == 3 && i == n/2 {
					panic(http.ErrAbortHandler)
				}
			}
			return nil
		})
	})
	s.srv.Client().Jar = nil
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 20 {
				n := (g*20 + i) * 9
				r, _ := http.NewRequestWithContext(t.Context(), "GET", s.srv.URL+"/"+strconv.Itoa(n), http.NoBody)
				r.Header.Set("Accept-Encoding", []string{"gzip", "zstd"}[i%2])
				resp, err := s.srv.Client().Do(r)
				if err != nil {
					if n%7 != 3 {
						t.Error(err)
					}
					continue
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if n%7 == 3 {
					if err == nil && n > 0 {
						t.Errorf("%d: a response that was cut off looks whole", n)
					}
					continue
				}
				var want bytes.Buffer
				for i := range n {
					fmt.Fprintf(&want, "%d of %d\n", i, n)
				}
				if err != nil || decoded(t, answer{resp.StatusCode, resp.Header, string(body)}) != want.String() {
					t.Errorf("%d: a wrong response, %v", n, err)
				}
			}
		})
	}
	wg.Wait()
}
