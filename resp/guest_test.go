package resp_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/gate"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

// strangers opens n connections that send only say.
func strangers(t *testing.T, addr string, n int, say []byte) (all []net.Conn) {
	t.Helper()
	for range n {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		if _, err := nc.Write(say); err != nil {
			t.Fatal(err)
		}
		all = append(all, nc)
	}
	return all
}

// enter connects a client that sends the password.
func enter(t *testing.T, addr, password string) *asker {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	a := &asker{t, nc, wire.NewReplies(nc, &wire.Buffers{}, 0)}
	a.want("OK", "AUTH", password)
	return a
}

// TestGuestsDoNotLockOut checks that more unauthenticated connections than MaxClients,
// silent or in the middle of a command, do not keep out clients that have the password, and
// do not displace connected ones.
func TestGuestsDoNotLockOut(t *testing.T) {
	for name, say := range map[string][]byte{
		"silent":    nil,
		"half-sent": []byte("*2\r\n$4\r\nAUTH\r\n$16384\r\n" + strings.Repeat("x", 16000)),
		"refused":   []byte("PING\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			addr := startSkerry(t, resp.Options{Password: "secret", MaxClients: 40})
			var in []*asker
			for range 30 {
				in = append(in, enter(t, addr, "secret"))
			}
			strangers(t, addr, 100, say)
			last := enter(t, addr, "secret")
			last.want("OK", "SET", "k", "v")
			for _, a := range in {
				a.want("v", "GET", "k")
			}
			if n := last.infoInt("guests"); n > 10 {
				t.Errorf("%d guests", n)
			}
			if n := last.infoInt("evicted_guests"); n < 80 {
				t.Errorf("%d guests were evicted", n)
			}
		})
	}
}

// TestSilentWithoutPassword checks that without a password too, connections that never send
// anything are displaced, and that those that do are clients, up to MaxClients.
func TestSilentWithoutPassword(t *testing.T) {
	addr := startSkerry(t, resp.Options{MaxClients: 5})
	strangers(t, addr, 20, nil)
	for range 5 {
		newAsker(t, addr).want("PONG", "PING")
	}
	if got := raw(t, addr, ""); got != "-ERR max number of clients reached\r\n" {
		t.Errorf("one more got %q", got)
	}
}

// TestGuestLimits checks how much a client may send before it has authenticated, and how
// long it may take.
func TestGuestLimits(t *testing.T) {
	addr := startSkerry(t, resp.Options{Password: "secret", MaxGuestTime: 200 * time.Millisecond})
	command := func(args, size int) string {
		return fmt.Sprintf("*%d\r\n", args) + strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", size, strings.Repeat("x", size)), args)
	}
	const noAuth = "-NOAUTH Authentication required.\r\n"
	for _, c := range []struct{ name, in, want string }{
		{"two large arguments", command(2, 16<<10), "-ERR Protocol error: too big command\r\n"},
		{"a command of nearly the limit", command(2, 16<<10-100), "-ERR unknown command"},
		{"as many commands as allowed", strings.Repeat("PING\r\n", resp.GuestMaxCommands), strings.Repeat(noAuth, resp.GuestMaxCommands)},
		{"one more", strings.Repeat("PING\r\n", resp.GuestMaxCommands+1), strings.Repeat(noAuth, resp.GuestMaxCommands) + "-ERR too many commands before authentication\r\n"},
		{"one more, with RESET", strings.Repeat("RESET\r\n", resp.GuestMaxCommands+1), strings.Repeat("+RESET\r\n", resp.GuestMaxCommands) + "-ERR too many commands before authentication\r\n"},
		{"nothing", "", ""},
		{"the password, and then nothing", "AUTH secret\r\n", "+OK\r\n"},
	} {
		start := time.Now()
		got := raw(t, addr, c.in)
		if !strings.HasPrefix(got, c.want) || len(c.want) > 100 && got != c.want {
			t.Errorf("%s: %.200q", c.name, got)
		}
		if stayed := time.Since(start) > 1500*time.Millisecond; stayed != strings.HasPrefix(c.in, "AUTH") {
			t.Errorf("%s: it ends after %v", c.name, time.Since(start))
		}
	}
}

