package value

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
)

// TestDecimalText has what Java's BigDecimal.toString documents.
func TestDecimalText(t *testing.T) {
	for _, c := range []struct {
		unscaled int64
		scale    int32
		want     string
	}{
		{123, 0, "123"}, {-123, 0, "-123"}, {123, -1, "1.23E+3"}, {123, -3, "1.23E+5"}, {123, 1, "12.3"}, {123, 5, "0.00123"}, {123, 10, "1.23E-8"}, {-123, 12, "-1.23E-10"},
		{0, 0, "0"}, {0, 2, "0.00"}, {0, 6, "0.000000"}, {0, 7, "0E-7"}, {0, -3, "0E+3"}, {1, 6, "0.000001"}, {1, 7, "1E-7"}, {10, 7, "0.0000010"}, {-5, -1, "-5E+1"},
	} {
		d := Decimal{big.NewInt(c.unscaled), c.scale}
		if got := d.String(); got != c.want {
			t.Errorf("%d with scale %d is %s, want %s", c.unscaled, c.scale, got, c.want)
		}
		if back, err := ParseDecimal(c.want); err != nil || back.Scale != c.scale || back.Unscaled.Cmp(d.Unscaled) != 0 {
			t.Errorf("%s is read as %v, %v", c.want, back, err)
		}
	}
}

func TestParseDecimal(t *testing.T) {
	for text, want := range map[string]string{"1.": "1", ".5": "0.5", "+.5": "0.5", "-0.0": "0.0", "1e5": "1E+5", "1E+5": "1E+5", "12e-2": "0.12", "007": "7"} {
		if d, err := ParseDecimal(text); err != nil || d.String() != want {
			t.Errorf("%q is read as %v, %v, want %s", text, d, err, want)
		}
	}
	for _, text := range []string{
		"", ".", "-", "+-1", "1-", "1.2.3", "1e", "1e+", "1e++5", "1e+-5", "e5", "1e5e5", "0x1", "1_0", "NaN", "Infinity", " 1", "1 ", "1.-2", "١", "1e99999999999", "1e10001", "1e-10001",
		strings.Repeat("1", MaxDigits+1),
	} {
		if d, err := ParseDecimal(text); err == nil {
			t.Errorf("%q is read as %s", text, d)
		}
	}
	if _, err := ParseDecimal(strings.Repeat("1", MaxDigits)); err != nil {
		t.Error(err)
	}
}

// FuzzParseDecimal checks that text of a decimal is read as the same decimal, and that
// arithmetic is that of math/big.
func FuzzParseDecimal(f *testing.F) {
	for _, text := range []string{"1", "-12.50", "1e5", "1.23E-8", "0E+3", ".5", "1e++5", "9999999999999999999.1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDecimal(text)
		if err != nil {
			return
		}
		back, err := ParseDecimal(d.String())
		if err != nil && len(d.String()) < MaxDigits {
			t.Fatalf("%q is written as %q, which is refused: %v", text, d, err)
		}
		if err == nil && (back.Scale != d.Scale || back.Unscaled.Cmp(d.Unscaled) != 0) {
			t.Errorf("%q is written as %q, and read as %q", text, d, back)
		}
		if d.Scale > 400 || d.Scale < -400 {
			return // math/big is slow
		}
		want, ok := new(big.Rat).SetString(text)
		if !ok || want.Cmp(rat(d)) != 0 {
			t.Errorf("%q is read as %s, and by math/big as %v", text, d, want)
		}
		if sum := d.add(Decimal{big.NewInt(1), 3}); new(big.Rat).Add(want, big.NewRat(1, 1000)).Cmp(rat(sum)) != 0 {
			t.Errorf("%q and 0.001 are %s", text, sum)
		}
		if product := d.mul(d); new(big.Rat).Mul(want, want).Cmp(rat(product)) != 0 {
			t.Errorf("%q times itself is %s", text, product)
		}
	})
}

func rat(d Decimal) *big.Rat {
	r := new(big.Rat).SetInt(d.Unscaled)
	if d.Scale >= 0 {
		return r.Quo(r, new(big.Rat).SetInt(pow10(d.Scale)))
	}
	return r.Mul(r, new(big.Rat).SetInt(pow10(-d.Scale)))
}

