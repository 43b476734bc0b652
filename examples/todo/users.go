package todo

import (
	"context"
	"net/http"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// user finds the user of a session; one that is disabled is as good as gone.
func (w *site) user(ctx context.Context, id string) (web.User, error) {
	u, err := w.users.Get(ctx, engine.Read{}, id)
	if err == nil && u.Disabled {
		err = engine.ErrNotFound
	}
	return web.User{ID: u.ID, Name: u.Email, Email: u.Email, Verified: u.Verified(), Roles: u.Roles}, err
}

// credentials are what the form of the login page sends.
type credentials struct {
	Email    string `json:"email"`
	Password string `json:"password"`
	Next     string `json:"next,omitempty"` // where to go then
}

func (w *site) loginPage(c *web.Context) error {
	return showLogin(c, http.StatusOK, credentials{Next: c.Query("next").String()}, "")
}

func showLogin(c *web.Context, status int, in credentials, wrong string) error {
	return c.RenderStatus(status, "login", web.Locals{"title": "Log in", "email": in.Email, "next": in.Next, "wrong": wrong, "min_password": auth.DefaultMinPassword})
}

func (w *site) login(c *web.Context) error {
	var in credentials
	if err := c.Bind(&in); err != nil {
		return err
	}
	return w.enter(c, in)
}

// register makes an account and logs in. Whoever tries an address that has one
// already is told what a wrong password is told.
func (w *site) register(c *web.Context) error {
	var in credentials
	if err := c.Bind(&in); err != nil {
		return err
	}
	if _, err := w.users.Register(c, in.Email, in.Password, c.ClientIP()); err != nil {
		return refuse(c, in, err)
	}
	return w.enter(c, in)
}

func (w *site) enter(c *web.Context, in credentials) error {
	user, err := w.users.Login(c, in.Email, in.Password, c.ClientIP())
	if err != nil {
		return refuse(c, in, err)
	}
	c.Session().Login(user.ID)
	if c.Redirect(in.Next) == nil { // which takes paths of this application only
		return nil
	}
	return c.Redirect("/")
}

// refuse shows the login page again if it is the user's to mend.
func refuse(c *web.Context, in credentials, err error) error {
	switch engine.CodeOf(err) {
	case engine.CodeInvalid, auth.CodePasswordRefused, auth.CodeWrongCredentials, auth.CodeAccountDisabled:
		if !c.IsJSON() {
			return showLogin(c, http.StatusUnprocessableEntity, in, err.Error())
		}
	}
	return err
}

func (w *site) logout(c *web.Context) error {
	c.Session().Logout()
	return c.Redirect("/login")
}
