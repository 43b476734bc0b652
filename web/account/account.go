// Package account is the HTTP face of auth. It has the routes, pages and emails with
// which users of an application register, log in and out, and manage their accounts,
// and middleware for API keys and access tokens.
//
// It knows addresses, forms, pages and the content of emails; it must not know how
// secrets are stored or checked, which is auth's job, or how email is sent.
// docs/account.md is the guide.
package account

import (
	"cmp"
	"context"
	"html/template"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/auth/oidc"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
	"github.com/skerrydb/skerry/web/view"
)

// MaxFormBytes is the longest body of a request to this package's routes.
const MaxFormBytes = 64 << 10

// DefaultPrefix is the default of Options.Prefix.
const DefaultPrefix = "/account"

// Options of New. Sessions is required, and BaseURL with Mail or Providers.
type Options struct {
	// Sessions is the store of web.Options and auth.Options. A changed password ends
	// sessions in the same transaction only if auth has the store too.
	Sessions *session.Store

	// Mail sends the emails. It must not wait for a mail server (mail.SMTP and
	// mail.Outbox do not): the response time would reveal whether an email was sent.
	// If nil, users cannot register, verify or change an address, or reset a password:
	// these routes do not exist, and New logs a warning unless Closed is set.
	Mail mail.Sender

	// BaseURL is the application's address for browsers: https://host[:port], without a
	// path. Links in emails begin with it, never with a host from a request.
	BaseURL string

	// Prefix of all addresses; "" is DefaultPrefix.
	Prefix string

	// Name of the application in pages and emails; "" is web.DefaultName.
	Name string

	// Views are those of web.Options. If they have a layout, this package's pages use
	// it; a view named account/login, for example, replaces that page. If nil, this
	// package's pages have their own layout.
	Views *view.Views

	// Locals, if set, returns further locals that the layout uses on every page, such as
	// the name of the logged-in user.
	Locals func(c *web.Context) web.Locals

	// RegisterPath is the path of the application's own registration page, to which the
	// login page links. "" means this package's page, if Mail is set and Closed is not.
	RegisterPath string

	// Closed leaves creating accounts to administrators (auth.Create): users cannot
	// register, and a login by a provider is refused if there is no account for it.
	Closed bool

	// AfterLogin is the path to which a login redirects if the request has no next;
	// "" means "/".
	AfterLogin string

	// Fields are further fields of the registration form besides email and password,
	// such as a name.
	Fields []Field

	// Providers are OpenID Connect providers that users can log in with.
	Providers []Provider

	// Scopes are the scopes that API keys can have. If empty, users cannot create keys.
	Scopes []string

	// TokenPrefix is the prefix of the routes at which programs such as mobile apps log in
	// and get tokens instead of a session, for example "/api/auth". "": there are none.
	TokenPrefix string

	// Now is the clock for the expiry of new API keys; nil means time.Now.
	Now func() time.Time

	// OnEvent, if set, is called after logins, logouts and changes of passwords, second factors and sessions by their users, and
	// after attempts with a wrong secret, before the response. It must be fast, and bound what it keeps of attempts.
	OnEvent func(c *web.Context, e Event)

	// Email, if set, returns the message to send in place of the given one. Its Kind is
	// one of auth's kinds or of this package's Notices.
	Email func(Email) mail.Message
}

// Provider is one OpenID Connect provider.
type Provider struct {
	ID    string // in addresses: 1 to 32 of a–z, 0–9 and -
	Title string // on the button; "" means ID
	// OIDC configures the provider. RedirectURL defaults to BaseURL, Prefix, /oidc/, ID
	// and /callback. Register that address at the provider.
	OIDC oidc.Options
}

// Account is the face of one auth.Auth in one application. It is safe for concurrent
// use.
type Account struct {
	users     *auth.Auth
	o         Options
	providers []provider
	outcomes  problem.Outcomes
	pages     map[string]*template.Template
	emails    *template.Template
	form      reflect.Type // of what registering reads
	nowhere   *mail.Outbox // takes emails that there are none of, with the same work
}

// provider is a configured Provider.
type provider struct {
	ID, Title string
	oidc      *oidc.Provider
}

// New adds the routes to app. All invalid options are reported together, as one
// engine.CodeInvalid. web.Options.User should be User(users).
func New(app *web.App, users *auth.Auth, o Options) (*Account, error) {
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.Name = cmp.Or(o.Name, web.DefaultName)
	o.AfterLogin = cmp.Or(o.AfterLogin, "/")
	o.Fields = slices.Clone(o.Fields) // check fills in defaults
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	a := &Account{users: users, o: o, outcomes: problem.All(errorCatalogs()...), pages: builtIn(), emails: emailPage(), nowhere: mail.NewOutbox(1), form: o.registerForm()}
	for _, p := range o.Providers {
		p.OIDC.RedirectURL = cmp.Or(p.OIDC.RedirectURL, o.BaseURL+o.Prefix+"/oidc/"+p.ID+"/callback")
		asked, err := oidc.New(p.OIDC)
		if err != nil {
			return nil, err
		}
		a.providers = append(a.providers, provider{p.ID, cmp.Or(p.Title, p.ID), asked})
	}
	a.addRoutes(app)
	if o.TokenPrefix != "" {
		app.Use(Keys(users))
		a.addTokenRoutes(app)
	}
	app.AddErrors(errorCatalogs()...)
	app.LoginAt(a.LoginPath())
	if o.Mail == nil && !o.Closed && o.RegisterPath == "" {
		app.Logger().Warn("account: Options.Mail is not set: users cannot register, verify an address or reset a password")
	}
	return a, nil
}

// errorCatalogs returns the codes that this package returns besides those of web.
func errorCatalogs() [][]engine.Meaning {
	return [][]engine.Meaning{auth.Catalog(), oidc.Catalog(), mail.Catalog(), session.Catalog()}
}

