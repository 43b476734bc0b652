package resp

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/resp/wire"
)

// expecting is an engine whose transactions report the keys that are announced, and pass
// them on.
type expecting struct {
	*embedded.DB
	wants  func(engine.Expecter) bool // the result of Expects
	expect func(keys [][]byte)        // nil: nothing is reported
	twice  bool                       // every transaction is run again
}

func (e *expecting) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	w := &expectingTx{e: e}
	return e.DB.View(ctx, r, func(tx engine.Tx) error {
		w.Tx = tx
		return w.run(func() error { return fn(w) })
	})
}

func (e *expecting) UpdateEach(ctx context.Context, n int, fn func(engine.Tx, int) error) (engine.Position, error) {
	w := &expectingTx{e: e}
	return e.DB.UpdateEach(ctx, n, func(tx engine.Tx, i int) error {
		w.Tx = tx
		return w.run(func() error { return fn(w, i) })
	})
}

type expectingTx struct {
	engine.Tx
	e *expecting
}

// run runs fn, the second time after its writes have been undone.
func (t *expectingTx) run(fn func() error) error {
	if t.e.twice {
		mark := t.Savepoint()
		_ = fn()
		if err := t.RollbackTo(mark); err != nil {
			return err
		}
	}
	return fn()
}

func (t *expectingTx) Expects() bool { return t.e.wants(t.Tx.(engine.Expecter)) }

func (t *expectingTx) Expect(keys [][]byte) {
	if t.e.expect != nil {
		t.e.expect(keys)
	}
	t.Tx.(engine.Expecter).Expect(keys)
}

func (t *expectingTx) Savepoint() int {
	if sp, ok := t.Tx.(engine.Savepointer); ok {
		return sp.Savepoint()
	}
	return 0 // it only reads
}

func (t *expectingTx) RollbackTo(mark int) error {
	if sp, ok := t.Tx.(engine.Savepointer); ok {
		return sp.RollbackTo(mark)
	}
	return nil
}

func always(engine.Expecter) bool { return true }

// localConn returns a connection without a socket, and a function that handles commands
// that arrive together and returns their replies, which are valid until the next call.
func localConn(t testing.TB, srv *Server) func(in []byte) []byte {
	t.Helper()
	ours, _ := net.Pipe()
	c := newConn(srv, ours, 1, fromClient)
	t.Cleanup(func() { c.kill(); c.pushes.end() })
	var src bytes.Reader
	c.rd = wire.NewReader(&src, &srv.bufs, wire.Limits{})
	return func(in []byte) []byte {
		src.Reset(in)
		c.out.Buf = c.out.Buf[:0]
		clear(c.args)
		c.args = c.args[:0]
		for src.Len() > 0 {
			if err := c.rd.Fill(); err != nil {
				t.Error(err)
			}
		}
		c.handle()
		return c.out.Buf
	}
}

// commandLines returns the commands of lines of words.
func commandLines(text string) []byte {
	var b []byte
	for line := range strings.Lines(text) {
		b = wire.AppendCommandStrings(b, strings.Fields(line)...)
	}
	return b
}

// TestExpect checks which keys are announced together.
func TestExpect(t *testing.T) {
	eng := &expecting{DB: openEngine(t), wants: always}
	var got []string
	eng.expect = func(keys [][]byte) {
		for i, key := range keys {
			if i == 0 {
				got = append(got, "|")
			}
			got = append(got, fmt.Sprintf("%d%s", key[1], key[2:]))
		}
	}
	do := localConn(t, newTestServer(t, eng, nil, Options{}))
	var many, groups strings.Builder
	for i := range 2*kv.MaxExpected + 2 {
		fmt.Fprintf(&many, "SET %d 1\n", i)
		if i%kv.MaxExpected == 0 {
			groups.WriteString(" |")
		}
		fmt.Fprintf(&groups, " 0%d", i)
	}
	for _, c := range []struct{ what, commands, want string }{
		{"one key", "SET a 1", ""},
		{"writes", "SET a 1\nINCR b\nDEL c d\nMSET e 1 f 2", "| 0a 0b 0c 0d 0e 0f"},
		{"reads", "GET a\nMGET b c\nEXISTS d", "| 0a 0b 0c 0d"},
		{"reads, then writes", "GET a\nGET b\nSET c 1\nGET d", "| 0a 0b | 0c 0d"},
		{"two databases", "SET a 1\nSELECT 1\nSET b 1\nSELECT 0\nSET c 1", "| 0a 1b 0c"},
		{"EXEC", "GET z\nMULTI\nSET a 1\nGET b\nEXEC\nSET c 1", "| 0a 0b 0c"},
		{"a key that is too long", "SET a 1\nSET " + strings.Repeat("x", 2049) + " 1\nSET b 1", "| 0a 0b"},
		{"many", many.String(), groups.String()[1:]},
	} {
		got = nil
		do(commandLines(c.commands))
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: announced %q, want %q", c.what, got, c.want)
		}
	}
}

