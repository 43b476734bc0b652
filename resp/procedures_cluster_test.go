package resp_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

func forwarded(nd *node) int { return int(metric(nd, "resp_forwarded_commands_total")) }

// TestCallsInCluster checks that calls that write run on the leader, and calls that read on
// this node.
func TestCallsInCluster(t *testing.T) {
	all := startNodes(t, 3, resp.Options{})
	a := all.ask(2)
	a.want("2", "FCALL", "add", "1", "n", "2")
	a.want("5", "CALL", "add", "n", "3")
	a.want("6", "CALLONCE", "key", "add", "n", "1")
	a.want("ERR it failed [my_code]", "CALL", "fail", "n", "my_code", "it failed")
	a.want("ERR procedure panics failed; the server's log has the details [internal]", "CALL", "panics")
	a.want("ERR Can not execute a script with write flag using *_ro command. Procedure add writes: call it with FCALL [read_only]", "FCALL_RO", "add", "0", "n", "1")
	a.want("ERR Bad number of keys provided", "FCALL", "add", "x", "n", "1")
	before := forwarded(all.list[1])
	a.want("6", "FCALL", "value", "1", "n")
	a.want("6", "FCALL_RO", "value", "1", "n")
	a.want("6", "CALL", "value", "n")
	if n := forwarded(all.list[1]); n != before {
		t.Errorf("%d calls that only read were forwarded", n-before)
	}
	a.want("OK", "MULTI")
	a.want("QUEUED", "CALL", "add", "n", "1")
	a.want("QUEUED", "CALL", "value", "n")
	a.want("[7 7]", "EXEC")
	all.lead(3)
	a.want("8", "CALL", "add", "n", "1")

	a.want("OK", "CLIENT", "READ", "LOCAL")
	all.lead(0)
	a.want("8", "CALL", "value", "n") // any state is valid: it needs no other node
	all.lead(3)

	moves := all.ask(2) // a client that follows MOVED
	moves.want("OK", "CLIENT", "MOVED", "ON")
	moves.want("MOVED 12182 "+all.list[2].addr, "FCALL", "add", "1", "foo", "1")
	moves.want("1", "FCALL", "add", "0", "foo", "1") // no key, no slot
	moves.want("1", "FCALL_RO", "value", "1", "foo")
}

// TestOtherPrograms runs nodes whose programs have different procedures.
func TestOtherPrograms(t *testing.T) {
	one := func(*proc.Tx, noArgs) (int64, error) { return 1, nil }
	all := startNodes(t, 2, resp.Options{},
		[]proc.Procedure{proc.Define("new", one), proc.DefineRead("new.read", one), proc.Define("changed", func(*proc.Tx, keyArgs) (int64, error) { return 2, nil })},
		[]proc.Procedure{proc.Define("old", one), proc.Define("changed", func(*proc.Tx, voteArgs) (int64, error) { return 3, nil })})
	a := all.ask(2)
	const differs = " (node 1 leads and runs another version of the program) ["
	a.want("1", "CALL", "new")
	a.want("1", "CALL", "new.read")
	a.want("1", "FCALL_RO", "new.read", "0")
	a.want("2", "CALL", "changed", "k")
	for _, c := range []struct {
		code  string
		other bool
		words []string
	}{
		{"unknown_procedure", true, []string{"CALL", "old"}},
		{"unknown_procedure", true, []string{"FCALL", "old", "0"}},
		{"unknown_procedure", true, []string{"CALLONCE", "k", "old"}},
		{"unknown_procedure", false, []string{"CALL", "nobody's"}},
		{"invalid", true, []string{"CALL", "changed", "1", "2", "3"}},
		{"invalid", true, []string{"FCALL", "changed", "1", "1", "2", "3"}},
		{"invalid", true, []string{"CALLONCE", "k", "changed", "1", "2", "3"}},
		{"invalid", false, []string{"CALL", "changed", "a", "b"}},
		{"invalid", true, []string{"CALL", "new", "too many"}}, // known only to the leader
		{"invalid", false, []string{"CALL", "add", "k", "none"}},
	} {
		v := show(t, a.ask(c.words...))
		if !strings.HasSuffix(v, c.code+"]") || strings.Contains(v, differs) != c.other {
			t.Errorf("%q: %s", c.words, v)
		}
		if v := show(t, all.ask(1).ask(c.words...)); strings.Contains(v, differs) {
			t.Errorf("%q on the leader: %s", c.words, v)
		}
	}
	a.want("OK", "MULTI") // within a transaction, programs are not compared
	a.want("QUEUED", "CALL", "old")
	if v := show(t, a.ask("EXEC")); !strings.HasSuffix(v, "[unknown_procedure]]") {
		t.Errorf("EXEC: %s", v)
	}
	all.lead(2)
	a.want("1", "CALL", "old")
	if v := show(t, a.ask("CALL", "new")); !strings.HasSuffix(v, "[unknown_procedure]") || strings.Contains(v, "another version") {
		t.Errorf("a name that the leader does not know: %s", v)
	}
}

