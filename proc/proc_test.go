package proc_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/proc"
)

// openEngine returns an empty engine on an in-memory disk.
func openEngine(t testing.TB) engine.Engine {
	t.Helper()
	return testengine.Open(t, testengine.Options{Memory: true})
}

// newSet returns a set on an empty engine.
func newSet(t testing.TB, o proc.Options, procs ...proc.Procedure) *proc.Set {
	t.Helper()
	return setOn(t, openEngine(t), o, procs...)
}

func setOn(t testing.TB, eng engine.Engine, o proc.Options, procs ...proc.Procedure) *proc.Set {
	t.Helper()
	s, err := proc.New(eng, o, procs...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// begin begins a call and sets its arguments from text.
func begin(t testing.TB, s *proc.Set, name string, args ...string) *proc.Call {
	t.Helper()
	c, err := s.Begin([]byte(name))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Arguments(texts(args)); err != nil {
		t.Fatal(err)
	}
	return c
}

func texts(args []string) [][]byte {
	list := make([][]byte, len(args))
	for i, a := range args {
		list[i] = []byte(a)
	}
	return list
}

// call runs a procedure as a face does and returns its JSON.
func call(t testing.TB, s *proc.Set, name string, args ...string) (string, error) {
	t.Helper()
	c := begin(t, s, name, args...)
	defer c.End()
	return do(t, c)
}

// do runs c and returns its JSON.
func do(t testing.TB, c *proc.Call) (text string, err error) {
	t.Helper()
	_, err = c.Do(t.Context(), engine.Read{}, func(c *proc.Call) error {
		b, err := c.AppendJSON(nil)
		text = string(b)
		return err
	})
	return text, err
}

// want fails the test unless text is the result and there was no error.
func want(t testing.TB, expect string) func(text string, err error) {
	t.Helper()
	return func(text string, err error) {
		t.Helper()
		if err != nil || text != expect {
			t.Errorf("%s, %v; want %s", text, err, expect)
		}
	}
}

// fails fails the test unless err has the code and its text contains part.
func fails(t testing.TB, err error, code engine.Code, part string) {
	t.Helper()
	if engine.CodeOf(err) != code || !strings.Contains(err.Error(), part) {
		t.Errorf("error is %v; want one of code %s with %q", err, code, part)
	}
}

// logs collects the log of a Set.
type logs struct{ logbuf.Buffer }

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Procedures that several tests use.
type (
	putIn struct {
		Key  string `json:"key"`
		Val  string `json:"val"`
		Fail string `json:"fail,omitempty"` // what to do after the write
	}
	keyIn struct {
		Key string `json:"key"`
	}
)

var errOwn = errors.New("the procedure's own error")

func put(tx *proc.Tx, in putIn) (int, error) {
	if err := set(tx, in.Key, in.Val); err != nil {
		return 0, err
	}
	switch in.Fail {
	case "":
		return len(in.Val), nil
	case "plain":
		return 0, errOwn
	case "panic":
		panic("secret")
	}
	return 0, engine.Errorf(engine.Code(in.Fail), "fails as requested")
}

func get(tx *proc.Tx, in keyIn) (*string, error) {
	e, ok, err := tx.KV(0).Get([]byte(in.Key))
	if err != nil || !ok {
		return nil, err
	}
	val := string(e.Val)
	return &val, nil
}

// putGet returns a set of a procedure that writes and one that reads.
func putGet(t testing.TB, o proc.Options, more ...proc.Procedure) *proc.Set {
	t.Helper()
	return newSet(t, o, append(more, proc.Define("put", put), proc.DefineRead("get", get))...)
}

func TestCallFromProgram(t *testing.T) {
	put, get := proc.Define("put", put), proc.DefineRead("get", get)
	s := newSet(t, proc.Options{}, put, get)
	n, pos, err := put.Call(t.Context(), s, putIn{Key: "a", Val: "hello"})
	if n != 5 || pos == 0 || err != nil {
		t.Errorf("put: %d at %d, %v", n, pos, err)
	}
	v, at, err := get.Call(t.Context(), s, keyIn{"a"})
	if err != nil || v == nil || *v != "hello" || at < pos {
		t.Errorf("get: %v at %d, %v", v, at, err)
	}
	_, _, err = put.Call(t.Context(), s, putIn{Key: "a", Val: "other", Fail: "too_many"})
	fails(t, err, "too_many", "fails as requested")
	_, _, err = put.Call(t.Context(), s, putIn{Key: "a", Val: "other", Fail: "plain"})
	fails(t, err, engine.CodeProcedureFailed, errOwn.Error())
	if !errors.Is(err, errOwn) {
		t.Errorf("%v does not wrap the procedure's error", err)
	}
	want(t, `"hello"`)(call(t, s, "get", "a"))
	_, _, err = proc.Define("put", put2).Call(t.Context(), s, keyIn{})
	fails(t, err, engine.CodeUnknownProcedure, "put")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err = put.Call(ctx, s, putIn{Key: "a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("call with a context that has ended: %v", err)
	}
}

// TestCallGivenUp checks that a call whose context ends while the procedure runs returns
// only after it, so that its memory can be reused.
func TestCallGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	running := false // not atomic: the race detector checks it
	slow := proc.Define("slow", func(_ *proc.Tx, in keyIn) (string, error) {
		running = true
		defer func() { running = false }()
		cancel()
		time.Sleep(10 * time.Millisecond)
		return in.Key, nil
	})
	s := newSet(t, proc.Options{}, slow)
	_, _, err := slow.Call(ctx, s, keyIn{"a"})
	if running || err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("running is %t: %v", running, err)
	}
	if out, _, err := slow.Call(t.Context(), s, keyIn{"b"}); out != "b" || err != nil {
		t.Errorf("the next call: %q, %v", out, err)
	}
}

func put2(*proc.Tx, keyIn) (int, error) { return 0, nil }

func TestErrorsAndPanics(t *testing.T) {
	var l logs
	s := putGet(t, proc.Options{Logger: l.logger()})
	_, err := call(t, s, "put", "a", "1", "panic")
	fails(t, err, engine.CodeInternal, "put")
	if strings.Contains(err.Error(), "secret") || !strings.Contains(l.String(), "secret") || !strings.Contains(l.String(), "proc_test.put") {
		t.Errorf("the caller learns %q, the log says %s", err, l.String())
	}
	_, err = call(t, s, "put", "a", "1", "plain")
	fails(t, err, engine.CodeProcedureFailed, errOwn.Error())
	_, err = call(t, s, "put", "a", "1", "conflict")
	fails(t, err, engine.CodeConflict, "as requested")
	_, err = call(t, s, "put", "a", "1", "internal")
	fails(t, err, engine.CodeInternal, "as requested")
	want(t, "null")(call(t, s, "get", "a"))
	want(t, "1")(call(t, s, "put", "a", "1"))
	m := metrics(s)
	if m["proc_calls_total"] != 6 || m["proc_errors_total"] != 4 || m["proc_panics_total"] != 1 || m["proc_running"] != 0 {
		t.Errorf("metrics: %v", m)
	}
}

// TestNilErrorOfProcedure checks that a nil *engine.Error returned as an error counts as an
// error without a code.
func TestNilErrorOfProcedure(t *testing.T) {
	none := func(err error) proc.Procedure {
		return proc.Define("none", func(tx *proc.Tx, _ struct{}) (int, error) {
			if err := set(tx, "a", "1"); err != nil {
				return 0, err
			}
			return 1, err
		})
	}
	var typed *engine.Error
	for text, err := range map[string]error{"a nil *engine.Error": typed, "wrapped": fmt.Errorf("wrapped: %w", typed)} {
		s := newSet(t, proc.Options{}, none(err), reader, proc.Define("outer", func(tx *proc.Tx, _ struct{}) (int, error) {
			_, got := inner.Run(tx, putIn{Key: "b"})
			return 1, cmp.Or(got, err)
		}))
		for _, name := range []string{"none", "outer"} {
			_, got := call(t, s, name)
			fails(t, got, engine.CodeProcedureFailed, text)
			_, got = once(t, s, "key of "+name, name)
			fails(t, got, engine.CodeProcedureFailed, text)
			answer, got := once(t, s, "key of "+name, name)
			if fails(t, got, engine.CodeProcedureFailed, text); answer != "again " {
				t.Errorf("%s: again %q", name, answer)
			}
		}
		want(t, "null")(call(t, s, "reader", "a"))
	}
}

func metrics(s *proc.Set) map[string]float64 {
	m := map[string]float64{}
	for f := range s.Metrics() {
		m[f.Name] += f.Value
	}
	for range s.Metrics() {
		break
	}
	return m
}

// TestGoexit checks that a procedure that ends its goroutine has no effect.
func TestGoexit(t *testing.T) {
	var l logs
	eng := openEngine(t)
	s := setOn(t, eng, proc.Options{Logger: l.logger()}, proc.Define("end", func(tx *proc.Tx, _ struct{}) (int, error) {
		if err := set(tx, "a", "1"); err != nil {
			return 0, err
		}
		goexit()
		return 0, nil
	}), proc.DefineRead("get", get))
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := begin(t, s, "end")
		_, _ = c.Do(context.Background(), engine.Read{}, func(*proc.Call) error { return nil })
	}()
	<-done
	want(t, "null")(call(t, s, "get", "a"))
	if !strings.Contains(l.String(), "ended its goroutine") {
		t.Errorf("log: %s", l.String())
	}
}

