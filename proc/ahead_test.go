package proc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// expecting is a transaction that collects the keys that are announced to it.
type expecting struct {
	engine.Tx
	got []string
}

func (e *expecting) Expects() bool { return true }

func (e *expecting) Expect(keys [][]byte) {
	for _, key := range keys {
		e.got = append(e.got, fmt.Sprintf("%d%s", key[1], key[2:]))
	}
}

// announced runs fn and returns what it announces.
func announced(t *testing.T, s *proc.Set, fn func(tx engine.Tx, keys *kv.Tx) error) string {
	t.Helper()
	var e expecting
	if _, err := s.Engine().Update(t.Context(), func(tx engine.Tx) error {
		e = expecting{Tx: tx}
		return fn(&e, kv.In(&e, 0))
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(e.got, " ")
}

// hintIn has keys for a hint to name.
type hintIn struct {
	Keys []string `json:"keys"`
	Fail string   `json:"fail,omitempty"` // what to do then
}

func hintKeys(h *proc.Hints, in hintIn) {
	for i, key := range in.Keys {
		h.Key(uint8(i), []byte(key))
	}
	switch in.Fail {
	case "panic":
		panic("as requested")
	case "goexit":
		goexit()
	}
}

// total returns the length of all keys.
func total(_ *proc.Tx, in hintIn) (n int, err error) {
	for _, key := range in.Keys {
		n += len(key)
	}
	return n, nil
}

func hinting(t *testing.T, o proc.Options) *proc.Set {
	return newSet(t, o, proc.Define("hinted", total).Hint(hintKeys), proc.DefineRead("reads", total).Hint(hintKeys),
		proc.Define("not", total), proc.Define("nil", total).Hint(nil))
}

// TestHint checks which keys calls announce together.
func TestHint(t *testing.T) {
	s := hinting(t, proc.Options{})
	for _, c := range []struct{ name, key, args, want string }{
		{"hinted", "", `{"keys":["a","b"]}`, "0a 1b"},
		{"hinted", "", `{"keys":["","b","` + strings.Repeat("x", kv.MaxKeyBytes+1) + `","c"]}`, "1b 3c"},
		{"hinted", "once", `{"keys":["a"]}`, "255once 0a"},
		{"hinted", "", `{"keys":[]}`, ""},
		{"reads", "once", `{"keys":["a","b"]}`, "0a 1b"},
		{"not", "", `{"keys":["a","b"]}`, ""},
		{"not", "once", `{"keys":["a","b"]}`, "255once"},
		{"nil", "", `{"keys":["a","b"]}`, ""},
	} {
		got := announced(t, s, func(_ engine.Tx, keys *kv.Tx) error {
			call := begin(t, s, c.name, c.args)
			defer call.End()
			if c.key != "" {
				if err := call.Once([]byte(c.key)); err != nil {
					return err
				}
			}
			if !keys.Expect(9, []byte("first")) || !call.Expect(keys) || !keys.Expect(9, []byte("last")) {
				t.Errorf("%s %s: no room", c.name, c.args)
			}
			keys.Announce()
			return nil
		})
		if want := strings.Join(strings.Fields("9first "+c.want+" 9last"), " "); got != want {
			t.Errorf("%s %q %s: announced %q, want %q", c.name, c.key, c.args, got, want)
		}
	}
	for name, want := range map[string]bool{"hinted": true, "reads": true, "not": false, "nil": false, "none": false} {
		if s.Hinted([]byte(name)) != want {
			t.Errorf("Hinted(%s) is not %v", name, want)
		}
	}
}

// TestHintLimit checks that calls name a bounded number of keys, and know when to stop.
func TestHintLimit(t *testing.T) {
	named := 0
	s := newSet(t, proc.Options{}, proc.Define("many", total).Hint(func(h *proc.Hints, in hintIn) {
		for h.Key(0, []byte(in.Keys[0])) {
			named++
		}
		if h.Key(0, []byte("more")) {
			t.Error("more keys than there is room for")
		}
	}))
	got := announced(t, s, func(_ engine.Tx, keys *kv.Tx) error {
		call := begin(t, s, "many", `{"keys":["k"]}`)
		defer call.End()
		if keys.Expect(0, []byte("first")); call.Expect(keys) {
			t.Error("all keys have room")
		}
		keys.Announce()
		return call.Run(keys.Engine())
	})
	if n := len(strings.Fields(got)); n != kv.MaxExpected || named != n-1 {
		t.Errorf("announced %d keys of which %d are the hint's: %s", n, named, got)
	}
}

// TestKeptHints checks that a hint names no keys after its end.
func TestKeptHints(t *testing.T) {
	var kept *proc.Hints
	s := newSet(t, proc.Options{}, proc.Define("keep", total).Hint(func(h *proc.Hints, _ hintIn) { kept = h }))
	if got := announced(t, s, func(_ engine.Tx, keys *kv.Tx) error {
		call := begin(t, s, "keep", `{"keys":[]}`)
		defer call.End()
		call.Expect(keys)
		if kept.Key(0, []byte("a")) || kept.Key(0, []byte("b")) {
			t.Error("there is room")
		}
		keys.Announce()
		return nil
	}); got != "" {
		t.Errorf("announced %q", got)
	}
}

// TestHintPanics checks that a panic in a hint changes nothing, and is logged once.
func TestHintPanics(t *testing.T) {
	var l logs
	s := hinting(t, proc.Options{Logger: l.logger()})
	for range 3 {
		got := announced(t, s, func(tx engine.Tx, keys *kv.Tx) error {
			call := begin(t, s, "hinted", `{"keys":["a","bc"],"fail":"panic"}`)
			defer call.End()
			if !call.Expect(keys) {
				t.Error("no room")
			}
			keys.Announce()
			if err := call.Run(tx); err != nil {
				return err
			}
			text, err := call.AppendJSON(nil)
			want(t, "3")(string(text), err)
			return nil
		})
		if got != "0a 1bc" {
			t.Errorf("announced %q", got)
		}
	}
	if text := l.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "procedure=hinted") ||
		!strings.Contains(text, "ahead_test.go:") || !strings.Contains(text, "as requested") || strings.Contains(text, "proc.(*Call)") {
		t.Errorf("log: %s", text)
	}
	if m := metrics(s); m["proc_panics_total"] != 0 || m["proc_calls_total"] != 3 || m["proc_errors_total"] != 0 {
		t.Errorf("metrics: %v", m)
	}
}

// TestHintGoexit checks that a hint that ends its goroutine is logged.
func TestHintGoexit(t *testing.T) {
	var l logs
	s := hinting(t, proc.Options{Logger: l.logger()})
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := begin(t, s, "hinted", `{"keys":["a"],"fail":"goexit"}`)
		c.Expect(kv.In(&expecting{}, 0))
	}()
	<-done
	if !strings.Contains(l.String(), "the hint of a procedure ended its goroutine") {
		t.Errorf("log: %s", l.String())
	}
}

