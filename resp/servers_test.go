package resp_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/ports"
)

// need returns the path of a program that the test requires. If it is missing, the test is
// skipped, or fails if SKERRY_REQUIRE_SERVERS=1.
func need(tb testing.TB, program, debianPackage string) string {
	tb.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	missing(tb, fmt.Sprintf("%s is not installed (Debian package %s)", program, debianPackage))
	return ""
}

func missing(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
		tb.Fatal(what + ", and SKERRY_REQUIRE_SERVERS=1")
	}
	tb.Skip(what)
}

// startRedis starts a redis-server without persistence on its own port and in its own
// directory, and stops it by its process id at the end of the test.
func startRedis(tb testing.TB, args ...string) (addr string) {
	tb.Helper()
	path := need(tb, "redis-server", "redis-server")
	addr = ports.Addr(tb)
	_, port, _ := net.SplitHostPort(addr)
	dir := tb.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no"}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		log.Close()
	})
	waitFor(tb, addr, func() string { b, _ := os.ReadFile(log.Name()); return string(b) })
	return addr
}

// waitFor waits until a server answers PING at addr.
func waitFor(tb testing.TB, addr string, why func() string) {
	tb.Helper()
	if !eventually.Within(10*time.Second, func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		defer c.Close()
		v, err := newPeer(c).do("PING")
		return err == nil && v.kind != 0
	}) {
		tb.Fatalf("no server replies at %s:\n%s", addr, why())
	}
}
