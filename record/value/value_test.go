package value

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
)

// must returns a value whose creation cannot fail.
func must(v Value, err error) Value {
	if err != nil {
		panic(err)
	}
	return v
}

// random returns a value of a kind. Many of them are edges, and many are equal or close to others.
func random(rng *rand.Rand, kind Kind) Value {
	switch kind {
	case Bool:
		return OfBool(rng.IntN(2) == 0)
	case Int:
		edges := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1<<53 + 1, -1<<53 - 1, 10, 100}
		if rng.IntN(2) == 0 {
			return OfInt(edges[rng.IntN(len(edges))])
		}
		return OfInt(int64(rng.Uint64()) >> rng.IntN(64))
	case Float:
		edges := []float64{0, math.Copysign(0, -1), 1, -1, math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 0.1, 1 << 53, 1 << 63}
		f := edges[rng.IntN(len(edges))]
		if rng.IntN(2) == 0 {
			f = math.Float64frombits(rng.Uint64())
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			f = 0
		}
		return must(OfFloat(f))
	case Decimal:
		digits := func(n int) string {
			b := make([]byte, n)
			for i := range b {
				b[i] = "001259"[rng.IntN(6)]
			}
			return string(b)
		}
		text := []string{"", "-"}[rng.IntN(2)] + "0" + digits(rng.IntN(20))
		if rng.IntN(2) == 0 {
			text += "." + digits(1+rng.IntN(18))
		}
		return must(ParseDecimal(text))
	case Time:
		span := MaxTime.UnixMicro() - MinTime.UnixMicro()
		return must(OfTime(time.UnixMicro(MinTime.UnixMicro() + rng.Int64N(span+1)>>rng.IntN(40))))
	case Text:
		parts := []string{"", "a", "b", "\x01", "\x02", "\x7f", "é", "日", "\U0001F600", " ", `"`, "\\", "<", "\n"}
		var s string
		for range rng.IntN(4) {
			s += parts[rng.IntN(len(parts))]
		}
		return must(OfText(s))
	case JSON:
		return must(Parse([]byte([]string{"[]", "{}", "[1,2]", `{"a":1.10}`}[rng.IntN(4)])))
	}
	return Value{}
}

func TestKeyOrder(t *testing.T) {
	rng := seed.Rand(t)
	for range 50_000 {
		kind := Kind(rng.IntN(int(JSON)))
		a, b := random(rng, kind), random(rng, kind)
		if rng.IntN(10) == 0 {
			a = Value{}
		}
		want := Compare(a, b)
		if got := bytes.Compare(a.AppendKey(nil), b.AppendKey(nil)); got != want {
			t.Fatalf("%v and %v compare as %d, their keys as %d", a, b, want, got)
		}
		// What follows does not change the order, and the reverse order is exactly that.
		x, y := append(a.AppendKeyDesc([]byte("p")), 0xff), append(b.AppendKeyDesc([]byte("p")), 0)
		if got := bytes.Compare(x, y); want != 0 && got != -want {
			t.Fatalf("%v and %v compare as %d, their reverse keys as %d", a, b, want, got)
		}
		for _, v := range []Value{a, b} {
			got, rest, err := CutKey(append(v.AppendKey(nil), "rest"...))
			if err != nil || got != v || string(rest) != "rest" {
				t.Fatalf("%v comes back as %v, %q, %v", v, got, rest, err)
			}
			got, rest, err = CutKeyDesc(append(v.AppendKeyDesc(nil), "rest"...))
			if err != nil || got != v || string(rest) != "rest" {
				t.Fatalf("reverse %v comes back as %v, %q, %v", v, got, rest, err)
			}
		}
	}
}

