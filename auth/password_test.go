package auth_test

import (
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

func TestCheckPassword(t *testing.T) {
	t.Parallel()
	w := open(t, auth.Options{})
	for _, c := range []struct {
		password string
		ok       bool
	}{
		{"", false},
		{"seven77", false},
		{"eight888", true},
		{"äöüäöüä", false}, // characters, not bytes
		{"äöüäöüäö", true},
		{"all lower case without a digit", true},
		{strings.Repeat("long", auth.MaxPasswordBytes/4), true},
		{strings.Repeat("long", auth.MaxPasswordBytes/4) + "x", false},
		{"PassWord", false},
		{"qwertyuiop", false},
		{"zzzzzzzzzzzzz", false},
		{"ann.smith@example.com", false},
		{"Ann.Smith", false},
		{"ann.smith1", true},
		{"broken \xff utf-8", false},
	} {
		err := w.CheckPassword(c.password, "Ann.Smith@example.com")
		code := engine.Code("")
		if !c.ok {
			code = auth.CodePasswordRefused
		}
		want(t, c.password, err, code)
		if err != nil && c.password != "" && strings.Contains(err.Error(), c.password) {
			t.Errorf("the error contains the password: %v", err)
		}
	}
	_, err := w.Register(t.Context(), "ann@example.com", "1234", "")
	want(t, "register", err, auth.CodePasswordRefused)
	_, err = w.Login(t.Context(), "ann@example.com", strings.Repeat("x", auth.MaxPasswordBytes+1), "")
	want(t, "login with a password that is too long", err, engine.CodeInvalid)
}

// TestRehash: a login makes a weaker hash as strong as new ones, and a stronger
// one stays.
func TestRehash(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	w.verified("ann@example.com")
	strong := w.again(auth.Options{Argon2: auth.Params{MemoryKiB: 128, Passes: 2}})
	for i, hashes := range []uint64{2, 1, 1} { // check and make, then only check
		before := strong.Hashes()
		_, err := strong.Login(ctx, "ann@example.com", good, "")
		must(t, "login", err)
		if n := strong.Hashes() - before; n != hashes {
			t.Errorf("login %d computed %d hashes, want %d", i, n, hashes)
		}
		if !strings.Contains(w.dump(), "m=128,t=2,p=1") {
			t.Errorf("login %d: the hash has not the new parameters", i)
		}
	}
	w.login("login with weaker parameters", good, "")
	if !strings.Contains(w.dump(), "m=128,t=2,p=1") {
		t.Error("a stronger hash was replaced by a weaker one")
	}
	// A token bound to the password survives, as the password is the same.
	msg := w.requestReset("ann@example.com")
	third := w.again(auth.Options{Argon2: auth.Params{MemoryKiB: 256, Passes: 2}})
	_, err := third.Login(ctx, "ann@example.com", good, "")
	must(t, "login", err)
	w.reset("reset after the hash was renewed", msg.Token, "a new password", "")
}

// TestChangePassword: sessions and tokens end with the old password.
func TestChangePassword(t *testing.T) {
	t.Parallel()
	s := &sessions{}
	w, ctx := open(t, auth.Options{Sessions: s, Limits: auth.Limits{Login: auth.Limit{N: 3}}}), t.Context()
	ann := w.verified("ann@example.com")
	msg := w.requestReset("ann@example.com")
	_, err := w.ChangePassword(ctx, ann.ID, "wrong password", "a new password")
	want(t, "wrong old password", err, auth.CodeWrongCredentials)
	_, err = w.ChangePassword(ctx, ann.ID, good, "password")
	want(t, "a common password", err, auth.CodePasswordRefused)
	if s.revoked(ann.ID) != 0 {
		t.Error("sessions were ended without a change")
	}
	_, err = w.ChangePassword(ctx, ann.ID, good, "a new password")
	must(t, "change", err)
	if s.revoked(ann.ID) != 1 {
		t.Error("the change did not end the sessions")
	}
	w.reset("a token from before", msg.Token, "a third password", auth.CodeTokenInvalid)
	w.login("login with the old password", good, auth.CodeWrongCredentials)
	must(t, "confirm", w.ConfirmPassword(ctx, ann.ID, "a new password"))
	for range 3 {
		want(t, "confirm a wrong one", w.ConfirmPassword(ctx, ann.ID, "wrong password"), auth.CodeWrongCredentials)
	}
	before := w.Hashes()
	_, err = w.ChangePassword(ctx, ann.ID, "a new password", "a third password")
	want(t, "over the limit", err, auth.CodeRateLimited)
	w.login("a login counts with it", "a new password", auth.CodeRateLimited)
	if w.Hashes() != before {
		t.Error("a hash was computed over the limit")
	}
	_, err = w.SetPassword(ctx, ann.ID, "an administrator's")
	must(t, "set", err)
	w.login("login after the password was set, which ends the count", "an administrator's", "")
}

// TestSessionsRefused: if the sessions cannot be ended nothing is changed.
func TestSessionsRefused(t *testing.T) {
	t.Parallel()
	s := &sessions{}
	w, ctx := open(t, auth.Options{Sessions: s}), t.Context()
	ann := w.verified("ann@example.com")
	s.fail.Store(true)
	_, err := w.ChangePassword(ctx, ann.ID, good, "a new password")
	want(t, "change", err, engine.CodeLimit)
	_, err = w.Disable(ctx, ann.ID, true)
	want(t, "disable", err, engine.CodeLimit)
	want(t, "delete", w.Delete(ctx, ann.ID), engine.CodeLimit)
	w.login("login", good, "")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	w := open(t, auth.Options{})
	for name, o := range map[string]auth.Options{
		"memory":   {Argon2: auth.Params{MemoryKiB: auth.MaxMemoryKiB + 1}},
		"little":   {Argon2: auth.Params{MemoryKiB: 7}},
		"passes":   {Argon2: auth.Params{Passes: auth.MaxPasses + 1}},
		"hashing":  {MaxHashing: -1},
		"waiting":  {MaxWaiting: -1},
		"password": {MinPassword: auth.LeastPassword - 1},
		"secret":   {Secret: make([]byte, 31)},
		"prefix":   {KeyPrefix: "a_b"},
		"longer":   {KeyPrefix: strings.Repeat("a", 17)},
		"limit":    {Limits: auth.Limits{Login: auth.Limit{Per: -time.Second}}},
		"ttl":      {ResetTTL: -1},
		"issuer":   {Issuer: "a\nb"},
	} {
		if _, err := auth.New(w.store, o); engine.CodeOf(err) == "" || engine.CodeOf(err) == engine.CodeInternal {
			t.Errorf("%s: %v", name, err)
		}
	}
}
