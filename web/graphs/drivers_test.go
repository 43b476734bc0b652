package graphs_test

import (
	"flag"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/daemon"
	"github.com/skerrydb/skerry/ci/npm"
	"github.com/skerrydb/skerry/ci/pip"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/web/graphs"

	web "github.com/skerrydb/skerry/web/gremlin"
)

var rewrite = flag.Bool("rewrite", false, "write the answers of testdata anew")

// serve serves an empty graph and returns its URL.
func serve(t *testing.T) string {
	t.Helper()
	backend, err := graphs.New(testengine.Open(t, testengine.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	face, err := web.New(web.Options{Backend: backend, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(face)
	t.Cleanup(func() {
		face.Close()
		s.Close()
	})
	return strings.Replace(s.URL, "http://", "ws://", 1) + "/gremlin"
}

// TestJavaScript drives the server with gremlin-javascript.
func TestJavaScript(t *testing.T) {
	if testing.Short() {
		t.Skip("installs a driver")
	}
	dir, err := npm.Install("gremlin", "testdata/js", "drive.js")
	if err != nil {
		daemon.Missing(t, err.Error(), "npm")
	}
	answers(t, "testdata/js/answers.txt", exec.CommandContext(t.Context(), "node", filepath.Join(dir, "drive.js"), serve(t)))
}

// TestPython drives the server with gremlinpython, in both formats.
func TestPython(t *testing.T) {
	if testing.Short() {
		t.Skip("installs a driver")
	}
	dir, err := pip.Install("testdata/python/requirements.txt")
	if err != nil {
		daemon.Missing(t, err.Error(), "python3-pip")
	}
	cmd := exec.CommandContext(t.Context(), "python3", "testdata/python/drive.py", serve(t))
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1")
	answers(t, "testdata/python/answers.txt", cmd)
}

// answers compares what a program prints with a file.
func answers(t *testing.T, file string, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if *rewrite {
		if err := os.WriteFile(file, out, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil || string(out) != string(want) {
		t.Errorf("%v\ngot\n%s\nwant\n%s", err, out, want)
	}
}
