package proc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// plainEngine is an engine whose transactions have no savepoints and no ranks.
type plainEngine struct{ engine.Engine }

type plainTx struct{ engine.Tx }

func (e plainEngine) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return e.Engine.Update(ctx, func(tx engine.Tx) error { return fn(plainTx{tx}) })
}

func (e plainEngine) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	return e.Engine.View(ctx, r, func(tx engine.Tx) error { return fn(plainTx{tx}) })
}

var (
	inner  = proc.Define("inner", put)
	reader = proc.DefineRead("reader", get)
)

type nestIn struct {
	Fail string `json:"fail,omitempty"` // for the inner one
	How  string `json:"how,omitempty"`  // how the outer one handles it
}

// nest writes, calls inner, and writes again.
func nest(tx *proc.Tx, in nestIn) (text string, err error) {
	if err := set(tx, "before", "1"); err != nil {
		return "", err
	}
	if err := set(tx, "both", "outer"); err != nil {
		return "", err
	}
	if in.How == "recover" {
		defer func() {
			if v := recover(); v != nil {
				text, err = "recovered in "+tx.Procedure(), set(tx, "after", "1")
			}
		}()
	}
	n, err := inner.Run(tx, putIn{Key: "both", Val: "inner", Fail: in.Fail})
	if err != nil && in.How != "ignore" {
		return "", fmt.Errorf("outer: %w", err)
	}
	e, _, err := tx.KV(0).Get([]byte("both"))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %s %s", n, e.Val, tx.Procedure()), set(tx, "after", "1")
}

func nesting(t *testing.T, eng engine.Engine) *proc.Set {
	return setOn(t, eng, proc.Options{}, inner, reader, proc.Define("nest", nest))
}

func TestNested(t *testing.T) {
	s := nesting(t, openEngine(t))
	want(t, `"5 inner nest"`)(call(t, s, "nest"))
	want(t, `"0 outer nest"`)(call(t, s, "nest", "plain", "ignore"))
	want(t, `"outer"`)(call(t, s, "reader", "both"))
	want(t, `"1"`)(call(t, s, "reader", "after"))
	want(t, `"recovered in nest"`)(call(t, s, "nest", "panic", "recover"))
	want(t, `"outer"`)(call(t, s, "reader", "both"))

	s = nesting(t, openEngine(t))
	_, err := call(t, s, "nest", "too_many")
	fails(t, err, "too_many", "outer: fails as requested")
	_, err = call(t, s, "nest", "plain")
	if fails(t, err, engine.CodeProcedureFailed, "outer: the procedure's own"); !errors.Is(err, errOwn) {
		t.Errorf("%v does not wrap the inner error", err)
	}
	_, err = call(t, s, "nest", "panic")
	fails(t, err, engine.CodeInternal, "nest")
	for _, key := range []string{"before", "both", "after"} {
		want(t, "null")(call(t, s, "reader", key))
	}
}

// TestNestedWithoutSavepoints checks that if a part cannot be undone, everything is.
func TestNestedWithoutSavepoints(t *testing.T) {
	s := nesting(t, plainEngine{openEngine(t)})
	want(t, `"5 inner nest"`)(call(t, s, "nest"))
	_, err := call(t, s, "nest", "plain", "ignore")
	fails(t, err, engine.CodeUnsupported, "procedure inner failed within nest, and what it wrote cannot be undone alone")
	want(t, `"inner"`)(call(t, s, "reader", "both"))
	idle := proc.Define("idle", func(*proc.Tx, struct{}) (int, error) { return 0, errOwn })
	s = setOn(t, plainEngine{openEngine(t)}, proc.Options{}, proc.Define("outer", func(tx *proc.Tx, _ struct{}) (int, error) {
		_, _ = idle.Run(tx, struct{}{})
		return 1, set(tx, "a", "1")
	}))
	want(t, "1")(call(t, s, "outer")) // nothing was written, so there is nothing to undo
}

func TestNestedReadOnly(t *testing.T) {
	sneaky := proc.DefineRead("sneaky", func(tx *proc.Tx, _ struct{}) (int, error) { return 0, set(tx, "a", "1") })
	s := newSet(t, proc.Options{}, reader,
		proc.DefineRead("writes", func(tx *proc.Tx, _ struct{}) (int, error) {
			return inner.Run(tx, putIn{Key: "a", Val: "1"})
		}),
		proc.Define("calls", func(tx *proc.Tx, _ struct{}) (string, error) {
			_, err := sneaky.Run(tx, struct{}{})
			if !errors.Is(err, engine.ErrReadOnly) {
				return "", fmt.Errorf("a write of a procedure that only reads: %w", err)
			}
			v, err := reader.Run(tx, keyIn{"a"})
			if err != nil || v != nil {
				return "", fmt.Errorf("%v, %w", v, err)
			}
			return "went on", set(tx, "b", "1")
		}))
	_, err := call(t, s, "writes")
	fails(t, err, engine.CodeReadOnly, "procedure inner may write, and writes only reads")
	want(t, `"went on"`)(call(t, s, "calls"))
	want(t, "null")(call(t, s, "reader", "a"))
}

