package account_test

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
	"github.com/skerrydb/skerry/web/problem"
)

const cookie = "__Host-skerry-session"

var (
	basket   = session.NewKey[string]("basket")
	handleOf = regexp.MustCompile(`name="handle" value="([^"]+)"`)
)

// token is the session cookie that b has.
func (b *browser) token() string {
	u, _ := url.Parse(b.w.srv.URL)
	for _, c := range b.client.Jar.Cookies(u) {
		if c.Name == cookie {
			return c.Value
		}
	}
	return ""
}

// with is a browser that has only this session cookie.
func (w *world) with(token string) *browser {
	b := w.browser()
	u, _ := url.Parse(w.srv.URL)
	b.client.Jar.SetCookies(u, []*http.Cookie{{Name: cookie, Value: token, Path: "/", Secure: true}})
	return b
}

// TestFixation: a token that somebody had before a login opens nothing after it, and
// none that was used before a change of rights does.
func TestFixation(t *testing.T) {
	t.Parallel()
	w := open(t, settings{add: func(app *web.App, _ *auth.Auth) {
		app.Post("/basket", func(c *web.Context) error {
			if err := basket.Set(c.Session(), "apples"); err != nil {
				return err
			}
			return c.NoContent()
		})
		app.Get("/basket", func(c *web.Context) error {
			v, _, err := basket.Get(c.Session())
			if err != nil {
				return err
			}
			return c.Text(200, v)
		})
	}})
	w.user("ann@example.org")
	b := w.browser()
	b.post("/basket")
	planted := b.token()
	if planted == "" {
		t.Fatal("no session before the login")
	}
	b.login("ann@example.org", good)
	if b.token() == planted || w.with(planted).who() != "" || w.with(planted).get("/basket").body != "" {
		t.Error("the token of before the login is of use")
	}
	if b.get("/basket").body != "apples" {
		t.Error("the login has lost what was in the session")
	}
	b.post("/account/email", "email", "new@example.org", "password", good).is(t, "email", 303, "/account/sent")
	_, verify := w.link(w.email())
	for _, step := range [][]string{{"/account/verify", "token", verify, "password", good}, {"/account/password", "old", good, "password", other}, {"/account/logout"}} {
		before := b.token()
		b.post(step[0], step[1:]...)
		if before == b.token() || w.with(before).who() != "" {
			t.Errorf("%s: the token of before is of use", step[0])
		}
	}
	forged := planted[:len(planted)-1] + map[bool]string{true: "B", false: "A"}[strings.HasSuffix(planted, "A")]
	for _, token := range []string{planted, forged, "x", strings.Repeat("A", 43), strings.Repeat("A", 4000)} {
		if who := w.with(token).who(); who != "" {
			t.Errorf("the token %.50q is %s", token, who)
		}
	}
}

// TestTwoBrowsers: a changed or reset password logs all others out; so does a click.
func TestTwoBrowsers(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	w.user("ann@example.org")
	one, two := w.browser().login("ann@example.org", good), w.browser().login("ann@example.org", good)
	one.post("/account/password", "old", good, "password", other).is(t, "password", 303, "/account?done=password")
	w.email()
	if one.who() == "" || two.who() != "" {
		t.Errorf("after the password was changed: %q and %q", one.who(), two.who())
	}
	two.login("ann@example.org", other)
	w.browser().post("/account/reset", "email", "ann@example.org")
	_, token := w.link(w.email())
	w.browser().post("/account/reset/confirm", "token", token, "password", good).is(t, "reset", 303, "/account/login?done=reset")
	if one.who() != "" || two.who() != "" {
		t.Errorf("after the reset: %q and %q", one.who(), two.who())
	}
	one.login("ann@example.org", good)
	two.login("ann@example.org", good)
	three := w.browser().login("ann@example.org", good)
	if got := one.get("/account/sessions").is(t, "sessions", 200, ""); strings.Count(got.body, `name="handle"`) != 2 {
		t.Errorf("%s", text(got.body))
	}
	handles := handleOf.FindAllStringSubmatch(one.get("/account/sessions").body, -1)
	w.user("eve@example.org")
	w.browser().login("eve@example.org", good).post("/account/sessions/revoke", "handle", handles[0][1]).is(t, "somebody else's session", 404, "")
	one.post("/account/sessions/revoke", "handle", handles[0][1]).is(t, "revoke", 303, "/account/sessions?done=revoked")
	if alive := map[bool]int{true: 1}[two.who() != ""] + map[bool]int{true: 1}[three.who() != ""]; alive != 1 || one.who() == "" {
		t.Errorf("%d of the others are alive after one was ended", alive)
	}
	one.post("/account/sessions/revoke-others").is(t, "revoke", 303, "/account/sessions?done=revoked-others")
	if two.who() != "" || three.who() != "" || one.who() == "" {
		t.Error("the others, and they alone, should have ended")
	}
}

