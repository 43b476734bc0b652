package account

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// MaxKeyDays is the longest lifetime of an API key that expires, in days.
const MaxKeyDays = 3650

// keyInContext is the context key of a request's API key.
type keyInContext struct{}

// KeyOf returns the API key of a request, if it has one. It is for handlers behind Keys.
func KeyOf(ctx context.Context) (auth.Key, bool) {
	k, ok := ctx.Value(keyInContext{}).(auth.Key)
	return k, ok
}

// Keys is middleware for web.App.Use that accepts API keys and access tokens. New adds
// it if Options.TokenPrefix is set. A request with Authorization: Bearer acts as the
// user of the key or token; its cookies are ignored. An unknown, expired or revoked one
// is engine.CodeUnauthenticated or auth.CodeTokenExpired. Once a revocation is
// acknowledged, no node accepts the key or token. A key opens only routes behind
// RequireScope; all others refuse it. A token opens what a session does.
func Keys(users *auth.Auth) web.Middleware {
	return func(next http.Handler) http.Handler {
		return web.Handler(func(c *web.Context) error {
			text, ok := web.Bearer(c.Request)
			if _, done := c.Value(checked{}).(bool); !ok || done {
				next.ServeHTTP(c.Writer, c.Request)
				return nil
			}
			authenticate := byKey
			if users.IsAccessToken(text) {
				authenticate = byToken
			}
			who, err := authenticate(c, users, text)
			if err != nil {
				switch engine.CodeOf(err) {
				case engine.CodeUnauthenticated, auth.CodeTokenExpired:
					c.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
				}
				return err
			}
			r := c.Request.Clone(context.WithValue(who, checked{}, true))
			r.Header.Del("Cookie")
			next.ServeHTTP(c.Writer, r)
			return nil
		})
	}
}

// checked is the context key that marks requests that Keys has authenticated.
type checked struct{}

// byKey authenticates a request with an API key, which the context has from then on.
func byKey(c *web.Context, users *auth.Auth, text string) (context.Context, error) {
	u, key, err := users.CheckKey(c, engine.Read{}, text)
	if err != nil {
		return nil, err
	}
	c.SetKey(faceOf(u), web.Key{Allows: key.Allows, Valid: func(ctx context.Context) error {
		_, _, err := users.CheckKey(ctx, engine.Read{Level: engine.Local}, text)
		return err
	}})
	return context.WithValue(c.Request.Context(), keyInContext{}, key), nil
}

// byToken authenticates a request with an access token; the context has its device from
// then on. A stream outlives the token, but not the device.
func byToken(c *web.Context, users *auth.Auth, text string) (context.Context, error) {
	u, device, err := users.CheckAccess(c, engine.Read{}, text)
	if err != nil {
		return nil, err
	}
	c.SetKey(faceOf(u), web.Key{Login: true, Valid: func(ctx context.Context) error {
		return users.CheckDevice(ctx, engine.Read{Level: engine.Local}, device.ID)
	}})
	return context.WithValue(c.Request.Context(), deviceInContext{}, device), nil
}

// RequireScope is web.RequireScope.
func RequireScope(scope string) web.Middleware { return web.RequireScope(scope) }

// apiKey is a key in JSON responses.
type apiKey struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Scopes  []string   `json:"scopes"`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires"` // null: never
	Used    *time.Time `json:"used"`    // null: never
	Key     string     `json:"key,omitempty"`
}

func apiKeyOf(k auth.Key) apiKey {
	out := apiKey{ID: k.ID, Name: k.Name, Scopes: append([]string{}, k.Scopes...), Created: k.Created}
	if !k.Expires.IsZero() {
		out.Expires = &k.Expires
	}
	if !k.Used.IsZero() {
		out.Used = &k.Used
	}
	return out
}

func (a *Account) keyLocals(c *web.Context, u auth.User) (web.Locals, []apiKey, error) {
	list, err := a.users.ListKeys(c, engine.Read{Level: engine.Local}, u.ID)
	if err != nil {
		return nil, nil, err
	}
	keys := make([]apiKey, len(list))
	for i, k := range list {
		keys[i] = apiKeyOf(k)
	}
	return web.Locals{"me": meOf(u), "list": list, "scopes": a.o.Scopes}, keys, nil
}

func (a *Account) keysPage(c *web.Context, u auth.User) error {
	locals, keys, err := a.keyLocals(c, u)
	if err != nil {
		return err
	}
	return a.show(c, http.StatusOK, "keys", locals, struct {
		Keys   []apiKey `json:"keys"`
		Scopes []string `json:"scopes"`
	}{keys, a.o.Scopes})
}

// createKey creates a key and shows it, only this once.
func (a *Account) createKey(c *web.Context, u auth.User) error {
	var in struct {
		Name     string   `json:"name"`
		Scopes   []string `json:"scopes"`
		Days     int      `json:"days,omitempty"`
		Password string   `json:"password,omitempty"`
	}
	err := c.Bind(&in)
	if err == nil {
		err = a.checkKey(in.Name, in.Scopes, in.Days)
	}
	if err == nil {
		err = a.sure(c, u, in.Password)
	}
	var expires time.Time
	if in.Days > 0 {
		expires = a.o.Now().Add(time.Duration(in.Days) * 24 * time.Hour)
	}
	var text string
	var key auth.Key
	if err == nil {
		text, key, err = a.users.CreateKey(c, u.ID, in.Name, in.Scopes, expires)
	}
	if err != nil {
		locals, _, other := a.keyLocals(c, u)
		if other != nil {
			return other
		}
		return a.refuse(c, "keys", locals, err)
	}
	a.notify(c, KeyCreated, u.Email, u)
	made := apiKeyOf(key)
	made.Key = text
	return a.show(c, http.StatusCreated, "key", web.Locals{"key": text, "made": key}, made)
}

// checkKey validates the form for a new key.
func (a *Account) checkKey(name string, scopes []string, days int) error {
	if strings.TrimSpace(name) == "" {
		return web.Wrong("/name", "is required")
	}
	if len(scopes) == 0 {
		return web.Wrong("/scopes", "choose at least one; a key without scopes cannot do anything")
	}
	for _, s := range scopes {
		if !slices.Contains(a.o.Scopes, s) {
			return web.Wrong("/scopes", "%.80q is not one of %s", s, strings.Join(a.o.Scopes, ", "))
		}
	}
	if days < 0 || days > MaxKeyDays {
		return web.Wrong("/days", "must be 0 to %d; 0 means that the key does not expire", MaxKeyDays)
	}
	return nil
}

func (a *Account) revokeKey(c *web.Context, u auth.User) error {
	var in struct {
		ID string `json:"id"`
	}
	if err := c.Bind(&in); err != nil {
		return err
	}
	if err := a.users.RevokeKey(c, u.ID, in.ID); err != nil {
		return err
	}
	return a.done(c, a.to("/keys", "key-revoked"), http.StatusNoContent, nil)
}
