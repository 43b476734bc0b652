package oidc_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// provider is a small OpenID Connect provider over real HTTP with real RS256
// keys. It checks what a careful one checks: client, redirect address, PKCE, and
// that a code is used once.
type provider struct {
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex
	key      *rsa.PrivateKey
	kid      string
	claims   map[string]any        // of the next ID token, besides the usual ones
	userInfo map[string]any        // nil: 404
	codes    map[string]url.Values // code to the request that it was given for
	edit     func(token map[string]any)
	sign     func(payload []byte) string // nil: by key
	noToken  bool
	asked    map[string]int // requests by path
}

const (
	clientID     = "skerry-test"
	clientSecret = "client secret"
	redirect     = "https://app.example/login/callback"
)

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{t: t, codes: map[string]url.Values{}, asked: map[string]int{}}
	p.rotate("key 1")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", p.info)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked[r.URL.Path]++
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.server.Close)
	return p
}

// rotate gives the provider another key.
func (p *provider) rotate(kid string) {
	p.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		p.t.Fatal(err)
	}
	p.key, p.kid = key, kid
}

func (p *provider) reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		p.t.Errorf("provider: %v", err)
	}
}

func (p *provider) discovery(w http.ResponseWriter, _ *http.Request) {
	u := p.server.URL
	p.reply(w, 200, map[string]any{
		"issuer": u, "authorization_endpoint": u + "/authorize", "token_endpoint": u + "/token", "jwks_uri": u + "/keys",
		"userinfo_endpoint": u + "/userinfo", "id_token_signing_alg_values_supported": []string{"RS256"},
		"code_challenge_methods_supported": []string{"S256"},
	})
}

func (p *provider) keys(w http.ResponseWriter, _ *http.Request) {
	p.reply(w, 200, map[string]any{"keys": []map[string]string{{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": p.kid,
		"n": b64(p.key.N.Bytes()), "e": b64(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

// authorize logs the user in at once and sends the browser back.
func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != clientID || q.Get("redirect_uri") != redirect || q.Get("response_type") != "code" ||
		q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("scope") != "openid email profile" {
		http.Error(w, "bad request: "+r.URL.RawQuery, 400)
		return
	}
	code := rand.Text()
	p.codes[code] = q
	http.Redirect(w, r, redirect+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if secret, _ = url.QueryUnescape(secret); id != clientID || secret != clientSecret {
		p.reply(w, 401, map[string]string{"error": "invalid_client"})
		return
	}
	code := r.PostFormValue("code")
	asked, ok := p.codes[code]
	delete(p.codes, code)
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || r.PostFormValue("redirect_uri") != redirect || b64(sum[:]) != asked.Get("code_challenge") {
		p.reply(w, 400, map[string]string{"error": "invalid_grant"})
		return
	}
	answer := map[string]any{"access_token": "an access token", "token_type": "Bearer", "expires_in": 3600}
	if !p.noToken {
		answer["id_token"] = p.idToken(asked.Get("nonce"))
	}
	p.reply(w, 200, answer)
}

func (p *provider) idToken(nonce string) string {
	token := map[string]any{
		"iss": p.server.URL, "aud": clientID, "sub": "subject 1", "nonce": nonce,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	for k, v := range p.claims {
		token[k] = v
	}
	if p.edit != nil {
		p.edit(token)
	}
	payload, err := json.Marshal(token)
	if err != nil {
		p.t.Errorf("provider: %v", err)
	}
	if p.sign != nil {
		return p.sign(payload)
	}
	return p.signed(p.key, payload)
}

// b64 is how JOSE writes bytes.
func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// signed returns a token that says it is signed by the provider's key (RFC 7515, RS256).
func (p *provider) signed(key *rsa.PrivateKey, payload []byte) string {
	text := b64([]byte(`{"alg":"RS256","kid":"`+p.kid+`"}`)) + "." + b64(payload)
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	if err != nil {
		p.t.Errorf("provider: %v", err)
	}
	return text + "." + b64(sig)
}

// hmacSigned returns a token that is signed by a secret that both sides know (HS256).
func hmacSigned(secret string, payload []byte) string {
	text := b64([]byte(`{"alg":"HS256"}`)) + "." + b64(payload)
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(text))
	return text + "." + b64(h.Sum(nil))
}

func (p *provider) info(w http.ResponseWriter, r *http.Request) {
	if p.userInfo == nil || r.Header.Get("Authorization") != "Bearer an access token" {
		http.Error(w, "not found", 404)
		return
	}
	p.reply(w, 200, p.userInfo)
}

// set changes the provider between requests.
func (p *provider) set(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
}

// visit is the browser's way through the provider: it returns state and code of
// the address that it was sent back to.
func (p *provider) visit(address string) (state, code string) {
	p.t.Helper()
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.Get(address)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	back, err := res.Location()
	if err != nil {
		p.t.Fatalf("status %d: %v", res.StatusCode, err)
	}
	return back.Query().Get("state"), back.Query().Get("code")
}
