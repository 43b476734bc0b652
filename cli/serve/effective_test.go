package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cli/verb"
)

// TestEffective: each setting is there once, with the place that has won, and without passwords.
func TestEffective(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "skerry.toml")
	if err := os.WriteFile(file, []byte("http = \"127.0.0.1:1\"\nresp = \"127.0.0.1:2\"\nlog-level = \"warn\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &Options{}
	settings := o.noted(o.Settings())
	args := []string{"--config", file, "--http=127.0.0.1:4", "--engine", "postgres://anna:hunter2@localhost/db?password=hunter2", "--password-file", "/etc/secret"}
	if _, err := verb.Configure(settings, settings, args, []string{"SKERRY_RESP=127.0.0.1:3", "SKERRY_HTTP=127.0.0.1:5"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]skerry.Setting{
		"http":          {Value: "127.0.0.1:4", From: "--http"},
		"resp":          {Value: "127.0.0.1:3", From: "SKERRY_RESP"},
		"log-level":     {Value: "warn", From: file + ": log-level"},
		"log-format":    {Value: "text", From: "default"},
		"tls-cert":      {From: "default"},
		"password-file": {Value: "/etc/secret", From: "--password-file"},
	}
	seen := map[string]bool{}
	for _, s := range o.effective {
		if seen[s.Name] {
			t.Errorf("%s is there twice", s.Name)
		}
		seen[s.Name] = true
		if strings.Contains(s.Value, "hunter2") {
			t.Errorf("%s shows a password: %s", s.Name, s.Value)
		}
		if w, ok := want[s.Name]; ok && (s.Value != w.Value || s.From != w.From) {
			t.Errorf("%s is %q from %q, want %q from %q", s.Name, s.Value, s.From, w.Value, w.From)
		}
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
	if got := shown("https://us er:pw@x"); strings.Contains(got, "pw") {
		t.Error(got)
	}
}
