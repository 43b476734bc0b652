package client_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/resp/wire"
)

func cached(tb testing.TB, c *client.Client, key, want string) {
	tb.Helper()
	res, err := c.Cached(background, time.Minute, "GET", key)
	if got, e := res.Text(); err != nil || e != nil || got != want {
		tb.Errorf("GET %s is %q, %v, %v; want %q", key, got, err, e, want)
	}
}

func hits(c *client.Client) uint64 { return c.Stats().CacheHits }

// TestCached checks on both servers that responses are cached until the key changes.
func TestCached(t *testing.T) {
	for name, addr := range map[string]string{"skerry": startServer(t, skerry.Options{}), "redis": redisserver.InMemory(t)} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			c := open(t, client.Options{Addrs: []string{addr}, CacheBytes: 1 << 20})
			other := open(t, client.Options{Addrs: []string{addr}})
			set := func(val string) {
				if _, err := other.Do(background, "SET", "k", val); err != nil {
					t.Fatal(err)
				}
			}
			set("1")
			cached(t, c, "k", "1")
			cached(t, c, "k", "1")
			if n := hits(c); n != 1 {
				t.Errorf("%d hits, want 1", n)
			}
			set("2")
			eventually.True(t, "the old reply is dropped", func() bool {
				res, err := c.Cached(background, time.Minute, "GET", "k")
				got, _ := res.Text()
				return err == nil && got == "2"
			})
			if _, err := other.Do(background, "FLUSHALL"); err != nil {
				t.Fatal(err)
			}
			eventually.True(t, "the cache is empty", func() bool {
				res, err := c.Cached(background, time.Minute, "GET", "k")
				return err == nil && res.IsNull()
			})
			if _, err := c.Cached(background, time.Minute, "INCR", "k"); !errors.Is(err, client.ErrInvalid) {
				t.Errorf("INCR: %v", err)
			}
			if _, err := c.Cached(background, time.Minute, "GET"); !errors.Is(err, client.ErrInvalid) {
				t.Errorf("GET of nothing: %v", err)
			}
		})
	}
}

// invalidate appends the push that a server sends when a key has changed.
func invalidate(w *wire.Writer, key string) {
	w.Push(2)
	w.BulkString("invalidate")
	if key == "" {
		w.Null()
		return
	}
	w.Array(1)
	w.BulkString(key)
}

// TestCacheInterleavings forces the orders of a reply and its invalidation.
func TestCacheInterleavings(t *testing.T) {
	noLeaks(t)
	var order atomic.Value
	order.Store("")
	var reads atomic.Int64
	f := startFake(t, func(w *wire.Writer, _ int, args [][]byte) bool {
		if string(args[0]) == "CLIENT" {
			if order.Load() == "refused" {
				w.Error("ERR no tracking here")
				return true
			}
			w.OK()
			if order.Load() == "between" {
				invalidate(w, "k")
			}
			return true
		}
		switch order.Load() {
		case "before":
			invalidate(w, "k")
		case "all before":
			invalidate(w, "")
		case "another":
			invalidate(w, "another")
		}
		w.BulkString(fmt.Sprint("v", reads.Add(1)))
		if order.Load() == "behind" {
			invalidate(w, "k")
		}
		return true
	})
	for _, what := range []struct {
		order string
		kept  bool
	}{{"", true}, {"another", true}, {"before", false}, {"between", false}, {"all before", false}, {"refused", false}, {"behind", false}} {
		c := open(t, client.Options{Addrs: []string{f.addr()}, CacheBytes: 1 << 20})
		order.Store(what.order)
		if _, err := c.Cached(background, time.Minute, "GET", "k"); err != nil {
			t.Fatal(err)
		}
		if err := c.Ping(background); err != nil { // so that pushes after the reply have been read
			t.Fatal(err)
		}
		before := reads.Load()
		if _, err := c.Cached(background, time.Minute, "GET", "k"); err != nil {
			t.Fatal(err)
		}
		if kept := reads.Load() == before; kept != what.kept {
			t.Errorf("%q: the reply was cached: %v, want %v", what.order, kept, what.kept)
		}
	}
	// A lost connection empties the cache.
	order.Store("")
	c := open(t, client.Options{Addrs: []string{f.addr()}, CacheBytes: 1 << 20})
	cached(t, c, "k", fmt.Sprint("v", reads.Load()+1))
	f.cut()
	eventually.True(t, "the cache is empty", func() bool { return c.Stats().CacheBytes == 0 })
	cached(t, c, "k", fmt.Sprint("v", reads.Load()+1))
}

