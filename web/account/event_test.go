package account_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
)

// heard keeps events as text.
type heard struct {
	mu  sync.Mutex // guards all
	all []string
}

func (h *heard) add(_ *web.Context, e account.Event) {
	text := string(e.Kind) + " " + e.User.Email
	if e.Email != "" {
		text += " as " + e.Email
	}
	if e.Recovery {
		text += " recovery"
	}
	if e.Err != nil {
		text += " " + string(engine.CodeOf(e.Err))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, text)
}

// expect fails the test unless these were the events since the last look.
func (h *heard) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := strings.Join(h.all, "; "); got != strings.Join(want, "; ") {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
	h.all = nil
}

// TestEvents: what users do with their accounts is reported once each, and so are wrong secrets, but no malformed or limited request.
func TestEvents(t *testing.T) {
	t.Parallel()
	var h heard
	w := open(t, settings{account: account.Options{OnEvent: h.add, TokenPrefix: "/api/auth"}})
	const ann = "ann@example.org"
	w.user(ann)
	b := w.browser()
	b.post("/account/login", "email", ann, "password", other)
	h.expect(t, "a wrong password", "login  as ann@example.org wrong_credentials")
	b.post("/account/login", "email", "ann", "password", other)
	b.post("/account/logout")
	h.expect(t, "a malformed address, a logout of nobody")
	b.login(ann, good)
	h.expect(t, "a login", "login ann@example.org as ann@example.org")

	b.post("/account/totp/enrol", "password", other)
	h.expect(t, "enrol with a wrong password", "password_again ann@example.org wrong_credentials")
	secret, recovery := b.enrolled()
	h.expect(t, "a second factor", "factor_on ann@example.org")
	two := w.browser()
	ticket := two.ticket(ann)
	h.expect(t, "the first step")
	two.post("/account/login/code", "ticket", ticket, "code", "000000")
	h.expect(t, "a wrong code", "login_code ann@example.org code_wrong")
	two.post("/account/login/code", "ticket", "AAAA", "code", "000000")
	h.expect(t, "a wrong ticket")
	two.post("/account/login/code", "ticket", ticket, "code", recovery[0])
	h.expect(t, "a recovery code", "login ann@example.org recovery")
	two.post("/account/sessions/revoke-others")
	h.expect(t, "other sessions", "sessions_ended ann@example.org")
	w.clock.Add(30 * time.Second)
	two.post("/account/totp/codes", "code", w.code(secret))
	h.expect(t, "new codes", "recovery_codes ann@example.org")
	two.post("/account/password", "old", other, "password", "a third of these")
	two.post("/account/password", "old", good, "password", "short")
	two.post("/account/password", "old", good, "password", other)
	h.expect(t, "passwords", "password ann@example.org wrong_credentials", "password ann@example.org")
	w.clock.Add(30 * time.Second)
	two.post("/account/totp/disable", "code", w.code(secret))
	two.post("/account/logout")
	h.expect(t, "off and out", "factor_off ann@example.org", "logout ann@example.org")

	p := w.program()
	p.post("/api/auth/login", "email", ann, "password", good)
	p.post("/api/auth/login", "email", ann, "password", other, "device", "phone")
	h.expect(t, "tokens", "login  as ann@example.org wrong_credentials", "login ann@example.org as ann@example.org")
	for range 20 {
		b.post("/account/login", "email", ann, "password", good)
	}
	if h.mu.Lock(); len(h.all) == 0 || len(h.all) > 10 {
		t.Errorf("%d events of 20 attempts, of which 10 are allowed", len(h.all))
	}
	h.mu.Unlock()
}
