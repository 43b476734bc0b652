package account

import (
	"context"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// deviceInContext is the context key of the device of a request's access token.
type deviceInContext struct{}

// DeviceOf returns the device of a request with an access token.
func DeviceOf(ctx context.Context) (auth.Device, bool) {
	d, ok := ctx.Value(deviceInContext{}).(auth.Device)
	return d, ok
}

// tokens is the response to a login and a refresh; the first members are those of RFC
// 6749, section 5.1.
type tokens struct {
	AccessToken      string `json:"access_token"`
	TokenType        string `json:"token_type"`
	ExpiresIn        int64  `json:"expires_in"` // seconds
	RefreshToken     string `json:"refresh_token"`
	RefreshExpiresIn int64  `json:"refresh_expires_in"` // seconds
	Device           app    `json:"device"`
	User             Me     `json:"user"`
}

// app is a device in JSON responses.
type app struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Created  time.Time `json:"created"`
	LastSeen time.Time `json:"last_seen"`
	Expires  time.Time `json:"expires"`
	Current  bool      `json:"current"`
}

func appOf(d auth.Device, current string) app {
	return app{d.ID, d.Name, d.Created, d.Used, d.Expires, d.ID == current}
}

// addTokenRoutes adds the routes for tokens. They respond with JSON only.
func (a *Account) addTokenRoutes(app *web.App) {
	limit := web.BodyLimit(MaxFormBytes)
	get := func(path string, h web.Handler) { app.Get(a.o.TokenPrefix+path, h, noStore) }
	post := func(path string, h web.Handler) { app.Post(a.o.TokenPrefix+path, h, noStore, limit) }
	post("/login", a.tokenLogin)
	post("/login/code", a.tokenCode)
	post("/refresh", a.tokenRefresh)
	post("/logout", a.tokenLogout)
	get("/me", a.me)
	get("/devices", a.devices)
	post("/devices/revoke", a.revokeDevice)
}

func (a *Account) tokenLogin(c *web.Context) error {
	var in struct {
		Email    string `json:"email"`
		Password string `json:"password"`
		Device   string `json:"device,omitempty"`
	}
	if err := c.Bind(&in); err != nil {
		return err
	}
	u, err := a.users.Login(c, in.Email, in.Password, c.ClientIP())
	if ticket, ok := auth.Ticket(err); ok {
		return a.sendTicket(c, ticket, err)
	}
	a.loginEnded(c, u, in.Email, "", "", err)
	return a.issue(c, u, in.Device, err)
}

func (a *Account) tokenCode(c *web.Context) error {
	var in struct {
		Ticket string `json:"ticket"`
		Code   string `json:"code"`
		Device string `json:"device,omitempty"`
	}
	if err := c.Bind(&in); err != nil {
		return err
	}
	u, err := a.secondFactor(c, in.Ticket, in.Code)
	a.loginEnded(c, u, "", in.Ticket, in.Code, err)
	return a.issue(c, u, in.Device, err)
}

// issue responds to a complete login with tokens.
func (a *Account) issue(c *web.Context, u auth.User, name string, err error) error {
	if err != nil {
		return err
	}
	if name == "" {
		name = clientName(c.Request.UserAgent())
	}
	t, err := a.users.OpenDevice(c, u, name)
	if err != nil {
		return err
	}
	return sendTokens(c, u, t)
}

// clientName makes a name for a device of what the client calls itself.
func clientName(agent string) string {
	agent = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, strings.ToValidUTF8(agent, ""))
	return strings.ToValidUTF8(agent[:min(len(agent), auth.MaxNameBytes)], "")
}

func sendTokens(c *web.Context, u auth.User, t auth.Tokens) error {
	d := t.Device
	return c.JSON(http.StatusOK, tokens{
		AccessToken: t.Access, TokenType: "Bearer", ExpiresIn: seconds(t.AccessExpires.Sub(d.Used)),
		RefreshToken: t.Refresh, RefreshExpiresIn: seconds(d.Expires.Sub(d.Used)),
		Device: appOf(d, d.ID), User: meOf(u),
	})
}

// seconds rounds d, because a device expires in a whole millisecond.
func seconds(d time.Duration) int64 { return int64(d.Round(time.Second) / time.Second) }

func (a *Account) tokenRefresh(c *web.Context) error {
	var in struct {
		RefreshToken string `json:"refresh_token"`
	}
	if err := c.Bind(&in); err != nil {
		return err
	}
	u, t, err := a.users.Refresh(c, in.RefreshToken)
	if engine.CodeOf(err) == auth.CodeTokenReused {
		c.Logger().Warn("a refresh token was used twice; its device is logged out", "from", c.ClientIP())
	}
	if err != nil {
		return err
	}
	return sendTokens(c, u, t)
}

func (a *Account) tokenLogout(c *web.Context) error {
	d, ok := DeviceOf(c)
	if !ok {
		return engine.Errorf(engine.CodeUnauthenticated, "the request has no access token")
	}
	return a.endDevice(c, d)
}

// endDevice logs a device out. One that has ended meanwhile is no error.
func (a *Account) endDevice(c *web.Context, d auth.Device) error {
	left := a.leaving(c)
	err := a.users.RevokeDevice(c, d.User, d.ID)
	if err == nil {
		left()
	}
	if err != nil && engine.CodeOf(err) != engine.CodeNotFound {
		return err
	}
	return c.NoContent()
}

func (a *Account) me(c *web.Context) error {
	u, err := a.current(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, meOf(u))
}

// devicesOf returns the devices of a user.
func (a *Account) devicesOf(c *web.Context, u auth.User) ([]app, error) {
	list, err := a.users.ListDevices(c, engine.Read{Level: engine.Local}, u.ID)
	if err != nil {
		return nil, err
	}
	this, _ := DeviceOf(c)
	apps := make([]app, len(list))
	for i, d := range list {
		apps[i] = appOf(d, this.ID)
	}
	return apps, nil
}

func (a *Account) devices(c *web.Context) error {
	u, err := a.current(c)
	if err != nil {
		return err
	}
	apps, err := a.devicesOf(c, u)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, struct {
		Devices []app `json:"devices"`
	}{apps})
}

func (a *Account) revokeDevice(c *web.Context) error {
	u, err := a.current(c)
	if err != nil {
		return err
	}
	var in struct {
		ID string `json:"id"`
	}
	if err := c.Bind(&in); err != nil {
		return err
	}
	if err := a.users.RevokeDevice(c, u.ID, in.ID); err != nil {
		return err
	}
	a.happened(c, Event{Kind: EndedSessions, User: u})
	return c.NoContent()
}

// rotate gives the browser's session a new token. A device keeps its tokens.
func rotate(c *web.Context) {
	if _, ok := DeviceOf(c); !ok {
		c.Session().Rotate()
	}
}
