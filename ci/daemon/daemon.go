// Package daemon runs servers for tests, and ends them however the tests end.
//
// It knows processes and folders. It must not know which servers there are.
package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
)

// EndLimit is how long a server has to end after a signal.
const EndLimit = 60 * time.Second

// Daemon is a server with a folder of its own, in which it can be started, ended and started again. When this process
// ends, even by kill -9, a keeper ends the server and removes the folder.
type Daemon struct {
	Dir  string
	stop syscall.Signal
	keep *exec.Cmd
	in   io.WriteCloser // of the keeper

	mu   sync.Mutex
	pid  int // 0: it does not run
	done chan struct{}
}

// The keeper waits for the end of its input, which the end of this process brings about. It gives a server 10 s to
// end. A zombie has ended.
const keeper = `trap '' INT TERM
pid=0
while read -r line; do pid=$line; done
runs() { grep -qs '^State:.[^Z]' "/proc/$pid/status"; }
if [ "$pid" != 0 ]; then
	kill -"$1" "$pid" 2>/dev/null
	for i in $(seq 200); do runs || break; sleep 0.05; done
	! runs || kill -9 "$pid"
fi
rm -rf "$2"`

// New makes the folder of a server, whose name begins with skerry- and name. stop is the signal that ends the server
// at once.
func New(name string, stop syscall.Signal) (*Daemon, error) { return NewIn("", name, stop) }

// NewIn is New with a folder in which the new one is, such as Memory's; "" is that for temporary files.
func NewIn(parent, name string, stop syscall.Signal) (*Daemon, error) {
	dir, err := os.MkdirTemp(parent, "skerry-"+name+"-")
	if err != nil {
		return nil, err
	}
	d := &Daemon{Dir: dir, stop: stop, keep: exec.Command("sh", "-c", keeper, "keeper", fmt.Sprint(int(stop)), dir)}
	d.keep.Dir = "/"
	d.keep.Stderr = os.Stderr // go test waits until this is closed, and so for the keeper
	if d.in, err = d.keep.StdinPipe(); err != nil {
		return nil, err
	}
	return d, d.keep.Start()
}

// memoryRoom is how many bytes must be free in memory for servers to have their files there.
const memoryRoom = 4 << 30

// Memory returns a folder whose files are in memory and survive a server but not the machine, or "" if the machine has none
// with enough room.
func Memory() string {
	const folder = "/dev/shm"
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil || uint64(fs.Bsize)*fs.Bavail < memoryRoom {
		return ""
	}
	return folder
}

// EndWith closes the daemon when the test ends. If the test has failed it prints the end of the server's log.
func (d *Daemon) EndWith(tb testing.TB) {
	tb.Cleanup(func() {
		if tb.Failed() {
			log, _ := os.ReadFile(d.Log())
			tb.Logf("the end of the server's log:\n%s", log[max(0, len(log)-4000):])
		}
		if err := d.Close(); err != nil {
			tb.Errorf("end the server: %v", err)
		}
	})
}

// Log returns the file that has the server's output.
func (d *Daemon) Log() string { return filepath.Join(d.Dir, "log") }

// Start runs the server and waits until ready returns true.
func (d *Daemon) Start(tb testing.TB, cmd *exec.Cmd, ready func() bool) {
	tb.Helper()
	log, err := os.OpenFile(d.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // however it ended
		close(done)
	}()
	d.mu.Lock()
	d.pid, d.done = cmd.Process.Pid, done
	d.watch(tb)
	d.mu.Unlock()
	eventually.True(tb, "the server serves or has ended", func() bool { return ended(done) || ready() })
	if ended(done) {
		text, _ := os.ReadFile(d.Log())
		tb.Fatalf("the server ended at its start:\n%s", text)
	}
}

// End ends the server with a signal, and all of its child processes too if that is SIGKILL. It does nothing if the
// server does not run.
func (d *Daemon) End(tb testing.TB, sig syscall.Signal) {
	tb.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pid == 0 {
		return
	}
	var below []int
	if sig == syscall.SIGKILL {
		below = stopped(d.pid)
	}
	for _, pid := range append([]int{d.pid}, below...) {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			tb.Fatal(err)
		}
	}
	done := d.done
	if !eventually.Within(EndLimit, func() bool { return ended(done) && !slices.ContainsFunc(below, runs) }) {
		tb.Fatalf("the server has not ended %v after %v", EndLimit, sig)
	}
	d.pid = 0
	d.watch(tb)
}

// watch tells the keeper which process the server is now.
func (d *Daemon) watch(tb testing.TB) {
	tb.Helper()
	if _, err := fmt.Fprintln(d.in, d.pid); err != nil {
		tb.Fatal(err)
	}
}

// Close ends the server, removes the folder, and returns when that is done.
func (d *Daemon) Close() error {
	if err := d.in.Close(); err != nil {
		return err
	}
	return d.keep.Wait()
}

func ended(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// status returns a field of a process's status, "" if there is no such process.
func status(pid any, field string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%v/status", pid))
	for line := range strings.Lines(string(text)) {
		if val, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(val)
		}
	}
	return ""
}

// runs reports whether a process exists and is not a zombie.
func runs(pid int) bool {
	state := status(pid, "State")
	return state != "" && state[0] != 'Z'
}

// stopped stops a process, so that it starts no others, and returns those that it has started.
func stopped(pid int) []int {
	if syscall.Kill(pid, syscall.SIGSTOP) != nil {
		return nil
	}
	eventually.Within(EndLimit, func() bool { state := status(pid, "State"); return state == "" || state[0] == 'T' || state[0] == 'Z' })
	return children(pid)
}

// children returns the processes whose parent is pid.
func children(pid int) (all []int) {
	found, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range found {
		var child, parent int
		if _, err := fmt.Sscan(filepath.Base(name)+" "+status(filepath.Base(name), "PPid"), &child, &parent); err == nil && parent == pid {
			all = append(all, child)
		}
	}
	return all
}

// Missing skips the test, or fails it if SKERRY_REQUIRE_SERVERS is set, because a server is not installed.
func Missing(tb testing.TB, what, debian string) {
	tb.Helper()
	if os.Getenv("SKERRY_REQUIRE_SERVERS") != "" {
		tb.Fatalf("%s is not installed, and SKERRY_REQUIRE_SERVERS is set", what)
	}
	tb.Skipf("%s is not installed (Debian package %s)", what, debian)
}
