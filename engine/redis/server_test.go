package redis

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// running is a redis-server of a test.
type running struct {
	tb   testing.TB
	addr string
	dir  string
	args []string
	cmd  *exec.Cmd
}

func startServer(tb testing.TB, args ...string) *running {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	s := &running{tb: tb, addr: addr, dir: tb.TempDir(), args: args}
	s.start()
	tb.Cleanup(s.kill)
	return s
}

func (s *running) start() {
	s.tb.Helper()
	_, port, _ := net.SplitHostPort(s.addr)
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--daemonize", "no"}, s.args...)
	s.cmd = exec.Command("redis-server", args...)
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		s.tb.Fatal(err)
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatal(err)
	}
	for range 1000 {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			fmt.Fprint(c, "*1\r\n$4\r\nPING\r\n")
			b := make([]byte, 5)
			n, _ := c.Read(b)
			c.Close()
			if string(b[:n]) == "+PONG" || string(b[:n]) == "-NOAU" {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	b, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	s.tb.Fatalf("redis-server does not start:\n%s", b)
}

func (s *running) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// do runs a command by redis-cli.
func (s *running) do(args ...string) string {
	s.tb.Helper()
	_, port, _ := net.SplitHostPort(s.addr)
	out, err := exec.Command("redis-cli", append([]string{"-p", port}, args...)...).CombinedOutput()
	if err != nil {
		s.tb.Fatalf("redis-cli %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (s *running) url(prefix string) *url.URL {
	return &url.URL{Scheme: Scheme, Host: s.addr, Path: "/0", RawQuery: "prefix=" + prefix}
}

var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

var prefixes atomic.Int64

func newPrefix() string { return fmt.Sprintf("t%d:", prefixes.Add(1)) }

type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

func open(t fatal, u *url.URL, o Options) engine.Engine {
	t.Helper()
	eng, err := Open(context.Background(), u, o)
	if err != nil {
		t.Fatalf("open %s: %v", u.Redacted(), err)
	}
	return eng
}
