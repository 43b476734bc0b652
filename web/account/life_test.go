package account_test

import (
	"strings"
	"testing"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

// TestLife is a whole life of a user in a browser: registered, verified, logged in,
// with another password, name and address, forgotten and reset, logged out.
func TestLife(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	b := w.browser()
	b.get("/account").is(t, "nobody's account", 303, "/account/login?next=%2Faccount")
	b.get("/account/register").is(t, "the form", 200, "")
	b.post("/account/register", "email", "ann@example.org", "password", good).is(t, "register", 303, "/account/sent")
	b.get("/account/sent").is(t, "sent", 200, "")
	path, token := w.link(w.email())
	got := b.post("/account/login", "email", "ann@example.org", "password", good).is(t, "login before verify", 403, "")
	if !strings.Contains(got.body, "not verified yet") || b.who() != "" {
		t.Errorf("%s", text(got.body))
	}
	for range 3 { // a scanner of mail opens it
		if got := w.browser().get(path).is(t, "the link", 200, ""); !strings.Contains(got.body, `value="`+token+`"`) {
			t.Errorf("no token in the form: %s", got.body)
		}
	}
	b.post("/account/verify", "token", token).is(t, "verify without the password", 400, "")
	b.post("/account/verify", "token", token, "password", other).is(t, "verify with another password", 401, "")
	b.post("/account/verify", "token", token, "password", good).is(t, "verify", 303, "/account/login?done=verified")
	b.post("/account/verify", "token", token).is(t, "verify again", 400, "")
	b.get(path).is(t, "the link of a used token", 400, "")
	if got := b.get("/account/login?done=verified"); !strings.Contains(got.body, "is confirmed") {
		t.Errorf("%s", text(got.body))
	}
	b.post("/account/login", "email", "ann@example.org", "password", good+"!", "next", "/todo").is(t, "a wrong password", 401, "")
	b.post("/account/login", "email", "Ann@Example.org", "password", good, "next", "/todo?x=1#y").is(t, "login", 303, "/todo?x=1#y")
	b.get("/account/login?next=/todo").is(t, "login of a user who is logged in", 303, "/todo")
	if got := b.get("/account").is(t, "the account", 200, ""); !strings.Contains(text(got.body), "Email ann@example.org") {
		t.Errorf("%s", text(got.body))
	}
	b.post("/account/name", "name", "Ann").is(t, "name", 303, "/account?done=name")
	b.lateLife(t)
}

// lateLife changes everything that ann authenticates with.
func (b *browser) lateLife(t *testing.T) {
	t.Helper()
	w := b.w
	b.post("/account/password", "old", good, "password", other).is(t, "password", 303, "/account?done=password")
	if m := w.email(); !strings.HasPrefix(m.Subject, "Your password was changed") || b.who() != "ann@example.org" {
		t.Errorf("%s", m.Subject)
	}
	b.post("/account/email", "email", "new@example.org", "password", good).is(t, "email with the old password", 401, "")
	b.post("/account/email", "email", "new@example.org").is(t, "email without a password", 400, "")
	b.post("/account/email", "email", "new@example.org", "password", other).is(t, "email", 303, "/account/sent")
	m := w.email()
	path, token := w.link(m)
	if m.To[0] != "new@example.org" || b.who() != "ann@example.org" {
		t.Errorf("%+v", m)
	}
	b.get(path).is(t, "the link", 200, "")
	b.post("/account/verify", "token", token).is(t, "verify without the password", 400, "")
	b.post("/account/verify", "token", token, "password", other).is(t, "verify", 303, "/account?done=verified")
	if m := w.email(); m.To[0] != "ann@example.org" || b.who() != "new@example.org" {
		t.Errorf("%+v", m)
	}
	b.post("/account/logout").is(t, "logout", 303, "/account/login?done=logout")
	if b.who() != "" {
		t.Error("logged in after the logout")
	}
	b.post("/account/reset", "email", "new@example.org").is(t, "reset", 303, "/account/sent")
	path, token = w.link(w.email())
	b.get(path).is(t, "the link", 200, "")
	b.post("/account/reset/confirm", "token", token, "password", "short").is(t, "a short password", 422, "")
	b.post("/account/reset/confirm", "token", token, "password", good).is(t, "reset", 303, "/account/login?done=reset")
	w.email()
	b.post("/account/reset/confirm", "token", token, "password", other).is(t, "reset again", 400, "")
	b.login("new@example.org", good)
	if b.who() != "new@example.org" {
		t.Error("not logged in after the reset")
	}
	w.noEmail()
}

// TestLifeOfAProgram is the same in JSON.
func TestLifeOfAProgram(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	p := w.program()
	p.get("/account").fails(t, "nobody's account", engine.CodeUnauthenticated)
	got := p.post("/account/register", "email", "bob@example.org", "password", good).is(t, "register", 202, "")
	if got.body != `{"status":"accepted","detail":"the next steps are in an email to the address"}`+"\n" {
		t.Errorf("%s", got.body)
	}
	_, token := w.link(w.email())
	p.post("/account/login", "email", "bob@example.org", "password", good).fails(t, "login before verify", auth.CodeEmailUnverified)
	if got := p.post("/account/verify", "token", token, "password", good).is(t, "verify", 200, ""); got.body != `{"email":"bob@example.org","verified":true}`+"\n" {
		t.Errorf("%s", got.body)
	}
	p.post("/account/verify", "token", token).fails(t, "verify again", auth.CodeTokenInvalid)
	p.post("/account/login", "email", "bob@example.org", "password", other).fails(t, "a wrong password", auth.CodeWrongCredentials)
	got = p.post("/account/login", "email", "bob@example.org", "password", good).is(t, "login", 200, "")
	if !strings.Contains(got.body, `"email":"bob@example.org","verified":true,"name":"","roles":[],"totp":false,"password":true}`) || p.who() != "bob@example.org" {
		t.Errorf("%s", got.body)
	}
	p.post("/account/password", "old", good, "password", "short").fails(t, "a short password", auth.CodePasswordRefused)
	p.post("/account/password", "old", good, "password", other).is(t, "password", 204, "")
	p.do("POST", "/account/name", `{"name":"Bob","admin":true}`).fails(t, "an unknown field", engine.CodeInvalid)
	p.post("/account/logout").is(t, "logout", 204, "")
	if p.who() != "" {
		t.Error("logged in after the logout")
	}
}
