package web_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

var cachedText = []byte(strings.Repeat("departments have employees. ", 100))

// cachedSource has a few keys.
func cachedSource(_ context.Context, key string) (cache.Entry, error) {
	switch key {
	case "text":
		return web.Precompress(cache.Entry{Body: cachedText, Type: "text/plain", ETag: "v1"}), nil
	case "plain":
		return cache.Entry{Body: cachedText, Type: "text/plain", ETag: "v2"}, nil
	case "empty":
		return cache.Entry{Type: "text/plain", ETag: "v3"}, nil
	case "private":
		return cache.Entry{Body: []byte("yours"), Private: true}, nil
	case "broken":
		return cache.Entry{}, errors.New("host=10.0.0.1 password=secret")
	case "busy":
		return cache.Entry{}, engine.Errorf(engine.CodeUnavailable, "the source is down")
	}
	return cache.Entry{}, engine.ErrNotFound
}

func newCache(tb testing.TB) *cache.Cache {
	tb.Helper()
	c, err := cache.New(cache.Options{Source: cache.Func(cachedSource), TTL: time.Hour})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// askCached sends a request to an application, with headers as pairs.
func askCached(app *web.App, method, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	return w.Result()
}

// TestCached is a table of requests, each sent twice: the entry comes from the source first, and then from memory.
func TestCached(t *testing.T) {
	t.Parallel()
	app := newApp(t, web.Options{})
	app.Cached("/d/{id}", newCache(t), web.CachedOptions{})
	app.Cached("/aged/{id}", newCache(t), web.CachedOptions{MaxAge: time.Minute})
	whole := string(cachedText)
	size := fmt.Sprint(len(whole))
	for _, c := range []struct {
		name, method, path string
		headers            []string
		status             int
		body               string
		want               []string // headers; "" is absent
	}{
		{"whole", "GET", "/d/plain", nil, 200, whole, []string{"ETag", `"v2"`, "Content-Type", "text/plain", "Content-Length", size, "Cache-Control", "no-cache", "Accept-Ranges", "bytes", "Vary", ""}},
		{"age", "GET", "/aged/plain", nil, 200, whole, []string{"Cache-Control", "max-age=60"}},
		{"head", "HEAD", "/d/plain", nil, 200, "", []string{"ETag", `"v2"`, "Content-Length", size}},
		{"empty", "GET", "/d/empty", nil, 200, "", nil},
		{"same", "GET", "/d/plain", []string{"If-None-Match", `"v2"`}, 304, "", []string{"ETag", `"v2"`, "Content-Type", ""}},
		{"same of head", "HEAD", "/d/plain", []string{"If-None-Match", `"x", W/"v2"`}, 304, "", nil},
		{"changed", "GET", "/d/plain", []string{"If-None-Match", `"v1"`}, 200, whole, nil},
		{"required", "GET", "/d/plain", []string{"If-Match", `"v1"`}, 412, "", nil},
		{"range", "GET", "/d/plain", []string{"Range", "bytes=5-9"}, 206, whole[5:10], []string{"Content-Range", "bytes 5-9/" + size}},
		{"end", "GET", "/d/plain", []string{"Range", "bytes=-3"}, 206, whole[len(whole)-3:], nil},
		{"no such range", "GET", "/d/plain", []string{"Range", "bytes=99999-"}, 416, "invalid range: failed to overlap\n", []string{"Content-Range", "bytes */" + size}},
		{"range of it", "GET", "/d/plain", []string{"Range", "bytes=0-0", "If-Range", `"v2"`}, 206, whole[:1], nil},
		{"range of another", "GET", "/d/plain", []string{"Range", "bytes=0-0", "If-Range", `"v1"`}, 200, whole, nil},
		{"range of text", "GET", "/d/text", []string{"Range", "bytes=0-3", "Accept-Encoding", "gzip"}, 206, whole[:4], []string{"Content-Encoding", "", "Vary", "Accept-Encoding"}},
		{"identity", "GET", "/d/text", nil, 200, whole, []string{"ETag", `"v1"`, "Content-Encoding", "", "Vary", "Accept-Encoding"}},
		{"gzip", "GET", "/d/text", []string{"Accept-Encoding", "gzip, deflate"}, 200, whole, []string{"ETag", `"v1-gzip"`, "Content-Encoding", "gzip", "Vary", "Accept-Encoding"}},
		{"zstd", "GET", "/d/text", []string{"Accept-Encoding", "gzip, zstd"}, 200, whole, []string{"ETag", `"v1-zstd"`, "Content-Encoding", "zstd"}},
		{"gzip before zstd", "GET", "/d/text", []string{"Accept-Encoding", "gzip, zstd;q=0.5"}, 200, whole, []string{"Content-Encoding", "gzip"}},
		{"same of gzip", "GET", "/d/text", []string{"Accept-Encoding", "gzip", "If-None-Match", `"v1-gzip"`}, 304, "", []string{"ETag", `"v1-gzip"`}},
		{"same of identity", "GET", "/d/text", []string{"Accept-Encoding", "gzip", "If-None-Match", `"v1"`}, 200, whole, []string{"ETag", `"v1-gzip"`}},
		{"private", "GET", "/d/private", nil, 200, "yours", []string{"Cache-Control", "no-cache, private", "Vary", "Cookie"}},
		{"missing", "GET", "/d/nothing", nil, 404, "there is nothing at this address", nil},
		{"long key", "GET", "/d/" + strings.Repeat("x", 2000), nil, 400, "", nil},
		{"other method", "POST", "/d/plain", nil, 405, "", nil},
		{"broken", "GET", "/d/broken", nil, 500, "", nil},
		{"busy", "GET", "/d/busy", nil, 503, "the source is down", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for range 2 {
				res := askCached(app, c.method, c.path, append(c.headers, "Accept", "application/json")...)
				body := unpacked(t, res)
				if res.StatusCode != c.status || c.status < 400 && body != c.body || !strings.Contains(body, c.body) {
					t.Fatalf("%d with %.100q, want %d with %.100q", res.StatusCode, body, c.status, c.body)
				}
				if strings.Contains(body, "secret") {
					t.Errorf("the response tells what the source said: %s", body)
				}
				for i := 0; i < len(c.want); i += 2 {
					if got := res.Header.Get(c.want[i]); got != c.want[i+1] {
						t.Errorf("%s is %q, want %q", c.want[i], got, c.want[i+1])
					}
				}
			}
		})
	}
}

