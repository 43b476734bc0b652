package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/proc"
)

// TestCallsFromTheShell runs procedures, call and gen against a server of greeter,
// whose address is $URL; $SAFE is that of one with a password.
func TestCallsFromTheShell(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.env = append(s.env, "SKERRY_TEST_MAIN=greeter")
	p := s.serve("--data", "open")
	p.waitReady()
	if err := os.WriteFile(filepath.Join(s.dir, "password"), []byte("open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	safe := s.serve("--data", "safe", "--password-file", "password")
	safe.waitReady()
	s.env = append(s.env, "URL="+p.HTTP, "SAFE="+safe.HTTP)
	expectPlay(t, s, filepath.Join("testdata", "greeter", "calls.txt"))
}

// TestCallLimit: arguments over the limit are refused before they are sent.
func TestCallLimit(t *testing.T) {
	t.Parallel()
	var out, mistakes bytes.Buffer
	args := `{"name":"` + strings.Repeat("a", proc.MaxArgBytes) + `"}`
	p := Process{Args: []string{"call", "greet", "--json-args", "-", "--url", "http://127.0.0.1:1"}, Stdin: strings.NewReader(args),
		Stdout: &out, Stderr: &mistakes}
	code := Run(context.Background(), greeter(), p)
	if code != verb.ExitUsage || !strings.Contains(mistakes.String(), "the arguments are larger than 8MiB") {
		t.Errorf("[%d] %s%s", code, &out, &mistakes)
	}
}

// TestGenRefusesWhatServeRefuses: invalid procedures are reported when code is generated for them.
func TestGenRefusesWhatServeRefuses(t *testing.T) {
	t.Parallel()
	app := greeter()
	app.Procedures = append(slices.Clone(app.Procedures), app.Procedures[0])
	var out, mistakes bytes.Buffer
	code := Run(context.Background(), app, Process{Args: []string{"gen", "ts"}, Stdout: &out, Stderr: &mistakes})
	if code != verb.ExitFailed || out.Len() > 0 || !strings.Contains(mistakes.String(), "two procedures are named greet") {
		t.Errorf("[%d] %s%s", code, &out, &mistakes)
	}
}

// TestDevRunsTheProgramItself: the nodes of `greeter dev` have its procedures.
func TestDevRunsTheProgramItself(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.env = append(s.env, "SKERRY_TEST_MAIN=greeter")
	d := startDev(t, s, devMark(), 3)
	for _, n := range d.Nodes {
		d.await("a call on node "+fmt.Sprint(n.ID), func() bool {
			got := s.run("greeter call greet anna --url http://" + n.HTTP)
			return strings.Contains(got, `{"text":"hello, anna"`)
		})
	}
}
