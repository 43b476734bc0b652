package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/client"
)

// sent returns how an argument is received by a server.
func sent(tb testing.TB) func(a any) (string, error) {
	f := startFake(tb, last)
	c := open(tb, client.Options{Addrs: []string{f.addr()}, Timeout: patience})
	return func(a any) (string, error) {
		res, err := c.Call(background, "p", a)
		if err != nil {
			return "", err
		}
		return res.Text()
	}
}

type (
	phone  string
	amount int32
	blob   []byte
)

func ptr[T any](v T) *T { return &v }

func TestPlainArguments(t *testing.T) {
	send := sent(t)
	when := time.Date(2026, 11, 21, 14, 3, 0, 5e8, time.FixedZone("x", 3600))
	for _, c := range []struct {
		arg  any
		want string
	}{
		{"text", "text"}, {[]byte("\x00\r\n"), "\x00\r\n"}, {"", ""}, {nil, ""}, {true, "true"}, {false, "false"},
		{-5, "-5"}, {int8(-128), "-128"}, {int16(7), "7"}, {int32(-7), "-7"}, {int64(math.MinInt64), "-9223372036854775808"},
		{uint(0), "0"}, {uint8(255), "255"}, {uint16(65535), "65535"}, {uint32(1e9), "1000000000"}, {uint64(math.MaxUint64), "18446744073709551615"},
		{9999, "9999"}, {10000, "10000"}, {99999999, "99999999"}, {100000000, "100000000"},
		{1.5, "1.5"}, {float32(0.1), "0.1"}, {1e300, "1e+300"}, {math.Inf(-1), "-inf"}, {math.NaN(), "nan"}, {math.Inf(1), "inf"},
		{when, "2026-11-21T13:03:00.5Z"}, {time.Second, "1000000000"},
		{ptr("p"), "p"}, {ptr(5), "5"}, {ptr(int64(-6)), "-6"}, {ptr(uint16(6)), "6"}, {ptr(2.5), "2.5"}, {ptr(true), "true"},
		{&when, "2026-11-21T13:03:00.5Z"}, {ptr([]byte("b")), "b"}, {ptr(float32(2.5)), "2.5"}, {ptr(uint8(1)), "1"},
		{(*string)(nil), ""}, {(*int)(nil), ""}, {(*uint64)(nil), ""}, {(*time.Time)(nil), ""}, {(*[]byte)(nil), ""},
		{phone("+1"), "+1"}, {amount(-3), "-3"}, {blob("b"), "b"}, {ptr(phone("+2")), "+2"}, {(*phone)(nil), ""},
		{strings.Repeat("x", 100_000), strings.Repeat("x", 100_000)},
	} {
		if got, err := send(c.arg); err != nil || got != c.want {
			t.Errorf("%T %v arrived as %.50q, %v; want %.50q", c.arg, c.arg, got, err, c.want)
		}
	}
}

type shape struct {
	inner
	*Extra
	Name    string           `json:"name"`
	Empty   string           `json:"empty,omitempty"`
	Zero    time.Time        `json:"zero,omitzero"`
	At      time.Time        `json:"at"`
	N       *int             `json:"n"`
	List    []uint16         `json:"list"`
	Bytes   []byte           `json:"bytes"`
	Map     map[string]int   `json:"map"`
	Num     map[int8]float64 `json:"num"`
	Any     any              `json:"any"`
	Sub     []inner          `json:"sub"`
	Arr     [2]bool          `json:"arr"`
	Skip    int              `json:"-"`
	NilMap  map[string]int
	private int
}

// TestJSONArguments checks that structs, slices and maps arrive as encoding/json encodes
// them.
func TestJSONArguments(t *testing.T) {
	send := sent(t)
	now := time.Now()
	for _, v := range []any{
		shape{}, &shape{Name: "a\"\\\n\x01é\u2028\xff", At: now, N: ptr(3), List: []uint16{1, 2}, Bytes: []byte{1, 2, 3}, private: 1,
			Map: map[string]int{"b": 1, "a": 2}, Num: map[int8]float64{-1: 1.5, 5: 1e21}, Any: []any{1, "x", nil, true, 1e-9},
			Sub: []inner{{"x"}}, Arr: [2]bool{true, false}, Extra: &Extra{"m"}, inner: inner{"y"}},
		[]string{"a", "<b>&"}, []string(nil), map[string]any{"x": map[string]int{"y": 1}}, [2]int{1, 2}, struct{}{},
		shape{At: now.Round(0)}, shape{At: time.Unix(-1e10, 5).UTC()}, shape{At: time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		got, err := send(v)
		if err != nil {
			t.Errorf("%T: %v", v, err)
			continue
		}
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := canonical(t, []byte(got)), canonical(t, want); a != b {
			t.Errorf("%T arrived as\n%s, want\n%s", v, a, b)
		}
	}
	for _, v := range []any{client.JSON(big.NewInt(5)), client.JSON(map[string]time.Duration{"a": 1})} {
		if got, err := send(v); err != nil || got == "" {
			t.Errorf("JSON(…) arrived as %q, %v", got, err)
		}
	}
}

// canonical returns JSON with sorted keys and times in UTC.
func canonical(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if m, ok := v.(map[string]any); ok {
		if s, ok := m["at"].(string); ok {
			at, err := time.Parse(time.RFC3339Nano, s)
			if err != nil {
				t.Fatal(err)
			}
			m["at"] = at.UTC().Format(time.RFC3339Nano)
		}
	}
	return fmt.Sprint(v)
}

type cycle struct{ Next *cycle }

func TestBadArguments(t *testing.T) {
	send := sent(t)
	loop := &cycle{}
	loop.Next = loop
	for _, c := range []struct {
		arg  any
		want string
	}{
		{make(chan int), "argument 1: a chan int cannot be sent"},
		{struct{ F func() }{}, "argument 1: a func() cannot be sent"},
		{big.NewInt(1), "*big.Int has its own text or JSON encoding"},
		{struct{ B *big.Int }{big.NewInt(1)}, "*big.Int has its own text or JSON encoding"},
		{struct {
			N int `json:"n,string"`
		}{}, "the field n has the option string"},
		{[]float64{math.NaN()}, "NaN cannot be written as JSON"},
		{map[bool]int{true: 1}, "its keys are neither text nor integers"},
		{client.JSON(make(chan int)), "argument 1 cannot be written as JSON"},
		{loop, "deeper than 64"},
		{struct{ At time.Time }{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, "the year 10000"},
	} {
		if _, err := send(c.arg); !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%T: %v, want %q", c.arg, err, c.want)
		}
	}
	if _, err := send(make(chan int)); err == nil || err.Error() != "argument 1: a chan int cannot be sent [invalid]" {
		t.Errorf("the whole text: %v", err)
	}
	if _, err := send(make([]byte, client.MaxRequestBytes)); !errors.Is(err, client.ErrLimit) {
		t.Errorf("a request over the limit: %v", err)
	}
}
