package todo

import (
	"net/http"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// credentials are the fields of the form.
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

// register creates an account and logs in at once, so that the application works without
// mail. The page of package account first sends an email to confirm the address, and does
// not reveal who has an account. An application that always has mail needs neither this
// file nor RegisterPath and AllowUnverified in routes.go.
func (w *site) register(c *web.Context) error {
	var in credentials
	if err := c.Bind(&in); err != nil {
		return err
	}
	_, err := w.users.Register(c, in.Email, in.Password, c.ClientIP())
	if err != nil {
		return refuse(c, in.Email, err)
	}
	// If the address already has an account, only its password logs in to it.
	user, err := w.users.Login(c, in.Email, in.Password, c.ClientIP())
	if err != nil {
		return refuse(c, in.Email, err)
	}
	c.Session().Login(user.ID)
	return c.Redirect("/")
}

// refuse shows the page again if the user can correct the error.
func refuse(c *web.Context, email string, err error) error {
	switch engine.CodeOf(err) {
	case engine.CodeInvalid, auth.CodePasswordRefused, auth.CodeWrongCredentials:
		if !c.IsJSON() {
			return showRegister(c, http.StatusUnprocessableEntity, email, c.Detail(err))
		}
	}
	return err
}
