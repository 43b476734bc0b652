package auth_test

import (
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

// TestRegisterKnown: the response is the same for an address that has an account, and the account does not
// change.
func TestRegisterKnown(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	ann := w.verified("Ann@example.com")
	before := w.Hashes()
	msg, err := w.Register(ctx, "aNN@example.com", "another password", "192.0.2.1")
	must(t, "register a known address", err)
	if msg.Kind != auth.Known || msg.Token != "" || msg.To != "Ann@example.com" || msg.User.ID != ann.ID {
		t.Errorf("email: %+v", msg)
	}
	if n := w.Hashes() - before; n != 1 {
		t.Errorf("%d hashes were computed, want 1 as for a new address", n)
	}
	_, err = w.Login(ctx, "ann@example.com", "another password", "")
	want(t, "login with the second password", err, auth.CodeWrongCredentials)
	_, err = w.Login(ctx, "ann@example.com", good, "")
	must(t, "login with the first password", err)
}

// TestRegisterAgain: a second registration replaces one that was never verified or used, whose email becomes
// void.
func TestRegisterAgain(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	first, err := w.Register(ctx, "ann@example.com", "password of a thief", "")
	must(t, "register", err)
	second, err := w.Register(ctx, "Ann@example.com", good, "")
	must(t, "register again", err)
	if second.Kind != auth.Verify || second.User.ID != first.User.ID {
		t.Errorf("emails: %+v %+v", first, second)
	}
	_, err = w.Verify(ctx, first.Token, auth.Proof{Password: good})
	want(t, "the first email's token", err, auth.CodeTokenInvalid)
	_, err = w.Verify(ctx, second.Token, auth.Proof{Password: good})
	must(t, "verify", err)
	_, err = w.Login(ctx, "ann@example.com", "password of a thief", "")
	want(t, "login with the first password", err, auth.CodeWrongCredentials)
	_, err = w.Login(ctx, "ann@example.com", good, "")
	must(t, "login", err)
}

// TestPendingExpires: a registration that is never verified leaves nothing.
func TestPendingExpires(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{PendingTTL: time.Hour}), t.Context()
	msg, err := w.Register(ctx, "ann@example.com", good, "")
	must(t, "register", err)
	w.clock.Add(time.Hour + time.Second)
	_, err = w.Verify(ctx, msg.Token, auth.Proof{Password: good})
	want(t, "verify", err, auth.CodeTokenInvalid)
	_, err = w.Find(ctx, engine.Read{}, "ann@example.com")
	want(t, "find", err, engine.CodeNotFound)
	if u := w.verified("ann@example.com"); u.ID == msg.User.ID {
		t.Error("an id was given twice")
	}
	w.clock.Add(1000 * time.Hour)
	_, err = w.Find(ctx, engine.Read{}, "ann@example.com")
	must(t, "find who has verified the address", err)
}

// TestReset: the token is used once, expires, verifies the address, ends sessions
// and other tokens.
func TestReset(t *testing.T) {
	t.Parallel()
	s := &sessions{}
	w, ctx := open(t, auth.Options{Sessions: s}), t.Context()
	ann := w.verified("ann@example.com")
	ask := func() string {
		t.Helper()
		msg, err := w.RequestReset(ctx, "ANN@example.com", "")
		must(t, "request a reset", err)
		if msg.Kind != auth.Reset || msg.To != "ann@example.com" {
			t.Errorf("email: %+v", msg)
		}
		return msg.Token
	}
	one, two := ask(), ask()
	u, err := w.CheckToken(ctx, engine.Read{}, auth.ToReset, one)
	if err != nil || u.ID != ann.ID {
		t.Errorf("check token: %+v %v", u, err)
	}
	_, err = w.CheckToken(ctx, engine.Read{}, auth.ToVerify, one)
	want(t, "a token of another purpose", err, auth.CodeTokenInvalid)
	_, err = w.Verify(ctx, one, auth.Proof{Password: good})
	want(t, "verify with a token of another purpose", err, auth.CodeTokenInvalid)
	_, err = w.Reset(ctx, one, "short")
	want(t, "reset to a password that is refused", err, auth.CodePasswordRefused)
	_, err = w.Reset(ctx, one, "a new password")
	must(t, "reset", err)
	if s.revoked(ann.ID) != 1 {
		t.Error("the reset did not end the sessions")
	}
	before := w.Hashes()
	for _, token := range []string{one, two, "", strings.Repeat("A", 43), one + "A"} {
		_, err = w.Reset(ctx, token, "a third password")
		want(t, "a token that is not valid any more", err, auth.CodeTokenInvalid)
	}
	if w.Hashes() != before {
		t.Error("a hash was computed for a token that is none")
	}
	_, err = w.Login(ctx, "ann@example.com", "a new password", "")
	must(t, "login", err)
	three := ask()
	w.clock.Add(time.Hour)
	_, err = w.Reset(ctx, three, "a third password")
	want(t, "an expired token", err, auth.CodeTokenInvalid)
}

