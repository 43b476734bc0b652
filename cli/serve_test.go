package cli

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/cli/verb"
)

// get returns status and body of one request.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestKilledServerKeepsItsData(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	const rounds, keys = 3, 20
	for round := range rounds {
		p := s.serve()
		for i := range round * keys {
			if got := p.ask(fmt.Sprintf("GET k%d", i)); got != fmt.Sprintf("v%d", i) {
				t.Fatalf("after %d kills k%d is %q", round, i, got)
			}
		}
		for i := round * keys; i < (round+1)*keys; i++ {
			if got := p.ask(fmt.Sprintf("SET k%d v%d", i, i)); got != "+OK" {
				t.Fatalf("SET: %s", got)
			}
		}
		p.kill()
	}
	p := s.serve()
	if got, want := p.ask("DBSIZE"), fmt.Sprintf(":%d", rounds*keys); got != want {
		t.Errorf("DBSIZE %s, want %s", got, want)
	}
	if code, body := get(t, p.HTTP+"/db/k0"); code != 200 || body != "v0" {
		t.Errorf("the other face says %d %q", code, body)
	}
}

func TestSignalsStopCleanly(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s := newShell(t)
		p := s.serve()
		if code, body := get(t, p.HTTP+"/readyz"); code != 200 {
			t.Errorf("readyz: %d %s", code, body)
		}
		p.ask("SET a 1")
		if code := p.stop(sig); code != verb.ExitOK {
			t.Errorf("%v: exit code %d\n%s", sig, code, p.log())
		}
		if out := s.run("skerry check --data data | tail -n 1 | cut -d: -f1"); out != "sound\n" {
			t.Errorf("%v: check says %s", sig, out)
		}
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	p := s.serve()
	for _, line := range []string{
		"skerry serve --http 127.0.0.1:0 --resp 127.0.0.1:0",
		"skerry check",
		"skerry backup --data data --to b",
		"skerry bench embedded:data --duration 1ms",
	} {
		out := s.run(line)
		if !strings.Contains(out, fmt.Sprint(p.PID)) || !strings.HasSuffix(out, fmt.Sprintf("[%d]\n", verb.ExitLocked)) {
			t.Errorf("%s: want the process id %d and exit code %d, got\n%s", line, p.PID, verb.ExitLocked, out)
		}
	}
	if got := p.ask("PING"); got != "+PONG" {
		t.Errorf("the first one says %s", got)
	}
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	p := s.serve()
	out := s.run("skerry serve --data other --http " + p.httpAddr() + " --resp 127.0.0.1:0 2>&1 | tail -n 1")
	if !strings.HasPrefix(out, "skerry serve: HTTP: ") || !strings.HasSuffix(out, "address already in use; --http chooses another address\n[1]\n") {
		t.Errorf("got %s", out)
	}
	out = s.run("skerry serve --data other --http 127.0.0.1:0 --resp 127.0.0.1:" + p.respPort() + " 2>&1 | tail -n 1")
	if !strings.HasPrefix(out, "skerry serve: RESP: ") || !strings.HasSuffix(out, "address already in use; --resp chooses another address\n[1]\n") {
		t.Errorf("got %s", out)
	}
}

func TestBackupOfRunningServer(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	p := s.serve()
	for i := range 50 {
		p.ask(fmt.Sprintf("SET k%d v%d", i, i))
	}
	if out := s.run("skerry backup --from " + p.HTTP + " --to b"); !strings.Contains(out, "b: position ") || !strings.Contains(out, " keys, ") {
		t.Fatalf("backup: %s", out)
	}
	if out := s.run("skerry backup --from " + p.HTTP + " --to b"); !strings.Contains(out, "b already exists") {
		t.Errorf("a backup was overwritten: %s", out)
	}
	p.ask("SET k7 later")
	if out := s.run("skerry restore --from b --data copy && ls b*"); !strings.HasSuffix(out, "\nb\n") {
		t.Fatalf("restore: %s", out)
	}
	restored := s.serve("--data", "copy")
	if got := restored.ask("GET k7"); got != "v7" {
		t.Errorf("restored: %q", got)
	}
	if got := restored.ask("DBSIZE"); got != ":50" {
		t.Errorf("restored: DBSIZE %s", got)
	}
	if got := restored.ask("SET k7 again"); got != "+OK" {
		t.Errorf("restored: %s", got)
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	file := filepath.Join(s.dir, "password")
	if err := os.WriteFile(file, []byte("open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := s.serve("--password-file", "password")
	if got := p.ask("GET a"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("without a password: %s", got)
	}
	if got := p.ask(`AUTH "open sesame"`); got != "+OK" {
		t.Errorf("with the password: %s", got)
	}
	if code, _ := get(t, p.HTTP+"/db/a"); code != http.StatusUnauthorized {
		t.Errorf("HTTP without a password: %d", code)
	}
	if out := s.run("skerry backup --from " + p.HTTP + " --to b"); !strings.Contains(out, "[unauthenticated]") || !strings.Contains(out, "--password-file") {
		t.Errorf("backup without a password: %s", out)
	}
	if out := s.run("skerry backup --from " + p.HTTP + " --to b --password-file password"); !strings.HasPrefix(out, "b: position") {
		t.Errorf("backup with the password: %s", out)
	}
	if strings.Contains(p.log(), "sesame") {
		t.Error("the password is in the log")
	}
}

func accepts(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	p := s.serve()
	// A request whose body never comes keeps a clean stop waiting.
	c, err := net.Dial("tcp", p.httpAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "PUT /db/slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
		t.Fatalf("the server says %q, %v", line, err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "no more connections after the first signal", func() bool { return !accepts(p.httpAddr()) })
	if code := p.stop(syscall.SIGTERM); code != verb.ExitStopped {
		t.Errorf("exit code %d, want %d", code, verb.ExitStopped)
	}
}
