package resp_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

// randomPipeline returns commands whose replies depend on the order in which they run, and
// are the same on every server.
func randomPipeline(rng *rand.Rand, n int) []byte {
	var b []byte
	depth := 0
	for range n {
		k, v := fmt.Sprint("k", rng.IntN(5)), strings.Repeat(strconv.Itoa(rng.IntN(10)), rng.IntN(300))
		all := [][]string{
			{"SET", k, v}, {"GET", k}, {"APPEND", k, "x"}, {"STRLEN", k}, {"INCR", "n" + k}, {"MGET", k, "nk1"},
			{"DEL", k}, {"PING", v}, {"SELECT", strconv.Itoa(rng.IntN(3))}, {"GETSET", k, v}, {"INCR", k},
			{"EXISTS", k}, {"SET", k}, {"BOGUS", k}, {"WATCH", k}, {"KEYS", "*"}, {"CLIENT", "REPLY", "SKIP"},
			{"COPY", k, "k1", "REPLACE"}, {"SORT_RO", "none"}, {"FLUSHDB"}, {"ECHO", k}, {"CLIENT", "GETNAME"},
			{"CALL", "add", "n" + k, "2"}, {"FCALL", "add", "1", k, "2"}, {"FCALL_RO", "value", "1", k}, {"FCALL", "nothing", "0"},
			{"FCALL", "add", "x", k, "1"}, {"CALL", "add", k, "none"}, {"FCALL_RO", "add", "1", k, "1"}, {"CALL", "fail", "n" + k, "my_code", v},
		}
		words := all[rng.IntN(len(all))]
		switch {
		case depth > 0 && rng.IntN(4) == 0:
			words, depth = []string{[]string{"EXEC", "EXEC", "EXEC", "DISCARD"}[rng.IntN(4)]}, 0
		case depth > 0 && words[0] == "CLIENT":
			words = []string{"GET", k} // about the connection: not the same on a follower
		case depth == 0 && rng.IntN(8) == 0:
			words, depth = []string{"MULTI"}, 1
		}
		b = wire.AppendCommandStrings(b, words...)
	}
	return b
}

