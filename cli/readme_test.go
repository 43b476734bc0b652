package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
)

// step is one command of the tour and what the README says that it prints.
type step struct{ command, want string }

var consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")

// section returns what stands in the README below a heading.
func section(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("README.md has no section %q", heading)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

// tour reads the steps from sections of the README, of which there are at least
// least.
func tour(t *testing.T, least int, headings ...string) []step {
	t.Helper()
	var steps []step
	for _, heading := range headings {
		for _, block := range consoleBlock.FindAllStringSubmatch(section(t, heading), -1) {
			for line := range strings.Lines(block[1]) {
				if command, ok := strings.CutPrefix(line, "$ "); ok {
					steps = append(steps, step{command: strings.TrimSpace(command)})
				} else if len(steps) > 0 {
					steps[len(steps)-1].want += line
				}
			}
		}
	}
	if len(steps) < least {
		t.Fatalf("found only %d commands in README.md", len(steps))
	}
	return steps
}

// TestReadmeTour runs the tour of the README as it stands there, but for the
// ports: `make run` and `skerry dev` start the program under test on free ones,
// and `kill -9` and `pkill -9` end that process.
func TestReadmeTour(t *testing.T) {
	t.Parallel()
	need(t, "curl", "redis-cli")
	if runtime.GOOS != "linux" {
		t.Skip("it finds processes in /proc")
	}
	s := newShell(t)
	if err := os.Symlink(s.bin, filepath.Join(s.dir, "bin")); err != nil {
		t.Fatal(err)
	}
	var p *server
	var three *devRun
	mark := devMark()
	kills := 0
	for _, st := range tour(t, 10, "Sixty seconds", "Three of them") {
		if st.command == "make run" {
			p = s.serve()
			p.waitReady()
			continue
		}
		if strings.HasPrefix(st.command, "bin/skerry dev ") {
			three = startDev(t, s, mark, 3)
			continue
		}
		if strings.HasPrefix(st.command, "pkill -9 ") {
			if err := syscall.Kill(marked(t, mark)["d/n1"], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			kills++
			continue
		}
		if p == nil {
			t.Fatalf("%s: the tour does not begin with make run", st.command)
		}
		line := strings.ReplaceAll(st.command, "localhost:7001", p.httpAddr())
		line = strings.ReplaceAll(line, "-p 6380", "-p "+p.respPort())
		for i := 1; three != nil && i < len(three.Nodes); i++ {
			_, port, _ := strings.Cut(three.Nodes[i].RESP, ":")
			line = strings.ReplaceAll(line, fmt.Sprint("-p ", 6380+i), "-p "+port)
		}
		got := s.run(line)
		if strings.HasPrefix(st.command, "kill -9 ") {
			<-p.exited
			kills++
		}
		if strings.TrimSuffix(got, "\n") != strings.TrimSuffix(st.want, "\n") { // a value has no line end of its own
			t.Fatalf("$ %s\nREADME.md says:\n%sit printed:\n%s%s", st.command, st.want, got, p.log())
		}
	}
	if kills < 2 {
		t.Error("the tour does not show that a killed server keeps its data, alone and of three")
	}
}

// waitReady waits until the server answers requests.
func (p *server) waitReady() {
	p.t.Helper()
	ready := func() bool {
		code, err := statusOf(p.HTTP + "/readyz")
		return err == nil && code == http.StatusOK
	}
	if !eventually.Within(startWait, ready) {
		p.t.Fatalf("not ready after %v\n%s", startWait, p.log())
	}
}
