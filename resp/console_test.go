package resp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

// serveConsoles starts a server and waits until it serves.
func serveConsoles(t *testing.T, o resp.Options) *resp.Server {
	t.Helper()
	l := loopback(t)
	srv := serveSkerry(t, l, o)
	newAsker(t, l.Addr().String()).ask("PING")
	return srv
}

// openConsole opens a console that closes when the test ends.
func openConsole(t *testing.T, srv *resp.Server, o resp.ConsoleOptions) *resp.Console {
	t.Helper()
	k, err := srv.OpenConsole(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// oneLine returns a reply in one line, or the error.
func oneLine(v wire.Value, err error) string {
	if e := (*engine.Error)(nil); errors.As(err, &e) {
		return "error: " + string(e.Code) + ": " + e.Msg
	}
	switch v.Kind {
	case wire.KindInt:
		return fmt.Sprintf(":%d", v.Int)
	case wire.KindArray, wire.KindMap, wire.KindSet:
		text := fmt.Sprintf("%c%d", v.Kind, len(v.List))
		for _, e := range v.List {
			text += " " + oneLine(e, nil)
		}
		return text
	}
	return fmt.Sprintf("%c%s", v.Kind, v.Str)
}

// TestConsole: a console runs what clients can run, on a server with a password, and refuses what changes something
// unless it may.
func TestConsole(t *testing.T) {
	t.Parallel()
	srv := serveConsoles(t, resp.Options{Password: "secret"})
	k := openConsole(t, srv, resp.ConsoleOptions{Database: 127, Changes: true})
	reader := openConsole(t, srv, resp.ConsoleOptions{Database: 127})
	other := openConsole(t, srv, resp.ConsoleOptions{})
	for _, c := range []struct {
		on      *resp.Console
		command string
		want    string
	}{
		{k, "SET a 1", "+OK"}, {k, "INCRBY a 41", ":42"}, {reader, "GET a", "$42"}, {other, "GET a", "_"}, {k, "GET", "error: invalid: ERR wrong number"},
		{reader, "SET a 2", "error: read_only: SET may change something"}, {reader, "CONFIG SET slowlog-max-len 1", "error: read_only"}, {reader, "FLUSHALL", "error: read_only"},
		{reader, "CLIENT KILL ID 1", "error: read_only"}, {reader, "CALL none", "error: read_only"}, {reader, "MIGRATE h 1 k 0 1", "error: read_only"},
		{k, "INCR b", ":1"}, {k, "SET b x", "+OK"}, {k, "INCR b", "-ERR value is not an integer"}, {reader, "GET b", "$x"},
		{k, "MULTI", "error: invalid: the console does not run MULTI"}, {k, "WAIT 1 0", "error: invalid: the console does not run WAIT"}, {k, "SUBSCRIBE __redis__:invalidate", "error: invalid"},
		{k, "CLIENT TRACKING ON", "error: invalid"}, {k, "CLIENT REPLY OFF", "error: invalid"}, {k, "RESET", "error: invalid"}, {k, "QUIT", "error: invalid"}, {k, "HELLO 2", "error: invalid"}, {k, "AUTH x", "error: invalid"}, {k, "WATCH a", "error: invalid"},
		{k, "NOSUCH", "error: invalid: ERR unknown command 'NOSUCH'"}, {k, "CLIENT NOSUCH", "error: invalid: ERR unknown subcommand"}, {k, "SHUTDOWN", "-ERR SHUTDOWN is not supported"},
		{reader, "MGET a none b", "*3 $42 _ $x"}, {reader, "CONFIG GET databases", "%2 $databases $16"}, {reader, "SELECT 0", "+OK"}, {reader, "GET a", "_"}, {reader, "SELECT 128", "-ERR DB index"},
		{reader, "COMMAND GETKEYS MSET a 1 b 2", "*2 $a $b"}, {reader, "CLIENT GETNAME", "_"}, {k, "CONFIG SET slowlog-max-len 64", "+OK"},
	} {
		if is := oneLine(c.on.Do(strings.Fields(c.command)...)); !strings.HasPrefix(is, c.want) {
			t.Errorf("%s: %s, want %s", c.command, is, c.want)
		}
	}
	if _, err := srv.OpenConsole(t.Context(), resp.ConsoleOptions{Database: 128}); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("database 128: %v", err)
	}
	if _, err := k.Do(); err == nil {
		t.Error("no words are a command")
	}
}

// TestConsoleLimits: consoles and their replies are bounded, and end with their context.
func TestConsoleLimits(t *testing.T) {
	t.Parallel()
	srv := serveConsoles(t, resp.Options{MaxClients: 1})
	all := []*resp.Console{openConsole(t, srv, resp.ConsoleOptions{Changes: true})}
	ctx, cancel := context.WithCancel(t.Context())
	for len(all) < resp.MaxConsoles {
		k, err := srv.OpenConsole(ctx, resp.ConsoleOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		all = append(all, k)
	}
	if _, err := srv.OpenConsole(t.Context(), resp.ConsoleOptions{}); engine.CodeOf(err) != engine.CodeQueueFull {
		t.Errorf("one too many: %v", err)
	}
	cancel()
	if _, err := all[1].Do("PING"); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context: %v", err)
	}
	eventually.Within(eventually.Limit, func() bool {
		k, err := srv.OpenConsole(t.Context(), resp.ConsoleOptions{})
		if err == nil {
			k.Close()
		}
		return err == nil
	})
	k := all[0]
	big := strings.Repeat("x", resp.MaxConsoleReply/2)
	for _, key := range []string{"a", "b", "c"} {
		if v, err := k.Do("SET", key, big); err != nil || v.IsError() {
			t.Fatalf("%s %v", v.Str, err)
		}
	}
	if v, err := k.Do("GET", "a"); err != nil || string(v.Str) != big {
		t.Errorf("%d bytes, %v", len(v.Str), err)
	}
	if _, err := k.Do("MGET", "a", "b", "c"); engine.CodeOf(err) != engine.CodeLimit {
		t.Errorf("a reply that is too long: %v", err)
	}
}

// TestConsoleTimeout: a command that takes longer than the context is given up, and counts until it has ended.
func TestConsoleTimeout(t *testing.T) {
	t.Parallel()
	srv := serveConsoles(t, resp.Options{})
	k := openConsole(t, srv, resp.ConsoleOptions{Changes: true})
	if v, err := k.Do("CLIENT", "PAUSE", "60000", "WRITE"); err != nil || v.IsError() {
		t.Fatalf("%s %v", v.Str, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow, err := srv.OpenConsole(ctx, resp.ConsoleOptions{Changes: true})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := slow.Do("SET", "a", "1"); !errors.Is(err, context.Canceled) {
		t.Errorf("a write while writes are paused: %v", err)
	}
	if v, err := k.Do("CLIENT", "UNPAUSE"); err != nil || v.IsError() {
		t.Fatalf("%s %v", v.Str, err)
	}
}

// TestConsoleWithoutListener: a server that serves nobody has consoles, until it is closed.
func TestConsoleWithoutListener(t *testing.T) {
	t.Parallel()
	l := loopback(t)
	srv, stop := serve(t, openEngine(t, embedded.Options{}), l, resp.Options{})
	stop()
	eventually.Within(eventually.Limit, func() bool { // Serve has ended
		nc, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			nc.Close()
		}
		return err != nil
	})
	k := openConsole(t, srv, resp.ConsoleOptions{Changes: true})
	if is := oneLine(k.Do("SET", "a", "1")); is != "+OK" {
		t.Error(is)
	}
	srv.Close()
	if _, err := k.Do("GET", "a"); engine.CodeOf(err) != engine.CodeClosed {
		t.Errorf("after Close: %v", err)
	}
	if _, err := srv.OpenConsole(t.Context(), resp.ConsoleOptions{}); engine.CodeOf(err) != engine.CodeClosed {
		t.Errorf("opened after Close: %v", err)
	}
}

// TestConsoleInCluster: commands run on the leader, whichever node has the console.
func TestConsoleInCluster(t *testing.T) {
	t.Parallel()
	all := startNodes(t, 2, resp.Options{Password: "secret"})
	k := openConsole(t, all.list[1].srv, resp.ConsoleOptions{Database: 100, Changes: true})
	if v, err := k.Do("CLUSTER", "SLOTS"); err != nil || v.IsError() {
		t.Fatalf("%s %v", v.Str, err)
	}
	for command, want := range map[string]string{"SET a 1": "+OK", "CLUSTER MYID": "$00112233445566778899aabbccddeeff00000002", "FLUSHALL": "+OK"} {
		if is := oneLine(k.Do(strings.Fields(command)...)); is != want {
			t.Errorf("%s: %s", command, is)
		}
	}
	if is := oneLine(k.Do("GET", "a")); is != "$1" {
		t.Errorf("a is %s", is)
	}
}

// TestExplain: what is said of commands is what COMMAND says, in a notation for people.
func TestExplain(t *testing.T) {
	t.Parallel()
	srv := serveConsoles(t, resp.Options{})
	for words, want := range map[string]string{
		"SET k v EX 5":          "SET key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL] [k] 1",
		"MSET a 1 b 2":          "MSET key value [key value …] [a b] 1",
		"CLIENT ID":             "CLIENT ID  [] 0",
		"CLUSTER LEADER":        "CLUSTER LEADER [PUSH] [] 0",
		"BITCOUNT k":            "ERR unknown command",
		"CALL nosuch":           "CALL procedure",
		"sort_ro k BY w*":       "SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern …]] [ASC | DESC] [ALPHA] [k] 0",
		"WAIT 1 1":              "WAIT numreplicas timeout [] 2",
		"DEL a":                 "DEL key [key …] [a] 1",
		"OBJECT ENCODING a":     "OBJECT ENCODING key [a] 0",
		"FCALL nosuch 1 a":      "FCALL function numkeys",
		"CLIENT POSITION":       "CLIENT POSITION [position] [] 0",
		"SLOWLOG RESET":         "SLOWLOG RESET  [] 1",
		"DEBUG SLEEP 1":         "ERR unknown command",
		"REPLICAOF no one":      "ERR unknown command",
		"MONITOR":               "ERR unknown command",
		"CONFIG RESETSTAT":      "CONFIG RESETSTAT  [] 1",
		"FUNCTION LOAD x":       "ERR FUNCTION LOAD is not supported",
		"SCAN 0 MATCH a* TYPE":  "SCAN cursor [MATCH pattern] [COUNT count] [TYPE type] [] 0",
		"MIGRATE h 1 k 0 1":     "MIGRATE host port",
		"LATENCY HISTOGRAM set": "LATENCY HISTOGRAM",
	} {
		e, err := srv.Explain(strings.Fields(words)...)
		is := fmt.Sprintf("%s %s %v %d", e.Name, e.Syntax, e.Keys, e.Effect)
		if e := (*engine.Error)(nil); errors.As(err, &e) {
			is = e.Msg
		}
		if !strings.HasPrefix(is, want) {
			t.Errorf("%s: %q, want %q", words, is, want)
		}
		if err == nil && e.Summary == "" {
			t.Errorf("%s has no summary", words)
		}
	}
	var holds []string
	for _, e := range srv.Explanations() {
		if e.Effect == resp.EffectHolds {
			holds = append(holds, e.Name)
		}
	}
	want := "AUTH, CLIENT CACHING, CLIENT MOVED, CLIENT NO-EVICT, CLIENT REPLY, CLIENT SETINFO, CLIENT SETNAME, CLIENT TRACKING, DISCARD, EXEC, HELLO, MULTI, QUIT, READONLY, READWRITE, RESET, SUBSCRIBE, UNSUBSCRIBE, UNWATCH, WAIT, WATCH"
	if is := strings.Join(holds, ", "); is != want {
		t.Errorf("consoles refuse\n%s\nwant\n%s", is, want)
	}
}
