package suggest

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ word, names, want string }{
		{"bakup", "backup restore", "backup"},
		{"htp", "http resp admin", "http"},
		{"htpp", "http resp", "http"}, // two neighbours swapped, or one too many
		{"HTTP", "http resp", "http"},
		{"trusted-proxis", "tls-cert trusted-proxies", "trusted-proxies"},
		{"trustd-prxis", "tls-cert trusted-proxies", ""}, // three letters
		{"acme", "acme-http acme-ca admin", ""},          // two candidates
		{"pass", "password-file hosts", "password-file"},
		{"nod", "node node-advertise", "node"}, // two candidates, one is nearer
		{"cat", "call cats", "cats"},
		{"cal", "cat car", ""}, // equally near
		{"frob", "bench gen vet dev", ""},
		{"gem", "gen dev", "gen"},
		{"x", "xy", ""},
		{"cn", "ca cert", ""}, // every second letter is wrong
		{"pear", "pair once", "pair"},
		{"", "a", ""},
		{strings.Repeat("x", maxBytes+1), strings.Repeat("x", maxBytes), ""},
		{strings.Repeat("x", maxBytes), strings.Repeat("x", maxBytes-1), strings.Repeat("x", maxBytes-1)},
	} {
		if got := Nearest(c.word, strings.Fields(c.names)); got != c.want {
			t.Errorf("%s among %s: %q, want %q", c.word, c.names, got, c.want)
		}
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"abc", "abc", 0},
		{"abc", "abd", 1},
		{"abc", "ac", 1},
		{"ac", "abc", 1},
		{"abc", "acb", 1},
		{"kitten", "sitting", 3},
		{strings.Repeat("x", 2*maxBytes), strings.Repeat("x", maxBytes) + "y", 0},
	} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
