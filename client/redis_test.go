package client_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/client"
)

// startRedis starts a redis-server without persistence, and stops it by its process id at
// the end of the test.
func startRedis(tb testing.TB, args ...string) (addr string) {
	tb.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
			tb.Fatal("redis-server is not installed, and SKERRY_REQUIRE_SERVERS=1")
		}
		tb.Skip("redis-server is not installed (Debian package redis-server)")
	}
	addr = unused(tb)
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(path, append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", tb.TempDir(),
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", "log"}, args...)...)
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	eventually.True(tb, "redis-server listens", func() bool {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
	return addr
}

// TestRedis checks that commands work on Redis itself.
func TestRedis(t *testing.T) {
	noLeaks(t)
	addr := startRedis(t, "--requirepass", "secret")
	c := open(t, client.Options{Addrs: []string{addr}, Password: "secret", Name: "tester", Database: 2})
	do := func(want any, args ...any) {
		t.Helper()
		res, err := c.Do(background, args...)
		if got := res.Any(); err != nil || got != want {
			t.Errorf("%v: %v (%T), %v; want %v", args, got, got, err, want)
		}
	}
	do("OK", "SET", "k", 41)
	do(int64(42), "INCR", "k")
	do("42", []byte("GET"), "k")
	do(nil, "GET", "none")
	do("tester", "CLIENT", "GETNAME")
	do(2.5, "EVAL", "redis.setresp(3); return {double=2.5}", 0)
	do(true, "EVAL", "redis.setresp(3); return true", 0)
	res, err := c.Do(background, "CONFIG", "GET", "requirepass")
	if v, ok := res.Field("requirepass"); err != nil || !ok {
		t.Errorf("CONFIG GET: %v, %v", v.Any(), err)
	}
	_, err = c.Do(background, "LPUSH", "k", "x")
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Kind != "WRONGTYPE" || !errors.Is(err, client.ErrWrongType) {
		t.Errorf("LPUSH on text: %v", err)
	}
	for _, args := range [][]any{{"MULTI"}, {"subscribe", "x"}, {[]byte("Select"), 1}, {"CLIENT", "reply", "off"}, {}, {1}} {
		if _, err := c.Do(background, args...); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%v: %v, want it rejected", args, err)
		}
	}
	wrong := open(t, client.Options{Addrs: []string{addr}, Password: "wrong"})
	start := time.Now()
	err = wrong.Ping(background)
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "unauthenticated" || e.Kind != "WRONGPASS" {
		t.Errorf("a wrong password: %v", err)
	}
	if d := time.Since(start); d > client.DefaultTimeout {
		t.Errorf("that took %v", d)
	}
}
