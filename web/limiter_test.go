package web

import (
	"strings"
	"testing"
	"time"
)

// size is the number of buckets.
func (l *limiter) size() (n int) {
	for i := range l.shards {
		n += len(l.shards[i].full)
	}
	return n
}

// TestLimiterIsBounded: for any number of clients, no more buckets than that are kept, and a client that has
// used up its limit is not forgotten because of clients that come once.
func TestLimiterIsBounded(t *testing.T) {
	const most = 1024
	now := time.Unix(0, 0)
	l := newLimiter(RateLimitOptions{Requests: 10, Per: time.Minute, MaxClients: most, Now: func() time.Time { return now }})
	const attacker = 12345
	for range 20 {
		l.count(attacker)
	}
	if _, _, after := l.count(attacker); after == 0 {
		t.Fatal("the attacker is not limited")
	}
	for key := range uint64(100 * most) {
		if _, _, after := l.count(key*2654435761 + 7); after != 0 {
			t.Fatalf("newcomer %d is refused", key)
		}
		if n := l.size(); key%997 == 0 && n > most {
			t.Fatalf("%d buckets, at most %d", n, most)
		}
	}
	if n := l.size(); n < most/2 || n > most {
		t.Errorf("%d buckets are kept of at most %d", n, most)
	}
	if _, _, after := l.count(attacker); after == 0 {
		t.Error("the attacker was forgotten")
	}
	// Full buckets make room first.
	now = now.Add(time.Hour)
	l.count(attacker)
	for key := range uint64(10 * most) {
		l.count(key*40503 + 1)
	}
	if n := l.size(); n > most {
		t.Errorf("%d buckets, at most %d", n, most)
	}
}

func BenchmarkLimiter(b *testing.B) {
	l := newLimiter(RateLimitOptions{Requests: 1 << 30})
	b.RunParallel(func(pb *testing.PB) {
		for key := uint64(0); pb.Next(); key++ {
			l.count(key % 10000 * 2654435761)
		}
	})
}

// TestSecretNames: which names are secret.
func TestSecretNames(t *testing.T) {
	for _, name := range []string{
		"token", "access_token", "accessToken", "TOKEN", "csrf", "password", "Passwort2", "passwd", "client_secret", "clientSecret", "key", "api_key",
		"apikey", "apiKey", "X-Api-Key", "code", "oauth_code", "code_verifier", "sig", "signature", "X-Amz-Signature", "auth", "Authorization", "session", "sessionid",
		"sid", "otp", "totp", "pin", "jwt", "id_token_hint", "SAMLAssertion", "reset", "user[password]", "ticket",
	} {
		if !secretName(name) {
			t.Errorf("%s does not count as a secret", name)
		}
	}
	for _, name := range []string{"", "q", "page", "author", "keyword", "monkey", "decode", "postcode", "zip", "id", "slug", "signal", "design", "passenger", "pinned", "limit", "after", "next", "sort"} {
		if secretName(name) {
			t.Errorf("%s counts as a secret", name)
		}
	}
}

func TestRedactQuery(t *testing.T) {
	for in, want := range map[string]string{
		"":                                       "",
		"a=1&b=2":                                "a=1&b=2",
		"q=x&token=abc&page=2":                   "q=x&token=[redacted]&page=2",
		"t%6Fken=x":                              "t%6Fken=[redacted]",
		"user%5Bpassword%5D=x":                   "user%5Bpassword%5D=[redacted]",
		"next=%2Fhome%3Ftab%3D1":                 "next=%2Fhome%3Ftab%3D1",
		"next=%2Freset%3Ftoken%3Dabc":            "next=[redacted]",
		"next=%252Freset%253Ftoken%253Dabc":      "next=[redacted]",
		"next=/cb%23access_token%3Dabc%26a=":     "next=[redacted]",
		"next=%2Fx%3Ft%256Fken%3Db":              "next=[redacted]",
		"flag":                                   "flag",
		"0123456789abcdef0123456789abcdef012345": redacted,
		"a=1;token=2":                            "a=1&token=[redacted]",
		"token":                                  "token",
		"&&":                                     "",
		"token=%zz":                              "token=[redacted]",
	} {
		if got := redactQuery(in); got != want {
			t.Errorf("%q is logged as %q, want %q", in, got, want)
		}
	}
	long := make([]byte, 10*MaxLoggedQuery)
	for i := range long {
		long[i] = "a=1&"[i%4]
	}
	if got := redactQuery(string(long)); len(got) > MaxLoggedQuery+len("…") {
		t.Errorf("a query of %d bytes is logged", len(got))
	}
}

func FuzzRedactQuery(f *testing.F) {
	f.Add("a=1&", "&b=2")
	f.Add("next=%2F", "%3D")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "S3CR3T"
		got := redactQuery(before + "&token=" + secret + "&" + after)
		if strings.Contains(got, secret) && !strings.Contains(before+after, secret) {
			t.Fatalf("%q + %q: %q", before, after, got)
		}
	})
}
