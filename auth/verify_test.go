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
	w.login("login with the second password", "another password", auth.CodeWrongCredentials)
	w.login("login with the first password", good, "")
}

// TestRegisterAgain: a second registration replaces one that was never verified or used, whose email becomes
// void.
func TestRegisterAgain(t *testing.T) {
	t.Parallel()
	w := open(t, auth.Options{})
	first := w.register("ann@example.com", "password of a thief")
	second := w.register("Ann@example.com", good)
	if second.Kind != auth.Verify || second.User.ID != first.User.ID {
		t.Errorf("emails: %+v %+v", first, second)
	}
	w.verify("the first email's token", first.Token, good, auth.CodeTokenInvalid)
	w.verify("verify", second.Token, good, "")
	w.login("login with the first password", "password of a thief", auth.CodeWrongCredentials)
	w.login("login", good, "")
}

// TestPendingExpires: a registration that is never verified leaves nothing.
func TestPendingExpires(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{PendingTTL: time.Hour}), t.Context()
	msg := w.register("ann@example.com", good)
	w.clock.Add(time.Hour + time.Second)
	w.verify("verify", msg.Token, good, auth.CodeTokenInvalid)
	_, err := w.Find(ctx, engine.Read{}, "ann@example.com")
	want(t, "find", err, engine.CodeNotFound)
	if u := w.verified("ann@example.com"); u.ID == msg.User.ID {
		t.Error("an id was given twice")
	}
	w.clock.Add(1000 * time.Hour)
	_, err = w.Find(ctx, engine.Read{}, "ann@example.com")
	must(t, "find the user who has verified the address", err)
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
		msg := w.requestReset("ANN@example.com")
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
	w.verify("verify with a token of another purpose", one, good, auth.CodeTokenInvalid)
	w.reset("reset to a password that is refused", one, "short", auth.CodePasswordRefused)
	w.reset("reset", one, "a new password", "")
	if s.revoked(ann.ID) != 1 {
		t.Error("the reset did not end the sessions")
	}
	before := w.Hashes()
	for _, token := range []string{one, two, "", strings.Repeat("A", 43), one + "A"} {
		w.reset("a token that is not valid any more", token, "a third password", auth.CodeTokenInvalid)
	}
	if w.Hashes() != before {
		t.Error("a hash was computed for a token that is none")
	}
	w.login("login", "a new password", "")
	three := ask()
	w.clock.Add(time.Hour)
	w.reset("an expired token", three, "a third password", auth.CodeTokenInvalid)
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
	w.register("ann@example.com", "password of a thief")
	u, err := w.Login(ctx, "ann@example.com", "password of a thief", "")
	must(t, "login", err)
	key, _, err := w.CreateKey(ctx, u.ID, "", []string{"*"}, time.Time{})
	must(t, "create a key", err)
	thief := auth.Identity{Issuer: "https://id.example", Subject: "thief"}
	must(t, "link", w.LinkIdentity(ctx, u.ID, thief))
	w.enrol(u.ID)
	msg, err := w.Register(ctx, "ann@example.com", good, "")
	if err != nil || msg.Kind != auth.Known {
		t.Errorf("register an address in use: %+v %v", msg, err)
	}
	msg = w.requestReset("ann@example.com")
	w.reset("reset", msg.Token, good, "")
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
	reset := w.requestReset("ann@example.com")
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
	w.login("login with the old address", good, "")
	done, err := w.Verify(ctx, msg.Token, auth.Proof{Password: good})
	if err != nil || done.Was != "ann@example.com" || done.User.Email != "ann@example.org" {
		t.Errorf("verify: %+v %v", done, err)
	}
	w.verify("the address was verified by another user meanwhile", racing.Token, good, auth.CodeEmailTaken)
	w.reset("a token sent to the old address", reset.Token, "a new password", auth.CodeTokenInvalid)
	w.login("login with the old address", good, auth.CodeWrongCredentials)
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
	msg := w.requestReset("ann@example.com")
	must(t, "bump", w.Bump(ctx, ann.ID))
	_, err := w.CheckToken(ctx, engine.Read{}, auth.ToReset, msg.Token)
	want(t, "check", err, auth.CodeTokenInvalid)
}

// TestMaxTokens: a further token ends the oldest.
func TestMaxTokens(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{Limits: auth.Limits{Email: auth.Limit{N: -1}}}), t.Context()
	w.verified("ann@example.com")
	var tokens []string
	for range auth.MaxTokens + 1 {
		msg := w.requestReset("ann@example.com")
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
	w.register("ann@example.com", good)
	msg, err := w.RequestVerify(ctx, "ann@example.com", "")
	if err != nil || msg.Kind != auth.Verify {
		t.Errorf("email: %+v %v", msg, err)
	}
	w.verify("verify", msg.Token, good, "")
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
	registered := w.register("ann@example.com", "password of a thief")
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
		w.verify("another password", registered.Token, good, auth.CodeWrongCredentials)
	}
	w.verify("too many attempts", registered.Token, "password of a thief", auth.CodeRateLimited)
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
