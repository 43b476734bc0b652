package web

import (
	"cmp"
	"hash/maphash"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// Defaults of RateLimitOptions.
const (
	// DefaultRateRequests is RateLimitOptions.Requests if that is 0.
	DefaultRateRequests = 60
	// DefaultRatePer is RateLimitOptions.Per if that is 0.
	DefaultRatePer = time.Minute
	// DefaultMaxRateClients is RateLimitOptions.MaxClients if that is 0. Each
	// client that is counted takes about 40 bytes.
	DefaultMaxRateClients = 1 << 16

	defaultIPv6Bits = 64
)

// RateLimitOptions configures RateLimit. The zero value works: each address may send 60 requests a minute to
// each route.
type RateLimitOptions struct {
	// Name of the limit in the headers, of visible ASCII without " and \. "" is "default".
	Name string

	// Requests is how many requests are allowed per Per in the long run. 0 is DefaultRateRequests,
	// DefaultRatePer.
	Requests int
	Per      time.Duration

	// Burst is how many requests may come at once after a pause. 0 is Requests.
	Burst int

	// Key returns whose request it is; "" is not limited. Nil is RateByClient.
	Key func(*Context) string

	// AllRoutes counts the requests to all routes of the middleware together. In App.Use, where no route is
	// known yet, that is always so.
	AllRoutes bool

	// IPv6Bits is the length of the IPv6 prefix that counts as one client, as each client has many addresses. 0
	// is 64.
	IPv6Bits int

	// MaxClients is how many clients are remembered. 0 is DefaultMaxRateClients.
	MaxClients int

	// Now is the clock. Nil is time.Now.
	Now func() time.Time
}

// RateLimit is middleware that limits the requests of each client to each route. Requests over the limit fail
// with problem.CodeRateLimited (429) and Retry-After. All responses report what is left, in the headers
// RateLimit-Limit, -Remaining and -Reset that clients know (draft-ietf-httpapi-ratelimit-headers-06), and in
// RateLimit-Policy and RateLimit as in drafts since -08.
//
// The counts are in the memory of one node and begin anew when it starts. With n nodes a client may send up to
// n times as many requests. A request that is forwarded to the leader counts there too. If there are more
// clients than MaxClients, the least active ones are forgotten: a client that has used up its limit is only
// forgotten once many other addresses have used up theirs.
//
// RateLimit panics if the options make no sense.
func RateLimit(o RateLimitOptions) Middleware {
	l := newLimiter(o)
	return func(next http.Handler) http.Handler {
		return Handler(func(c *Context) error {
			if err := l.take(c); err != nil {
				return err
			}
			next.ServeHTTP(c.Writer, c.Request)
			return nil
		})
	}
}

// RateByClient identifies a client by its address, ClientIP.
func RateByClient(c *Context) string { return c.ClientIP() }

// RateByUser identifies a client by the logged-in user, or by address if there is none. It sees the users of
// sessions only inside routes with this package's Handlers, and those of API keys only inside middleware that
// calls SetKey.
func RateByUser(c *Context) string {
	if id := c.x.userID(); id != "" {
		return userKey + id
	}
	return c.ClientIP()
}

// userKey is the prefix of users' keys; no address begins with it.
const userKey = "user "

// limiter counts the requests of many clients by the generic cell rate algorithm. For each client it stores
// only when its bucket will be full again.
type limiter struct {
	o        RateLimitOptions
	interval time.Duration // within which one request is earned
	window   time.Duration // within which a burst is earned
	seed     maphash.Seed
	start    time.Time
	limit    []string // headers that are always the same
	policy   []string
	shards   [rateShards]rateShard
}

// rateShards is the number of locks; a power of two.
const rateShards = 32

// rateShard has one part of the buckets.
type rateShard struct {
	mu   sync.Mutex // guards full
	full map[uint64]time.Duration
	max  int // the most buckets
	_    [40]byte
}

// evictionSample is how many buckets are examined to find one to evict.
const evictionSample = 8

func newLimiter(o RateLimitOptions) *limiter {
	o.Name = cmp.Or(o.Name, "default")
	o.Requests, o.Per = cmp.Or(o.Requests, DefaultRateRequests), cmp.Or(o.Per, DefaultRatePer)
	o.Burst = cmp.Or(o.Burst, o.Requests)
	o.IPv6Bits, o.MaxClients = cmp.Or(o.IPv6Bits, defaultIPv6Bits), cmp.Or(o.MaxClients, DefaultMaxRateClients)
	if o.Key == nil {
		o.Key = RateByClient
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	interval := o.Per / time.Duration(max(o.Requests, 1))
	switch {
	case o.Requests < 0 || o.Per < 0 || o.Burst < 0 || o.MaxClients < 0 || o.IPv6Bits < 0 || o.IPv6Bits > 128:
		panic("web: RateLimit: no option can be negative, and IPv6Bits is at most 128")
	case interval == 0 || time.Duration(o.Burst) > maxRateWindow/interval:
		panic("web: RateLimit: the limits are one request per nanosecond, and a Burst that takes a year to refill")
	case strings.ContainsFunc(o.Name, func(r rune) bool { return r < 0x20 || r > 0x7e || r == '"' || r == '\\' }):
		panic("web: RateLimit: Name must be visible ASCII without \" and \\")
	}
	l := &limiter{o: o, interval: interval, window: interval * time.Duration(o.Burst), seed: maphash.MakeSeed(), start: o.Now()}
	for i := range l.shards {
		l.shards[i].full, l.shards[i].max = map[uint64]time.Duration{}, max(o.MaxClients/rateShards, 1)
	}
	l.limit = []string{strconv.Itoa(o.Burst)}
	l.policy = []string{`"` + o.Name + `";q=` + strconv.Itoa(o.Burst) + ";w=" + seconds(l.window)}
	return l
}

const maxRateWindow = 365 * 24 * time.Hour

// limitedError is an error with the time after which to retry.
type limitedError struct {
	err   *engine.Error
	after time.Duration
}

// Error implements error.
func (e *limitedError) Error() string { return e.err.Error() }

// RetryAfter implements the method that fail looks for.
func (e *limitedError) RetryAfter() time.Duration { return e.after }

// Unwrap exposes the code.
func (e *limitedError) Unwrap() error { return e.err }

// take counts a request and sets the headers that report what is left.
func (l *limiter) take(c *Context) error {
	key := l.o.Key(c)
	if key == "" {
		return nil
	}
	var h maphash.Hash
	h.SetSeed(l.seed)
	_, _ = h.WriteString(clientOf(key, l.o.IPv6Bits))
	if !l.o.AllRoutes {
		_ = h.WriteByte(0)
		_, _ = h.WriteString(c.Route())
	}
	left, full, after := l.count(h.Sum64())
	head := c.Header()
	head["Ratelimit-Limit"], head["Ratelimit-Policy"] = l.limit, l.policy
	remaining, reset := strconv.Itoa(left), seconds(full)
	head["Ratelimit-Remaining"], head["Ratelimit-Reset"] = []string{remaining}, []string{reset}
	head["Ratelimit"] = []string{`"` + l.o.Name + `";r=` + remaining + ";t=" + reset}
	if after > 0 {
		return &limitedError{engine.Errorf(problem.CodeRateLimited, "too many requests; try again in %s s", seconds(after)), after}
	}
	return nil
}

// clientOf maps all IPv6 addresses of one network of that many bits to one client. It returns a key that is
// not an IPv6 address unchanged.
func clientOf(key string, bits int) string {
	if strings.IndexByte(key, ':') < 0 {
		return key
	}
	ip, err := netip.ParseAddr(key)
	if err != nil || !ip.Is6() || ip.Is4In6() {
		return key
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return key
	}
	return prefix.String()
}

// count takes a request out of a bucket. It returns how many are left, the time until the bucket is full
// again, and, if it was empty, the time until the next try.
func (l *limiter) count(key uint64) (left int, full, after time.Duration) {
	now := l.o.Now().Sub(l.start)
	s := &l.shards[key%rateShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	at, known := s.full[key]
	at = max(at, now)
	if next := at + l.interval; next-now <= l.window {
		at = next
		if !known {
			s.makeRoom(now)
		}
		s.full[key] = at
	} else {
		after = next - now - l.window
	}
	full = at - now
	return int((l.window - full) / l.interval), full, after
}

// makeRoom makes room for one more bucket. It evicts full buckets, which carry no information, or else the
// least used one of a small sample.
func (s *rateShard) makeRoom(now time.Duration) {
	if len(s.full) < s.max {
		return
	}
	var least uint64
	var leastAt time.Duration
	n := 0
	for key, at := range s.full { // in random order
		if at <= now {
			delete(s.full, key)
			leastAt = -1
		} else if n == 0 || at < leastAt {
			least, leastAt = key, at
		}
		if n++; n == evictionSample {
			break
		}
	}
	if leastAt >= 0 {
		delete(s.full, least)
	}
}
