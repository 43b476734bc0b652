package resp_test

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/skerrydb/skerry/resp"
)

// TestIORedis uses Skerry through ioredis; see testdata/ioredis/run.js. Any output but "ok"
// is a failure.
func TestIORedis(t *testing.T) {
	node := need(t, "node", "nodejs")
	dir := installIORedis(t)
	server, _, ca := testTLS(t)
	for _, c := range []struct {
		name, password, ca string
		o                  resp.Options
	}{
		{"plain", "", "", resp.Options{}},
		{"TLS and AUTH", "secret", ca, resp.Options{Password: "secret", TLS: server}},
	} {
		t.Run(c.name, func(t *testing.T) {
			host, port, _ := net.SplitHostPort(startSkerry(t, c.o))
			out, err := exec.CommandContext(t.Context(), node, "--trace-warnings", filepath.Join(dir, "run.js"),
				host, port, c.password, c.ca).CombinedOutput()
			if err != nil || string(out) != "ok\n" {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// installIORedis installs the packages of the lock file once, into a directory of the
// repository's cache that is named after that file.
func installIORedis(t *testing.T) string {
	t.Helper()
	npm := need(t, "npm", "npm")
	const from = "testdata/ioredis"
	lock, err := os.ReadFile(filepath.Join(from, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs(filepath.Join("..", ".cache", fmt.Sprintf("ioredis-%.6x", sha256.Sum256(lock))))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"package.json", "package-lock.json", "run.js", "cluster.js"} {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	done := filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err == nil {
		return dir
	}
	cmd := exec.CommandContext(t.Context(), npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		missing(t, fmt.Sprintf("npm ci of ioredis failed (%v: %s)", err, out))
	}
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}