// TestLoginBesideChange: a login by the old password that is under way while the
// password is changed begins no session, although there was none yet to be ended.
func TestLoginBesideChange(t *testing.T) {
	t.Parallel()
	var armed atomic.Bool
	w := open(t, settings{before: func(w *world) {
		if armed.Swap(false) { // between the login and its session
			u, err := w.users.Find(context.Background(), engine.Read{}, "ann@example.org")
			if err == nil {
				_, err = w.users.SetPassword(context.Background(), u.ID, other)
			}
			if err != nil {
				w.t.Error(err)
			}
		}
	}})
	u := w.user("ann@example.org")
	b := w.browser()
	armed.Store(true)
	got := b.post("/account/login", "email", "ann@example.org", "password", good)
	if got.status != 401 || b.who() != "" || strings.Contains(strings.Join(got.header["Set-Cookie"], " "), cookie) {
		t.Errorf("%d %v: logged in as %q", got.status, got.header, b.who())
	}
	if list, err := w.sessions.List(t.Context(), u.ID); err != nil || len(list) != 0 || armed.Load() {
		t.Errorf("sessions: %v %v", list, err)
	}
	b.login("ann@example.org", other)
	armed.Store(true)
	b.post("/account/password", "old", other, "password", good).is(t, "two changes at once", 401, "")
	if b.who() != "" {
		t.Error("logged in by the password that was changed meanwhile")
	}
}

// TestOpenRedirects: no login leads out of the application.
func TestOpenRedirects(t *testing.T) {
	t.Parallel()
	w := open(t, settings{account: account.Options{AfterLogin: "/home"}})
	w.user("ann@example.org")
	for _, next := range []string{
		"https://evil.example", "//evil.example", `/\evil.example`, `\\evil.example`, "/\t/evil.example", "/\n/evil.example", "/%0d/../\r//evil", "evil", "javascript:alert(1)",
		"///evil.example", "/x\r\nSet-Cookie: a=b", " //evil.example", "\x00//evil", "http:/evil", "?x", "", "/a\\b", "/\u00a0/x", "/.//evil.example", "/x/..//evil.example",
	} {
		got := w.browser().post("/account/login", "email", "ann@example.org", "password", good, "next", next)
		to := got.header.Get("Location")
		if local := strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") && !strings.HasPrefix(to, `/\`) && !strings.ContainsAny(to, "\t\r\n"); got.status != 303 || !local || strings.HasPrefix(next, "/x/") && to == "//evil.example" {
			t.Errorf("next %q: %d to %q", next, got.status, to)
		}
		if got.header.Get("Set-Cookie") == "" || strings.Contains(got.header.Get("Set-Cookie"), "a=b") {
			t.Errorf("next %q: %q", next, got.header["Set-Cookie"])
		}
	}
	for next, to := range map[string]string{"/todo": "/todo", "/a?b=//c&d=http://e#f": "/a?b=//c&d=http://e#f", "/%2f%2fx": "/%2f%2fx", "": "/home"} {
		w.browser().post("/account/login", "email", "ann@example.org", "password", good, "next", next).is(t, next, 303, to)
		b := w.browser().login("ann@example.org", good)
		b.get("/account/login?next="+url.QueryEscape(next)).is(t, next, 303, to)
	}
}

