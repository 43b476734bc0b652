package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTopFromTheShell watches a server of greeter, whose address is $URL, and one with a password, $SAFE. The output of a command
// is no terminal, so it prints one snapshot.
func TestTopFromTheShell(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.env = append(s.env, "SKERRY_TEST_MAIN=greeter")
	p := s.serve("--data", "open")
	p.waitReady()
	for name, text := range map[string]string{"password": "open sesame\n", "wrong": "open barley\n"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	safe := s.serve("--data", "safe", "--password-file", "password")
	safe.waitReady()
	s.env = append(s.env, "URL="+p.HTTP, "SAFE="+safe.HTTP)
	expectPlay(t, s, filepath.Join("testdata", "greeter", "top.txt"))
}
