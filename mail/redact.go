package mail

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// hidden replaces a secret.
const hidden = "[redacted]"

// Patterns of secrets. If they match too much, a report only lacks it; if they match too little, a secret
// stays in somebody's mailbox forever.
var (
	// secretName matches names of headers, parameters and form values.
	secretName = regexp.MustCompile(`(?i)auth|cookie|passw|passphrase|pwd|^pass$|secret|token|credential|session|signature|^sig$|csrf|xsrf|jwt|otp|^pin$|^code$|^state$|api.?key|key$|nonce|ssn|card|cvv|cvc`)
	// userinfo is user and password in a URL, or in a text that looks like a URL.
	userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'<>]*@`)
	// scheme is the credential after the name of an authentication scheme.
	scheme = regexp.MustCompile(`(?i)\b(bearer|basic|digest|negotiate)\s+[A-Za-z0-9+/_=.~-]{6,}`)
	// pair is a name and a value in a text: password=x, "token":"x", Cookie: a=b; c=d.
	pair = regexp.MustCompile(`(?i)((?:set-)?cookie|(?:proxy-)?authorization)(["']?\s*[:=]\s*)[^\r\n]*|` +
		`([A-Za-z0-9_.-]*(?:passw|passphrase|pwd|secret|token|credential|csrf|api_?key|session_?id|signature)[A-Za-z0-9_-]*)(\\?["']?\s*[:=]\s*)` +
		`(\\"(?:[^"\\]|\\[^"])*\\"|"(?:[^"\\]|\\.)*"|'[^']*'|["'][^\r\n]*|[^\s&,;)}\]"']+)`)
	// pem is a private key.
	pem = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`)
)

// scrubbed is scrub for a text of any length, of which at most n bytes are reported.
func scrubbed(s string, n int) string {
	if most := 4 * n; len(s) > most {
		// Also drop the word at the cut: half a secret may not look like one.
		s = s[:strings.LastIndexAny(s[:most], " \t\r\n")+1] + fmt.Sprintf("… (%d bytes in all)", len(s))
	}
	return cut(scrub(s), n)
}

// Redacted returns at most n bytes of a text, without what looks like a secret in it.
func Redacted(text string, n int) string { return scrubbed(text, n) }

// RedactedPath returns the path of a request, and its query, without what looks like a secret: see Fault.Path and Fault.Route.
func RedactedPath(target, route string) string { return scrubPath(target, route) }

// isSecret reports whether a value with that name must be redacted.
func isSecret(name string) bool { return secretName.MatchString(name) }

// scrub redacts the secrets in any text.
func scrub(s string) string {
	s = pem.ReplaceAllString(s, hidden)
	s = userinfo.ReplaceAllString(s, "${1}"+hidden+"@")
	s = pair.ReplaceAllString(s, "$1$2$3$4"+hidden)
	return scheme.ReplaceAllString(s, "$1 "+hidden)
}

// scrubPath redacts the secrets in a request's path and query: values whose parameter, or whose wildcard in
// the route, has the name of a secret.
func scrubPath(target, route string) string {
	const most = 8 << 10 // more than a report shows
	if len(target) > most {
		target = target[:strings.LastIndexAny(target[:most], "/?&")+1] + "…"
	}
	p, query, asked := strings.Cut(target, "?")
	segments := strings.Split(p, "/")
	for i, name := range wildcards(route) {
		if i >= len(segments) || !isSecret(strings.TrimSuffix(name, "...")) {
			continue
		}
		segments[i] = hidden
		if strings.HasSuffix(name, "...") {
			segments = segments[:i+1]
		}
	}
	p = scrub(strings.Join(segments, "/"))
	if !asked {
		return p
	}
	params := strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' })
	for i, param := range params {
		name, value, _ := strings.Cut(param, "=")
		// A name with percent-encoding is the same name.
		if plain, err := url.QueryUnescape(name); err != nil || isSecret(plain) {
			params[i] = name + "=" + hidden
		} else if plain, err := url.QueryUnescape(value); err == nil && scrub(plain) != plain {
			params[i] = name + "=" + hidden
		}
	}
	return p + "?" + strings.Join(params, "&")
}

// wildcards returns the names of a route's wildcards by the index of their segment. The route may begin with a
// method and a host.
func wildcards(route string) map[int]string {
	if _, after, ok := strings.Cut(route, " "); ok {
		route = strings.TrimSpace(after)
	}
	if i := strings.IndexByte(route, '/'); i > 0 {
		route = route[i:]
	}
	names := map[int]string{}
	for i, s := range strings.Split(route, "/") {
		if strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") {
			names[i] = s[1 : len(s)-1]
		}
	}
	return names
}

// scrubField redacts the secret in one field.
func scrubField(f Field) Field {
	secret := isSecret(f.Name)
	f.Name = line(f.Name)
	if secret {
		f.Value = hidden
	} else {
		f.Value = line(f.Value)
	}
	return f
}
