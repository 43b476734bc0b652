package pgserver

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/daemon"
	"github.com/skerrydb/skerry/ci/ports"
)

// Bouncer is a pgbouncer before a server.
type Bouncer struct {
	*daemon.Daemon
	addr string
}

// Bouncer starts a pgbouncer for one test, with settings as in pgbouncer.ini: NAME=VALUE. Everybody gets the sessions
// of the owner. It skips the test if pgbouncer is not installed, or fails it if SKERRY_REQUIRE_SERVERS is set.
func (s *Server) Bouncer(tb testing.TB, settings ...string) *Bouncer {
	tb.Helper()
	program := "/usr/sbin/pgbouncer" // Debian's place, which is not in every PATH
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath("pgbouncer"); err != nil {
			daemon.Missing(tb, "pgbouncer", "pgbouncer")
		}
	}
	d, err := daemon.New("pgbouncer", syscall.SIGINT)
	if err != nil {
		tb.Fatal(err)
	}
	b := &Bouncer{d, ports.Addr(tb)}
	b.EndWith(tb)
	host, port, _ := net.SplitHostPort(b.addr)
	to, toPort, _ := net.SplitHostPort(s.addr)
	text := fmt.Sprintf("[databases]\n* = host=%s port=%s user=%s\n[pgbouncer]\nlisten_addr=%s\nlisten_port=%s\nunix_socket_dir=\nauth_type=any\n%s\n",
		to, toPort, Owner, host, port, strings.Join(settings, "\n"))
	ini := filepath.Join(b.Dir, "pgbouncer.ini")
	if err := os.WriteFile(ini, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
	if uid, gid := owner(tb); uid != os.Getuid() {
		if err := os.Chown(b.Dir, uid, gid); err != nil {
			tb.Fatal(err)
		}
	}
	cmd := s.command(tb, "pgbouncer", ini)
	cmd.Path = program
	b.Start(tb, cmd, func() bool {
		c, err := net.Dial("tcp", b.addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return b
}

// URL returns the URL of a database of the server through pgbouncer.
func (b *Bouncer) URL(tb testing.TB, database string) string {
	tb.Helper()
	u, err := url.Parse(database)
	if err != nil {
		tb.Fatal(err)
	}
	u.Host = b.addr
	return u.String()
}
