package oidc_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/auth/oidc"
	"github.com/skerrydb/skerry/ci/oidcprovider"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
)

const redirect = "https://app.example/login/callback"

func client(t *testing.T, issuer string) *oidc.Provider {
	t.Helper()
	p, err := oidc.New(oidc.Options{Issuer: issuer, ClientID: oidcprovider.ClientID, ClientSecret: oidcprovider.ClientSecret, RedirectURL: redirect})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// login does a whole login and returns the identity.
func login(t *testing.T, p *oidcprovider.Provider, c *oidc.Provider) (auth.Identity, error) {
	t.Helper()
	address, flow, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(address, flow.Verifier) {
		t.Error("the verifier is in the URL")
	}
	state, code := visit(p, address)
	return c.Finish(t.Context(), flow, state, code)
}

// visit returns the state and code with which the provider sends the browser back.
func visit(p *oidcprovider.Provider, address string) (state, code string) {
	q := p.Visit(address).Query()
	return q.Get("state"), q.Get("code")
}

// hmacSigned returns a token that is signed by a secret that both sides know (HS256).
func hmacSigned(secret string, payload []byte) string {
	text := oidcprovider.B64([]byte(`{"alg":"HS256"}`)) + "." + oidcprovider.B64(payload)
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(text))
	return text + "." + oidcprovider.B64(h.Sum(nil))
}

func want(t *testing.T, what string, err error, code engine.Code) {
	t.Helper()
	if got := engine.CodeOf(err); got != code {
		t.Errorf("%s: %v, want code %q", what, err, code)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	p := oidcprovider.New(t, redirect)
	p.Says(map[string]any{"email": "ann@example.com", "email_verified": true, "name": "Ann"})
	c := client(t, p.URL)
	id, err := login(t, p, c)
	wanted := auth.Identity{Issuer: p.URL, Subject: "subject 1", Email: "ann@example.com", EmailVerified: true, Name: "Ann"}
	if err != nil || id != wanted {
		t.Errorf("%+v %v, want %+v", id, err, wanted)
	}
	p.Set(func() { p.Rotate("key 2") })
	if id, err = login(t, p, c); err != nil || id != wanted {
		t.Errorf("after the provider's key has changed: %+v %v", id, err)
	}
	if config, keys := p.Asked("/.well-known/openid-configuration"), p.Asked("/keys"); config != 1 || keys != 2 {
		t.Errorf("%d requests for the configuration, %d for the keys", config, keys)
	}
}

// TestEmailVerified: only what says true is.
func TestEmailVerified(t *testing.T) {
	t.Parallel()
	p := oidcprovider.New(t, redirect)
	c := client(t, p.URL)
	for _, v := range []struct {
		says any
		is   bool
	}{{true, true}, {"true", true}, {false, false}, {"false", false}, {nil, false}, {1, false}, {"yes", false}} {
		p.Says(map[string]any{"email": "ann@example.com", "email_verified": v.says})
		if id, err := login(t, p, c); err != nil || id.EmailVerified != v.is {
			t.Errorf("email_verified: %v is %v: %v", v.says, id.EmailVerified, err)
		}
	}
	p.Says(map[string]any{"email": "ann@example.com"})
	if id, err := login(t, p, c); err != nil || id.EmailVerified {
		t.Errorf("without email_verified: %+v %v", id, err)
	}
}

// TestUserInfo: it is asked where the ID token has no address, and believed only
// about the same subject.
func TestUserInfo(t *testing.T) {
	t.Parallel()
	p := oidcprovider.New(t, redirect)
	c := client(t, p.URL)
	p.Set(func() {
		p.UserInfo = map[string]any{"sub": "subject 1", "email": "ann@example.com", "email_verified": true, "name": "Ann"}
	})
	if id, err := login(t, p, c); err != nil || id.Email != "ann@example.com" || !id.EmailVerified || id.Name != "Ann" {
		t.Errorf("%+v %v", id, err)
	}
	// What the ID token calls verified is not what the user info names.
	p.Set(func() {
		p.Claims = map[string]any{"email_verified": true, "name": "Ann"}
		delete(p.UserInfo, "email_verified")
	})
	if id, err := login(t, p, c); err != nil || id.Email != "ann@example.com" || id.EmailVerified || id.Name != "Ann" {
		t.Errorf("an address that nobody calls verified: %+v %v", id, err)
	}
	p.Set(func() { p.UserInfo["sub"] = "subject 2" })
	_, err := login(t, p, c)
	want(t, "user info of another subject", err, oidc.CodeProviderFailed)
}

// TestFlows: a response belongs to one flow, once.
func TestFlows(t *testing.T) {
	t.Parallel()
	p := oidcprovider.New(t, redirect)
	p.Says(map[string]any{"email": "ann@example.com"})
	c := client(t, p.URL)
	address, flow, err := c.Begin(t.Context())
	want(t, "begin", err, "")
	_, other, err := c.Begin(t.Context())
	want(t, "begin another", err, "")
	if flow.State == other.State || flow.Nonce == other.Nonce || flow.Verifier == other.Verifier {
		t.Error("two flows have something in common")
	}
	state, code := visit(p, address)
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
	_, code = visit(p, address)
	_, err = c.Finish(t.Context(), other, other.State, code)
	want(t, "a stolen code", err, oidc.CodeProviderFailed)
	_, code = visit(p, address)
	planted := flow
	planted.Nonce = other.Nonce
	_, err = c.Finish(t.Context(), planted, flow.State, code)
	want(t, "an ID token with another nonce", err, oidc.CodeFlowInvalid)
}

// TestForgedTokens: every way in which an ID token is not what it should be.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	p := oidcprovider.New(t, redirect)
	p.Says(map[string]any{"email": "ann@example.com"})
	c := client(t, p.URL)
	stranger := oidcprovider.New(t, redirect)
	for what, fn := range map[string]func(){
		"of another issuer":                   func() { p.Edit = func(m map[string]any) { m["iss"] = "https://evil.example" } },
		"for another client":                  func() { p.Edit = func(m map[string]any) { m["aud"] = "another" } },
		"for two audiences, issued to nobody": func() { p.Edit = func(m map[string]any) { m["aud"] = []string{oidcprovider.ClientID, "another"} } },
		"for two audiences, issued to another": func() {
			p.Edit = func(m map[string]any) { m["aud"], m["azp"] = []string{oidcprovider.ClientID, "another"}, "another" }
		},
		"issued to another":   func() { p.Edit = func(m map[string]any) { m["azp"] = "another" } },
		"issued to no client": func() { p.Edit = func(m map[string]any) { m["azp"] = "" } },
		"issued to a number":  func() { p.Edit = func(m map[string]any) { m["azp"] = 1 } },
		"expired":             func() { p.Edit = func(m map[string]any) { m["exp"] = time.Now().Add(-time.Hour).Unix() } },
		"signed by another key": func() {
			p.Sign = func(b []byte) string { return stranger.Signed(b) }
		},
		"signed by the client's secret": func() {
			p.Sign = func(b []byte) string { return hmacSigned(oidcprovider.ClientSecret, b) }
		},
		"not signed": func() {
			p.Sign = func(b []byte) string {
				return oidcprovider.B64([]byte(`{"alg":"none"}`)) + "." + oidcprovider.B64(b) + "."
			}
		},
		"not a token": func() { p.Sign = func([]byte) string { return "token" } },
		"missing":     func() { p.NoToken = true },
	} {
		p.Set(func() {
			p.Edit, p.Sign, p.NoToken = nil, nil, false
			fn()
		})
		_, err := login(t, p, c)
		want(t, "an ID token "+what, err, oidc.CodeProviderFailed)
	}
	p.Set(func() { p.Edit, p.Sign, p.NoToken = func(m map[string]any) { delete(m, "nonce") }, nil, false })
	_, err := login(t, p, c)
	want(t, "an ID token without a nonce", err, oidc.CodeFlowInvalid)
	for what, edit := range map[string]func(map[string]any){
		"for two audiences": func(m map[string]any) {
			m["aud"], m["azp"] = []string{"another", oidcprovider.ClientID}, oidcprovider.ClientID
		},
		"with azp":        func(m map[string]any) { m["azp"] = oidcprovider.ClientID },
		"after all these": nil,
	} {
		p.Set(func() { p.Edit = edit })
		_, err = login(t, p, c)
		want(t, "a good one "+what, err, "")
	}
}