// TestRecursion checks that procedures may call each other, up to a limit.
func TestRecursion(t *testing.T) {
	type in struct{ N int }
	var down *proc.Func[in, int]
	down = proc.Define("down", func(tx *proc.Tx, x in) (int, error) {
		if err := set(tx, fmt.Sprint("level ", x.N), "1"); err != nil || x.N == 1 {
			return 1, err
		}
		n, err := down.Run(tx, in{x.N - 1})
		return n + 1, err
	})
	s := newSet(t, proc.Options{}, down, reader)
	want(t, fmt.Sprint(proc.MaxDepth))(call(t, s, "down", fmt.Sprint(proc.MaxDepth)))
	_, err := call(t, s, "down", fmt.Sprint(proc.MaxDepth+1))
	fails(t, err, engine.CodeLimit, "procedure down: 32 procedures are nested already, which is the limit")
	want(t, "null")(call(t, s, "reader", fmt.Sprint("level ", proc.MaxDepth+1)))
}

// brittleTx rejects deletes, so that a record and its index come apart.
type brittleTx struct {
	engine.Tx
	engine.Savepointer
}

var errBrittle = engine.Errorf(engine.CodeTxTooLarge, "no further delete")

func (brittleTx) Delete([]byte) error { return errBrittle }

// TestHalfWritten checks that plain keys that were left half written are never committed,
// however the procedure handles the error and wherever it got the keys from.
func TestHalfWritten(t *testing.T) {
	half := func(k *kv.Tx) error {
		if _, err := k.Set([]byte("a"), []byte("1"), kv.SetOptions{TTL: 1e9}); err != nil {
			return err
		}
		if _, err := k.Set([]byte("a"), []byte("2"), kv.SetOptions{}); err == nil { // must delete the index entry of the expiry
			return errors.New("the write succeeded")
		}
		return nil
	}
	forgive := proc.Define("forgive", func(tx *proc.Tx, _ struct{}) (int, error) { return 1, half(tx.KV(0)) })
	own := proc.Define("own", func(tx *proc.Tx, _ struct{}) (int, error) { return 1, half(kv.In(tx.Engine(), 7)) })
	db := openEngine(t)
	s := setOn(t, db, proc.Options{}, reader, forgive, own, proc.Define("outer", func(tx *proc.Tx, _ struct{}) (int, error) {
		for _, p := range []*proc.Func[struct{}, int]{forgive, own} {
			if _, err := p.Run(tx, struct{}{}); engine.CodeOf(err) != engine.CodeTxTooLarge {
				return 0, fmt.Errorf("inner: %w", err)
			}
		}
		return 1, set(tx, "b", "1") // those are undone
	}))
	for _, name := range []string{"forgive", "own"} {
		c := begin(t, s, name)
		_, err := db.Update(t.Context(), func(tx engine.Tx) error { return c.Run(brittleTx{tx, tx.(engine.Savepointer)}) })
		fails(t, err, engine.CodeTxTooLarge, "update its index entry")
		c.End()
	}
	want(t, "null")(call(t, s, "reader", "a"))
	c := begin(t, s, "outer")
	defer c.End()
	if _, err := db.Update(t.Context(), func(tx engine.Tx) error { return c.Run(brittleTx{tx, tx.(engine.Savepointer)}) }); err != nil {
		t.Errorf("inner calls that were undone: %v", err)
	}
	want(t, `"1"`)(call(t, s, "reader", "b"))
	want(t, "null")(call(t, s, "reader", "a"))
}

