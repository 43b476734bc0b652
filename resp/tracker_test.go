package resp

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/resp/wire"
)

// trackerTest controls a tracker, so that reads and changes can occur in every order.
type trackerTest struct {
	testing.TB
	eng  engine.Engine
	tr   *tracker
	c    *conn
	s    *session
	peer net.Conn
}

func newTrackerTest(t testing.TB) *trackerTest {
	t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	eng, err := embedded.Open(t.TempDir(), embedded.Options{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := New(store, nil, Options{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	c := newConn(srv, ours, 1, false)
	t.Cleanup(func() { c.kill(); c.pushes.end() })
	c.out.RESP3 = true
	c.show()
	x := &trackerTest{TB: t, eng: eng, tr: &srv.tracker, c: c, peer: theirs}
	x.s = &session{c: c, own: map[int64]struct{}{}}
	srv.tracker.on[x.s] = struct{}{}
	c.pushes.busy() // pushes are queued until told()
	return x
}

func (x *trackerTest) begin(key string) { x.tr.begin(x.s, []byte(key)) }

func (x *trackerTest) confirm(key string, pos engine.Position) {
	x.tr.confirm(x.s, []byte(key), pos)
}

func (x *trackerTest) change(key string, pos engine.Position) {
	x.tr.changeKey([]byte(key), engine.Change{Pos: pos, Time: time.UnixMicro(int64(pos))})
}

// told returns the number of queued pushes and drops them.
func (x *trackerTest) told() int {
	x.c.pushes.mu.Lock()
	defer x.c.pushes.mu.Unlock()
	n := bytes.Count(x.c.pushes.buf, []byte(">2\r\n"))
	x.c.pushes.buf = nil
	return n
}

func (x *trackerTest) want(what string, n int) {
	x.Helper()
	if got := x.told(); got != n {
		x.Errorf("%s: %d pushes, want %d", what, got, n)
	}
}

func TestTrackerInterleavings(t *testing.T) {
	x := newTrackerTest(t)
	x.begin("k")
	x.change("k", 5)
	x.confirm("k", 4)
	x.want("changed while it was read, which saw the old value", 1)
	x.change("k", 6)
	x.want("nothing is held any more", 0)

	x.begin("k")
	x.change("k", 7)
	x.confirm("k", 7)
	x.want("changed while it was read, which saw the new value", 0)
	x.change("k", 8)
	x.want("changed afterwards", 1)

	x.begin("k")
	x.confirm("k", 10)
	x.change("k", 9)
	x.want("the feed is behind the read", 0)
	x.change("k", 10)
	x.want("the feed is where the read was", 0)

	x.begin("k")
	x.change("k", 11)
	x.confirm("k", 11)
	x.want("the version read before is old now", 1)
	x.change("k", 12)
	x.want("and then so is the one read after", 1)

	x.begin("k")
	x.confirm("k", 13)
	x.begin("k")
	x.confirm("k", 15)
	x.change("k", 14)
	x.want("between two reads", 1)
	x.change("k", 16)
	x.want("after both", 1)

	x.begin("k")
	x.tr.flushed()
	x.want("flushed while it was read", 1)
	x.confirm("k", 20)
	x.want("what was read may be from before", 1)
	if len(x.tr.keys) != 0 {
		t.Errorf("%d keys are left", len(x.tr.keys))
	}
}

func TestTrackerNoLoop(t *testing.T) {
	x := newTrackerTest(t)
	x.s.noloop = true
	own := tracking{session: x.s}
	x.begin("k")
	x.confirm("k", 1)
	own.wrote(time.UnixMicro(2))
	x.change("k", 2)
	x.want("its own write", 0)
	x.begin("k")
	x.confirm("k", 2)
	x.change("k", 3)
	x.want("another's write", 1)
	for i := range int64(2 * ownWrites) {
		own.wrote(time.UnixMicro(1000 + i))
	}
	if len(x.s.own) != ownWrites || len(x.s.ring) != ownWrites || x.s.mine(nil, time.UnixMicro(1000)) || !x.s.mine(nil, time.UnixMicro(1000+2*ownWrites-1)) {
		t.Errorf("%d own writes are remembered, the limit is %d", len(x.s.own), ownWrites)
	}
}

// TestTrackerLimit has one client read more keys than are tracked.
func TestTrackerLimit(t *testing.T) {
	x := newTrackerTest(t)
	const over = 10
	for i := range MaxTrackedKeys + over {
		key := strconv.Itoa(i)
		x.begin(key)
		x.confirm(key, 1)
	}
	x.tr.trim()
	if n := len(x.tr.keys); n != MaxTrackedKeys {
		t.Errorf("%d keys are remembered, the limit is %d", n, MaxTrackedKeys)
	}
	x.want("keys forgotten", over)
}

// TestPushOrder checks that pushes wait while a reply is in progress, and are then written.
func TestPushOrder(t *testing.T) {
	x := newTrackerTest(t)
	x.begin("k")
	x.confirm("k", 1)
	x.change("k", 2)
	x.peer.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if n, err := x.peer.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Fatal("a push overtook the reply")
	}
	x.peer.SetReadDeadline(time.Now().Add(5 * time.Second))
	go func() {
		x.c.out.Simple("reply")
		x.c.flush()
		x.c.pushes.idle(x.c)
	}()
	want := "+reply\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(x.peer, got); err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}

// TestPushLimit has a client that does not read its pushes.
func TestPushLimit(t *testing.T) {
	x := newTrackerTest(t)
	big := make([]byte, 1<<20)
	for i := range MaxPushBytes/len(big) + 1 {
		if i < MaxPushBytes/len(big) && x.c.killed.Load() { // with their framing, this many already exceed the limit
			t.Fatalf("closed after %d MiB", i)
		}
		x.tr.tell(x.s, [][]byte{big})
	}
	select {
	case <-x.c.done:
	case <-time.After(5 * time.Second):
		t.Errorf("still open with over %d bytes of pushes", MaxPushBytes)
	}
}

// TestCommandTable checks what the compiler cannot.
func TestCommandTable(t *testing.T) {
	table := commands()
	seen := 0
	var check func(name string, c *command)
	check = func(name string, c *command) {
		seen++
		switch {
		case c.name != name || len(name) > maxName || c.arity == 0:
			t.Errorf("%s: name %q, arity %d", name, c.name, c.arity)
		case (c.run == nil) != (len(c.subs) > 0 || c.kind == kindExec) && name != "command":
			t.Errorf("%s: run and subcommands", name)
		case (c.kind == kindRead || c.kind == kindWrite) && c.keys.first == 0 && len(c.subs) == 0 && name != "dbsize":
			t.Errorf("%s reads or writes no key", name)
		}
		for i := range c.subs {
			check(c.subs[i].name, &c.subs[i])
		}
	}
	for name, c := range table {
		check(name, c)
	}
	if seen < 110 {
		t.Errorf("only %d commands", seen)
	}
}

// TestGetAllocatesNothing counts the allocations of the protocol itself.
func TestGetAllocatesNothing(t *testing.T) {
	if n := allocations(t, newTrackerTest(t).c, 64, "GET", "none"); n > 4 {
		t.Errorf("64 GETs of one read allocate %v times; only the view may, not each command", n)
	}
}

// TestCallAllocatesNothing checks that calling a procedure allocates no more than GET does.
func TestCallAllocatesNothing(t *testing.T) {
	if raced {
		t.Skip("the race detector makes pools forget at random")
	}
	x := newTrackerTest(t)
	c := x.c
	type in struct{ A, B, C int64 }
	set, err := proc.New(x.eng, proc.Options{},
		proc.DefineRead("sum", func(_ *proc.Tx, in in) (int64, error) { return in.A + in.B + in.C, nil }),
		proc.Define("sum.write", func(_ *proc.Tx, in in) (int64, error) { return in.A + in.B + in.C, nil }))
	if err != nil {
		t.Fatal(err)
	}
	c.srv.opts.Procedures = set
	for _, words := range [][]string{
		{"FCALL", "sum", "0", "11", "22", "-33"}, {"FCALL_RO", "sum", "1", "11", "22", "-33"}, {"CALL", "sum", "1", "2", "3"},
		{"FCALL", "sum.write", "0", "11", "22", "-33"}, {"CALL", "sum.write", "1", "2", "3"},
	} {
		if n := allocations(t, c, 64, words...); n > 12 {
			t.Errorf("64 times %q allocate %v times", words, n)
		}
	}
}

// allocations returns the number of allocations of n commands in one read.
func allocations(t *testing.T, c *conn, n int, words ...string) float64 {
	t.Helper()
	c.out.RESP3 = false
	in := bytes.Repeat(wire.AppendCommandStrings(nil, words...), n)
	src := bytes.NewReader(in)
	c.rd = wire.NewReader(src, &c.srv.bufs, wire.Limits{})
	round := func() {
		src.Reset(in)
		clear(c.args)
		c.args = c.args[:0]
		if err := c.rd.Fill(); err != nil {
			t.Fatal(err)
		}
		c.handle()
		if bytes.Contains(c.out.Buf, []byte("-ERR")) {
			t.Fatalf("%q: %s", words, c.out.Buf)
		}
		c.out.Buf = c.out.Buf[:0]
	}
	round()
	return testing.AllocsPerRun(100, round)
}
