package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// CORSOptions configures CORS. The zero value allows nothing.
type CORSOptions struct {
	// Origins are the other origins whose pages may read responses, each as https://host[:port]; or "*" alone,
	// which allows every origin, without cookies.
	Origins []string

	// Under limits CORS to paths with this prefix, for example "/api/". "" is all paths.
	Under string

	// Methods that those pages may use. Nil is GET, HEAD and POST.
	Methods []string

	// Headers that they may send besides the CORS-safelisted ones. Nil is Authorization, Content-Type (for
	// JSON), Idempotency-Key, If-Match and If-None-Match.
	Headers []string

	// Exposed are the response headers that they may read besides the CORS-safelisted ones.
	Exposed []string

	// Credentials lets them send the browser's cookies. Cookies with SameSite=Lax, such as the session's, are
	// still sent from pages of the same site only.
	Credentials bool

	// MaxAge is how long a browser may cache the result of a preflight request. 0 is the browser's default, 5
	// seconds.
	MaxAge time.Duration
}

// CORS is middleware that lets web pages of other origins read responses, by the CORS protocol of the Fetch
// standard, and answers preflight requests. Add it with App.Use, as preflight requests have no route.
//
// Pages of these origins may also make changes if the request has no cookies and is authenticated by
// Authorization: Bearer, which no browser sends by itself. With cookies, or without a bearer token, such
// requests are refused whatever CORS allows, unless Options.TrustedOrigins also has that origin. CORS panics
// if the options make no sense: "*" with Credentials, or a malformed origin.
func CORS(o CORSOptions) Middleware {
	c := newCORS(o)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.URL.Path, c.o.Under) {
				next.ServeHTTP(w, r)
				return
			}
			asks := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
			allowed := c.allow(w.Header(), r)
			if asks {
				c.answer(w, allowed)
				return
			}
			if x := of(w); allowed && x.foreign && slices.Contains(c.o.Methods, r.Method) {
				x.foreign = false
			}
			next.ServeHTTP(w, r)
		})
	}
}

// cors is CORSOptions prepared for use.
type cors struct {
	o                         CORSOptions
	all                       bool
	methods, headers, exposed []string
	maxAge                    []string
}

func newCORS(o CORSOptions) *cors {
	if o.Methods == nil {
		o.Methods = []string{http.MethodGet, http.MethodHead, http.MethodPost}
	}
	if o.Headers == nil {
		o.Headers = []string{"Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match"}
	}
	c := &cors{o: o, all: len(o.Origins) == 1 && o.Origins[0] == "*"}
	if c.all && o.Credentials {
		panic("web: CORS: Credentials need a list of origins, not *")
	}
	for _, origin := range o.Origins {
		if u, err := url.Parse(origin); !c.all && (err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin || strings.ToLower(origin) != origin || strings.Contains(origin, "*")) {
			panic("web: CORS: " + strconv.Quote(origin) + " is not an origin as browsers send it, https://host[:port] in lower case")
		}
	}
	list := func(names []string) []string {
		if len(names) == 0 {
			return nil
		}
		return []string{strings.Join(names, ", ")}
	}
	c.methods, c.headers, c.exposed = list(o.Methods), list(o.Headers), list(o.Exposed)
	if o.MaxAge > 0 {
		c.maxAge = []string{strconv.FormatInt(int64(o.MaxAge/time.Second), 10)}
	}
	return c
}

// allow sets headers in h if the page that sent r may read the response, and reports whether it may.
func (c *cors) allow(h http.Header, r *http.Request) bool {
	if c.all {
		h["Access-Control-Allow-Origin"] = []string{"*"}
	} else {
		addVary(h, "Origin") // also without one: shared caches must keep the two apart
		origins := r.Header["Origin"]
		if len(origins) != 1 || !slices.Contains(c.o.Origins, origins[0]) {
			return false
		}
		h["Access-Control-Allow-Origin"] = []string{origins[0]}
		if c.o.Credentials {
			h["Access-Control-Allow-Credentials"] = []string{"true"}
		}
	}
	if c.exposed != nil {
		h["Access-Control-Expose-Headers"] = c.exposed
	}
	return true
}

// answer responds to a preflight request. A page that is not allowed learns nothing.
func (c *cors) answer(w http.ResponseWriter, allowed bool) {
	h := w.Header()
	addVary(h, "Access-Control-Request-Method")
	addVary(h, "Access-Control-Request-Headers")
	delete(h, "Access-Control-Expose-Headers")
	if allowed {
		for name, line := range map[string][]string{"Access-Control-Allow-Methods": c.methods, "Access-Control-Allow-Headers": c.headers, "Access-Control-Max-Age": c.maxAge} {
			if line != nil {
				h[name] = line
			}
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// errCrossOrigin refuses requests that make changes and come from a page of another origin.
var errCrossOrigin = engine.Errorf(problem.CodeCrossOrigin, "web pages of other origins may not make changes here")

// bearerAlone reports whether r is authenticated by a bearer token and has no cookies. A page of another
// origin can then send no more than it knows itself.
func bearerAlone(r *http.Request) bool {
	token, _ := Bearer(r)
	return token != "" && len(r.Header["Cookie"]) == 0
}

// Bearer returns the bearer token of r (RFC 6750, section 2.1); ok is false if r has none. No browser sends one by
// itself. An ambiguous token, in one of several lines, is "".
func Bearer(r *http.Request) (token string, ok bool) {
	lines := r.Header["Authorization"]
	for _, line := range lines {
		scheme, rest := line, ""
		if i := strings.IndexAny(line, " \t"); i >= 0 {
			scheme, rest = line[:i], strings.TrimSpace(line[i:])
		}
		if strings.EqualFold(scheme, "Bearer") {
			token, ok = rest, true
		}
	}
	if len(lines) > 1 {
		token = ""
	}
	return token, ok
}
