package resp_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
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