// exchange sends b in pieces, followed by QUIT, and returns all replies.
func exchange(t *testing.T, addr string, rng *rand.Rand, b []byte) []byte {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	go func() {
		b := append(bytes.Clone(b), "DISCARD\r\nQUIT\r\n"...)
		for len(b) > 0 {
			n := min(len(b), 1+rng.IntN(5000))
			nc.Write(b[:n])
			b = b[n:]
		}
	}()
	nc.SetReadDeadline(time.Now().Add(30 * time.Second))
	out, err := io.ReadAll(nc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestForwardedPipelines sends the same pipelines to a single node, to a follower and to a
// leader. The replies must be the same bytes.
func TestForwardedPipelines(t *testing.T) {
	s := seed.Of(t)
	for round := range uint64(6) {
		alone, all := startSkerry(t, resp.Options{}), startNodes(t, 2, resp.Options{})
		b := randomPipeline(rand.New(rand.NewPCG(s, round)), 1500)
		if round%2 == 1 {
			b = append([]byte("HELLO 3 SETNAME x\r\n"), b...)
		}
		want := exchange(t, alone, rand.New(rand.NewPCG(s, round)), b)
		for id := 2; id >= 1; id-- {
			got := exchange(t, all.list[id-1].addr, rand.New(rand.NewPCG(s, round+100)), b)
			if round%2 == 1 { // HELLO returns the mode
				want, got = want[bytes.Index(want, []byte("modules")):], got[bytes.Index(got, []byte("modules")):]
			}
			if !bytes.Equal(got, want) {
				i := 0
				for i < min(len(got), len(want)) && got[i] == want[i] {
					i++
				}
				from := max(0, i-100)
				t.Fatalf("round %d, node %d: %d bytes, want %d; from byte %d on:\n%.200q\nwant\n%.200q",
					round, id, len(got), len(want), from, got[from:], want[from:])
			}
			all.ask(1).ask("FLUSHALL")
		}
	}
}

func (a *asker) want(want string, words ...string) {
	a.Helper()
	if got := show(a.TB, a.ask(words...)); got != want {
		a.Errorf("%s: %s, want %s", strings.Join(words, " "), got, want)
	}
}

// show formats a reply on one line.
func show(tb testing.TB, v wire.Value) string {
	tb.Helper()
	switch v.Kind {
	case wire.KindInt:
		return strconv.FormatInt(v.Int, 10)
	case wire.KindBool:
		return strconv.FormatBool(v.Int == 1)
	case wire.KindNull:
		return "nil"
	case wire.KindArray, wire.KindMap, wire.KindSet, wire.KindPush:
		var parts []string
		for _, e := range v.List {
			parts = append(parts, show(tb, e))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return string(v.Str)
}

func TestForwardedTransactions(t *testing.T) {
	all := startNodes(t, 3, resp.Options{})
	a, b := all.ask(2), all.ask(3)
	a.want("OK", "SET", "k", "1")
	b.want("1", "GET", "k")
	watch := func() {
		a.want("OK", "WATCH", "k", "absent")
		a.want("OK", "MULTI")
		a.want("QUEUED", "INCR", "k")
		a.want("QUEUED", "GET", "k")
	}
	watch()
	a.want("[2 2]", "EXEC")
	watch()
	b.want("3", "INCR", "k")
	a.want("nil", "EXEC")
	watch()
	b.want("OK", "SET", "absent", "x")
	a.want("nil", "EXEC")
	b.want("1", "DEL", "absent")
	watch()
	all.lead(3) // the keys are watched, whichever node is the leader
	a.want("[4 4]", "EXEC")
	watch()
	b.want("5", "INCR", "k")
	all.lead(2) // including this one
	a.want("nil", "EXEC")
	watch()
	all.lead(1)
	a.want("[6 6]", "EXEC")

	// Transactions that only read, or that concern the connection, stay on this node.
	a.want("OK", "MULTI")
	a.want("QUEUED", "GET", "k")
	a.want("QUEUED", "CLIENT", "GETNAME")
	a.want("[6 nil]", "EXEC")
	a.want("OK", "MULTI")
	a.want("QUEUED", "SELECT", "3")
	a.want("QUEUED", "SET", "three", "3")
	a.want("QUEUED", "INCR", "three")
	a.want("[OK OK 4]", "EXEC")
	a.want("4", "GET", "three") // SELECT took effect
	a.want("OK", "SELECT", "0")
	a.want("OK", "MULTI")
	a.want("QUEUED", "CLIENT", "ID")
	a.want("QUEUED", "SET", "k", "7")
	a.want("ERR a transaction that both writes and uses commands about the connection runs only on the leader [unsupported]", "EXEC")
	a.want("6", "GET", "k")
	a.want("OK", "MULTI")
	a.want("QUEUED", "FLUSHALL")
	a.want("QUEUED", "SET", "k", "7")
	a.want("[OK OK]", "EXEC")
	b.want("1", "DBSIZE")
	a.want("OK", "FLUSHALL")
	b.want("0", "DBSIZE")
}

// TestForwardedBigReplies has replies and commands exceed buffer limits in both directions.
func TestForwardedBigReplies(t *testing.T) {
	all := startNodes(t, 2, resp.Options{})
	big := strings.Repeat("0123456789abcdef", 1<<20) // 16 MiB
	a := all.ask(2)
	var b []byte
	for i := range 3 {
		b = wire.AppendCommandStrings(b, "SET", fmt.Sprint("big", i), big)
		b = wire.AppendCommandStrings(b, "GET", fmt.Sprint("big", i))
	}
	b = wire.AppendCommandStrings(b, "MGET", "big0", "big1", "none")
	b = wire.AppendCommandStrings(b, "STRLEN", "big2")
	go a.nc.Write(b)
	for i := range 8 {
		v, err := a.rd.Read()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case i < 6 && i%2 == 1 && string(v.Str) != big, i < 6 && i%2 == 0 && string(v.Str) != "OK",
			i == 6 && (len(v.List) != 3 || string(v.List[1].Str) != big), i == 7 && v.Int != int64(len(big)):
			t.Errorf("reply %d is wrong: %c, %d bytes", i, v.Kind, len(v.Str))
		}
	}
}

// TestLeaderChanges moves the leadership under load. Every client appends numbers to its
// own key through one node, in pipelines. Acknowledged numbers must be there once and in
// order, and numbers with an unknown outcome at most once.
func TestLeaderChanges(t *testing.T) {
	all := startNodes(t, 3, resp.Options{})
	rng := rand.New(rand.NewPCG(seed.Of(t), 1))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for c := range 6 {
		a := all.ask(c%3 + 1)
		wg.Go(func() { appendNumbers(a, fmt.Sprint("log", c), stop) })
	}
	for range 40 {
		time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
		all.lead(uint64(rng.IntN(4))) // 0: none for now
	}
	all.lead(2)
	close(stop)
	wg.Wait()
}

// TestLeaderLeaves stops the leader's face as a signal does, under load, before and after
// the leadership has moved to another node. No client of other nodes notices.
func TestLeaderLeaves(t *testing.T) {
	for name, leave := range map[string]func(all *nodes){
		"handed over": func(all *nodes) { all.lead(3); all.list[0].stop() },
		"just gone":   func(all *nodes) { all.list[0].stop(); all.lead(3) },
		"gone before": func(all *nodes) { all.list[0].stop(); time.Sleep(200 * time.Millisecond); all.lead(3) },
	} {
		t.Run(name, func(t *testing.T) {
			all := startNodes(t, 3, resp.Options{})
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for c := range 6 {
				a := all.ask(c%2 + 2)
				wg.Go(func() { appendNumbers(a, fmt.Sprint("log", c), stop) })
			}
			forwards := func(what string) {
				before := metric(all.list[1], "resp_forwarded_commands_total")
				eventually.True(t, what, func() bool { return metric(all.list[1], "resp_forwarded_commands_total") >= before+1000 })
			}
			forwards("commands before")
			start := time.Now()
			leave(all)
			forwards("commands afterwards")
			close(stop)
			wg.Wait()
			unknown := metric(all.list[1], "resp_forward_unknown_total") + metric(all.list[2], "resp_forward_unknown_total")
			if d := time.Since(start); unknown > 0 && d < time.Second { // otherwise the leader was given up as too slow
				t.Errorf("the outcome of %v commands is unknown after %v", unknown, d)
			}
		})
	}
}

func appendNumbers(a *asker, key string, stop chan struct{}) {
	acked := map[int]bool{}
	n := 0
	for done := false; !done || n < 40; {
		select {
		case <-stop:
			done = true
		default:
		}
		const batch = 20
		var b []byte
		for i := range batch {
			b = wire.AppendCommandStrings(b, "APPEND", key, fmt.Sprintf("%d,", n+i))
		}
		a.nc.Write(b)
		for i := range batch {
			v, err := a.rd.Read()
			if err != nil {
				a.Errorf("%s: %v", key, err)
				return
			}
			if v.IsError() && string(v.Str) != replyUnknown {
				a.Errorf("%s: %s", key, v.Str) // elections are short
			}
			acked[n+i] = !v.IsError()
		}
		n += batch
	}
	last := -1
	for _, word := range strings.Split(strings.TrimSuffix(string(a.ask("GET", key).Str), ","), ",") {
		i, err := strconv.Atoi(word)
		if err != nil || i <= last {
			a.Errorf("%s: %s after %d", key, word, last)
			return
		}
		last = i
		delete(acked, i)
	}
	for i, ok := range acked {
		if ok {
			a.Errorf("%s: %d was acknowledged and is lost", key, i)
		}
	}
}

// TestLeaderLostMidway deposes the leader after the first batch of a pipeline. The next
// leader must run the rest in order.
func TestLeaderLostMidway(t *testing.T) {
	for _, from := range []int{1, 2} { // through the leader itself, and through another node
		all := startNodes(t, 3, resp.Options{})
		a := all.ask(from)
		var calls atomic.Int64
		before := func() {
			if calls.Add(1) == 3 {
				all.lead(3)
			}
		}
		all.list[0].before.Store(&before)
		var b []byte
		const n = 5000 // more than one batch
		for i := range n {
			b = wire.AppendCommandStrings(b, "APPEND", "k", strconv.Itoa(i%10))
		}
		go a.nc.Write(b)
		for i := range n {
			if v, err := a.rd.Read(); err != nil || v.Int != int64(i+1) {
				t.Fatalf("reply %d: %s, %v", i, show(t, v), err)
			}
		}
		if !all.list[2].leads() {
			t.Error("the leader did not change")
		}
	}
}