// TestResetUnknown: there is nothing to send, and no error reveals that.
func TestResetUnknown(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	msg, err := w.RequestReset(ctx, "nobody@example.com", "")
	if err != nil || msg.Kind != auth.None || msg.To != "" || msg.Token != "" {
		t.Errorf("unknown address: %+v %v", msg, err)
	}
	ann := w.verified("ann@example.com")
	_, err = w.Disable(ctx, ann.ID, true)
	must(t, "disable", err)
	msg, err = w.RequestReset(ctx, "ann@example.com", "")
	if err != nil || msg.Kind != auth.None || msg.Token != "" {
		t.Errorf("disabled user: %+v %v", msg, err)
	}
}

// TestResetUnverified: the owner of a mailbox ends what somebody else has set up
// under the address.
func TestResetUnverified(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{AllowUnverified: true}), t.Context()
	_, err := w.Register(ctx, "ann@example.com", "password of a thief", "")
	must(t, "register", err)
	u, err := w.Login(ctx, "ann@example.com", "password of a thief", "")
	must(t, "login", err)
	key, _, err := w.CreateKey(ctx, u.ID, "", []string{"*"}, time.Time{})
	must(t, "create a key", err)
	thief := auth.Identity{Issuer: "https://id.example", Subject: "thief"}
	must(t, "link", w.LinkIdentity(ctx, u.ID, thief))
	w.enrol(u.ID)
	msg, err := w.Register(ctx, "ann@example.com", good, "")
	if err != nil || msg.Kind != auth.Known {
		t.Errorf("register what is in use: %+v %v", msg, err)
	}
	msg, err = w.RequestReset(ctx, "ann@example.com", "")
	must(t, "request a reset", err)
	_, err = w.Reset(ctx, msg.Token, good)
	must(t, "reset", err)
	got, err := w.Login(ctx, "ann@example.com", good, "")
	if err != nil || !got.Verified() || got.TOTP {
		t.Errorf("login: %+v %v", got, err)
	}
	_, _, err = w.CheckKey(ctx, engine.Read{}, key)
	want(t, "the thief's key", err, engine.CodeUnauthenticated)
	if other, err := w.LoginIdentity(ctx, thief); err != nil || other.ID == u.ID {
		t.Errorf("the thief's identity: %+v %v", other, err)
	}
}

// TestChangeAddress: it takes effect when it is verified, and ends older tokens.
func TestChangeAddress(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	ann, bob := w.verified("ann@example.com"), w.verified("bob@example.com")
	reset, err := w.RequestReset(ctx, "ann@example.com", "")
	must(t, "request a reset", err)
	known, err := w.RequestChange(ctx, ann.ID, "BOB@example.com", "")
	if err != nil || known.Kind != auth.Known || known.Token != "" || known.To != "bob@example.com" {
		t.Errorf("to a taken address: %+v %v", known, err)
	}
	msg, err := w.RequestChange(ctx, ann.ID, "ann@example.org", "")
	if err != nil || msg.Kind != auth.Change || msg.To != "ann@example.org" {
		t.Errorf("email: %+v %v", msg, err)
	}
	racing, err := w.RequestChange(ctx, bob.ID, "ann@example.org", "")
	must(t, "another user asks for the same address", err)
	_, err = w.Login(ctx, "ann@example.com", good, "")
	must(t, "login with the old address", err)
	done, err := w.Verify(ctx, msg.Token, auth.Proof{Password: good})
	if err != nil || done.Was != "ann@example.com" || done.User.Email != "ann@example.org" {
		t.Errorf("verify: %+v %v", done, err)
	}
	_, err = w.Verify(ctx, racing.Token, auth.Proof{Password: good})
	want(t, "the address was verified by another user meanwhile", err, auth.CodeEmailTaken)
	_, err = w.Reset(ctx, reset.Token, "a new password")
	want(t, "a token sent to the old address", err, auth.CodeTokenInvalid)
	_, err = w.Login(ctx, "ann@example.com", good, "")
	want(t, "login with the old address", err, auth.CodeWrongCredentials)
	_, err = w.Login(ctx, "ann@example.org", good, "")
	must(t, "login with the new address", err)
	if u := w.verified("ann@example.com"); u.ID == ann.ID {
		t.Error("the old address still leads to its user")
	}
}

// TestTokenEpoch: a token of another password is void even if it is still there.
func TestTokenEpoch(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	ann := w.verified("ann@example.com")
	msg, err := w.RequestReset(ctx, "ann@example.com", "")
	must(t, "request a reset", err)
	must(t, "bump", w.Bump(ctx, ann.ID))
	_, err = w.CheckToken(ctx, engine.Read{}, auth.ToReset, msg.Token)
	want(t, "check", err, auth.CodeTokenInvalid)
}

