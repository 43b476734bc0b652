package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/engine"
)

// inBubble runs fn in a bubble with a cache without a feed.
func inBubble(t *testing.T, o cache.Options, fn func(t *testing.T, c *cache.Cache)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if o.TTL == 0 {
			o.TTL = time.Hour
		}
		c, err := cache.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fn(t, c)
	})
}

// TestBadSource: whatever a source does, its readers get an error with a code, and the next load works.
func TestBadSource(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		load func(ctx context.Context, keys []string) ([]cache.Entry, error)
		code engine.Code
	}{
		"error":              {func(context.Context, []string) ([]cache.Entry, error) { return nil, broken }, engine.CodeInternal},
		"unavailable":        {func(context.Context, []string) ([]cache.Entry, error) { return nil, engine.ErrUnavailable }, engine.CodeUnavailable},
		"panic":              {func(context.Context, []string) ([]cache.Entry, error) { panic("x") }, engine.CodeInternal},
		"Goexit":             {func(context.Context, []string) ([]cache.Entry, error) { runtime.Goexit(); return nil, nil }, engine.CodeInternal},
		"nothing":            {func(context.Context, []string) ([]cache.Entry, error) { return nil, nil }, engine.CodeInternal},
		"hangs":              {func(ctx context.Context, _ []string) ([]cache.Entry, error) { <-ctx.Done(); return nil, ctx.Err() }, engine.CodeUnavailable},
		"100 MB":             {one(cache.Entry{Body: make([]byte, 100<<20)}), engine.CodeValueTooLarge},
		"100 MB in variants": {one(cache.Entry{Variants: []cache.Variant{{Encoding: "gzip", Body: make([]byte, 100<<20)}}}), engine.CodeValueTooLarge},
		"long type":          {one(cache.Entry{Type: long}), engine.CodeInternal},
		"two lines of type":  {one(cache.Entry{Type: "a\r\nb"}), engine.CodeInternal},
		"long tag":           {one(cache.Entry{ETag: long}), engine.CodeInternal},
		"quoted tag":         {one(cache.Entry{ETag: `"a"`}), engine.CodeInternal},
		"variants":           {one(cache.Entry{Variants: make([]cache.Variant, 9)}), engine.CodeInternal},
		"nameless variant":   {one(cache.Entry{Variants: make([]cache.Variant, 1)}), engine.CodeInternal},
		"negative TTL":       {one(cache.Entry{TTL: -1}), engine.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mended atomic.Bool
			inBubble(t, cache.Options{Source: cache.Batch(func(ctx context.Context, keys []string) ([]cache.Entry, error) {
				if !mended.Load() {
					return c.load(ctx, keys)
				}
				return []cache.Entry{{Body: []byte("good")}}, nil
			})}, func(t *testing.T, kept *cache.Cache) {
				if _, err := kept.Get(t.Context(), "k", cache.Read{}); engine.CodeOf(err) != c.code {
					t.Fatalf("Get returned %v, want code %s", err, c.code)
				}
				mended.Store(true)
				if e, err := kept.Get(t.Context(), "k", cache.Read{}); err != nil || string(e.Body) != "good" {
					t.Fatalf("the next Get returned %q, %v", e.Body, err)
				}
				if n := kept.Stats().Failed; n != 1 {
					t.Errorf("%d failed keys are counted, want 1", n)
				}
			})
		})
	}
}

func one(e cache.Entry) func(context.Context, []string) ([]cache.Entry, error) {
	return func(context.Context, []string) ([]cache.Entry, error) { return []cache.Entry{e}, nil }
}

