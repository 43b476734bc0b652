// Package pgserver runs PostgreSQL servers for tests.
//
// It knows how PostgreSQL is installed, started and stopped. It must not know what tests store in it.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/ci/daemon"
	"github.com/skerrydb/skerry/ci/ports"
)

// Owner is the superuser of every server. It needs no password; all other roles do.
const Owner = "skerry"

// system is the user as whom the servers run if the tests run as root, which PostgreSQL refuses.
const system = "postgres"

// execLimit bounds one statement.
const execLimit = 20 * time.Second

// hba lets only the owner in without a password, and standbys.
const hba = `host all,replication ` + Owner + ` 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
`

// Server is one PostgreSQL server on a port of its own. Its methods fail the test that they are given.
type Server struct {
	*daemon.Daemon
	bin      string // folder of the programs
	addr     string
	settings []string // NAME=VALUE
	disk     *Disk    // that it sees; nil: none
}

var shared struct {
	sync.Mutex
	*Server
}

// Shared returns the server of this test process, which starts with the first call and ends with the process. Tests
// must not stop it or change its settings. Unless a benchmark starts it, its files are in memory if there is room: it
// never loses power, and waiting for a disk is most of what a test on PostgreSQL does otherwise.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.Server == nil {
		dir, settings := daemon.Memory(), []string{"max_wal_size=256MB"}
		if _, ok := tb.(*testing.B); ok {
			dir, settings = "", nil
		}
		shared.Server = start(tb, dir, settings)
	}
	return shared.Server
}

// Start starts a server for one test, with settings as in postgresql.conf: NAME=VALUE. It skips the test if PostgreSQL
// is not installed, or fails it if SKERRY_REQUIRE_SERVERS is set.
func Start(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	s := start(tb, "", settings)
	s.EndWith(tb)
	return s
}

func start(tb testing.TB, parent string, settings []string) *Server {
	tb.Helper()
	s := create(tb, parent, settings)
	s.init(tb)
	return s
}

// init makes the data folder and starts the server.
func (s *Server) init(tb testing.TB, more ...string) {
	tb.Helper()
	args := []string{"-D", s.data(), "-A", "trust", "-U", Owner, "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions"}
	s.run(tb, "initdb", append(args, more...)...)
	if err := os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(hba), 0o644); err != nil {
		tb.Fatal(err)
	}
	s.Restart(tb)
}

// create makes the folder of a server within another one; "" is that for temporary files.
func create(tb testing.TB, parent string, settings []string) *Server {
	tb.Helper()
	s := &Server{bin: programs(tb), addr: ports.Addr(tb), settings: settings}
	var err error
	if s.Daemon, err = daemon.NewIn(parent, "postgres", syscall.SIGQUIT); err != nil {
		tb.Fatal(err)
	}
	if uid, gid := owner(tb); uid != os.Getuid() {
		if err := os.Chown(s.Dir, uid, gid); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

// programs returns the folder of the newest PostgreSQL.
func programs(tb testing.TB) string {
	tb.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // Debian's place
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1])
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	daemon.Missing(tb, "PostgreSQL", "postgresql")
	return ""
}

func version(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

// owner returns the user as whom servers run.
func owner(tb testing.TB) (uid, gid int) {
	tb.Helper()
	if os.Getuid() != 0 {
		return os.Getuid(), os.Getgid()
	}
	u, err := user.Lookup(system)
	if err != nil {
		tb.Fatal(err)
	}
	uid, err = strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err, err2); err != nil {
		tb.Fatal(err)
	}
	return uid, gid
}

// command returns a command of PostgreSQL, as the user who may run it.
func (s *Server) command(tb testing.TB, name string, args ...string) *exec.Cmd {
	tb.Helper()
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = "/"
	uid, gid := owner(tb)
	if s.disk != nil {
		enter := []string{"--mount", "--target", strconv.Itoa(s.disk.holder.Process.Pid), "--setuid", strconv.Itoa(uid), "--setgid", strconv.Itoa(gid), cmd.Path}
		cmd = exec.Command("nsenter", append(enter, args...)...)
		cmd.Dir = "/"
	} else if uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	return cmd
}

func (s *Server) run(tb testing.TB, name string, args ...string) {
	tb.Helper()
	if out, err := s.command(tb, name, args...).CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// File writes a file that only the server can read, such as a key, and returns its path.
func (s *Server) File(tb testing.TB, name string, text []byte) string {
	tb.Helper()
	path := filepath.Join(s.Dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	if uid, gid := owner(tb); uid != os.Getuid() {
		if err := os.Chown(path, uid, gid); err != nil {
			tb.Fatal(err)
		}
	}
	return path
}

// Addr returns the server's HOST:PORT, which stays the same when it is restarted.
func (s *Server) Addr() string { return s.addr }

// URL returns the URL of a database for the owner, without TLS.
func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(Owner), Host: s.addr, Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

var databases atomic.Int64

// Database creates an empty database, which is removed when the test ends, and returns its URL. Connections to it end
// then.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("t%d_%d", os.Getpid(), databases.Add(1))
	s.Exec(tb, "CREATE DATABASE "+name)
	tb.Cleanup(func() { s.Exec(tb, "DROP DATABASE "+name+" WITH (FORCE)") })
	return s.URL(name)
}

// Exec executes a statement in the database postgres as the owner.
func (s *Server) Exec(tb testing.TB, sql string) {
	tb.Helper()
	if err := s.try(sql); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

func (s *Server) try(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), execLimit)
	defer cancel()
	c, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, sql)
	return err
}

// Restart starts the server after Kill or Stop, and waits until it serves. It stops a server that runs.
func (s *Server) Restart(tb testing.TB, more ...string) {
	tb.Helper()
	s.Stop(tb)
	s.settings = append(s.settings, more...)
	host, port, _ := net.SplitHostPort(s.addr)
	args := []string{"-D", s.data(), "-h", host, "-p", port}
	for _, set := range append([]string{"unix_socket_directories=", "max_connections=200", "shared_buffers=64MB", "log_min_messages=warning"}, s.settings...) {
		args = append(args, "-c", set)
	}
	s.Start(tb, s.command(tb, "postgres", args...), func() bool { return s.try("SELECT 1") == nil })
}

// Stop stops the server cleanly without waiting for its clients.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	s.End(tb, syscall.SIGINT)
}

// Kill ends the server like a crash of the machine's kernel, except that what was written to files stays: all of its
// processes die at once.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	s.End(tb, syscall.SIGKILL)
}

// Standby starts a hot standby of this server, which streams what the server commits. Its name for
// synchronous_standby_names is the given one.
func (s *Server) Standby(tb testing.TB, name string) *Server {
	tb.Helper()
	b := create(tb, "", nil)
	b.EndWith(tb)
	from := fmt.Sprintf("%s&application_name=%s", s.URL("postgres"), name)
	b.run(tb, "pg_basebackup", "-D", b.data(), "-d", from, "-R", "-c", "fast", "--no-sync")
	b.Restart(tb)
	return b
}

// Promote makes a standby a primary.
func (s *Server) Promote(tb testing.TB) {
	tb.Helper()
	s.run(tb, "pg_ctl", "promote", "-D", s.data(), "-w")
}
