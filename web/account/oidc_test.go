package account_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/auth/oidc"
	"github.com/skerrydb/skerry/ci/oidcprovider"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/account"
)

// clientOf returns the options of p's client.
func clientOf(p *oidcprovider.Provider) oidc.Options {
	return oidc.Options{Issuer: p.URL, ClientID: oidcprovider.ClientID, ClientSecret: oidcprovider.ClientSecret}
}

// withProvider is a world in which one can log in by a provider.
func withProvider(t *testing.T) (*world, *oidcprovider.Provider) {
	t.Helper()
	p := oidcprovider.New(t, base+"/account/oidc/test/callback")
	at := clientOf(p)
	w := open(t, settings{account: account.Options{Providers: []account.Provider{{ID: "test", Title: "Test <ID>", OIDC: at}, {ID: "other", OIDC: at}}}})
	return w, p
}

// depart begins a login at the provider; it returns where to go.
func (b *browser) depart(pairs ...string) string {
	b.w.t.Helper()
	got := b.post("/account/oidc/test", pairs...).is(b.w.t, "begin", 200, "")
	address, ok := strings.CutPrefix(got.header.Get("Refresh"), "0; url=")
	if !ok || !strings.Contains(got.body, "Continue to Test &lt;ID&gt;") {
		b.w.t.Fatalf("%v %s", got.header, got.body)
	}
	return address
}

var ann = map[string]any{"sub": "1", "email": "ann@example.org", "email_verified": true, "name": "<img src=x onerror=alert(1)>"}

// TestProvider: a login at a provider makes an account, and finds it again.
func TestProvider(t *testing.T) {
	t.Parallel()
	w, p := withProvider(t)
	p.Says(ann)
	b := w.browser()
	if got := b.get("/account/login?next=/todo"); !strings.Contains(got.body, `action="/account/oidc/test"`) || !strings.Contains(got.body, "Log in with Test &lt;ID&gt;") {
		t.Errorf("%s", got.body)
	}
	back := p.Visit(b.depart("next", "/todo")).RequestURI()
	planted := b.token()
	b.get(back).is(t, "back", 303, "/todo")
	if b.who() != "ann@example.org" || w.with(planted).who() != "" {
		t.Error("not logged in under a new token")
	}
	b.get(back).is(t, "back again", 400, "")
	b.post("/account/logout")
	b.get(p.Visit(b.depart("next", "//evil.example")).RequestURI()).is(t, "the second login", 303, "/")
	page := b.get("/account")
	if b.who() != "ann@example.org" || strings.Contains(page.body, "<img") || !strings.Contains(page.body, "&lt;img") {
		t.Errorf("%s", page.body)
	}
	b.post("/account/oidc/none").is(t, "no such provider", 404, "")
	b.post("/account/identities/unlink", "issuer", p.URL, "subject", "1").is(t, "the last way to log in", 412, "")
	if got := w.program().do("POST", "/account/oidc/test", "{}"); got.status != 200 || !strings.HasPrefix(got.body, `{"location":"`+p.URL) || got.header.Get("Refresh") != "" {
		t.Errorf("a program: %+v", got)
	}
}

// TestForgedCallbacks: only what this browser has begun ends here, once.
func TestForgedCallbacks(t *testing.T) {
	t.Parallel()
	w, p := withProvider(t)
	p.Says(ann)
	victim, attacker := w.browser(), w.browser()
	back := p.Visit(attacker.depart()).RequestURI()
	victim.get(back).is(t, "somebody else's callback", 400, "")
	victim.depart()
	for _, path := range []string{back, "/account/oidc/test/callback", "/account/oidc/test/callback?state=&code=x", "/account/oidc/test/callback?code=x&state=" + strings.Repeat("A", 43)} {
		if victim.get(path).is(t, path, 400, ""); victim.who() != "" {
			t.Errorf("logged in by %s", path)
		}
	}
	if p.Asked("/token") != 0 {
		t.Error("the provider was asked about a forged callback")
	}
	back = p.Visit(victim.depart()).RequestURI()
	victim.get("/account/oidc/test/callback?code=x&state=forged").is(t, "forged", 400, "")
	victim.get(strings.Replace(back, "/test/", "/other/", 1)).is(t, "the answer of another provider", 400, "")
	victim.get(back).is(t, "what forged ones have not ended", 303, "/")
	victim.post("/account/logout")
	u := p.Visit(victim.depart())
	denied := victim.get("/account/oidc/test/callback?error=access_denied&state="+u.Query().Get("state")).is(t, "refused", 400, "")
	if !strings.Contains(denied.body, "refused the login") {
		t.Errorf("%s", text(denied.body))
	}
	victim.get(u.RequestURI()).is(t, "after the refusal", 400, "")
	back = p.Visit(victim.depart()).RequestURI()
	p.Close()
	if got := victim.get(back); got.status != 502 || victim.who() != "" {
		t.Errorf("a provider that is down: %d", got.status)
	}
}

