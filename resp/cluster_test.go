package resp_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

func TestClusterAnswers(t *testing.T) {
	all := startNodes(t, 3, resp.Options{})
	all.lead(2)
	ids := []string{"", "00112233445566778899aabbccddeeff00000001", "00112233445566778899aabbccddeeff00000002", "00112233445566778899aabbccddeeff00000003"}
	at := func(id int) string {
		host, port, _ := net.SplitHostPort(all.list[id-1].addr)
		return host + " " + port
	}
	bus := func(id int) string {
		_, port, _ := net.SplitHostPort(all.list[id-1].port.Addr().String())
		return port
	}
	for id := 1; id <= 3; id++ {
		a := all.ask(id)
		a.want(fmt.Sprintf("[[0 16383 [%s %s []] [%s %s []] [%s %s []]]]", at(2), ids[2], at(1), ids[1], at(3), ids[3]), "CLUSTER", "SLOTS")
		a.want(ids[id], "CLUSTER", "MYID")
		nodes := string(a.ask("CLUSTER", "NODES").Str)
		for n := 1; n <= 3; n++ {
			flags, rest := "slave "+ids[2], ""
			if n == 2 {
				flags, rest = "master -", " 0-16383"
			}
			if n == id {
				flags = "myself," + flags
			}
			line := fmt.Sprintf("%s %s@%s %s 0 0 2 connected%s\n", ids[n], strings.ReplaceAll(at(n), " ", ":"), bus(n), flags, rest)
			if !strings.Contains(nodes, line) {
				t.Errorf("CLUSTER NODES of node %d is\n%swithout\n%s", id, nodes, line)
			}
		}
		shards := a.ask("CLUSTER", "SHARDS")
		if text := show(t, shards); !strings.HasPrefix(text, "[[slots [0 16383] nodes [[id "+ids[2]+" port ") || strings.Count(text, " role replica ") != 2 || strings.Count(text, " role master ") != 1 {
			t.Errorf("CLUSTER SHARDS: %s", text)
		}
		info := string(a.ask("CLUSTER", "INFO").Str)
		for _, line := range []string{"cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:3", "cluster_size:1", "cluster_current_epoch:2"} {
			if !strings.Contains(info, line+"\r\n") {
				t.Errorf("CLUSTER INFO has no %s:\n%s", line, info)
			}
		}
		role := show(t, a.ask("ROLE"))
		repl := string(a.ask("INFO", "replication").Str)
		hello := show(t, a.ask("HELLO", "3"))
		if id == 2 {
			if !strings.HasPrefix(role, "[master ") || !strings.Contains(role, "[["+at(1)+" 0] ["+at(3)+" 0]]") ||
				!strings.Contains(repl, "role:master\r\nconnected_slaves:2\r\nslave0:ip=") || !strings.Contains(hello, " mode cluster role master ") {
				t.Errorf("the leader returns %s\n%s\n%s", role, repl, hello)
			}
		} else if !strings.HasPrefix(role, "[slave "+at(2)+" connected ") || !strings.Contains(repl, "role:slave\r\nmaster_host:127.0.0.1\r\n") ||
			!strings.Contains(hello, " mode cluster role replica ") {
			t.Errorf("a replica returns %s\n%s\n%s", role, repl, hello)
		}
		if v := string(a.ask("INFO").Str); !strings.Contains(v, "redis_mode:cluster\r\n") || !strings.Contains(v, "cluster_enabled:1\r\n") || !strings.Contains(v, "forwarded_commands_total:") {
			t.Errorf("INFO: %s", v)
		}
		a.want("OK", "ASKING")
	}
}

func TestSlots(t *testing.T) {
	a := startNodes(t, 1, resp.Options{}).ask(1)
	for key, slot := range map[string]string{"foo": "12182", "{user1000}.following": "3443", "foo{}{bar}": "8363", "foo{{bar}}zap": "4015", "foo{bar}{zap}": "5061", "123456789": "12739"} {
		a.want(slot, "CLUSTER", "KEYSLOT", key)
	}
	a.want("OK", "MSET", "{foo}1", "1", "foo", "1", "other", "1")
	a.want("2", "CLUSTER", "COUNTKEYSINSLOT", "12182")
	a.want("ERR Invalid slot", "CLUSTER", "COUNTKEYSINSLOT", "16384")
	alone := newAsker(t, startSkerry(t, resp.Options{}))
	for _, words := range [][]string{{"CLUSTER", "SLOTS"}, {"CLUSTER", "NODES"}, {"CLUSTER", "KEYSLOT", "k"}, {"CLUSTER", "COUNTKEYSINSLOT", "1"}, {"READONLY"}, {"READWRITE"}, {"ASKING"}} {
		alone.want("ERR This instance has cluster support disabled", words...)
	}
	alone.want("OK", "CLIENT", "MOVED", "ON") // it has no effect
	alone.want("OK", "SET", "k", "v")
}

