package web

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
)

// cookies are the names of the application's cookies. The prefix __Host- makes
// browsers refuse them from other hosts, from plain HTTP and for single paths.
type cookies struct {
	session, position           string // over HTTPS
	plainSession, plainPosition string // over plain HTTP, in debug mode only
	warned                      *warnOnce
}

func newCookies(o Options) cookies {
	return cookies{"__Host-" + o.Name + "-session", "__Host-" + o.Name + "-position", o.Name + "-session", o.Name + "-position", new(warnOnce)}
}

// plain reports whether r's cookies have no Secure attribute: browsers would not
// take it over plain HTTP.
func (x *exchange) plain(r *http.Request) bool { return x.app.o.Debug && !x.secure(r) }

func (x *exchange) sessionCookie(r *http.Request) string {
	if x.plain(r) {
		return x.app.cookie.plainSession
	}
	return x.app.cookie.session
}

// cookieValue returns the one cookie of that name; with none or several it is "".
func cookieValue(r *http.Request, name string) (value string) {
	for _, c := range r.CookiesNamed(name) {
		if value != "" {
			return ""
		}
		value = c.Value
	}
	return value
}

// loadSession reads the session of the request's cookie. A cookie of no use is the
// same as none, and stays: it is taken away by its name, so that a slow answer could
// take the one that a login has set meanwhile.
func (x *exchange) loadSession(r *http.Request) error {
	if x.session != nil || len(r.Header["Cookie"]) == 0 {
		return nil
	}
	token := cookieValue(r, x.sessionCookie(r))
	if token == "" {
		return nil
	}
	level := engine.Linearizable // which costs nothing without other nodes
	if x.app.relay != nil {
		level = engine.Local // the relay has waited for what this browser has written
	}
	s, err := x.app.o.Sessions.Load(r.Context(), token, engine.Read{Level: level})
	switch {
	case errors.Is(err, session.ErrNoSession):
		return nil
	case err != nil:
		return err
	}
	x.session, x.loaded = s, true
	return nil
}

// saveSession writes what the request has changed in its session and tells the
// browser of it.
func (x *exchange) saveSession() error {
	s := x.session
	if !s.NeedsSave() {
		x.tellSession("")
		return nil
	}
	changed := s.Changed()
	if changed && s.Label() == "" {
		s.Describe(x.label())
	}
	token, _, err := s.Save(x.r.Context())
	switch {
	case errors.Is(err, session.ErrNoSession) && !changed:
		// It was ended while it was used, which this answer need not know.
	case err != nil && !changed && !(errors.Is(err, engine.ErrNotLeader) && x.app.relay != nil && !x.fromNode):
		// That it was used could not be written down; the next request will.
		x.app.o.Logger.LogAttrs(x.r.Context(), slog.LevelDebug, "session not renewed", append(x.attrs(x.r), slog.Any("err", err))...)
	case err != nil:
		return err
	default:
		x.wrote = true
	}
	x.tellSession(token)
	return nil
}

// tellSession sets the cookie to a new token, or takes it away after a logout.
func (x *exchange) tellSession(token string) {
	gone := token == "" && x.loaded && !x.session.Stored()
	if token == "" && !gone {
		return
	}
	c := &http.Cookie{Name: x.sessionCookie(x.r), Value: token, Path: "/", HttpOnly: true, Secure: !x.plain(x.r), SameSite: http.SameSiteLaxMode}
	if c.MaxAge = int(x.app.o.Sessions.Absolute() / time.Second); gone {
		c.MaxAge = -1
	}
	if c.Secure && !x.secure(x.r) {
		x.app.cookie.warned.warn(x.app.o.Logger, "browsers keep the session cookie only over HTTPS: serve it (--tls-cert, or --acme-domains), name the proxy that does (--trusted-proxies, Options.TrustedProxies), or develop in debug mode")
	}
	http.SetCookie(x.w, c)
	x.w.Header().Add("Vary", "Cookie")
	if h := x.w.Header(); h.Get("Cache-Control") == "" || hasDirective(h, "public") || hasDirective(h, "s-maxage") {
		h["Cache-Control"] = []string{"no-store"} // a cookie must not be in a shared cache
	}
}

// SaveSession makes what the request has changed in its session durable now, instead
// of when the answer begins, and sets the cookie. Session.Save would not set it.
func (c *Context) SaveSession() error {
	if c.x.session == nil {
		return nil
	}
	return c.x.saveSession()
}

// dropSession forgets what the request has changed in its session and not saved.
func (x *exchange) dropSession() {
	if x.session != nil && x.session.NeedsSave() {
		x.session = nil
	}
}

// label describes the client in the list of a user's sessions.
func (x *exchange) label() string { return x.client(x.r) + " " + x.r.UserAgent() }