// TestMaxTokens: a further token ends the oldest.
func TestMaxTokens(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{Limits: auth.Limits{Email: auth.Limit{N: -1}}}), t.Context()
	w.verified("ann@example.com")
	var tokens []string
	for range auth.MaxTokens + 1 {
		msg, err := w.RequestReset(ctx, "ann@example.com", "")
		must(t, "request a reset", err)
		tokens = append(tokens, msg.Token)
		w.clock.Add(time.Second)
	}
	for i, token := range tokens {
		_, err := w.CheckToken(ctx, engine.Read{}, auth.ToReset, token)
		code := engine.Code("")
		if i == 0 {
			code = auth.CodeTokenInvalid
		}
		want(t, "token "+string(rune('0'+i)), err, code)
	}
}

// TestRequestVerify: users who have lost the first email get a new one.
func TestRequestVerify(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	_, err := w.Register(ctx, "ann@example.com", good, "")
	must(t, "register", err)
	msg, err := w.RequestVerify(ctx, "ann@example.com", "")
	if err != nil || msg.Kind != auth.Verify {
		t.Errorf("email: %+v %v", msg, err)
	}
	_, err = w.Verify(ctx, msg.Token, auth.Proof{Password: good})
	must(t, "verify", err)
	for _, email := range []string{"ann@example.com", "nobody@example.com"} {
		msg, err = w.RequestVerify(ctx, email, "")
		if err != nil || msg.Kind != auth.None || msg.Token != "" {
			t.Errorf("%s: %+v %v", email, msg, err)
		}
	}
}

// TestVerifyProvesTheAccount: whoever reads the mail of an address does not make it that
// of somebody else's account, neither one that was registered nor one that moves to it.
func TestVerifyProvesTheAccount(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{Limits: auth.Limits{Login: auth.Limit{N: 5}}}), t.Context()
	thief := w.verified("thief@example.com")
	registered, err := w.Register(ctx, "ann@example.com", "password of a thief", "")
	must(t, "register", err)
	moved, err := w.RequestChange(ctx, thief.ID, "bob@example.com", "")
	must(t, "request a change of address", err)
	guest, err := w.LoginIdentity(ctx, identity("1", "", false))
	must(t, "login by a provider", err)
	change, err := w.RequestChange(ctx, guest.ID, "cid@example.com", "")
	must(t, "ask for an address", err)
	for what, c := range map[string]struct {
		msg  auth.Email
		by   auth.Proof
		code engine.Code
	}{
		"no password":                       {registered, auth.Proof{}, auth.CodeWrongCredentials},
		"another password":                  {registered, auth.Proof{Password: good}, auth.CodeWrongCredentials},
		"a session instead of a password":   {registered, auth.Proof{User: registered.User.ID}, auth.CodeWrongCredentials},
		"a long password":                   {registered, auth.Proof{Password: strings.Repeat("p", auth.MaxPasswordBytes+1)}, auth.CodeWrongCredentials},
		"no password for a change":          {moved, auth.Proof{}, auth.CodeWrongCredentials},
		"another password for a change":     {moved, auth.Proof{Password: "password of bob"}, auth.CodeWrongCredentials},
		"nobody is logged in":               {change, auth.Proof{Password: good}, engine.CodeUnauthenticated},
		"somebody else is logged in":        {change, auth.Proof{User: thief.ID}, engine.CodeUnauthenticated},
		"somebody else with their password": {change, auth.Proof{User: thief.ID, Password: good}, engine.CodeUnauthenticated},
	} {
		_, err := w.Verify(ctx, c.msg.Token, c.by)
		want(t, what, err, c.code)
	}
	for _, email := range []string{"bob@example.com", "cid@example.com"} {
		_, err = w.Find(ctx, engine.Read{}, email)
		want(t, email, err, engine.CodeNotFound)
	}
	for range 2 {
		_, err = w.Verify(ctx, registered.Token, auth.Proof{Password: good})
		want(t, "another password", err, auth.CodeWrongCredentials)
	}
	_, err = w.Verify(ctx, registered.Token, auth.Proof{Password: "password of a thief"})
	want(t, "too many attempts", err, auth.CodeRateLimited)
	w.clock.Add(time.Hour)
	done, err := w.Verify(ctx, registered.Token, auth.Proof{Password: "password of a thief"})
	if err != nil || !done.User.Verified() {
		t.Errorf("the right password: %+v %v", done, err)
	}
	done, err = w.Verify(ctx, change.Token, auth.Proof{User: guest.ID})
	if err != nil || done.User.Email != "cid@example.com" {
		t.Errorf("in the session: %+v %v", done, err)
	}
}
