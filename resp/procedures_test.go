package resp_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/resp"
)

// The arguments of the procedures that the tests call.
type (
	noArgs  struct{}
	addArgs struct {
		Key string `json:"key"`
		N   int64  `json:"n"`
	}
	keyArgs  struct{ Key string }
	voteArgs struct{ Phone, Contestant, Limit int64 }
	failArgs struct{ Key, Code, Text string }
	sizeArgs struct{ Bytes int }
	putArgs  struct {
		Key string
		Val []byte
	}
	anyArgs struct {
		Text string         `json:"text"`
		List []int          `json:"list,omitempty"`
		Map  map[string]int `json:"map,omitempty"`
	}
	shape struct {
		Int   int64
		Yes   bool
		Text  string
		Float float64
		None  *int
		List  []int
		Map   map[string]int
	}
)

// testProcedures returns the procedures of every test server, and those in extra.
func testProcedures(tb testing.TB, eng engine.Engine, extra ...proc.Procedure) *proc.Set {
	tb.Helper()
	set, err := proc.New(eng, proc.Options{}, append(extra,
		proc.Define("add", func(tx *proc.Tx, in addArgs) (int64, error) { return tx.KV(0).Add([]byte(in.Key), in.N) }).Describe("adds n to key"),
		proc.Define("vote", vote),
		proc.DefineRead("sum", func(_ *proc.Tx, in voteArgs) (int64, error) { return in.Phone + in.Contestant + in.Limit, nil }),
		proc.DefineRead("value", func(tx *proc.Tx, in keyArgs) (*string, error) {
			e, ok, err := tx.KV(0).Get([]byte(in.Key))
			if err != nil || !ok {
				return nil, err
			}
			s := string(e.Val)
			return &s, nil
		}),
		proc.Define("fail", func(tx *proc.Tx, in failArgs) (noArgs, error) {
			if _, err := tx.KV(0).Add([]byte(in.Key), 1); err != nil {
				return noArgs{}, err
			}
			if in.Code == "" {
				return noArgs{}, errors.New(in.Text)
			}
			return noArgs{}, engine.Errorf(engine.Code(in.Code), "%s", in.Text)
		}),
		proc.Define("put", func(tx *proc.Tx, in putArgs) (noArgs, error) {
			_, err := tx.KV(0).Set([]byte(in.Key), in.Val, kv.SetOptions{})
			return noArgs{}, err
		}),
		proc.Define("panics", func(*proc.Tx, noArgs) (noArgs, error) { panic("a procedure's own fault") }),
		proc.DefineRead("sneaks", func(tx *proc.Tx, in keyArgs) (int64, error) { return tx.KV(0).Add([]byte(in.Key), 1) }),
		proc.DefineRead("zeros", func(_ *proc.Tx, in sizeArgs) ([]byte, error) { return make([]byte, in.Bytes), nil }),
		proc.DefineRead("echo", func(_ *proc.Tx, in anyArgs) (anyArgs, error) { return in, nil }),
		proc.DefineRead("shape", func(*proc.Tx, noArgs) (shape, error) {
			return shape{Int: 7, Yes: true, Text: "a\r\nb", Float: 1.5, List: []int{1, 2}, Map: map[string]int{"b": 2, "a": 1}}, nil
		}),
	)...)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

// vote has three statements, like a typical procedure. It does not allocate, so that a
// benchmark measures the overhead of calling it.
func vote(tx *proc.Tx, in voteArgs) (int64, error) {
	var buf [32]byte
	t := tx.KV(1)
	if in.Contestant < 1 || in.Contestant > 12 {
		return 1, nil
	}
	phone := strconv.AppendInt(append(buf[:0], 'p'), in.Phone, 10)
	n, err := t.Add(phone, 1)
	if err != nil {
		return 0, err
	}
	if n > in.Limit {
		_, err = t.Add(phone, -1)
		return 2, err
	}
	_, err = t.Add(strconv.AppendInt(append(buf[:0], 'c'), in.Contestant, 10), 1)
	return 0, err
}

func TestCalls(t *testing.T) {
	a := newAsker(t, startSkerry(t, resp.Options{}))
	a.want("2", "FCALL", "add", "1", "n", "2")
	a.want("5", "call", "add", "n", "3")
	a.want("6", "CALLONCE", "my key", "add", "n", "1")
	a.want("6", "CALLONCE", "my key", "add", "n", "1")
	a.want("6", "FCALL_RO", "value", "0", "n")
	a.want("nil", "CALL", "put", "k", "bin\r\n\x00ary")
	a.want("bin\r\n\x00ary", "GET", "k")
	a.want("[Int 7 Yes true Text a\r\nb Float 1.5 None nil List [1 2] Map [a 1 b 2]]", "CALL", "shape")
	for _, c := range []struct {
		want  string // suffix of the error
		words []string
	}{
		{"[unknown_procedure]", []string{"CALL", "nothing"}},
		{"[unknown_procedure]", []string{"CALL", "ad"}},
		{"[unknown_procedure]", []string{"CALL", ""}},
		{"[unknown_procedure]", []string{"CALL", strings.Repeat("x", 100_000)}},
		{"[unknown_procedure]", []string{"CALLONCE", "k", "nothing"}},
		{"[invalid]", []string{"CALL", "add"}},
		{"[invalid]", []string{"CALL", "add", "n"}},
		{"[invalid]", []string{"CALL", "add", "n", "1", "more"}},
		{"[invalid]", []string{"CALL", "add", "n", "none"}},
		{"[invalid]", append([]string{"FCALL", "add", "3"}, slices.Repeat([]string{"1"}, 100_000)...)},
		{"[limit]", []string{"CALL", "put", "k", strings.Repeat("x", proc.MaxArgBytes)}},
		{"[invalid]", []string{"CALL", "echo", `{"text":"x","text":"y"}`}},
		{"[invalid]", []string{"CALL", "echo", strings.Repeat("{", 100_000)}},
		{"", []string{"CALL", "echo", "x", strings.Repeat("[", 100_000)}},
		{"[invalid]", []string{"CALL", "add", "n", "9223372036854775808"}},
		{"[invalid]", []string{"CALLONCE", "", "add", "n", "1"}},
		{"[invalid]", []string{"CALLONCE", strings.Repeat("k", 256), "add", "n", "1"}},
		{"[idempotency_key_reused]", []string{"CALLONCE", "my key", "add", "n", "2"}},
		{"[read_only]", []string{"CALL", "sneaks", "n"}},
		{"ERR the text [procedure_failed]", []string{"CALL", "fail", "n", "", "the text"}},
		{"ERR two  lines [my  code]", []string{"CALL", "fail", "n", "my\r\ncode", "two\r\nlines"}},
		{"ERR it is full [not_integer]", []string{"CALL", "fail", "n", "not_integer", "it is full"}},
		{"OOM the box is full [memory_full]", []string{"CALL", "fail", "n", "memory_full", "the box is full"}},
		{"ERR not here [procedure_failed]", []string{"CALL", "fail", "n", "not_leader", "not here"}},
		{"[internal]", []string{"CALL", "panics"}},
		{"nothing; the arguments of CALLONCE are the idempotency key, the name of the procedure and its arguments [unknown_procedure]", []string{"CALLONCE", "add", "nothing", "n", "1"}},
		{"no procedure nothing [unknown_procedure]", []string{"CALLONCE", "key", "nothing", "n", "1"}},
		{"[limit]", []string{"CALL", "zeros", "20000000"}},
		{"ERR wrong number of arguments for 'call' command", []string{"CALL"}},
		{"ERR wrong number of arguments for 'callonce' command", []string{"CALLONCE", "k"}},
		{"ERR there is no procedure nothing", []string{"PROC", "SCHEMA", "add", "nothing"}},
		{"ERR unknown subcommand 'x'. Try PROC HELP.", []string{"PROC", "x"}},
	} {
		v := a.ask(c.words...)
		if text := string(v.Str); !v.IsError() || !strings.Contains(text, c.want) || len(text) > resp.MaxErrorBytes+200 {
			t.Errorf("%.100q: %.300q, want %s", c.words, text, c.want)
		}
	}
	if text := string(a.ask("CALL", "fail", "n", "c", strings.Repeat("é", resp.MaxErrorBytes)).Str); !strings.HasSuffix(text, "é… [c]") || !utf8.ValidString(text) {
		t.Errorf("a long error: %d bytes, %q", len(text), text[max(0, len(text)-20):])
	}
	for _, n := range []int{resp.MaxCodeBytes, resp.MaxCodeBytes + 1, 1 << 20} {
		a.want("ERR text ["+strings.Repeat("c", resp.MaxCodeBytes)+"]", "CALL", "fail", "n", strings.Repeat("c", n), "text")
	}
	a.want("6", "GET", "n") // the failed calls wrote nothing
	a.want("OK", "SET", "c1", "text")
}

func TestCallsInTransactions(t *testing.T) {
	a := newAsker(t, startSkerry(t, resp.Options{}))
	a.want("OK", "SET", "text", "abc")
	a.want("OK", "MULTI")
	for _, words := range [][]string{
		{"SET", "k", "1"}, {"CALL", "add", "n", "1"}, {"CALL", "fail", "n", "my_code", "it failed"}, {"CALL", "add", "text", "1"},
		{"CALL", "panics"}, {"CALL", "nothing"}, {"CALL", "add", "n"}, {"CALLONCE", "once", "add", "n", "10"},
		{"CALLONCE", "once", "add", "n", "10"}, {"CALL", "zeros", "20000000"}, {"GET", "n"}, {"CALL", "value", "n"}, {"FCALL", "add", "1", "n", "1"},
	} {
		a.want("QUEUED", words...)
	}
	v := a.ask("EXEC")
	want := []string{"OK", "1", "ERR it failed [my_code]", "ERR value is not an integer or out of range [not_integer]",
		"[internal]", "[unknown_procedure]", "[invalid]", "11", "11", "[limit]", "11", "11", "12"}
	if len(v.List) != len(want) {
		t.Fatalf("EXEC: %s", show(t, v))
	}
	for i, w := range want {
		if got := show(t, v.List[i]); !strings.HasSuffix(got, w) {
			t.Errorf("reply %d of EXEC: %s, want %s", i, got, w)
		}
	}
	a.want("12", "GET", "n")
	a.want("1", "GET", "k")
	a.want("OK", "MULTI") // only reads: runs in a View
	for _, words := range [][]string{{"CALL", "value", "n"}, {"CALL", "sneaks", "n"}, {"FCALL_RO", "sum", "0", "1", "2", "3"}, {"GET", "n"}} {
		a.want("QUEUED", words...)
	}
	if v := show(t, a.ask("EXEC")); !strings.HasPrefix(v, "[12 READONLY ") || !strings.HasSuffix(v, "[read_only] 6 12]") {
		t.Errorf("EXEC of reads: %s", v)
	}
}

func TestCallsAndModes(t *testing.T) {
	addr := startSkerry(t, resp.Options{})
	a, b := newAsker(t, addr), newAsker(t, addr)
	a.nc.Write([]byte("CLIENT REPLY OFF\r\nCALL add n 1\r\nCALL zeros 5000000\r\nCALL nothing\r\nCLIENT REPLY ON\r\nCLIENT REPLY SKIP\r\nCALL add n 1\r\nCALL add n 1\r\n"))
	for _, want := range []string{"OK", "3"} {
		if v := show(t, a.next()); v != want {
			t.Errorf("got %s, want %s", v, want)
		}
	}
	a.want("OK", "CLIENT", "PAUSE", "60000", "WRITE")
	b.nc.Write([]byte("CALL value n\r\nFCALL_RO value 1 n\r\nCALL add n 1\r\n"))
	for range 2 {
		if v := show(t, b.next()); v != "3" {
			t.Errorf("a call that reads while writes are paused: %s", v)
		}
	}
	for range 20 {
		a.want("3", "CALL", "value", "n")
	}
	a.want("OK", "CLIENT", "UNPAUSE")
	if v := show(t, b.next()); v != "4" {
		t.Errorf("after the pause: %s", v)
	}
	a.want("OK", "WATCH", "n")
	b.want("5", "CALL", "add", "n", "1")
	a.want("OK", "MULTI")
	a.want("QUEUED", "CALL", "add", "n", "1")
	a.want("nil", "EXEC")
}

func TestCallsAndTracking(t *testing.T) {
	addr := startSkerry(t, resp.Options{})
	a, b := newAsker(t, addr), newAsker(t, addr)
	a.want("OK", "CLIENT", "TRACKING", "ON")
	a.want("nil", "CALL", "value", "unseen") // keys that a procedure reads are not tracked
	a.want("nil", "GET", "seen")
	b.want("1", "CALL", "add", "unseen", "1")
	b.want("1", "CALL", "add", "seen", "1")
	if v := show(t, a.next()); v != "[invalidate [seen]]" {
		t.Errorf("push: %s", v)
	}
	a.want("OK", "CLIENT", "TRACKING", "OFF")
	a.want("OK", "CLIENT", "TRACKING", "ON", "NOLOOP")
	a.want("1", "GET", "seen")
	a.want("1", "GET", "unseen")
	a.want("2", "CALL", "add", "seen", "1") // its own write
	b.want("2", "CALL", "add", "unseen", "1")
	if v := show(t, a.next()); v != "[invalidate [unseen]]" {
		t.Errorf("push: %s", v)
	}
}

// TestHugeResults checks that a client that requests more than it reads is closed, as with
// large values, and that one that reads gets everything.
func TestHugeResults(t *testing.T) {
	addr := startSkerry(t, resp.Options{WriteTimeout: 300 * time.Millisecond})
	a := newAsker(t, addr)
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	go nc.Write(bytes.Repeat([]byte("CALL zeros 10000000\r\n"), 1000))
	eventually.True(t, "the end of a connection that does not read", func() bool {
		return strings.Contains(string(a.ask("INFO", "stats").Str), "client_output_buffer_limit_disconnections:1")
	})
	a.nc.Write(bytes.Repeat([]byte("CALL zeros 5000000\r\n"), 20))
	for range 20 {
		if v := a.next(); len(v.Str) != 5_000_000 {
			t.Fatalf("%d bytes", len(v.Str))
		}
	}
}

// again is an engine that runs everything twice and discards the first run.
type again struct{ *embedded.DB }

func (e again) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	if _, err := e.DB.View(ctx, r, fn); err != nil {
		return 0, err
	}
	return e.DB.View(ctx, r, fn)
}

