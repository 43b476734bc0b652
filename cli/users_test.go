package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/skerrydb/skerry/web/api"
)

// TestUsersFromTheShell runs the verbs about users against a server of site, whose admin
// address is $ADMIN; $APP is that of the application, and $NONE a server without users.
func TestUsersFromTheShell(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.serve("--admin", "127.0.0.1:0")
	p.waitReady()
	none := newShell(t)
	plain := none.serve("--admin", "127.0.0.1:0")
	plain.waitReady()
	s.env = append(s.env, "ADMIN="+p.Admin, "APP="+p.HTTP, "NONE="+plain.Admin)
	expectPlay(t, s, filepath.Join("testdata", "site", "users.txt"))
	if log := p.log(); strings.Contains(log, "correct horse") || strings.Count(log, "an operator wrote a user") != 6 {
		t.Errorf("the log says\n%s", log)
	}
}

// TestHostileNames: what users call themselves does nothing to the operator's terminal.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := printUsers(&out, []api.User{{ID: "1", Name: "a\u009b2Jb\x1b[2J\u202ec"}}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(out.String(), func(r rune) bool {
		return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	}) {
		t.Errorf("%q", out.String())
	}
}
