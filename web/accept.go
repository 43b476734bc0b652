package web

import (
	"net/http"
	"strings"
)

// maxAccepted is how many media ranges of Accept are read; browsers send ten.
const maxAccepted = 64

// mediaRange is one element of Accept (RFC 9110, 12.5.1).
type mediaRange struct {
	family, name string // lower case or as sent; "*": all
	q            int    // thousandths
	at           int    // its position
}

// ranges calls fn for each well-formed element of Accept. It ignores parameters of media types other than q.
// It allocates nothing.
func ranges(r *http.Request, fn func(mediaRange)) {
	at := 0
	for _, line := range r.Header["Accept"] {
		for part := range strings.SplitSeq(line, ",") {
			if at++; at > maxAccepted {
				return
			}
			media, params, _ := strings.Cut(part, ";")
			family, name, ok := strings.Cut(strings.TrimSpace(media), "/")
			q, good := acceptQuality(params)
			if ok && good && family != "" && name != "" && (family != "*" || name == "*") {
				fn(mediaRange{family, name, q, at})
			}
		}
	}
}

// acceptQuality returns the parameter q of an element in thousandths.
func acceptQuality(params string) (q int, ok bool) {
	for params != "" {
		var p string
		p, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(p, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		return thousandths(strings.TrimSpace(value))
	}
	return 1000, true
}

// thousandths reads a weight: 0 or 1, with up to three digits after the point.
func thousandths(s string) (int, bool) {
	if s == "" || len(s) > 5 || s[0] != '0' && s[0] != '1' || len(s) > 1 && s[1] != '.' {
		return 0, false
	}
	n, unit := int(s[0]-'0')*1000, 100
	for i := 2; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n += int(s[i]-'0') * unit
		unit /= 10
	}
	return n, n <= 1000
}

// matches reports how specifically m names a type: 3 by its name, 2 by its family, 1 as any type, 0 not at
// all.
func (m mediaRange) matches(family, name string) int {
	switch {
	case m.family == "*":
		return 1
	case !strings.EqualFold(m.family, family):
		return 0
	case m.name == "*":
		return 2
	case strings.EqualFold(m.name, name):
		return 3
	}
	return 0
}

// accepted is how much a client wants a type, by the most specific element of Accept that matches it.
type accepted struct{ exact, q, at int }

func (a *accepted) see(m mediaRange, family, name string) {
	if exact := m.matches(family, name); exact > a.exact {
		*a = accepted{exact, m.q, m.at}
	}
}

// Accepts returns which of the offered media types ("text/csv") the client prefers, by the weights of its
// Accept. It returns the first one if the client has no preference, and "" if it accepts none of them.
func (c *Context) Accepts(offered ...string) string {
	if len(c.Request.Header["Accept"]) == 0 && len(offered) > 0 {
		return offered[0]
	}
	best, most := "", 0
	for _, offer := range offered {
		var a accepted
		family, name, _ := strings.Cut(offer, "/")
		ranges(c.Request, func(m mediaRange) { a.see(m, family, name) })
		if a.q > most {
			best, most = offer, a.q
		}
	}
	return best
}

// wantsHTML reports whether r comes from a browser that shows the response: it names HTML (*/* does not count,
// programs send that), does not prefer JSON, and has no bearer token. Of equal weights, the first one wins.
func wantsHTML(r *http.Request) bool {
	if len(r.Header["Accept"]) == 0 {
		return false
	}
	if _, ok := Bearer(r); ok {
		return false
	}
	var html, xhtml, problems, plain accepted
	ranges(r, func(m mediaRange) {
		html.see(m, "text", "html")
		xhtml.see(m, "application", "xhtml+xml")
		problems.see(m, "application", "problem+json")
		plain.see(m, "application", "json")
	})
	if page := better(named(html), named(xhtml)); page.q > 0 {
		json := better(named(problems), named(plain))
		return page.q > json.q || page.q == json.q && page.at <= json.at
	}
	return false
}

// named returns a if the client has named the type or its family.
func named(a accepted) accepted {
	if a.exact < 2 {
		return accepted{}
	}
	return a
}

func better(a, b accepted) accepted {
	if b.q > a.q || b.q == a.q && b.q > 0 && b.at < a.at {
		return b
	}
	return a
}
