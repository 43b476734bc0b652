package web_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/web"
)

// handClock is a clock that is set by hand.
type handClock struct{ ns atomic.Int64 }

func (c *handClock) now() time.Time          { return time.Unix(1_800_000_000, c.ns.Load()) }
func (c *handClock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// proxied are the options of an application that trusts this machine as a proxy, so that tests can act as any
// client.
func proxied() web.Options {
	return web.Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func ok(c *web.Context) error { return c.NoContent() }

func TestRateLimit(t *testing.T) {
	var c handClock
	s := serve(t, proxied(), func(a *web.App) {
		limit := web.RateLimit(web.RateLimitOptions{Name: "login", Requests: 6, Per: time.Minute, Burst: 3, Now: c.now})
		a.Post("/login", ok, limit)
		a.Post("/other", ok, limit)
	})
	ask := func(path string, client ...string) answer {
		return s.do("POST", path, "", "X-Forwarded-For", strings.Join(append(client, "198.51.100.1")[:1], ""))
	}
	for i, left := range []string{"2", "1", "0"} {
		got := ask("/login")
		reset := strconv.Itoa(10 * (i + 1))
		for name, want := range map[string]string{
			"RateLimit-Limit": "3", "RateLimit-Remaining": left, "RateLimit-Reset": reset,
			"RateLimit-Policy": `"login";q=3;w=30`, "RateLimit": `"login";r=` + left + ";t=" + reset, "Retry-After": "",
		} {
			if got.status != 204 || got.header.Get(name) != want {
				t.Errorf("request %d: %d, %s %q, want %q", i, got.status, name, got.header.Get(name), want)
			}
		}
	}
	over := ask("/login")
	if over.status != 429 || over.header.Get("Retry-After") != "10" || over.header.Get("RateLimit-Remaining") != "0" || !strings.Contains(over.body, `"code":"rate_limited"`) || !strings.Contains(over.body, `"retryable":true`) {
		t.Errorf("over the limit: %+v", over)
	}
	if got := ask("/other"); got.status != 204 {
		t.Errorf("another route: %+v", got)
	}
	if got := ask("/login", "198.51.100.2"); got.status != 204 {
		t.Errorf("another client: %+v", got)
	}
	c.advance(9999 * time.Millisecond)
	if got := ask("/login"); got.status != 429 || got.header.Get("Retry-After") != "1" {
		t.Errorf("a moment too early: %+v", got)
	}
	c.advance(time.Millisecond)
	if got := ask("/login"); got.status != 204 || got.header.Get("RateLimit-Remaining") != "0" {
		t.Errorf("in time: %+v", got)
	}
	if got := ask("/login"); got.status != 429 {
		t.Errorf("one is earned in that time: %+v", got)
	}
	c.advance(time.Hour)
	for i := range 4 {
		if got := ask("/login"); (got.status == 204) != (i < 3) {
			t.Errorf("request %d after a pause: %d", i, got.status)
		}
	}
}

// TestRateLimitClients: which requests count as one client.
func TestRateLimitClients(t *testing.T) {
	for _, c := range []struct {
		a, b string
		one  bool
	}{
		{"2001:db8::1", "2001:db8::ffff:2", true}, {"2001:db8::1", "2001:db8:0:1::1", false},
		{"198.51.100.1", "::ffff:198.51.100.1", true}, {"198.51.100.1", "198.51.100.2", false},
		{"6.6.6.6, 198.51.100.1", "7.7.7.7, 198.51.100.1", true}, // what stands before is forged
		{"nonsense, 198.51.100.1", "198.51.100.1", true},
		{"6.6.6.6, nonsense", "7.7.7.7, nonsense", true}, // both are the proxy's
		{"fe80::1%eth0", "fe80::1%eth1", true},
	} {
		s := serve(t, proxied(), func(a *web.App) {
			a.Get("/", ok, web.RateLimit(web.RateLimitOptions{Requests: 1}))
		})
		first, second := s.do("GET", "/", "", "X-Forwarded-For", c.a), s.do("GET", "/", "", "X-Forwarded-For", c.b)
		if first.status != 204 || (second.status == 429) != c.one {
			t.Errorf("%s and %s: %d and %d", c.a, c.b, first.status, second.status)
		}
	}
	// Without a trusted proxy, clients' own headers are ignored.
	s := serve(t, web.Options{}, func(a *web.App) { a.Use(web.RateLimit(web.RateLimitOptions{Requests: 1})) })
	for i := range 3 {
		if got := s.do("GET", "/healthz", "", "X-Forwarded-For", fmt.Sprintf("1.2.3.%d", i)); (got.status == 200) != (i == 0) {
			t.Errorf("forged client %d: %d", i, got.status)
		}
	}
}

func TestRateLimitKeys(t *testing.T) {
	s := serve(t, proxied(), func(a *web.App) {
		who := func(next http.Handler) http.Handler {
			return web.Handler(func(c *web.Context) error {
				if id := c.Request.Header.Get("X-User"); id != "" {
					c.SetUser(web.User{ID: id})
				}
				next.ServeHTTP(c.Writer, c.Request)
				return nil
			})
		}
		a.Get("/user", ok, who, web.RateLimit(web.RateLimitOptions{Requests: 1, Key: web.RateByUser}))
		a.Get("/free", ok, web.RateLimit(web.RateLimitOptions{Requests: 1, Key: func(*web.Context) string { return "" }}))
		both := web.RateLimit(web.RateLimitOptions{Requests: 1, AllRoutes: true})
		a.Get("/g/a", ok, both)
		a.Get("/g/b", ok, both)
	})
	for _, c := range []struct {
		user, from string
		status     int
	}{{"anna", "1.1.1.1", 204}, {"anna", "1.1.1.2", 429}, {"bert", "1.1.1.1", 204}, {"", "1.1.1.1", 204}, {"", "1.1.1.1", 429}, {"1.1.1.9", "1.1.1.1", 204}, {"", "1.1.1.9", 204}} {
		if got := s.do("GET", "/user", "", "X-User", c.user, "X-Forwarded-For", c.from); got.status != c.status {
			t.Errorf("%+v: %d", c, got.status)
		}
	}
	for range 3 {
		if got := s.do("GET", "/free", ""); got.status != 204 || got.header.Get("RateLimit") != "" {
			t.Errorf("not limited: %+v", got)
		}
	}
	if a, b := s.do("GET", "/g/a", ""), s.do("GET", "/g/b", ""); a.status != 204 || b.status != 429 {
		t.Errorf("all routes together: %d, %d", a.status, b.status)
	}
}

// TestRateLimitAtOnce: of many concurrent requests exactly the limit succeed.
func TestRateLimitAtOnce(t *testing.T) {
	var c handClock
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Get("/", ok, web.RateLimit(web.RateLimitOptions{Requests: 50, Now: c.now}))
	})
	s.srv.Client().Jar = nil
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if s.do("GET", "/", "").status == 204 {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() != 50 {
		t.Errorf("%d of 160 passed, want 50", passed.Load())
	}
}

func TestRateLimitRefused(t *testing.T) {
	for _, o := range []web.RateLimitOptions{
		{Requests: -1}, {Per: -1}, {Burst: -1}, {MaxClients: -1}, {IPv6Bits: 129}, {Requests: 10, Per: 5},
		{Requests: 1, Per: 24 * time.Hour, Burst: 1 << 40}, {Name: "a\"b"}, {Name: "a\r\nb"},
	} {
		expectPanic(t, fmt.Sprintf("RateLimit(%+v)", o), func() { web.RateLimit(o) })
	}
}
