package skerry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
)

// notesCache is an application that serves notes from a cache: /notes/{id}, and /own/{id} for readers who must see their
// own writes.
func notesCache(t *testing.T, fill func(*cache.Options)) skerry.Options {
	return skerry.Options{HTTP: "127.0.0.1:0", RESP: skerry.Off, Admin: "127.0.0.1:0", Web: skerry.Web{Application: func(s *skerry.Services) (http.Handler, error) {
		if err := s.Records.Define(schema.Collection{Name: "notes", Fields: []schema.Field{{Name: "text", Type: schema.Text}}}); err != nil {
			return nil, err
		}
		o, err := s.RecordEntries("notes")
		if err != nil {
			return nil, err
		}
		o.Wait, o.LoadTimeout = time.Minute, time.Minute // a slow machine is no reason to fail
		if fill != nil {
			fill(&o)
		}
		notes, err := s.Cache(o)
		if err != nil {
			return nil, err
		}
		if _, err := s.Cache(o); engine.CodeOf(err) != engine.CodeInvalid {
			t.Errorf("two caches of one name: %v", err)
		}
		app, err := web.New(s.Web)
		if err != nil {
			return nil, err
		}
		app.Cached("/notes/{id}", notes, web.CachedOptions{})
		app.Cached("/own/{id}", notes, web.CachedOptions{AtLeast: s.Newest})
		return app, nil
	}}}
}

// TestCache: records are read through a cache, which follows their changes, and operators see and empty it.
func TestCache(t *testing.T) {
	t.Parallel()
	s, _, _ := start(t, openEngine(t), notesCache(t, func(o *cache.Options) { o.Staleness = time.Minute }))
	stats := func() (n cache.Stats) {
		code, text := request(t, "GET", s.AdminURL()+"/caches", nil)
		var all skerry.CacheStats
		if err := json.Unmarshal([]byte(text), &all); code != http.StatusOK || err != nil || len(all.Caches) != 1 || all.Caches[0].Name != "notes" {
			t.Fatalf("GET /caches: %d %s", code, text)
		}
		return all.Caches[0]
	}
	eventually.True(t, "the cache is fresh", func() bool { return stats().Fresh })
	if code, text := request(t, "GET", s.HTTPURL()+"/own/n1", nil); code != http.StatusNotFound {
		t.Fatalf("a record that does not exist: %d %s", code, text)
	}
	write := func(method, path, body string) {
		t.Helper()
		if code, text := request(t, method, s.AdminURL()+"/api/notes"+path, strings.NewReader(body)); code >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, code, text)
		}
	}
	write("POST", "", `{"id":"n1","data":{"text":"zero"}}`)
	for i := range 20 {
		want := fmt.Sprintf("text %d", i)
		write("PATCH", "/n1", `{"data":{"text":"`+want+`"}}`)
		if code, text := request(t, "GET", s.HTTPURL()+"/own/n1", nil); code != http.StatusOK || !strings.Contains(text, want) {
			t.Fatalf("after writing %q: %d %s", want, code, text)
		}
	}
	before := stats()
	if code, text := request(t, "GET", s.HTTPURL()+"/notes/n1", nil); code != http.StatusOK || !strings.Contains(text, "text 19") {
		t.Fatalf("from memory: %d %s", code, text)
	}
	after := stats()
	if after.MemoryHits != before.MemoryHits+1 || after.Invalidations < 20 || after.Memory.Entries != 1 {
		t.Errorf("metrics: %+v, then %+v", before, after)
	}
	if code, text := request(t, "POST", s.AdminURL()+"/caches/notes", nil); code != http.StatusOK || stats().Memory.Entries != 0 {
		t.Errorf("flush: %d %s, %+v", code, text, stats())
	}
	if code, _ := request(t, "POST", s.AdminURL()+"/caches/other", nil); code != http.StatusNotFound {
		t.Errorf("flush of another cache: %d", code)
	}
	if code, _ := request(t, "GET", s.HTTPURL()+"/caches", nil); code != http.StatusNotFound {
		t.Errorf("the application's address has /caches: %d", code)
	}
	if code, text := request(t, "GET", s.AdminURL()+"/metrics", nil); code != http.StatusOK || !strings.Contains(text, `cache_hits_total{cache="notes",tier="memory"}`) {
		t.Errorf("metrics: %d %.200s", code, text)
	}
	write("DELETE", "/n1", "")
	if code, text := request(t, "GET", s.HTTPURL()+"/own/n1", nil); code != http.StatusNotFound {
		t.Errorf("a deleted record: %d %s", code, text)
	}
}

