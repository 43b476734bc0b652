package kv_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
	"github.com/skerrydb/skerry/kv"
)

// TestLoad: records of another engine keep their revisions, and never replace what is as new.
func TestLoad(t *testing.T) {
	for _, scope := range []engine.Scope{engine.OneKey, engine.OnePartition} {
		t.Run(scope.String(), func(t *testing.T) { loadInto(t, scope) })
	}
}

func loadInto(t *testing.T, scope engine.Scope) {
	c := newClock()
	eng := openEngine(t, c)
	src, err := kv.New(eng, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		set(t, src, fmt.Sprintf("{%d}%d", i%3, i), strings.Repeat("v", i), kv.SetOptions{Expires: time.Now().Add(time.Hour)})
	}
	set(t, src, "gone", "v", kv.SetOptions{Expires: time.Now().Add(-time.Hour)})
	pairs := recordsOf(t, eng)
	to, err := kv.New(enginetest.Within(openEngine(t, c), scope), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := to.Compare(t.Context(), pairs); engine.CodeOf(err) != engine.CodeCorrupt {
		t.Errorf("compare with nothing: %v", err)
	}
	for range 2 {
		if n, err := to.Load(t.Context(), pairs); err != nil || n != 200 {
			t.Fatalf("%d are loaded: %v", n, err)
		}
		if n, err := to.Compare(t.Context(), pairs); err != nil || n != 200 {
			t.Errorf("%d are compared: %v", n, err)
		}
	}
	want, _ := get(t, src, "{1}1")
	if got, ok := get(t, to, "{1}1"); !ok || got.Rev != want.Rev || !got.Expires.Equal(want.Expires) {
		t.Errorf("%+v, want %+v", got, want)
	}
	newer := set(t, to, "{1}1", "newer", kv.SetOptions{})
	if newer <= want.Rev {
		t.Errorf("revision %d after %d", newer, want.Rev)
	}
	if _, err := to.Load(t.Context(), pairs); err != nil {
		t.Fatal(err)
	}
	if got, _ := get(t, to, "{1}1"); string(got.Val) != "newer" || got.Rev != newer {
		t.Errorf("a late Load has replaced what is newer: %+v", got)
	}
	if _, err := to.Compare(t.Context(), pairs); engine.CodeOf(err) != engine.CodeCorrupt {
		t.Errorf("compare with another value: %v", err)
	}
	if _, err := to.Load(t.Context(), []engine.Pair{{Key: []byte("ra")}}); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("a key that is not of kv: %v", err)
	}
	if _, err := src.Load(t.Context(), pairs); engine.CodeOf(err) != engine.CodeUnsupported {
		t.Errorf("on an engine with an index: %v", err)
	}
}

// recordsOf returns the records of kv in an engine.
func recordsOf(t *testing.T, eng engine.Engine) (pairs []engine.Pair) {
	t.Helper()
	if _, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		pairs = nil
		for p, err := range tx.Scan([]byte("k"), []byte("l")) {
			if err != nil {
				return err
			}
			pairs = append(pairs, engine.Pair{Key: append([]byte{}, p.Key...), Val: append([]byte{}, p.Val...)})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return pairs
}
