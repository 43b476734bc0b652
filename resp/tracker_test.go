package resp

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/feed"
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

// openEngine opens an embedded engine in a temporary directory.
func openEngine(t testing.TB) *embedded.DB {
	t.Helper()
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// newTestServer returns a server of eng; f may be nil.
func newTestServer(t testing.TB, eng engine.Engine, f *feed.Feed, o Options) *Server {
	t.Helper()
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Logger = slog.New(slog.DiscardHandler)
	srv, err := New(store, f, o)
	if err != nil {
		t.Fatal(err)
	}
	return srv
}

func newTrackerTest(t testing.TB) *trackerTest {
	t.Helper()
	eng := openEngine(t)
	srv := newTestServer(t, eng, nil, Options{})
	ours, theirs := net.Pipe()
	c := newConn(srv, ours, 1, fromClient)
	t.Cleanup(func() { c.kill(); c.pushes.end() })
	c.out.RESP3 = true
	c.show()
	x := &trackerTest{TB: t, eng: eng, tr: &srv.tracker, c: c, peer: theirs}
	x.s = &session{c: c, own: map[int64]struct{}{}}
	srv.tracker.on[x.s] = struct{}{}
	c.pushes.busy() // pushes are queued until pushed is called
	return x
}

func (x *trackerTest) begin(key string) { x.tr.begin(x.s, []byte(key)) }

func (x *trackerTest) confirm(key string, pos engine.Position) {
	x.tr.confirm(x.s, []byte(key), pos)
}

func (x *trackerTest) change(key string, pos engine.Position) {
	x.tr.changeKey([]byte(key), engine.Change{Pos: pos, Time: time.UnixMicro(int64(pos))})
}

// pushed returns the number of queued pushes and drops them.
func (x *trackerTest) pushed() int {
	x.c.pushes.mu.Lock()
	defer x.c.pushes.mu.Unlock()
	n := bytes.Count(x.c.pushes.buf, []byte(">2\r\n"))
	x.c.pushes.buf = nil
	return n
}

func (x *trackerTest) want(what string, n int) {
	x.Helper()
	if got := x.pushed(); got != n {
		x.Errorf("%s: %d pushes, want %d", what, got, n)
	}
}

// TestTrackerInterleavings plays reads of a key, which begin and are confirmed at a position,
// and changes of it at a position. The tracker is the same throughout.
func TestTrackerInterleavings(t *testing.T) {
	x := newTrackerTest(t)
	for _, c := range []struct {
		steps string
		want  int // pushes
		what  string
	}{
		{"begin change=5 confirm=4", 1, "changed while it was read, which saw the old value"},
		{"change=6", 0, "the client has nothing cached now"},

		{"begin change=7 confirm=7", 0, "changed while it was read, which saw the new value"},
		{"change=8", 1, "changed afterwards"},

		{"begin confirm=10 change=9", 0, "the feed is behind the read"},
		{"change=10", 0, "the feed is where the read was"},

		{"begin change=11 confirm=11", 1, "the version read before is old now"},
		{"change=12", 1, "and then so is the one read after"},

		{"begin confirm=13 begin confirm=15 change=14", 1, "between two reads"},
		{"change=16", 1, "after both"},

		{"begin flush", 1, "flushed while it was read"},
		{"confirm=20", 1, "the value read may be from before the flush"},
	} {
		for _, step := range strings.Fields(c.steps) {
			verb, at, _ := strings.Cut(step, "=")
			pos, _ := strconv.Atoi(at)
			switch verb {
			case "begin":
				x.begin("k")
			case "confirm":
				x.confirm("k", engine.Position(pos))
			case "change":
				x.change("k", engine.Position(pos))
			case "flush":
				x.tr.flushed()
			}
		}
		x.want(c.what, c.want)
	}
	if len(x.tr.keys) != 0 {
		t.Errorf("%d keys are still tracked", len(x.tr.keys))
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
		x.tr.invalidate(x.s, [][]byte{big})
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
	round := roundOf(t, c, n, words...)
	round()
	return testing.AllocsPerRun(100, round)
}

// roundOf returns a function that handles n commands in one read.
func roundOf(t testing.TB, c *conn, n int, words ...string) func() {
	c.out.RESP3 = false
	in := bytes.Repeat(wire.AppendCommandStrings(nil, words...), n)
	src := bytes.NewReader(in)
	c.rd = wire.NewReader(src, &c.srv.bufs, wire.Limits{})
	return func() {
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
}