// TestDecimalOrder compares random decimals with math/big.
func TestDecimalOrder(t *testing.T) {
	r := seed.Rand(t)
	some := func() Decimal {
		return Decimal{big.NewInt(int64(r.Uint64() >> (1 + r.IntN(63)))), int32(r.IntN(40) - 20)}
	}
	for range 5000 {
		a, b := some(), some()
		if r.IntN(2) == 0 {
			a = a.neg()
		}
		if r.IntN(4) == 0 {
			b = a.at(a.Scale + int32(r.IntN(9)))
		}
		if got, want := a.cmp(b), rat(a).Cmp(rat(b)); got != want {
			t.Fatalf("%s and %s are in order %d, want %d", a, b, got, want)
		}
		if (Hash(a) == Hash(b)) != (rat(a).Cmp(rat(b)) == 0) {
			t.Fatalf("%s and %s have the hashes %q and %q", a, b, Hash(a), Hash(b))
		}
	}
}

// TestText has what Java prints.
func TestText(t *testing.T) {
	zone := func(s int) *time.Location { return time.FixedZone("", s) }
	for _, c := range []struct {
		v    any
		want string
	}{
		{1.0, "1.0"}, {0.1, "0.1"}, {-0.5, "-0.5"}, {math.Copysign(0, -1), "-0.0"}, {1e7, "1.0E7"}, {9999999.0, "9999999.0"}, {1e-3, "0.001"}, {9.99e-4, "9.99E-4"}, {1.5e300, "1.5E300"},
		{123456789.0, "1.23456789E8"}, {math.MaxFloat64, "1.7976931348623157E308"}, {math.SmallestNonzeroFloat64, "4.9E-324"}, {math.NaN(), "NaN"}, {math.Inf(1), "Infinity"}, {math.Inf(-1), "-Infinity"},
		{float32(0.1), "0.1"}, {float32(16777216), "1.6777216E7"}, {float32(math.Inf(-1)), "-Infinity"}, {float32(math.SmallestNonzeroFloat32), "1.4E-45"}, {1e-323, "9.9E-324"}, {2e-323, "2.0E-323"}, {1e23, "1.0E23"},
		{nil, "null"}, {true, "true"}, {int8(-1), "-1"}, {Char('ü'), "ü"}, {new(big.Int).Lsh(big.NewInt(1), 64), "18446744073709551616"},
		{time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), "2026-01-31T12:00Z"},
		{time.Date(2026, 1, 31, 12, 0, 5, 0, zone(3600)), "2026-01-31T12:00:05+01:00"},
		{time.Date(2026, 1, 31, 12, 0, 0, 120_000_000, zone(-5400)), "2026-01-31T12:00:00.120-01:30"},
		{time.Date(2026, 1, 31, 12, 0, 0, 1_000, zone(30)), "2026-01-31T12:00:00.000001+00:00:30"},
		{time.Date(2026, 1, 31, 12, 0, 0, 1, time.UTC), "2026-01-31T12:00:00.000000001Z"},
		{time.Date(12026, 1, 31, 12, 0, 0, 0, time.UTC), "+12026-01-31T12:00Z"},
		{time.Date(5, 1, 31, 12, 0, 0, 0, time.UTC), "0005-01-31T12:00Z"},
		{Duration{}, "PT0S"}, {Of(8*time.Hour + 6*time.Minute + 12_345*time.Millisecond), "PT8H6M12.345S"}, {Of(48 * time.Hour), "PT48H"}, {Of(-time.Millisecond), "PT-0.001S"},
		{Of(-90 * time.Second), "PT-1M-30S"}, {Of(-1500 * time.Millisecond), "PT-1.5S"}, {Of(time.Minute), "PT1M"}, {Of(time.Hour + time.Nanosecond), "PT1H0.000000001S"},
		{Of(-time.Hour - time.Millisecond), "PT-1H-0.001S"},
		{UUID{0x12, 0x34, 15: 0xff}, "12340000-0000-0000-0000-0000000000ff"},
		{[]byte{1, 2}, "AQI="}, {ID, "id"}, {List{1.0, "a", nil}, "[1.0, a, null]"}, {MapOf("a", List{}), "{a=[]}"}, {Entry{"a", int32(1)}, "a=1"},
		{&Vertex{ID: int64(1)}, "v[1]"}, {&Edge{ID: "e", Label: "l", Out: &Vertex{ID: int64(1)}, In: &Vertex{ID: "b"}}, "e[e][1-l->b]"}, {&VertexProperty{Key: "k", Val: "v"}, "vp[k->v]"},
		{&Property{Key: "k", Val: 1.5}, "p[k->1.5]"}, {&Path{Objects: []any{"a", int64(1)}}, "path[a, 1]"}, {&Graph{Edges: []*Edge{nil}}, "graph[vertices:0 edges:1]"},
	} {
		if got := Text(c.v); got != c.want {
			t.Errorf("%#v is written as %s, want %s", c.v, got, c.want)
		}
		if at, ok := c.v.(time.Time); ok && at.Year() < 10000 {
			back, err := ParseDate(c.want)
			if err != nil || !back.Equal(at) || Text(back) != c.want {
				t.Errorf("%s is read as %v, %v", c.want, back, err)
			}
		}
	}
}

