package resp_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

// cutter breaks a connection once after a number of bytes.
type cutter struct{ in, out atomic.Int64 }

const uncut = 1 << 40

func newCutter(nd *node) *cutter {
	c := &cutter{}
	c.in.Store(uncut)
	c.out.Store(uncut)
	wrap := func(nc net.Conn) net.Conn { return &cutConn{nc, c} }
	nd.wrap.Store(&wrap)
	return c
}

type cutConn struct {
	net.Conn
	c *cutter
}

var errCut = errors.New("the connection was cut")

// take returns how many of n bytes may pass. It cuts once, even if several connections take
// at the same time.
func take(left *atomic.Int64, n int) (int, bool) {
	for {
		have := left.Load()
		switch rest := have - int64(n); {
		case rest >= 0 && left.CompareAndSwap(have, rest):
			return n, true
		case rest < 0 && left.CompareAndSwap(have, uncut):
			return int(have), false
		}
	}
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		return n, err
	}
	if n, ok := take(&c.c.in, n); !ok {
		c.Close()
		if n > 0 {
			return n, nil
		}
		return 0, errCut
	}
	return n, nil
}

func (c *cutConn) Write(p []byte) (int, error) {
	n, ok := take(&c.c.out, len(p))
	n, err := c.Conn.Write(p[:n])
	if !ok && err == nil {
		err = errCut
		c.Close()
	}
	return n, err
}

// cutPipeline returns the pipeline that is cut: writes, reads and a transaction. It adds to
// its counter n four times.
func cutPipeline() (b []byte, want []string) {
	for _, c := range []struct {
		want  string
		words []string
	}{
		{"OK", []string{"SET", "a", strings.Repeat("v", 20)}},
		{"1", []string{"INCR", "n"}},
		{strings.Repeat("v", 20), []string{"GET", "a"}},
		{"PONG", []string{"PING"}},
		{"OK", []string{"MULTI"}},
		{"QUEUED", []string{"INCR", "n"}},
		{"QUEUED", []string{"GET", "a"}},
		{"[2 " + strings.Repeat("v", 20) + "]", []string{"EXEC"}},
		{"3", []string{"INCR", "n"}},
		{"3", []string{"GET", "n"}},
		{"4", []string{"INCR", "n"}},
		{"nil", []string{"GET", "none"}},
	} {
		b = wire.AppendCommandStrings(b, c.words...)
		want = append(want, c.want)
	}
	return b, want
}

// cutRun runs the pipeline and returns the replies.
func cutRun(all *nodes, a *asker, b []byte, n int) (got []string) {
	all.Helper()
	if v := a.ask("FLUSHALL"); string(v.Str) != "OK" {
		a.Fatalf("FLUSHALL: %s", v.Str)
	}
	a.nc.Write(b)
	a.nc.SetReadDeadline(time.Now().Add(30 * time.Second))
	for range n {
		v, err := a.rd.Read()
		if err != nil {
			a.Fatal(err)
		}
		got = append(got, show(a.TB, v))
	}
	return got
}

const (
	replyUnknown = "ERR the connection to the leader broke before its reply: the command may or may not have run [outcome_unknown]"
	replyBroken  = "CLUSTERDOWN the connection to the leader broke before its reply; nothing was written [not_leader]"
)

// TestUpstreamCut cuts the connection to the leader at every byte of its replies and of its
// input. No reply is wrong or out of order, nothing runs twice, and commands that were not
// sent run on another connection.
func TestUpstreamCut(t *testing.T) {
	all := startNodes(t, 2, resp.Options{})
	cut := newCutter(all.list[1])
	a := all.ask(2)
	b, want := cutPipeline()
	cutRun(all, a, b, len(want)) // the connection exists and uses RESP3
	for name, left := range map[string]*atomic.Int64{"reply": &cut.in, "command": &cut.out} {
		unknown := 0
		for at := int64(0); ; at++ {
			if v := a.ask("FLUSHALL"); string(v.Str) != "OK" {
				t.Fatal(show(t, v))
			}
			all.ask(1).ask("DEL", "none")
			left.Store(at + flushBytesOf(name))
			got := cutRun(all, a, b, len(want))
			if left.Swap(uncut) < uncut/2 { // the cut was not reached
				break
			}
			// The input on the cut connection may still be running: wait until only the
			// next command is left.
			a.want("OK", "SET", "other", "x")
			eventually.True(t, "the end of the cut connection", func() bool { return metric(all.list[0], "resp_node_connections") <= 1 })
			unknown += checkCut(t, fmt.Sprintf("%s cut at %d", name, at), all, got, want)
		}
		if name == "reply" && unknown == 0 {
			t.Errorf("%s: no command's outcome was ever unknown", name)
		}
	}
}

// metric returns one of a node's metrics.
func metric(nd *node, name string) float64 {
	for m := range nd.srv.Metrics() {
		if m.Name == name {
			return m.Value
		}
	}
	return -1
}

// flushBytesOf returns the bytes of cutRun's FLUSHALL, which are not cut.
func flushBytesOf(name string) int64 {
	if name == "reply" {
		return int64(len("+OK\r\n*2\r\n:000000\r\n:0000000000000000\r\n"))
	}
	return int64(len(wire.AppendCommandStrings(wire.AppendCommandStrings(nil, "FLUSHALL"), "SKERRY", "MARK")))
}