// next reads another value from the connection.
func (a *asker) next() wire.Value {
	a.Helper()
	v, err := a.read()
	if err != nil {
		a.Fatal(err)
	}
	return v
}

// read is like next, for any goroutine.
func (a *asker) read() (wire.Value, error) {
	a.nc.SetReadDeadline(time.Now().Add(30 * time.Second))
	return a.rd.Read()
}

func TestClusterLeader(t *testing.T) {
	all := startNodes(t, 3, resp.Options{})
	at := func(id int) string {
		host, port, _ := net.SplitHostPort(all.list[id-1].addr)
		return fmt.Sprintf("[00112233445566778899aabbccddeeff%08x %s %s]", id, host, port)
	}
	pushed := func(id int) string { return "[leader " + at(id)[1:] }
	a := all.ask(2)
	a.want(at(1), "CLUSTER", "LEADER")
	a.want("1", "CALL", "add", "n", "1") // nothing is pushed
	a.want(at(1), "CLUSTER", "LEADER", "PUSH")
	a.want("2", "CALL", "add", "n", "1")
	all.lead(3)
	// Once, before the reply of the first command that is forwarded.
	a.nc.Write([]byte("PING\r\nCALL add n 1\r\nCALL add n 1\r\nGET n\r\n"))
	for i, want := range []string{"PONG", pushed(3), "3", "4", "4"} {
		if v := show(t, a.next()); v != want {
			t.Errorf("reply %d: %s, want %s", i, v, want)
		}
	}
	all.lead(2) // this node, so nothing is forwarded
	a.want("5", "CALL", "add", "n", "1")
	all.lead(1)
	a.nc.Write([]byte("CLIENT REPLY SKIP\r\nINCR n\r\nMULTI\r\nINCR n\r\nEXEC\r\nFLUSHALL\r\n"))
	for i, want := range []string{"OK", "QUEUED", pushed(1), "[7]", "OK"} {
		if v := show(t, a.next()); v != want {
			t.Errorf("reply %d: %s, want %s", i, v, want)
		}
	}
	all.lead(3)
	a.nc.Write([]byte("FLUSHALL\r\n"))
	for i, want := range []string{pushed(3), "OK"} {
		if v := show(t, a.next()); v != want {
			t.Errorf("reply %d: %s, want %s", i, v, want)
		}
	}
	a.want("RESET", "RESET")
	a.ask("HELLO", "3")
	all.lead(1)
	a.want("1", "CALL", "add", "n", "1")

	a.ask("HELLO", "2")
	a.want("ERR CLUSTER LEADER PUSH needs RESP3: send HELLO 3 first", "CLUSTER", "LEADER", "PUSH")
	a.want("ERR syntax error", "CLUSTER", "LEADER", "x")
	a.want("ERR syntax error", "CLUSTER", "LEADER", "PUSH", "x")
	all.lead(0)
	a.want("nil", "CLUSTER", "LEADER")
	all.lead(1)
	all.plain.Store(true)
	a.want("nil", "CLUSTER", "LEADER")
	b := all.ask(1)
	b.want(at(1), "CLUSTER", "LEADER") // it knows the leader
	alone := newAsker(t, startSkerry(t, resp.Options{}))
	alone.want("nil", "CLUSTER", "LEADER")
	alone.want("nil", "CLUSTER", "LEADER", "PUSH")
	alone.want("1", "CALL", "add", "n", "1")
}

// TestCallOnceCut cuts the connection to the leader at every byte of its replies to calls
// with a key. The calls are sent again, each runs once, and the client does not notice.
func TestCallOnceCut(t *testing.T) {
	all := startNodes(t, 2, resp.Options{})
	cut := newCutter(all.list[1])
	a := all.ask(2)
	const calls = 6
	a.want("0", "CALL", "add", "warm", "0")
	for at := int64(0); ; at++ {
		key := fmt.Sprint("n", at)
		var b []byte
		for i := range calls {
			b = wire.AppendCommandStrings(b, "CALLONCE", fmt.Sprint("once", at, "-", i), "add", key, "1")
		}
		cut.in.Store(at)
		a.nc.Write(b)
		for i := range calls {
			if v := show(t, a.next()); v != fmt.Sprint(i+1) {
				t.Fatalf("cut at %d: reply %d is %s", at, i, v)
			}
		}
		if cut.in.Swap(uncut) < uncut/2 {
			break // the cut was not reached
		}
	}
}

