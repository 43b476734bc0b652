package proc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

// everything has an argument of each kind.
type everything struct {
	Bool  bool             `json:"bool"`
	Int   int              `json:"int"`
	I8    int8             `json:"i8"`
	U16   uint16           `json:"u16"`
	U64   uint64           `json:"u64"`
	F32   float32          `json:"f32"`
	F64   float64          `json:"f64"`
	Text  string           `json:"text"`
	Bytes []byte           `json:"bytes"`
	At    time.Time        `json:"at"`
	Obj   point            `json:"obj"`
	List  []int8           `json:"list"`
	Pair  [2]uint8         `json:"pair"`
	Map   map[string]point `json:"map"`
	Keys  map[int16]bool   `json:"keys"`
	Own   json.RawMessage  `json:"own"`
	Addr  netip.Addr       `json:"addr"`
	None  struct{}         `json:"none"`
	Ptr   *int32           `json:"ptr"`
	Deep  **point          `json:"deep"`
	Opt   int              `json:"opt,omitempty"`
	Zero  time.Time        `json:"zero,omitzero"`
	Named string
	outer
}

type point struct {
	X int    `json:"x"`
	Y *uint8 `json:"y"`
}

type outer struct {
	Inner string `json:"inner,omitempty"`
}

// echo returns its argument.
func echo[T any](_ *proc.Tx, in T) (T, error) { return in, nil }

func filled() everything {
	n, y, p := int32(-7), uint8(200), &point{X: 9}
	return everything{
		true, -5, -128, 65535, 1<<64 - 1, 1.5, -2.25e-9, "text <&> \u2028 \"", []byte{0, 255}, time.Date(2026, 11, 21, 10, 0, 0, 123456789, time.FixedZone("", 3600)),
		point{1, &y}, []int8{1, -1}, [2]uint8{3, 4}, map[string]point{"b": {2, nil}, "a": {}}, map[int16]bool{-1: true, 10: false}, json.RawMessage(`{"a":[1,"}"]}`),
		netip.MustParseAddr("::1"), struct{}{}, &n, &p, 3, time.Unix(0, 0).UTC(), "n", outer{"in"},
	}
}

// TestEchoJSON checks that arguments and results match encoding/json.
func TestEchoJSON(t *testing.T) {
	s := newSet(t, proc.Options{}, proc.DefineRead("echo", echo[everything]))
	for i, in := range []everything{filled(), {Own: json.RawMessage("1"), Addr: netip.MustParseAddr("1.2.3.4")}} {
		want := asJSON(t, &in)
		c := begin(t, s, "echo", strings.Replace(want, `"none":null`, `"none":{}`, i)) // either form is accepted
		got, err := do(t, c)
		c.End()
		if err != nil || got != want {
			t.Errorf("%s\n%s, %v", want, got, err)
		}
	}
}

// TestEchoText passes each kind of argument as text.
func TestEchoText(t *testing.T) {
	s := newSet(t, proc.Options{}, proc.DefineRead("echo", echo[everything]))
	args := []string{
		"1", "-5", "-128", "65535", "18446744073709551615", "1.5", "-2.25e-9", "text", "\x00\xff", "2026-11-21T10:00:00.5Z",
		`{"x":1,"y":2}`, "[1,-1]", "[3,4]", `{"a":{"x":1,"y":null}}`, `{"-1":true}`, ` [1, "}"] `, "::1", "{}", "-7", `{"x":1,"y":null}`,
	}
	got, err := call(t, s, "echo", append(args, "", "2026-11-21T10:00:00Z", "n", "in")...)
	want := `{"bool":true,"int":-5,"i8":-128,"u16":65535,"u64":18446744073709551615,"f32":1.5,"f64":-2.25e-9,"text":"text","bytes":"AP8=",` +
		`"at":"2026-11-21T10:00:00.5Z","obj":{"x":1,"y":2},"list":[1,-1],"pair":[3,4],"map":{"a":{"x":1,"y":null}},"keys":{"-1":true},"own":[1,"}"],` +
		`"addr":"::1","none":null,"ptr":-7,"deep":{"x":1,"y":null},"zero":"2026-11-21T10:00:00Z","Named":"n","inner":"in"}`
	if err != nil || got != want {
		t.Errorf("%s, %v; want\n%s", got, err, want)
	}
	for i, empty := range map[int]string{11: `"list":null`, 13: `"map":null`, 18: `"ptr":null`, 19: `"deep":null`, 7: `"text":""`, 8: `"bytes":""`} {
		with := append(slices.Clone(args), "", "", "n")
		with[i] = ""
		if got, err := call(t, s, "echo", with...); err != nil || !strings.Contains(got, empty) {
			t.Errorf("argument %d empty: %s, %v; want %s", i, got, err, empty)
		}
	}
}

