package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/ports"
)

// machine is a place of its own to run commands in: with its own address, its
// own /etc and its own /var/lib, if this machine can make namespaces.
type machine struct {
	s       *shell
	dir     string            // where its commands run
	enter   []string          // goes before a command; nil: there are no namespaces
	replace *strings.Replacer // what a command means here
	umask   string            // that its commands have been given
	server  *exec.Cmd
	ended   chan error // server's
}

// machines are a few that reach each other as db1.example.com and so on.
type machines struct {
	list  []*machine // by number; 0 is not used
	apart bool       // each has an address of its own
}

// newMachines makes n machines. They end with the test, and also with its process:
// nothing of a namespace has a name, and its holder reads from a pipe of ours. Where
// namespaces cannot be made, the machines share loopback and have other ports.
func newMachines(t *testing.T, s *shell, n int) *machines {
	t.Helper()
	w := &machines{list: make([]*machine, n+1)}
	var names strings.Builder
	names.WriteString("127.0.0.1 localhost\n")
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&names, "10.77.0.%d db%d.example.com\n", i, i)
		w.list[i] = &machine{s: s, dir: filepath.Join(s.dir, fmt.Sprint("machine", i)), replace: strings.NewReplacer()}
		if err := os.Mkdir(w.list[i].dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.apart = w.separate(t, names.String())
	if !w.apart {
		w.share(t)
	}
	for _, m := range w.list[1:] {
		t.Cleanup(m.kill)
	}
	return w
}

// separate gives each machine namespaces, an address on a common bridge, and a
// password file. It reports false where that is not allowed.
func (w *machines) separate(t *testing.T, hosts string) bool {
	for _, program := range []string{"ip", "unshare", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("machines share loopback: %v", err)
			return false
		}
	}
	bridge, err := hold(t, "--net", "ip link add br0 type bridge && ip link set br0 up")
	if err != nil {
		t.Logf("machines share loopback: %v", err)
		return false
	}
	for i, m := range w.list {
		if i == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(m.dir, "hosts"), []byte(hosts), 0o600); err != nil {
			t.Fatal(err)
		}
		pid, err := hold(t, "--net", "--mount", fmt.Sprintf(`cd %s
mount -t tmpfs none /etc && mount -t tmpfs -o size=64m none /var/lib && mkdir /etc/skerry &&
cp hosts /etc/hosts && echo "hosts: files" > /etc/nsswitch.conf &&
echo "a password of the test" > /etc/skerry/password && ip link set lo up`, m.dir))
		if err == nil {
			err = script([]string{"nsenter", "-t", bridge, "-n"}, fmt.Sprintf(
				"ip link add p%d type veth peer name eth0 netns %s && ip link set p%d master br0 up", i, pid, i))
		}
		m.enter = []string{"nsenter", "-t", pid, "-n", "-m", "-r", "-w"} // -r and -w: this may run in a chroot
		if err == nil {
			err = script(m.enter, fmt.Sprintf("ip addr add 10.77.0.%d/24 dev eth0 && ip link set eth0 up", i))
		}
		if err != nil {
			t.Logf("machines share loopback: %v", err)
			return false
		}
	}
	return true
}

// share gives the machines ports of this one and folders in their own ones.
func (w *machines) share(t *testing.T) {
	pairs := []string{
		"/var/lib/skerry", "data", "/etc/skerry/password", "password",
		"0.0.0.0:7001", "0.0.0.0:0", "0.0.0.0:6380", "0.0.0.0:0",
	}
	for i := range w.list {
		if i > 0 {
			pairs = append(pairs, fmt.Sprintf("db%d.example.com:7100", i), ports.Addr(t))
		}
	}
	for _, m := range w.list[1:] {
		m.enter, m.replace = nil, strings.NewReplacer(pairs...)
		if err := os.WriteFile(filepath.Join(m.dir, "password"), []byte("a password of the test\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// hold makes new namespaces, runs a script in them, and returns the id of a
// process that keeps them until the test or its process ends.
func hold(t *testing.T, args ...string) (pid string, err error) {
	last := len(args) - 1
	cmd := exec.Command("unshare", append(args[:last:last], "sh", "-ec", args[last]+"\necho ready\nexec cat >/dev/null")...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	var why strings.Builder
	cmd.Stderr = &why
	if err := cmd.Start(); err != nil {
		return "", err
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	end := func() {
		in.Close()
		io.Copy(io.Discard, out)
		_ = cmd.Wait() // how it ended does not matter
	}
	if line != "ready\n" {
		end()
		return "", fmt.Errorf("%v: %s", cmd.Args, why.String())
	}
	t.Cleanup(end)
	return fmt.Sprint(cmd.Process.Pid), nil
}

// script runs a script in namespaces that are there.
func script(enter []string, text string) error {
	out, err := exec.Command(enter[0], append(enter[1:len(enter):len(enter)], "sh", "-ec", text)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", text, err, out)
	}
	return nil
}

// command returns what runs a command line on the machine.
func (m *machine) command(line string) *exec.Cmd {
	argv := append(append([]string{}, m.enter...), "bash", "-o", "pipefail", "-c", "cd "+m.dir+"\n"+m.umask+"\n"+m.replace.Replace(line))
	cmd := exec.CommandContext(m.s.t.Context(), argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = m.s.env, m.s.dir
	return cmd
}

// run runs a command line that must not fail, and returns what it prints.
func (m *machine) run(line string) string {
	m.s.t.Helper()
	if strings.HasPrefix(line, "umask ") {
		m.umask = line
	}
	var why strings.Builder
	cmd := m.command(line)
	cmd.Stderr = &why
	out, err := cmd.Output()
	if err != nil {
		m.s.t.Fatalf("$ %s\n%s%s%v", line, out, why.String(), err)
	}
	return string(out)
}

// serve starts the server of the machine, whose command line that is.
func (m *machine) serve(line string) {
	m.s.t.Helper()
	log, err := os.OpenFile(filepath.Join(m.dir, "serve.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.s.t.Fatal(err)
	}
	defer log.Close()
	cmd := m.command("exec " + line)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		m.s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); close(ended) }()
	m.server, m.ended = cmd, ended
}

// kill ends the server at once, if there is one.
func (m *machine) kill() {
	if m.server == nil {
		return
	}
	if err := m.server.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		m.s.t.Error(err)
	}
	<-m.ended
	m.server = nil
}

// log is what the machine's servers have printed.
func (m *machine) log() string {
	text, err := os.ReadFile(filepath.Join(m.dir, "serve.log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// host is what other machines call a machine's address for clients.
func (w *machines) host(n int, addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if w.apart {
		return err == nil && host == fmt.Sprintf("db%d.example.com", n)
	}
	return err == nil && host == "127.0.0.1"
}