// TestCallOnceAmongOthers combines calls with a key with commands that cannot be sent
// again.
func TestCallOnceAmongOthers(t *testing.T) {
	all := startNodes(t, 2, resp.Options{})
	lose := breaks(all.list[1])
	a := all.ask(2)
	for _, c := range []struct{ in, want string }{
		{"CALLONCE a add n 1,CALL add n 1,CALLONCE b add n 1,CALLONCE c add n 1", "unknown,unknown,3,4"},
		{"CALLONCE d add n 1,CALL value n,CALLONCE e add n 1,CALL value n", "unknown,broken,6,6"}, // a repeated read might see a later write
		{"CALLONCE f add n 1,CALLONCE g add n 1,CALL value n", "7,8,8"},
		{"CALLONCE h add n 1,MULTI,CALL add n 1,EXEC", "unknown,OK,QUEUED,unknown"},
		{"CALLONCE f add n 1", "7"},
	} {
		nothing := func() {}
		lose.Store(&nothing)
		a.nc.Write([]byte(strings.ReplaceAll(c.in, ",", "\r\n") + "\r\n"))
		for i, want := range strings.Split(c.want, ",") {
			switch want {
			case "unknown":
				want = replyUnknown
			case "broken":
				want = replyBroken
			}
			if v := show(t, a.next()); v != want {
				t.Errorf("%s: reply %d: %s, want %s", c.in, i, v, want)
			}
		}
		if lose.Load() != nil {
			t.Errorf("%s: the connection was not broken", c.in)
		}
	}
	a.want("10", "CALL", "value", "n")
}

// TestCallOnceLeaderChanges checks that the next leader knows which calls have run, and
// that without a leader no reply claims that nothing was written.
func TestCallOnceLeaderChanges(t *testing.T) {
	all := startNodes(t, 3, resp.Options{ElectionWait: 500 * time.Millisecond})
	lose := breaks(all.list[1])
	a := all.ask(2)
	for i, c := range []struct {
		from, to uint64
		want     string
	}{{1, 3, "1"}, {3, 1, "2"}, {1, 2, "3"}, {1, 0, replyUnknown}} {
		all.lead(c.from)
		next := func() { all.lead(c.to) }
		lose.Store(&next)
		key := fmt.Sprint("key", i)
		a.want(c.want, "CALLONCE", key, "add", "n", "1")
		if lose.Load() != nil {
			t.Errorf("%d: the connection was not broken", i)
		}
		if c.to == 0 {
			all.lead(3)
		}
		a.want(fmt.Sprint(i+1), "CALLONCE", key, "add", "n", "1")
		a.want(fmt.Sprint(i+1), "CALL", "value", "n")
	}
}

// TestCallOnceThatBreaksLeaders checks that a call that crashes every leader is not sent to
// a third one, nor are the commands sent with it. Later ones are.
func TestCallOnceThatBreaksLeaders(t *testing.T) {
	ends := proc.Define("ends", func(*proc.Tx, noArgs) (int64, error) { return 0, errors.New("the node would be gone") })
	all := startNodes(t, 3, resp.Options{}, []proc.Procedure{ends}, []proc.Procedure{ends}, []proc.Procedure{ends})
	lose := breaks(all.list[1])
	breakAgain := func(n int, to ...uint64) { // each break moves the leadership to another node
		var next func()
		next = func() {
			all.lead(to[0])
			if to, n = to[1:], n-1; n > 0 {
				lose.Store(&next)
			}
		}
		lose.Store(&next)
	}
	a := all.ask(2)
	breakAgain(forward.MaxBreaks, 3, 1)
	a.want(replyUnknown, "CALLONCE", "k", "ends") // the third one would reply
	if lose.Load() != nil {
		t.Error("it was not sent again")
	}
	breakAgain(1, 3)
	a.want("ERR the node would be gone [procedure_failed]", "CALLONCE", "k2", "ends")

	all.lead(1)
	breakAgain(forward.MaxBreaks, 3, 1)
	a.nc.Write([]byte("CALLONCE k3 add n 1\r\nCALLONCE k4 ends\r\nPING\r\n"))
	for i, want := range []string{replyUnknown, replyUnknown, "PONG"} {
		if v := show(t, a.next()); v != want {
			t.Errorf("reply %d: %s, want %s", i, v, want)
		}
	}
	a.want("1", "CALLONCE", "k3", "add", "n", "1") // with its key, as before
	a.want("2", "CALLONCE", "k5", "add", "n", "1")
}

