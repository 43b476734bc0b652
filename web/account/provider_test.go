package account_test

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
	"strings"
	"sync"
	"testing"
	"time"
)

// provider is a small OpenID Connect provider over real HTTP with a real RS256 key. It
// checks PKCE and the redirect address, and that a code is used once.
type provider struct {
	t      *testing.T
	server *httptest.Server
	back   string // the redirect address

	mu     sync.Mutex // guards what follows
	key    *rsa.PrivateKey
	claims map[string]any        // of the next ID token, besides the usual ones
	codes  map[string]url.Values // code to the request that it was given for
	asked  int                   // requests for a token
}

const (
	clientID     = "skerry-test"
	clientSecret = "client secret"
)

func newProvider(t *testing.T, back string) *provider {
	t.Helper()
	p := &provider{t: t, back: back, codes: map[string]url.Values{}}
	var err error
	p.key, err = rsa.GenerateKey(rand.Reader, 2048)
	must(t, "a key", err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		u := p.server.URL
		p.reply(w, 200, map[string]any{"issuer": u, "authorization_endpoint": u + "/authorize", "token_endpoint": u + "/token", "jwks_uri": u + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		p.reply(w, 200, map[string]any{"keys": []map[string]string{{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": b64(p.key.N.Bytes()), "e": b64(big.NewInt(int64(p.key.E)).Bytes())}}})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	p.server = httptest.NewServer(mux)
	t.Cleanup(p.server.Close)
	return p
}

func (p *provider) reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		p.t.Errorf("provider: %v", err)
	}
}

// authorize logs the user in at once and sends the browser back.
func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != clientID || q.Get("redirect_uri") != p.back || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" || q.Get("nonce") == "" {
		http.Error(w, "bad request: "+r.URL.RawQuery, 400)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = q
	p.mu.Unlock()
	http.Redirect(w, r, p.back+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	code := r.PostFormValue("code")
	asked, ok := p.codes[code]
	delete(p.codes, code)
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || r.PostFormValue("redirect_uri") != p.back || b64(sum[:]) != asked.Get("code_challenge") {
		p.reply(w, 400, map[string]string{"error": "invalid_grant"})
		return
	}
	token := map[string]any{"iss": p.server.URL, "aud": clientID, "nonce": asked.Get("nonce"), "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(token, p.claims)
	payload, err := json.Marshal(token)
	if err != nil {
		p.t.Errorf("provider: %v", err)
	}
	text := b64([]byte(`{"alg":"RS256","kid":"1"}`)) + "." + b64(payload)
	hash := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(nil, p.key, crypto.SHA256, hash[:])
	if err != nil {
		p.t.Errorf("provider: %v", err)
	}
	p.reply(w, 200, map[string]any{"access_token": "an access token", "token_type": "Bearer", "expires_in": 3600, "id_token": text + "." + b64(sig)})
}

// b64 is how JOSE writes bytes.
func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// says sets the claims of the next ID token.
func (p *provider) says(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = claims
}

// tokens is how often the provider was asked for a token.
func (p *provider) tokens() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// visit is the browser's way through the provider: it returns the path that the
// provider sends it back to.
func (p *provider) visit(address string) string {
	p.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(address)
	must(p.t, "the provider", err)
	defer res.Body.Close()
	back, err := res.Location()
	must(p.t, "back from the provider", err)
	return strings.TrimPrefix(back.String(), base)
}
