// Package oidc lets users log in at an OpenID Connect provider: the code flow with PKCE, state and nonce.
//
// It knows one provider and how its responses are verified; it must not know users, cookies or routes: a face
// keeps the Flow in the browser's session and passes the Identity to auth.LoginIdentity.
package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

// DefaultTimeout bounds one exchange with the provider, unless Options.Client is given.
const DefaultTimeout = 10 * time.Second

// MaxAnswerBytes is the longest response of a provider that is read, unless
// Options.Client is set.
const MaxAnswerBytes = 1 << 20

// CodeProviderFailed is the code for a provider that cannot be reached, refuses, or sends a response that
// cannot be verified.
const CodeProviderFailed engine.Code = "provider_failed"

// CodeFlowInvalid is the code for a response that does not belong to the flow: forged, or from another tab.
const CodeFlowInvalid engine.Code = "flow_invalid"

// Catalog returns the package's codes, sorted.
func Catalog() []engine.Meaning {
	return []engine.Meaning{
		{Code: CodeFlowInvalid, Kind: engine.KindInvalid, Text: "the provider's response does not belong to a login started in this browser; start over"},
		{Code: CodeProviderFailed, Kind: engine.KindUpstream, Retryable: true, Text: "the login provider could not be reached, refused the request, or sent an invalid response"},
	}
}

// Options configures the provider. All strings but ClientSecret are required.
type Options struct {
	Issuer       string // its URL, exactly as the provider spells it
	ClientID     string
	ClientSecret string // "": a public client, with PKCE alone
	RedirectURL  string // of the face, as registered at the provider

	Scopes []string     // besides openid; nil means email and profile
	Client *http.Client // nil: one with DefaultTimeout and MaxAnswerBytes
	Rand   io.Reader    // nil means crypto/rand
	// Now is the clock for the expiry of tokens; nil means time.Now.
	Now func() time.Time
}

// Provider is one provider. It is safe for concurrent use. It fetches the provider's configuration at the
// first use, so that an application can start while its provider is down.
type Provider struct {
	o Options

	mu    sync.Mutex // guards known; not locked during requests
	known *oidc.Provider
}

// New returns a Provider. It sends no requests.
func New(o Options) (*Provider, error) {
	for _, f := range [][2]string{{"Issuer", o.Issuer}, {"ClientID", o.ClientID}, {"RedirectURL", o.RedirectURL}} {
		if f[1] == "" {
			return nil, engine.Errorf(engine.CodeInvalid, "oidc: option %s is empty", f[0])
		}
	}
	if o.Scopes == nil {
		o.Scopes = []string{"email", "profile"}
	}
	if !slices.Contains(o.Scopes, oidc.ScopeOpenID) {
		o.Scopes = append([]string{oidc.ScopeOpenID}, o.Scopes...)
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: DefaultTimeout, Transport: bounded{http.DefaultTransport}}
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Provider{o: o}, nil
}

// bounded limits the length of responses.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	res.Body = &limitedBody{ReadCloser: res.Body, left: MaxAnswerBytes}
	return res, nil
}

type limitedBody struct {
	io.ReadCloser
	left int
}

func (l *limitedBody) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if l.left -= n; l.left < 0 {
		return 0, fmt.Errorf("the provider's response is longer than %d bytes", MaxAnswerBytes)
	}
	return n, err
}

// provider returns the provider's configuration.
func (p *Provider) provider(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	known, err := oidc.NewProvider(p.client(ctx), p.o.Issuer)
	if err != nil {
		return nil, engine.Errorf(CodeProviderFailed, "ask the login provider %s: %w", p.o.Issuer, err)
	}
	p.mu.Lock()
	p.known = known
	p.mu.Unlock()
	return known, nil
}

func (p *Provider) client(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.o.Client)
}

func (p *Provider) oauth(known *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.o.ClientID, ClientSecret: p.o.ClientSecret, RedirectURL: p.o.RedirectURL,
		Endpoint: known.Endpoint(), Scopes: p.o.Scopes,
	}
}

// Flow is one login in progress. The face keeps it where only this browser's next request finds it, for
// example in its session, and deletes it after Finish.
type Flow struct {
	State    string // returned in the URL
	Nonce    string // returned in the ID token
	Verifier string // for PKCE; secret
}

