package account

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// Me describes the logged-in user in JSON responses.
type Me struct {
	ID       string   `json:"id"`
	Email    string   `json:"email"`
	Verified bool     `json:"verified"`
	Name     string   `json:"name"`
	Roles    []string `json:"roles"`
	TOTP     bool     `json:"totp"`
	Password bool     `json:"password"`
	// Profile has the values of Options.Fields, except the name.
	Profile map[string]string `json:"profile,omitempty"`
}

func meOf(u auth.User) Me {
	return Me{u.ID, u.Email, u.Verified(), u.Name, append([]string{}, u.Roles...), u.TOTP, u.Password, maps.Clone(u.Profile)}
}

// form describes a form in JSON responses: the fields of its POST.
type form struct {
	Fields []string `json:"fields"`
}

func (a *Account) overview(c *web.Context, u auth.User) error {
	return a.show(c, http.StatusOK, "overview", web.Locals{"me": meOf(u), "fields": a.fill(u.Name, u.Profile, nil)}, meOf(u))
}

func (a *Account) loginPage(c *web.Context) error {
	next := c.Query("next").String()
	if _, err := a.current(c); err == nil && !c.IsJSON() {
		return c.RedirectOr(next, a.o.AfterLogin)
	}
	return a.show(c, http.StatusOK, "login", web.Locals{"next": next}, form{[]string{"email", "password", "next"}})
}

func (a *Account) login(c *web.Context) error {
	var in struct {
		Email    string `json:"email"`
		Password string `json:"password"`
		Next     string `json:"next,omitempty"`
	}
	err := c.Bind(&in)
	locals := web.Locals{"email": in.Email, "next": in.Next, "unverified": false}
	if err != nil {
		return a.refuse(c, "login", locals, err)
	}
	u, err := a.users.Login(c, in.Email, in.Password, c.ClientIP())
	if _, more := auth.Ticket(err); !more {
		a.loginEnded(c, u, in.Email, "", "", err)
	}
	return a.ended(c, u, err, in.Next, locals)
}

// ended responds to a login with the first factor.
func (a *Account) ended(c *web.Context, u auth.User, err error, next string, locals web.Locals) error {
	if ticket, ok := auth.Ticket(err); ok {
		return a.askCode(c, ticket, next, err)
	}
	if err != nil {
		locals["unverified"] = engine.CodeOf(err) == auth.CodeEmailUnverified
		return a.refuse(c, "login", locals, err)
	}
	return a.enter(c, u, next)
}

// enter starts the user's session under a new token; the browser's previous token becomes
// invalid.
func (a *Account) enter(c *web.Context, u auth.User, next string) error {
	if err := a.open(c, u); err != nil {
		return a.refuse(c, "login", web.Locals{"next": next}, err)
	}
	if c.IsJSON() {
		return c.JSON(http.StatusOK, meOf(u))
	}
	return c.RedirectOr(next, a.o.AfterLogin)
}

// open starts the session and makes it durable. If the user's password or address was
// changed after they authenticated, that change could not end this session yet: open ends
// it before anyone has its token.
func (a *Account) open(c *web.Context, u auth.User) error {
	c.Session().Login(u.ID)
	if err := c.SaveSession(); err != nil {
		return err
	}
	now, err := a.users.Get(c, engine.Read{Level: engine.Local}, u.ID)
	if err == nil && now.Epoch == u.Epoch && !now.Disabled {
		return nil
	}
	if err != nil && engine.CodeOf(err) != engine.CodeNotFound {
		return err
	}
	c.Header().Del("Set-Cookie") // it has the token, which must not leak even if the session cannot be ended
	c.Session().Logout()
	if err := c.SaveSession(); err != nil {
		return err
	}
	return engine.Errorf(engine.CodeUnauthenticated, "the account was changed while you logged in; log in again")
}

// askCode asks for the second factor. The user is not logged in yet: the page or the JSON
// response has a ticket, which is useless without a code.
func (a *Account) askCode(c *web.Context, ticket, next string, err error) error {
	if !c.IsJSON() {
		return a.show(c, http.StatusOK, "code", web.Locals{"ticket": ticket, "next": next}, nil)
	}
	return a.sendTicket(c, ticket, err)
}

// sendTicket responds with the problem err and the ticket.
func (a *Account) sendTicket(c *web.Context, ticket string, err error) error {
	p := a.outcomes.Describe(err)
	p.RequestID = c.RequestID()
	body, err := json.Marshal(struct {
		problem.Problem
		Ticket string `json:"ticket"`
	}{p, ticket})
	if err != nil {
		return err
	}
	p.Headers(c.Header())
	c.Header().Set("Content-Type", problem.Type)
	c.Writer.WriteHeader(p.Status)
	_, _ = c.Writer.Write(body) // an error means that the client is gone
	return nil
}

func (a *Account) loginCode(c *web.Context) error {
	var in struct {
		Ticket string `json:"ticket"`
		Code   string `json:"code"`
		Next   string `json:"next,omitempty"`
	}
	err := c.Bind(&in)
	locals := web.Locals{"ticket": in.Ticket, "next": in.Next}
	if err != nil {
		return a.refuse(c, "code", locals, err)
	}
	u, err := a.secondFactor(c, in.Ticket, in.Code)
	a.loginEnded(c, u, "", in.Ticket, in.Code, err)
	switch {
	case engine.CodeOf(err) == auth.CodeTokenInvalid:
		return a.refuse(c, "login", web.Locals{"next": in.Next, "problem": "That took too long. Please log in again."}, err)
	case err != nil:
		return a.refuse(c, "code", locals, err)
	}
	return a.enter(c, u, in.Next)
}

// secondFactor completes a login with a code of the app or a recovery code.
func (a *Account) secondFactor(c *web.Context, ticket, code string) (auth.User, error) {
	if ofApp(code) {
		return a.users.LoginTOTP(c, ticket, code)
	}
	return a.users.LoginRecovery(c, ticket, code)
}

// ofApp reports whether a code is from an app: six digits. Recovery codes are longer.
func ofApp(code string) bool {
	code = strings.ReplaceAll(strings.TrimSpace(code), " ", "")
	return len(code) == 6 && strings.Trim(code, "0123456789") == ""
}

func (a *Account) logout(c *web.Context) error {
	if d, ok := DeviceOf(c); ok {
		return a.endDevice(c, d)
	}
	a.leaving(c)()
	c.Session().Logout()
	return a.done(c, a.LoginPath()+"?done=logout", http.StatusNoContent, nil)
}

// to returns the address of a page with a notice.
func (a *Account) to(page, done string) string {
	return a.o.Prefix + page + "?" + url.Values{"done": {done}}.Encode()
}