func TestCompareKinds(t *testing.T) {
	rng := seed.Rand(t)
	for range 20_000 {
		a, b := random(rng, Kind(rng.IntN(int(JSON)+1))), random(rng, Kind(rng.IntN(int(JSON)+1)))
		got := Compare(a, b)
		if back := Compare(b, a); back != -got {
			t.Fatalf("%v (%v) and %v (%v): %d, in reverse %d", a, a.Kind(), b, b.Kind(), got, back)
		}
		if a.Kind().IsNumber() && b.Kind().IsNumber() {
			if want := a.rat().Cmp(b.rat()); got != want {
				t.Fatalf("%v (%v) and %v (%v): %d, want %d", a, a.Kind(), b, b.Kind(), got, want)
			}
		}
		if (got == 0) != (a == b) && a.Kind() == b.Kind() {
			t.Fatalf("%v and %v: %d", a, b, got)
		}
	}
	if a, b := OfInt(1<<53+1), must(OfFloat(1<<53)); Compare(a, b) != 1 {
		t.Error("an int is rounded to a float when they are compared")
	}
}

func TestDecimal(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"0", "0"}, {"-0", "0"}, {"-0.00", "0"}, {"007", "7"}, {"+1", "1"}, {"1.10", "1.1"}, {"1e3", "1000"}, {"1.5E+2", "150"},
		{"12e-3", "0.012"}, {"-1.25e1", "-12.5"}, {"0e1000", "0"}, {"0.00e-5", "0"}, {"1e37", "1" + strings.Repeat("0", 37)},
		{"99999999999999999999999999999999999999", "99999999999999999999999999999999999999"}, {"1e-38", "0." + strings.Repeat("0", 37) + "1"},
	} {
		v, err := ParseDecimal(c.in)
		if got, _ := v.Decimal(); err != nil || got != c.want {
			t.Errorf("%s is %q, %v; want %s", c.in, got, err, c.want)
		}
	}
	for _, in := range []string{"", "-", ".", "1.", ".5", "1e", "1e+", "e5", "1..2", "1e2e3", "0x10", "1_000", "NaN", "Infinity", " 1", "1 ", "1e38", "1e1001", "1e-39", "１", strings.Repeat("9", 39), "1e99999999999999999999", strings.Repeat("1", 5000)} {
		if v, err := ParseDecimal(in); err == nil {
			t.Errorf("%.20q is the decimal %v", in, v)
		}
	}
	rng := seed.Rand(t)
	for range 10_000 {
		v := random(rng, Decimal)
		text, _ := v.Decimal()
		if want, _ := new(big.Rat).SetString(text); want.Cmp(v.rat()) != 0 {
			t.Fatalf("%s is %v", text, v.rat())
		}
		if back := must(ParseDecimal(PadScale(text, 30))); back != v {
			t.Fatalf("%s with zeros is %v", text, back)
		}
	}
	if Precision("-120.05") != 5 || Precision("0.05") != 1 || Precision("0") != 0 || Scale("-120.05") != 2 || PadScale("7", 2) != "7.00" || PadScale("7.123", 2) != "7.123" {
		t.Error("precision, scale or padding is wrong")
	}
}

