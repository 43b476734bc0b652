package auth_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

// TestLimitFrom: one client address is limited over all accounts, right passwords
// do not count, and an IPv6 customer is one address.
func TestLimitFrom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		from [4]string // the last one is of somebody else
	}{
		{"ipv4", [4]string{"192.0.2.1", "192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"}},
		{"ipv6", [4]string{"2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::%eth0", "2001:db8:0:1::1"}},
		{"other", [4]string{"a unix socket", "a unix socket", "a unix socket", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, ctx := open(t, auth.Options{Limits: auth.Limits{LoginFrom: auth.Limit{N: 3}}}), t.Context()
			w.verified("ann@example.com")
			for i := range 6 {
				_, err := w.Login(ctx, "ann@example.com", good, c.from[i%3])
				must(t, "login", err)
			}
			for i := range 3 {
				_, err := w.Login(ctx, fmt.Sprintf("u%d@example.com", i), "wrong password", c.from[i])
				want(t, "wrong password", err, auth.CodeWrongCredentials)
			}
			before := w.Hashes()
			_, err := w.Login(ctx, "ann@example.com", good, c.from[0])
			want(t, "over the limit", err, auth.CodeRateLimited)
			if w.Hashes() != before {
				t.Error("a hash was computed over the limit")
			}
			_, err = w.Login(ctx, "ann@example.com", good, c.from[3])
			must(t, "login from elsewhere", err)
			w.clock.Add(15*time.Minute + time.Second)
			_, err = w.Login(ctx, "ann@example.com", good, c.from[0])
			must(t, "login after the window", err)
		})
	}
}

// TestLimitEmails: emails to an address are limited, and the limit does not reveal whether it has an account.
func TestLimitEmails(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{Limits: auth.Limits{Email: auth.Limit{N: 3}, EmailFrom: auth.Limit{N: 8}, RegisterFrom: auth.Limit{N: 2}}}), t.Context()
	w.verified("ann@example.com") // her first email
	for _, email := range []string{"ann@example.com", "nobody@example.com"} {
		var codes []engine.Code
		for range 4 {
			_, err := w.RequestReset(ctx, email, "192.0.2.1")
			codes = append(codes, engine.CodeOf(err))
		}
		wantCodes := []engine.Code{"", "", auth.CodeRateLimited, auth.CodeRateLimited}
		if email == "nobody@example.com" {
			wantCodes = []engine.Code{"", "", "", auth.CodeRateLimited}
		}
		for i := range codes {
			if codes[i] != wantCodes[i] {
				t.Errorf("%s: %q, want %q", email, codes, wantCodes)
				break
			}
		}
	}
	before := w.Hashes()
	_, err := w.Register(ctx, "ann@example.com", good, "")
	want(t, "register counts as an email", err, auth.CodeRateLimited)
	for i := range 3 { // 5 were counted of this client address
		_, err = w.RequestVerify(ctx, fmt.Sprintf("u%d@example.com", i), "192.0.2.1")
		must(t, "ask for an email", err)
	}
	_, err = w.RequestVerify(ctx, "u9@example.com", "192.0.2.1")
	want(t, "too many emails from one client address", err, auth.CodeRateLimited)
	if w.Hashes() != before {
		t.Error("a hash was computed over the limit")
	}
	for i := range 3 {
		_, err = w.Register(ctx, fmt.Sprintf("r%d@example.com", i), good, "192.0.2.9")
		code := engine.Code("")
		if i == 2 {
			code = auth.CodeRateLimited
		}
		want(t, "register", err, code)
	}
}

// TestNoLimit: a negative one.
func TestNoLimit(t *testing.T) {
	t.Parallel()
	w := open(t, auth.Options{Limits: auth.Limits{Login: auth.Limit{N: -1}}})
	for range 20 {
		w.login("wrong password", "wrong password", auth.CodeWrongCredentials)
	}
}
