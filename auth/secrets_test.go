package auth_test

import (
	"encoding/base32"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

var lower32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// secrets are everything that was handed out or typed, in all its forms.
type secrets struct {
	t    *testing.T
	list map[string]string
}

func (s secrets) text(what, text string) { s.list[what] = text }

func (s secrets) token(what, text string) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	must(s.t, what, err)
	s.list[what], s.list[what+", decoded"] = text, string(raw)
}

func (s secrets) key(what, text string) {
	part := strings.Split(text, "_")[2][:52]
	raw, err := lower32.DecodeString(part)
	must(s.t, what, err)
	s.list[what], s.list[what+", decoded"] = part, string(raw)
}

func (s secrets) device(what string, d *device) {
	raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(d.secret)
	must(s.t, what, err)
	s.list[what], s.list[what+", decoded"] = d.secret, string(raw)
	for _, code := range d.recovery {
		bare := strings.ReplaceAll(code, "-", "")
		raw, err := lower32.DecodeString(bare)
		must(s.t, what, err)
		s.list["recovery code "+code], s.list["bare "+code], s.list["decoded "+code] = code, bare, string(raw)
	}
}

// life is a long story in which all kinds of secrets are handed out.
func life(t *testing.T, w *world) secrets {
	t.Helper()
	ctx := t.Context()
	s := secrets{t, map[string]string{}}
	s.text("password", good)
	msg, err := w.Register(ctx, "ann@example.com", good, "192.0.2.1")
	must(t, "register", err)
	s.token("verify token", msg.Token)
	done, err := w.Verify(ctx, msg.Token, auth.Proof{Password: good})
	must(t, "verify", err)
	pending := w.register("bob@example.com", "password of bob")
	s.text("password of a pending user", "password of bob")
	s.token("token of a pending user", pending.Token)
	w.login("login", "a password with a typo", auth.CodeWrongCredentials)
	s.text("wrong password", "a password with a typo")
	_, err = w.Login(ctx, "nobody@example.com", "password of nobody", "")
	want(t, "login", err, auth.CodeWrongCredentials)
	s.text("password of nobody", "password of nobody")
	reset := w.requestReset("ann@example.com")
	s.token("used reset token", reset.Token)
	w.reset("reset", reset.Token, "a new password", "")
	s.text("new password", "a new password")
	_, err = w.ChangePassword(ctx, done.User.ID, "a new password", good)
	must(t, "change", err)
	reset = w.requestReset("ann@example.com")
	s.token("unused reset token", reset.Token)
	change, err := w.RequestChange(ctx, done.User.ID, "ann@example.org", "")
	must(t, "request a change of address", err)
	s.token("change token", change.Token)
	key, _, err := w.CreateKey(ctx, done.User.ID, "laptop", []string{"*"}, time.Time{})
	must(t, "create a key", err)
	s.key("API key", key)
	_, _, err = w.CheckKey(ctx, engine.Read{}, key)
	must(t, "check a key", err)
	user, err := w.Get(ctx, engine.Read{}, done.User.ID)
	must(t, "get", err)
	first, err := w.OpenDevice(ctx, user, "phone")
	must(t, "log a device in", err)
	_, second, err := w.Refresh(ctx, first.Refresh)
	must(t, "refresh", err)
	for what, text := range map[string]string{
		"replaced access token": first.Access, "used refresh token": first.Refresh, "access token": second.Access, "refresh token": second.Refresh,
	} {
		s.key(what, text)
	}
	d := w.enrol(done.User.ID)
	s.device("second factor", d)
	s.token("ticket", w.ticket("ann@example.com"))
	used := w.ticket("ann@example.com")
	s.token("used ticket", used)
	_, err = w.LoginRecovery(ctx, used, d.recovery[0])
	must(t, "login", err)
	return s
}

// TestNoSecretStored: the store has none of them in any form, but, without
// Options.Secret, that of the authenticator app: the search does find it.
func TestNoSecretStored(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{true, false} {
		o := auth.Options{}
		if sealed {
			o.Secret = []byte(strings.Repeat("secret! ", 4))
		}
		w := open(t, o)
		s := life(t, w)
		all := w.dump()
		if len(s.list) < 50 || !strings.Contains(all, "ann@example.com") {
			t.Fatalf("the search is broken: %d secrets", len(s.list))
		}
		for what, secret := range s.list {
			if readable := what == "second factor, decoded" && !sealed; strings.Contains(all, secret) != readable {
				t.Errorf("%s (sealed: %v): in the store: %v", what, sealed, !readable)
			}
		}
	}
}

// TestSeal: a sealed second factor needs the same Options.Secret, and one from
// before there was a Secret is sealed at its next use.
func TestSeal(t *testing.T) {
	t.Parallel()
	one, two := []byte(strings.Repeat("1", 32)), []byte(strings.Repeat("2", 32))
	w, ctx := open(t, auth.Options{}), t.Context()
	ann := w.verified("ann@example.com")
	d := w.enrol(ann.ID)
	raw, err := base32.StdEncoding.DecodeString(d.secret)
	must(t, "decode", err)
	if !strings.Contains(w.dump(), string(raw)) {
		t.Fatal("the search is broken")
	}
	sealing := w.again(auth.Options{Secret: one})
	_, err = sealing.LoginTOTP(ctx, w.ticket("ann@example.com"), d.code(1))
	must(t, "login with a secret that is not sealed yet", err)
	if strings.Contains(w.dump(), string(raw)) {
		t.Error("it was not sealed when it was used")
	}
	w.clock.Add(time.Minute)
	w.loginTOTP("login without the Secret", w.ticket("ann@example.com"), d.code(0), engine.CodeInternal)
	_, err = w.again(auth.Options{Secret: two}).LoginTOTP(ctx, w.ticket("ann@example.com"), d.code(0))
	want(t, "login with another Secret", err, engine.CodeInternal)
	_, err = sealing.LoginTOTP(ctx, w.ticket("ann@example.com"), d.code(0))
	must(t, "login", err)
}