// TestTimes: entries end with their TTL, missing ones with theirs, and a read near the end loads ahead.
func TestTimes(t *testing.T) {
	t.Parallel()
	loads := 0
	source := cache.Func(func(_ context.Context, key string) (cache.Entry, error) {
		loads++
		switch key {
		case "missing":
			return cache.Entry{}, engine.ErrNotFound
		case "short":
			return cache.Entry{Body: fmt.Append(nil, loads), TTL: 10 * time.Second}, nil
		}
		return cache.Entry{Body: fmt.Append(nil, loads)}, nil
	})
	inBubble(t, cache.Options{Source: source, TTL: time.Minute, MissingTTL: 20 * time.Second, RefreshAhead: 5 * time.Second}, func(t *testing.T, c *cache.Cache) {
		get := func(key string) string {
			e, err := c.Get(t.Context(), key, cache.Read{})
			synctest.Wait()
			return string(e.Body) + string(engine.CodeOf(err))
		}
		for i, step := range []struct {
			after time.Duration
			key   string
			want  string
		}{
			{0, "long", "1"}, {0, "short", "2"}, {0, "missing", "not_found"}, // loads 1, 2, 3
			{4 * time.Second, "short", "2"},           // at 4 s
			{2 * time.Second, "short", "2"},           // at 6 s: near its end, loads 4
			{0, "short", "4"},                         // the new one
			{8 * time.Second, "missing", "not_found"}, // at 14 s
			{6 * time.Second, "missing", "not_found"}, // at 20 s: its time is over, loads 5
			{35 * time.Second, "long", "1"},           // at 55 s: loads 6 ahead
			{0, "long", "6"},
			{time.Hour, "long", "7"},
		} {
			time.Sleep(step.after)
			if got := get(step.key); got != step.want {
				t.Fatalf("step %d: %s is %q, want %q", i, step.key, got, step.want)
			}
		}
		s := c.Stats()
		if s.Loaded != 7 || s.Refreshes != 2 || s.MissingHits != 1 {
			t.Errorf("counted %d loads, %d refreshes, %d hits of missing keys; want 7, 2, 1", s.Loaded, s.Refreshes, s.MissingHits)
		}
	})
}

