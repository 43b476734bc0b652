package proc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

type countIn struct {
	Name string `json:"name"`
	By   int64  `json:"by"`
	Fail string `json:"fail,omitempty"`
	Size int    `json:"size,omitempty"`
	Note *note  `json:"note"`
}

type note struct {
	F float64 `json:"f"`
	T []byte  `json:"t"`
}

type countOut struct {
	N    int64  `json:"n"`
	Text string `json:"text,omitempty"`
}

// count adds and fails as requested. Its effects show whether a call ran twice.
func count(tx *proc.Tx, in countIn) (out countOut, err error) {
	if out.N, err = tx.KV(0).Add([]byte(in.Name), in.By); err != nil {
		return out, err
	}
	out.Text = strings.Repeat("x", in.Size)
	switch in.Fail {
	case "":
	case "plain":
		err = fmt.Errorf("at %d: %w", out.N, errOwn)
	case "panic":
		panic("as requested")
	default:
		err = engine.Errorf(engine.Code(in.Fail), "at %d", out.N)
	}
	return out, err
}

func counting(t *testing.T, eng engine.Engine) *proc.Set {
	return setOn(t, eng, proc.Options{RememberFor: time.Hour}, proc.Define("count", count), proc.Define("count2", count),
		proc.DefineRead("seen", func(tx *proc.Tx, in keyIn) (int64, error) {
			e, _, err := tx.KV(0).Get([]byte(in.Key))
			return int64(len(e.Val)), err
		}), reader)
}

// once runs a call under a key and returns its answer in both encodings, JSON and Sink.
func once(t *testing.T, s *proc.Set, key, name string, args ...string) (answer string, err error) {
	t.Helper()
	c := begin(t, s, name, args...)
	defer c.End()
	if err := c.Once([]byte(key)); err != nil {
		return "", err
	}
	var sink tape
	_, err = c.Do(t.Context(), engine.Read{}, func(c *proc.Call) error {
		b, err := c.AppendJSON(nil)
		answer = string(b)
		sink.b.Reset()
		return errors.Join(err, c.Write(&sink))
	})
	if err == nil {
		answer += " " + strings.TrimSpace(sink.b.String())
	}
	if c.Replayed() {
		answer = "again " + answer
	}
	if v := c.Verdict(); v != nil && v.Error() != fmt.Sprint(err) {
		t.Errorf("the verdict is %v, the error %v", v, err)
	}
	return answer, err
}

func TestOnce(t *testing.T) {
	s := counting(t, openEngine(t))
	want(t, `{"n":5} {2 "n" 5 "text" ""`)(once(t, s, "k1", "count", "a", "5"))
	want(t, `again {"n":5} {2 "n" 5 "text" ""`)(once(t, s, "k1", "count", "a", "5"))
	want(t, `again {"n":5} {2 "n" 5 "text" ""`)(once(t, s, "k1", "count", `{"by":5,"name":"\u0061","note":null}`))
	want(t, `{"n":10} {2 "n" 10 "text" ""`)(once(t, s, "k2", "count", "a", "5"))
	for _, other := range [][]string{{"count", "a", "6"}, {"count", "b", "5"}, {"count2", "a", "5"}, {"count", "a", "5", "", "1"}, {"count", `{"name":"a","by":5,"note":{"f":0,"t":null}}`}} {
		_, err := once(t, s, "k1", other[0], other[1:]...)
		fails(t, err, engine.CodeKeyReused, "the key was used before")
	}
	want(t, `"10"`)(call(t, s, "reader", "a"))
	want(t, `2 2`)(once(t, s, "k1", "seen", "a")) // read-only calls are not remembered
	want(t, `2 2`)(once(t, s, "k1", "seen", "a"))
	for _, key := range []string{"", strings.Repeat("k", kv.MaxOnceKeyBytes+1)} {
		_, err := once(t, s, key, "count", "a", "5")
		fails(t, err, engine.CodeInvalid, "1 to 255 bytes")
	}
	want(t, `{"n":1} {2 "n" 1 "text" ""`)(once(t, s, strings.Repeat("k", kv.MaxOnceKeyBytes), "count", "c", "1"))
}

// TestOnceErrors checks that an error that the procedure decided on is remembered without
// its effects, and that after any other error the call may be tried again.
func TestOnceErrors(t *testing.T) {
	for _, x := range []struct {
		fail    string
		code    engine.Code
		text    string
		verdict bool
	}{
		{"plain", engine.CodeProcedureFailed, "at 5: the procedure's own error", true},
		{"too_many", "too_many", "at 5", true},
		{"not_found", engine.CodeNotFound, "at 5", true},
		{"limit", engine.CodeLimit, "at 5", false},
		{"memory_full", engine.CodeMemoryFull, "at 5", false},
		{"internal", engine.CodeInternal, "at 5", false},
		{"panic", engine.CodeInternal, "count failed", false},
	} {
		s := counting(t, openEngine(t))
		first, err := once(t, s, "k", "count", "a", "5", x.fail)
		if fails(t, err, x.code, x.text); first != "" {
			t.Errorf("%s: answered %s", x.fail, first)
		}
		want(t, "null")(call(t, s, "reader", "a"))
		if _, err := call(t, s, "count", "a", "1"); err != nil {
			t.Fatal(err)
		}
		again, later := once(t, s, "k", "count", "a", "5", x.fail)
		if !x.verdict {
			if again != "" || x.fail != "panic" && later.Error() == err.Error() {
				t.Errorf("%s: again %q, %v", x.fail, again, later)
			}
			continue
		}
		if again != "again " || later.Error() != err.Error() || engine.CodeOf(later) != x.code {
			t.Errorf("%s: first %v, then %q, %v", x.fail, err, again, later)
		}
		want(t, `"1"`)(call(t, s, "reader", "a"))
		_, err = once(t, s, "k", "count", "a", "5")
		fails(t, err, engine.CodeKeyReused, "")
	}
}

