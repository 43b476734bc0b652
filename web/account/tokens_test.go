package account_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
	"github.com/skerrydb/skerry/web/problem"
)

// withTokens is a world with routes for tokens under /api/auth, and two routes of the application.
func withTokens(o settings) settings {
	o.account.TokenPrefix = "/api/auth"
	o.add = func(app *web.App, users *auth.Auth) {
		app.Post("/demote", func(c *web.Context) error {
			u, err := c.User()
			if err != nil {
				return err
			}
			if _, err := users.SetRoles(c, u.ID, nil); err != nil {
				return err
			}
			before := u.Has("staff")
			c.LookAgain()
			if u, err = c.User(); err != nil {
				return err
			}
			return c.JSON(200, []bool{before, u.Has("staff"), c.LoggedIn()})
		})
		app.Post("/note", func(c *web.Context) error {
			u, err := c.User()
			if err != nil {
				return err
			}
			d, _ := account.DeviceOf(c)
			noted := session.NewKey[int]("noted") // is lost: the request has no session
			if err := noted.Set(c.Session(), 1); err != nil {
				return err
			}
			return c.JSON(200, map[string]any{"email": u.Email, "device": d.Name, "logged_in": c.LoggedIn()})
		}, web.RequireUser("/account/login"))
		app.Get("/admin", func(c *web.Context) error { return c.Text(200, "admin") }, web.RequireSuperadmin())
	}
	return o
}

// phone is a client with tokens.
type phone struct {
	b              *browser
	Access         string `json:"access_token"`
	Type           string `json:"token_type"`
	Refresh        string `json:"refresh_token"`
	Expires        int    `json:"expires_in"`
	RefreshExpires int    `json:"refresh_expires_in"`
	Device         struct{ ID, Name string }
	User           struct{ Email string }
	Code, Ticket   string // of a problem
}

// ask posts fields to a route for tokens and keeps what the response has.
func (p *phone) ask(path string, pairs ...string) answer {
	p.b.w.t.Helper()
	got := p.b.post("/api/auth"+path, pairs...)
	if got.body != "" {
		must(p.b.w.t, path+": "+got.body, json.Unmarshal([]byte(got.body), p))
	}
	return got
}

// do makes a request with the access token.
func (p *phone) do(method, path, body string) answer {
	p.b.w.t.Helper()
	got := p.b.do(method, path, body, "Authorization", "Bearer "+p.Access)
	if cookies := got.header.Values("Set-Cookie"); cookies != nil {
		p.b.w.t.Errorf("%s %s with a token sets the cookies %q", method, path, cookies)
	}
	return got
}

// phone logs in.
func (w *world) phone(email, name string) *phone {
	w.t.Helper()
	p := &phone{b: w.program()}
	p.ask("/login", "email", email, "password", good, "device", name).is(w.t, "login", 200, "")
	return p
}

// TestTokens: a program logs in without cookies and is its user for the application, refreshes, and logs out.
func TestTokens(t *testing.T) {
	t.Parallel()
	w := open(t, withTokens(settings{web: web.Options{Superadmins: []string{"ann@example.org"}}}))
	w.user("ann@example.org")
	p := w.phone("ann@example.org", "Ann's phone")
	if p.Type != "Bearer" || p.Expires != 15*60 || p.RefreshExpires != 30*24*60*60 || p.Device.Name != "Ann's phone" || p.User.Email != "ann@example.org" {
		t.Errorf("%+v", p)
	}
	if got := p.do("POST", "/note", "{}"); got.status != 200 || got.body != `{"device":"Ann's phone","email":"ann@example.org","logged_in":true}`+"\n" ||
		!slices.Contains(got.header.Values("Vary"), "Authorization") {
		t.Errorf("%+v", got)
	}
	if got := p.do("GET", "/admin", ""); got.status != 200 {
		t.Errorf("a superadmin with a token: %+v", got)
	}
	for _, path := range []string{"/api/auth/me", "/account"} {
		if got := p.do("GET", path, "").is(t, path, 200, ""); !strings.Contains(got.body, `"email":"ann@example.org"`) {
			t.Errorf("%s", got.body)
		}
	}
	first := *p
	w.clock.Add(time.Minute)
	p.ask("/refresh", "refresh_token", p.Refresh).is(t, "refresh", 200, "")
	if p.Access == first.Access || p.Refresh == first.Refresh || p.Device.ID != first.Device.ID {
		t.Errorf("%+v after %+v", p, first)
	}
	first.do("GET", "/whoami", "").fails(t, "the replaced token", engine.CodeUnauthenticated)
	if got := p.do("GET", "/whoami", ""); got.status != 200 {
		t.Errorf("%+v", got)
	}
	unnamed := &phone{b: w.program()}
	if unnamed.ask("/login", "email", "ann@example.org", "password", good); unnamed.Device.Name != "Go-http-client/1.1" {
		t.Errorf("the device is %q", unnamed.Device.Name)
	}
	p.do("POST", "/api/auth/logout", "{}").is(t, "logout", 204, "")
	p.do("GET", "/whoami", "").fails(t, "after the logout", engine.CodeUnauthenticated)
	p.ask("/refresh", "refresh_token", p.Refresh).fails(t, "a refresh after the logout", engine.CodeUnauthenticated)
	unnamed.do("POST", "/account/logout", "{}").is(t, "logout of the account", 204, "")
	unnamed.do("GET", "/whoami", "").fails(t, "after the logout", engine.CodeUnauthenticated)
	w.program().post("/api/auth/logout").fails(t, "logout without a token", engine.CodeUnauthenticated)
	w.program().get("/api/auth/me").fails(t, "me without a token", engine.CodeUnauthenticated)
	w.noEmail()
}

