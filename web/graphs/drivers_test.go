package graphs_test

import (
	"context"
	"errors"
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

// serve serves an empty graph to everyone and returns its URL.
func serve(t *testing.T) string {
	t.Helper()
	return serveTo(t, nil)
}

// serveTo is serve for those whom authenticate lets in.
func serveTo(t *testing.T, authenticate func(context.Context, web.Login) (string, error)) string {
	t.Helper()
	backend, err := graphs.New(testengine.Open(t, testengine.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	face, err := web.New(web.Options{Backend: backend, Authenticate: authenticate, Log: slog.New(slog.DiscardHandler)})
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

// TestPython4 drives the server with gremlinpython 4, over HTTP with GraphBinary 4.
func TestPython4(t *testing.T) {
	if testing.Short() {
		t.Skip("installs a driver")
	}
	dir, err := pip.Install("testdata/python4/requirements.txt")
	if err != nil {
		daemon.Missing(t, err.Error(), "python3-pip")
	}
	guarded := serveTo(t, func(_ context.Context, l web.Login) (string, error) {
		if l.User != "ann" || l.Password != "sécret" {
			return "", errors.New("a wrong password")
		}
		return l.User, nil
	})
	url := func(ws string) string { return strings.Replace(ws, "ws://", "http://", 1) }
	cmd := exec.CommandContext(t.Context(), "python3", "testdata/python4/drive.py", url(serve(t)), url(guarded))
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0")
	answers(t, "testdata/python4/answers.txt", cmd)
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
