package cli

import (
	"path/filepath"
	"testing"

	"github.com/skerrydb/skerry/ci/pgserver"
)

// TestConvertFromTheShell converts the collection of a server on PostgreSQL to tables and back, and moves it then. $ADMIN is
// the server's admin address.
func TestConvertFromTheShell(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env = append(s.env, "SITE_NOTES=1")
	p := s.serve("--admin", "127.0.0.1:0", "--engine", pgserver.Shared(t).Database(t)+"&records=keys")
	p.waitReady()
	s.env = append(s.env, "ADMIN="+p.Admin, "TARGET="+pgserver.Shared(t).Database(t))
	expectPlay(t, s, filepath.Join("testdata", "site", "convert.txt"))
}