// Begin returns the URL to send the browser to, and the Flow for Finish.
func (p *Provider) Begin(ctx context.Context) (string, Flow, error) {
	known, err := p.provider(ctx)
	if err != nil {
		return "", Flow{}, err
	}
	var texts [3]string
	for i := range texts {
		raw := make([]byte, 32)
		if _, err := io.ReadFull(p.o.Rand, raw); err != nil {
			return "", Flow{}, fmt.Errorf("start a login: read random bytes: %w", err)
		}
		texts[i] = base64.RawURLEncoding.EncodeToString(raw)
	}
	f := Flow{State: texts[0], Nonce: texts[1], Verifier: texts[2]}
	return p.oauth(known).AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), f, nil
}

// Finish verifies the state and code of the URL that the browser came back to, and returns the user's identity
// at the provider. Errors: CodeFlowInvalid, CodeProviderFailed.
func (p *Provider) Finish(ctx context.Context, f Flow, state, code string) (auth.Identity, error) {
	if f.State == "" || f.Nonce == "" || f.Verifier == "" || subtle.ConstantTimeCompare([]byte(f.State), []byte(state)) != 1 {
		return auth.Identity{}, engine.Errorf(CodeFlowInvalid, "this response does not belong to a login started in this browser; start over")
	}
	if code == "" {
		return auth.Identity{}, engine.Errorf(CodeFlowInvalid, "the login provider's response has no code; start over")
	}
	known, err := p.provider(ctx)
	if err != nil {
		return auth.Identity{}, err
	}
	ctx = p.client(ctx)
	tok, err := p.oauth(known).Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return auth.Identity{}, engine.Errorf(CodeProviderFailed, "the login provider did not accept the code: %w", err)
	}
	raw, _ := tok.Extra("id_token").(string)
	if raw == "" {
		return auth.Identity{}, engine.Errorf(CodeProviderFailed, "the login provider sent no ID token")
	}
	id, err := known.Verifier(&oidc.Config{ClientID: p.o.ClientID, Now: p.o.Now}).Verify(ctx, raw)
	if err != nil {
		return auth.Identity{}, engine.Errorf(CodeProviderFailed, "the login provider's ID token is not valid: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(f.Nonce)) != 1 {
		return auth.Identity{}, engine.Errorf(CodeFlowInvalid, "the login provider's ID token belongs to another login; start over")
	}
	if err := p.authorized(id); err != nil {
		return auth.Identity{}, err
	}
	return p.identity(ctx, known, tok, id)
}

// authorized checks that the ID token was issued to this client (OpenID Connect Core 3.1.3.7, 4 and 5): a
// token for several audiences names the right one in azp.
func (p *Provider) authorized(id *oidc.IDToken) error {
	var c struct {
		Party *string `json:"azp"`
	}
	switch err := id.Claims(&c); {
	case err != nil:
		return engine.Errorf(CodeProviderFailed, "read the login provider's ID token: %w", err)
	case c.Party == nil && len(id.Audience) > 1:
		return engine.Errorf(CodeProviderFailed, "the login provider's ID token is for %d audiences and has no azp", len(id.Audience))
	case c.Party != nil && *c.Party != p.o.ClientID:
		return engine.Errorf(CodeProviderFailed, "the login provider's ID token was issued to another client")
	}
	return nil
}

// claims are the claims that are read, from an ID token or from the user info.
type claims struct {
	Email    string `json:"email"`
	Verified any    `json:"email_verified"` // some providers write "true"
	Name     string `json:"name"`
}

func (c claims) verified() bool { return c.Verified == true || c.Verified == "true" }

// identity reads the claims. If the ID token has no address, it requests the user-info endpoint.
func (p *Provider) identity(ctx context.Context, known *oidc.Provider, tok *oauth2.Token, id *oidc.IDToken) (auth.Identity, error) {
	var c claims
	if err := id.Claims(&c); err != nil {
		return auth.Identity{}, engine.Errorf(CodeProviderFailed, "read the login provider's ID token: %w", err)
	}
	if c.Email == "" && known.UserInfoEndpoint() != "" {
		info, err := known.UserInfo(ctx, oauth2.StaticTokenSource(tok))
		if err != nil {
			return auth.Identity{}, engine.Errorf(CodeProviderFailed, "request user info from the login provider: %w", err)
		}
		// OpenID Connect Core 5.3.2: claims about another subject must not be used.
		if info.Subject != id.Subject {
			return auth.Identity{}, engine.Errorf(CodeProviderFailed, "the login provider's user info is about another user than its ID token")
		}
		c.Verified = nil // it did not refer to an address
		if err := info.Claims(&c); err != nil {
			return auth.Identity{}, engine.Errorf(CodeProviderFailed, "read the login provider's user info: %w", err)
		}
	}
	return auth.Identity{Issuer: id.Issuer, Subject: id.Subject, Email: c.Email, EmailVerified: c.verified(), Name: c.Name}, nil
}
