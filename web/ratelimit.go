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
	// DefaultMaxRateClients is RateLimitOptions.MaxClients if that is 0. Each that is
	// counted takes about 40 bytes.
	DefaultMaxRateClients = 1 << 16

	defaultIPv6Bits = 64
)

// RateLimitOptions configure RateLimit. The zero value works: 60 requests a minute of
// one address to one route.
type RateLimitOptions struct {
	// Name of the limit in the headers, of visible ASCII without " and \. "" is
	// default.
	Name string

	// Requests within Per are let through in the long run: 0 are
	// DefaultRateRequests, DefaultRatePer.
	Requests int
	Per      time.Duration

	// Burst is how many can come at once after a pause. 0 is Requests.
	Burst int

	// Key says whose request it is; "" is not limited. Nil is RateByClient.
	Key func(*Context) string

	// AllRoutes counts the requests to all routes that the middleware is around
	// together. In App.Use, where no route is known yet, that is always so.
	AllRoutes bool

	// IPv6Bits is how long the prefix of IPv6 addresses is that is taken for one
	// client, as each has many. 0 is 64.
	IPv6Bits int

	// MaxClients is how many buckets are kept. 0 is DefaultMaxRateClients.
	MaxClients int

	// Now is the clock. Nil is time.Now.
	Now func() time.Time
}

// RateLimit is middleware that lets through so many requests of each client to each
// route; what is more is problem.CodeRateLimited (429) with Retry-After. All answers
// say what is left, in the headers RateLimit-Limit, -Remaining and -Reset that
// clients know (draft-ietf-httpapi-ratelimit-headers-06), and in RateLimit-Policy
// and RateLimit as the drafts since -08 have them.
//
// The counts are in the memory of one node, and begin anew when it starts: behind
// n nodes a client has up to n times as much; a request that is passed on to the
// leader counts there too. If more clients come than are kept, those make room who
// have used the least of theirs: to be forgotten, who has used up his own needs as
// many other addresses that have used up theirs.
//
// It panics if the options make no sense.
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

// RateByClient is by address: ClientIP.
func RateByClient(c *Context) string { return c.ClientIP() }

// RateByUser is by who is logged in, and by address if nobody is. It knows the
// users of sessions only behind routes of this package's Handlers, and those of API
// keys only behind what calls SetKey.
func RateByUser(c *Context) string {
	if id := c.x.userID(); id != "" {
		return userKey + id
	}
	return c.ClientIP()
}

// userKey begins the keys of users: no address has it.
const userKey = "user "

// limiter counts the requests of many clients by the generic cell rate algorithm: of
// each it knows only when its bucket will be full again.
type limiter struct {
	o        RateLimitOptions
	interval time.Duration // in which one request is earned
	window   time.Duration // in which a burst is
	seed     maphash.Seed
	start    time.Time
	limit    []string // headers that are always the same
	policy   []string
	shards   [rateShards]rateShard
}

// rateShards is how many locks there are; a power of two.
const rateShards = 32

// rateShard has a part of the buckets.
type rateShard struct {
	mu   sync.Mutex // guards full
	full map[uint64]time.Duration
	max  int // how many
	_    [40]byte
}

// evictionSample is how many buckets are looked at to find one that makes room.
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
		panic("web: RateLimit: at most one request a nanosecond, and a Burst of what is earned in a year")
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

// limitedError says when to try again.
type limitedError struct {
	err   *engine.Error
	after time.Duration
}

// Error implements error.
func (e *limitedError) Error() string { return e.err.Error() }

// RetryAfter is what fail looks for.
func (e *limitedError) RetryAfter() time.Duration { return e.after }

// Unwrap gives the code.
func (e *limitedError) Unwrap() error { return e.err }

// take counts a request and says in its answer what is left.
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
		return &limitedError{engine.Errorf(problem.CodeRateLimited, "that were too many requests; try again in %s s", seconds(after)), after}
	}
	return nil
}

// clientOf takes all IPv6 addresses of one network of that many bits for one client. A key
// that is no address is left as it is.
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

// count takes a request out of a bucket. It returns how many are left, when it will
// be full again, and, if it was empty, when to try again.
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

// makeRoom lets one more bucket be kept: one that is full again, which says
// nothing, or else the one of a few that was used least.
func (s *rateShard) makeRoom(now time.Duration) {
	if len(s.full) < s.max {
		return
	}
	var least uint64
	var leastAt time.Duration
	n := 0
	for key, at := range s.full { // from anywhere
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
