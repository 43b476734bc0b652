package web

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

// DefaultMaxETagBytes is ETagOptions.MaxBytes if that is 0.
const DefaultMaxETagBytes = 256 << 10

// ETagOptions configures ETag. The zero value works.
type ETagOptions struct {
	// MaxBytes is the longest response that is buffered and hashed; a longer one passes unchanged. Every
	// request in flight may take that much memory. 0 is DefaultMaxETagBytes.
	MaxBytes int
}

// ETag is middleware that gives responses to GET and HEAD with status 200 a tag computed from their bytes. If
// the client already has them (If-None-Match), it responds with 304 and no body. It saves sending the
// response, not making it. A handler's own ETag is kept, and compared in the same way.
//
// The tags are weak: two responses with the same tag mean the same, however they are compressed, so Compress
// can be on either side. ETag leaves alone responses with Cache-Control: no-store, responses that are flushed
// before they are complete, and pages that contain their nonce, as these are never the same.
func ETag(o ETagOptions) Middleware {
	limit := cmp.Or(o.MaxBytes, DefaultMaxETagBytes)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet && r.Method != http.MethodHead {
				next.ServeHTTP(w, r)
				return
			}
			t := &tagger{x: of(w), asked: r.Header["If-None-Match"]}
			t.buffered = buffered{w: w, head: r.Method == http.MethodHead, limit: limit, plan: t}
			t.run(next, r)
		})
	}
}

// tagger is a planner that gives a response its tag.
type tagger struct {
	buffered
	x     *exchange
	asked []string // If-None-Match
}

func (t *tagger) early(h *buffered) bool {
	n, err := strconv.Atoi(h.Header().Get("Content-Length"))
	return h.status != http.StatusOK || err == nil && n > h.limit
}

func (t *tagger) done(encoder) {}

func (t *tagger) decide(h *buffered, whole bool) {
	head := h.Header()
	if h.status != http.StatusOK || !whole {
		return
	}
	tag := head.Get("ETag")
	if tag == "" {
		// A body that the handler leaves out of a response to HEAD cannot be hashed.
		if len(h.kept()) == 0 || t.x.nonce != "" || hasDirective(head, "no-store") {
			return
		}
		sum := sha256.Sum256(h.kept())
		tag = `W/"` + base64.RawURLEncoding.EncodeToString(sum[:tagBytes]) + `"`
		head["Etag"] = []string{tag}
	}
	if tagListed(t.asked, tag) {
		for _, name := range []string{"Content-Encoding", "Content-Length", "Content-Type", "Last-Modified"} {
			delete(head, name) // RFC 9110, 15.4.5
		}
		h.status, h.drop = http.StatusNotModified, true
		return
	}
	if head["Content-Length"] == nil && len(h.kept()) > ownLength {
		setLength(head, len(h.kept()))
	}
}

// tagBytes bytes of a SHA-256 sum are enough to rule out collisions.
const tagBytes = 16

// tagListed reports whether a tag is among those of If-None-Match, by the weak comparison (RFC 9110, 8.8.3.2).
// It stops at the first malformed tag.
func tagListed(lines []string, tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	for _, line := range lines {
		for {
			line = strings.TrimLeft(line, " \t,")
			if line == "" {
				break
			}
			if line[0] == '*' {
				return true
			}
			line = strings.TrimPrefix(line, "W/")
			if line == "" || line[0] != '"' {
				break
			}
			end := strings.IndexByte(line[1:], '"')
			if end < 0 {
				break
			}
			if line[:end+2] == tag {
				return true
			}
			line = line[end+2:]
		}
	}
	return false
}

// hasDirective reports whether a response's Cache-Control has a directive.
func hasDirective(h http.Header, name string) bool {
	for _, line := range h["Cache-Control"] {
		for part := range strings.SplitSeq(line, ",") {
			part, _, _ = strings.Cut(part, "=")
			if strings.EqualFold(strings.TrimSpace(part), name) {
				return true
			}
		}
	}
	return false
}