// TestUnknownAddresses checks that if addresses are unknown, clients see only the node that
// they are connected to, which forwards their commands.
func TestUnknownAddresses(t *testing.T) {
	all := startNodes(t, 3, resp.Options{})
	all.plain.Store(true)
	a := all.ask(2)
	host, port, _ := net.SplitHostPort(all.list[1].addr)
	a.want("[[0 16383 ["+host+" "+port+" 00112233445566778899aabbccddeeff00000002 []]]]", "CLUSTER", "SLOTS")
	a.want("OK", "SET", "k", "v")
}

func TestMovedRule(t *testing.T) {
	all := startNodes(t, 2, resp.Options{})
	moved := func(slot int) string { return fmt.Sprintf("MOVED %d %s", slot, all.list[0].addr) }
	for _, c := range []struct {
		words []string
		want  bool
	}{
		{[]string{"PING"}, false}, {[]string{"CLUSTER", "NODES"}, false}, {[]string{"CLUSTER", "INFO"}, false},
		{[]string{"CLUSTER", "MYID"}, false}, {[]string{"CLUSTER", "KEYSLOT", "foo"}, false}, {[]string{"ASKING"}, false},
		{[]string{"CLUSTER", "SLOTS"}, true}, {[]string{"CLUSTER", "SHARDS"}, true}, {[]string{"READONLY"}, true},
		{[]string{"READWRITE"}, true}, {[]string{"CLIENT", "MOVED", "ON"}, true},
		{[]string{"CLIENT", "SETNAME", "x+moved"}, true}, {[]string{"HELLO", "3", "SETNAME", "+moved"}, true},
		{[]string{"CLIENT", "SETNAME", "moved"}, false},
	} {
		a := all.ask(2)
		a.ask(c.words...)
		want := "OK"
		if c.want {
			want = moved(12182)
		}
		a.want(want, "SET", "foo", "v")
	}
	a := all.ask(2)
	a.want("OK", "CLIENT", "MOVED", "OFF")
	a.ask("CLUSTER", "SLOTS")
	a.want("OK", "SET", "foo", "v")
	a.want("OK", "CLIENT", "MOVED", "ON")
	a.want(moved(12182), "SET", "foo", "w")
	a.want("v", "GET", "foo") // reads run here
	a.want(moved(12182), "WATCH", "foo")
	a.want("OK", "MULTI")
	a.want("QUEUED", "GET", "foo")
	a.want(moved(12182), "DEL", "foo")
	a.want("EXECABORT Transaction discarded because of previous errors.", "EXEC")
	a.want("OK", "FLUSHDB") // it has no key, so no slot
	a.nc.Write([]byte("GET foo\r\nSET foo 1\r\nGET foo\r\nCLIENT REPLY SKIP\r\nSET foo 1\r\nPING\r\n"))
	for i, want := range []string{"nil", moved(12182), "nil", "PONG"} {
		if v, err := a.rd.Read(); err != nil || show(t, v) != want {
			t.Errorf("reply %d: %s, %v", i, show(t, v), err)
		}
	}
	all.lead(2)
	a.want("OK", "SET", "foo", "v")
	all.lead(1)
	a.want("RESET", "RESET")
	a.ask("HELLO", "3")
	a.want("OK", "SET", "foo", "v")
	if n := metric(all.list[1], "resp_moved_replies_total"); n < 8 {
		t.Errorf("%v MOVED were counted", n)
	}
}

