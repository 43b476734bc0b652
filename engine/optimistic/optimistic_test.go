package optimistic_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/optimistic"
	"github.com/skerrydb/skerry/engine/testengine"
)

func begin(t *testing.T, eng engine.Engine, o optimistic.Options) *optimistic.Tx {
	t.Helper()
	tx, err := optimistic.Begin(t.Context(), eng, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tx.Rollback)
	return tx
}

func put(key, val string) func(engine.Tx) error {
	return func(tx engine.Tx) error { return tx.Put([]byte(key), []byte(val)) }
}

func del(key string) func(engine.Tx) error {
	return func(tx engine.Tx) error { return tx.Delete([]byte(key)) }
}

func get(key string) func(engine.Tx) error {
	return func(tx engine.Tx) error {
		_, _, err := tx.Get([]byte(key))
		return err
	}
}

// scan reads a range until it has n pairs.
func scan(lo, hi string, n int, back bool) func(engine.Tx) error {
	return func(tx engine.Tx) error {
		pairs := tx.Scan([]byte(lo), []byte(hi))
		if back {
			pairs = tx.ScanBack([]byte(lo), []byte(hi))
		}
		left := n
		for _, err := range pairs {
			if left--; err != nil || left == 0 {
				return err
			}
		}
		return nil
	}
}

// TestConflicts: a transaction is committed if nothing that it read was changed, and
// only then.
func TestConflicts(t *testing.T) {
	for _, c := range []struct {
		name        string
		read, other func(engine.Tx) error
		lost        bool
	}{
		{"a key that was read", get("b"), put("b", "x"), true},
		{"with the value that it had", get("b"), put("b", "b"), false},
		{"another key", get("b"), put("c", "x"), false},
		{"a key that was not there", get("bb"), put("bb", ""), true},
		{"a key that was removed", get("b"), del("b"), true},
		{"a pair of a range", scan("a", "d", 0, false), put("b", "x"), true},
		{"a new key of a range", scan("a", "d", 0, false), put("bb", ""), true},
		{"a key after the range", scan("a", "d", 0, false), put("d", "x"), false},
		{"a key before the range", scan("b", "d", 0, false), put("a", "x"), false},
		{"a removed key of a range", scan("a", "d", 0, true), del("c"), true},
		{"behind where a scan stopped", scan("a", "e", 2, false), put("c", "x"), false},
		{"where a scan stopped", scan("a", "e", 2, false), put("b", "x"), true},
		{"before where a scan stopped", scan("a", "e", 2, false), put("aa", ""), true},
		{"below where a scan back stopped", scan("a", "e", 2, true), put("b", "x"), false},
		{"where a scan back stopped", scan("a", "e", 2, true), put("c", "x"), true},
		{"above where a scan back stopped", scan("a", "e", 2, true), put("dd", ""), true},
		{"an empty range", scan("x", "z", 0, false), put("y", ""), true},
		{"nothing was read", put("a", "mine"), put("a", "x"), false},
		{"its own write was read", func(tx engine.Tx) error {
			if err := put("a", "mine")(tx); err != nil {
				return err
			}
			return get("a")(tx)
		}, put("a", "x"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			eng := testengine.Open(t, testengine.Options{})
			if _, err := eng.Update(t.Context(), func(tx engine.Tx) error {
				for _, k := range []string{"a", "b", "c", "d"} {
					if err := put(k, k)(tx); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			tx := begin(t, eng, optimistic.Options{})
			for _, f := range []func(engine.Tx) error{c.read, put("result", "1")} {
				if err := tx.Do(t.Context(), f); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := eng.Update(t.Context(), c.other); err != nil {
				t.Fatal(err)
			}
			_, err := tx.Commit(t.Context())
			if errors.Is(err, engine.ErrConflict) != c.lost || err != nil && !c.lost {
				t.Errorf("commit: %v, want a conflict: %v", err, c.lost)
			}
			var there bool
			if _, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) (err error) {
				_, there, err = tx.Get([]byte("result"))
				return err
			}); err != nil || there == c.lost {
				t.Errorf("its write is there: %v, %v", there, err)
			}
		})
	}
}

// TestLife: what a transaction may do until it ends, and after.
func TestLife(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{})
	ctx, own := t.Context(), fmt.Errorf("own")
	tx := begin(t, eng, optimistic.Options{})
	if err := tx.Do(ctx, put("a", "1")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Do(ctx, func(tx engine.Tx) error { // is undone alone
		if err := put("a", "2")(tx); err != nil {
			return err
		}
		return own
	}); err != own {
		t.Errorf("an error of the function: %v", err)
	}
	func() {
		defer func() {
			if v := recover(); v != "own" {
				t.Errorf("recovered %v", v)
			}
		}()
		_ = tx.Do(ctx, func(tx engine.Tx) error {
			if err := put("a", "3")(tx); err != nil {
				return err
			}
			panic("own")
		})
	}()
	if _, err := eng.Update(ctx, put("b", "1")); err != nil { // others go on
		t.Fatal(err)
	}
	var kept engine.Tx
	if err := tx.Do(ctx, func(tx engine.Tx) error {
		kept = tx
		val, _, err := tx.Get([]byte("a"))
		if string(val) != "1" {
			t.Errorf("a is %q", val)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := kept.Put([]byte("x"), nil); err == nil {
		t.Error("a transaction is used after its function")
	}
	if _, err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(ctx); err == nil {
		t.Error("committed twice")
	}
	if err := tx.Do(ctx, get("a")); err == nil {
		t.Error("used after its end")
	}
}

// TestGone: a transaction ends with its context, or with the goroutine of its function.
func TestGone(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{})
	ctx := t.Context()
	gone, cancel := context.WithCancel(ctx)
	tx, err := optimistic.Begin(gone, eng, optimistic.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := tx.Commit(ctx); err == nil {
		t.Error("committed after its context ended")
	}
	if _, err := optimistic.Begin(gone, eng, optimistic.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("begun without a context: %v", err)
	}

	tx = begin(t, eng, optimistic.Options{})
	if err := tx.Do(ctx, func(engine.Tx) error { runtime.Goexit(); return nil }); err == nil {
		t.Error("a function that ends its goroutine succeeds")
	}
	if _, err := tx.Commit(ctx); err == nil {
		t.Error("a transaction without its goroutine is committed")
	}
}

// TestMaxBytes: a transaction keeps so much at most. What is over it is undone.
func TestMaxBytes(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{})
	for name, f := range map[string]func(i int) func(engine.Tx) error{
		"writes": func(i int) func(engine.Tx) error { return put(fmt.Sprint(i), strings.Repeat("x", 100)) },
		"reads":  func(i int) func(engine.Tx) error { return get(fmt.Sprint(i)) },
		"scans":  func(i int) func(engine.Tx) error { return scan(fmt.Sprint(i), "z", 0, i%2 == 0) },
	} {
		tx := begin(t, eng, optimistic.Options{MaxBytes: 10_000})
		var err error
		n := 0
		for ; n < 1000 && err == nil; n++ {
			err = tx.Do(t.Context(), f(n))
		}
		if !errors.Is(err, engine.ErrTxTooLarge) || n < 30 {
			t.Errorf("%s: %v after %d", name, err, n)
		}
	}
}
