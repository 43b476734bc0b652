package todo

import (
	"net/http"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// credentials are what the form of the page sends.
type credentials struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

func (w *site) registerPage(c *web.Context) error {
	return showRegister(c, http.StatusOK, "", "")
}

func showRegister(c *web.Context, status int, email, wrong string) error {
	return c.RenderStatus(status, "register", web.Locals{"title": "Create an account", "email": email, "wrong": wrong, "user": "", "min_password": auth.DefaultMinPassword})
}

// register makes an account and logs in at once, so that the application works without
// mail: package account's own page sends an email to confirm the address first, and tells
// nobody who has an account. An application that always has mail leaves this file out, and
// with it RegisterPath and AllowUnverified in routes.go.
func (w *site) register(c *web.Context) error {
	var in credentials
	if err := c.Bind(&in); err != nil {
		return err
	}
	_, err := w.users.Register(c, in.Email, in.Password, c.ClientIP())
	if err != nil {
		return refuse(c, in.Email, err)
	}
	// If the address has an account already, only its password opens that.
	user, err := w.users.Login(c, in.Email, in.Password, c.ClientIP())
	if err != nil {
		return refuse(c, in.Email, err)
	}
	c.Session().Login(user.ID)
	return c.Redirect("/")
}

// refuse shows the page again if it is the user's to mend.
func refuse(c *web.Context, email string, err error) error {
	switch engine.CodeOf(err) {
	case engine.CodeInvalid, auth.CodePasswordRefused, auth.CodeWrongCredentials:
		if !c.IsJSON() {
			return showRegister(c, http.StatusUnprocessableEntity, email, c.Detail(err))
		}
	}
	return err
}