// TestGather: keys that wait gather into calls of at most Gather keys, and one bad key fails alone.
func TestGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		var calls []int
		c, err := cache.New(cache.Options{TTL: time.Hour, Loads: 1, Gather: 4, Source: cache.Batch(func(_ context.Context, keys []string) ([]cache.Entry, error) {
			if calls = append(calls, len(keys)); len(calls) == 1 {
				<-first
			}
			entries := make([]cache.Entry, len(keys))
			for i, key := range keys {
				if key == "bad" {
					return nil, errors.New("bad key")
				}
				entries[i] = cache.Entry{Body: []byte(key)}
			}
			return entries, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		results := make(chan string, 10)
		get := func(key string) {
			e, err := c.Get(t.Context(), key, cache.Read{})
			if string(e.Body) != key && (key != "bad" || err == nil) {
				results <- fmt.Sprintf("%s is %q, %v", key, e.Body, err)
				return
			}
			results <- ""
		}
		for _, key := range []string{"a", "b", "c", "d", "bad", "e", "f"} {
			go get(key)
			synctest.Wait()
		}
		close(first)
		for range 7 {
			if bad := <-results; bad != "" {
				t.Error(bad)
			}
		}
		if got := fmt.Sprint(calls); got != "[1 4 1 1 1 1 2]" {
			t.Errorf("the source was called for %s keys", got)
		}
		c.Close()
	})
}

// TestMissingFlood: keys that do not exist take places in the tiers and in the queue like any others, and no more.
func TestMissingFlood(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int64
	inBubble(t, cache.Options{MemoryBytes: 1 << 20, Loads: 4, Queued: 50, Source: cache.Func(func(context.Context, string) (cache.Entry, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		time.Sleep(time.Millisecond)
		return cache.Entry{}, engine.ErrNotFound
	})}, func(t *testing.T, c *cache.Cache) {
		const readers, each = 100, 200
		codes := make(chan engine.Code, readers*each)
		for r := range readers {
			go func() {
				for i := range each {
					_, err := c.Get(t.Context(), fmt.Sprintf("missing-%d-%d", r, i), cache.Read{})
					codes <- engine.CodeOf(err)
				}
			}()
		}
		count := map[engine.Code]int{}
		for range readers * each {
			count[<-codes]++
		}
		if count[engine.CodeNotFound]+count[engine.CodeQueueFull] != readers*each || count[engine.CodeNotFound] == 0 || count[engine.CodeQueueFull] == 0 {
			t.Errorf("the readers got %v", count)
		}
		if n := most.Load(); n > 4 {
			t.Errorf("%d loads ran at once; the limit is 4", n)
		}
		if s := c.Stats(); s.Memory.Bytes > 1<<20 {
			t.Errorf("the memory tier has %d bytes", s.Memory.Bytes)
		}
	})
}

// TestBadOptions: an option that makes no sense is refused by name.
func TestBadOptions(t *testing.T) {
	t.Parallel()
	source := cache.Batch(one(cache.Entry{}))
	for want, o := range map[string]cache.Options{
		"Source is missing": {TTL: 1},
		"TTL is required":   {Source: source},
		"name":              {Source: source, TTL: 1, Name: "No"},
		"negative duration": {Source: source, TTL: -1},
		"negative":          {Source: source, TTL: 1, Loads: -1},
		"over its limit":    {Source: source, TTL: 1, Gather: 1001},
		"both Dir and":      {Source: source, TTL: 1, Dir: t.TempDir()},
		"below the least":   {Source: source, TTL: 1, Staleness: 1},
	} {
		if c, err := cache.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New returned %v, %v; want an error with %q", c, err, want)
		}
	}
	c, err := cache.New(cache.Options{Source: source, TTL: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), "", cache.Read{}); engine.CodeOf(err) != engine.CodeKeyEmpty {
		t.Errorf("an empty key: %v", err)
	}
	if _, err := c.Get(t.Context(), strings.Repeat("k", cache.MaxKey+1), cache.Read{}); engine.CodeOf(err) != engine.CodeKeyTooLarge {
		t.Errorf("a long key: %v", err)
	}
	c.Close()
	if _, ok := c.Peek(nil, "k", cache.Read{}); ok {
		t.Error("a closed cache answers from memory")
	}
	if _, err := c.Get(t.Context(), "k", cache.Read{}); engine.CodeOf(err) != engine.CodeClosed {
		t.Errorf("a closed cache: %v", err)
	}
	if err := c.Run(t.Context()); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("Run after Close: %v", err)
	}
}

// TestVariants: an entry comes back from memory as the source returned it.
func TestVariants(t *testing.T) {
	t.Parallel()
	want := cache.Entry{Body: []byte("body"), Type: "text/plain", ETag: "tag", Private: true, Variants: []cache.Variant{{"gzip", []byte("g")}, {"zstd", nil}, {"br", []byte("bbb")}}}
	c, err := cache.New(cache.Options{TTL: time.Hour, Source: cache.Batch(one(want))})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 { // from the source, from memory
		e, err := c.Get(t.Context(), "k", cache.Read{})
		if err != nil || fmt.Sprint(e) != fmt.Sprint(want) {
			t.Fatalf("Get returned %v, %v", e, err)
		}
	}
	v, ok := c.Peek([]byte("before"), "k", cache.Read{})
	if !ok || string(v.Body) != "body" || string(v.Type) != "text/plain" || string(v.ETag) != "tag" || !v.Private || v.Missing {
		t.Fatalf("Peek returned %+v, %v", v, ok)
	}
	if string(v.Variant("br")) != "bbb" || string(v.Variant("gzip")) != "g" || len(v.Variant("zstd")) != 0 || v.Variant("deflate") != nil {
		t.Error("Peek returned other variants")
	}
	if !bytes.HasPrefix(v.Raw(), []byte("before")) {
		t.Error("Peek did not append")
	}
}
