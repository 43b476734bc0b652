package cli

import (
	"path/filepath"
	"syscall"
	"testing"
)

// TestMigrateFromTheShell runs the verbs about collections against a server of site whose collection notes has another
// form than the stored one. $ADMIN is its admin address.
func TestMigrateFromTheShell(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env = append(s.env, "SITE_NOTES=1")
	p := s.serve("--admin", "127.0.0.1:0")
	p.waitReady()
	s.env = append(s.env, "ADMIN="+p.Admin)
	expectPlay(t, s, filepath.Join("testdata", "site", "rules.txt"))
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, p.log())
	}
	s.env = append(s.env, "SITE_NOTES=2")
	p = s.serve("--admin", "127.0.0.1:0")
	p.waitReady()
	s.env = append(s.env, "ADMIN="+p.Admin)
	expectPlay(t, s, filepath.Join("testdata", "site", "migrate.txt"))
}
