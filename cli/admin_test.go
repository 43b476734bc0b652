package cli

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAdminFromTheShell runs the verbs about administrators against a server of site, whose admin address is $ADMIN; $APP is
// that of the application.
func TestAdminFromTheShell(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.serve("--admin", "127.0.0.1:0")
	p.waitReady()
	s.env = append(s.env, "ADMIN="+p.Admin, "APP="+p.HTTP)
	expectPlay(t, s, filepath.Join("testdata", "site", "admin.txt"))
	log := p.log()
	for _, who := range []string{"anna", "ben"} {
		if !strings.Contains(log, "action=admin.invite subject="+who+"@example.org who=(operator)") {
			t.Errorf("the log does not say that %s was invited:\n%s", who, log)
		}
	}
	if links := regexp.MustCompile(`/admin/setup/[A-Z2-7]+`).FindAllString(log, -1); len(links) != 1 { // that of the first administrator
		t.Errorf("the log has the links %q", links)
	}
}
