package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/gate"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/hostname"
	"github.com/skerrydb/skerry/web/problem"
)

// retryGuess is the Retry-After, in seconds, for a password that was not checked.
const retryGuess = "5"

// admit refuses requests under foreign host names (see Options.Hosts) or without the password, and hides the
// routes of operators from others. Anyone may request the server's health. For a forwarded request, the other
// node has checked all that.
func (a *app) admit(next http.Handler) http.Handler {
	// Sums have one length, so the comparison does not reveal the password's length.
	want := sha256.Sum256([]byte(a.o.Password))
	right := func(r *http.Request) bool {
		given, ok := credentials(r)
		sum := sha256.Sum256([]byte(given))
		return subtle.ConstantTimeCompare(sum[:], want[:]) == 1 && ok
	}
	return web.Handler(func(c *web.Context) error {
		if p := c.Request.URL.Path; !c.FromNode() && p != "/healthz" && p != "/readyz" {
			if a.o.Password != "" {
				if err := a.authenticate(c, right); err != nil {
					return err
				}
			} else if !hostname.Trusted(c.Request.Host, a.o.Hosts) {
				return engine.Errorf(problem.CodeHostRefused,
					"without a password, this server can be addressed only by an IP address, as localhost, or by a name in the setting hosts")
			}
			if a.forOperators(p) && !operator(c) {
				return a.noRoute(c)
			}
		}
		next.ServeHTTP(c.Writer, c.Request)
		return nil
	})
}

// authenticate refuses a request without the password.
func (a *app) authenticate(c *web.Context, right func(*http.Request) bool) error {
	ok, looked := a.o.checks(c.Request, right)
	switch {
	case !looked:
		c.Header()["Retry-After"] = []string{retryGuess}
		return engine.Errorf(problem.CodeRateLimited, "too many wrong passwords from this address; try again later")
	case ok:
		return nil
	}
	c.Header()["Www-Authenticate"] = []string{`Basic realm="skerry", charset="UTF-8"`, `Bearer realm="skerry"`}
	if len(c.Request.Header["Authorization"]) == 0 {
		return engine.Errorf(engine.CodeUnauthenticated, "a password is required: Authorization: Bearer PASSWORD, or Basic with any user")
	}
	return engine.Errorf(engine.CodeUnauthenticated, "the password is wrong")
}

// checks reports whether a request has the password, and whether it looked at it. From an address with too
// many wrong passwords it waits first, or does not look. On a connection that has sent the right password
// before, it looks at once.
func (o *Options) checks(r *http.Request, right func(*http.Request) bool) (ok, looked bool) {
	if o.Guesses == nil || len(r.Header["Authorization"]) == 0 {
		return right(r), true
	}
	from, conn := &net.TCPAddr{}, gate.FromContext(r.Context())
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		from = net.TCPAddrFromAddrPort(at)
	}
	if (conn == nil || !conn.Known()) && !o.Guesses.Wait(from, r.Context().Done()) {
		return false, false
	}
	if ok = right(r); !ok {
		o.Guesses.Wrong(from)
	}
	if conn != nil {
		conn.SetKnown(ok) // a proxy's connection carries requests of many clients
	}
	return ok, true
}

// credentials returns the password that a request sends.
func credentials(r *http.Request) (string, bool) {
	auth := r.Header["Authorization"]
	if len(auth) != 1 {
		return "", false
	}
	if scheme, token, ok := strings.Cut(auth[0], " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimLeft(token, " "), true
	}
	_, password, ok := r.BasicAuth()
	return password, ok
}