func TestAs(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		in   string
		want string // JSON, or the beginning of an error after "!"
	}{
		{Bool, "true", "true"}, {Bool, ` false `, "false"}, {Bool, "1", "!must be true or false, not a number"}, {Bool, "null", "null"},
		{Int, "9007199254740993", "9007199254740993"}, {Int, "-9223372036854775808", "-9223372036854775808"}, {Int, "1.0", "1"}, {Int, "1e3", "1000"},
		{Int, "9223372036854775808", "!9223372036854775808 is not an integer from"}, {Int, "1.5", "!1.5 is not an integer"}, {Int, `"1"`, "!must be a number, not a string"},
		{Int, "1e400", "!more than 38 digits"}, {Int, "NaN", "!invalid JSON at byte 1"}, {Int, "01", "!invalid JSON at byte 2"}, {Int, "", "!invalid JSON"},
		{Float, "0.1", "0.1"}, {Float, "-0.0", "0"}, {Float, "1e21", "1e+21"}, {Float, "1e400", "!1e400 is too large"}, {Float, "Infinity", "!invalid JSON"},
		{Decimal, "12.30", `"12.3"`}, {Decimal, `"12.30"`, `"12.3"`}, {Decimal, `"1e2"`, `"100"`}, {Decimal, "true", "!must be a number, not true or false"}, {Decimal, `"a"`, `!"a" is not a decimal`},
		{Time, `"2026-01-02T03:04:05.0000069+02:00"`, `"2026-01-02T01:04:05.000006Z"`}, {Time, `"2026-01-02"`, `"2026-01-02T00:00:00.000000Z"`},
		{Time, `"2026-01-02 03:04:05.123Z"`, `"2026-01-02T03:04:05.123000Z"`}, {Time, `"0000-01-01T00:00:00Z"`, "!the year 0 is outside"}, {Time, `"9999-12-31T23:59:59-01:00"`, "!the year 10000"},
		{Time, `"2026-02-30"`, `!"2026-02-30" is not a time`}, {Time, "5", "!must be a string, not a number"},
		{Text, `"aé\u00e9\n"`, `"aéé\n"`}, {Text, `"\ud800"`, "!a lone surrogate"}, {Text, `"\u0000"`, "!a NUL character at byte 0"}, {Text, "\"a\xff\"", "!invalid UTF-8 at byte 2"},
		{Text, `"<&>"`, `"<&>"`}, {Text, "[]", "!"},
		{JSON, `{"a": [1.50, "x", null]}`, `{"a":[1.50,"x",null]}`}, {JSON, "5", "5"}, {JSON, "0.10", `"0.1"`}, {JSON, `{"a":"\u0000"}`, "!a NUL"}, {JSON, `{"\ud800":1}`, "!a lone surrogate"},
		{JSON, `[1e999]`, "!more than 38 digits"}, {JSON, strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 64) + strings.Repeat("]", 64)},
		{JSON, strings.Repeat("[", 65) + strings.Repeat("]", 65), "!arrays and objects nested more than 64"}, {JSON, strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "!"},
	} {
		v, err := As(c.kind, []byte(c.in))
		if text, bad := strings.CutPrefix(c.want, "!"); bad {
			if err == nil || !strings.HasPrefix(err.Error(), text) {
				t.Errorf("%v %.40s: %v, %v; want an error %q", c.kind, c.in, v, err, text)
			}
			continue
		}
		if got := string(v.AppendJSON(nil)); err != nil || got != c.want {
			t.Errorf("%v %.40s: %s, %v; want %s", c.kind, c.in, got, err, c.want)
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	rng := seed.Rand(t)
	for range 20_000 {
		v := random(rng, Kind(rng.IntN(int(JSON)+1)))
		if got, err := As(v.Kind(), v.AppendJSON(nil)); v.Kind() != Null && (err != nil || got != v) {
			t.Fatalf("%v %s comes back as %v, %v", v.Kind(), v.AppendJSON(nil), got, err)
		}
	}
}

func TestAccessors(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6789, time.FixedZone("", 3600))
	if got, ok := must(OfTime(at)).Time(); !ok || !got.Equal(at.Truncate(time.Microsecond)) || got.Location() != time.UTC {
		t.Errorf("time %v", got)
	}
	for _, c := range []struct {
		v    Value
		want int64
		ok   bool
	}{
		{OfInt(-5), -5, true}, {must(OfFloat(2)), 2, true}, {must(OfFloat(2.5)), 0, false}, {must(OfFloat(1 << 63)), 0, false}, {must(ParseDecimal("7.0")), 7, true},
		{must(ParseDecimal("7.5")), 0, false}, {OfBool(true), 0, false}, {Value{}, 0, false},
	} {
		if got, ok := c.v.Int(); got != c.want || ok != c.ok {
			t.Errorf("%v as an int: %d, %v", c.v, got, ok)
		}
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if v, err := OfFloat(f); err == nil {
			t.Errorf("%v is a value: %v", f, v)
		}
	}
	for v, want := range map[Value]string{{}: "", OfBool(true): "true", OfInt(7): "7", must(OfText(`a"b`)): `a"b`, must(ParseDecimal("1.50")): "1.5", must(OfFloat(0.5)): "0.5", must(ParseTime("2026-01-02")): "2026-01-02T00:00:00.000000Z"} {
		if got := v.String(); got != want {
			t.Errorf("%v prints as %q", v.Kind(), got)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("JSON has a key")
		}
	}()
	must(Parse([]byte("[]"))).AppendKey(nil)
}

