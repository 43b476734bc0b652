//go:build linux

package examples_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/logbuf"
)

// nodePID finds the process that serves a node's folder; it needs /proc.
func nodePID(t *testing.T, dir string) int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		args, _ := os.ReadFile(name) // it may be gone
		for _, arg := range strings.Split(string(args), "\x00") {
			if arg == dir {
				pid, err := strconv.Atoi(strings.Split(name, "/")[2])
				if err != nil {
					t.Fatal(err)
				}
				return pid
			}
		}
	}
	t.Fatalf("no process serves %s", dir)
	return 0
}

// leaderNow asks the nodes for the leader, until one knows it, and returns its index in addrs.
func leaderNow(t *testing.T, addrs []string) int {
	t.Helper()
	leader := -1
	eventually.True(t, "a node knows the leader", func() bool {
		for _, addr := range addrs {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				continue
			}
			var reply []byte
			if _, err = c.Write([]byte("*2\r\n$7\r\nCLUSTER\r\n$6\r\nLEADER\r\n*1\r\n$4\r\nQUIT\r\n")); err == nil {
				reply, _ = io.ReadAll(c) // the server closes the connection; it may also be dying
			}
			c.Close()
			leader = slices.IndexFunc(addrs, func(a string) bool {
				_, port, _ := net.SplitHostPort(a)
				return bytes.Contains(reply, []byte("\r\n:"+port+"\r\n"))
			})
			if leader >= 0 {
				return true
			}
		}
		return false
	})
	return leader
}

// votes is a line of progress with votes in its second.
var votes = regexp.MustCompile(`\n +[1-9]\d* +[1-9]`)

// TestLeaderDiesUnderLoad kills the leader of three nodes while votes come in, in
// every mode: the load continues with the next leader, and the totals are right; they
// are exact if every call has a key.
func TestLeaderDiesUnderLoad(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three processes and some elections")
	}
	data := t.TempDir() + "/data"
	var three struct {
		Nodes []struct{ RESP string }
	}
	launch(t, &three, program(t, "voter/server"), "dev", "--json", "--nodes", "3", "--data", data, "--memory", "1GiB")
	var addrs []string
	for _, n := range three.Nodes {
		addrs = append(addrs, n.RESP)
	}
	load := program(t, "voter/load")
	for _, flags := range []string{"-mode blocking -once", "-mode async -once -inflight 2000", "-mode sql", "-mode async"} {
		args := append(strings.Fields(flags), "-addr", strings.Join(addrs, ","), "-duration", "6s", "-phones", "20000", "-max", "1000000")
		var out logbuf.Buffer
		cmd := exec.CommandContext(t.Context(), load, args...)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "votes are coming in", func() bool { return votes.MatchString(out.String()) })
		if err := syscall.Kill(nodePID(t, filepath.Join(data, "n"+strconv.Itoa(1+leaderNow(t, addrs)))), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		text := out.String()
		if err != nil || !strings.Contains(text, "\nright: ") {
			t.Fatalf("load %s: %v\n%s", flags, err, text)
		}
		if strings.Contains(flags, "-once") && !strings.Contains(text, "right: exactly") {
			t.Errorf("load %s: not exact\n%s", flags, text)
		}
	}
}
