package oidc_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/auth/oidc"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
)

func client(t *testing.T, issuer string) *oidc.Provider {
	t.Helper()
	p, err := oidc.New(oidc.Options{Issuer: issuer, ClientID: clientID, ClientSecret: clientSecret, RedirectURL: redirect})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// login does a whole login and returns the identity.
func login(t *testing.T, p *provider, c *oidc.Provider) (auth.Identity, error) {
	t.Helper()
	address, flow, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(address, flow.Verifier) {
		t.Error("the verifier is in the URL")
	}
	state, code := p.visit(address)
	return c.Finish(t.Context(), flow, state, code)
}

func want(t *testing.T, what string, err error, code engine.Code) {
	t.Helper()
	if got := engine.CodeOf(err); got != code {
		t.Errorf("%s: %v, want code %q", what, err, code)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.claims = map[string]any{"email": "ann@example.com", "email_verified": true, "name": "Ann"}
	c := client(t, p.server.URL)
	id, err := login(t, p, c)
	wanted := auth.Identity{Issuer: p.server.URL, Subject: "subject 1", Email: "ann@example.com", EmailVerified: true, Name: "Ann"}
	if err != nil || id != wanted {
		t.Errorf("%+v %v, want %+v", id, err, wanted)
	}
	p.set(func() { p.rotate("key 2") })
	if id, err = login(t, p, c); err != nil || id != wanted {
		t.Errorf("after the provider's key has changed: %+v %v", id, err)
	}
	p.set(func() {
		if p.asked["/.well-known/openid-configuration"] != 1 || p.asked["/keys"] != 2 {
			t.Errorf("requests: %v", p.asked)
		}
	})
}

// TestEmailVerified: only what says true is.
func TestEmailVerified(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	c := client(t, p.server.URL)
	for _, v := range []struct {
		says any
		is   bool
	}{{true, true}, {"true", true}, {false, false}, {"false", false}, {nil, false}, {1, false}, {"yes", false}} {
		p.set(func() { p.claims = map[string]any{"email": "ann@example.com", "email_verified": v.says} })
		if id, err := login(t, p, c); err != nil || id.EmailVerified != v.is {
			t.Errorf("email_verified: %v is %v: %v", v.says, id.EmailVerified, err)
		}
	}
	p.set(func() { p.claims = map[string]any{"email": "ann@example.com"} })
	if id, err := login(t, p, c); err != nil || id.EmailVerified {
		t.Errorf("without email_verified: %+v %v", id, err)
	}
}

// TestUserInfo: it is asked where the ID token has no address, and believed only
// about the same subject.
func TestUserInfo(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	c := client(t, p.server.URL)
	p.set(func() {
		p.userInfo = map[string]any{"sub": "subject 1", "email": "ann@example.com", "email_verified": true, "name": "Ann"}
	})
	if id, err := login(t, p, c); err != nil || id.Email != "ann@example.com" || !id.EmailVerified || id.Name != "Ann" {
		t.Errorf("%+v %v", id, err)
	}
	// What the ID token calls verified is not what the user info names.
	p.set(func() {
		p.claims = map[string]any{"email_verified": true, "name": "Ann"}
		delete(p.userInfo, "email_verified")
	})
	if id, err := login(t, p, c); err != nil || id.Email != "ann@example.com" || id.EmailVerified || id.Name != "Ann" {
		t.Errorf("an address that nobody calls verified: %+v %v", id, err)
	}
	p.set(func() { p.userInfo["sub"] = "subject 2" })
	_, err := login(t, p, c)
	want(t, "user info of another subject", err, oidc.CodeProviderFailed)
}

// TestFlows: a response belongs to one flow, once.
func TestFlows(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.claims = map[string]any{"email": "ann@example.com"}
	c := client(t, p.server.URL)
	address, flow, err := c.Begin(t.Context())
	want(t, "begin", err, "")
	_, other, err := c.Begin(t.Context())
	want(t, "begin another", err, "")
	if flow.State == other.State || flow.Nonce == other.Nonce || flow.Verifier == other.Verifier {
		t.Error("two flows have something in common")
	}
	state, code := p.visit(address)
	for _, f := range []struct {
		what        string
		flow        oidc.Flow
		state, code string
		want        engine.Code
	}{
		{"the state of another flow", flow, other.State, code, oidc.CodeFlowInvalid},
		{"no state", flow, "", code, oidc.CodeFlowInvalid},
		{"no flow", oidc.Flow{}, "", code, oidc.CodeFlowInvalid},
		{"no code", flow, state, "", oidc.CodeFlowInvalid},
		{"a code that was never given", flow, state, "code", oidc.CodeProviderFailed},
	} {
		_, err := c.Finish(t.Context(), f.flow, f.state, f.code)
		want(t, f.what, err, f.want)
	}
	_, err = c.Finish(t.Context(), flow, state, code)
	want(t, "finish", err, "")
	_, err = c.Finish(t.Context(), flow, state, code)
	want(t, "the code again", err, oidc.CodeProviderFailed)

	// A code that was stolen is of no use without its verifier, nor is one that
	// was planted: its ID token has the nonce of the thief's flow.
	address, flow, err = c.Begin(t.Context())
	want(t, "begin", err, "")
	_, code = p.visit(address)
	_, err = c.Finish(t.Context(), other, other.State, code)
	want(t, "a stolen code", err, oidc.CodeProviderFailed)
	_, code = p.visit(address)
	planted := flow
	planted.Nonce = other.Nonce
	_, err = c.Finish(t.Context(), planted, flow.State, code)
	want(t, "an ID token with another nonce", err, oidc.CodeFlowInvalid)
}

// TestForgedTokens: every way in which an ID token is not what it should be.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.claims = map[string]any{"email": "ann@example.com"}
	c := client(t, p.server.URL)
	stranger := newProvider(t)
	for what, fn := range map[string]func(){
		"of another issuer":                   func() { p.edit = func(m map[string]any) { m["iss"] = "https://evil.example" } },
		"for another client":                  func() { p.edit = func(m map[string]any) { m["aud"] = "another" } },
		"for two audiences, issued to nobody": func() { p.edit = func(m map[string]any) { m["aud"] = []string{clientID, "another"} } },
		"for two audiences, issued to another": func() {
			p.edit = func(m map[string]any) { m["aud"], m["azp"] = []string{clientID, "another"}, "another" }
		},
		"issued to another":   func() { p.edit = func(m map[string]any) { m["azp"] = "another" } },
		"issued to no client": func() { p.edit = func(m map[string]any) { m["azp"] = "" } },
		"issued to a number":  func() { p.edit = func(m map[string]any) { m["azp"] = 1 } },
		"expired":             func() { p.edit = func(m map[string]any) { m["exp"] = time.Now().Add(-time.Hour).Unix() } },
		"signed by another key": func() {
			p.sign = func(b []byte) string { return p.signed(stranger.key, b) }
		},
		"signed by the client's secret": func() {
			p.sign = func(b []byte) string { return hmacSigned(clientSecret, b) }
		},
		"not signed":  func() { p.sign = func(b []byte) string { return b64([]byte(`{"alg":"none"}`)) + "." + b64(b) + "." } },
		"not a token": func() { p.sign = func([]byte) string { return "token" } },
		"missing":     func() { p.noToken = true },
	} {
		p.set(func() {
			p.edit, p.sign, p.noToken = nil, nil, false
			fn()
		})
		_, err := login(t, p, c)
		want(t, "an ID token "+what, err, oidc.CodeProviderFailed)
	}
	p.set(func() { p.edit, p.sign, p.noToken = func(m map[string]any) { delete(m, "nonce") }, nil, false })
	_, err := login(t, p, c)
	want(t, "an ID token without a nonce", err, oidc.CodeFlowInvalid)
	for what, edit := range map[string]func(map[string]any){
		"for two audiences": func(m map[string]any) { m["aud"], m["azp"] = []string{"another", clientID}, clientID },
		"with azp":          func(m map[string]any) { m["azp"] = clientID },
		"after all these":   nil,
	} {
		p.set(func() { p.edit = edit })
		_, err = login(t, p, c)
		want(t, "a good one "+what, err, "")
	}
}

// TestProviderDown: it is asked at the first use, and again after a failure.
func TestProviderDown(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	var up atomic.Bool
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		p.server.Config.Handler.ServeHTTP(w, r)
	}))
	defer front.Close()
	c := client(t, front.URL)
	_, _, err := c.Begin(t.Context())
	want(t, "begin while it is down", err, oidc.CodeProviderFailed)
	up.Store(true)
	_, _, err = c.Begin(t.Context())
	want(t, "begin at one that calls itself otherwise", err, oidc.CodeProviderFailed)
	_, _, err = client(t, p.server.URL).Begin(t.Context())
	want(t, "begin", err, "")
	long := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range oidc.MaxAnswerBytes/1024 + 1 {
			if _, err := w.Write([]byte(strings.Repeat(" ", 1024))); err != nil {
				return
			}
		}
	}))
	defer long.Close()
	_, _, err = client(t, long.URL).Begin(t.Context())
	want(t, "an answer without end", err, oidc.CodeProviderFailed)
	if err != nil && !strings.Contains(err.Error(), "longer than") {
		t.Errorf("an answer without end: %v", err)
	}
	for _, o := range []oidc.Options{{ClientID: "c", RedirectURL: "r"}, {Issuer: "i", RedirectURL: "r"}, {Issuer: "i", ClientID: "c"}} {
		_, err := oidc.New(o)
		want(t, "options", err, engine.CodeInvalid)
	}
}

// TestWithUsers: from the provider to the user, with real users.
func TestWithUsers(t *testing.T) {
	t.Parallel()
	eng, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	want(t, "open", err, "")
	defer eng.Close()
	store, err := kv.New(eng, kv.Options{})
	want(t, "open", err, "")
	a, err := auth.New(store, auth.Options{Argon2: auth.Params{MemoryKiB: 64, Passes: 1}})
	want(t, "open", err, "")
	ann, err := a.Create(t.Context(), "ann@example.com", "correct horse battery", true)
	want(t, "create", err, "")
	p := newProvider(t)
	c := client(t, p.server.URL)
	p.claims = map[string]any{"email": "ann@example.com", "email_verified": false}
	id, err := login(t, p, c)
	want(t, "login", err, "")
	_, err = a.LoginIdentity(t.Context(), id)
	want(t, "an address that the provider has not verified", err, auth.CodeIdentityUnverified)
	p.set(func() { p.claims["email_verified"] = true })
	id, err = login(t, p, c)
	want(t, "login", err, "")
	u, err := a.LoginIdentity(t.Context(), id)
	if err != nil || u.ID != ann.ID {
		t.Errorf("%+v %v", u, err)
	}
}
