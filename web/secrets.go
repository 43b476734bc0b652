package web

import (
	"net/http"
	"net/url"
	"strings"
)

// redacted replaces secrets in logs.
const redacted = "[redacted]"

// MaxLoggedQuery is how many bytes of a query are logged; the rest is omitted.
const MaxLoggedQuery = 1 << 10

// secretPart reports whether name contains a part that makes it the name of a secret.
func secretPart(name string) bool {
	for _, part := range [...]string{"token", "passw", "passphrase", "secret", "signature", "credential", "apikey", "oauth", "authoriz", "session", "jwt", "assertion", "cookie", "csrf"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// secretWord reports whether a word makes a name that of a secret.
func secretWord(word string) bool {
	switch word {
	case "key", "keys", "code", "codes", "sig", "hmac", "mac", "otp", "totp", "pass", "pwd", "pw", "pin", "auth", "ticket", "nonce", "sid", "invite", "invitation", "reset", "verify", "recovery", "magic":
		return true
	}
	return false
}

// secretName reports whether name looks like that of a secret. Its words are separated by characters that are
// not letters or digits, or begin with a capital.
func secretName(name string) bool {
	var all, word strings.Builder
	ends := func() bool {
		defer word.Reset()
		return secretWord(word.String())
	}
	for i := range len(name) {
		c := name[i]
		upper := c >= 'A' && c <= 'Z'
		if upper && i > 0 && name[i-1] >= 'a' && name[i-1] <= 'z' && ends() {
			return true
		}
		switch {
		case upper:
			c += 'a' - 'A'
			fallthrough
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c >= 0x80:
			all.WriteByte(c)
			word.WriteByte(c)
		case ends():
			return true
		}
	}
	return ends() || secretPart(all.String())
}

// redactQuery returns a query as it may be logged, without the values of secrets and of parameters that
// contain an address with secrets.
func redactQuery(raw string) string {
	cut := len(raw) > MaxLoggedQuery
	if cut {
		raw = raw[:MaxLoggedQuery]
	}
	var b strings.Builder
	for i, pair := range strings.FieldsFunc(raw, func(r rune) bool { return r == '&' || r == ';' }) {
		if i > 0 {
			b.WriteByte('&')
		}
		name, value, has := strings.Cut(pair, "=")
		switch {
		case !has && len(name) > maxLoggedName: // a long name without a value may itself be a secret
			b.WriteString(redacted)
		case !has:
			b.WriteString(name)
		case secretName(unescaped(name)) || holdsSecret(unescaped(value), 0):
			b.WriteString(name + "=" + redacted)
		default:
			b.WriteString(pair)
		}
	}
	if cut {
		b.WriteString("…")
	}
	return b.String()
}

// maxLoggedName is the longest name of a parameter without a value that is logged.
const maxLoggedName = 32

// holdsSecret reports whether a value is itself an address or a query with a secret.
func holdsSecret(value string, depth int) bool {
	if depth > 2 {
		return true // deep nesting is suspicious
	}
	_, query, found := strings.Cut(value, "?")
	if !found {
		query = value
	}
	if !strings.Contains(query, "=") {
		again := unescaped(query)
		return again != query && holdsSecret(again, depth+1)
	}
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' || r == '#' }) {
		if name, inner, has := strings.Cut(pair, "="); has && (secretName(unescaped(name)) || holdsSecret(unescaped(inner), depth+1)) {
			return true
		}
	}
	return false
}

func unescaped(s string) string {
	if plain, err := url.QueryUnescape(s); err == nil {
		return plain
	}
	return s
}

// loggedPath returns the path of r as it may be logged, without the segments that the route's pattern names as
// secrets.
func (x *exchange) loggedPath(r *http.Request) string {
	path := r.URL.EscapedPath()
	if x.route == nil || x.route.literal || !strings.Contains(x.route.pattern, "{") {
		return path
	}
	pattern := x.route.pattern[strings.IndexByte(x.route.pattern, '/'):]
	given, names := strings.Split(path, "/"), strings.Split(pattern, "/")
	changed := false
	for i, name := range names {
		name, wild := strings.CutPrefix(name, "{")
		if !wild || i >= len(given) {
			continue
		}
		name = strings.TrimSuffix(name, "}")
		name, rest := strings.CutSuffix(name, "...")
		if !secretName(name) {
			continue
		}
		changed = true
		if given[i] = redacted; rest {
			given = given[:i+1]
			break
		}
	}
	if !changed {
		return path
	}
	return strings.Join(given, "/")
}
