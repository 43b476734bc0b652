package conditions

import (
	"net/http"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// Idempotency-Key, after the IETF's draft-ietf-httpapi-idempotency-key-header. The first response to a write
// is stored with the write itself. If the same request arrives again, on any node, it gets that response and
// changes nothing.

// Headers of writes that run only once.
const (
	OnceHeader     = "Idempotency-Key"
	ReplayedHeader = "Idempotent-Replayed" // "true" in a repeated response; the name is Stripe's
)

// Once reads the Idempotency-Key of a request, nil if there is none. The draft requires a string of RFC 9651, in quotes; most clients send the bare
// characters, which name the same key.
func Once(h http.Header) ([]byte, error) {
	lines := h[OnceHeader]
	if lines == nil {
		return nil, nil
	}
	if len(lines) > 1 {
		return nil, badHeader(OnceHeader, engine.CodeInvalid, "the header is repeated")
	}
	text := strings.Trim(lines[0], " \t")
	var ok bool
	key := []byte(text)
	if strings.HasPrefix(text, `"`) {
		key, ok = unquote(text)
	} else {
		ok = !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"\,;`, r) })
	}
	switch {
	case !ok || len(key) == 0:
		return nil, badHeader(OnceHeader, engine.CodeInvalid, `expected a string in double quotes, or visible ASCII characters without quotes, backslashes, commas and semicolons`)
	case len(key) > kv.MaxOnceKeyBytes:
		return nil, badHeader(OnceHeader, engine.CodeLimit, "a key has at most 255 characters")
	}
	return key, nil
}

// unquote reads a string of RFC 9651 section 3.3.3, without parameters.
func unquote(text string) ([]byte, bool) {
	var key []byte
	for i := 1; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			return key, i == len(text)-1
		case c == '\\':
			if i++; i == len(text) || text[i] != '"' && text[i] != '\\' {
				return nil, false
			}
			c = text[i]
		case c < ' ' || c > '~':
			return nil, false
		}
		key = append(key, c)
	}
	return nil, false
}
