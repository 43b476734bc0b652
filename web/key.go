package web

import (
	"context"
	"net/http"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// Key describes what a request with a bearer token, instead of a session, may do.
type Key struct {
	// Login means that the token is as good as a session of its user, as the token of a mobile app is. It opens
	// every route, and its user may be a superadmin. Otherwise it is an API key, which opens only routes that name
	// a scope.
	Login bool

	// Allows reports whether the key may be used for a scope. Nil: for none.
	Allows func(scope string) bool

	// Valid returns nil as long as the key has not ended. Streams of events call it every StreamCheck. Nil: the
	// key does not end during a request.
	Valid func(ctx context.Context) error
}

// key is the bearer token of one request.
type key struct {
	Key
	user    User
	granted bool // it is a login, or a RequireScope of the route has accepted it
	own     bool // the handler of the route asks Limit
	again   bool // the user must be looked up again
}

// SetKey authenticates the request as one with a bearer token of u. It is for middleware that checks tokens. The
// request has no session from then on, whatever its cookies are: what a handler puts into one is lost, and the
// response sets no cookies. Every route that is not behind RequireScope or OwnScopes refuses an API key with
// problem.CodeForbidden. An API key never makes its owner a superadmin.
func (c *Context) SetKey(u User, k Key) {
	x := c.x
	x.key = &key{Key: k, user: u, granted: k.Login}
	x.user, x.session, x.loaded, x.global, x.globalLoaded = nil, nil, false, nil, false
}

// RequireScope is middleware that accepts users who are logged in, and API keys that allow the scope. Another
// key is problem.CodeForbidden, and a request with neither is engine.CodeUnauthenticated. Put it outside of
// RequireUser, which refuses keys unless a RequireScope has accepted them.
func RequireScope(scope string) Middleware {
	return func(next http.Handler) http.Handler {
		return Handler(func(c *Context) error {
			if k := c.x.key; k != nil && !k.Login {
				if k.Allows == nil || !k.Allows(scope) {
					c.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+scope+`"`)
					return engine.Errorf(problem.CodeForbidden, "the API key lacks the scope %s", scope)
				}
				k.granted = true
			}
			if _, err := c.User(); err != nil {
				if engine.CodeOf(err) == engine.CodeUnauthenticated {
					c.Header().Set("WWW-Authenticate", "Bearer")
				}
				return err
			}
			next.ServeHTTP(c.Writer, c.Request)
			return nil
		})
	}
}

// OwnScopes is middleware for routes whose handlers decide with Context.Limit what an API key may do: it accepts all
// keys.
func OwnScopes(next http.Handler) http.Handler {
	return Handler(func(c *Context) error {
		if k := c.x.key; k != nil {
			k.own = true
		}
		next.ServeHTTP(c.Writer, c.Request)
		return nil
	})
}

// Limit reports for handlers behind OwnScopes which scopes the request may use. Nil: it is not limited by scopes,
// because it has no API key, or one that a RequireScope has accepted.
func (c *Context) Limit() (allows func(scope string) bool) {
	k := c.x.key
	switch {
	case k == nil || k.granted:
		return nil
	case k.Allows == nil:
		return func(string) bool { return false }
	}
	return k.Allows
}

// refused reports whether the request came with a key that neither a RequireScope nor the handler has accepted.
func (k *key) refused() bool { return k != nil && !k.granted && !k.own }

// errKeyRefused is the error of a route without a scope.
func errKeyRefused() error {
	return engine.Errorf(problem.CodeForbidden, "API keys are not accepted here: the route names no scope")
}

// guarded is the handler of a route, inside all middleware and so inside every RequireScope.
type guarded struct{ http.Handler }

// ServeHTTP implements http.Handler.
func (g guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if x := of(w); x.key.refused() {
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
		x.fail(w, r, errKeyRefused())
		return
	}
	g.Handler.ServeHTTP(w, r)
}