// TestExpectInside checks that a procedure can announce keys itself, until it returns.
func TestExpectInside(t *testing.T) {
	var inside *kv.Tx
	s := newSet(t, proc.Options{}, proc.Define("inside", func(tx *proc.Tx, _ struct{}) (bool, error) {
		inside = tx.KV(3)
		expects := inside.Expects()
		for _, key := range []string{"a", "b"} {
			inside.Expect(3, []byte(key))
		}
		inside.Announce()
		inside.Expect(3, []byte("not announced"))
		return expects, nil
	}))
	for i := range 3 {
		got := announced(t, s, func(tx engine.Tx, _ *kv.Tx) error {
			call := begin(t, s, "inside")
			defer call.End()
			if err := call.Run(tx); err != nil {
				return err
			}
			text, err := call.AppendJSON(nil)
			want(t, "true")(string(text), err)
			if inside.Expects() {
				t.Error("expects keys after its end")
			}
			if inside.Expect(3, []byte("late")); i == 0 {
				inside.Announce()
			}
			return nil
		})
		if got != "3a 3b" {
			t.Errorf("announced %q", got)
		}
	}
	if got, err := call(t, newSet(t, proc.Options{}, proc.Define("expects", func(tx *proc.Tx, _ struct{}) (bool, error) {
		return kv.In(tx.Engine(), 0).Expects(), nil
	})), "expects"); got != "false" || err != nil {
		t.Errorf("with few keys: %s, %v", got, err)
	}
}

// expectingEngine is an engine whose transactions are expecting.
type expectingEngine struct {
	engine.Engine
	tx expecting
}

func (e *expectingEngine) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return e.Engine.Update(ctx, func(tx engine.Tx) error {
		e.tx.Tx = tx
		return fn(&e.tx)
	})
}

func (e *expectingEngine) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	return e.Engine.View(ctx, r, func(tx engine.Tx) error {
		e.tx.Tx = tx
		return fn(&e.tx)
	})
}

// TestDoAnnounces checks that a single call announces the keys of its hint.
func TestDoAnnounces(t *testing.T) {
	typed := proc.Define("typed", total).Hint(hintKeys)
	eng := &expectingEngine{Engine: openEngine(t)}
	s := setOn(t, eng, proc.Options{}, typed, proc.DefineRead("reads", total).Hint(hintKeys), proc.Define("not", total))
	for _, name := range []string{"typed", "not", "reads", "typed"} {
		want(t, "3")(call(t, s, name, `{"keys":["a","bc"],"fail":"panic"}`))
	}
	if n, _, err := typed.Call(t.Context(), s, hintIn{Keys: []string{"x", "y"}}); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if got := strings.Join(eng.tx.got, " "); got != "0a 1bc 0a 1bc 0a 1bc 0x 1y" {
		t.Errorf("announced %q", got)
	}
}

// TestHintAllocations checks that announcing keys does not allocate.
func TestHintAllocations(t *testing.T) {
	if raceEnabled {
		return // the race detector empties pools
	}
	s := newSet(t, proc.Options{}, proc.Define("vote", vote).Hint(func(h *proc.Hints, in voteIn) {
		var buf [8]byte
		h.Key(0, append(buf[:0], byte(in.Phone)))
		h.Key(0, append(buf[:0], byte(in.Contestant)))
	}))
	announced(t, s, func(_ engine.Tx, keys *kv.Tx) error {
		keys.Bind(silent{keys.Engine()}, 0)
		call := begin(t, s, "vote", "1", "2", "3")
		defer call.End()
		if n := testing.AllocsPerRun(100, func() {
			call.Expect(keys)
			keys.Announce()
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
		return nil
	})
}

// silent is an engine.Expecter that does nothing.
type silent struct{ engine.Tx }

func (silent) Expects() bool   { return true }
func (silent) Expect([][]byte) {}
