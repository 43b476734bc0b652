package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/ports"
	"github.com/skerrydb/skerry/cli/dev"
	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
)

// devRun is one `skerry dev` process.
type devRun struct {
	*process `json:"-"`
	Leader   int        `json:"leader"`
	Nodes    []dev.Node `json:"nodes"`
}

// giveAddresses gives the nodes of a new folder of `skerry dev` addresses that no other
// test has, so that they can be stopped and started again.
func giveAddresses(t *testing.T, dir string, n int) {
	t.Helper()
	var nodes []dev.Node
	for id := range n {
		nodes = append(nodes, dev.Node{ID: id + 1, HTTP: ports.Addr(t), RESP: ports.Addr(t), Admin: ports.Addr(t), Addr: ports.Addr(t)})
	}
	text, err := json.Marshal(nodes)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, serve.DevFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// devWait is how long what may wait for a build may take.
const devWait = 3 * clusterWait

// startDev starts n nodes in the folder d, and waits until one leads.
func startDev(t *testing.T, s *shell, mark string, n int, args ...string) *devRun {
	t.Helper()
	giveAddresses(t, filepath.Join(s.dir, "d"), n)
	d := runDev(t, s, mark, n, append([]string{"--nodes", fmt.Sprint(n), "--data", "d"}, args...)...)
	if d.Leader == 0 {
		t.Fatalf("no node leads\n%s", d.log())
	}
	return d
}

// runDev starts `skerry dev` in a shell's folder, and waits until it says which n nodes there are.
func runDev(t *testing.T, s *shell, mark string, n int, args ...string) *devRun {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"dev", "--json", "--memory", "64MiB"}, args...)...)
	cmd.Dir, cmd.Env = s.dir, append(s.env, mark)
	d := &devRun{process: begin(t, cmd, filepath.Join(t.TempDir(), "stderr"))}
	t.Cleanup(func() {
		d.kill()
		d.await("no process to be left", func() bool { return len(marked(t, mark)) == 0 })
	})
	if d.announced(devWait, d); len(d.Nodes) != n {
		t.Fatalf("dev announced the nodes %v, want %d\n%s", d.Nodes, n, d.log())
	}
	return d
}

func (d *devRun) await(what string, ok func() bool) {
	d.t.Helper()
	if !eventually.Within(devWait, ok) {
		d.t.Fatalf("waited in vain for %s\n%s", what, d.log())
	}
}

// end sends Ctrl-C, after which nothing may run.
func (d *devRun) end(mark string) {
	d.t.Helper()
	if code := d.stop(syscall.SIGINT); code != verb.ExitOK || len(marked(d.t, mark)) != 0 {
		d.t.Errorf("exit code %d, still running %v\n%s", code, marked(d.t, mark), d.log())
	}
}

// ask sends one command to a node, which may be starting; "" if it cannot be asked.
func (d *devRun) ask(node int, command string) string {
	line, err := askAt(d.Nodes[node-1].RESP, command)
	if err != nil {
		return ""
	}
	return line
}

// marked returns the processes that have a variable in their environment, by what
// they serve.
func marked(t *testing.T, mark string) map[string]int {
	t.Helper()
	found := map[string]int{}
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range environs {
		text, err := os.ReadFile(name)
		if err != nil || !strings.Contains("\x00"+string(text), "\x00"+mark+"\x00") {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(name, "/")[2])
		if err != nil {
			t.Fatal(err)
		}
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may be gone
		for _, arg := range strings.Split(string(args), "\x00") {
			if strings.HasPrefix(arg, "d/n") {
				found[arg] = pid
			}
		}
	}
	return found
}

// devMark is a new variable to know the processes of one test by.
func devMark() string {
	return fmt.Sprintf("SKERRY_TEST_DEV=%d-%d", os.Getpid(), time.Now().UnixNano())
}

// TestDev: one command runs a cluster. A node that is killed is started again;
// Ctrl-C and even kill -9 leave nothing running, and the data stays.
func TestDev(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("it finds processes in /proc")
	}
	s := newShell(t)
	mark := devMark()
	d := startDev(t, s, mark, 3)
	if got := d.ask(2, "SET kept yes"); got != "+OK" {
		t.Errorf("SET: %s", got)
	}
	running := marked(t, mark)
	if len(running) != 3 {
		t.Fatalf("three nodes are %v", running)
	}
	name := fmt.Sprint("d/n", d.Leader)
	if err := syscall.Kill(running[name], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.await("the killed node to be back", func() bool { return d.ask(d.Leader, "GET kept") == "yes" })
	if log := d.log(); !strings.Contains(log, fmt.Sprintf("n%d | exited: signal: killed; restarting in ", d.Leader)) {
		t.Errorf("dev says: %s", log)
	}
	if out := s.run("skerry dev --data d"); !strings.Contains(out, "is in use by process") {
		t.Errorf("a second one: %s", out)
	}
	claimed := func() bool {
		lock, err := net.ListenPacket("udp", d.Nodes[1].RESP)
		if err == nil {
			lock.Close()
		}
		return err != nil
	}
	if !claimed() {
		t.Error("the addresses are not claimed")
	}
	d.kill()
	if claimed() {
		t.Error("the nodes have inherited the claims of dev")
	}
	d.await("the nodes to stop after dev was killed", func() bool { return len(marked(t, mark)) == 0 })

	again := runDev(t, s, mark, 3, "--data", "d")
	if again.Nodes[1] != d.Nodes[1] {
		t.Errorf("the addresses are %v, they were %v", again.Nodes, d.Nodes)
	}
	again.await("the data of the last time", func() bool { return again.ask(3, "GET kept") == "yes" })
	again.end(mark)
}

// TestDevBuilt: the web application of a program that is run as it is is in debug mode.
func TestDevBuilt(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("it finds processes in /proc")
	}
	s := newShell(t)
	s.env = append(s.env, "SKERRY_TEST_MAIN=site")
	d := startDev(t, s, devMark(), 1, "--built")
	for path, want := range map[string]string{"/_dev/reload.js": "EventSource", "/_dev/outbox/": "No mail yet"} {
		if code, text := get(t, "http://"+d.Nodes[0].HTTP+path); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d\n%s", path, code, text)
		}
	}
}

// TestDevRefuses: mistakes on the command line are reported at once.
func TestDevRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for args, want := range map[string]string{
		"extra1 extra2":       "! skerry dev: there is no folder extra1\n! skerry dev: unexpected argument \"extra2\": only one program is run; flags of serve go after --\n",
		"extra1 -- --debug":   "! skerry dev: there is no folder extra1\n! Run `",
		"--http 0.0.0.0:8000": "--http: 0.0.0.0:8000 is reachable from other machines, which is unsafe in debug mode: use 127.0.0.1:8000\n",
		"--http off":          "--http: \"off\" is not HOST:PORT\n",
		"--nod 3":             "--nod: unknown flag; did you mean --nodes?\n",
	} {
		if out := s.run("skerry dev " + args); !strings.Contains(out, want) || !strings.HasSuffix(out, "[2]\n") {
			t.Errorf("%s: want %q, got\n%s", args, want, out)
		}
	}
}