func (e again) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	undo := errors.New("undo")
	if _, err := e.DB.Update(ctx, func(tx engine.Tx) error { return errors.Join(fn(tx), undo) }); !errors.Is(err, undo) {
		return 0, err
	}
	return e.DB.Update(ctx, fn)
}

func (e again) UpdateEach(ctx context.Context, n int, fn func(engine.Tx, int) error) (engine.Position, error) {
	undo := errors.New("undo")
	if _, err := e.DB.UpdateEach(ctx, n, func(tx engine.Tx, i int) error { return errors.Join(fn(tx, i), undo) }); err != nil {
		return 0, err
	}
	return e.DB.UpdateEach(ctx, n, fn)
}

// serveOn serves eng without a feed, with exactly these options, and returns the address.
func serveOn(t *testing.T, eng engine.Engine, o resp.Options) string {
	t.Helper()
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Logger = slog.New(slog.DiscardHandler)
	srv, err := resp.New(store, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	l := loopback(t)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

// TestCallsRunAgain checks that if the engine runs calls again, only the replies of the
// last run are sent.
func TestCallsRunAgain(t *testing.T) {
	eng := again{openEngine(t, embedded.Options{})}
	a := newAsker(t, serveOn(t, eng, resp.Options{Procedures: testProcedures(t, eng)}))
	a.nc.Write([]byte("CALL value n\r\nCALL add n 1\r\nCALL fail n c text\r\nFCALL add 1 n 1\r\nCALLONCE k add n 1\r\nCALLONCE k add n 1\r\nMULTI\r\nCALL add n 1\r\nCALL fail n c text\r\nEXEC\r\nCALL value n\r\n"))
	for i, want := range []string{"nil", "1", "ERR text [c]", "2", "3", "3", "OK", "QUEUED", "QUEUED", "[4 ERR text [c]]", "4"} {
		if v := show(t, a.next()); v != want {
			t.Errorf("reply %d: %s, want %s", i, v, want)
		}
	}
}

// TestNoProcedures calls a server without procedures.
func TestNoProcedures(t *testing.T) {
	a := newAsker(t, serveOn(t, openEngine(t, embedded.Options{}), resp.Options{}))
	a.want("[]", "PROC", "LIST")
	a.want("[]", "PROC", "SCHEMA")
	a.want("[]", "FUNCTION", "LIST")
	a.want("[running_script nil engines [GO [libraries_count 0 functions_count 0]]]", "FUNCTION", "STATS")
	for _, words := range [][]string{{"CALL", "x"}, {"FCALL", "x", "0"}, {"FCALL_RO", "x", "0"}, {"CALLONCE", "k", "x"}, {"PROC", "SCHEMA", "x"}} {
		if v := show(t, a.ask(words...)); v != "ERR there is no procedure x: this program has none [unknown_procedure]" {
			t.Errorf("%q: %s", words, v)
		}
	}
}

// TestCallsOverMemory checks that a full engine rejects calls that need more memory, and
// only those.
func TestCallsOverMemory(t *testing.T) {
	eng := openEngine(t, embedded.Options{MemoryBytes: 1 << 20})
	a := newAsker(t, serveOn(t, eng, resp.Options{Procedures: testProcedures(t, eng)}))
	val, full := strings.Repeat("x", 100_000), false
	for i := range 20 {
		if v := show(t, a.ask("CALL", "put", strconv.Itoa(i), val)); v != "nil" {
			if full = strings.HasPrefix(v, "OOM ") && strings.HasSuffix(v, "[memory_full]"); !full {
				t.Errorf("over the limit: %s", v)
			}
			break
		}
	}
	if !full {
		t.Error("20 values of 100 kB fit into 1 MiB")
	}
	if v := a.ask("CALL", "value", "0"); string(v.Str) != val {
		t.Errorf("a call that reads: %d bytes", len(v.Str))
	}
}