// TestRunWithin runs several calls in one transaction, of which some fail.
func TestRunWithin(t *testing.T) {
	db := openEngine(t)
	s := setOn(t, db, proc.Options{}, inner, reader)
	steps := func(eng engine.Engine) (spoiled []bool) {
		_, err := eng.Update(t.Context(), func(tx engine.Tx) error {
			for _, args := range [][]string{{"a", "1"}, {"b", "1", "plain"}, {"a", "2", "panic"}, {"c", "1"}} {
				c := begin(t, s, "inner", args...)
				bad, err := c.RunWithin(tx)
				spoiled = append(spoiled, bad)
				if c.End(); (err == nil) != (len(args) == 2) {
					return fmt.Errorf("%q: %w", args, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return spoiled
	}
	if got := fmt.Sprint(steps(db)); got != "[false false false false]" {
		t.Errorf("spoiled: %s", got)
	}
	for key, val := range map[string]string{"a": `"1"`, "b": "null", "c": `"1"`} {
		want(t, val)(call(t, s, "reader", key))
	}
	if got := fmt.Sprint(steps(plainEngine{openEngine(t)})); got != "[false true true false]" {
		t.Errorf("spoiled without savepoints: %s", got)
	}
}

// TestRanks checks that keys can be counted if the engine does not support it.
func TestRanks(t *testing.T) {
	for _, eng := range []engine.Engine{openEngine(t), plainEngine{openEngine(t)}} {
		s := setOn(t, eng, proc.Options{}, inner, proc.DefineRead("count", func(tx *proc.Tx, _ struct{}) (string, error) {
			n, err := tx.KV(0).Count()
			if err != nil {
				return "", err
			}
			it, ok, err := tx.KV(0).At(1)
			if _, beyond, _ := tx.KV(0).At(n); beyond {
				return "", errors.New("there is one more")
			}
			return fmt.Sprintf("%d %t %s", n, ok, it.Key), err
		}))
		for _, key := range strings.Fields("a b c") {
			if _, err := call(t, s, "inner", key, "1"); err != nil {
				t.Fatal(err)
			}
		}
		want(t, `"3 true b"`)(call(t, s, "count"))
	}
}

// TestSpaces checks that procedures see the keys of each space, and the same kv.Tx in every
// call.
func TestSpaces(t *testing.T) {
	s := newSet(t, proc.Options{}, proc.Define("spread", func(tx *proc.Tx, in struct{ N int }) (sum int64, err error) {
		for i := range in.N {
			if _, err := tx.KV(uint8(i)).Add([]byte("n"), int64(i)); err != nil {
				return 0, err
			}
		}
		if k := tx.KV(0); k != tx.KV(0) {
			return 0, errors.New("a space is another one each time")
		}
		for i := range in.N {
			n, err := tx.KV(uint8(i)).Add([]byte("n"), 0)
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	}))
	want(t, "3")(call(t, s, "spread", "3"))
	want(t, "48")(call(t, s, "spread", "10"))
	want(t, "9")(call(t, s, "spread", "3"))
}

// TestSelectedSpace checks that the keys of a space stay bound to it, however many users
// share them: a Select fails the procedure that called it, and no other.
func TestSelectedSpace(t *testing.T) {
	at := func(tx *proc.Tx, space uint8, key string) string {
		e, _, err := kv.In(tx.Engine(), space).Get([]byte(key))
		return fmt.Sprint(string(e.Val), err)
	}
	one := []byte("1")
	stray := proc.Define("stray", func(tx *proc.Tx, in struct{ Write bool }) (int, error) {
		k := tx.KV(3)
		if in.Write {
			if _, err := k.Set([]byte("stray"), one, kv.SetOptions{}); err != nil {
				return 0, err
			}
		}
		k.Select(3) // its own space
		k.Select(0)
		_, err := k.Set([]byte("stray"), one, kv.SetOptions{})
		if engine.CodeOf(err) != engine.CodeInvalid || k.Space() != 3 {
			return 0, fmt.Errorf("after Select: space %d, %w", k.Space(), err)
		}
		return 1, nil // without checking the error
	})
	s := newSet(t, proc.Options{}, stray, proc.Define("outer", func(tx *proc.Tx, in struct{ Write bool }) (string, error) {
		k := tx.KV(3)
		if _, err := stray.Run(tx, in); engine.CodeOf(err) != engine.CodeInvalid {
			return "", fmt.Errorf("inner: %w", err)
		}
		_, err := k.Set([]byte("k"), one, kv.SetOptions{})
		return at(tx, 3, "k") + at(tx, 0, "k") + at(tx, 3, "stray") + at(tx, 0, "stray"), err
	}))
	for _, write := range []string{"true", "false"} {
		_, err := call(t, s, "stray", write)
		fails(t, err, engine.CodeInvalid, "select space 3: a shared transaction stays in space 0")
		want(t, `"1\u003cnil\u003e\u003cnil\u003e\u003cnil\u003e\u003cnil\u003e"`)(call(t, s, "outer", write))
	}
}
