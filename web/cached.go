package web

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/engine"
)

// CachedOptions configure Cached. The zero value works for a pattern with one wildcard.
type CachedOptions struct {
	// Key returns the key in the cache for a request. An error is the response. A key that depends on the session, or
	// on the user, makes the response private to this browser, with Vary: Cookie. Nil is the value of the only
	// wildcard in the pattern.
	Key func(c *Context) (string, error)

	// AtLeast returns a position that the response must include, for readers who have to see their own write; see
	// cache.Read. Nil asks for none.
	AtLeast func(c *Context) (cache.Position, error)

	// MaxAge is how long browsers, and shared caches on the way, may use the response without asking again. 0 makes
	// them ask each time (Cache-Control: no-cache), which costs 304 and no body if nothing has changed.
	MaxAge time.Duration
}

// Cached adds a route for GET and HEAD that responds with entries of a cache. An entry is sent as it is: its body or
// the variant that the client prefers, with its ETag. Requests with conditions, and for a range, are answered as
// http.ServeContent does. A key that does not exist is engine.CodeNotFound. Cached panics as Get does, and if the key
// is neither given nor the value of exactly one wildcard.
func (g *Group) Cached(path string, from *cache.Cache, o CachedOptions, m ...Middleware) {
	byName := o.Key == nil
	if byName {
		name := onlyWildcard(g.prefix + path)
		if name == "" {
			panic("web: Cached: " + path + " does not have exactly one wildcard: CachedOptions.Key must say what the key is")
		}
		o.Key = func(c *Context) (string, error) { return c.Request.PathValue(name), nil }
	}
	control := "no-cache"
	if o.MaxAge > 0 {
		control = "max-age=" + strconv.FormatInt(int64(o.MaxAge/time.Second), 10)
	}
	r := &cachedRoute{from: from, o: o, byName: byName, control: []string{control}}
	before := len(g.app.routes)
	g.Get(path, r.serve, m...)
	r.route, r.ware = g.app.routes[before], len(g.ware)+len(m) > 0
	var found bool
	if r.before, found = lastSegment(g.prefix + path); found {
		g.app.cached = append(g.app.cached, r)
	}
}

// lastSegment returns what is before the only wildcard of a path, which must be its whole last segment.
func lastSegment(path string) (before string, found bool) {
	before, name, found := strings.Cut(path, "{")
	return before, found && strings.HasPrefix(before, "/") && strings.HasSuffix(before, "/") && strings.Index(name, "}") == len(name)-1 && name != "$}" && !strings.HasSuffix(name, "...}")
}

// onlyWildcard returns the name of the only wildcard of a pattern, or "".
func onlyWildcard(path string) string {
	_, after, found := strings.Cut(path, "{")
	name, rest, _ := strings.Cut(after, "}")
	name = strings.TrimSuffix(name, "...")
	if !found || name == "$" || strings.Contains(rest, "{") {
		return ""
	}
	return name
}

// cachedRoute serves entries of one cache.
type cachedRoute struct {
	from    *cache.Cache
	o       CachedOptions
	control []string // Cache-Control
	byName  bool     // the key is the value of the wildcard
	before  string   // the path before the wildcard, if LaneRoutes returns the route
	route   *route
	ware    bool // it has middleware
}

// entryBuffers hold entries while they are sent.
var entryBuffers = sync.Pool{New: func() any { return new([]byte) }}

// maxEntryBuffer is the largest buffer that is kept for another request.
const maxEntryBuffer = 64 << 10

func (rt *cachedRoute) serve(c *Context) error {
	key, err := rt.o.Key(c)
	if err != nil {
		return err
	}
	var read cache.Read
	if rt.o.AtLeast != nil {
		if read.AtLeast, err = rt.o.AtLeast(c); err != nil {
			return err
		}
	}
	buf := entryBuffers.Get().(*[]byte)
	v, ok := rt.from.Peek((*buf)[:0], key, read)
	if ok {
		if *buf = v.Raw(); cap(*buf) > maxEntryBuffer {
			*buf = nil
		}
		defer entryBuffers.Put(buf)
		if v.Missing {
			return errNoEntry
		}
		return rt.answer(c, v.Entry())
	}
	entryBuffers.Put(buf)
	e, err := rt.from.Get(c.Request.Context(), key, read)
	if engine.CodeOf(err) == engine.CodeNotFound {
		return errNoEntry
	} else if err != nil {
		return err
	}
	return rt.answer(c, e)
}

