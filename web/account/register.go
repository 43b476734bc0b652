package account

import (
	"net/http"
	"net/url"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// accepted is the response to programs when an email may have been sent. It is the same
// if none was.
type accepted struct {
	Status string `json:"status"`
	Detail string `json:"detail"`
}

const checkEmail = "the next steps are in an email to the address"

// sent responds to every request that may have caused an email.
func (a *Account) sent(c *web.Context) error {
	return a.done(c, a.o.Prefix+"/sent", http.StatusAccepted, accepted{"accepted", checkEmail})
}

func (a *Account) sentPage(c *web.Context) error {
	return a.show(c, http.StatusOK, "sent", nil, accepted{"accepted", checkEmail})
}

func (a *Account) registerPage(c *web.Context) error {
	return a.show(c, http.StatusOK, "register", web.Locals{"fields": a.fill("", nil, nil)}, a.registerFields())
}

func (a *Account) register(c *web.Context) error {
	in, err := a.bindRegistration(c)
	var msg auth.Email
	if err == nil {
		msg, err = a.users.RegisterUser(c, in)
	}
	if err != nil {
		return a.refuse(c, "register", web.Locals{"email": in.Email, "fields": a.fill(in.Name, in.Profile, web.FaultsOf(err))}, err)
	}
	a.deliver(c, msg)
	return a.sent(c)
}

// verifyPage shows the page that the link in an email leads to. It does not use up the
// token: programs that scan email open links on their own.
func (a *Account) verifyPage(c *web.Context) error {
	token := c.Query("token").String()
	locals, err := a.verifyLocals(c, token)
	if err != nil {
		return a.refuse(c, "again", nil, err)
	}
	return a.show(c, http.StatusOK, "verify", locals, form{[]string{"token", "password"}})
}

func (a *Account) verifyLocals(c *web.Context, token string) (web.Locals, error) {
	u, purpose, err := a.ofToken(c, token)
	return web.Locals{"token": token, "me": meOf(u), "changes": purpose == auth.ToChange}, err
}

// ofToken returns the user and the purpose of a token.
func (a *Account) ofToken(c *web.Context, token string) (u auth.User, p auth.Purpose, err error) {
	for _, p = range []auth.Purpose{auth.ToVerify, auth.ToChange} {
		if u, err = a.users.CheckToken(c, engine.Read{Level: engine.Local}, p, token); engine.CodeOf(err) != auth.CodeTokenInvalid {
			break
		}
	}
	return u, p, err
}

// verify confirms an address for a user who knows the account's password, or is logged
// in to an account without one. Otherwise an attacker could register a victim's address,
// and the victim's click on the link would confirm the attacker's account.
func (a *Account) verify(c *web.Context) error {
	var in struct {
		Token    string `json:"token"`
		Password string `json:"password,omitempty"`
	}
	err := c.Bind(&in)
	var locals web.Locals
	if err == nil {
		locals, err = a.verifyLocals(c, in.Token)
	}
	if err != nil {
		return a.refuse(c, "again", nil, err)
	}
	if me := locals["me"].(Me); me.Password && in.Password == "" {
		return a.refuse(c, "verify", locals, web.Wrong("/password", "is required"))
	}
	done, err := a.users.Verify(c, in.Token, auth.Proof{Password: in.Password, User: userID(c)})
	switch engine.CodeOf(err) {
	case "":
	case auth.CodeTokenInvalid, auth.CodeEmailTaken:
		return a.refuse(c, "again", nil, err)
	case engine.CodeUnauthenticated:
		return a.toLogin(c, a.o.Prefix+"/verify?"+url.Values{"token": {in.Token}}.Encode(), err)
	default: // the token is still good
		return a.refuse(c, "verify", locals, err)
	}
	if done.Was != "" {
		a.notify(c, EmailChanged, done.Was, done.User)
	}
	to := "/login"
	if userID(c) == done.User.ID {
		rotate(c) // the session's rights have changed
		to = ""
	}
	return a.done(c, a.to(to, "verified"), http.StatusOK, struct {
		Email    string `json:"email"`
		Verified bool   `json:"verified"`
	}{done.User.Email, true})
}

func (a *Account) againPage(c *web.Context) error {
	return a.show(c, http.StatusOK, "again", nil, form{[]string{"email"}})
}

func (a *Account) again(c *web.Context) error {
	return a.request(c, "again", a.users.RequestVerify)
}

func (a *Account) resetPage(c *web.Context) error {
	return a.show(c, http.StatusOK, "reset", nil, form{[]string{"email"}})
}

func (a *Account) reset(c *web.Context) error {
	return a.request(c, "reset", a.users.RequestReset)
}