// TestUnverifiedIdentity: an address that the provider has not verified, or that was not verified here, does
// not log in to an account.
func TestUnverifiedIdentity(t *testing.T) {
	t.Parallel()
	w, p := withProvider(t)
	w.user("ann@example.org")
	b := w.browser()
	for _, verified := range []any{false, "false", nil, 1} {
		p.Says(map[string]any{"sub": "evil", "email": "ann@example.org", "email_verified": verified})
		b.get(p.Visit(b.depart()).RequestURI()).is(t, "an address that is not verified there", 403, "")
	}
	if b.who() != "" {
		t.Fatal("logged in")
	}
	p.Says(ann)
	b.get(p.Visit(b.depart()).RequestURI()).is(t, "an address that is verified on both sides", 303, "/")
	if b.who() != "ann@example.org" {
		t.Error("not logged in")
	}
	b.enrolled()
	b.post("/account/logout")
	if got := b.get(p.Visit(b.depart("next", "/todo")).RequestURI()).is(t, "with a second factor", 200, ""); ticketOf.FindString(got.body) == "" || b.who() != "" {
		t.Errorf("%s", text(got.body))
	}
}

// TestProblemInAnyScript: messages begin with a capital letter in any script.
func TestProblemInAnyScript(t *testing.T) {
	t.Parallel()
	p := oidcprovider.New(t, base+"/account/oidc/test/callback")
	w := open(t, settings{account: account.Options{Providers: []account.Provider{{ID: "test", Title: "über uns", OIDC: clientOf(p)}}}})
	b := w.browser()
	begun := b.post("/account/oidc/test").is(t, "begin", 200, "")
	at, err := url.Parse(strings.TrimPrefix(begun.header.Get("Refresh"), "0; url="))
	if err != nil {
		t.Fatal(err)
	}
	got := b.get("/account/oidc/test/callback?error=access_denied&state="+at.Query().Get("state")).is(t, "refused", 400, "")
	if !strings.Contains(got.body, "Über uns refused the login.") {
		t.Errorf("%q", text(got.body))
	}
}

// TestClosed: where administrators make the accounts, a provider's word makes none.
func TestClosed(t *testing.T) {
	t.Parallel()
	p := oidcprovider.New(t, base+"/account/oidc/test/callback")
	w := open(t, settings{account: account.Options{Closed: true, Providers: []account.Provider{{ID: "test", Title: "Test <ID>", OIDC: clientOf(p)}}}})
	b := w.browser()
	for what, claims := range map[string]map[string]any{"a stranger": ann, "no address": {"sub": "1"}, "no good address": {"sub": "1", "email": "x", "email_verified": true}, "an address that is not verified": {"sub": "1", "email": "bob@example.org"}} {
		p.Says(claims)
		b.get(p.Visit(b.depart()).RequestURI()).is(t, what, 403, "")
	}
	if list, err := w.users.List(t.Context(), engine.Read{}, auth.ListOptions{}); err != nil || len(list.Users) != 0 || b.who() != "" {
		t.Errorf("%+v %v", list, err)
	}
	w.user("ann@example.org")
	p.Says(ann)
	for range 2 { // by the address, then by the identity
		b.get(p.Visit(b.depart()).RequestURI()).is(t, "a user", 303, "/")
		p.Says(map[string]any{"sub": "1"})
	}
	if b.who() != "ann@example.org" {
		t.Error("not logged in")
	}
}

// TestLink: a logged-in user links further identities after confirming the password.
func TestLink(t *testing.T) {
	t.Parallel()
	w, p := withProvider(t)
	w.user("ann@example.org")
	w.user("bob@example.org")
	b := w.browser().login("ann@example.org", good)
	p.Says(map[string]any{"sub": "7", "email": "private@example.net", "email_verified": false})
	b.post("/account/oidc/test", "link", "true").is(t, "without the password", 400, "")
	b.post("/account/oidc/test", "link", "true", "password", other).is(t, "with a wrong password", 401, "")
	w.browser().do("POST", "/account/oidc/test", "link=true", "Accept", "application/json").is(t, "nobody", 401, "")
	back := p.Visit(b.depart("link", "true", "password", good)).RequestURI()
	b.login("bob@example.org", good)
	b.get(back).is(t, "another user's link", 400, "")
	b.login("ann@example.org", good)
	b.get(p.Visit(b.depart("link", "true", "password", good)).RequestURI()).is(t, "link", 303, "/account/identities?done=linked")
	w.email()
	if got := b.get("/account/identities?done=linked").is(t, "the list", 200, ""); !strings.Contains(got.body, "private@example.net") {
		t.Errorf("%s", text(got.body))
	}
	two := w.browser()
	two.get(p.Visit(two.depart()).RequestURI()).is(t, "login", 303, "/")
	if two.who() != "ann@example.org" {
		t.Errorf("logged in as %q", two.who())
	}
	bob := w.browser().login("bob@example.org", good)
	bob.get(p.Visit(bob.depart("link", "true", "password", good)).RequestURI()).is(t, "an identity of somebody else", 409, "")
	b.post("/account/identities/unlink", "issuer", p.URL, "subject", "7").is(t, "unlink", 303, "/account/identities?done=unlinked")
	two.get(p.Visit(two.depart()).RequestURI()).is(t, "login by an unlinked identity", 403, "")
	if _, err := w.users.Find(t.Context(), engine.Read{}, "private@example.net"); err == nil {
		t.Error("an account was made")
	}
}
