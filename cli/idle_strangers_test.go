package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/ports"
	"github.com/skerrydb/skerry/cli/verb"
)

// limitedServer starts a node of a cluster, with a password, that may open few files.
func limitedServer(t *testing.T, files int) *server {
	t.Helper()
	s := newShell(t)
	node := ports.Addr(t)
	if out := s.run("skerry cluster init --data n1 --node " + node); !strings.HasPrefix(out, "n1 is node 1") {
		t.Fatal(out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.program = filepath.Join(s.bin, "limited")
	script := fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n", files, self)
	if err := errors.Join(os.WriteFile(s.program, []byte(script), 0o700), os.WriteFile(filepath.Join(s.dir, "password"), []byte("secret\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return s.serve("--data", "n1", "--password-file", "password", "--admin", "127.0.0.1:0")
}

// crowd opens n connections to addr that send only the given text, and keeps them open until the test ends. A
// connection that is reset before Dial returns was closed to make room for others, like one that is closed later.
func crowd(t *testing.T, addr string, n int, say string) {
	t.Helper()
	for range n {
		c, err := net.DialTimeout("tcp", addr, startWait)
		if errors.Is(err, syscall.ECONNRESET) {
			continue
		}
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, say) // it may have been closed
	}
}

// askRESP returns the first line of the reply.
func askRESP(c net.Conn, r *bufio.Reader, text string) (string, error) {
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	return r.ReadString('\n')
}

// getIn connects and logs in. Like every client, it retries when it is disconnected: until it has logged in,
// its connection may be closed to make room for others.
func getIn(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	for end := time.Now().Add(startWait); ; {
		c, err := net.Dial("tcp", addr)
		if errors.Is(err, syscall.ECONNRESET) && time.Now().Before(end) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(2 * time.Minute))
		r := bufio.NewReader(c)
		got, err := askRESP(c, r, "AUTH secret\r\n")
		if err == nil && got == "+OK\r\n" {
			return c, r
		}
		c.Close()
		if err == nil || time.Now().After(end) {
			t.Fatalf("AUTH: %q, %v", got, err)
		}
	}
}

// TestIdleStrangers: on a node that may open 400 files, more strangers than that hold
// connections to every listener and say nothing, or half of something. Writes go on over
// several segments of the log, and the operator and a new client get in.
func TestIdleStrangers(t *testing.T) {
	t.Parallel()
	p := limitedServer(t, 400)
	resp, web := net.JoinHostPort("127.0.0.1", p.respPort()), p.httpAddr()
	admin := strings.TrimPrefix(p.Admin, "http://")
	for _, l := range []struct{ addr, half string }{
		{web, "GET /db/k HTTP/1.1\r\nHost: loc"}, {admin, "GET /metr"}, {resp, "*2\r\n$4\r\nAUTH\r\n$100\r\nx"}, {p.NodeAddr, "\x16\x03\x01"},
	} {
		crowd(t, l.addr, 210, "")
		crowd(t, l.addr, 210, l.half)
	}
	var more sync.WaitGroup
	more.Go(func() { // who comes while the log goes on
		for range 5 {
			for _, addr := range []string{web, admin, resp, p.NodeAddr} {
				crowd(t, addr, 40, "")
			}
		}
	})
	c, r := getIn(t, resp)
	defer c.Close()
	ask := func(text string) string {
		line, err := askRESP(c, r, text)
		if err != nil {
			t.Fatalf("%v; %s", err, p.log())
		}
		return line
	}
	val := strings.Repeat("x", 4<<20)
	for i := range 50 { // 200 MiB: three segments are begun
		if got := ask(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$4\r\nk%03d\r\n$%d\r\n%s\r\n", i%4, len(val), val)); got != "+OK\r\n" {
			t.Fatalf("write %d: %q; %s", i, got, p.log())
		}
	}
	more.Wait()
	client := &http.Client{Timeout: startWait}
	for _, url := range []string{p.HTTP + "/db/k001", p.Admin + "/metrics", p.Admin + "/readyz"} {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer secret")
		answer, err := client.Do(req)
		if err != nil {
			t.Fatalf("%v; %s", err, p.log())
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK || err != nil {
			t.Errorf("%s: %d %.100q, %v", url, answer.StatusCode, body, err)
		}
	}
	if log := p.log(); strings.Contains(log, "disk failed") || strings.Contains(log, "too many open files") {
		t.Errorf("the log has\n%s", log)
	}
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("it ends with %d: %s", code, p.log())
	}
}

// TestTooFewFiles: a server that could not keep its promises does not start, and says why.
func TestTooFewFiles(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	out := s.run("ulimit -n 100; skerry serve --data d --http 127.0.0.1:0 --resp 127.0.0.1:0")
	if !strings.Contains(out, "needs at least 256") || !strings.Contains(out, "LimitNOFILE=") || !strings.Contains(out, fmt.Sprintf("[%d]", verb.ExitFailed)) {
		t.Errorf("it says %s", out)
	}
}