func unpacked(t *testing.T, res *http.Response) string {
	t.Helper()
	var body io.Reader = res.Body
	var err error
	switch res.Header.Get("Content-Encoding") {
	case "gzip":
		body, err = gzip.NewReader(body)
	case "zstd":
		body, err = zstd.NewReader(body)
	}
	if res.StatusCode == http.StatusNotModified || err == io.EOF {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCachedOfSession: a key that depends on the session makes the response private.
func TestCachedOfSession(t *testing.T) {
	t.Parallel()
	app := newApp(t, web.Options{Sessions: newSessions(t)})
	app.Cached("/mine", newCache(t), web.CachedOptions{MaxAge: time.Minute, Key: func(c *web.Context) (string, error) {
		if c.Session().User() != "" {
			return "private", nil
		}
		return "plain", nil
	}})
	res := askCached(app, "GET", "/mine")
	if got := res.Header.Get("Cache-Control"); res.StatusCode != 200 || got != "max-age=60, private" || res.Header.Get("Vary") != "Cookie" {
		t.Errorf("status %d, Cache-Control %q, Vary %q", res.StatusCode, got, res.Header.Get("Vary"))
	}
}

// TestCachedPatterns: a pattern without exactly one wildcard needs a key.
func TestCachedPatterns(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/d", "/d/{$}", "/d/{a}/{b}"} {
		expectPanic(t, path, func() { newApp(t, web.Options{}).Cached(path, newCache(t), web.CachedOptions{}) })
	}
	app := newApp(t, web.Options{})
	app.Group("/g/{id}").Cached("/x", newCache(t), web.CachedOptions{})
	app.Cached("/rest/{key...}", newCache(t), web.CachedOptions{})
	for _, path := range []string{"/g/plain/x", "/rest/plain"} {
		if res := askCached(app, "GET", path); res.StatusCode != 200 {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
}

// TestCachedOwnWrite: AtLeast is passed to the cache, and its errors are the response.
func TestCachedOwnWrite(t *testing.T) {
	t.Parallel()
	app := newApp(t, web.Options{})
	var asked []cache.Position
	c, err := cache.New(cache.Options{TTL: time.Hour, Source: cache.Func(func(ctx context.Context, key string) (cache.Entry, error) {
		asked = append(asked, cache.AtLeast(ctx))
		return cache.Entry{Body: []byte(key)}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	app.Cached("/d/{id}", c, web.CachedOptions{AtLeast: func(c *web.Context) (cache.Position, error) {
		if c.Request.URL.RawQuery == "bad" {
			return 0, engine.Errorf(engine.CodeInvalid, "the position is malformed")
		}
		return 7, nil
	}})
	if res := askCached(app, "GET", "/d/k"); res.StatusCode != 200 || len(asked) != 1 || asked[0] != 7 {
		t.Errorf("status %d, the source was asked for positions %d", res.StatusCode, asked)
	}
	if res := askCached(app, "GET", "/d/k?bad"); res.StatusCode != 400 {
		t.Errorf("a bad position: status %d", res.StatusCode)
	}
}

// TestPrecompress: variants are there where they help, and are the body.
func TestPrecompress(t *testing.T) {
	t.Parallel()
	if e := web.Precompress(cache.Entry{Body: []byte("short")}); len(e.Variants) != 0 {
		t.Error("a short body was compressed")
	}
	if e := web.Precompress(cache.Entry{Missing: true}); len(e.Variants) != 0 {
		t.Error("a missing entry was compressed")
	}
	e := web.Precompress(cache.Entry{Body: cachedText})
	if len(e.Variants) != 2 || !bytes.Equal(e.Body, cachedText) {
		t.Fatalf("%d variants", len(e.Variants))
	}
	for _, v := range e.Variants {
		if len(v.Body) > len(e.Body)/2 {
			t.Errorf("%s has %d bytes", v.Encoding, len(v.Body))
		}
	}
}

// TestLaneRoutes: only cached routes whose key is the last segment are answered without a handler.
func TestLaneRoutes(t *testing.T) {
	t.Parallel()
	app := newApp(t, web.Options{})
	if got := app.LaneRoutes(); len(got) != 1 || got[0].Fast != nil {
		t.Errorf("an application without cached routes has %v", got)
	}
	key := func(*web.Context) (string, error) { return "plain", nil }
	app.Group("/g").Cached("/d/{id}", newCache(t), web.CachedOptions{})
	for _, path := range []string{"/one", "/{a}/b", "/rest/{a...}", "/x{$}", "/{a}/{b}"} {
		func() {
			defer func() { _ = recover() }() // patterns that are malformed or conflict
			app.Cached(path, newCache(t), web.CachedOptions{Key: key})
		}()
	}
	if got := app.LaneRoutes(); len(got) != 2 || got[0].Path != "/g/d/" || !got[0].Segment || got[0].Methods != "GET" || got[0].Fast == nil {
		t.Errorf("%+v", got)
	}
}

// FuzzCached asks for entries with any header values: each response is the entry, a part of it, or says why it is not.
func FuzzCached(f *testing.F) {
	f.Add("text", "gzip, zstd;q=0.5", `"v1"`, "", "")
	f.Add("text", "*;q=0, identity", `W/"v1-zstd", "x"`, "bytes=0-10", `"v1"`)
	f.Add("plain", "", "*", "bytes=5-,-3", "Mon, 02 Jan 2006 15:04:05 GMT")
	f.Add("empty", ";,q=", `"`, "bytes=-0", `"v3"`)
	f.Add("none", "x-gzip;q=1.0000", "", "lines=1-2", "")
	app := newApp(f, web.Options{})
	app.Cached("/d/{id}", newCache(f), web.CachedOptions{})
	f.Fuzz(func(t *testing.T, key, accept, noneMatch, ranges, ifRange string) {
		r := httptest.NewRequest("GET", "/d/x", nil)
		r.URL.Path = "/d/" + key
		for name, value := range map[string]string{"Accept-Encoding": accept, "If-None-Match": noneMatch, "Range": ranges, "If-Range": ifRange} {
			if value != "" {
				r.Header[name] = []string{value}
			}
		}
		w := httptest.NewRecorder()
		app.ServeHTTP(w, r)
		res := w.Result()
		switch res.StatusCode {
		case http.StatusOK:
			if body := unpacked(t, res); key == "text" && body != string(cachedText) || key == "empty" && body != "" {
				t.Errorf("%q, Accept-Encoding %q: the body has %d bytes", key, accept, len(body))
			}
		case http.StatusPartialContent:
			if ranges == "" || res.Header.Get("Content-Encoding") != "" {
				t.Errorf("a part with Range %q, %v", ranges, res.Header)
			}
		case http.StatusNotModified:
			if noneMatch == "" || w.Body.Len() > 0 {
				t.Errorf("not modified with If-None-Match %q, %d bytes", noneMatch, w.Body.Len())
			}
		case http.StatusRequestedRangeNotSatisfiable, http.StatusNotFound, http.StatusMovedPermanently, http.StatusTemporaryRedirect:
		case http.StatusInternalServerError, http.StatusServiceUnavailable:
			if key != "broken" && key != "busy" {
				t.Errorf("%q: %d", key, res.StatusCode)
			}
		case http.StatusBadRequest: // a key that is too long
		default:
			t.Errorf("%q: %d", key, res.StatusCode)
		}
	})
}