func TestReadLevels(t *testing.T) {
	all := startNodes(t, 2, resp.Options{})
	a, b := all.ask(2), all.ask(1)
	a.want("linearizable", "CLIENT", "READ")
	a.want("OK", "CLIENT", "READ", "LOCAL", "500")
	a.want("local 500", "CLIENT", "READ")
	a.want("ERR syntax error", "CLIENT", "READ", "NEVER")
	a.want("ERR syntax error", "CLIENT", "READ", "SESSION", "5")
	a.want("OK", "CLIENT", "READ", "session")
	a.want("session", "CLIENT", "READ")
	a.want("0", "CLIENT", "POSITION")
	a.want("OK", "SET", "k", "v") // forwarded
	pos := a.ask("CLIENT", "POSITION").Int
	if pos == 0 {
		t.Error("the position of a forwarded write is not known")
	}
	a.want("v", "GET", "k")
	b.want("OK", "SET", "k", "w")
	pos2 := b.ask("CLIENT", "POSITION").Int
	if pos2 <= pos {
		t.Errorf("positions %d and then %d", pos, pos2)
	}
	a.want("OK", "CLIENT", "POSITION", fmt.Sprint(pos2))
	a.want("w", "GET", "k")
	a.want("OK", "CLIENT", "POSITION", "1") // it never goes back
	if got := a.ask("CLIENT", "POSITION").Int; got < pos2 {
		t.Errorf("position %d after %d", got, pos2)
	}
	a.want("ERR value is not an integer or out of range", "CLIENT", "POSITION", "x")
	a.want("OK", "CLIENT", "POSITION", fmt.Sprint(pos2+1_000_000))
	if v := show(t, a.ask("GET", "k")); !strings.HasPrefix(v, "TRYAGAIN ") || !strings.HasSuffix(v, " [position_timeout]") {
		t.Errorf("a position that does not come: %s", v)
	}
	a.want("RESET", "RESET")
	a.ask("HELLO", "3")
	a.want("0", "CLIENT", "POSITION")
	a.want("OK", "READONLY")
	all.lead(0)
	a.want("w", "GET", "k") // without a leader
	all.lead(1)
	a.want("OK", "READWRITE")
	a.want("w", "GET", "k")
	alone := newAsker(t, startSkerry(t, resp.Options{}))
	alone.want("OK", "SET", "k", "v")
	if alone.ask("CLIENT", "POSITION").Int == 0 {
		t.Error("alone there are no positions")
	}
	alone.want("OK", "CLIENT", "READ", "SESSION")
	alone.want("v", "GET", "k")
}

// TestPositionLost checks that if the connection to the leader breaks before it has sent
// the position, the next read sees everything.
func TestPositionLost(t *testing.T) {
	all := startNodes(t, 2, resp.Options{})
	cut := newCutter(all.list[1])
	a := all.ask(2)
	a.want("OK", "CLIENT", "READ", "SESSION")
	a.want("OK", "SET", "k", "1")
	before := a.ask("CLIENT", "POSITION").Int
	cut.in.Store(int64(len("+OK\r\n") + 2))
	a.want("OK", "SET", "k", "2")
	if cut.in.Load() < uncut/2 {
		t.Fatal("nothing was cut")
	}
	if pos := a.ask("CLIENT", "POSITION").Int; pos <= before {
		t.Errorf("position %d after %d and a write", pos, before)
	}
	a.want("2", "GET", "k")
}

func TestClusterWait(t *testing.T) {
	all := startNodes(t, 3, resp.Options{})
	for id := 1; id <= 3; id++ {
		a := all.ask(id)
		a.want("OK", "SET", "k", "v")
		a.want("1", "WAIT", "0", "0") // a majority of three has it
		a.want("1", "WAIT", "1", "0")
		a.want("2", "WAIT", "2", "20000")
		a.want("2", "WAIT", "3", "100")
		a.want("OK", "MULTI")
		a.want("QUEUED", "WAIT", "2", "0")
		a.want("[1]", "EXEC")
	}
	a := all.ask(1)
	a.want("OK", "SET", "k", "v")
	all.list[2].stuck.Store(true)
	start := time.Now()
	a.want("1", "WAIT", "2", "300")
	if d := time.Since(start); d < 290*time.Millisecond {
		t.Errorf("WAIT for a node that is stuck took %v", d)
	}
	time.AfterFunc(50*time.Millisecond, func() { all.list[2].stuck.Store(false) })
	a.want("2", "WAIT", "2", "0")
}

