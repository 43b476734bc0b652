package resp_test

import (
	"net"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/skerrydb/skerry/ci/npm"
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

// installIORedis installs the client beside the programs of the tests, and returns their folder.
func installIORedis(t *testing.T) string {
	t.Helper()
	dir, err := npm.Install("ioredis", "testdata/ioredis", "run.js", "cluster.js")
	if err != nil {
		missing(t, err.Error())
	}
	return dir
}
