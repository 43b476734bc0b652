package web

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// User is the logged-in user, as pages and handlers see it.
type User struct {
	ID       string
	Name     string
	Email    string
	Verified bool     // the email address was verified
	Roles    []string // must not be modified
}

// Has reports whether the user has a role.
func (u *User) Has(role string) bool { return slices.Contains(u.Roles, role) }

// User returns the logged-in user, or engine.CodeUnauthenticated if there is none. The user is looked up once
// per request, and again after a Login or Logout.
func (c *Context) User() (*User, error) { return c.x.whoIs(c.Request) }

// LookAgain makes the next call of User look up the user of the session or of the bearer token again, for handlers
// that run for long.
func (c *Context) LookAgain() {
	if c.x.key != nil {
		c.x.key.again = c.x.app.o.User != nil
	}
	if c.x.userOf != "" {
		c.x.user, c.x.userOf = nil, ""
	}
}

// SetUser sets the user of the request. It is for middleware that authenticates without a session, for example
// by a client certificate. The user may then do everything; for API keys, which may not, use SetKey.
func (c *Context) SetUser(u User) { c.x.user, c.x.userOf = &u, "" }

// LoggedIn reports whether the session belongs to a user. It does not check whether that user still exists;
// User does.
func (c *Context) LoggedIn() bool {
	c.x.personal = true
	return c.x.known() != nil || c.x.key != nil && !c.x.key.refused() || c.x.key == nil && c.x.session != nil && c.x.session.User() != ""
}

// known returns the user that was looked up before, unless the handler has logged in another one or logged out
// since.
func (x *exchange) known() *User {
	if x.key != nil && !x.key.refused() {
		if x.key.again {
			return nil
		}
		return &x.key.user
	}
	if x.user == nil || x.userOf == "" || x.session == nil || x.session.User() == x.userOf {
		return x.user
	}
	return nil
}

func (x *exchange) whoIs(r *http.Request) (*User, error) {
	x.personal = true
	if u := x.known(); u != nil {
		return u, nil
	}
	if x.key.refused() {
		return nil, errKeyRefused()
	}
	if x.key != nil {
		u, err := x.find(r, x.key.user.ID)
		if err != nil {
			return nil, err
		}
		x.key.user, x.key.again = u, false
		return &x.key.user, nil
	}
	if x.session == nil || x.session.User() == "" {
		return nil, engine.Errorf(engine.CodeUnauthenticated, "nobody is logged in")
	}
	u, err := x.find(r, x.session.User())
	if err != nil {
		return nil, err
	}
	x.user, x.userOf = &u, x.session.User()
	return x.user, nil
}

// find returns the user with an id.
func (x *exchange) find(r *http.Request, id string) (User, error) {
	find := x.app.o.User
	if find == nil {
		return User{ID: id}, nil
	}
	u, err := find(r.Context(), id)
	if errors.Is(err, engine.ErrNotFound) {
		return User{}, engine.Errorf(engine.CodeUnauthenticated, "the user of this session no longer exists")
	}
	return u, err
}

// IsSuperadmin reports whether the logged-in user has verified one of the addresses of Options.Superadmins. It
// is false for a request with an API key (SetKey).
func (c *Context) IsSuperadmin() bool { return c.x.isSuperadmin(c.Request) }

func (x *exchange) isSuperadmin(r *http.Request) bool {
	if len(x.app.o.Superadmins) == 0 || x.key != nil && !x.key.Login {
		return false
	}
	u, err := x.whoIs(r)
	return err == nil && u.Verified && slices.ContainsFunc(x.app.o.Superadmins, func(s string) bool { return strings.EqualFold(s, u.Email) })
}

// RequireUser is middleware that accepts only logged-in users. It redirects the browsers of others to the path
// login, or if that is "" to the path of App.LoginAt.
func RequireUser(login string) Middleware {
	return func(next http.Handler) http.Handler {
		return Handler(func(c *Context) error {
			_, err := c.User()
			if err == nil {
				next.ServeHTTP(c.Writer, c.Request)
				return nil
			}
			if to := c.x.loginPage(c.Request, login, err); to != "" {
				return c.Redirect(to)
			}
			return err
		})
	}
}

// loginPage returns where to redirect a browser whose request failed with err: to the login page at the path
// login, and from there back to where it was. It returns "" if there is no redirect, for example for a form,
// whose contents would be lost silently.
func (x *exchange) loginPage(r *http.Request, login string, err error) string {
	if login == "" || engine.CodeOf(err) != engine.CodeUnauthenticated || !wantsHTML(r) || !reads(r) || len(r.Header["Authorization"]) > 0 || r.URL.Path == login {
		return ""
	}
	return login + "?next=" + url.QueryEscape(x.r.URL.RequestURI())
}

// RequireSuperadmin is middleware that accepts only superadmins.
func RequireSuperadmin() Middleware {
	return func(next http.Handler) http.Handler {
		return Handler(func(c *Context) error {
			if _, err := c.User(); err != nil {
				return err
			}
			if !c.IsSuperadmin() {
				return engine.Errorf(problem.CodeForbidden, "this is for superadmins only")
			}
			next.ServeHTTP(c.Writer, c.Request)
			return nil
		})
	}
}
