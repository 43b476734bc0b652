package web

import (
	"cmp"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// DefaultCompressMin is CompressOptions.MinBytes if that is 0. Shorter responses fit into one packet anyway.
const DefaultCompressMin = 1 << 10

// CompressOptions configures Compress. The zero value works.
type CompressOptions struct {
	// MinBytes is the shortest body that is compressed, in bytes. 0 is DefaultCompressMin. A body that is
	// flushed earlier counts as a long one.
	MinBytes int

	// Types are the media types that are compressed, without parameters. Nil is text/*, JSON, XML, JavaScript,
	// SVG, WebAssembly and fonts other than WOFF, but not text/event-stream: a stream would occupy an encoder
	// for as long as it lasts.
	Types []string

	// NoStore also compresses responses with Cache-Control: no-store. See Compress.
	NoStore bool
}

// Bounds of the encoders' memory. gzip needs no options for that.
const (
	gzipLevel   = 4
	zstdWindow  = 256 << 10
	gzipCoding  = "gzip"
	zstdCoding  = "zstd"
	varyOnThat  = "Accept-Encoding"
	codingField = "Content-Encoding"
)

// Compress is middleware that compresses responses with zstd or gzip, whichever the client prefers; without a
// preference, zstd. It streams: flushed data arrives. It does not compress responses of other types, short
// ones, those already encoded, parts of a file (Range), and those with Cache-Control: no-transform.
//
// An attacker who can make a browser send requests, and who sees the length of the responses, can guess
// secrets of a compressed page next to text that the attacker puts into it (BREACH). Session cookies are
// SameSite=Lax and pages contain no CSRF tokens, so most pages have no such secret. Responses with
// Cache-Control: no-store are not compressed unless CompressOptions.NoStore is set; pages that show lasting
// secrets, such as a new API key, must have that header anyway.
//
// Compress makes a handler's strong ETag weak, because one response then has several encodings. It makes the
// weak tags of If-Match strong again, for handlers whose tag is a revision.
func Compress(o CompressOptions) Middleware {
	c := newCompressor(o)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r = strongMatches(r)
			if r.Header["Range"] != nil {
				next.ServeHTTP(w, r)
				return
			}
			p := &compressing{compressor: c, coding: negotiate(r.Header[varyOnThat])}
			p.buffered = buffered{w: w, head: r.Method == http.MethodHead, limit: c.min, plan: p}
			p.run(next, r)
		})
	}
}

// compressor is the state that all requests of one Compress share.
type compressor struct {
	min     int
	types   map[string]bool // nil: the default
	noStore bool
	gzips   sync.Pool // of *gzip.Writer
	zstds   sync.Pool // of *zstd.Encoder
}

func newCompressor(o CompressOptions) *compressor {
	c := &compressor{min: max(cmp.Or(o.MinBytes, DefaultCompressMin)-1, 0), noStore: o.NoStore}
	if o.Types != nil {
		c.types = map[string]bool{}
		for _, t := range o.Types {
			c.types[strings.ToLower(t)] = true
		}
	}
	c.gzips.New = func() any {
		w, err := gzip.NewWriterLevel(nil, gzipLevel)
		if err != nil {
			panic("BUG: gzip: " + err.Error())
		}
		return w
	}
	c.zstds.New = func() any {
		// One goroutine; a window that every decoder accepts (RFC 9659 allows 8 MB).
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
		if err != nil {
			panic("BUG: zstd: " + err.Error())
		}
		return w
	}
	return c
}

// compressing is a planner that compresses one response.
type compressing struct {
	buffered
	*compressor
	coding string // accepted by the client, "": none
}

// early reports whether a declared length is enough to decide.
func (p *compressing) early(h *buffered) bool {
	head := h.Header()
	n, err := strconv.Atoi(head.Get("Content-Length"))
	return err == nil && n > p.min && head["Content-Type"] != nil
}

func (p *compressing) decide(h *buffered, whole bool) {
	head := h.Header()
	if h.status == http.StatusNotModified {
		addVary(head, varyOnThat)
		weaken(head)
		return
	}
	if !hasBody(h.status) || h.status == http.StatusPartialContent || head["Content-Range"] != nil || encoded(head) ||
		whole && len(h.kept()) <= p.min && !p.headLong(h) {
		return
	}
	if head["Content-Type"] == nil {
		if len(h.kept()) == 0 {
			return
		}
		head["Content-Type"] = []string{http.DetectContentType(h.kept())}
	}
	if !p.wants(head) || hasDirective(head, "no-transform") || !p.noStore && hasDirective(head, "no-store") {
		return
	}
	addVary(head, varyOnThat)
	if p.coding == "" {
		return
	}
	weaken(head)
	delete(head, "Content-Length")
	delete(head, "Accept-Ranges")
	head[codingField] = []string{p.coding}
	if h.head {
		h.drop = true
		return
	}
	pool := &p.gzips
	if p.coding == zstdCoding {
		pool = &p.zstds
	}
	h.enc = pool.Get().(encoder)
	h.enc.Reset(h.w)
}

