package web

import (
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web/hostname"
	"github.com/skerrydb/skerry/web/problem"
)

// cookies are the names of the application's cookies. With the prefix __Host-, browsers refuse them from other
// hosts, over plain HTTP and for single paths.
type cookies struct {
	session, position           string // over HTTPS
	plainSession, plainPosition string // over plain HTTP, in debug mode only
	warned                      *warnOnce
}

func newCookies(o Options) cookies {
	return cookies{"__Host-" + o.Name + "-session", "__Host-" + o.Name + "-position", o.Name + "-session", o.Name + "-position", new(warnOnce)}
}

// plain reports whether r's cookies have no Secure attribute: browsers refuse it over plain HTTP.
func (x *exchange) plain(r *http.Request) bool {
	return (x.app.o.Debug || x.app.o.LoopbackCookies && x.fromHere(r)) && !x.secure(r)
}

// fromHere reports whether a client on this machine addresses it as a loopback address or localhost.
func (x *exchange) fromHere(r *http.Request) bool {
	from, err := netip.ParseAddr(x.client(r))
	return err == nil && from.IsLoopback() && hostname.Loopback(r.Host)
}

func (x *exchange) sessionCookie(r *http.Request) string {
	if x.plain(r) {
		return x.app.cookie.plainSession
	}
	return x.app.cookie.session
}

// cookieValue returns the only cookie of that name; with none or several it returns "".
func cookieValue(r *http.Request, name string) (value string) {
	for _, c := range r.CookiesNamed(name) {
		if value != "" {
			return ""
		}
		value = c.Value
	}
	return value
}

// loadSession reads the session of the request's cookie. An invalid cookie counts as none, but is not deleted:
// cookies are deleted by name, so a slow response could delete the one that a login has set meanwhile.
func (x *exchange) loadSession(r *http.Request) error {
	if x.session != nil || x.key != nil || len(r.Header["Cookie"]) == 0 {
		return nil
	}
	token := cookieValue(r, x.sessionCookie(r))
	if token == "" {
		return nil
	}
	s, err := x.loadFrom(r, x.app.o.Sessions, token)
	if s != nil {
		x.session, x.loaded = s, true
	}
	return err
}

// loadFrom returns the session of a token, nil if there is none. It reads linearizably, so that no node
// accepts a token whose end was acknowledged anywhere; without other nodes that costs nothing. For a session
// without a user, this node's own state is enough; before has already waited for what this browser has
// written.
func (x *exchange) loadFrom(r *http.Request, st *session.Store, token string) (*session.Session, error) {
	read := engine.Read{}
	if x.unconfirmed {
		read = engine.Read{Level: engine.Local, MaxStale: math.MaxInt64}
	} else if x.app.cluster != nil {
		s, err := st.Load(r.Context(), token, engine.Read{Level: engine.Local})
		if errors.Is(err, session.ErrNoSession) {
			return nil, nil
		} else if err != nil || s.User() == "" {
			return s, err
		}
	}
	s, err := st.Load(r.Context(), token, read)
	if errors.Is(err, session.ErrNoSession) {
		return nil, nil
	}
	return s, err
}

// saveSession writes the request's changes to its session and sets the browser's cookie.
func (x *exchange) saveSession() error {
	return x.keep(x.session, x.loaded, x.app.o.Sessions, http.Cookie{Name: x.sessionCookie(x.r)})
}

// keep writes the request's changes to a session of st, and sends the browser the cookie c, whose name and
// domain are already set. loaded reports whether the browser already has one.
func (x *exchange) keep(s *session.Session, loaded bool, st *session.Store, c http.Cookie) error {
	if !s.NeedsSave() || x.unconfirmed && !s.Changed() {
		x.setCookie("", loaded && !s.Stored(), st, c)
		return nil
	}
	changed := s.Changed()
	if changed && s.Label() == "" {
		s.Describe(x.label())
	}
	token, _, err := s.Save(x.r.Context())
	switch {
	case errors.Is(err, session.ErrNoSession) && !changed:
		// The session was ended while it was used, which this response need not report.
	case err != nil && !changed && !(errors.Is(err, engine.ErrNotLeader) && x.app.cluster != nil && !x.fromNode):
		// The use of the session could not be recorded; the next request will.
		x.app.o.Logger.LogAttrs(x.r.Context(), slog.LevelDebug, "session not renewed", append(x.attrs(x.r), slog.Any("err", err))...)
	case err != nil:
		return err
	default:
		x.wrote = true
	}
	if token != "" && x.status != 0 {
		return x.tooLate()
	}
	x.setCookie(token, loaded && !s.Stored(), st, c)
	return nil
}

