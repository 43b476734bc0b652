package resp_test

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/resp"
)

// programLimit bounds the run time of a client program.
const programLimit = time.Minute

// program runs a client program against addr and returns all that it printed.
func program(tb testing.TB, stdin, path, addr string, args ...string) string {
	tb.Helper()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.CommandContext(tb.Context(), path, append([]string{"-h", "127.0.0.1", "-p", port}, args...)...)
	cmd.WaitDelay = time.Second
	cmd.Stdin = strings.NewReader(stdin)
	timer := time.AfterFunc(programLimit, func() { cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s(ended with %v)", out, err)
	}
	return string(out)
}

// TestRedisCLI compares the output of redis-cli for both servers.
func TestRedisCLI(t *testing.T) {
	cli := need(t, "redis-cli", "redis-tools")
	redis, skerry := redisserver.InMemory(t), startSkerry(t, resp.Options{})
	for _, c := range []struct {
		stdin string
		args  string
	}{
		{"", "PING"},
		{"", "SET greeting hello EX 100"},
		{"", "GET greeting"},
		{"", "-3 GET greeting"},
		{"", "--no-raw GET none"},
		{"", "-3 --no-raw GET none"},
		{"", "-n 3 SET in3 x"},
		{"", "-n 3 GET in3"},
		{"", "GET in3"},
		{"", "-n 16 GET x"},
		{"from standard input", "-x SET piped"},
		{"", "GET piped"},
		{"", "--no-raw MGET greeting none piped"},
		{"", "-3 --no-raw MGET greeting none piped"},
		{"", "--csv MGET greeting none piped"},
		{"", "--json MGET greeting none piped"},
		{"", "-r 3 INCR counter"},
		{"", "-e INCR greeting"},
		{"", "BOGUS x"},
		{"", "SET"},
		{"", "--no-raw LCS greeting piped IDX WITHMATCHLEN"},
		{"", "-3 --no-raw LCS greeting piped IDX WITHMATCHLEN"},
		{"", "--quoted-input SET bin \"\\x00\\xff\""},
		{"", "--no-raw GET bin"},
		{"", "-3 --no-raw CLIENT TRACKINGINFO"},
		{"", "--no-auth-warning -a wrong PING"},
		{"MULTI\nINCR counter\nGET counter\nEXEC\nSELECT 2\nSET x 1\nDBSIZE\n", ""},
		{"HELLO 3\nCLIENT TRACKING on\nGET greeting\nSET greeting new\nPING\n", ""},
		{"help @string\n", ""},
		{"help getex\n", ""},
	} {
		args := quotedFields(c.args)
		want, got := program(t, c.stdin, cli, redis, args...), program(t, c.stdin, cli, skerry, args...)
		want, got = sameServer(want, redis), sameServer(got, skerry)
		if want != got {
			t.Errorf("%q | redis-cli %s\n redis:\n%s\n skerry:\n%s", c.stdin, c.args, want, got)
		}
	}
}

// quotedFields splits at blanks outside double quotes; the quotes stay.
func quotedFields(s string) []string {
	var out []string
	for i, part := range strings.Split(s, `"`) {
		if i%2 == 1 {
			out = append(out, `"`+part+`"`)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

// sameServer hides what must differ: the address, connection ids and patch version.
func sameServer(out, addr string) string {
	out = strings.ReplaceAll(out, addr, "ADDR")
	var lines []string
	for l := range strings.Lines(out) {
		if !strings.Contains(l, "7.0.") && !strings.Contains(l, `"id"`) && !strings.Contains(l, "id ") {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "")
}

// TestRedisCLIPipe loads keys as described in redis-cli's manual.
func TestRedisCLIPipe(t *testing.T) {
	cli := need(t, "redis-cli", "redis-tools")
	skerry := startSkerry(t, resp.Options{})
	const n = 20_000
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "*3\r\n$3\r\nSET\r\n$8\r\nk%07d\r\n$3\r\nval\r\n", i)
	}
	out := program(t, b.String(), cli, skerry, "--pipe")
	if !strings.Contains(out, fmt.Sprintf("errors: 0, replies: %d", n)) {
		t.Errorf("redis-cli --pipe said:\n%s", out)
	}
	if out := program(t, "", cli, skerry, "DBSIZE"); strings.TrimSpace(out) != fmt.Sprint(n) {
		t.Errorf("DBSIZE after the pipe: %q", out)
	}
	if out := program(t, "", cli, skerry, "--scan", "--pattern", "k00000*"); strings.Count(out, "\n") != 100 {
		t.Errorf("--scan found %d of 100 keys", strings.Count(out, "\n"))
	}
	if out := program(t, "", cli, skerry, "--bigkeys"); !strings.Contains(out, fmt.Sprintf("Sampled %d keys", n)) {
		t.Errorf("--bigkeys said:\n%s", out)
	}
	if out := program(t, "", cli, skerry, "--memkeys"); !strings.Contains(out, fmt.Sprintf("Sampled %d keys", n)) {
		t.Errorf("--memkeys said:\n%s", out)
	}
}

// TestRedisCLISecured uses TLS and a password.
func TestRedisCLISecured(t *testing.T) {
	cli := need(t, "redis-cli", "redis-tools")
	if out, _ := exec.Command(cli, "--help").CombinedOutput(); !bytes.Contains(out, []byte("--tls")) {
		missing(t, "this redis-cli is built without TLS")
	}
	server, _, file := testTLS(t)
	skerry := startSkerry(t, resp.Options{Password: "secret", TLS: server})
	tls := []string{"--tls", "--cacert", file, "--sni", "localhost"}
	for _, c := range []struct{ args, want string }{
		{"PING", "NOAUTH Authentication required.\n\n"},
		{"--no-auth-warning -a secret SET k v", "OK\n"},
		{"--no-auth-warning -a secret -3 GET k", "v\n"},
		{"--no-auth-warning --user default --pass secret GET k", "v\n"},
	} {
		if out := program(t, "", cli, skerry, append(tls, strings.Fields(c.args)...)...); out != c.want {
			t.Errorf("redis-cli --tls %s: %q, want %q", c.args, out, c.want)
		}
	}
	if out := program(t, "", cli, skerry, "PING"); !strings.HasPrefix(out, "Error: ") {
		t.Errorf("without TLS: %q", out)
	}
}

// TestRedisBenchmark runs the default tests that need only strings.
func TestRedisBenchmark(t *testing.T) {
	bench := need(t, "redis-benchmark", "redis-tools")
	skerry := startSkerry(t, resp.Options{})
	for _, args := range []string{
		"-t ping_inline,ping_mbulk,set,get,incr,mset -n 5000 -c 20 --csv",
		"-t ping_inline,ping_mbulk,set,get,incr,mset -n 20000 -c 20 -P 16 -r 1000 --csv",
		"-t set,get -n 5000 -c 20 -3 --csv",
		"-n 2000 -c 5 --threads 2 --csv GETSET k v",
	} {
		out := program(t, "", bench, skerry, strings.Fields(args)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if !strings.HasPrefix(lines[0], `"test","rps"`) || len(lines) < 2 {
			t.Errorf("redis-benchmark %s:\n%s", args, out)
		}
		for _, l := range lines[1:] {
			if !strings.HasPrefix(l, `"`) || strings.Contains(l, `"0.00"`) && !strings.Contains(l, ".") {
				t.Errorf("redis-benchmark %s: %s", args, l)
			}
		}
	}
}
