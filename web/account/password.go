package account

import (
	"context"
	"net/http"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// request handles a form with the email address to send an email to.
func (a *Account) request(c *web.Context, name string, ask func(ctx context.Context, email, from string) (auth.Email, error)) error {
	var in struct {
		Email string `json:"email"`
	}
	err := c.Bind(&in)
	var msg auth.Email
	if err == nil {
		msg, err = ask(c, in.Email, c.ClientIP())
	}
	if err != nil {
		return a.refuse(c, name, web.Locals{"email": in.Email}, err)
	}
	a.deliver(c, msg)
	return a.sent(c)
}

func (a *Account) resetConfirmPage(c *web.Context) error {
	token := c.Query("token").String()
	u, err := a.users.CheckToken(c, engine.Read{Level: engine.Local}, auth.ToReset, token)
	if err != nil {
		return a.refuse(c, "reset", nil, err)
	}
	return a.show(c, http.StatusOK, "reset-confirm", web.Locals{"token": token, "email": u.Email}, form{[]string{"token", "password"}})
}

func (a *Account) resetConfirm(c *web.Context) error {
	var in struct {
		Token    string `json:"token"`
		Password string `json:"password"`
	}
	err := c.Bind(&in)
	if err != nil {
		return a.refuse(c, "reset", nil, err)
	}
	u, err := a.users.Reset(c, in.Token, in.Password)
	switch engine.CodeOf(err) {
	case "":
	case auth.CodePasswordRefused: // the token is still good
		return a.refuse(c, "reset-confirm", web.Locals{"token": in.Token}, err)
	default:
		return a.refuse(c, "reset", nil, err)
	}
	a.happened(c, Event{Kind: ChangedPassword, User: u})
	a.notify(c, PasswordChanged, u.Email, u)
	if err := a.endSessions(c, u); err != nil {
		return err
	}
	return a.done(c, a.to("/login", "reset"), http.StatusNoContent, nil)
}

// endSessions ends the user's sessions that auth does not know. If auth has the same
// session store, none are left.
func (a *Account) endSessions(c *web.Context, u auth.User) error {
	_, _, err := a.o.Sessions.RevokeAll(c, u.ID)
	return err
}

func (a *Account) passwordPage(c *web.Context, u auth.User) error {
	return a.show(c, http.StatusOK, "password", web.Locals{"email": u.Email, "me": meOf(u)}, form{[]string{"old", "password"}})
}

// password changes the password, which ends all sessions and devices; this browser gets a
// new session.
func (a *Account) password(c *web.Context, u auth.User) error {
	var in struct {
		Old      string `json:"old"`
		Password string `json:"password"`
	}
	err := c.Bind(&in)
	var changed auth.User
	if err == nil {
		changed, err = a.users.ChangePassword(c, u.ID, in.Old, in.Password)
		a.happened(c, Event{Kind: ChangedPassword, User: u, Err: err})
	}
	if err != nil {
		return a.refuse(c, "password", web.Locals{"email": u.Email, "me": meOf(u)}, err)
	}
	a.notify(c, PasswordChanged, u.Email, u)
	if err := a.endSessions(c, u); err != nil {
		return err
	}
	if _, ok := DeviceOf(c); !ok { // a device has to log in again
		if err := a.open(c, changed); err != nil {
			return err
		}
	}
	return a.done(c, a.to("", "password"), http.StatusNoContent, nil)
}

func (a *Account) emailPage(c *web.Context, u auth.User) error {
	return a.show(c, http.StatusOK, "email", web.Locals{"me": meOf(u)}, form{[]string{"email", "password"}})
}

// email sends a confirmation email to a new address. The address becomes the user's
// when its token is used.
func (a *Account) email(c *web.Context, u auth.User) error {
	var in struct {
		Email    string `json:"email"`
		Password string `json:"password,omitempty"`
	}
	err := c.Bind(&in)
	if err == nil {
		err = a.sure(c, u, in.Password)
	}
	var msg auth.Email
	if err == nil {
		msg, err = a.users.RequestChange(c, u.ID, in.Email, c.ClientIP())
	}
	if err != nil {
		return a.refuse(c, "email", web.Locals{"email": in.Email, "me": meOf(u)}, err)
	}
	a.deliver(c, msg)
	return a.sent(c)
}

func (a *Account) name(c *web.Context, u auth.User) error {
	var in struct {
		Name string `json:"name"`
	}
	err := c.Bind(&in)
	if err == nil {
		in.Name, err = a.checkName(in.Name)
	}
	if err == nil {
		var changed auth.User
		if changed, err = a.users.SetName(c, u.ID, in.Name); err == nil {
			u = changed
		}
	}
	if err != nil {
		return a.refuse(c, "overview", web.Locals{"me": meOf(u), "fields": a.fill(u.Name, u.Profile, nil)}, err)
	}
	return a.done(c, a.to("", "name"), http.StatusOK, meOf(u))
}
