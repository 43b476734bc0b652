package rig

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// StartLimit is how long a server may take to serve, or to stop.
const StartLimit = 3 * time.Minute

// Process is a server in its own process.
type Process struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{} // closed when it has ended
}

// Start starts a command that appends its output to the file log. The command dies with this process, however
// that ends.
func Start(cmd *exec.Cmd, log string) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	var err error
	if p.log, err = os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		p.log.Close()
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // its log has the reason for its end
		p.log.Close()
		close(p.done)
	}()
	return p, nil
}

// PID returns its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends it a signal.
func (p *Process) Signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// Await waits until the process accepts connections at addr. It fails if the process ends, or does not within that time.
func (p *Process) Await(addr string, within time.Duration) error {
	for from := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-p.Done():
			return fmt.Errorf("%s ended before it served", p.cmd.Path)
		default:
		}
		if time.Since(from) > within {
			return fmt.Errorf("%s does not serve after %v: %w", p.cmd.Path, within, err)
		}
	}
}

// Stop sends a signal and waits for the end of the process. It kills the process after StartLimit. The error
// is nil if the process had ended before.
func (p *Process) Stop(sig syscall.Signal) error {
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(StartLimit):
	}
	_ = p.Signal(syscall.SIGKILL)
	<-p.done
	return fmt.Errorf("process %d did not stop within %v of %v", p.PID(), StartLimit, sig)
}

// FreePorts returns n loopback addresses that were free a moment ago.
func FreePorts(n int) ([]string, error) {
	var addrs []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// DiskBytes returns the size of the files below a folder.
func DiskBytes(dir string) int64 {
	var sum int64
	_ = filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// Ask sends one request on a new connection and returns the response once enough reports that it is complete.
func Ask(addr string, request []byte, enough func([]byte) (bool, error)) ([]byte, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(StartLimit))
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	var got []byte
	b := make([]byte, 64<<10)
	for {
		n, err := c.Read(b)
		got = append(got, b[:n]...)
		if done, bad := enough(got); done || bad != nil {
			return got, bad
		}
		if err != nil {
			return got, err
		}
	}
}

// AskKey reads key 0 with a codec.
func AskKey(addr string, c Codec) error {
	_, err := Ask(addr, c.AppendGet(nil, 0), func(b []byte) (bool, error) {
		n, err := c.Reply(b, false)
		return n > 0, err
	})
	return err
}

// MetricsPage reads a page of Prometheus metrics and sums up each name over its labels.
func MetricsPage(addr string) (map[string]float64, error) {
	r, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK {
		return nil, errors.New("/metrics: " + r.Status)
	}
	m := map[string]float64{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(line[:at], "{")
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			m[name] += v
		}
	}
	return m, nil
}

// LiveGo returns the live heap of a Go server, computed from the heap size of the next collection and GOGC
// (https://go.dev/doc/gc-guide#GOGC; 100 if unknown). Roots, which count too, are small here.
func LiveGo(m map[string]float64) float64 {
	gogc := Figure(m, "go_gc_gogc_percent")
	if gogc < 0 {
		gogc = 100
	}
	return Figure(m, "go_memstats_next_gc_bytes") / (1 + gogc/100)
}

// Figure returns the metric with that name, or -1.
func Figure(m map[string]float64, name string) float64 {
	if v, ok := m[name]; ok {
		return v
	}
	return -1
}

// OutputLine runs a program that prints its version.
func OutputLine(path string, args ...string) string {
	b, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		return err.Error()
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

// Skerry returns the path of the skerry program to measure: the given one, or if that is "" the one of this
// repository, built in a folder like a release.
func Skerry(path, dir string) (string, error) {
	if path != "" {
		return filepath.Abs(path)
	}
	path = filepath.Join(dir, "skerry.bin")
	return path, BuildProgram("./cmd/skerry", path)
}

// BuildProgram builds a program of this repository, whose package is relative to the repository's root, into
// the file path.
func BuildProgram(pkg, path string) error { return build("..", pkg, path) }

// BuildBench is BuildProgram for a package that is relative to bench/.
func BuildBench(pkg, path string) error { return build(".", pkg, path) }

// build builds a package relative to a folder, which is relative to bench/.
func build(dir, pkg, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, pkg)
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("find the repository (run this in bench/): %w", err)
	}
	cmd.Dir = filepath.Join(filepath.Dir(strings.TrimSpace(string(mod))), dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// Need returns the path of a program.
func Need(program, debianPackage string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%s is missing (Debian package %s), or leave it out with -systems", program, debianPackage)
	}
	return path, nil
}
