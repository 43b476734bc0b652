// Package account is the HTTP face of auth: routes, pages and letters by which the
// users of an application register, log in and out, and look after their accounts,
// and middleware for API keys.
//
// It knows addresses, forms, what is said to whom, and what is mailed; it must not
// know how secrets are kept or checked, which is auth's, nor how mail is sent.
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

// DefaultPrefix is Options.Prefix if that is empty.
const DefaultPrefix = "/account"

// Options of New. Sessions is required, and BaseURL with Mail or Providers.
type Options struct {
	// Sessions are those of web.Options and of auth.Options: a changed password ends
	// them in one transaction only if auth has them too.
	Sessions *session.Store

	// Mail sends the letters, without waiting for a mail server, as mail.SMTP and
	// mail.Outbox do: who waits for the answer could else tell whether there is a
	// letter. Nil: nobody can register, verify or change an address, or reset a
	// password, and these routes are not there, which New warns of unless Closed is set.
	Mail mail.Sender

	// BaseURL is where browsers find the application: https://host[:port], without a
	// path. Links in letters begin with it, never with what a request says.
	BaseURL string

	// Prefix of all addresses; "" is DefaultPrefix.
	Prefix string

	// Name of the application in pages and letters; "" is web.DefaultName.
	Name string

	// Views are those of web.Options. If they have a layout, the pages of this package
	// are shown in it; a view that is called account/login, say, takes the place of
	// that page. Nil: the pages are whole pages of this package.
	Views *view.Views

	// Locals, if set, returns what the layout uses on every page besides what package
	// web gives it, such as the name of who is logged in.
	Locals func(c *web.Context) web.Locals

	// RegisterPath is the path of the application's own page that makes accounts, to
	// which the login page links. "": this package's, if Mail is set and Closed is not.
	RegisterPath string

	// Closed leaves making accounts to administrators (auth.Create): nobody registers,
	// and a login by a provider is refused to who has none.
	Closed bool

	// AfterLogin is the path that a login leads to, if it was not asked for another
	// one; "" is "/".
	AfterLogin string

	// Fields are what the page of registering asks for besides email and password, such
	// as a name.
	Fields []Field

	// Providers can be logged in by.
	Providers []Provider

	// Scopes are what API keys can be made for. Empty: users make none.
	Scopes []string

	// Now is the clock by which API keys are made to end; nil means time.Now.
	Now func() time.Time

	// Letter, if set, may change a message, or write another one, before it is sent. A
	// letter's Kind is a kind of auth's, or one of this package's Notices.
	Letter func(Letter) mail.Message
}

// Provider is one OpenID Connect provider.
type Provider struct {
	ID    string // in addresses: 1 to 32 of a–z, 0–9 and -
	Title string // on the button; "" is ID
	// OIDC says how it is asked. An empty RedirectURL becomes what has to be
	// registered there: BaseURL, Prefix, /oidc/, ID and /callback.
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
	letters   *template.Template
	form      reflect.Type // of what registering reads
	nowhere   *mail.Outbox // takes letters that there are none of, with the same work
}

// provider is a Provider that can be asked.
type provider struct {
	ID, Title string
	oidc      *oidc.Provider
}

// New adds the routes to app. Options that make no sense are engine.CodeInvalid,
// naming all that does not. web.Options.User should be User(users).
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
	a := &Account{users: users, o: o, outcomes: problem.All(errorCatalogs()...), pages: builtIn(), letters: letterPage(), nowhere: mail.NewOutbox(1), form: o.registerForm()}
	for _, p := range o.Providers {
		p.OIDC.RedirectURL = cmp.Or(p.OIDC.RedirectURL, o.BaseURL+o.Prefix+"/oidc/"+p.ID+"/callback")
		asked, err := oidc.New(p.OIDC)
		if err != nil {
			return nil, err
		}
		a.providers = append(a.providers, provider{p.ID, cmp.Or(p.Title, p.ID), asked})
	}
	a.addRoutes(app)
	app.AddErrors(errorCatalogs()...)
	app.LoginAt(a.LoginPath())
	if o.Mail == nil && !o.Closed && o.RegisterPath == "" {
		app.Logger().Warn("account: without Mail nobody can register, verify an address or reset a password")
	}
	return a, nil
}

// errorCatalogs are the codes that handlers of this package return besides web's.
func errorCatalogs() [][]engine.Meaning {
	return [][]engine.Meaning{auth.Catalog(), oidc.Catalog(), mail.Catalog(), session.Catalog()}
}

// check says all that is wrong.
func (o *Options) check() error {
	var wrong []string
	if o.Sessions == nil {
		wrong = append(wrong, "Sessions is not set")
	}
	if !strings.HasPrefix(o.Prefix, "/") || strings.HasSuffix(o.Prefix, "/") || strings.ContainsAny(o.Prefix, "{}") || !isPath(o.Prefix) {
		wrong = append(wrong, "Prefix must be a path like /account")
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
		wrong = append(wrong, "BaseURL is not set, and Mail and Providers need it: a server has it from its setting base-url")
	case o.BaseURL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || o.BaseURL != u.Scheme+"://"+u.Host):
		wrong = append(wrong, "BaseURL must be https://host[:port] and nothing else")
	}
	wrong = append(wrong, o.checkFields()...)
	seen := map[string]bool{}
	for _, p := range o.Providers {
		if p.ID == "" || len(p.ID) > 32 || strings.Trim(p.ID, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || seen[p.ID] {
			wrong = append(wrong, "the ID "+p.ID+" of a provider must be 1 to 32 of a–z, 0–9 and -, and its own")
		}
		seen[p.ID] = true
	}
	if wrong != nil {
		return engine.Errorf(engine.CodeInvalid, "account: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// isPath reports whether p is a path as the program may give one.
func isPath(p string) bool {
	return strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "//") && !strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' })
}

// addRoutes adds what the options ask for.
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

// registers reports whether this package has a page that makes accounts.
func (a *Account) registers() bool { return a.o.Mail != nil && !a.o.Closed && a.o.RegisterPath == "" }

// LoginPath is the path of the login page, for web.RequireUser.
func (a *Account) LoginPath() string { return a.o.Prefix + "/login" }

// RequireUser is web.RequireUser with this login page.
func (a *Account) RequireUser() web.Middleware { return web.RequireUser(a.LoginPath()) }

// User returns what web.Options.User has to be: it finds users by the ids that
// sessions hold. Who is deleted or disabled is engine.ErrNotFound.
func User(users *auth.Auth) func(ctx context.Context, id string) (web.User, error) {
	return func(ctx context.Context, id string) (web.User, error) {
		u, err := users.Get(ctx, engine.Read{Level: engine.Local}, id)
		if err != nil {
			return web.User{}, err
		}
		if u.Disabled {
			return web.User{}, engine.Errorf(engine.CodeNotFound, "the account is disabled")
		}
		return faceOf(u), nil
	}
}

// faceOf is a user as package web knows them.
func faceOf(u auth.User) web.User {
	return web.User{ID: u.ID, Name: u.Name, Email: u.Email, Verified: u.Verified(), Roles: slices.Clone(u.Roles)}
}
