package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
)

// runApp runs greeter in this process.
func runApp(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = Run(context.Background(), greeter(), Process{Args: args, Stdout: &out, Stderr: &err})
	return code, out.String(), err.String()
}

// TestOwnName: what a user's program prints about itself can be typed as it stands.
func TestOwnName(t *testing.T) {
	t.Parallel()
	all := [][]string{{"help"}, {""}, {"frob"}, {"help", "frob"}, {"cluster", "frob"}, {"serve", "1"},
		{"cluster", "remove"}, {"cluster", "status", "--data", t.TempDir()}}
	for _, v := range verbs(greeter()) {
		all = append(all, []string{"help", v.Name})
		for _, sub := range v.Subs {
			all = append(all, append([]string{"help"}, strings.Fields(sub.Name)...))
		}
	}
	for _, args := range all {
		_, stdout, stderr := runApp(args...)
		if text := strings.ReplaceAll(stdout+stderr, "--skerry ", "--"); strings.Contains(text, "skerry ") || !strings.Contains(text, "greeter ") && !strings.Contains(text, "greeter:") {
			t.Errorf("%q prints\n%s", args, text)
		}
	}
	if _, stdout, _ := runApp("help"); !strings.Contains(stdout, "has 4 procedures.") {
		t.Errorf("help says nothing about the procedure:\n%s", stdout)
	}
	if _, stdout, _ := runApp("version"); !strings.HasPrefix(stdout, "greeter v7 (") {
		t.Errorf("version prints %q", stdout)
	}
}

// TestOwnErrorKeepsWords: a folder that is called like the program keeps its name.
func TestOwnErrorKeepsWords(t *testing.T) {
	t.Parallel()
	p := verb.Process{App: verb.App{Name: "greeter"}}
	got := p.OwnError(engine.Errorf(engine.CodeInvalid, "my skerry data: `skerry check` says more"))
	if want := "my skerry data: `greeter check` says more [invalid]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