// argCase is a mistake and the expected error.
type argCase struct {
	arg     string
	pointer string
	text    string
}

// strict has arguments that can be wrong in many ways.
type strict struct {
	N     int8             `json:"n"`
	U     uint16           `json:"u,omitempty"`
	F     float32          `json:"f,omitempty"`
	S     string           `json:"s,omitempty"`
	B     []byte           `json:"b,omitempty"`
	At    time.Time        `json:"at,omitzero"`
	Ok    bool             `json:"ok,omitempty"`
	List  []point          `json:"list,omitempty"`
	Two   [2]int           `json:"two,omitempty"`
	Map   map[string]point `json:"map,omitempty"`
	Ints  map[uint8]int    `json:"ints,omitempty"`
	Addr  netip.Addr       `json:"addr,omitempty"`
	Slash int              `json:"a/b~c,omitempty"`
	Must  *int             `json:"must"`
}

// TestBadJSON checks that the error for each mistake names its position.
func TestBadJSON(t *testing.T) {
	s := newSet(t, proc.Options{}, proc.DefineRead("p", func(*proc.Tx, strict) (int, error) { return 1, nil }))
	for _, x := range []argCase{
		{``, "/n", "argument n is missing"},
		{`{}`, "/n", "argument n is missing"},
		{`[]`, "", "the arguments must be a JSON object, not a list"},
		{"\x00", "", "the arguments are not JSON"},
		{" \x00 garbage", "", "the arguments are not JSON"},
		{"\xff", "", "the arguments are not JSON"},
		{`null`, "", "must be a JSON object, not null"},
		{`"n"`, "", "must be a JSON object, not a string"},
		{`{"n":1`, "", "the arguments are not JSON: unexpected end"},
		{`{"n":1}}`, "", "the arguments are not JSON"},
		{`{"n":1,"phnoe":1}`, "/phnoe", "argument phnoe is not known"},
		{`{"n":1,"lits":1}`, "/lits", "argument lits is not known; did you mean list?"},
		{`{"n":1,"N":1}`, "/N", "is not known"},
		{`{"n":1,"n":2}`, "/n", "argument n is given twice"},
		{`{"n":1,"\u006e":2}`, "/n", "argument n is given twice"},
		{`{"n":null}`, "/n", "must be an integer, not null"},
		{`{"n":"1"}`, "/n", "must be an integer, not a string"},
		{`{"n":1.0}`, "/n", `must be an integer, not "1.0"`},
		{`{"n":128}`, "/n", "outside the range of an integer of 8 bits"},
		{`{"n":-129}`, "/n", "outside the range"},
		{`{"n":99999999999999999999999}`, "/n", "outside the range"},
		{`{"n":1,"u":-1}`, "/u", "outside the range of an unsigned integer of 16 bits"},
		{`{"n":1,"u":-0}`, "/u", "outside the range"}, // encoding/json rejects it too
		{`{"n":1,"u":65536}`, "/u", "outside the range"},
		{`{"n":1,"f":1e39}`, "/f", "outside the range of a floating-point number of 32 bits"},
		{`{"n":1,"f":true}`, "/f", "must be a number, not true or false"},
		{`{"n":1,"s":1}`, "/s", "must be a string, not a number"},
		{`{"n":1,"b":"?"}`, "/b", "must be base64"},
		{`{"n":1,"at":"yesterday"}`, "/at", "must be a time as 2006-01-02T15:04:05Z (RFC 3339), not \"yesterday\""},
		{`{"n":1,"ok":1}`, "/ok", "must be true or false, not a number"},
		{`{"n":1,"list":{}}`, "/list", "must be a list, not an object"},
		{`{"n":1,"list":[{"x":1},{"x":"1"}]}`, "/list/1/x", "argument list.1.x must be an integer, not a string"},
		{`{"n":1,"list":[{"x":1},{}]}`, "/list/1/x", "is missing"},
		{`{"n":1,"list":[{"x":1,"y":256}]}`, "/list/0/y", "outside the range"},
		{`{"n":1,"list":[null]}`, "/list/0", "must be an object, not null"},
		{`{"n":1,"two":[1]}`, "/two", "must have exactly 2 elements, not 1"},
		{`{"n":1,"two":[1,2,3]}`, "/two", "must have exactly 2 elements"},
		{`{"n":1,"map":{"a b":{"x":1,"z":1}}}`, "/map/a b/z", "is not known"},
		{`{"n":1,"map":{"a":{"x":1},"a":{"x":1}}}`, "/map/a", "is given twice"},
		{`{"n":1,"ints":{"x":1}}`, "/ints/x", "must be an integer: it is a key of a map"},
		{`{"n":1,"ints":{"256":1}}`, "/ints/256", "outside the range"},
		{`{"n":1,"addr":"1.2"}`, "/addr", "is refused"},
		{`{"n":1,"a/b~c":"x"}`, "/a~1b~0c", "must be an integer"},
		{`{"n":1,"must":"x"}`, "/must", "must be an integer, not a string"},
		{`{"n":1,"` + strings.Repeat("y", 500) + `":1}`, "/" + strings.Repeat("y", 128) + "…", "is not known"},
	} {
		c, err := s.Begin([]byte("p"))
		if err != nil {
			t.Fatal(err)
		}
		err = c.JSON([]byte(x.arg))
		c.End()
		x.check(t, err)
	}
}

