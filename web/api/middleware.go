package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/gate"
	"github.com/skerrydb/skerry/web/hostname"
	"github.com/skerrydb/skerry/web/problem"
	"github.com/skerrydb/skerry/web/relay"
	"github.com/skerrydb/skerry/web/requestid"
)

// observe is the outermost middleware: it gives the request its exchange,
// counts and logs it, and turns a panic into an answer.
func (a *app) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := a.begin(w)
		if a.node != nil {
			x.Header()[nodeHeader] = a.node
		}
		a.metrics.inFlight.Inc()
		debugging := a.o.Logger.Enabled(r.Context(), slog.LevelDebug)
		if ids := r.Header["X-Request-Id"]; len(ids) == 1 && requestid.Good(ids[0]) {
			x.setRequestID(ids[0])
		} else if debugging {
			x.requestID()
		}
		defer func() {
			p := recover()
			if p != nil {
				p = x.recovered(r, p)
			}
			if x.fromNode {
				x.route = a.metrics.nodes
			}
			took := time.Since(x.start)
			x.route.observe(r.Method, x.status, took)
			a.metrics.inFlight.Dec()
			if debugging {
				x.log(r, took)
			}
			if p != nil {
				panic(p) // cuts the connection; x may still be in use
			}
			x.end()
		}()
		next.ServeHTTP(x, r)
	})
}

// passedOn marks requests that another node has passed on.
func passedOn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of(w).fromNode = true
		next.ServeHTTP(w, r)
	})
}

// operating marks requests of operators.
func operating(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of(w).operator = true
		next.ServeHTTP(w, r)
	})
}

// client is the address of who asks; for what another node has passed on it is
// the one that node saw.
func (x *exchange) client(r *http.Request) string {
	if by := r.Header[relay.ForwardedFor]; x.fromNode && len(by) > 0 {
		last := by[len(by)-1]
		return strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
	}
	return r.RemoteAddr
}

// recovered answers for a handler that panicked with p. It returns what to
// panic with if the connection must be cut off, or nil.
func (x *exchange) recovered(r *http.Request, p any) (again any) {
	x.kept = true // who knows what still points into it
	x.release()
	if p == http.ErrAbortHandler {
		x.status = 0 // what was begun does not count
		return p
	}
	defer func() {
		if recover() != nil {
			x.status = 0
			again = http.ErrAbortHandler
		}
	}()
	x.fail(r, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
	return nil
}

func (x *exchange) log(r *http.Request, took time.Duration) {
	x.app.o.Logger.LogAttrs(r.Context(), slog.LevelDebug, "request", append(x.attrs(r, nil),
		slog.Int("status", x.status), slog.Int64("bytes", x.sent), slog.Duration("took", took),
		slog.String("from", x.client(r)))...)
}

// attrs tell a request apart in the log. Headers and queries are left out:
// they can hold secrets.
func (x *exchange) attrs(r *http.Request, err error) []slog.Attr {
	as := []slog.Attr{
		slog.String("request_id", x.requestID()),
		slog.String("method", r.Method),
		slog.String("path", r.URL.EscapedPath()),
	}
	if err != nil {
		as = append(as, slog.Any("err", err))
	}
	return as
}

// levelOf is how loudly a 500 is logged.
func levelOf(code engine.Code) slog.Level {
	if code == engine.CodeOutcomeUnknown {
		return slog.LevelWarn // mostly a client that went away
	}
	return slog.LevelError
}

// open reports whether a path is answered to everybody.
func open(path string) bool { return path == "/healthz" || path == "/readyz" }

// authenticate asks for the password, if there is one.
func (a *app) authenticate(next http.Handler) http.Handler {
	if a.o.Password == "" {
		return next
	}
	// Sums have one length, so the comparison tells nothing about the
	// password's.
	want := sha256.Sum256([]byte(a.o.Password))
	right := func(r *http.Request) bool {
		given, ok := credentials(r)
		sum := sha256.Sum256([]byte(given))
		return subtle.ConstantTimeCompare(sum[:], want[:]) == 1 && ok
	}
	return handler(func(x *exchange, r *http.Request) error {
		if !open(r.URL.Path) {
			switch ok, looked := a.o.checks(r, right); {
			case !looked:
				x.Header()["Retry-After"] = []string{retryGuess}
				return engine.Errorf(problem.CodeRateLimited, "too many wrong passwords came from this address, and too many more wait; try again later")
			case !ok:
				x.Header()["Www-Authenticate"] = []string{`Basic realm="skerry", charset="UTF-8"`, `Bearer realm="skerry"`}
				return engine.Errorf(engine.CodeUnauthenticated, "%s", refusal(r))
			}
		}
		next.ServeHTTP(x, r)
		return nil
	})
}

// retryGuess is when a password that was not looked at may be given again, in seconds.
const retryGuess = "5"

// checks reports whether a request has the password. From an address that has given
// too many wrong ones that takes longer, or it is not looked at; but on a connection
// that has given the right one it is looked at at once.
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
		conn.SetKnown(ok) // a proxy's connection has requests of many
	}
	return ok, true
}

// credentials returns the password that a request offers.
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

func refusal(r *http.Request) string {
	if len(r.Header["Authorization"]) == 0 {
		return "a password is needed: Authorization: Bearer PASSWORD, or Basic with any user"
	}
	return "the password is wrong"
}

// checkHost refuses host names that may belong to a web page's own domain. See
// Options.Hosts.
func (a *app) checkHost(next http.Handler) http.Handler {
	if a.o.Password != "" {
		return next
	}
	return handler(func(x *exchange, r *http.Request) error {
		if !hostname.Trusted(r.Host, a.o.Hosts) && !open(r.URL.Path) {
			return engine.Errorf(problem.CodeHostRefused,
				"without a password this server answers only under an IP address, localhost, or one of the names that its setting hosts allows")
		}
		next.ServeHTTP(x, r)
		return nil
	})
}
