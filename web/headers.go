package web

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// DefaultCSP is Headers.CSP if that is empty. Scripts and styles must come from files of the application, or
// be inline with the page's nonce. Style attributes are allowed, as they can neither select nor load. No page
// may put this one into a frame, and forms may be sent to the application only. Chromium also blocks redirects
// of such a form to another origin, for example to a payment provider: a page with such a form needs its own
// SecurityHeaders, with form-action 'self' and that origin.
const DefaultCSP = "default-src 'self'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'nonce-{nonce}'; " +
	"style-src-attr 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// DefaultHSTS is Headers.HSTS if that is 0.
const DefaultHSTS = 365 * 24 * time.Hour

// Headers configures the security headers of all responses. The zero value sends X-Content-Type-Options:
// nosniff and the headers of the fields, except Permissions-Policy. A handler can set or delete any of them
// for its own response. In a text field "" is the default and "-" omits the header.
type Headers struct {
	// Off omits all of them.
	Off bool

	// CSP is the Content-Security-Policy; the default is DefaultCSP. In it 'nonce-{nonce}' stands for the nonce
	// of the page, and is removed for responses without one.
	CSP string
	// CSPReportOnly makes browsers only report what the policy would block.
	CSPReportOnly bool

	// ReferrerPolicy is same-origin by default: addresses, which may contain tokens from links in email, are
	// not sent to other origins.
	ReferrerPolicy string
	// OpenerPolicy is Cross-Origin-Opener-Policy; the default is same-origin.
	OpenerPolicy string
	// PermissionsPolicy is omitted by default: pages of other origins in frames have no permissions anyway, and
	// an application requests its own.
	PermissionsPolicy string

	// HSTS is how long browsers must use HTTPS only, in whole seconds. The header is sent only over HTTPS and
	// never in debug mode. 0 is DefaultHSTS, negative omits it.
	HSTS time.Duration
	// HSTSSubdomains includes the subdomains.
	HSTSSubdomains bool
}

// nonceSource is the part of a policy that contains the placeholder of the nonce.
const (
	nonceMark   = "{nonce}"
	nonceSource = "'nonce-" + nonceMark + "'"
)

func (h *Headers) check() error {
	for _, v := range []string{h.CSP, h.ReferrerPolicy, h.OpenerPolicy, h.PermissionsPolicy} {
		if strings.ContainsFunc(v, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
			return fmt.Errorf("%.100q must be visible ASCII", v)
		}
	}
	if strings.Contains(strings.ReplaceAll(h.CSP, nonceSource, ""), nonceMark) {
		return errors.New("CSP: {nonce} is valid only in 'nonce-{nonce}'")
	}
	if h.HSTS > 0 && h.HSTS < time.Second {
		return fmt.Errorf("HSTS %v is shorter than a second", h.HSTS)
	}
	return nil
}

// headers is Headers prepared for use. The slices are shared by all responses; net/http does not change them.
type headers struct {
	fixed   []headerLine // besides the policy
	hsts    []string     // nil: none
	cspName string       // "": none
	csp     []string     // without a nonce
	nonced  []string     // parts of the policy, with the nonce between them
}

type headerLine struct {
	name string
	line []string
}

const hstsName = "Strict-Transport-Security"

// newHeaders prepares headers that check has accepted.
func newHeaders(o Headers) *headers {
	h := &headers{}
	if o.Off {
		return h
	}
	add := func(name, value string) {
		if value != "-" {
			h.fixed = append(h.fixed, headerLine{name, []string{value}})
		}
	}
	add("X-Content-Type-Options", "nosniff")
	add("Referrer-Policy", cmp.Or(o.ReferrerPolicy, "same-origin"))
	add("Cross-Origin-Opener-Policy", cmp.Or(o.OpenerPolicy, "same-origin"))
	add("Permissions-Policy", cmp.Or(o.PermissionsPolicy, "-"))
	if life := cmp.Or(o.HSTS, DefaultHSTS); life > 0 {
		value := "max-age=" + strconv.FormatInt(int64(life/time.Second), 10)
		if o.HSTSSubdomains {
			value += "; includeSubDomains"
		}
		h.hsts = []string{value}
	}
	if csp := cmp.Or(o.CSP, DefaultCSP); csp != "-" {
		h.cspName = "Content-Security-Policy"
		if o.CSPReportOnly {
			h.cspName += "-Report-Only"
		}
		h.csp = []string{strings.ReplaceAll(strings.ReplaceAll(csp, " "+nonceSource, ""), nonceSource, "'none'")}
		h.nonced = strings.Split(csp, nonceMark)
	}
	return h
}

// apply sets the headers of x's response.
func (h *headers) apply(x *exchange, r *http.Request) {
	x.headers = h
	to := x.w.Header()
	for i := range h.fixed {
		to[h.fixed[i].name] = h.fixed[i].line
	}
	if h.hsts != nil && !x.app.o.Debug && x.secure(r) {
		to[hstsName] = h.hsts
	}
	if h.cspName != "" {
		to[h.cspName] = h.csp
		h.announce(x)
	}
}

// announce puts the page's nonce into the policy, unless a handler has set another policy.
func (h *headers) announce(x *exchange) {
	to := x.w.Header()
	now := to[h.cspName]
	if x.nonce != "" && len(h.nonced) > 1 && len(now) == 1 && now[0] == h.csp[0] {
		to[h.cspName] = []string{strings.Join(h.nonced, x.nonce)}
	}
}

// remove removes what apply has set.
func (h *headers) remove(x *exchange) {
	to := x.w.Header()
	for i := range h.fixed {
		delete(to, h.fixed[i].name)
	}
	delete(to, hstsName)
	delete(to, h.cspName)
}

// SecurityHeaders is middleware that sets h instead of Options.Headers, for routes whose pages need something
// else. It panics if h makes no sense.
func SecurityHeaders(h Headers) Middleware {
	if err := h.check(); err != nil {
		panic("web: SecurityHeaders: " + err.Error())
	}
	made := newHeaders(h)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := of(w)
			x.headers.remove(x)
			made.apply(x, r)
			next.ServeHTTP(w, r)
		})
	}
}

// Nonce returns the value of the attribute nonce that inline scripts and styles of the page need for browsers
// to run them. It is different for each response, and must be called before the response begins.
func (c *Context) Nonce() string { return c.x.cspNonce() }

// nonceBytes is the number of random bytes in a nonce: CSP requires at least 128 bits.
const nonceBytes = 16

func (x *exchange) cspNonce() string {
	if x.nonce == "" {
		var b [nonceBytes]byte
		rand.Read(b[:]) // never fails
		x.nonce = base64.RawURLEncoding.EncodeToString(b[:])
		if x.headers != nil && x.headers.cspName != "" {
			x.headers.announce(x)
		}
	}
	return x.nonce
}

// pageNonce is an exchange as the local nonce of its page. The nonce is made when the page prints it, so that
// a page that does not use it is the same every time.
type pageNonce exchange

// String implements fmt.Stringer.
func (n *pageNonce) String() string { return (*exchange)(n).cspNonce() }

// MarshalJSON implements json.Marshaler, for pages that print the nonce as a value in a script: html/template
// looks for nothing else behind a pointer.
func (n *pageNonce) MarshalJSON() ([]byte, error) { return json.Marshal(n.String()) }