// TestExpectMore checks that of a command with many keys, or long ones, the rest is announced
// later.
func TestExpectMore(t *testing.T) {
	eng := &expecting{DB: openEngine(t), wants: always}
	var got []int
	eng.expect = func(keys [][]byte) { got = append(got, len(keys)) }
	do := localConn(t, newTestServer(t, eng, nil, Options{}))
	many := func(name string, n int, key string) string { return name + strings.Repeat(" "+key, n) + "\n" }
	for _, c := range []struct{ commands, want string }{
		{many("MGET", 50, "k") + many("MGET", 50, "k") + many("MGET", 50, "k"), "[64 64 50]"},
		{many("MGET", 150, "k") + many("EXISTS", 10, "k"), "[64 64 22 10]"},
		{many("MSET", 150, "k v") + many("DEL", 130, "k"), "[64 64 22 64 64 2]"},
		{many("MGET", 50, strings.Repeat("k", 2000)) + many("MGET", 2, "k"), "[33 2]"},
		{"MULTI\n" + strings.Repeat("SET k v\n", 150) + "EXEC\n", "[64 64 22]"},
	} {
		if got = nil; bytes.HasPrefix(do(commandLines(c.commands)), []byte("-")) || fmt.Sprint(got) != c.want {
			t.Errorf("%.20q… announced %v, want %v", c.commands, got, c.want)
		}
	}
}

// TestExpectChangesNothing sends the same random pipelines to a server with so much data
// that the engine looks keys up ahead, and to one with only the keys of the commands.
func TestExpectChangesNothing(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	large, small := fullEngine(t), openEngine(t)
	var ahead atomic.Int64
	spy := &expecting{DB: large, wants: engine.Expecter.Expects, expect: func(keys [][]byte) { ahead.Add(int64(len(keys))) }}
	got := localConn(t, newTestServer(t, spy, nil, Options{}))
	want := localConn(t, newTestServer(t, small, nil, Options{}))
	sameReplies(t, rng, expectCommand, got, want)
	if ahead.Load() < 1000 {
		t.Errorf("only %d keys were announced", ahead.Load())
	}
}

// sameReplies sends the same random pipelines to a server that is told keys ahead, and to
// one that is not. The replies must be the same.
func sameReplies(t *testing.T, rng *rand.Rand, command func(*rand.Rand) string, got, want func([]byte) []byte) {
	t.Helper()
	for range 200 {
		var text strings.Builder
		for range 1 + rng.IntN(150) {
			text.WriteString(command(rng) + "\n")
		}
		in := commandLines(text.String())
		if g, w := got(in), want(in); !bytes.Equal(g, w) {
			t.Fatalf("%s\nreplies with keys told ahead: %q\nwithout: %q", text.String(), g, w)
		}
	}
}

