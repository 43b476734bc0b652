package resp_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
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