// TestHostileText: whatever clients send is text in pages, and in no email.
func TestHostileText(t *testing.T) {
	t.Parallel()
	w := open(t, settings{account: account.Options{Scopes: []string{"todo"}}})
	const evil = `"><img src=x onerror=alert(1)>'{{.}}`
	b := w.browser()
	for _, path := range []string{"/account/login", "/account/register", "/account/reset", "/account/verify/again", "/account/login/code"} {
		got := b.post(path, "email", evil, "password", evil, "next", evil, "ticket", evil, "code", evil)
		if strings.Contains(got.body, "<img") || got.status/100 != 4 {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	for _, path := range []string{"/account/login?next=", "/account/verify?token=", "/account/reset/confirm?token=", "/account/login?done="} {
		if got := b.get(path + url.QueryEscape(evil)); strings.Contains(got.body, "<img") {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	w.user("ann@example.org")
	b.login("ann@example.org", good)
	b.post("/account/name", "name", evil).is(t, "name", 303, "/account?done=name")
	b.post("/account/name", "name", "a\r\nBcc: x").is(t, "a name of two lines", 400, "")
	b.post("/account/name", "name", strings.Repeat("n", auth.MaxNameBytes+1)).is(t, "a long name", 400, "")
	b.post("/account/keys", "name", evil, "scopes", "todo", "password", good).is(t, "key", 201, "")
	w.email()
	b.do("POST", "/account/logout", "")
	b.do("POST", "/account/login", url.Values{"email": {"ann@example.org"}, "password": {good}}.Encode(), "User-Agent", evil)
	for _, path := range []string{"/account", "/account/keys", "/account/sessions"} {
		if got := b.get(path).is(t, path, 200, ""); strings.Contains(got.body, "<img") || !strings.Contains(got.body, "&lt;img") {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	for _, email := range []string{"a@b.example\r\nBcc: c@d.example", "a@b.example\nx", `"<img>"@b.example`, "a@b.example, c@d.example", "A <a@b.example>", "<img onerror=x>@b.example", "a\x00@b.example", "ä@b.example", strings.Repeat("a", 250) + "@b.example"} {
		b.post("/account/register", "email", email, "password", good).is(t, email, 400, "")
		b.post("/account/email", "email", email, "password", good).is(t, email, 400, "")
	}
	w.noEmail()
}

// TestLongBodies: a form is short.
func TestLongBodies(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	p := w.program()
	p.post("/account/login", "email", "a@b.example", "password", strings.Repeat("x", account.MaxFormBytes)).fails(t, "a long body", problem.CodeBodyTooLarge)
	p.post("/account/login", "email", "a@b.example", "password", strings.Repeat("x", auth.MaxPasswordBytes)).fails(t, "a body that is not", auth.CodeWrongCredentials)
	p.do("POST", "/account/login", "<x/>", "Content-Type", "text/xml").fails(t, "no form", problem.CodeMediaType)
	p.do("POST", "/account/login", "{").fails(t, "broken JSON", engine.CodeInvalid)
}

// TestForgedTokens: tokens of emails work for what they were made for, in time, once.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	w.user("ann@example.org")
	b := w.browser()
	b.post("/account/register", "email", "bob@example.org", "password", good)
	_, verify := w.link(w.email())
	b.post("/account/reset", "email", "ann@example.org")
	_, reset := w.link(w.email())
	b.post("/account/verify", "token", reset).is(t, "a reset token for an address", 400, "")
	b.post("/account/reset/confirm", "token", verify, "password", other).is(t, "a verify token for a password", 400, "")
	b.get("/account/reset/confirm?token="+verify).is(t, "a verify token for a password", 400, "")
	for _, token := range []string{"", "x", reset + "x", reset[1:], strings.ToLower(reset) + "A", strings.Repeat("A", 5000)} {
		b.post("/account/reset/confirm", "token", token, "password", other).is(t, token, 400, "")
		b.get("/account/verify?token="+url.QueryEscape(token)).is(t, token, 400, "")
	}
	w.clock.Add(auth.DefaultResetTTL + time.Second)
	b.post("/account/reset/confirm", "token", reset, "password", other).is(t, "a reset too late", 400, "")
	w.clock.Add(auth.DefaultVerifyTTL)
	b.post("/account/verify", "token", verify).is(t, "a verification too late", 400, "")
	b.login("ann@example.org", good)
}

// TestLinksOfEmails: the name in a request is no part of an email.
func TestLinksOfEmails(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	w.user("ann@example.org")
	w.browser().do("POST", "/account/reset", "email=ann@example.org", "Host", "evil.example", "X-Forwarded-Host", "evil.example", "Forwarded", "host=evil.example")
	if m := w.email(); strings.Contains(m.Text+m.HTML, "evil") || !strings.Contains(m.Text, base+"/account/reset/confirm?token=") || !strings.Contains(m.HTML, `href="`+base+"/account/reset/confirm?token=") {
		t.Errorf("%+v", m)
	}
}

// TestCrossOrigin: no page of another origin logs anybody in or out, or changes
// anything, and nothing that changes something is a GET.
func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	w.user("ann@example.org")
	b := w.browser().login("ann@example.org", good)
	for _, path := range []string{"/login", "/logout", "/register", "/password", "/reset", "/name", "/totp/enrol", "/sessions/revoke-others", "/verify", "/reset/confirm"} {
		for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "", "Origin", "https://evil.example"}} {
			b.do("POST", "/account"+path, "email=eve@example.org&password="+good, append(header, "Accept", "application/json")...).fails(t, path, problem.CodeCrossOrigin)
		}
	}
	b.do("GET", "/account/logout", "", "Accept", "application/json").fails(t, "logout by GET", problem.CodeMethodNotAllowed)
	b.do("POST", "/account/logout", "{}", "Content-Type", "text/plain", "Sec-Fetch-Site", "cross-site", "Accept", "application/json").fails(t, "a body that needs no leave", problem.CodeCrossOrigin)
	if b.who() != "ann@example.org" {
		t.Error("somebody has logged ann out")
	}
	w.noEmail()
}

// TestGoneUsers: a disabled or deleted user is logged out at once, also in an existing session.
func TestGoneUsers(t *testing.T) {
	t.Parallel()
	w := open(t, settings{web: web.Options{Superadmins: []string{"root@example.org"}}, add: func(app *web.App, _ *auth.Auth) {
		app.Get("/admin", func(c *web.Context) error { return c.Text(200, "secret") }, web.RequireSuperadmin())
	}})
	for i, gone := range []func(id string) error{
		func(id string) error { _, err := w.users.Disable(t.Context(), id, true); return err },
		func(id string) error { return w.users.Delete(t.Context(), id) },
	} {
		u := w.user([]string{"ann@example.org", "bob@example.org"}[i])
		b := w.browser().login(u.Email, good)
		find := account.User(w.users)
		if found, err := find(t.Context(), u.ID); err != nil || found.Email != u.Email || !found.Verified {
			t.Errorf("%+v %v", found, err)
		}
		must(t, "remove", gone(u.ID))
		if _, err := find(t.Context(), u.ID); engine.CodeOf(err) != engine.CodeNotFound {
			t.Errorf("a user who is gone: %v", err)
		}
		if b.who() != "" {
			t.Errorf("%s is still logged in", u.Email)
		}
		b.get("/account").is(t, "the account", 303, "/account/login?next=%2Faccount")
	}
	b := w.browser()
	if _, err := w.users.Create(t.Context(), "root@example.org", good, false); err != nil {
		t.Fatal(err)
	}
	b.post("/account/login", "email", "root@example.org", "password", good).is(t, "root, not verified", 403, "")
	b.get("/admin").is(t, "nobody in a browser", 303, "/account/login?next=%2Fadmin")
	w.program().get("/admin").fails(t, "nobody in a program", engine.CodeUnauthenticated)
	w.browser().post("/account/verify/again", "email", "root@example.org")
	_, token := w.link(w.email())
	b.post("/account/verify", "token", token, "password", good)
	if got := b.login("root@example.org", good).get("/admin"); got.status != 200 || got.body != "secret" {
		t.Errorf("the superadmin: %d", got.status)
	}
	w.user("ann2@example.org")
	if got := w.browser().login("ann2@example.org", good).get("/admin"); got.status != 403 {
		t.Errorf("not the superadmin: %d", got.status)
	}
}

// TestStrangersAccount: whoever registers the address of somebody else, or moves their own
// account to it, does not get it confirmed by a click on the email.
func TestStrangersAccount(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	w.user("thief@example.org")
	thief := w.browser().login("thief@example.org", good)
	w.browser().post("/account/register", "email", "ann@example.org", "password", other)
	path, token := w.link(w.email())
	ann := w.browser()
	if got := ann.get(path).is(t, "the link", 200, ""); !strings.Contains(got.body, `name="password"`) {
		t.Errorf("the page asks for no password: %s", text(got.body))
	}
	thief.post("/account/email", "email", "bob@example.org", "password", good)
	_, moving := w.link(w.email())
	for _, token := range []string{token, moving} {
		ann.post("/account/verify", "token", token).is(t, "a click", 400, "")
		ann.post("/account/verify", "token", token, "password", "a password of ann").is(t, "another password", 401, "")
		w.program().post("/account/verify", "token", token).fails(t, "a program", engine.CodeInvalid)
	}
	thief.post("/account/login", "email", "ann@example.org", "password", other).is(t, "login", 403, "")
	if who := thief.who(); who != "thief@example.org" {
		t.Errorf("the thief is %q", who)
	}
	ann.post("/account/reset", "email", "ann@example.org")
	_, reset := w.link(w.email())
	ann.post("/account/reset/confirm", "token", reset, "password", good).is(t, "reset", 303, "/account/login?done=reset")
	w.browser().post("/account/login", "email", "ann@example.org", "password", other).is(t, "the password before", 401, "")
	if who := ann.login("ann@example.org", good).who(); who != "ann@example.org" {
		t.Errorf("the owner is %q", who)
	}
}

// TestWayToLogIn: a browser that is not logged in is redirected from any page that needs a user to the login
// page, and back; programs get an error.
func TestWayToLogIn(t *testing.T) {
	t.Parallel()
	w := open(t, settings{web: web.Options{}, add: func(app *web.App, users *auth.Auth) {
		app.Use(account.Keys(users))
		app.Group("/mine", web.RequireUser("")).Get("/list", func(c *web.Context) error { return c.Text(200, "mine") })
		app.Post("/change", func(c *web.Context) error {
			_, err := c.User()
			return err
		})
	}})
	w.user("ann@example.org")
	b, p := w.browser(), w.program()
	for path, to := range map[string]string{
		"/whoami": "/account/login?next=%2Fwhoami", "/mine/list?a=b&c=%2f": "/account/login?next=%2Fmine%2Flist%3Fa%3Db%26c%3D%252f", "/account/keys/none": "",
	} {
		got := b.get(path)
		if got.header.Get("Location") != to || (to != "") != (got.status == http.StatusSeeOther) || to != "" && got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", path, got.status, got.header)
		}
		if to != "" {
			p.get(path).fails(t, path, engine.CodeUnauthenticated)
		}
	}
	b.post("/change").is(t, "a form", 401, "")
	p.post("/change").fails(t, "a program's form", engine.CodeUnauthenticated)
	b.do("GET", "/whoami", "", "Authorization", "Bearer x").is(t, "a key that is none", 401, "")
	b.post("/account/login", "email", "ann@example.org", "password", good, "next", "/mine/list").is(t, "login", 303, "/mine/list")
	if got := b.get("/mine/list"); got.body != "mine" {
		t.Errorf("%+v", got)
	}
}