// check fails the test unless err matches the case.
func (x argCase) check(t *testing.T, err error) {
	t.Helper()
	var e *proc.ArgumentError
	if !errors.As(err, &e) || e.Pointer != x.pointer || !strings.Contains(e.Error(), x.text) || !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("%.80s: %v at %+v; want %q at %q", x.arg, err, e, x.text, x.pointer)
	}
}

// TestBadText does the same for positional arguments.
func TestBadText(t *testing.T) {
	type in struct {
		N   int8      `json:"n"`
		Ok  bool      `json:"ok"`
		F   float64   `json:"f"`
		At  time.Time `json:"at"`
		L   []int     `json:"l"`
		Own []own     `json:"own"`
		P   *uint     `json:"p"`
	}
	s := newSet(t, proc.Options{}, proc.DefineRead("p", func(*proc.Tx, in) (int, error) { return 1, nil }))
	good := []string{"1", "true", "1", "2026-11-21T10:00:00Z", "[1]", "[]"}
	with := func(i int, arg string) []string {
		args := slices.Clone(good)
		args[i] = arg
		return args
	}
	for _, x := range []struct {
		args []string
		argCase
	}{
		{nil, argCase{"", "/n", "argument n is missing: p takes 7 arguments (n, ok, f, at, l, own, p), not 0"}},
		{good[:5], argCase{"", "/own", "argument own is missing"}},
		{append(slices.Clone(good), "1", "2"), argCase{"", "", "p takes 7 arguments (n, ok, f, at, l, own, p), not 8"}},
		{with(0, ""), argCase{"", "/n", `must be an integer, not ""`}},
		{with(0, " 1"), argCase{"", "/n", `must be an integer, not " 1"`}},
		{with(0, "+1"), argCase{"", "/n", `must be an integer, not "+1"`}},
		{with(0, "01"), argCase{"", "/n", `must be an integer, not "01"`}},
		{with(0, "0x1"), argCase{"", "/n", "must be an integer"}},
		{with(0, "1.5"), argCase{"", "/n", "must be an integer"}},
		{with(0, "128"), argCase{"", "/n", "outside the range of an integer of 8 bits"}},
		{with(0, strings.Repeat("9", 300)), argCase{"", "/n", "outside the range"}},
		{with(0, strings.Repeat("x", 300)), argCase{"", "/n", `must be an integer, not "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"…`}},
		{with(1, "yes"), argCase{"", "/ok", "must be true, false, 1 or 0"}},
		{with(2, "NaN"), argCase{"", "/f", "must be a number"}},
		{with(2, "1e999"), argCase{"", "/f", "outside the range"}},
		{with(3, "now"), argCase{"", "/at", "must be a time"}},
		{with(4, "1,2"), argCase{"", "/l", "must be a list as JSON"}},
		{with(4, "[1,true]"), argCase{"", "/l/1", "must be an integer, not true or false"}},
		{with(4, "7"), argCase{"", "/l", "must be a list, not a number"}},
		{with(5, "[1]"), argCase{"", "/own/0", "cannot be read: its type panicked"}},
		{append(slices.Clone(good), "-1"), argCase{"", "/p", "outside the range of an unsigned integer of 64 bits"}},
		{append(slices.Clone(good), "x"), argCase{"", "/p", "must be an integer"}},
		{[]string{`{"n":1,`}, argCase{"", "", "are not JSON"}},
	} {
		c, err := s.Begin([]byte("p"))
		if err != nil {
			t.Fatal(err)
		}
		err = c.Arguments(texts(x.args))
		c.End()
		x.arg = fmt.Sprint(x.args)
		x.check(t, err)
	}
}

// own has its own, faulty encoding.
type own int