// TestInputMemory checks that commands that have not arrived completely, and those that
// wait for EXEC, use no more than the allowed memory, and that other clients are served.
func TestInputMemory(t *testing.T) {
	const most = 8 << 20
	addr := startSkerry(t, resp.Options{MaxInputBytes: most})
	other := newAsker(t, addr)
	half := []byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n" + strings.Repeat("x", 900_000))
	refused := 0
	for _, nc := range strangers(t, addr, 20, half) {
		nc.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if said, _ := io.ReadAll(nc); bytes.HasPrefix(said, []byte("-BUSY ")) && bytes.HasSuffix(said, []byte("[queue_full]\r\n")) {
			refused++
		} else if len(said) > 0 {
			t.Errorf("the reply is %q", said)
		}
	}
	if refused < 10 || refused > 16 { // a buffer is at most twice the size of its content
		t.Errorf("%d of 20 were refused", refused)
	}
	other.want("OK", "SET", "k", "v")
	addr = startSkerry(t, resp.Options{MaxInputBytes: most})
	a, b := newAsker(t, addr), newAsker(t, addr)
	a.want("OK", "MULTI")
	val := strings.Repeat("x", 100_000)
	n := 0
	for ; n < 100; n++ {
		if v := a.ask("SET", "k", val); v.IsError() {
			if !strings.HasSuffix(string(v.Str), "[queue_full]") {
				t.Errorf("the reply is %q", v.Str)
			}
			break
		}
	}
	if n < 80 || n > 84 {
		t.Errorf("%d commands of 100,000 bytes were queued", n)
	}
	b.want("OK", "SET", "k", "v")
	if v := a.ask("EXEC"); !strings.HasPrefix(string(v.Str), "EXECABORT") {
		t.Errorf("EXEC: %q", v.Str)
	}
	a.want("OK", "MULTI")
	a.want("QUEUED", "SET", "k", val)
	a.ask("EXEC")
	for range 3 { // a transaction that ends without EXEC releases its room, too
		c := newAsker(t, addr)
		c.want("OK", "MULTI")
		for range 60 {
			c.want("QUEUED", "SET", "k", val)
		}
		c.nc.Close()
		b.awaitInfo("connected_clients", 2)
	}
}

// TestGuessedPasswords checks that wrong passwords are counted, logged and close the
// connection, and that after many of them each one is delayed, on any connection. A client
// with the password can still connect.
func TestGuessedPasswords(t *testing.T) {
	var log logbuf.Buffer
	guesses := gate.NewGuesses(slog.New(slog.NewTextHandler(&log, nil)), nil)
	addr := startSkerry(t, resp.Options{Password: "secret", Guesses: guesses})
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	in := enter(t, addr, "secret")
	for range gate.FreeGuesses {
		if got := raw(t, addr, "AUTH wrong\r\nQUIT\r\n"); got != wrong+"+OK\r\n" {
			t.Fatalf("the reply is %q", got)
		}
	}
	start := time.Now()
	for range 4 {
		raw(t, addr, "AUTH wrong\r\nQUIT\r\n")
	}
	if took := time.Since(start); took < 800*time.Millisecond { // delays of 0, 125, 250 and 500 ms
		t.Errorf("four more took %v", took)
	}
	enter(t, addr, "secret").want("PONG", "PING")
	in.want("PONG", "PING")
	if n := in.infoInt("wrong_passwords"); n != gate.FreeGuesses+4 {
		t.Errorf("%d wrong passwords", n)
	}
	text := log.String()
	if lines := strings.Count(text, "a client gave a wrong password"); lines == 0 || lines > 5 || strings.Contains(text, "wrong\n") {
		t.Errorf("the log has\n%s", text)
	}
}

// TestGuessesOfOneConnection checks that a connection is closed after a number of wrong
// passwords.
func TestGuessesOfOneConnection(t *testing.T) {
	addr := startSkerry(t, resp.Options{Password: "secret"})
	nc := strangers(t, addr, 1, []byte(strings.Repeat("AUTH wrong\r\n", 2*gate.MaxGuesses)))[0]
	nc.SetReadDeadline(time.Now().Add(60 * time.Second))
	said, err := io.ReadAll(nc)
	if n := bytes.Count(said, []byte("-WRONGPASS ")); err != nil || n != gate.MaxGuesses {
		t.Errorf("%d replies, %v", n, err)
	}
}