// check reports all invalid options together.
func (o *Options) check() error {
	var wrong []string
	if o.Sessions == nil {
		wrong = append(wrong, "Sessions is not set")
	}
	if !isPrefix(o.Prefix) {
		wrong = append(wrong, "Prefix must be a path like /account")
	}
	if o.TokenPrefix != "" && (!isPrefix(o.TokenPrefix) || o.TokenPrefix == o.Prefix) {
		wrong = append(wrong, "TokenPrefix must be a path like /api/auth, and not Prefix")
	}
	if o.RegisterPath != "" && !isPath(o.RegisterPath) {
		wrong = append(wrong, "RegisterPath must be a path of the application")
	}
	if !isPath(o.AfterLogin) {
		wrong = append(wrong, "AfterLogin must be a path of the application")
	}
	u, err := url.Parse(o.BaseURL)
	switch {
	case o.BaseURL == "" && (o.Mail != nil || len(o.Providers) > 0):
		wrong = append(wrong, "BaseURL is not set, and Mail and Providers need it: set --base-url")
	case o.BaseURL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || o.BaseURL != u.Scheme+"://"+u.Host):
		wrong = append(wrong, "BaseURL must be https://host[:port] and nothing else")
	}
	wrong = append(wrong, o.checkFields()...)
	seen := map[string]bool{}
	for _, p := range o.Providers {
		if p.ID == "" || len(p.ID) > 32 || strings.Trim(p.ID, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || seen[p.ID] {
			wrong = append(wrong, "the ID "+p.ID+" of a provider must be unique and have 1 to 32 of a–z, 0–9 and -")
		}
		seen[p.ID] = true
	}
	if wrong != nil {
		return engine.Errorf(engine.CodeInvalid, "account: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// isPrefix reports whether p is a valid prefix of routes.
func isPrefix(p string) bool {
	return isPath(p) && !strings.HasSuffix(p, "/") && !strings.ContainsAny(p, "{}")
}

// isPath reports whether p is a valid path for an option.
func isPath(p string) bool {
	return strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "//") && !strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' })
}

// addRoutes adds the routes that the options enable.
func (a *Account) addRoutes(app *web.App) {
	get := func(path string, h web.Handler) { app.Get(a.o.Prefix+path, h, noStore) }
	limit := web.BodyLimit(MaxFormBytes)
	post := func(path string, h web.Handler) { app.Post(a.o.Prefix+path, h, noStore, limit) }
	get("", a.private(a.overview))
	get("/login", a.loginPage)
	post("/login", a.login)
	post("/login/code", a.loginCode)
	post("/logout", a.logout)
	get("/password", a.private(a.passwordPage))
	post("/password", a.private(a.password))
	post("/name", a.private(a.name))
	get("/totp", a.private(a.totpPage))
	post("/totp/enrol", a.private(a.enrol))
	post("/totp/confirm", a.private(a.confirm))
	post("/totp/disable", a.private(a.disable))
	post("/totp/codes", a.private(a.codes))
	get("/sessions", a.private(a.sessions))
	post("/sessions/revoke", a.private(a.revoke))
	post("/sessions/revoke-others", a.private(a.revokeOthers))
	if a.o.Mail != nil {
		if a.registers() {
			get("/register", a.registerPage)
			post("/register", a.register)
		}
		get("/sent", a.sentPage)
		get("/verify", a.verifyPage)
		post("/verify", a.verify)
		get("/verify/again", a.againPage)
		post("/verify/again", a.again)
		get("/reset", a.resetPage)
		post("/reset", a.reset)
		get("/reset/confirm", a.resetConfirmPage)
		post("/reset/confirm", a.resetConfirm)
		get("/email", a.private(a.emailPage))
		post("/email", a.private(a.email))
	}
	if len(a.o.Scopes) > 0 {
		get("/keys", a.private(a.keysPage))
		post("/keys", a.private(a.createKey))
		post("/keys/revoke", a.private(a.revokeKey))
	}
	if len(a.providers) > 0 {
		post("/oidc/{provider}", a.begin)
		get("/oidc/{provider}/callback", a.callback)
		get("/identities", a.private(a.identities))
		post("/identities/unlink", a.private(a.unlink))
	}
}

// registers reports whether this package has a registration page.
func (a *Account) registers() bool { return a.o.Mail != nil && !a.o.Closed && a.o.RegisterPath == "" }

// LoginPath is the path of the login page, for web.RequireUser.
func (a *Account) LoginPath() string { return a.o.Prefix + "/login" }

// RequireUser is web.RequireUser with this package's login page.
func (a *Account) RequireUser() web.Middleware { return web.RequireUser(a.LoginPath()) }

// User returns a function for web.Options.User: it finds users by the ids in
// sessions. A deleted or disabled user is engine.ErrNotFound.
func User(users *auth.Auth) func(ctx context.Context, id string) (web.User, error) {
	return UserAt(users, func() engine.Read { return engine.Read{Level: engine.Local} })
}

// UserAt is User that reads as read says.
func UserAt(users *auth.Auth, read func() engine.Read) func(ctx context.Context, id string) (web.User, error) {
	return func(ctx context.Context, id string) (web.User, error) {
		u, err := users.Get(ctx, read(), id)
		if err != nil {
			return web.User{}, err
		}
		if u.Disabled {
			return web.User{}, engine.Errorf(engine.CodeNotFound, "the account is disabled")
		}
		return faceOf(u), nil
	}
}

// faceOf converts a user for package web.
func faceOf(u auth.User) web.User {
	return web.User{ID: u.ID, Name: u.Name, Email: u.Email, Verified: u.Verified(), Roles: slices.Clone(u.Roles)}
}
