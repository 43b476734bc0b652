package skerry_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// mostFiles is how many files of code a new capability may touch.
const mostFiles = 4

// TestAddingACapability adds the capability in testdata/capability to a copy of the source, as
// docs/developing.md describes, and uses its route, command, verb, error code, metric and limit.
func TestAddingACapability(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	t.Parallel()
	dir := copyWithCapability(t)
	goes := func(args ...string) {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	goes("test", "-run", "TestErrorsDoc|TestLimitsTable", "-rewrite", ".")
	goes("test", "-run", "TestErrorsDoc|TestGofmt|TestImports|TestLimitsTable|TestSize|TestStatuses|TestEveryNumberHasAnOwner", ".", "./keyspace")
	for file, want := range map[string]string{"docs/errors.md": "| `note_too_long` | too_large | 413 |", "docs/limits.md": "| `note.MaxTextBytes` | 1,000 bytes |"} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not have %q (%v)", file, want, err)
		}
	}
	goes("build", "-o", "program", "./cmd/skerry")
	useCapability(t, filepath.Join(dir, "program"))
}

// copyWithCapability returns the folder of a copy of the source with the capability in it.
func copyWithCapability(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	walk(t, func(p string, d fs.DirEntry) {
		if !d.IsDir() && !strings.HasPrefix(p, "bench/") {
			copyFile(t, p, filepath.Join(dir, p))
		}
	})
	for from, to := range map[string]string{"note": "note/note", "server": "note", "verb": "cli/note"} {
		copyFile(t, "testdata/capability/"+from+".go.txt", filepath.Join(dir, to+".go"))
	}
	text, err := os.ReadFile("testdata/capability/edits.diff")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("docs/developing.md")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for part := range strings.SplitSeq(strings.TrimPrefix(string(text), "--- "), "\n--- ") {
		files++
		name, changes, _ := strings.Cut(part, "\n@@\n")
		if !strings.Contains(string(doc), "`"+name+"`") {
			t.Errorf("docs/developing.md does not say that %s is to be touched", name)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source := string(b)
		for change := range strings.SplitSeq(strings.TrimRight(changes, "\n"), "\n@@\n") {
			source = applyChange(t, name, source, change)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if files > mostFiles {
		t.Errorf("the capability touches %d files, at most %d are allowed", files, mostFiles)
	}
	return dir
}

// applyChange replaces the lines of a change that begin with a space or - by those that begin
// with a space or +.
func applyChange(t *testing.T, file, source, change string) string {
	t.Helper()
	var old, now []string
	for line := range strings.SplitSeq(change, "\n") {
		if line[0] != '+' {
			old = append(old, line[1:])
		}
		if line[0] != '-' {
			now = append(now, line[1:])
		}
	}
	before, after, found := strings.Cut(source, strings.Join(old, "\n"))
	if !found {
		t.Fatalf("%s does not have\n%s", file, strings.Join(old, "\n"))
	}
	return before + strings.Join(now, "\n") + after
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// useCapability runs the program with the capability and uses all of it.
func useCapability(t *testing.T, program string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := exec.CommandContext(ctx, program, "serve", "--json", "--data", t.TempDir(), "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0")
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGTERM) }
	server.Stderr = t.Output()
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = server.Wait() }()
	var at struct{ HTTP, RESP string }
	if err := json.NewDecoder(out).Decode(&at); err != nil {
		t.Fatal(err)
	}

	nc, err := net.Dial("tcp", strings.TrimPrefix(at.RESP, "redis://"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	replies := bufio.NewReader(nc)
	for _, c := range [][2]string{
		{"NOTEPUT k text", "+OK"},
		{"NOTEPUT k " + strings.Repeat("x", 1001), "-ERR a text of 1001 bytes is over the limit of 1000 [note_too_long]"},
		{"COMMAND GETKEYS NOTEPUT k text", "-ERR The command has no key arguments"},
	} {
		if _, err := io.WriteString(nc, c[0]+"\r\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := replies.ReadString('\n'); err != nil || strings.TrimSpace(got) != c[1] {
			t.Errorf("%.40s: %q %v, want %q", c[0], got, err, c[1])
		}
	}
	answers := map[string]string{"/notes/k": "text", "/notes/x": `"code":"not_found"`, "/": `"path":"/notes/{name}"`, "/metrics": "skerry_notes_written_total 1"}
	for _, path := range slices.Sorted(maps.Keys(answers)) {
		answer, err := http.Get(at.HTTP + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if !strings.Contains(string(body), answers[path]) {
			t.Errorf("GET %s: %d without %q: %.300s", path, answer.StatusCode, answers[path], body)
		}
	}
	if got, err := exec.Command(program, "note", "--url", at.HTTP, "k").CombinedOutput(); err != nil || string(got) != "text" {
		t.Errorf("the verb: %q %v", got, err)
	}
	if got, _ := exec.Command(program, "help").CombinedOutput(); !strings.Contains(string(got), "print a note of a running server") {
		t.Errorf("help: %s", got)
	}
}