// TestForwardedTracking checks that invalidations come from the node's own feed, so that
// forwarded writes are reported like all others, except with NOLOOP.
func TestForwardedTracking(t *testing.T) {
	all := startNodes(t, 2, resp.Options{})
	a, b := all.ask(2), all.ask(1)
	next := func(want string) {
		t.Helper()
		a.nc.SetReadDeadline(time.Now().Add(20 * time.Second))
		if v, err := a.rd.Read(); err != nil || show(t, v) != want {
			t.Fatalf("%s, %v; want %s", show(t, v), err, want)
		}
	}
	a.want("OK", "CLIENT", "TRACKING", "ON")
	a.want("nil", "GET", "k")
	b.want("OK", "SET", "k", "1")
	next("[invalidate [k]]")
	a.want("1", "GET", "k")
	a.want("OK", "SET", "k", "2") // its own, forwarded
	next("[invalidate [k]]")
	a.nc.Write([]byte("SET k 3\r\nGET k\r\nSET j 1\r\nGET j\r\nMGET k j\r\n"))
	for _, want := range []string{"OK", "3", "OK", "1", "[3 1]"} {
		next(want)
	}
	b.want("OK", "SET", "j", "2")
	next("[invalidate [j]]")
	a.nc.Write([]byte("MULTI\r\nGET k\r\nSET j 3\r\nEXEC\r\n"))
	for _, want := range []string{"OK", "QUEUED", "QUEUED", "[3 OK]", "[invalidate [k]]"} {
		next(want) // values read on another node must not be cached
	}

	a.want("OK", "CLIENT", "TRACKING", "ON", "NOLOOP")
	for i := range 200 {
		k := fmt.Sprint("n", i)
		a.want("nil", "GET", k)
		a.want("OK", "SET", k, "mine")
	}
	a.want("mine", "GET", "n7")
	a.nc.Write(wire.AppendCommandStrings(nil, "INCR", "counter"))
	b.want("OK", "SET", "n7", "another's")
	// Only the other client's write is reported.
	got := map[string]bool{}
	for range 2 {
		v, err := a.rd.Read()
		if err != nil {
			t.Fatal(err)
		}
		got[show(t, v)] = true
	}
	if !got["1"] || !got["[invalidate [n7]]"] {
		t.Errorf("after NOLOOP: %v", got)
	}
	a.want("PONG", "PING")
	a.want("OK", "FLUSHALL")
}

// nodeConn opens a connection as another node does.
func nodeConn(all *nodes, id int) *asker {
	all.Helper()
	nc, err := all.list[0].Dial(all.Context(), uint64(id), resp.NodeProtocol)
	if err != nil {
		all.Fatal(err)
	}
	all.Cleanup(func() { nc.Close() })
	return &asker{all.TB, nc, wire.NewReplies(nc, &wire.Buffers{}, 0)}
}

func TestServeNode(t *testing.T) {
	server, _, _ := testTLS(t)
	all := startNodes(t, 2, resp.Options{Password: "secret", MaxClients: 1, TLS: server})
	var list []*asker
	for range 5 {
		list = append(list, nodeConn(all, 1)) // not counted as a client, and without a password
	}
	a := list[0]
	a.want("OK", "SET", "k", "v")
	a.want("v", "GET", "k")
	if v := a.ask("SKERRY", "MARK"); len(v.List) != 2 || v.List[0].Int == 0 || v.List[1].Int == 0 {
		t.Errorf("SKERRY MARK: %s", show(t, v))
	}
	a.want("[0]", "SKERRY", "MARK")
	a.want("OK", "SKERRY", "WATCH", "0", "1", "k")
	a.want("OK", "MULTI")
	a.want("QUEUED", "GET", "k")
	a.want("nil", "EXEC")
	a.want("ERR syntax error", "SKERRY", "WATCH", "0", "1", "k", "0")
	a.want("ERR DB index is out of range", "SKERRY", "WATCH", fmt.Sprint(resp.MaxDatabases), "1", "k") // which databases clients may select is checked by their node
	a.want("ERR value is not an integer or out of range", "SKERRY", "WATCH", "0", "-1", "k")
	a.want("1", "SKERRY", "REACHED", "1", "1000")
	a.want("ERR value is not an integer or out of range", "SKERRY", "REACHED", "x", "0")

	// A follower sends an error, runs nothing more and closes the connection.
	b := nodeConn(all, 2)
	b.nc.Write([]byte("SET k 1\r\nPING\r\nSET k 2\r\n"))
	if v, err := b.rd.Read(); err != nil || string(v.Str) != "CLUSTERDOWN "+engine.ErrNotLeader.Error() {
		t.Errorf("a write where no leader is: %s, %v", show(t, v), err)
	}
	all.lead(2)
	for {
		if _, err := b.rd.Read(); err != nil {
			break
		}
	}
	nodeConn(all, 2).want("v", "GET", "k")

	// Clients cannot use these commands.
	alone := newAsker(t, startSkerry(t, resp.Options{}))
	if v := show(t, alone.ask("SKERRY", "MARK")); !strings.HasPrefix(v, "ERR unknown command 'SKERRY'") {
		t.Errorf("a client's SKERRY MARK: %s", v)
	}
}
