package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommandLine runs the commands of testdata/*.txt, each file in a folder of
// its own. A line that begins with "$ " is a command; what it prints stands
// below it, as shell.run writes it, up to an empty line. Lines that begin with
// "# " outside of that are comments.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			expectPlay(t, newShell(t), file)
		})
	}
}

// expectPlay runs the commands of a file and compares what they print.
func expectPlay(t *testing.T, s *shell, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := play(s, string(text))
	switch {
	case got == string(text):
	case *rewrite:
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: first difference (go test -rewrite accepts what is printed):\n%s", file, difference(string(text), got))
	}
}

// play returns text with what its commands print now.
func play(s *shell, text string) string {
	var out strings.Builder
	inOutput := false
	for line := range strings.Lines(text) {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case isCommand:
			inOutput = true
			out.WriteString(line)
			printed := s.run(strings.TrimSpace(command))
			// An empty line would end the output when it is read again.
			printed = strings.ReplaceAll("\n"+printed, "\n\n", "\n|\n")[1:]
			out.WriteString(printed)
		case line == "\n":
			inOutput = false
			out.WriteString(line)
		case !inOutput:
			out.WriteString(line)
		}
	}
	return out.String()
}

// difference shows the command before the first line in which the texts differ.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	command := ""
	for i := range max(len(w), len(g)) {
		a, b := "(end)", "(end)"
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return command + "\nwant: " + a + "\ngot:  " + b
		}
		if strings.HasPrefix(a, "$ ") {
			command = a
		}
	}
	return "(none)"
}
