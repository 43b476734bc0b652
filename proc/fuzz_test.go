package proc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

// fuzzed has arguments of the kinds that proc parses itself.
type fuzzed struct {
	B bool              `json:"b,omitempty"`
	I int32             `json:"i,omitempty"`
	U uint64            `json:"u,omitempty"`
	F float32           `json:"f,omitempty"`
	S string            `json:"s,omitempty"`
	Y []byte            `json:"y"`
	T time.Time         `json:"t,omitzero"`
	P *point            `json:"p"`
	L []string          `json:"l"`
	M map[string]*int64 `json:"m"`
	K map[int8][]bool   `json:"k"`
	R json.RawMessage   `json:"r,omitempty"`
}

// decode parses arguments and returns what the procedure received.
func decode(t *testing.T, s *proc.Set, set func(*proc.Call) error) (got fuzzed, err error) {
	t.Helper()
	c, err := s.Begin([]byte("echo"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.End()
	if err := set(c); err != nil {
		var bad *proc.ArgumentError
		if code := engine.CodeOf(err); !errors.As(err, &bad) || code != engine.CodeInvalid && code != engine.CodeLimit {
			t.Fatalf("%v is no ArgumentError", err)
		}
		return got, err
	}
	text, err := do(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return got, nil
}

// FuzzJSON checks that encoding/json accepts what proc accepts, with the same result.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{}`, ``, `{"b":true,"i":-5,"u":18446744073709551615,"f":1.5e3,"s":"\ud83d\ude00\u00e9\ud800","y":"AP8=","t":"2026-11-21T10:00:00.5+01:00"}`,
		`{"p":{"x":1,"y":null},"l":["a","\n",null],"m":{"a":1,"b":null},"k":{"-1":[true],"5":null},"r":{"a":[{}]}}`,
		` { "l" : [ ] , "m" : { } } `, `{"r":"}]\"{"}`, `{"y":"\u0041A=="}`, `{"i":1,"i":2}`, `{"\u0069":1}`, `{"p":null,"i":null}`, `{"s":1}`, "{\"s\":\"\xff\"}",
		`{"k":{"1":[],"01":[]}}`, `{"f":-0}`, `{"u":-0,"y":null,"l":null,"m":null,"k":null}`, `{"y":"A\nA=="}`,
	} {
		f.Add([]byte(seed))
	}
	s := newSet(f, proc.Options{}, proc.DefineRead("echo", echo[fuzzed]))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decode(t, s, func(c *proc.Call) error { return c.JSON(body) })
		if err != nil {
			return
		}
		var want fuzzed
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&want); err != nil && len(bytes.TrimSpace(body)) > 0 {
			t.Fatalf("%s is taken, and encoding/json says %v", body, err)
		}
		same(t, string(body), got, want)
	})
}

// same compares two values by their JSON.
func same(t *testing.T, what string, got, want fuzzed) {
	t.Helper()
	a, err := json.Marshal(got)
	b, err2 := json.Marshal(want)
	if err != nil || err2 != nil || !bytes.Equal(a, b) {
		t.Fatalf("%s: %s, want %s (%v, %v)", what, a, b, err, err2)
	}
}

// FuzzText checks that positional text for a value is parsed to the same value.
func FuzzText(f *testing.F) {
	f.Add("1", "-5", "7", "1e3", "text", "bytes", "2026-11-21T10:00:00Z", `{"x":1}`, `["a"]`, `{"a":1}`)
	f.Add("false", "2147483648", "-0", "-0.0", "", "", "", "", "", "")
	f.Add("{", "", "", "", "{", "", "", "null", "null", "null")
	s := newSet(f, proc.Options{}, proc.DefineRead("echo", echo[fuzzed]))
	f.Fuzz(func(t *testing.T, b, i, u, fl, text, y, at, p, l, m string) {
		args := []string{b, i, u, fl, text, y, at, p, l, m}
		got, err := decode(t, s, func(c *proc.Call) error { return c.Arguments(texts(args)) })
		if err != nil {
			return
		}
		kept := strings.ToValidUTF8(text, "\ufffd")
		if strings.ToValidUTF8(got.S, "\ufffd") != got.S || len([]rune(got.S)) < len([]rune(kept)) || string(got.Y) != y {
			t.Fatalf("%q became %q, %q became %q", text, got.S, y, got.Y)
		}
		// The same as one JSON object, with the texts as JSON values.
		var o strings.Builder
		for i, name := range []string{"i", "u", "f", "p", "l", "m"} {
			if v := []string{args[1], args[2], args[3], args[7], args[8], args[9]}[i]; v != "" {
				o.WriteString(`,"` + name + `":` + v)
			}
		}
		again, err := decode(t, s, func(c *proc.Call) error { return c.JSON([]byte(strings.Replace("{"+o.String()+"}", ",", "", 1))) })
		if err != nil {
			t.Fatalf("%q is taken, and %s is not: %v", args, o.String(), err)
		}
		again.B, again.S, again.Y, again.T = got.B, got.S, got.Y, got.T
		same(t, o.String(), got, again)
	})
}

// FuzzResult checks that results are encoded as encoding/json does.
func FuzzResult(f *testing.F) {
	f.Add("text <&>\u2028\xff\x00\x7f", int64(-1), uint64(math.MaxUint64), 1e-7, float32(1e21), []byte{0}, int64(0), true)
	f.Add("\b\f\n\r\t\"\\\x1f", int64(math.MinInt64), uint64(0), math.Copysign(0, -1), float32(1e-6), []byte(nil), int64(-62135596801), false)
	f.Add("é\ud7ff\U0010ffff", int64(7), uint64(7), 123456789.125, float32(0.1), []byte{}, int64(253402300800), true)
	type out struct {
		S   string `json:"s<&"`
		E   string `json:"e,omitempty"`
		I   int64
		U   []uint64
		F   float64
		F32 float32
		Y   []byte
		At  time.Time
		P   *int64 `json:",omitempty"`
		M   map[string]bool
		N   map[uint64]string `json:",omitzero"`
	}
	var now out
	s := newSet(f, proc.Options{}, proc.DefineRead("f", func(*proc.Tx, struct{}) (out, error) { return now, nil }))
	f.Fuzz(func(t *testing.T, text string, i int64, u uint64, f64 float64, f32 float32, y []byte, sec int64, b bool) {
		now = out{S: text, E: text, I: i, U: []uint64{u}, F: f64, F32: f32, Y: y, At: time.Unix(sec, i).UTC(), M: map[string]bool{text: b, "": !b}}
		if b {
			now.P, now.N, now.U = &i, map[uint64]string{u: text, 1: ""}, nil
		}
		want, wrong := json.Marshal(&now)
		got, err := call(t, s, "f")
		if (err == nil) != (wrong == nil) || err == nil && got != string(want) {
			t.Fatalf("%s, %v; want %s, %v", got, err, want, wrong)
		}
	})
}
