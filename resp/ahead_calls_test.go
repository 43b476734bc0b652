package resp

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// aheadIn is a key that a procedure uses, and what its hint does instead of naming it.
type aheadIn struct {
	Key  string `json:"key"`
	Hint string `json:"hint,omitempty"`
	Pad  string `json:"pad,omitempty"`
}

func aheadHint(h *proc.Hints, in aheadIn) {
	switch in.Hint {
	case "":
		h.Key(0, []byte(in.Key))
	case "wrong":
		h.Key(1, []byte(in.Key+"?"))
	case "panic":
		h.Key(0, []byte(in.Key))
		panic("as requested")
	case "many":
		for range 2 * kv.MaxExpected {
			h.Key(0, []byte(in.Key))
		}
	}
}

// aheadProcedures returns procedures with hints, or the same without.
func aheadProcedures(t testing.TB, eng engine.Engine, hint func(*proc.Hints, aheadIn)) *proc.Set {
	t.Helper()
	add := func(tx *proc.Tx, in aheadIn) (int64, error) { return tx.KV(0).Add([]byte(in.Key), 1) }
	fail := func(tx *proc.Tx, in aheadIn) (int64, error) {
		n, err := add(tx, in)
		return n, errors.Join(err, errors.New("as requested"))
	}
	get := func(tx *proc.Tx, in aheadIn) (string, error) {
		e, _, err := tx.KV(0).Get([]byte(in.Key))
		return string(e.Val), err
	}
	set, err := proc.New(eng, proc.Options{}, proc.Define("add", add).Hint(hint), proc.Define("fail", fail).Hint(hint),
		proc.DefineRead("get", get).Hint(hint), proc.Define("plain", add))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestExpectCalls checks which keys calls of procedures announce together.
func TestExpectCalls(t *testing.T) {
	eng := &expecting{DB: openEngine(t), wants: always}
	var got []string
	eng.expect = func(keys [][]byte) {
		got = append(got, "|")
		for _, key := range keys {
			got = append(got, fmt.Sprintf("%d%s", key[1], key[2:]))
		}
	}
	do := localConn(t, newTestServer(t, eng, nil, Options{Procedures: aheadProcedures(t, eng, aheadHint)}))
	for _, c := range []struct{ what, commands, want string }{
		{"writes", "CALL add a\nFCALL add 0 b\nCALLONCE once1 fail c\nSET d 1\nCALL fail e", "| 0a 0b 255once1 0c 0d 0e"},
		{"reads", "CALL get a\nFCALL_RO get 1 b\nGET c\nCALLONCE key get d", "| 0a 0b 0c 0d"},
		{"no hint", "CALL plain a\nCALLONCE once2 plain b\nFCALL plain 1 c\nCALL add d", "| 255once2 0c 0d"},
		{"refused", "CALL none a\nCALL add\nCALL add a b c d\nFCALL add x b\nFCALL_RO add 0 c\nCALLONCE " + strings.Repeat("k", 2049) + " add d\nCALL add e\nCALL add f", "| 0b 0c 0e 0f"},
		{"EXEC", "CALL add z\nMULTI\nCALL add a\nSET b 1\nCALLONCE once3 add c\nEXEC\nCALL add d", "| 0z 0a 0b 255once3 0c 0d"},
		{"long arguments", "CALL add a\nCALL add b wrong " + strings.Repeat("x", maxAheadBytes) + "\nCALL add c", "| 0a 0c"},
		{"a panic", "CALL add a panic\nCALL add b", "| 0a 0b"},
		{"a single one", "CALL add a", ""},
	} {
		got = nil
		do(commandLines(c.commands))
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: announced %q, want %q", c.what, got, c.want)
		}
	}
	for _, c := range []struct{ commands, want string }{
		{"CALL add a many\nCALL add b\nCALL add c", "[64 2]"},
		{"CALL add a\nCALL add b many\nCALL add c\nCALL add d", "[64 64 2]"},
		{strings.Repeat("CALL add a\n", 150), "[64 64 22]"},
		{"MULTI\n" + strings.Repeat("CALL add a\n", 150) + "EXEC\n", "[64 64 22]"},
	} {
		var n []int
		eng.expect = func(keys [][]byte) { n = append(n, len(keys)) }
		if out := do(commandLines(c.commands)); bytes.Contains(out, []byte("-")) || fmt.Sprint(n) != c.want {
			t.Errorf("%.40q announced %v, want %v", c.commands, n, c.want)
		}
	}
}