// TestProviderDown: it is asked at the first use, and again after a failure.
func TestProviderDown(t *testing.T) {
	t.Parallel()
	p := oidcprovider.New(t, redirect)
	var up atomic.Bool
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		p.Config.Handler.ServeHTTP(w, r)
	}))
	defer front.Close()
	c := client(t, front.URL)
	_, _, err := c.Begin(t.Context())
	want(t, "begin while it is down", err, oidc.CodeProviderFailed)
	up.Store(true)
	_, _, err = c.Begin(t.Context())
	want(t, "begin at one that calls itself otherwise", err, oidc.CodeProviderFailed)
	_, _, err = client(t, p.URL).Begin(t.Context())
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
	p := oidcprovider.New(t, redirect)
	c := client(t, p.URL)
	p.Says(map[string]any{"email": "ann@example.com", "email_verified": false})
	id, err := login(t, p, c)
	want(t, "login", err, "")
	_, err = a.LoginIdentity(t.Context(), id)
	want(t, "an address that the provider has not verified", err, auth.CodeIdentityUnverified)
	p.Set(func() { p.Claims["email_verified"] = true })
	id, err = login(t, p, c)
	want(t, "login", err, "")
	u, err := a.LoginIdentity(t.Context(), id)
	if err != nil || u.ID != ann.ID {
		t.Errorf("%+v %v", u, err)
	}
}
