package cli

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// process is a program that a test runs. It announces itself in one line of JSON.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr string        // the file with its standard error
	first  chan string   // the first line of its standard output
	exited chan struct{} // closed when it has ended
}

// begin starts a process, whose standard error is appended to a file.
func begin(t *testing.T, cmd *exec.Cmd, stderr string) *process {
	t.Helper()
	log, err := os.OpenFile(stderr, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, stderr: stderr, first: make(chan string, 1), exited: make(chan struct{})}
	go func() {
		r := bufio.NewReader(out)
		line, _ := r.ReadString('\n')
		p.first <- line
		io.Copy(io.Discard, r)
		cmd.Wait()
		close(p.exited)
	}()
	return p
}

// announced decodes the announcement into v. It must come within a limit.
func (p *process) announced(limit time.Duration, v any) {
	p.t.Helper()
	select {
	case line := <-p.first:
		if err := json.Unmarshal([]byte(line), v); err != nil {
			p.t.Fatalf("%s printed %q: %v\n%s", p.cmd, line, err, p.log())
		}
	case <-time.After(limit):
		p.t.Fatalf("%s printed nothing in %v\n%s", p.cmd, limit, p.log())
	}
}

// kill ends the process at once, as a power cut would.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.exited
}

// stop sends a signal and returns the exit code.
func (p *process) stop(sig syscall.Signal) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	return p.exit()
}

// exit waits until the process has ended, and returns its exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(clusterWait):
		p.t.Fatalf("%s still runs after %v\n%s", p.cmd, clusterWait, p.log())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// log returns what the process has written to its standard error.
func (p *process) log() string {
	p.t.Helper()
	text, err := os.ReadFile(p.stderr)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}