// TestCallOnceUnknownCommit checks that if a leader does not know the outcome of a batch,
// the batch is sent again to it or to the next leader, provided that all calls have keys.
func TestCallOnceUnknownCommit(t *testing.T) {
	all := startNodes(t, 2, resp.Options{})
	for _, id := range []int{1, 2} { // on the leader, and forwarded
		a, key := all.ask(id), fmt.Sprint("n", id)
		lose := func(to uint64) {
			after := func() error {
				all.list[0].after.Store(nil)
				all.lead(to)
				return engine.ErrOutcomeUnknown
			}
			all.list[0].after.Store(&after)
		}
		for i, to := range []uint64{1, 2} {
			lose(to)
			once := fmt.Sprint(key, i)
			a.nc.Write([]byte("CALLONCE " + once + " add " + key + " 1\r\nCALLONCE " + once + "b add " + key + " 1\r\nGET " + key + "\r\n"))
			for j, want := range []int{2*i + 1, 2*i + 2, 2*i + 2} {
				if v := show(t, a.next()); v != fmt.Sprint(want) {
					t.Errorf("node %d, leader %d, reply %d: %s, want %d", id, to, j, v, want)
				}
			}
			all.lead(1)
		}
		lose(1)
		a.nc.Write([]byte("CALLONCE " + key + "c add " + key + " 1\r\nCALL add " + key + " 1\r\n"))
		for range 2 {
			if v := show(t, a.next()); !strings.HasPrefix(v, "UNKNOWN ") || !strings.HasSuffix(v, "[outcome_unknown]") {
				t.Errorf("node %d: %s", id, v)
			}
		}
		a.want("6", "CALL", "value", key)
	}
}

// TestCallOnceLeadersAndBreaks checks that regardless of leader changes and broken
// connections, each call with a key runs once, and in the order of its connection unless
// some have met too many breaks.
func TestCallOnceLeadersAndBreaks(t *testing.T) {
	all := startNodes(t, 3, resp.Options{})
	s := seed.Of(t)
	rng := rand.New(rand.NewPCG(s, 3))
	cuts := []*cutter{newCutter(all.list[0]), newCutter(all.list[1]), newCutter(all.list[2])}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for c := range 6 {
		a := all.ask(c%3 + 1)
		wg.Go(func() { addNumbers(a, fmt.Sprint("sum", c), stop) })
	}
	for range 60 {
		time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
		c := cuts[rng.IntN(3)]
		switch rng.IntN(3) {
		case 0:
			c.in.Store(rng.Int64N(2000))
		case 1:
			c.out.Store(rng.Int64N(20_000))
		default:
			all.lead(uint64(rng.IntN(4))) // 0: none for now
		}
	}
	all.lead(2)
	close(stop)
	wg.Wait()
}

// addNumbers adds one to key, each time under a new idempotency key.
func addNumbers(a *asker, key string, stop chan struct{}) {
	for n := 0; ; {
		select {
		case <-stop:
			return
		default:
		}
		const batch = 20
		var b []byte
		for i := range batch {
			b = wire.AppendCommandStrings(b, "CALLONCE", fmt.Sprint(key, "-", n+i), "add", key, "1")
		}
		a.nc.Write(b)
		sums, unknown := map[int64]bool{}, []int(nil)
		for i := range batch {
			v, err := a.read()
			switch {
			case err == nil && string(v.Str) == replyUnknown:
				unknown = append(unknown, n+i)
			case err != nil || v.IsError() || unknown == nil && v.Int != int64(n+i+1):
				a.Errorf("%s: call %d: %v %s", key, n+i, err, show(a.TB, v))
				return
			}
			sums[v.Int] = true
		}
		for len(unknown) > 0 { // its key is known
			a.nc.Write(wire.AppendCommandStrings(nil, "CALLONCE", fmt.Sprint(key, "-", unknown[0]), "add", key, "1"))
			v, err := a.read()
			if err == nil && string(v.Str) == replyUnknown {
				continue
			}
			unknown, sums[v.Int] = unknown[1:], true
		}
		delete(sums, 0)
		for range batch {
			if n++; !sums[int64(n)] {
				a.Errorf("%s: no call has made it %d: %v", key, n, sums)
				return
			}
		}
	}
}

// breaks makes the connections of a node to others break when the reply to a CALLONCE
// arrives. The function in the returned pointer is then removed and called.
func breaks(nd *node) *atomic.Pointer[func()] {
	lose := &atomic.Pointer[func()]{}
	wrap := func(nc net.Conn) net.Conn { return &breaker{Conn: nc, lose: lose} }
	nd.wrap.Store(&wrap)
	return lose
}

type breaker struct {
	net.Conn
	lose *atomic.Pointer[func()]
	sent atomic.Bool
}

// Write passes all data on.
func (b *breaker) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("CALLONCE")) {
		b.sent.Store(true)
	}
	return b.Conn.Write(p)
}

// Read drops the reply.
func (b *breaker) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if err != nil || !b.sent.Load() {
		return n, err
	}
	if f := b.lose.Swap(nil); f != nil {
		(*f)()
		b.Conn.Close()
		return 0, errCut
	}
	b.sent.Store(false) // a later reply to something else, such as a ping, is not dropped
	return n, nil
}
