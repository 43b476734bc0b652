package auth_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

// TestRegisterVerifyLogin is the way of most users.
func TestRegisterVerifyLogin(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	msg, err := w.Register(ctx, "  Ann@Example.COM ", good, "192.0.2.1")
	must(t, "register", err)
	if msg.Kind != auth.Verify || msg.To != "Ann@example.com" || len(msg.Token) != 43 || msg.User.Verified() {
		t.Errorf("email: %+v", msg)
	}
	w.login("login before the address is verified", good, auth.CodeEmailUnverified)
	w.login("wrong password", good+"x", auth.CodeWrongCredentials)
	done, err := w.Verify(ctx, msg.Token, auth.Proof{Password: good})
	must(t, "verify", err)
	if !done.User.Verified() || done.Was != "" || done.User.ID != msg.User.ID {
		t.Errorf("verified: %+v", done)
	}
	w.verify("the same token again", msg.Token, good, auth.CodeTokenInvalid)
	u, err := w.Login(ctx, "ANN@example.com", good, "192.0.2.1")
	must(t, "login", err)
	if u.ID != done.User.ID || !u.Password {
		t.Errorf("user: %+v", u)
	}
	got, err := w.Get(ctx, engine.Read{}, u.ID)
	if err != nil || got.Email != "Ann@example.com" {
		t.Errorf("get: %+v %v", got, err)
	}
}

// TestLoginSameForAll: neither the error nor the work reveals whether there is an account.
func TestLoginSameForAll(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	w.verified("ann@example.com")
	_, err := w.LoginIdentity(ctx, auth.Identity{Issuer: "https://id.example", Subject: "1", Email: "oidc@example.com", EmailVerified: true})
	must(t, "login by a provider", err)
	var texts []string
	for _, email := range []string{"ann@example.com", "nobody@example.com", "oidc@example.com"} {
		before := w.Hashes()
		_, err := w.Login(ctx, email, "wrong password", "")
		want(t, email, err, auth.CodeWrongCredentials)
		if n := w.Hashes() - before; n != 1 {
			t.Errorf("%s: %d hashes were computed, want 1", email, n)
		}
		texts = append(texts, err.Error())
	}
	if texts[0] != texts[1] || texts[0] != texts[2] {
		t.Errorf("the errors differ: %q", texts)
	}
}

// TestRateLimit: over the limit no hash is computed, and the window ends.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{Limits: auth.Limits{Login: auth.Limit{N: 3, Per: time.Minute}}}), t.Context()
	w.verified("ann@example.com")
	for _, email := range []string{"ann@example.com", "nobody@example.com"} {
		for range 3 {
			_, err := w.Login(ctx, email, "wrong password", "")
			want(t, "wrong password", err, auth.CodeWrongCredentials)
			w.clock.Add(10 * time.Second)
		}
		before := w.Hashes()
		_, err := w.Login(ctx, email, good, "")
		want(t, "over the limit", err, auth.CodeRateLimited)
		after, ok := auth.RetryAfter(err)
		if !ok || after < 30*time.Second || after > 31*time.Second {
			t.Errorf("retry after %v %v", after, ok)
		}
		if w.Hashes() != before {
			t.Error("a hash was computed over the limit")
		}
		w.clock.Add(after)
		_, err = w.Login(ctx, email, "wrong password", "")
		want(t, "after the window", err, auth.CodeWrongCredentials)
	}
	if _, ok := auth.RetryAfter(errors.New("x")); ok {
		t.Error("another error has a time to wait")
	}
}

// TestSameWork: whether there is an account, as many hashes are computed and as
// many transactions written.
func TestSameWork(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	w.verified("ann@example.com")
	pending := w.register("bob@example.com", good)
	at := func() engine.Position {
		pos, err := w.eng.View(ctx, engine.Read{}, func(engine.Tx) error { return nil })
		must(t, "read", err)
		return pos
	}
	for what, fn := range map[string]func(email string) error{
		"register": func(email string) error { _, err := w.Register(ctx, email, good, "192.0.2.1"); return err },
		"login":    func(email string) error { _, err := w.Login(ctx, email, "wrong password", "192.0.2.1"); return err },
		"reset":    func(email string) error { _, err := w.RequestReset(ctx, email, "192.0.2.1"); return err },
		"verify":   func(email string) error { _, err := w.RequestVerify(ctx, email, "192.0.2.1"); return err },
		"other address": func(email string) error {
			_, err := w.RequestChange(ctx, pending.User.ID, email, "192.0.2.1")
			return err
		},
	} {
		var hashes, writes []uint64
		var keys []int
		var codes []engine.Code
		for _, email := range []string{"ann@example.com", strings.ReplaceAll(what, " ", "-") + "@example.com"} {
			w.clock.Add(2 * time.Hour)
			w.expire() // every count begins anew
			h, p := w.Hashes(), at()
			codes = append(codes, engine.CodeOf(fn(email)))
			hashes, writes = append(hashes, w.Hashes()-h), append(writes, uint64(at()-p))
			keys = append(keys, w.written(p, at()))
		}
		if hashes[0] != hashes[1] || writes[0] != writes[1] || writes[0] == 0 || codes[0] != codes[1] {
			t.Errorf("%s: hashes %d, transactions %d, codes %q", what, hashes, writes, codes)
		}
		// A new user has more to write than an email; both are one transaction.
		if keys[0] != keys[1] && what != "register" {
			t.Errorf("%s: %d keys were written", what, keys)
		}
	}
}