// fullEngine returns an engine with so much data that it wants keys to be announced.
func fullEngine(t testing.TB) *embedded.DB {
	t.Helper()
	eng := openEngine(t)
	const filler = 1<<17 + 1000
	if _, err := eng.UpdateEach(t.Context(), filler/1000, func(tx engine.Tx, i int) error {
		for j := range 1000 {
			if err := tx.Put(fmt.Appendf(nil, "k%c%d-", j%2, i*1000+j), []byte("filler")); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return eng
}

// expectCommand returns a command on keys that are spread over those of the filler.
func expectCommand(rng *rand.Rand) string {
	key := func() string { return fmt.Sprint(rng.IntN(200) * 655) }
	if rng.IntN(2) == 0 {
		return "GET " + key()
	}
	return []string{
		"SET " + key() + " " + strings.Repeat("v", rng.IntN(300)), "SET " + key() + " 7", "INCR " + key(), "DEL " + key() + " " + key(),
		"APPEND " + key() + " 1", "MGET " + key() + " " + key() + " " + key(), "EXISTS " + key(), "RENAME " + key() + " " + key(), "GETDEL " + key(),
		"MSET " + key() + " 1 " + key() + " 2", "MULTI", "EXEC", "DISCARD", "WATCH " + key(), "SELECT " + fmt.Sprint(rng.IntN(2)), "PING",
	}[rng.IntN(16)]
}

// TestExpectAllocatesNothing compares the allocations of pipelines with and without
// announced keys.
func TestExpectAllocatesNothing(t *testing.T) {
	if raced {
		return // the race detector makes pools forget at random
	}
	eng := &expecting{DB: openEngine(t)}
	do := localConn(t, newTestServer(t, eng, nil, Options{}))
	for _, line := range []string{"SET a 1\n", "GET a\n", "MGET a b c d\n"} {
		in := commandLines(strings.Repeat(line, 64))
		count := func(wants bool) float64 {
			eng.wants = func(engine.Expecter) bool { return wants }
			return testing.AllocsPerRun(200, func() { do(in) })
		}
		if off, on := count(false), count(true); on > off+1 {
			t.Errorf("64 times %q allocate %v times, %v without announcing keys", line, on, off)
		}
	}
}

// BenchmarkPipeline has 8 callers, each with 64 commands at a time on random keys, with
// and without announcing the keys, by turns. There are no sockets.
func BenchmarkPipeline(b *testing.B) {
	for _, keys := range []int{100_000, 1_000_000} {
		var off atomic.Bool
		eng := &expecting{DB: openEngine(b), wants: func(e engine.Expecter) bool { return !off.Load() && e.Expects() }}
		set := proc.Define("set", func(tx *proc.Tx, in aheadIn) (bool, error) {
			r, err := tx.KV(0).Set([]byte(in.Key), []byte("v"), kv.SetOptions{SkipOld: true})
			return r.Written, err
		}).Hint(aheadHint)
		procs, err := proc.New(eng, proc.Options{}, set)
		if err != nil {
			b.Fatal(err)
		}
		srv := newTestServer(b, eng, nil, Options{Procedures: procs})
		fillKeys(b, srv, keys)
		for _, cmd := range []string{"SET", "GET", "CALL set"} {
			for turn := range 6 {
				off.Store(turn%2 == 0)
				b.Run(fmt.Sprintf("%s/%d/%s", cmd, keys, [...]string{"off", "on"}[turn%2]), func(b *testing.B) {
					start := cpuNanos()
					var work sync.WaitGroup
					for range 8 {
						do := localConn(b, srv)
						work.Go(func() { pipelines(b, do, cmd, keys) })
					}
					work.Wait()
					b.ReportMetric(float64(cpuNanos()-start)/float64(b.N), "cpu-ns/op")
				})
			}
		}
		if err := eng.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

const benchKeyForm = "key:%012d"

// fillKeys sets keys with values of 100 bytes, in a random order.
func fillKeys(b *testing.B, srv *Server, keys int) {
	do := localConn(b, srv)
	val := strings.Repeat("v", 100)
	order := rand.New(rand.NewPCG(1, 2)).Perm(keys) //nolint:gosec // not for secrets
	for len(order) > 0 {
		var in []byte
		for _, i := range order[:1000] {
			in = wire.AppendCommandStrings(in, "SET", fmt.Sprintf(benchKeyForm, i), val)
		}
		do(in)
		order = order[1000:]
	}
}

// pipelines is one caller of 8, which together run b.N commands.
func pipelines(b *testing.B, do func([]byte) []byte, cmd string, keys int) {
	const each = 64
	words := append(strings.Fields(cmd), fmt.Sprintf(benchKeyForm, 0))
	if cmd == "SET" {
		words = append(words, strings.Repeat("v", 100))
	}
	one := wire.AppendCommandStrings(nil, words...)
	at := bytes.Index(one, []byte("key:")) + len("key:")
	in := bytes.Repeat(one, each)
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0)) //nolint:gosec // not for secrets
	for range b.N/8/each + 1 {
		for i := range each {
			key := in[i*len(one)+at:][:12]
			for n, j := rng.IntN(keys), 11; j >= 0; n, j = n/10, j-1 {
				key[j] = '0' + byte(n%10)
			}
		}
		if out := do(in); out[0] == '-' {
			b.Errorf("%q", out)
		}
	}
}

// cpuNanos is what the process has used.
func cpuNanos() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}
