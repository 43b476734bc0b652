package proc_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

// tape is a Sink that records what it receives.
type tape struct{ b strings.Builder }

func (s *tape) add(format string, args ...any) { fmt.Fprintf(&s.b, format+" ", args...) }
func (s *tape) Null()                          { s.add("null") }
func (s *tape) Bool(v bool)                    { s.add("%t", v) }
func (s *tape) Int(v int64)                    { s.add("%d", v) }
func (s *tape) Double(v float64)               { s.add("~%v", v) }
func (s *tape) Bulk(v []byte)                  { s.add("%q", v) }
func (s *tape) BulkString(v string)            { s.add("%q", v) }
func (s *tape) Array(n int)                    { s.add("[%d", n) }
func (s *tape) Map(n int)                      { s.add("{%d", n) }

// written returns what c writes to a Sink, and its JSON.
func written(t testing.TB, c *proc.Call) (text, asJSON string) {
	t.Helper()
	var s tape
	_, err := c.Do(t.Context(), engine.Read{}, func(c *proc.Call) error {
		if err := c.Write(&s); err != nil {
			return err
		}
		b, err := c.AppendJSON([]byte("before "))
		asJSON = strings.TrimPrefix(string(b), "before ")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(s.b.String()), asJSON
}

// shapes has the types in the table of result shapes.
type shapes struct {
	Null  struct{} `json:"none"`
	Bool  bool
	Int   int16
	Uint  uint64
	Big   uint64
	Float float32
	Inf   *float64 `json:",omitempty"`
	Text  string
	Bytes []byte
	None  []byte
	At    time.Time
	Sub   point
	List  []int
	Nil   []int
	Fixed [2]bool
	Map   map[string]int
	Ints  map[int]string
	Empty map[string]int
	Ptr   *point
	Own   json.RawMessage
	Addr  netip.Addr
	Left  int       `json:"left,omitempty"`
	Later time.Time `json:"later,omitzero"`
	*Embedded
}

// Embedded is a struct that others embed by a pointer.
type Embedded struct{ In int }

func someShapes() shapes {
	return shapes{
		Int: -3, Uint: math.MaxInt64, Big: math.MaxUint64, Float: 0.1, Text: "a\xffb", Bytes: []byte{0xff}, At: time.Date(2026, 11, 21, 10, 0, 0, 5, time.FixedZone("", 7200)),
		List: []int{1, 2}, Map: map[string]int{"b": 2, "a": 1, "": 0}, Ints: map[int]string{-2: "x", 10: "y", 9: "z"}, Own: json.RawMessage(` {"x": "<"} `), Addr: netip.MustParseAddr("::1"),
	}
}

func TestResultShapes(t *testing.T) {
	f := proc.DefineRead("f", func(*proc.Tx, struct{}) (shapes, error) { return someShapes(), nil })
	s := newSet(t, proc.Options{}, f)
	c := begin(t, s, "f")
	defer c.End()
	got, text := written(t, c)
	want := `{24 "none" null "Bool" false "Int" -3 "Uint" 9223372036854775807 "Big" "18446744073709551615" "Float" ~` + fmt.Sprint(float64(float32(0.1))) +
		` "Inf" null "Text" "a\xffb" "Bytes" "\xff" "None" "" "At" "2026-11-21T08:00:00.000000005Z" "Sub" {2 "x" 0 "y" null` +
		` "List" [2 1 2 "Nil" [0 "Fixed" [2 false false "Map" {3 "" 0 "a" 1 "b" 2 "Ints" {3 "-2" "x" "10" "y" "9" "z" "Empty" {0 "Ptr" null` +
		` "Own" "{\"x\":\"\\u003c\"}" "Addr" "::1" "left" 0 "later" "0001-01-01T00:00:00Z" "In" null`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	out := someShapes()
	if want := asJSON(t, &out); text != want {
		t.Errorf("%s; want\n%s", text, want)
	}
}

// TestScalarResults checks that a result need not be a struct.
func TestScalarResults(t *testing.T) {
	for _, x := range []struct {
		proc       proc.Procedure
		sink, json string
	}{
		{result(struct{}{}), "null", "null"},
		{result([]struct{}{{}}), "[1 null", "[null]"},
		{result(new(struct{})), "null", "null"},
		{result(true), "true", "true"},
		{result(-1), "-1", "-1"},
		{result(1e21), "~1e+21", "1e+21"},
		{result(float32(1e-7)), "~1.0000000116860974e-07", "1e-7"},
		{result("x"), `"x"`, `"x"`},
		{result([]string{"x"}), `[1 "x"`, `["x"]`},
		{result([]string(nil)), `[0`, `null`},
		{result((*int)(nil)), "null", "null"},
		{result(map[string]int(nil)), "{0", "null"},
		{result([]pointers{{1}}), `[1 "\"pointer\""`, `["pointer"]`},
		{result(map[string]pointers{"a": {1}}), `{1 "a" {1 "A" 1`, `{"a":{"A":1}}`}, // as in encoding/json
		{result(time.Unix(0, 0).UTC()), `"1970-01-01T00:00:00Z"`, `"1970-01-01T00:00:00Z"`},
		{result(json.Number("12")), `"12"`, `12`},
	} {
		c := begin(t, newSet(t, proc.Options{}, x.proc), "result")
		if sink, j := written(t, c); sink != x.sink || j != x.json {
			t.Errorf("%s and %s; want %s and %s", sink, j, x.sink, x.json)
		}
		c.End()
	}
}

func result[T any](v T) proc.Procedure {
	return proc.DefineRead("result", func(*proc.Tx, struct{}) (T, error) { return v, nil })
}

// pointers uses its own encoding only if it is addressable.
type pointers struct{ A int }

func (*pointers) MarshalJSON() ([]byte, error) { return []byte(`"pointer"`), nil }

// TestUnwritableResults checks that results that cannot be written undo the transaction, as
// an error does.
func TestUnwritableResults(t *testing.T) {
	for _, x := range []struct {
		proc proc.Procedure
		text string
		sink bool // RESP supports it
	}{
		{result(math.NaN()), "JSON has no number NaN", true},
		{result([]float64{1, math.Inf(-1)}), "JSON has no number -Inf", true},
		{result(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)), "year outside of range", false},
		{result(own(1)), "procedure result failed; the server's log has the details", false},
		{result(json.RawMessage("{")), "unexpected end of JSON", false},
	} {
		s := newSet(t, proc.Options{}, x.proc)
		_, err := call(t, s, "result")
		fails(t, err, engine.CodeInternal, x.text)
		c := begin(t, s, "result")
		_, err = c.Do(t.Context(), engine.Read{}, func(c *proc.Call) error { return c.Write(&tape{}) })
		if c.End(); (err == nil) != x.sink {
			t.Errorf("%s to a sink: %v", x.text, err)
		}
	}
}

// TestResultLimit checks that a result that is too large is detected while it is written.
func TestResultLimit(t *testing.T) {
	const limit = 100_000
	type in struct {
		Key string
		N   int
	}
	long := proc.Define("long", func(tx *proc.Tx, in in) (string, error) {
		return strings.Repeat("x", in.N), set(tx, in.Key, "1")
	})
	list := proc.DefineRead("list", func(_ *proc.Tx, in in) ([]int, error) { return make([]int, in.N), nil })
	deep := proc.DefineRead("deep", func(_ *proc.Tx, in in) (map[string]any2, error) {
		return map[string]any2{"a": {List: make([][]byte, in.N)}}, nil
	})
	s := newSet(t, proc.Options{MaxResult: limit}, long, list, deep, proc.DefineRead("get", get))
	for _, x := range []struct {
		name       string
		json, sink int // the largest n that fits
	}{{"long", limit - 2, limit - 16}, {"list", (limit - 1) / 2, limit/16 - 1}, {"deep", (limit - len(`{"a":{"List":[]}}`) + 1) / 5, 2500}} {
		write := func(n int, sink proc.Sink) error {
			c := begin(t, s, x.name, "k", strconv.Itoa(n))
			defer c.End()
			_, err := c.Do(t.Context(), engine.Read{}, func(c *proc.Call) error {
				if sink != nil {
					return c.Write(sink)
				}
				_, err := c.AppendJSON(make([]byte, 500))
				return err
			})
			return err
		}
		if err := write(x.json, nil); err != nil {
			t.Errorf("%s of %d as JSON: %v", x.name, x.json, err)
		}
		fails(t, write(x.json+1, nil), engine.CodeLimit, "the result of "+x.name+" is over the limit of 100000 bytes")
		if err := write(x.sink, &tape{}); err != nil {
			t.Errorf("%s of %d to a sink: %v", x.name, x.sink, err)
		}
		counted := &discard{}
		fails(t, write(limit*10, counted), engine.CodeLimit, "over the limit of 100000 bytes")
		if counted.n > limit/16+2 {
			t.Errorf("%s: %d values were written over the limit", x.name, counted.n)
		}
	}
	c := begin(t, s, "long", "undone", strconv.Itoa(limit))
	defer c.End()
	_, err := do(t, c)
	fails(t, err, engine.CodeLimit, "long")
	want(t, "null")(call(t, s, "get", "undone"))
}

type any2 struct{ List [][]byte }
