package cli

import (
	"strings"
	"testing"
)

func TestAlike(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ word, names, want string }{
		{"bakup", "backup restore", "backup"},
		{"htp", "http resp admin", "http"},
		{"htpp", "http resp", "http"}, // two neighbours swapped, or one too many
		{"HTTP", "http resp", "http"},
		{"trusted-proxis", "tls-cert trusted-proxies", "trusted-proxies"},
		{"trustd-prxis", "tls-cert trusted-proxies", ""}, // three
		{"acme", "acme-http acme-ca admin", ""},          // two begin so
		{"pass", "password-file hosts", "password-file"},
		{"nod", "node node-advertise", "node"}, // both begin so, one is nearer
		{"cat", "call cats", "cats"},
		{"cal", "cat car", ""}, // both are as near
		{"frob", "bench gen vet dev", ""},
		{"gem", "gen dev", "gen"},
		{"x", "xy", ""},
		{strings.Repeat("x", maxAlike+1), strings.Repeat("x", maxAlike), ""},
		{strings.Repeat("x", maxAlike), strings.Repeat("x", maxAlike-1), strings.Repeat("x", maxAlike-1)},
	} {
		if got := alike(c.word, strings.Fields(c.names)); got != c.want {
			t.Errorf("%s among %s: %q, want %q", c.word, c.names, got, c.want)
		}
	}
}
