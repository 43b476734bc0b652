package hostname_test

import (
	"testing"

	"github.com/skerrydb/skerry/web/hostname"
)

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:7201": true, "LOCALHOST": true, "localhost.": true, "127.0.0.1": true, "127.0.0.1:80": true, "127.9.9.9": true, "[::1]:80": true, "::1": true,
		"": false, "a.localhost": false, "localhost.example.org": false, "127.0.0.1.example.org": false, "10.0.0.5:7201": false, "server": false, "[::]": false, "0.0.0.0": false,
	} {
		if got := hostname.Loopback(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}
