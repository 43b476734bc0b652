package account

import (
	"bytes"
	"embed"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

//go:embed pages
var pageFiles embed.FS

// builtIn returns the pages of this package by their names.
func builtIn() map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(template.FuncMap{"when": when}).ParseFS(pageFiles, "pages/layout.html"))
	names, err := pageFiles.ReadDir("pages")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	pages := map[string]*template.Template{}
	for _, f := range names {
		if strings.HasSuffix(f.Name(), ".html") && f.Name() != "layout.html" {
			name := strings.TrimSuffix(f.Name(), path.Ext(f.Name()))
			pages[name] = template.Must(template.Must(layout.Clone()).ParseFS(pageFiles, "pages/"+f.Name()))
		}
	}
	return pages
}

// when formats a time for pages and emails.
func when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2 January 2006, 15:04 UTC")
}

// noStore keeps account pages out of all caches.
func noStore(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// show responds with v to programs and with a page to browsers. For a nil v,
// programs get 204.
func (a *Account) show(c *web.Context, status int, name string, locals web.Locals, v any) error {
	if c.IsJSON() {
		if v == nil {
			return c.NoContent()
		}
		return c.JSON(status, v)
	}
	all := a.locals(c, name)
	maps.Copy(all, locals)
	page := "account/" + name
	if a.o.Views != nil && a.o.Views.Has(page) {
		return c.RenderOffered(status, page, all)
	}
	all["nonce"] = c.Nonce()
	inside := a.o.Views != nil && a.o.Views.HasLayout()
	part := "layout.html"
	if inside {
		part = "inside"
	}
	var b bytes.Buffer
	if err := a.pages[name].ExecuteTemplate(&b, part, all); err != nil {
		return engine.Errorf(engine.CodeInternal, "account: page %s: %w", name, err)
	}
	if inside {
		return c.RenderContents(status, page, template.HTML(b.String()), all) // escaped by the template
	}
	return c.HTML(status, b.String())
}

// locals returns the locals that every page gets.
func (a *Account) locals(c *web.Context, name string) web.Locals {
	all := web.Locals{
		"title": titles[name], "project_name": a.o.Name, "prefix": a.o.Prefix, "notice": notices[c.Query("done").String()], "problem": "",
		"faults": map[string]string{}, "next": "", "email": "", "logged_in": c.LoggedIn(), "mails": a.o.Mail != nil, "registers": a.o.RegisterPath,
		"keys": len(a.o.Scopes) > 0, "providers": a.providers, "page": name,
	}
	if a.registers() {
		all["registers"] = a.o.Prefix + "/register"
	}
	if a.o.Locals != nil {
		maps.Copy(all, a.o.Locals(c))
	}
	return all
}

// titles of the pages.
var titles = map[string]string{
	"login": "Log in", "code": "Two-factor authentication", "register": "Create an account", "sent": "Check your email", "verify": "Confirm your email address",
	"again": "Resend the confirmation email", "reset": "Reset your password", "reset-confirm": "Choose a new password", "overview": "Your account",
	"password": "Change your password", "email": "Change your email address", "totp": "Two-factor authentication", "enrol": "Set up two-factor authentication",
	"recovery": "Recovery codes", "sessions": "Where you're logged in", "keys": "API keys", "key": "Your new API key", "identities": "Linked logins",
	"go": "Redirecting",
}

// notices are the messages about the previous action, by the query parameter done.
var notices = map[string]string{
	"verified": "Your email address is confirmed.", "password": "Your password has been changed. You are logged out everywhere else.",
	"reset": "Your password has been changed. Log in with the new one.", "name": "Your name has been changed.", "totp-off": "Two-factor authentication is off.",
	"revoked": "The session has been ended.", "revoked-others": "All other sessions have been ended.", "key-revoked": "The API key has been revoked.",
	"linked": "The login is now linked to your account.", "unlinked": "The login is no longer linked to your account.", "logout": "You are logged out.",
}

// done responds to a successful action: programs get v, browsers a redirect to another
// page.
func (a *Account) done(c *web.Context, to string, status int, v any) error {
	switch {
	case !c.IsJSON():
		return c.Redirect(to)
	case v == nil:
		return c.NoContent()
	}
	return c.JSON(status, v)
}

// refuse responds to a form that failed: browsers see it again with the mistakes.
// It returns errors that the user cannot fix for the application to handle.
func (a *Account) refuse(c *web.Context, name string, locals web.Locals, err error) error {
	p := a.outcomes.Describe(err)
	if c.IsJSON() || p.Status >= http.StatusInternalServerError {
		return err
	}
	if after, ok := auth.RetryAfter(err); ok {
		c.Header().Set("Retry-After", strconv.Itoa(int(after/time.Second)))
	}
	all := web.Locals{"problem": sentence(p), "faults": web.FaultsOf(err), "notice": ""}
	maps.Copy(all, locals)
	return a.show(c, p.Status, name, all, nil)
}

// sentence turns a problem into the text that a page shows.
func sentence(p problem.Problem) string {
	text := p.Detail
	if len(p.Errors) > 1 || len(p.Errors) == 1 && p.Errors[0].Pointer != "" {
		text = "please check your input"
		for _, f := range p.Errors {
			text += "; " + strings.TrimPrefix(f.Pointer, "/") + ": " + f.Detail
		}
	}
	if text == "" {
		return p.Title
	}
	first, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[n:] + "."
}

// private makes a handler for logged-in users; other browsers are redirected to the login page.
func (a *Account) private(h func(c *web.Context, u auth.User) error) web.Handler {
	return func(c *web.Context) error {
		u, err := a.current(c)
		if engine.CodeOf(err) == engine.CodeUnauthenticated {
			next := a.o.Prefix
			if c.Request.Method == http.MethodGet {
				next = c.Request.URL.RequestURI()
			}
			return a.toLogin(c, next, err)
		}
		if err != nil {
			return err
		}
		return h(c, u)
	}
}

// toLogin redirects a browser to the login page, and from there to the path next. Programs get err.
func (a *Account) toLogin(c *web.Context, next string, err error) error {
	if c.IsJSON() {
		return err
	}
	return c.Redirect(a.LoginPath() + "?next=" + url.QueryEscape(next))
}

// current returns the user of the session or of the access token. A request with an API
// key has none: whatever its scopes, a key must not manage the account.
func (a *Account) current(c *web.Context) (auth.User, error) {
	if _, ok := KeyOf(c); ok {
		return auth.User{}, engine.Errorf(problem.CodeForbidden, "API keys cannot manage an account; log in instead")
	}
	id := userID(c)
	if id == "" {
		return auth.User{}, engine.Errorf(engine.CodeUnauthenticated, "nobody is logged in")
	}
	u, err := a.users.Get(c, engine.Read{Level: engine.Local}, id)
	if engine.CodeOf(err) == engine.CodeNotFound || err == nil && u.Disabled {
		return auth.User{}, engine.Errorf(engine.CodeUnauthenticated, "the user who was logged in was deleted or disabled")
	}
	return u, err
}

// userID returns the id of the user who is logged in, "" if nobody is.
func userID(c *web.Context) string {
	if d, ok := DeviceOf(c); ok {
		return d.User
	}
	return c.Session().User()
}

// sure checks the user's password, if there is one, before a change that would outlast
// the session: a session left open on a public computer must not give more than itself.
func (a *Account) sure(c *web.Context, u auth.User, password string) error {
	if !u.Password {
		return nil
	}
	if password == "" {
		return web.Wrong("/password", "is required")
	}
	err := a.users.ConfirmPassword(c, u.ID, password)
	if err != nil {
		a.happened(c, Event{Kind: GavePassword, User: u, Err: err})
	}
	return err
}