// TestCacheBound checks that no more than CacheBytes are cached, that the least recently
// used responses are evicted first, that large ones are not cached, and that expired ones
// are read again.
func TestCacheBound(t *testing.T) {
	var reads atomic.Int64
	f := startFake(t, func(w *wire.Writer, _ int, args [][]byte) bool {
		if string(args[0]) == "CLIENT" {
			w.OK()
			return true
		}
		reads.Add(1)
		if string(args[1]) == "large" {
			w.Bulk(make([]byte, 4096))
			return true
		}
		w.Bulk(make([]byte, 512))
		return true
	})
	const bound = 16 << 10
	c := open(t, client.Options{Addrs: []string{f.addr()}, CacheBytes: bound})
	get := func(key string, ttl time.Duration) bool {
		before := reads.Load()
		if _, err := c.Cached(background, ttl, "GET", key); err != nil {
			t.Fatal(err)
		}
		return reads.Load() == before
	}
	get("often", time.Minute)
	for i := range 1000 {
		get(fmt.Sprint("k", i), time.Minute)
		if !get("often", time.Minute) {
			t.Fatalf("the most used reply was evicted after %d others", i)
		}
		if n := c.Stats().CacheBytes; n > bound {
			t.Fatalf("%d bytes are cached", n)
		}
	}
	if get("k1", time.Minute) || !get("k999", time.Minute) {
		t.Error("the oldest reply is cached, or the newest is not")
	}
	if get("large", time.Minute); get("large", time.Minute) {
		t.Error("a reply over an eighth of the bound was cached")
	}
	if get("short", time.Nanosecond); get("short", time.Nanosecond) {
		t.Error("a reply was cached beyond its time to live")
	}
}

// TestCacheNeverStaysStale runs writers, readers and connections that break. When all is
// quiet, every reader sees the last value.
func TestCacheNeverStaysStale(t *testing.T) {
	noLeaks(t)
	s := seed.Of(t)
	addr := startServer(t, skerry.Options{})
	ch := &chaos{rng: rand.New(rand.NewPCG(s, 2))}
	c := open(t, client.Options{Addrs: []string{addr}, CacheBytes: 1 << 16, Dial: ch.dial, MaxBackoff: 20 * time.Millisecond})
	w := open(t, client.Options{Addrs: []string{addr}})
	const keys = 20
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := c.Cached(background, time.Minute, "GET", fmt.Sprint("k", ch.draw(keys))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 2000 {
		if _, err := w.Do(background, "SET", fmt.Sprint("k", i%keys), i); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	all.Wait()
	ch.off.Store(true)
	for k := range keys {
		key, want := fmt.Sprint("k", k), fmt.Sprint(2000-keys+k)
		eventually.True(t, key+" is "+want, func() bool {
			res, err := c.Cached(background, time.Minute, "GET", key)
			got, _ := res.Text()
			return err == nil && got == want
		})
	}
	st := c.Stats()
	t.Logf("%d hits, %d misses, %d cuts", st.CacheHits, st.CacheMisses, ch.cuts.Load())
	if st.CacheHits == 0 || ch.cuts.Load() == 0 {
		t.Error("too few hits or cuts for the test to mean anything")
	}
}