// TestTokenLooksAgain: a long request with a token can learn that its user has changed.
func TestTokenLooksAgain(t *testing.T) {
	t.Parallel()
	w := open(t, withTokens(settings{}))
	u := w.user("ann@example.org")
	_, err := w.users.SetRoles(t.Context(), u.ID, []string{"staff"})
	must(t, "set roles", err)
	if got := w.phone("ann@example.org", "phone").do("POST", "/demote", "{}"); got.body != "[true,false,true]\n" {
		t.Errorf("%+v", got)
	}
}

// TestTokenTheft: a refresh token that comes twice ends the device.
func TestTokenTheft(t *testing.T) {
	t.Parallel()
	w := open(t, withTokens(settings{}))
	w.user("ann@example.org")
	p, tablet := w.phone("ann@example.org", "phone"), w.phone("ann@example.org", "tablet")
	thief := *p
	p.ask("/refresh", "refresh_token", p.Refresh).is(t, "refresh", 200, "")
	stolen := thief.b.post("/api/auth/refresh", "refresh_token", thief.Refresh)
	stolen.fails(t, "the thief", auth.CodeTokenReused)
	p.do("GET", "/whoami", "").fails(t, "the owner", engine.CodeUnauthenticated)
	p.ask("/refresh", "refresh_token", p.Refresh).fails(t, "the owner", engine.CodeUnauthenticated)
	if got := tablet.do("GET", "/whoami", ""); got.status != 200 {
		t.Errorf("another device: %+v", got)
	}
}

// TestTokensEnd: tokens end in time, and with whatever ends sessions.
func TestTokensEnd(t *testing.T) {
	t.Parallel()
	w := open(t, withTokens(settings{}))
	u := w.user("ann@example.org")
	p := w.phone("ann@example.org", "phone")
	w.clock.Add(15*time.Minute + time.Second)
	got := p.do("GET", "/whoami", "")
	if got.fails(t, "after 15 minutes", auth.CodeTokenExpired); got.header.Get("WWW-Authenticate") != `Bearer error="invalid_token"` {
		t.Errorf("%v", got.header)
	}
	p.ask("/refresh", "refresh_token", p.Refresh).is(t, "refresh", 200, "")
	w.clock.Add(30*24*time.Hour + time.Second)
	p.do("GET", "/whoami", "").fails(t, "after 30 days", engine.CodeUnauthenticated)
	p.ask("/refresh", "refresh_token", p.Refresh).fails(t, "after 30 days", engine.CodeUnauthenticated)
	for what, end := range map[string]func(){
		"revoke-others": func() {
			if got := w.program().login("ann@example.org", good).post("/account/sessions/revoke-others"); got.body != `{"ended":1}`+"\n" {
				t.Errorf("%+v", got)
			}
		},
		"revoke on the page": func() {
			b := w.browser().login("ann@example.org", good)
			if page := b.get("/account/sessions"); !strings.Contains(text(page.body), "phone Last seen") || !strings.Contains(page.body, p.Device.ID) {
				t.Errorf("%s", page.body)
			}
			b.post("/account/sessions/revoke", "device", p.Device.ID).is(t, "revoke", 303, "/account/sessions?done=revoked")
		},
		"revoke by another device": func() {
			tablet := w.phone("ann@example.org", "tablet")
			if got := tablet.do("GET", "/api/auth/devices", ""); strings.Count(got.body, `"current":true`) != 1 || !strings.Contains(got.body, p.Device.ID) {
				t.Errorf("%+v", got)
			}
			tablet.do("POST", "/api/auth/devices/revoke", `{"id":"`+p.Device.ID+`"}`).is(t, "revoke", 204, "")
			tablet.do("POST", "/api/auth/devices/revoke", `{"id":"`+p.Device.ID+`"}`).fails(t, "revoke again", engine.CodeNotFound)
			tablet.do("POST", "/api/auth/logout", "{}").is(t, "logout", 204, "")
		},
		"a changed password": func() {
			p.do("POST", "/account/password", `{"old":"`+good+`","password":"`+other+`"}`).is(t, "password", 204, "")
			_, err := w.users.SetPassword(t.Context(), u.ID, good)
			must(t, "set the password", err)
		},
		"a disabled user": func() {
			_, err := w.users.Disable(t.Context(), u.ID, true)
			must(t, "disable", err)
			p.do("GET", "/whoami", "").fails(t, "while disabled", engine.CodeUnauthenticated)
			_, err = w.users.Disable(t.Context(), u.ID, false)
			must(t, "enable", err)
		},
	} {
		p = w.phone("ann@example.org", "phone")
		if got := p.do("GET", "/whoami", ""); got.status != 200 {
			t.Errorf("before %s: %+v", what, got)
		}
		end()
		p.do("GET", "/whoami", "").fails(t, what, engine.CodeUnauthenticated)
		p.ask("/refresh", "refresh_token", p.Refresh).fails(t, what, engine.CodeUnauthenticated)
	}
}