func TestParseDate(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-31": "2026-01-31T00:00Z", "2026-01-31T12:00": "2026-01-31T12:00Z", "2026-01-31T12:00:01.5": "2026-01-31T12:00:01.500Z", "2026-01-31T12:00:01+0130": "2026-01-31T12:00:01+01:30",
		"2026-01-31T12:00:01-02": "2026-01-31T12:00:01-02:00", "2026-01-31+01:00": "2026-01-31T00:00+01:00", "2026-01-31T12:00+00:00": "2026-01-31T12:00Z",
	} {
		got, err := ParseDate(text)
		if err != nil || Text(got) != want {
			t.Errorf("%q is read as %s, %v, want %s", text, Text(got), err, want)
		}
		if again, _ := ParseDate(text); again != got && again.String() != got.String() {
			t.Errorf("%q is read as two different times", text)
		}
	}
	for _, text := range []string{"", "2026", "2026-02-30", "2026-01-31T25:00", "31.1.2026", "2026-01-31 12:00", strings.Repeat("2", 1000)} {
		if got, err := ParseDate(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		} else if len(err.Error()) > 200 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
}

func TestParseUUID(t *testing.T) {
	const text = "0123abcd-4567-89ef-0123-456789abcdef"
	u, err := ParseUUID(strings.ToUpper(text))
	if err != nil || u.String() != text {
		t.Errorf("%s is read as %s, %v", text, u, err)
	}
	for _, bad := range []string{"", text[1:], text + "0", strings.ReplaceAll(text, "-", ""), strings.Replace(text, "-", "0", 1), strings.Replace(text, "a", "g", 1), "-123abcd-4567-89ef-0123-456789abcdef"} {
		if _, err := ParseUUID(bad); err == nil {
			t.Errorf("%q is read as a UUID", bad)
		}
	}
}

func TestTypes(t *testing.T) {
	for _, v := range []any{nil, true, int8(1), int16(1), int32(1), int64(1), big.NewInt(1), float32(1), 1.0, Decimal{big.NewInt(1), 0}, "", Char('a'), UUID{}, time.Time{}, Duration{}, []byte{}, List{}, &Set{}, &Map{},
		&Vertex{}, &Edge{}, &VertexProperty{}, &Property{}, &Path{}, &Tree{}, &Graph{}} {
		name := TypeName(v)
		if again, ok := TypeNamed(strings.ToLower(name)); !ok || again != name || !IsOf(v, name) || IsOf(v, "NUMBER") != IsNumber(v) {
			t.Errorf("the type of %#v is %q", v, name)
		}
		if d := Describe(v); d == "" || d == "something else" {
			t.Errorf("%#v is described as %q", v, d)
		}
	}
	if _, ok := TypeNamed("Integer"); !ok {
		t.Error("Integer is not known")
	}
	if _, ok := TypeNamed("Object"); ok {
		t.Error("Object is known")
	}
}
