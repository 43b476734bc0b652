package cli

import (
	"path/filepath"
	"testing"
)

// TestCachesFromTheShell runs the verbs about caches against a server of site, whose admin address is $ADMIN; $APP is
// that of the application, and $NONE a server without caches.
func TestCachesFromTheShell(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env = append(s.env, "SITE_CACHE=1")
	p := s.serve("--admin", "127.0.0.1:0")
	p.waitReady()
	none := newSite(t)
	plain := none.serve("--admin", "127.0.0.1:0")
	plain.waitReady()
	s.env = append(s.env, "ADMIN="+p.Admin, "APP="+p.HTTP, "NONE="+plain.Admin)
	expectPlay(t, s, filepath.Join("testdata", "site", "caches.txt"))
}