// TestTokenTOTP: a login with a second factor issues tokens only for the code.
func TestTokenTOTP(t *testing.T) {
	t.Parallel()
	w := open(t, withTokens(settings{}))
	u := w.user("ann@example.org")
	e, err := w.users.EnrolTOTP(t.Context(), u.ID)
	must(t, "enrol", err)
	code := func() string {
		code, err := totp.GenerateCode(e.Secret, w.clock.Now())
		must(t, "a code", err)
		return code
	}
	recovery, err := w.users.ConfirmTOTP(t.Context(), u.ID, code())
	must(t, "confirm", err)
	w.clock.Add(time.Minute)
	p := &phone{b: w.program()}
	for _, right := range []string{code(), recovery[0]} {
		p.Access, p.Ticket = "", ""
		p.ask("/login", "email", "ann@example.org", "password", good).fails(t, "the password", auth.CodeSecondFactor)
		if p.Ticket == "" || p.Access != "" {
			t.Errorf("%+v", p)
		}
		p.ask("/login/code", "ticket", p.Ticket, "code", "000000").fails(t, "a wrong code", auth.CodeCodeWrong)
		p.ask("/login/code", "ticket", p.Ticket, "code", right, "device", "phone").is(t, "the code", 200, "")
		if got := p.do("GET", "/whoami", ""); got.status != 200 {
			t.Errorf("%+v", got)
		}
		p.ask("/login/code", "ticket", p.Ticket, "code", right).fails(t, "the ticket again", auth.CodeTokenInvalid)
	}
	p.do("POST", "/account/totp/disable", `{"code":"`+recovery[1]+`"}`).is(t, "disable", 204, "")
}

// TestTokenBudget: wrong passwords count with those of the login page, and tell nobody who has an account.
func TestTokenBudget(t *testing.T) {
	t.Parallel()
	w := open(t, withTokens(settings{auth: auth.Options{Limits: auth.Limits{Login: auth.Limit{N: 3, Per: time.Hour}, LoginFrom: auth.Limit{N: 6, Per: time.Hour}}}}))
	w.user("ann@example.org")
	p := w.program()
	for _, path := range []string{"/account", "/api/auth", "/api/auth"} {
		p.post(path+"/login", "email", "ann@example.org", "password", other).fails(t, path, auth.CodeWrongCredentials)
	}
	for _, path := range []string{"/account", "/api/auth"} {
		got := p.post(path+"/login", "email", "ann@example.org", "password", good)
		got.fails(t, path, auth.CodeRateLimited)
		if after := got.header.Get("Retry-After"); after != "3600" && after != "3601" {
			t.Errorf("%v", got.header)
		}
	}
	known := p.post("/api/auth/login", "email", "nobody@example.org", "password", other)
	known.fails(t, "nobody", auth.CodeWrongCredentials)
	p.post("/api/auth/login", "email", "bob@example.org", "password", other)
	p.post("/api/auth/login", "email", "eve@example.org", "password", other)
	p.post("/api/auth/login", "email", "kim@example.org", "password", other).fails(t, "of one address", auth.CodeRateLimited)
}

