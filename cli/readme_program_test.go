package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// asTerminal is what shell.run adds to what a terminal shows.
var asTerminal = regexp.MustCompile(`(?m)^! |^\[\d+\]\n`)

// TestReadmeProgram makes the program that the README shows, by its own commands
// and without the network, and calls it as it says; only the ports are free ones,
// and Skerry is where it is.
func TestReadmeProgram(t *testing.T) { // not beside tests of time: it builds
	if testing.Short() {
		t.Skip("builds a program")
	}
	need(t, "go", "curl", "redis-cli")
	const heading = "A program of your own"
	s := newShell(t)
	// go mod tidy asks the network, as a reader's does, for what a new machine lacks.
	s.env = append(s.env, "GOWORK=off")
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	program := goBlock.FindStringSubmatch(section(t, heading))
	if program == nil {
		t.Fatal("README.md shows no program")
	}
	var p *server
	for _, st := range tour(t, 8, heading) {
		switch {
		case strings.HasPrefix(st.command, "mkdir "):
			s.dir = filepath.Join(s.dir, "skerry") // the README's commands are given in there
			if err := os.Mkdir(s.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			s.run(st.command)
			s.dir = filepath.Join(filepath.Dir(s.dir), "greeter")
			if err := os.WriteFile(filepath.Join(s.dir, "main.go"), []byte(program[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		case strings.HasPrefix(st.command, "go "):
			if out := s.run(strings.ReplaceAll(st.command, "=../skerry", "="+root) + " 2>&1"); strings.HasSuffix(out, "]\n") {
				t.Fatalf("$ %s\n%s", st.command, out)
			}
			continue
		case strings.HasSuffix(st.command, "/greeter serve"):
			s.program = filepath.Join(s.dir, "greeter")
			p = s.serve()
			p.waitReady()
			continue
		case p == nil:
			t.Fatalf("%s: nothing is served yet", st.command)
		}
		line := strings.ReplaceAll(st.command, "localhost:7001", p.httpAddr())
		line = strings.ReplaceAll(line, "-p 6380", "-p "+p.respPort())
		if strings.HasPrefix(line, "./greeter ") {
			line += " --url " + p.HTTP
		}
		got := asTerminal.ReplaceAllString(s.run(line), "")
		if strings.TrimSuffix(got, "\n") != strings.TrimSuffix(st.want, "\n") {
			t.Fatalf("$ %s\nREADME.md says:\n%sit printed:\n%s%s", st.command, st.want, got, p.log())
		}
	}
	if got := s.run("./greeter version"); !strings.HasPrefix(got, "greeter (devel) (Skerry (devel), go1.") {
		t.Errorf("version prints %s", got)
	}
}