// TestKeptTx checks that a transaction that was kept after its end fails.
func TestKeptTx(t *testing.T) {
	var kept *proc.Tx
	var raw engine.Tx
	s := newSet(t, proc.Options{}, proc.Define("keep", func(tx *proc.Tx, _ struct{}) (int, error) {
		kept, raw = tx, tx.Engine()
		return 1, set(tx, "a", "1")
	}))
	want(t, "1")(call(t, s, "keep"))
	for what, err := range map[string]error{
		"put":   raw.Put([]byte("a"), nil),
		"del":   raw.Delete([]byte("a")),
		"get":   second(raw.Get([]byte("a"))),
		"kv":    set(kept, "a", "2"),
		"scan":  scanned(raw),
		"later": second(kept.Engine().Get([]byte("a"))),
	} {
		if engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), "has ended") {
			t.Errorf("%s after the end: %v", what, err)
		}
	}
	ranks := raw.(engine.Ranker)
	if n, err := ranks.Count(nil, nil); n != 0 || engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("count after the end: %d, %v", n, err)
	}
	if _, ok, err := ranks.At(nil, nil, 0); ok || engine.CodeOf(err) != engine.CodeInvalid || !raw.Now().IsZero() || !kept.Now().IsZero() || kept.Procedure() != "" {
		t.Error("the transaction goes on after its end")
	}
}