// TestCacheOfAnotherCollection: changes of other collections leave a cache alone.
func TestCacheOfAnotherCollection(t *testing.T) {
	t.Parallel()
	eng := openEngine(t)
	var services *skerry.Services
	o := notesCache(t, func(o *cache.Options) { o.Staleness = time.Minute })
	build := o.Web.Application
	o.Web.Application = func(s *skerry.Services) (http.Handler, error) {
		services = s
		if err := s.Records.Define(schema.Collection{Name: "others", Fields: []schema.Field{{Name: "text", Type: schema.Text}}}); err != nil {
			return nil, err
		}
		return build(s)
	}
	s, _, _ := start(t, eng, o)
	create := func(collection, id string) {
		t.Helper()
		_, err := services.Records.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
			_, err := tx.Create(collection, id, []byte(`{"text":"x"}`))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	create("notes", "n1")
	for range 2 {
		if code, _ := request(t, "GET", s.HTTPURL()+"/own/n1", nil); code != http.StatusOK {
			t.Fatal(code)
		}
	}
	read := func() string {
		_, text := request(t, "GET", s.AdminURL()+"/caches", nil)
		_, loaded, _ := strings.Cut(text, `"loaded":`)
		loaded, _, _ = strings.Cut(loaded, ",")
		return loaded
	}
	eventually.True(t, "the cache keeps the record", func() bool {
		before := read()
		request(t, "GET", s.HTTPURL()+"/own/n1", nil)
		return read() == before
	})
	before := read()
	create("others", "o1")
	if request(t, "GET", s.HTTPURL()+"/own/n1", nil); read() != before {
		t.Error("a record of another collection changed, and the note was loaded again")
	}
}

// TestCacheEnds: a server that never runs closes its caches, and has a limit of them.
func TestCacheEnds(t *testing.T) {
	t.Parallel()
	var kept *cache.Cache
	o := skerry.Options{HTTP: "127.0.0.1:0", RESP: skerry.Off, Admin: skerry.Off, Web: skerry.Web{Application: func(s *skerry.Services) (_ http.Handler, err error) {
		kept, err = s.Cache(cache.Options{TTL: time.Hour, Source: cache.Func(func(context.Context, string) (cache.Entry, error) { return cache.Entry{}, nil })})
		return http.NotFoundHandler(), errors.Join(err, fillCaches(t, s))
	}}}
	s, err := skerry.Open(openEngine(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Get(t.Context(), "k", cache.Read{}); err != nil {
		t.Errorf("before the server runs: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := kept.Get(t.Context(), "k", cache.Read{}); engine.CodeOf(err) != engine.CodeClosed {
		t.Errorf("after Close: %v", err)
	}
}

// fillCaches opens as many caches as a server may have, and expects one more to be refused.
func fillCaches(t *testing.T, s *skerry.Services) error {
	o := cache.Options{TTL: time.Hour, MemoryBytes: 64 << 10, Source: cache.Func(func(context.Context, string) (cache.Entry, error) { return cache.Entry{}, nil })}
	for i := range skerry.MaxCaches - 1 {
		o.Name = fmt.Sprintf("cache-%d", i)
		if _, err := s.Cache(o); err != nil {
			return err
		}
	}
	o.Name = "more"
	if _, err := s.Cache(o); engine.CodeOf(err) != engine.CodeLimit {
		t.Errorf("one cache more than the limit: %v", err)
	}
	return nil
}

// TestCacheWithoutFeed: on an engine without a change feed, a cache of records is refused by name.
func TestCacheWithoutFeed(t *testing.T) {
	t.Parallel()
	eng := enginetest.WithinSteady(openEngine(t), engine.OnePartition)
	var refused error
	s, err := skerry.Open(eng, skerry.Options{HTTP: "127.0.0.1:0", RESP: skerry.Off, Admin: skerry.Off, Web: skerry.Web{Application: func(s *skerry.Services) (http.Handler, error) {
		_, refused = s.RecordEntries("notes")
		if _, err := s.Newest(nil); engine.CodeOf(err) != engine.CodeUnsupported {
			t.Errorf("Newest: %v", err)
		}
		return http.NotFoundHandler(), nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if engine.CodeOf(refused) != engine.CodeUnsupported {
		t.Errorf("RecordEntries: %v", refused)
	}
}

// TestCacheInLane: entries of a cache are served without net/http to clients that send simple requests, and the response
// is the same.
func TestCacheInLane(t *testing.T) {
	t.Parallel()
	bodies := map[bool]string{}
	for _, off := range []bool{false, true} {
		o := notesCache(t, func(o *cache.Options) { o.Staleness = time.Minute })
		o.NoLane = off
		s, _, _ := start(t, openEngine(t), o)
		if code, text := request(t, "POST", s.AdminURL()+"/api/notes", strings.NewReader(`{"id":"n1","data":{"text":"fish"}}`)); code >= 300 {
			t.Fatalf("%d %s", code, text)
		}
		kept := &http.Client{Transport: &http.Transport{}} // request does not keep connections
		for range 3 {
			res, err := kept.Get(s.HTTPURL() + "/own/n1")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if text := string(body); err != nil || res.StatusCode != http.StatusOK || !strings.Contains(text, "fish") {
				t.Fatalf("%d %s (%v)", res.StatusCode, text, err)
			}
			bodies[off] = string(body[strings.Index(string(body), `"data"`):])
		}
		kept.CloseIdleConnections()
		if code, _ := request(t, "GET", s.HTTPURL()+"/own/n1/more", nil); code != http.StatusNotFound {
			t.Errorf("a longer path: %d", code)
		}
		_, metrics := request(t, "GET", s.AdminURL()+"/metrics", nil)
		if in := strings.Contains(metrics, `http_lane_requests_total{listener="http"} 3`); in == off {
			t.Errorf("with NoLane %v, the metrics say that requests were in the lane: %v", off, in)
		}
	}
	if bodies[false] != bodies[true] {
		t.Errorf("in the lane %s, otherwise %s", bodies[false], bodies[true])
	}
}