func checkCut(t *testing.T, what string, all *nodes, got, want []string) (unknown int) {
	t.Helper()
	n, broken := 0, false // n is the known upper bound of the counter
	for i, g := range got {
		switch {
		case g == replyUnknown || g == replyBroken:
			broken = true
			if g == replyUnknown {
				unknown++
			}
			if write := i == 0 || i == 1 || i == 7 || i == 8 || i == 10; write != (g == replyUnknown) {
				t.Errorf("%s: reply %d is %s", what, i, g)
			}
		case !broken && g != want[i]:
			t.Errorf("%s: reply %d is %s, want %s", what, i, g, want[i])
		case i == 1 || i == 8 || i == 10: // INCR: more than all before
			m := 0
			fmt.Sscan(g, &m)
			if m <= n || m > 4 {
				t.Errorf("%s: reply %d is %s after %d", what, i, g, n)
			}
			n = m
		}
	}
	v := all.ask(1).ask("GET", "n")
	m := 0
	fmt.Sscan(string(v.Str), &m)
	acked := 0
	for i, g := range got {
		if (i == 1 || i == 7 || i == 8 || i == 10) && g != replyUnknown {
			acked++
		}
	}
	if m < acked || m > 4 {
		t.Errorf("%s: the counter is %d, %d times acknowledged: %q", what, m, acked, got)
	}
	return unknown
}

// TestElection checks that commands wait for a leader, but not forever.
func TestElection(t *testing.T) {
	all := startNodes(t, 3, resp.Options{ElectionWait: 300 * time.Millisecond})
	a := all.ask(2)
	a.want("OK", "SET", "k", "v")
	a.want("OK", "CLIENT", "READ", "LOCAL")
	all.lead(0)
	start := time.Now()
	for _, words := range [][]string{{"SET", "k", "w"}, {"FLUSHALL"}, {"CLUSTER", "SLOTS"}, {"CLUSTER", "SHARDS"}} {
		if v := show(t, a.ask(words...)); !strings.HasPrefix(v, "CLUSTERDOWN ") || !strings.HasSuffix(v, " [not_leader]") {
			t.Errorf("%v without a leader: %s", words, v)
		}
	}
	if d := time.Since(start); d < 4*290*time.Millisecond {
		t.Errorf("they waited %v only", d)
	}
	a.want("v", "GET", "k")
	a.want("OK", "CLIENT", "READ", "LINEARIZABLE")
	if v := show(t, a.ask("GET", "k")); !strings.HasPrefix(v, "CLUSTERDOWN ") {
		t.Errorf("a linearizable read without a leader: %s", v)
	}
	start = time.Now() // a whole pipeline waits only once
	var b []byte
	for range 50 {
		b = wire.AppendCommandStrings(b, "INCR", "n")
	}
	a.nc.Write(b)
	for range 50 {
		if v, err := a.rd.Read(); err != nil || !v.IsError() {
			t.Fatal(show(t, v), err)
		}
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("a pipeline waited %v", d)
	}
	if v := string(a.ask("CLUSTER", "INFO").Str); !strings.Contains(v, "cluster_state:fail\r\n") {
		t.Errorf("CLUSTER INFO: %s", v)
	}
	a.ask("INFO")
	a.ask("ROLE")
}

// TestElectionEnds checks that waiting commands continue when a leader is found.
func TestElectionEnds(t *testing.T) {
	for _, next := range []uint64{1, 2, 3} {
		all := startNodes(t, 3, resp.Options{ElectionWait: 30 * time.Second})
		a := all.ask(2)
		a.want("1", "INCR", "k")
		all.lead(0)
		a.nc.Write([]byte("INCR k\r\nGET k\r\nFLUSHALL\r\nGET k\r\nCLUSTER SLOTS\r\n"))
		eventually.True(t, "a command waits", all.list[1].waits.Load)
		all.lead(next)
		for i, want := range []string{"2", "2", "OK", "nil"} {
			if v, err := a.rd.Read(); err != nil || show(t, v) != want {
				t.Errorf("leader %d, reply %d: %s, %v", next, i, show(t, v), err)
			}
		}
		if v, err := a.rd.Read(); err != nil || v.IsError() {
			t.Error(show(t, v), err)
		}
	}
}

// TestClientGoneInElection checks that commands of a disconnected client do not wait, and
// that Close does not wait for waiting commands.
func TestClientGoneInElection(t *testing.T) {
	all := startNodes(t, 2, resp.Options{ElectionWait: time.Hour})
	a := all.ask(2)
	all.lead(0)
	a.nc.Write([]byte("SET k v\r\n"))
	eventually.True(t, "the command waits", all.list[1].waits.Load)
	start := time.Now()
	all.list[1].srv.Close()
	if _, err := a.rd.Read(); err == nil {
		t.Error("there was a reply")
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
}

// TestLeaderStalls checks that a leader that stops responding is given up if it is no
// longer the leader, and waited for if it is.
func TestLeaderStalls(t *testing.T) {
	all := startNodes(t, 3, resp.Options{})
	a := all.ask(2)
	a.want("1", "INCR", "k")
	stop := make(chan struct{})
	stall := func() { <-stop }
	all.list[0].before.Store(&stall)
	time.AfterFunc(300*time.Millisecond, func() { close(stop) })
	a.want("2", "INCR", "k")
	again, entered := make(chan struct{}), make(chan struct{}, 100)
	defer close(again)
	stallAgain := func() { entered <- struct{}{}; <-again }
	all.list[0].before.Store(&stallAgain)
	go func() { <-entered; all.lead(3) }()
	a.want(replyUnknown, "INCR", "k")
	a.want("3", "INCR", "k")
}