var errNoEntry = engine.Errorf(engine.CodeNotFound, "there is nothing at this address")

// answer sends an entry.
func (rt *cachedRoute) answer(c *Context, e cache.Entry) error {
	h, r := c.Header(), c.Request
	body, tag := e.Body, e.ETag
	if len(e.Variants) > 0 {
		addVary(h, varyOnThat)
		if v := preferred(e.Variants, r.Header[varyOnThat]); v != nil && r.Header["Range"] == nil {
			body, tag = v.Body, tag+"-"+v.Encoding
			h[codingField] = []string{v.Encoding}
		}
	}
	h["Etag"] = []string{`"` + tag + `"`}
	if e.Type != "" {
		h["Content-Type"] = []string{e.Type}
	} else {
		h["Content-Type"] = []string{"application/octet-stream"}
	}
	if h["Cache-Control"] == nil {
		h["Cache-Control"] = rt.control
	}
	if e.Private {
		c.x.personal = true
	}
	if r.Method != http.MethodGet || conditional(r.Header) {
		http.ServeContent(c.Writer, r, "", time.Time{}, bytes.NewReader(body))
		return nil
	}
	h["Accept-Ranges"] = []string{"bytes"}
	setLength(h, len(body))
	c.Writer.WriteHeader(http.StatusOK)
	_, _ = c.Writer.Write(body) // an error means that the client is gone
	return nil
}

// conditional reports whether a request has a condition or asks for a range.
func conditional(h http.Header) bool {
	for _, name := range [...]string{"If-None-Match", "Range", "If-Match", "If-Range", "If-Modified-Since", "If-Unmodified-Since"} {
		if len(h[name]) > 0 {
			return true
		}
	}
	return false
}

// preferred returns the variant that a client wants most, or nil if it wants none of them.
func preferred(variants []cache.Variant, accept []string) (best *cache.Variant) {
	if len(accept) == 0 {
		return nil
	}
	zstdQ, gzipQ := codingQualities(accept)
	most := 0
	for i := range variants {
		q := 0
		switch variants[i].Encoding {
		case zstdCoding:
			q = zstdQ
		case gzipCoding:
			q = gzipQ
		}
		if q > most || q == most && best != nil && variants[i].Encoding == zstdCoding {
			best, most = &variants[i], q
		}
	}
	return best
}

// Precompress returns an entry with variants for zstd and gzip, unless its body is short or does not become at least a
// tenth shorter. It is for sources of a cache, so that nothing is compressed when the entry is read.
func Precompress(e cache.Entry) cache.Entry {
	if len(e.Body) < DefaultCompressMin || e.Missing {
		return e
	}
	pack := func(encoding string, packed []byte) {
		if len(packed) <= len(e.Body)-len(e.Body)/10 {
			e.Variants = append(e.Variants, cache.Variant{Encoding: encoding, Body: packed})
		}
	}
	e.Variants = nil
	pack(zstdCoding, variantEncoder().EncodeAll(e.Body, nil))
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		panic("BUG: gzip: " + err.Error())
	}
	_, _ = w.Write(e.Body) // a bytes.Buffer cannot fail
	_ = w.Close()
	pack(gzipCoding, packed.Bytes())
	return e
}

// variantEncoder returns the encoder of Precompress, which is safe for concurrent use.
var variantEncoder = sync.OnceValue(func() *zstd.Encoder {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow), zstd.WithEncoderCRC(false))
	if err != nil {
		panic("BUG: zstd: " + err.Error())
	}
	return w
})