// TestCallsThatWait checks that a bounded number of calls is begun ahead, even if they name
// no keys.
func TestCallsThatWait(t *testing.T) {
	eng := &expecting{DB: openEngine(t), wants: always}
	hints, waiting := 0, 0
	count := func(*proc.Tx, struct{}) (int, error) {
		waiting = max(waiting, hints)
		hints--
		return 0, nil
	}
	set, err := proc.New(eng, proc.Options{}, proc.Define("count", count).Hint(func(*proc.Hints, struct{}) { hints++ }))
	if err != nil {
		t.Fatal(err)
	}
	do := localConn(t, newTestServer(t, eng, nil, Options{Procedures: set}))
	for _, commands := range []string{
		strings.Repeat("CALL count\n", 200),
		strings.Repeat("MULTI\n"+strings.Repeat("CALL count\n", 40)+"EXEC\n", 10),
		"MULTI\n" + strings.Repeat("CALL count\n", 200) + "EXEC\n",
	} {
		hints, waiting = 0, 0
		if do(commandLines(commands)); waiting != kv.MaxExpected {
			t.Errorf("%.30q: up to %d calls wait, want %d", commands, waiting, kv.MaxExpected)
		}
	}
}

// TestHintsChangeNothing sends the same random calls to a server with so much data that the
// engine wants hints, and to one without them.
func TestHintsChangeNothing(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	large, small := fullEngine(t), openEngine(t)
	var ahead atomic.Int64
	spy := &expecting{DB: large, wants: engine.Expecter.Expects, expect: func(keys [][]byte) { ahead.Add(int64(len(keys))) }, twice: true}
	got := localConn(t, newTestServer(t, spy, nil, Options{Procedures: aheadProcedures(t, spy, aheadHint)}))
	want := localConn(t, newTestServer(t, small, nil, Options{Procedures: aheadProcedures(t, small, nil)}))
	sameReplies(t, rng, aheadCall, got, want)
	if ahead.Load() < 1000 {
		t.Errorf("only %d keys were announced", ahead.Load())
	}
}

// aheadCall returns a command, mostly a call of a procedure.
func aheadCall(rng *rand.Rand) string {
	one := func(list ...string) string { return list[rng.IntN(len(list))] }
	args := fmt.Sprintf(" %d %s", rng.IntN(200)*655, one("", "", "", "wrong", "none", "panic", "many", "x y z"))
	name := one("add", "add", "fail", "get", "plain", "none")
	return one("CALL "+name+args, "CALL "+name+args, "FCALL "+name+one(" 0", " 1", " 2", " x")+args, "FCALL_RO "+name+" 1"+args,
		fmt.Sprintf("CALLONCE %d %s%s", rng.IntN(500), name, args), "CALL "+name, "MULTI", "EXEC", "DISCARD", expectCommand(rng))
}

// TestCallsAheadAllocateNothing compares the allocations of calls that name their keys with
// those of others.
func TestCallsAheadAllocateNothing(t *testing.T) {
	if raced {
		return // the race detector makes pools forget at random
	}
	eng := &expecting{DB: openEngine(t)}
	do := localConn(t, newTestServer(t, eng, nil, Options{Procedures: aheadProcedures(t, eng, aheadHint)}))
	for _, line := range []string{"CALL add a\n", "CALLONCE key add a\n", "CALL get a\n", "FCALL plain 1 a\n"} {
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