func (own) MarshalJSON() ([]byte, error) { panic("cannot write") }
func (*own) UnmarshalJSON([]byte) error  { panic("cannot read") }

// TestSingleArgument checks that a single text that begins with { is all arguments, unless
// text for the only argument can begin with { itself.
func TestSingleArgument(t *testing.T) {
	type text struct{ S string }
	type raw struct{ B []byte }
	type doc struct{ J json.RawMessage }
	type obj struct{ P *point }
	type two struct {
		A string
		B int `json:",omitempty"`
	}
	s := newSet(t, proc.Options{}, proc.DefineRead("text", echo[text]), proc.DefineRead("raw", echo[raw]), proc.DefineRead("doc", echo[doc]),
		proc.DefineRead("obj", echo[obj]), proc.DefineRead("two", echo[two]), proc.DefineRead("none", echo[struct{}]))
	want(t, `{"S":"{\"S\":\"x\"}"}`)(call(t, s, "text", `{"S":"x"}`))
	want(t, `{"B":"ew=="}`)(call(t, s, "raw", "{"))
	want(t, `{"J":{"J":1}}`)(call(t, s, "doc", `{"J":1}`))
	want(t, `{"P":{"x":1,"y":null}}`)(call(t, s, "obj", `{"P":{"x":1}}`))
	want(t, `{"A":"x"}`)(call(t, s, "two", `{"A":"x"}`))
	want(t, `{"A":"{","B":1}`)(call(t, s, "two", `{`, "1"))
	want(t, `null`)(call(t, s, "none", `{}`))
	want(t, `null`)(call(t, s, "none"))
	c, _ := s.Begin([]byte("none"))
	defer c.End()
	argCase{"{x}", "/x", "argument x is not known"}.check(t, c.JSON([]byte(`{"x":1}`)))
	argCase{"1", "", "none takes 0 arguments, not 1"}.check(t, c.Arguments(texts([]string{"1"})))
}

func TestArgumentLimits(t *testing.T) {
	type big struct{ A [1 << 16]byte }
	type in struct {
		S string `json:",omitempty"`
		L []big  `json:",omitempty"`
	}
	s := newSet(t, proc.Options{}, proc.DefineRead("p", func(_ *proc.Tx, in in) (int, error) { return len(in.S), nil }))
	c, _ := s.Begin([]byte("p"))
	defer c.End()
	if err := c.Arguments(texts([]string{strings.Repeat("x", proc.MaxArgBytes)})); err != nil {
		t.Errorf("arguments at the limit: %v", err)
	}
	want(t, fmt.Sprint(proc.MaxArgBytes))(do(t, c))
	fails(t, c.Arguments(texts([]string{strings.Repeat("x", proc.MaxArgBytes), "1"})), engine.CodeLimit, "over the limit of 8388608")
	fails(t, c.JSON(make([]byte, proc.MaxArgBytes+1)), engine.CodeLimit, "over the limit")
	small := newSet(t, proc.Options{}, proc.DefineRead("p", func(_ *proc.Tx, in struct{ L []wide }) (int, error) { return len(in.L), nil }))
	d, _ := small.Begin([]byte("p"))
	defer d.End()
	size := int(reflect.TypeFor[wide]().Size()) + 1
	list := func(n int) []byte { return []byte(`{"L":[` + strings.Repeat(`{},`, n-1) + `{}]}`) }
	if err := d.JSON(list(proc.MaxArgMemory / size)); err != nil {
		t.Errorf("elements at the limit: %v", err)
	}
	fails(t, d.JSON(list(proc.MaxArgMemory/size+1)), engine.CodeLimit, "argument L takes too much memory")
}

// TestCallAgain checks that a call leaves nothing behind for the next one that reuses its
// memory.
func TestCallAgain(t *testing.T) {
	s := newSet(t, proc.Options{}, proc.DefineRead("echo", echo[everything]))
	full := asJSON(t, filled())
	empty := asJSON(t, everything{Own: json.RawMessage("1"), Addr: netip.MustParseAddr("::1")})
	for range 5 {
		for _, body := range []string{full, empty} {
			c := begin(t, s, "echo", body)
			_ = c.JSON([]byte(`{"bool":true,"text":"left behind","list":[1],`))
			_ = c.JSON([]byte(`{"bool":true,"text":"left behind","list":[1],"int":"x"}`))
			if err := c.JSON([]byte(body)); err != nil {
				t.Fatal(err)
			}
			if got, err := do(t, c); err != nil || got != body {
				t.Errorf("%s, %v; want %s", got, err, body)
			}
			c.End()
			c.End()
		}
	}
}