// TestOnceWithoutSavepoints checks that if the writes of a failed call cannot be undone
// alone, its error is not remembered.
func TestOnceWithoutSavepoints(t *testing.T) {
	s := counting(t, plainEngine{openEngine(t)})
	_, err := once(t, s, "k", "count", "a", "5", "too_many")
	fails(t, err, "too_many", "at 5")
	want(t, `{"n":5} {2 "n" 5 "text" ""`)(once(t, s, "k", "count", "a", "5"))
	want(t, `again {"n":5} {2 "n" 5 "text" ""`)(once(t, s, "k", "count", "a", "5"))
	silent := setOn(t, plainEngine{openEngine(t)}, proc.Options{}, proc.Define("no", func(*proc.Tx, struct{}) (int, error) { return 0, errOwn }))
	_, err = once(t, silent, "k", "no")
	fails(t, err, engine.CodeProcedureFailed, "own error")
	answer, err := once(t, silent, "k", "no")
	if fails(t, err, engine.CodeProcedureFailed, "own error"); answer != "again " {
		t.Errorf("an error without writes: %q", answer)
	}
}

// TestOnceLimits checks that an answer that is too large to be remembered undoes the call.
func TestOnceLimits(t *testing.T) {
	s := counting(t, openEngine(t))
	room := kv.MaxOnceAnswerBytes - 1 - len(`{"n":1,"text":""}`)
	_, err := once(t, s, "k", "count", "a", "1", "", fmt.Sprint(room+1))
	fails(t, err, engine.CodeLimit, fmt.Sprintf("the result of count is over the limit of %d bytes", kv.MaxOnceAnswerBytes-1))
	want(t, "null")(call(t, s, "reader", "a"))
	for _, again := range []string{"", "again "} {
		answer, err := once(t, s, "k", "count", "a", "1", "", fmt.Sprint(room))
		if err != nil || !strings.HasPrefix(answer, again+`{"n":1,"text":"xx`) {
			t.Errorf("%.30s, %v", answer, err)
		}
	}
}

// TestOnceShapes checks that a remembered result is written to a Sink as it was at first.
func TestOnceShapes(t *testing.T) {
	out := someShapes()
	out.Text, out.Inf = "text <> \u2028", new(float64)
	*out.Inf = -math.MaxFloat64
	s := newSet(t, proc.Options{}, proc.Define("shapes", func(*proc.Tx, struct{}) (shapes, error) { return out, nil }),
		proc.Define("full", func(*proc.Tx, struct{}) (everything, error) { return filled(), nil }),
		proc.Define("nil", func(*proc.Tx, struct{}) (map[string]*int, error) { return nil, nil }))
	for _, name := range []string{"shapes", "full", "nil"} {
		first, err := once(t, s, name, name)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "again "+first)(once(t, s, name, name))
	}
}

// upper is text with methods only on its pointer.
type upper struct{ s string }

func (u *upper) MarshalText() ([]byte, error) { return []byte(strings.ToUpper(u.s)), nil }
func (u *upper) UnmarshalText(b []byte) error { u.s = string(b); return nil }

// TestOnceSums checks that different arguments have different checksums, wherever they
// differ.
func TestOnceSums(t *testing.T) {
	type in struct {
		M map[string]upper `json:",omitempty"`
		L [][1]upper       `json:",omitempty"`
		P **uint64         `json:",omitempty"`
		T time.Time        `json:",omitzero"`
		B []byte           `json:",omitempty"`
		S string           `json:",omitempty"`
		O bool             `json:",omitempty"`
		R json.RawMessage  `json:",omitempty"`
	}
	s := newSet(t, proc.Options{}, proc.Define("p", func(*proc.Tx, in) (int, error) { return 1, nil }))
	args := []string{
		`{}`, `{"M":{"a":"b"}}`, `{"M":{"a":"c"}}`, `{"M":{"b":"b"}}`, `{"L":[["a"]]}`, `{"L":[["a"],["b"]]}`, `{"P":0}`, `{"P":18446744073709551615}`,
		`{"T":"2026-11-21T10:00:00Z"}`, `{"B":"YQ=="}`, `{"S":"a"}`, `{"S":"aO"}`, `{"O":true}`, `{"S":"a","O":true}`, `{"R":{"a":1}}`, `{"R":[1]}`,
	}
	for i, a := range args {
		for j, b := range args {
			key := fmt.Sprint(i, " ", j)
			want(t, "1 1")(once(t, s, key, "p", a))
			answer, err := once(t, s, key, "p", b)
			if i == j {
				want(t, "again 1 1")(answer, err)
			} else if engine.CodeOf(err) != engine.CodeKeyReused {
				t.Errorf("%s and %s are the same: %s, %v", a, b, answer, err)
			}
		}
	}
	want(t, "1 1")(once(t, s, "same", "p", `{"M":{"a":"x","b":"y"},"T":"2026-11-21T10:00:00Z","R":{"a": 1}}`))
	want(t, "again 1 1")(once(t, s, "same", "p", `{"R":{"a":1},"T":"2026-11-21T11:00:00+01:00","M":{"b":"Y","a":"X"},"P":null}`))
}

