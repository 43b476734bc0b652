package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verify"
)

var rewrite = flag.Bool("rewrite", false, "write what the commands print into testdata/*.txt")

// TestMain lets the test binary be the program: every test that starts `skerry`
// starts this file again, so that nothing has to be built beside it. It can be
// greeter too, a program with procedures, site, one with a web application, other,
// one with a second engine, and cut, one that a signal ends.
func TestMain(m *testing.M) {
	switch os.Getenv("SKERRY_TEST_MAIN") {
	case "1":
		Main(App{Verbs: verify.Verbs()})
	case "greeter":
		Main(greeter())
	case "site":
		Main(site())
	case "other":
		start(App{Verbs: verify.Verbs()}, withOther())
	case "cut":
		start(App{}, cutShort())
	}
	os.Exit(m.Run())
}

// need skips the test if a program is not there, or fails it where
// SKERRY_REQUIRE_SERVERS=1.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
				t.Fatalf("%s is not installed, and SKERRY_REQUIRE_SERVERS=1", name)
			}
			t.Skipf("%s is not installed", name)
		}
	}
}

// shell runs commands in one folder in which `skerry` is the program under test.
type shell struct {
	t   *testing.T
	dir string // where commands run
	bin string // has skerry and comes first in PATH
	env []string

	program string // what serve starts; "" is the program under test
}

func newShell(t *testing.T) *shell {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, name := range []string{"skerry", "greeter", "site"} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := &shell{t: t, dir: t.TempDir(), bin: bin}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SKERRY_") || strings.HasPrefix(v, "SKERRY_TEST_") {
			s.env = append(s.env, v)
		}
	}
	// curl and redis-cli then print as they do for a person at a terminal.
	if err := os.WriteFile(filepath.Join(bin, ".curlrc"), []byte("silent\nshow-error\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Under the race detector a process would wait for a second when it ends.
	s.env = append(s.env, "GORACE=atexit_sleep_ms=0", "SKERRY_TEST_MAIN=1", "PATH="+bin+":"+os.Getenv("PATH"), "CURL_HOME="+bin, "FAKETTY=1", "LC_ALL=C.UTF-8")
	return s
}

// offline makes the go command use only what this machine has, without the network.
func (s *shell) offline() { s.env = append(s.env, "GOPROXY=off", "GOSUMDB=off", "GOWORK=off") }

func (s *shell) command(line string) *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), "bash", "-o", "pipefail", "-c", line)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

// run returns what a command line prints: its standard output as it is, each
// line of its standard error after "! ", and an exit code that is not 0 in
// brackets. The folder is written as $DIR.
func (s *shell) run(line string) string {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := s.command(line)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	for l := range strings.Lines(stderr.String()) {
		stdout.WriteString(strings.TrimSpace("! "+l) + "\n")
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		fmt.Fprintf(&stdout, "[%d]\n", exit.ExitCode())
	} else if err != nil {
		s.t.Fatalf("%s: %v", line, err)
	}
	return strings.ReplaceAll(stdout.String(), s.dir, "$DIR")
}

// server is one `skerry serve` process.
type server struct {
	serve.Announcement
	*process
}

// startWait is how long a server may take to listen.
const startWait = 30 * time.Second

// serve starts a server on the folder named data and free ports, and waits until
// it has said where it listens.
func (s *shell) serve(args ...string) *server {
	s.t.Helper()
	argv := append([]string{"serve", "--json", "--resp", "127.0.0.1:0"}, args...)
	if !slices.Contains(args, "--http") {
		argv = append(argv, "--http", "127.0.0.1:0")
	}
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	self = cmp.Or(s.program, self)
	cmd := exec.Command(self, argv...)
	cmd.Dir, cmd.Env = s.dir, s.env
	p := &server{process: begin(s.t, cmd, filepath.Join(s.t.TempDir(), "stderr"))}
	s.t.Cleanup(p.kill)
	p.announced(startWait, &p.Announcement)
	return p
}

func (p *server) httpAddr() string { return strings.TrimPrefix(p.HTTP, "http://") }

func (p *server) respPort() string {
	_, port, err := net.SplitHostPort(strings.TrimPrefix(p.RESP, "redis://"))
	if err != nil {
		p.t.Fatal(err)
	}
	return port
}

// ask sends one inline command of the Redis protocol and returns the first line
// of the reply.
func (p *server) ask(command string) string {
	p.t.Helper()
	line, err := askAt(net.JoinHostPort("127.0.0.1", p.respPort()), command)
	if err != nil {
		p.t.Fatalf("%s: %v", command, err)
	}
	return line
}

// askAt is ask for an address.
func askAt(addr, command string) (string, error) {
	c, err := net.DialTimeout("tcp", addr, startWait)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(startWait))
	if _, err := io.WriteString(c, command+"\r\n"); err != nil {
		return "", err
	}
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	if line = strings.TrimSpace(line); len(line) > 1 && line[0] == '$' && line != "$-1" {
		n, _ := strconv.Atoi(line[1:])
		text := make([]byte, n)
		if _, err := io.ReadFull(r, text); err != nil {
			return "", err
		}
		line = string(text)
	}
	return line, nil
}