// TestHostileTokens: whatever is not exactly one valid token is refused, and never anonymous; a token is no
// browser's credential.
func TestHostileTokens(t *testing.T) {
	t.Parallel()
	w := open(t, withTokens(settings{}))
	w.user("ann@example.org")
	w.user("bob@example.org")
	p := w.phone("ann@example.org", "phone")
	bob := w.program().login("bob@example.org", good)
	for what, lines := range map[string][]string{
		"nothing": {"Bearer"}, "blank": {"Bearer  "}, "tab": {"Bearer\tx"}, "case": {"bEARER x"}, "garbage": {"Bearer x"}, "twice": {"Bearer " + p.Access, "Bearer " + p.Access},
		"behind another": {"Basic eDp5", "Bearer " + p.Access}, "before another": {"Bearer " + p.Access, "Basic eDp5"}, "list": {"Bearer " + p.Access + ", Bearer x"},
		"refresh token": {"Bearer " + p.Refresh}, "cut": {"Bearer " + p.Access[:len(p.Access)-1]}, "long": {"Bearer " + strings.Repeat("ska_", 8000)},
		"upper case": {"Bearer " + strings.ToUpper(p.Access)}, "NUL": {"Bearer ska_%00"}, "utf-8": {"Bearer ska_é"},
	} {
		for _, accept := range []string{"*/*", htmls} {
			for _, path := range []string{"/whoami", "/healthz", "/account/login", "/nowhere"} {
				r, err := http.NewRequestWithContext(t.Context(), "GET", w.srv.URL+path, nil)
				must(t, what, err)
				r.Header["Authorization"], r.Header["Accept"] = lines, []string{accept}
				resp, err := bob.client.Do(r)
				must(t, what, err)
				resp.Body.Close()
				if h := resp.Header; resp.StatusCode != 401 || h.Get("Content-Type") != problem.Type || !strings.HasPrefix(h.Get("WWW-Authenticate"), "Bearer error=") || h["Set-Cookie"] != nil {
					t.Errorf("%s at %s: %d %v", what, path, resp.StatusCode, h)
				}
			}
		}
	}
	if bob.who() != "bob@example.org" {
		t.Error("the session has gone")
	}
	bob.do("POST", "/note", "{}", "Authorization", "Bearer "+p.Access, "Sec-Fetch-Site", "cross-site").fails(t, "a page of another origin", problem.CodeCrossOrigin)
	for body, code := range map[string]engine.Code{
		`{}`: engine.CodeInvalid, `{"refresh_token":""}`: engine.CodeUnauthenticated, `{"refresh_token":"` + p.Access + `"}`: engine.CodeUnauthenticated, `{"refresh_token":1}`: engine.CodeInvalid, `{`: engine.CodeInvalid,
		`{"refresh_token":"` + strings.Repeat("a", account.MaxFormBytes) + `"}`: problem.CodeBodyTooLarge,
	} {
		w.program().do("POST", "/api/auth/refresh", body).fails(t, body[:min(len(body), 40)], code)
	}
	w.program().post("/api/auth/login", "email", "ann@example.org", "password", good, "device", "a\nb").fails(t, "the name of a device", engine.CodeInvalid)
	p.do("POST", "/account/login", `{"email":"bob@example.org","password":"`+good+`"}`).fails(t, "a session for a device", problem.CodeForbidden)
	if got := p.do("GET", "/whoami", ""); got.status != 200 || !strings.Contains(got.body, "ann@") {
		t.Errorf("after all this: %+v", got)
	}
}

// TestNoTokens: without the option there are no routes for tokens.
func TestNoTokens(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	if got := w.program().post("/api/auth/login"); got.status != 404 {
		t.Errorf("%+v", got)
	}
}

// TestTokensInCluster: what one node issues or ends, the others accept and refuse at once.
func TestTokensInCluster(t *testing.T) {
	t.Parallel()
	two := nodes(t, withTokens(settings{}))
	two[0].user("ann@example.org")
	for i := range two {
		here, there := two[i], two[1-i]
		for range 10 {
			p := here.phone("ann@example.org", "phone")
			at := func(w *world) *phone {
				p := *p
				p.b = w.program()
				return &p
			}
			if got := at(there).do("POST", "/note", "{}"); got.status != 200 {
				t.Fatalf("a token at another node: %+v", got)
			}
			old := p.Access
			moved := at(there)
			moved.ask("/refresh", "refresh_token", p.Refresh).is(t, "refresh at another node", 200, "")
			p.Access, p.Refresh = moved.Access, moved.Refresh
			if got := at(here).do("GET", "/whoami", ""); got.status != 200 {
				t.Fatalf("a new token: %+v", got)
			}
			here.program().do("GET", "/whoami", "", "Authorization", "Bearer "+old).fails(t, "an old token", engine.CodeUnauthenticated)
			at(there).do("POST", "/api/auth/logout", "{}").is(t, "logout at another node", 204, "")
			at(here).do("GET", "/whoami", "").fails(t, "after the logout", engine.CodeUnauthenticated)
		}
	}
}