// markPersonal keeps a response that depends on the user out of shared caches, and out of a browser's cache
// after somebody else has logged in. It keeps a Cache-Control of the handler, unless that allows shared caches
// to store the response.
func (x *exchange) markPersonal() {
	if !x.personal {
		return
	}
	h := x.w.Header()
	addVary(h, "Cookie")
	if x.key != nil {
		addVary(h, "Authorization")
	}
	switch now := h.Get("Cache-Control"); {
	case now == "":
		h["Cache-Control"] = []string{"private"}
	case !hasDirective(h, "private") && !hasDirective(h, "no-store") && !hasDirective(h, "public") && !hasDirective(h, "s-maxage"):
		h["Cache-Control"] = []string{now + ", private"}
	}
}

// setCookie sets a cookie to a new token, or deletes it if its session is gone.
func (x *exchange) setCookie(token string, gone bool, st *session.Store, c http.Cookie) {
	if gone = gone && token == ""; token == "" && !gone {
		return
	}
	c.Value, c.Path, c.HttpOnly, c.Secure, c.SameSite = token, "/", true, !x.plain(x.r), http.SameSiteLaxMode
	if c.MaxAge = int(st.Absolute() / time.Second); gone {
		c.MaxAge = -1
	}
	if c.Secure && !x.secure(x.r) {
		x.app.cookie.warned.warn(x.app.o.Logger, "browsers keep the session cookie only over HTTPS: serve it (--tls-cert, or --acme-domains), name the proxy that does (--trusted-proxies, Options.TrustedProxies), or develop in debug mode")
	}
	http.SetCookie(x.w, &c)
	addVary(x.w.Header(), "Cookie")
	if h := x.w.Header(); h.Get("Cache-Control") == "" || h.Get("Cache-Control") == "private" || hasDirective(h, "public") || hasDirective(h, "s-maxage") {
		h["Cache-Control"] = []string{"no-store"} // a cookie must not be in a shared cache
	}
}

// SaveSession makes the request's changes to its sessions durable now, instead of when the response begins,
// and sets the cookie, which Session.Save would not. After the response has begun, for example in a stream, it
// only saves changes to a session that was stored before. A session that then needs a cookie, such as a new
// one or any after a Login, is engine.CodeInternal, as the cookie can no longer be sent. A request with a bearer
// token (SetKey) has no session: changes to one are problem.CodeForbidden.
func (c *Context) SaveSession() error {
	x := c.x
	if x.key != nil {
		if x.session != nil && x.session.Changed() || x.global != nil && x.global.Changed() {
			x.dropSession()
			return engine.Errorf(problem.CodeForbidden, "a request with a bearer token has no session; log in without it")
		}
		return nil
	}
	if x.session == nil {
		return x.saveGlobal()
	}
	if x.status != 0 && x.session.Changed() && !x.session.Stored() && !x.loaded {
		x.session = nil // it is not reported twice
		return x.tooLate()
	}
	if err := x.saveSession(); err != nil {
		return err
	}
	return x.saveGlobal()
}

// dropSession discards the request's unsaved changes to its session.
func (x *exchange) dropSession() {
	if x.session != nil && x.session.NeedsSave() {
		x.session = nil
	}
	if x.global != nil && x.global.NeedsSave() {
		x.global = nil
	}
}

// label describes the client in the list of a user's sessions.
func (x *exchange) label() string { return x.client(x.r) + " " + x.r.UserAgent() }