func FuzzAs(f *testing.F) {
	for _, s := range []string{`"2026-01-02T03:04:05Z"`, "12.30", "-1e-5", `{"a":[1,null,"x"]}`, `"\u00e9"`, "true"} {
		for k := range JSON + 1 {
			f.Add(byte(k), []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, raw []byte) {
		v, err := As(Kind(kind%uint8(JSON+1)), raw)
		if err != nil {
			return
		}
		out := v.AppendJSON(nil)
		if back, err := As(v.Kind(), out); err != nil || back != v && v.Kind() != Null {
			t.Fatalf("%s is %s, which is %v, %v", strconv.Quote(string(raw)), out, back, err)
		}
		if v.Kind() != JSON {
			if back, rest, err := CutKey(v.AppendKey(nil)); err != nil || back != v || len(rest) > 0 {
				t.Fatalf("the key of %s is read as %v, %v", out, back, err)
			}
		}
	})
}

func FuzzCutKey(f *testing.F) {
	for _, v := range []Value{{}, OfBool(true), OfInt(5), must(OfFloat(-1)), must(ParseDecimal("-12.5")), must(ParseDecimal("0.5")), must(ParseDecimal("-0.5")), must(ParseTime("2026-01-02")), must(OfText("a\x01"))} {
		f.Add(append(v.AppendKey(nil), 0, 1, 0xff))
		f.Add(append(v.AppendKeyDesc(nil), 0, 1, 0xff))
	}
	f.Add([]byte{tagDecimal, 1, '0', 0}) // zero with a digit before its point, which AppendKey does not write
	f.Fuzz(func(t *testing.T, key []byte) {
		was := bytes.Clone(key)
		if v, rest, err := CutKey(key); err == nil && !bytes.Equal(append(v.AppendKey(nil), rest...), key) {
			t.Fatalf("%x is read as %v and %x", key, v, rest)
		}
		if v, rest, err := CutKeyDesc(key); err == nil && !bytes.Equal(append(v.AppendKeyDesc(nil), rest...), key) {
			t.Fatalf("reverse %x is read as %v and %x", key, v, rest)
		}
		for _, desc := range []bool{false, true} {
			cut := CutKey
			if desc {
				cut = CutKeyDesc
			}
			_, rest, err := cut(key)
			if skipped, skipErr := SkipKey(key, desc); err == nil && (skipErr != nil || !bytes.Equal(skipped, rest)) {
				t.Fatalf("%x has %x after it, %v, want %x", key, skipped, skipErr, rest)
			}
		}
		if !bytes.Equal(was, key) {
			t.Fatal("the key was changed")
		}
	})
}

// TestAppendTime: times print as package time prints them.
func TestAppendTime(t *testing.T) {
	r := seed.Rand(t)
	for range 10_000 {
		at := time.UnixMicro(r.Int64N(253_402_300_800_000_000)).UTC() // until the year 9999
		if r.IntN(2) == 0 {
			at = time.UnixMicro(-r.Int64N(62_167_219_200_000_000)).UTC() // from the year 0
		}
		if got, want := string(appendTime(nil, at)), at.Format(timeLayout); got != want {
			t.Fatalf("%s, not %s", got, want)
		}
	}
}