func second(_ []byte, _ bool, err error) error { return err }

func scanned(tx engine.Tx) error {
	for _, err := range tx.Scan(nil, nil) {
		if err != nil {
			return err
		}
	}
	for _, err := range tx.ScanBack(nil, nil) {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestReadOnly(t *testing.T) {
	s := newSet(t, proc.Options{},
		proc.DefineRead("sneaky", func(tx *proc.Tx, _ struct{}) (int, error) { return 1, set(tx, "a", "1") }),
		proc.DefineRead("raw", func(tx *proc.Tx, _ struct{}) (int, error) { return 1, tx.Engine().Delete([]byte("a")) }),
		proc.DefineRead("get", get))
	for _, name := range []string{"sneaky", "raw"} {
		_, err := call(t, s, name)
		fails(t, err, engine.CodeReadOnly, name)
		c := begin(t, s, name) // and in a transaction that could write
		_, err = s.Engine().Update(t.Context(), c.Run)
		fails(t, err, engine.CodeReadOnly, name)
		c.End()
	}
	if !s.ReadOnly([]byte("get")) || s.ReadOnly([]byte("nothing")) {
		t.Error("Set.ReadOnly is wrong")
	}
	want(t, "null")(call(t, s, "get", "a"))
}

func TestTimeAndRandomness(t *testing.T) {
	type out struct {
		A, B uint64
		At   int64
	}
	draw := func(tx *proc.Tx, _ struct{}) (out, error) {
		return out{tx.Rand().Uint64(), tx.Rand().Uint64(), tx.Now().UnixMicro()}, nil
	}
	read := proc.DefineRead("draw", draw)
	fixed := func() *proc.Set {
		at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
		db := testengine.Open(t, testengine.Options{Memory: true, Now: func() time.Time { return at }})
		return setOn(t, db, proc.Options{Seed: 7}, read)
	}
	a, _ := call(t, fixed(), "draw")
	b, _ := call(t, fixed(), "draw")
	if a != b || a == "" {
		t.Errorf("with a seed: %s and %s", a, b)
	}
	s := newSet(t, proc.Options{}, read)
	x, _, err := read.Call(t.Context(), s, struct{}{})
	y, _, err2 := read.Call(t.Context(), s, struct{}{})
	if err != nil || err2 != nil || x.A == x.B || x.A == y.A {
		t.Errorf("without a seed: %+v and %+v", x, y)
	}
}

func TestUnknownProcedure(t *testing.T) {
	s := newSet(t, proc.Options{}, proc.Define("vote", put2), proc.Define("account.open", put2), proc.Define("x", put2))
	for name, near := range map[string]string{
		"vot": "vote", "VOTE": "vote", "voet": "vote", "account": "account.open", "account.open.now": "account.open",
		"transfer": "", "": "", "ab": "", "\xff\xfe": "", strings.Repeat("v", 2000): "", strings.Repeat("Ⱥ", 32): "",
	} {
		_, err := s.Begin([]byte(name))
		fails(t, err, engine.CodeUnknownProcedure, "there is no procedure")
		if _, said, _ := strings.Cut(err.Error(), "did you mean "); (near == "") != (said == "") || !strings.HasPrefix(said, near) {
			t.Errorf("%.50s: %v; want %q", name, err, near)
		}
		if _, err := s.Schema(name); engine.CodeOf(err) != engine.CodeUnknownProcedure {
			t.Errorf("schema: %v", err)
		}
	}
}

func TestSchemas(t *testing.T) {
	s := putGet(t, proc.Options{}, proc.Define("vote", put2).Describe("Counts a vote."))
	list := s.Schemas()
	var names []string
	for _, d := range list {
		names = append(names, d.Name)
	}
	if !slices.Equal(names, []string{"get", "put", "vote"}) {
		t.Errorf("schemas: %v", names)
	}
	list[1].Args[0].Name = "changed"
	d, err := s.Schema("put")
	if err != nil || d.Args[0].Name != "key" || d.ReadOnly || fmt.Sprint(d.Result) != "{int 64 false [] <nil>}" {
		t.Errorf("put: %+v, %v", d, err)
	}
	if d, err := s.Schema("vote"); err != nil || d.Text != "Counts a vote." {
		t.Errorf("vote: %+v, %v", d, err)
	}
}
