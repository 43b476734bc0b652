// Package oidcprovider is a small OpenID Connect provider for tests, over real HTTP and
// with real RS256 keys. It checks what a careful provider checks: the client, the redirect
// address, PKCE, and that a code is used once.
//
// It knows the provider's side of a login; it must not know Skerry.
package oidcprovider

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// The provider's only client.
const (
	ClientID     = "skerry-test"
	ClientSecret = "client secret"
)

// Provider is a running provider. Its URL is the issuer. Change the other fields only in Set, once requests
// are possible.
type Provider struct {
	*httptest.Server
	Claims   map[string]any              // of ID tokens, besides the usual ones
	UserInfo map[string]any              // nil: there is no such endpoint
	Edit     func(token map[string]any)  // changes ID tokens; may be nil
	Sign     func(payload []byte) string // nil: Signed
	NoToken  bool                        // responses have no ID token

	tb       testing.TB
	redirect string
	mu       sync.Mutex // guards the exported fields and what follows
	key      *rsa.PrivateKey
	kid      string
	codes    map[string]url.Values // code to the request that it was given for
	asked    map[string]int        // requests by path
}

// New starts a provider that sends browsers back to redirect.
func New(tb testing.TB, redirect string) *Provider {
	tb.Helper()
	p := &Provider{tb: tb, redirect: redirect, codes: map[string]url.Values{}, asked: map[string]int{}}
	p.Rotate("key 1")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", p.info)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.Set(func() {
			p.asked[r.URL.Path]++
			mux.ServeHTTP(w, r)
		})
	}))
	tb.Cleanup(p.Close)
	return p
}

// Set runs fn between requests.
func (p *Provider) Set(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
}

// Says sets the claims of ID tokens.
func (p *Provider) Says(claims map[string]any) { p.Set(func() { p.Claims = claims }) }

// Asked returns how many requests a path has had.
func (p *Provider) Asked(path string) (n int) {
	p.Set(func() { n = p.asked[path] })
	return n
}

// Rotate gives the provider another key. Call it in Set.
func (p *Provider) Rotate(kid string) {
	p.tb.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		p.tb.Fatal(err)
	}
	p.key, p.kid = key, kid
}

// Visit follows address as a browser would, logs the user in, and returns where the provider sends the
// browser back to.
func (p *Provider) Visit(address string) *url.URL {
	p.tb.Helper()
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.Get(address)
	if err != nil {
		p.tb.Fatal(err)
	}
	defer res.Body.Close()
	back, err := res.Location()
	if err != nil {
		p.tb.Fatalf("status %d: %v", res.StatusCode, err)
	}
	return back
}

// Signed returns a token signed by the provider's key (RFC 7515, RS256).
func (p *Provider) Signed(payload []byte) string {
	text := B64([]byte(`{"alg":"RS256","kid":"`+p.kid+`"}`)) + "." + B64(payload)
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(nil, p.key, crypto.SHA256, sum[:])
	if err != nil {
		p.tb.Errorf("provider: %v", err)
	}
	return text + "." + B64(sig)
}

// B64 encodes bytes as JOSE does.
func B64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (p *Provider) reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		p.tb.Errorf("provider: %v", err)
	}
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	config := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256"}, "code_challenge_methods_supported": []string{"S256"},
	}
	if p.UserInfo != nil {
		config["userinfo_endpoint"] = p.URL + "/userinfo"
	}
	p.reply(w, 200, config)
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	p.reply(w, 200, map[string]any{"keys": []map[string]string{{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": p.kid,
		"n": B64(p.key.N.Bytes()), "e": B64(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

// authorize logs the user in at once and sends the browser back.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("redirect_uri") != p.redirect || q.Get("response_type") != "code" || q.Get("state") == "" || q.Get("nonce") == "" ||
		q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("scope") != "openid email profile" {
		http.Error(w, "bad request: "+r.URL.RawQuery, 400)
		return
	}
	code := rand.Text()
	p.codes[code] = q
	http.Redirect(w, r, p.redirect+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if secret, _ = url.QueryUnescape(secret); id != ClientID || secret != ClientSecret {
		p.reply(w, 401, map[string]string{"error": "invalid_client"})
		return
	}
	code := r.PostFormValue("code")
	asked, ok := p.codes[code]
	delete(p.codes, code)
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || r.PostFormValue("redirect_uri") != p.redirect || B64(sum[:]) != asked.Get("code_challenge") {
		p.reply(w, 400, map[string]string{"error": "invalid_grant"})
		return
	}
	response := map[string]any{"access_token": "an access token", "token_type": "Bearer", "expires_in": 3600}
	if !p.NoToken {
		response["id_token"] = p.idToken(asked.Get("nonce"))
	}
	p.reply(w, 200, response)
}

func (p *Provider) idToken(nonce string) string {
	token := map[string]any{
		"iss": p.URL, "aud": ClientID, "sub": "subject 1", "nonce": nonce,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(token, p.Claims)
	if p.Edit != nil {
		p.Edit(token)
	}
	payload, err := json.Marshal(token)
	if err != nil {
		p.tb.Errorf("provider: %v", err)
	}
	if p.Sign != nil {
		return p.Sign(payload)
	}
	return p.Signed(payload)
}

func (p *Provider) info(w http.ResponseWriter, r *http.Request) {
	if p.UserInfo == nil || r.Header.Get("Authorization") != "Bearer an access token" {
		http.Error(w, "not found", 404)
		return
	}
	p.reply(w, 200, p.UserInfo)
}
