package resp_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

// raw sends bytes on a new connection and returns all output until the server closes it or
// a short time has passed.
func raw(t *testing.T, addr, in string) string {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	go io.WriteString(nc, in)
	nc.SetReadDeadline(time.Now().Add(2 * time.Second))
	out, _ := io.ReadAll(nc)
	return string(out)
}

func TestHostileInput(t *testing.T) {
	addr := startSkerry(t, resp.Options{})
	for _, c := range []struct{ name, in, want string }{
		{"a gigabyte announced", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1073741824\r\nabc", "-ERR Protocol error: invalid bulk length\r\n"},
		{"a length beyond 64 bits", "*1\r\n$99999999999999999999\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		{"two thousand million arguments", "*2147483647\r\n$3\r\nDEL\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"a negative length", "*1\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		{"a nested array", "*2\r\n$3\r\nGET\r\n*1\r\n$1\r\nk\r\n", "-ERR Protocol error: expected '$', got '*'\r\n"},
		{"RESP3 types", "%1\r\n", "-ERR unknown command '%1', with args beginning with: \r\n+OK\r\n"},
		{"replies before a broken command", "PING\r\n*1\r\n$4\r\nPING\r\n*x\r\n", "+PONG\r\n+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n"},
		{"commands after QUIT", "SET q 1\r\nQUIT\r\nSET q 2\r\n\x00\xff*garbage\r\n", "+OK\r\n+OK\r\n"},
		{"half a command at the end", "SET h 1\r\n*3\r\n$3\r\nSET\r\n$1\r\nh\r\n$5\r\nab", "+OK\r\n"},
	} {
		in := c.in
		if c.name == "RESP3 types" {
			in += "QUIT\r\n"
		}
		if got := raw(t, addr, in); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	a := newAsker(t, addr)
	if v := a.ask("MGET", "k", "q", "h"); !v.List[0].IsNull() || string(v.List[1].Str) != "1" || string(v.List[2].Str) != "1" {
		t.Errorf("k, q, h are %v", v.List)
	}
}

// TestAnnouncedLengthsCostNothing opens many connections that announce large lengths and
// send nothing.
func TestAnnouncedLengthsCostNothing(t *testing.T) {
	addr := startSkerry(t, resp.Options{})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const announcement = "*1048576\r\n$16777216\r\nx"
	before := heap()
	for range 100 {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		io.WriteString(nc, announcement)
	}
	a := newAsker(t, addr)
	eventually.True(t, "the announcements are read", func() bool {
		return strings.Count(string(a.ask("CLIENT", "LIST").Str), fmt.Sprintf(" qbuf=%d ", len(announcement))) == 100
	})
	if grown := int64(heap()) - int64(before); grown > 16<<20 {
		t.Errorf("the heap grew by %d bytes for 100 announcements of 16 TiB", grown)
	}
}

func TestSlowWriter(t *testing.T) {
	addr := startSkerry(t, resp.Options{})
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, b := range wire.AppendCommandStrings(nil, "SET", "slow", "a\r\nb") {
		if _, err := nc.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(nc, got); err != nil || string(got) != "+OK\r\n" {
		t.Fatalf("%q %v", got, err)
	}
}

// TestReaderThatDoesNotRead requests a lot and reads nothing. The connection must be closed
// while others are served.
func TestReaderThatDoesNotRead(t *testing.T) {
	addr := startSkerry(t, resp.Options{WriteTimeout: 300 * time.Millisecond})
	a := newAsker(t, addr)
	a.ask("SET", "big", strings.Repeat("x", 1<<20))
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	go nc.Write(bytes.Repeat([]byte("GET big\r\n"), 5000))
	a.awaitInfo("client_output_buffer_limit_disconnections", 1)
	a.awaitInfo("connected_clients", 1)
}

func TestMaxClients(t *testing.T) {
	addr := startSkerry(t, resp.Options{MaxClients: 2})
	a, b := newAsker(t, addr), newAsker(t, addr)
	if got := raw(t, addr, ""); got != "-ERR max number of clients reached\r\n" {
		t.Errorf("the third got %q", got)
	}
	b.nc.Close()
	a.awaitInfo("connected_clients", 1)
	newAsker(t, addr).ask("PING")
}

func TestIdleTimeout(t *testing.T) {
	addr := startSkerry(t, resp.Options{IdleTimeout: 50 * time.Millisecond})
	start := time.Now()
	if got := raw(t, addr, "PING\r\n"); got != "+PONG\r\n" || time.Since(start) > time.Second {
		t.Errorf("%q after %v", got, time.Since(start))
	}
}

// TestBigPipelines makes the output exceed the size at which it is written, among reads
// only and among writes.
func TestBigPipelines(t *testing.T) {
	addr := startSkerry(t, resp.Options{})
	a := newAsker(t, addr)
	val := strings.Repeat("v", 100_000)
	for _, write := range []bool{false, true} {
		var in []byte
		in = wire.AppendCommandStrings(in, "SET", "big", val)
		for i := range 300 {
			if write {
				in = wire.AppendCommandStrings(in, "SET", "n", fmt.Sprint(i))
			}
			in = wire.AppendCommandStrings(in, "ECHO", fmt.Sprint(i))
			in = wire.AppendCommandStrings(in, "GET", "big")
			in = wire.AppendCommandStrings(in, "MULTI")
			in = wire.AppendCommandStrings(in, "GET", "n")
			in = wire.AppendCommandStrings(in, "EXEC")
		}
		go a.nc.Write(in)
		next := func() wire.Value {
			v, err := a.rd.Read()
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		next()
		for i := range 300 {
			want := ""
			if write {
				next()
				want = fmt.Sprint(i)
			}
			if v := next(); string(v.Str) != fmt.Sprint(i) {
				t.Fatalf("ECHO %d returns %q", i, v.Str)
			}
			if v := next(); string(v.Str) != val {
				t.Fatalf("GET returns %d bytes", len(v.Str))
			}
			next()
			next()
			if v := next(); len(v.List) != 1 || write && string(v.List[0].Str) != want {
				t.Fatalf("EXEC returns %v, want %s", v, want)
			}
		}
	}
}

// TestLimits exceeds each limit of a connection by one.
func TestLimits(t *testing.T) {
	addr := startSkerry(t, resp.Options{})
	a := newAsker(t, addr)
	a.ask("SET", "big", strings.Repeat("x", 16<<20))
	args := []string{"MGET"}
	for range resp.MaxReplyBytes/(16<<20) + 1 {
		args = append(args, "big")
	}
	if v := a.ask(args...); string(v.Str) != "ERR the reply would be over the limit of 256 MiB [limit]" {
		t.Errorf("MGET of too much: %.100q", v.Str)
	}
	args = []string{"WATCH"}
	for i := range resp.MaxWatched + 1 {
		args = append(args, fmt.Sprint(i))
	}
	if v := a.ask(args...); !strings.HasSuffix(string(v.Str), "[limit]") {
		t.Errorf("WATCH of too many: %q", v.Str)
	}
	if v := a.ask(args[:len(args)-1]...); string(v.Str) != "OK" {
		t.Errorf("WATCH of as many as allowed: %q", v.Str)
	}
	if v := a.ask("WATCH", "one more"); !strings.HasSuffix(string(v.Str), "[limit]") {
		t.Errorf("WATCH of one more: %q", v.Str)
	}
	a.ask("UNWATCH")
	a.ask("MULTI")
	big := strings.Repeat("x", 16<<20-100)
	for i := range 5 {
		v := a.ask("SET", "k", big)
		if over := i == 4; over != v.IsError() || over && !strings.HasSuffix(string(v.Str), "[limit]") {
			t.Errorf("queued number %d: %q", i, v.Str)
		}
	}
	if v := a.ask("EXEC"); !strings.HasPrefix(string(v.Str), "EXECABORT") {
		t.Errorf("EXEC after the limit: %q", v.Str)
	}
	a.ask("SET", "a", strings.Repeat("a", 5000))
	if v := a.ask("LCS", "a", "a"); !strings.HasSuffix(string(v.Str), "[limit]") {
		t.Errorf("LCS of too much: %.100q", v.Str)
	}
	if v := a.ask("SCAN", "12345678"); !strings.HasSuffix(string(v.Str), "[limit]") {
		t.Errorf("SCAN of an unknown cursor: %q", v.Str)
	}
}

// TestLongPipelineBeforeReading sends requests and gets replies that are both far larger
// than the socket buffers, and reads only afterwards.
func TestLongPipelineBeforeReading(t *testing.T) {
	server, client, _ := testTLS(t)
	for name, o := range map[string]resp.Options{"plain": {}, "TLS": {TLS: server}} {
		t.Run(name, func(t *testing.T) {
			addr := startSkerry(t, o)
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			if o.TLS != nil {
				nc = tls.Client(nc, client)
			}
			defer nc.Close()
			nc.SetDeadline(time.Now().Add(30 * time.Second))
			val := bytes.Repeat([]byte("v"), 20_000)
			const n = 2000 // 40 MB in each direction
			for range n {
				if _, err := nc.Write(wire.AppendCommand(nil, []byte("ECHO"), val)); err != nil {
					t.Fatal(err)
				}
			}
			rd := wire.NewReplies(nc, &wire.Buffers{}, 0)
			for i := range n {
				if v, err := rd.Read(); err != nil || !bytes.Equal(v.Str, val) {
					t.Fatalf("reply %d: %d bytes, %v", i, len(v.Str), err)
				}
			}
		})
	}
}

// starved is a listener that runs out of file descriptors a few times.
type starved struct {
	net.Listener
	times int
}

func (l *starved) Accept() (net.Conn, error) {
	if l.times > 0 {
		l.times--
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

func TestAcceptSurvivesStarvation(t *testing.T) {
	l := loopback(t)
	serveSkerry(t, &starved{l, 3}, resp.Options{Logger: slog.New(slog.DiscardHandler)})
	if got := raw(t, l.Addr().String(), "PING\r\nQUIT\r\n"); got != "+PONG\r\n+OK\r\n" {
		t.Errorf("%q", got)
	}
}