// headLong reports whether a response to HEAD, which only has a length, is for a body that would be
// compressed.
func (p *compressing) headLong(h *buffered) bool {
	n, err := strconv.Atoi(h.Header().Get("Content-Length"))
	return h.head && err == nil && n > p.min
}

func (p *compressing) done(enc encoder) {
	switch enc.(type) {
	case *gzip.Writer:
		enc.Reset(nil)
		p.gzips.Put(enc)
	case *zstd.Encoder:
		enc.Reset(nil)
		p.zstds.Put(enc)
	}
}

// encoded reports whether a response is compressed already.
func encoded(head http.Header) bool {
	coding := head.Get(codingField)
	return coding != "" && !strings.EqualFold(coding, "identity")
}

// wants reports whether responses of that type are compressed.
func (c *compressor) wants(head http.Header) bool {
	media, _, err := mime.ParseMediaType(head.Get("Content-Type"))
	if err != nil {
		return false
	}
	if c.types != nil {
		return c.types[media]
	}
	kind, sub, _ := strings.Cut(media, "/")
	switch {
	case kind == "text":
		return sub != "event-stream"
	case strings.HasSuffix(sub, "+json"), strings.HasSuffix(sub, "+xml"):
		return true
	}
	switch media {
	case "application/json", "application/javascript", "application/xml", "application/wasm", "application/x-ndjson",
		"font/ttf", "font/otf", "application/vnd.ms-fontobject":
		return true
	}
	return false
}

// negotiate chooses a coding by Accept-Encoding (RFC 9110, 12.5.3), "" for none.
func negotiate(lines []string) string {
	zstdQ, gzipQ := codingQualities(lines)
	switch {
	case zstdQ > 0 && zstdQ >= gzipQ:
		return zstdCoding
	case gzipQ > 0:
		return gzipCoding
	}
	return ""
}

// codingQualities returns how much Accept-Encoding wants zstd and gzip, in thousandths; one that is not accepted has
// 0 or less.
func codingQualities(lines []string) (zstdQ, gzipQ int) {
	const unsaid = -1
	zstdQ, gzipQ = unsaid, unsaid
	otherQ := unsaid
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case zstdCoding:
				zstdQ = codingQuality(params)
			case gzipCoding, "x-gzip":
				gzipQ = codingQuality(params)
			case "*":
				otherQ = codingQuality(params)
			}
		}
	}
	if zstdQ == unsaid {
		zstdQ = otherQ
	}
	if gzipQ == unsaid {
		gzipQ = otherQ
	}
	return zstdQ, gzipQ
}

// codingQuality returns a q parameter in thousandths; a malformed one is 0.
func codingQuality(params string) int {
	for part := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return int(q * 1000)
	}
	return 1000
}

// addVary adds a name to Vary, unless it is there.
func addVary(head http.Header, name string) {
	for _, line := range head["Vary"] {
		for part := range strings.SplitSeq(line, ",") {
			if part = strings.TrimSpace(part); part == "*" || strings.EqualFold(part, name) {
				return
			}
		}
	}
	head["Vary"] = append(slices.Clip(head["Vary"]), name)
}

// weaken makes a response's ETag weak.
func weaken(head http.Header) {
	if tag := head.Get("ETag"); strings.HasPrefix(tag, `"`) {
		head["Etag"] = []string{"W/" + tag}
	}
}

// strongMatches returns r with the tags of If-Match made strong. Weakened tags would otherwise never equal the
// handler's.
func strongMatches(r *http.Request) *http.Request {
	lines := r.Header["If-Match"]
	if !slices.ContainsFunc(lines, func(s string) bool { return strings.Contains(s, `W/"`) }) {
		return r
	}
	strong := make([]string, len(lines))
	for i, line := range lines {
		parts := strings.Split(line, `"`) // every other part is inside a tag
		for j := 0; j < len(parts)-1; j += 2 {
			parts[j] = strings.TrimSuffix(parts[j], "W/")
		}
		strong[i] = strings.Join(parts, `"`)
	}
	again := *r
	again.Header = maps.Clone(r.Header)
	again.Header["If-Match"] = strong
	return &again
}