// TestOnceOtherVersion checks that an answer remembered by another version of the program
// is returned if possible.
func TestOnceOtherVersion(t *testing.T) {
	eng := openEngine(t)
	type in struct {
		A int
		B string `json:",omitempty"`
	}
	type older struct{ A int }
	old := setOn(t, eng, proc.Options{}, proc.Define("p", func(_ *proc.Tx, in older) (map[string]int, error) { return map[string]int{"x": in.A}, nil }))
	now := setOn(t, eng, proc.Options{}, proc.Define("p", func(_ *proc.Tx, in in) ([]string, error) { return nil, nil }))
	more := setOn(t, eng, proc.Options{}, proc.Define("p", func(_ *proc.Tx, in in) (point, error) { return point{}, nil }))
	want(t, `{"x":1} {1 "x" 1`)(once(t, old, "k", "p", "1"))
	want(t, `again {"x":1,"y":null} {2 "x" 1 "y" null`)(once(t, more, "k", "p", "1"))
	_, err := once(t, now, "k", "p", "1")
	fails(t, err, engine.CodeUnsupported, "another shape")
}

// TestOnceOthersAnswer checks that a key under which something else was remembered counts
// as used.
func TestOnceOthersAnswer(t *testing.T) {
	eng := openEngine(t)
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Update(t.Context(), 0, func(tx *kv.Tx) error {
		return tx.Remember([]byte("k"), kv.Answered{Answer: []byte("?")}, time.Hour)
	}); err != nil {
		t.Fatal(err)
	}
	_, err = once(t, counting(t, eng), "k", "count", "a", "1")
	fails(t, err, engine.CodeKeyReused, "")
}

// TestOnceExpires checks that a key is new again after RememberFor.
func TestOnceExpires(t *testing.T) {
	var at atomic.Int64
	at.Store(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC).UnixMicro())
	db := testengine.Open(t, testengine.Options{Memory: true, Now: func() time.Time { return time.UnixMicro(at.Load()) }})
	s := counting(t, db)
	want(t, `{"n":1} {2 "n" 1 "text" ""`)(once(t, s, "k", "count", "a", "1"))
	at.Add((time.Hour - time.Second).Microseconds())
	want(t, `again {"n":1} {2 "n" 1 "text" ""`)(once(t, s, "k", "count", "a", "1"))
	at.Add((2 * time.Second).Microseconds())
	want(t, `{"n":2} {2 "n" 2 "text" ""`)(once(t, s, "k", "count", "a", "1"))
}

// TestRunAgain checks that an engine may run a transaction more than once.
func TestRunAgain(t *testing.T) {
	s := counting(t, enginetest.Twice(openEngine(t)))
	want(t, `{"n":1} {2 "n" 1 "text" ""`)(once(t, s, "k", "count", "a", "1"))
	want(t, `again {"n":1} {2 "n" 1 "text" ""`)(once(t, s, "k", "count", "a", "1"))
	_, err := once(t, s, "e", "count", "a", "1", "too_many")
	fails(t, err, "too_many", "at 2")
	want(t, `{"n":2}`)(call(t, s, "count", "a", "1"))
}

// TestRunAgainOtherwise checks that the decision of one run is dropped when the engine runs
// the call again and that run decides otherwise.
func TestRunAgainOtherwise(t *testing.T) {
	for _, failsFirst := range []bool{true, false} {
		runs := 0
		s := setOn(t, enginetest.Twice(openEngine(t)), proc.Options{}, proc.Define("p", func(*proc.Tx, struct{}) (int, error) {
			if runs++; failsFirst == (runs == 1) {
				return 0, errOwn
			}
			return runs, nil
		}))
		answer, err := once(t, s, "k", "p")
		again, later := once(t, s, "k", "p")
		if runs != 2 {
			t.Errorf("%d runs", runs)
		}
		if failsFirst {
			want(t, "2 2")(answer, err)
			want(t, "again 2 2")(again, later)
			continue
		}
		fails(t, err, engine.CodeProcedureFailed, "own error")
		if fails(t, later, engine.CodeProcedureFailed, "own error"); again != "again " {
			t.Errorf("again: %q", again)
		}
	}
}
