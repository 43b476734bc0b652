package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/cli/verb"
)

func TestVet(t *testing.T) { // not beside tests of time: it builds
	if testing.Short() {
		t.Skip("reads the source of all that a procedure needs")
	}
	need(t, "go")
	code, stdout, stderr := runApp("vet", "./testdata/vetted")
	place := filepath.Join("testdata", "vetted", "vetted.go") + ":12:"
	if code != verb.ExitFailed || !strings.HasPrefix(stdout, place) || strings.Count(stdout, "\n") != 1 || !strings.Contains(stdout, "time.Now") {
		t.Errorf("[%d] %s", code, stdout)
	}
	if stderr != "greeter vet: 1 finding\n" {
		t.Errorf("standard error: %s", stderr)
	}
	if code, stdout, stderr = runApp("vet", "./testdata/vetted/clean"); code != verb.ExitOK || stdout+stderr != "" {
		t.Errorf("without a mistake: [%d] %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr = runApp("vet", "./none"); code != verb.ExitFailed || stdout != "" || !strings.Contains(stderr, "none") {
		t.Errorf("without a package: [%d] %s%s", code, stdout, stderr)
	}
}
