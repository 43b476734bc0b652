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
	"github.com/skerrydb/skerry/web/lane"
	"github.com/skerrydb/skerry/web/problem"
)

// retryGuess is the Retry-After, in seconds, for a password that was not checked.
const retryGuess = "5"

// admit refuses requests under foreign host names (see Options.Hosts) or without the password, and hides the
// routes of operators from others. Anyone may request the server's health. For a forwarded request, the other
// node has checked all that.
func (a *app) admit(next http.Handler) http.Handler {
	return web.Handler(func(c *web.Context) error {
		if p := c.Request.URL.Path; !c.FromNode() && p != "/healthz" && p != "/readyz" {
			if a.o.Password != "" {
				if err := a.authenticate(c); err != nil {
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

// admitted reports whether a request is admitted without any doubt. Any other one is left to admit.
func (a *app) admitted(x *lane.Fast) bool {
	if a.o.Password == "" {
		return hostname.Trusted(x.Host, a.o.Hosts)
	}
	if a.o.Guesses != nil {
		if conn := gate.FromContext(x.Context()); conn == nil || !conn.Known() {
			return false
		}
	}
	return a.right(x.Header("Authorization"))
}

// authenticate refuses a request without the password.
func (a *app) authenticate(c *web.Context) error {
	ok, looked := a.o.checks(c.Request, func(r *http.Request) bool {
		auth := r.Header["Authorization"]
		return len(auth) == 1 && a.right(auth[0])
	})
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

// right reports whether the value of an Authorization field has the password.
func (a *app) right(auth string) bool {
	given, ok := credentials(auth)
	sum := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(sum[:], a.password[:]) == 1 && ok
}

// credentials returns the password in the value of an Authorization field.
func credentials(auth string) (string, bool) {
	// Token is the scheme of InfluxDB's clients.
	if scheme, token, ok := strings.Cut(auth, " "); ok && (strings.EqualFold(scheme, "Bearer") || strings.EqualFold(scheme, "Token")) {
		return strings.TrimLeft(token, " "), true
	}
	r := http.Request{Header: http.Header{"Authorization": {auth}}}
	_, password, ok := r.BasicAuth()
	return password, ok
}
