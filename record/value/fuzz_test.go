package value

import (
	"testing"
)

// FuzzParse: JSON is read as Check says, and what is written of it is read as the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`"a\ud83d\ude00"`, "9007199254740993", "1.50e3", "-0", `{"a":[null,{"b":1e-7}]}`, `"\u0000"`, "\"\xff\"", "[[[]]]", "1e400"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := Parse(raw)
		if bad := Check(raw); (bad == nil) != (err == nil) {
			t.Fatalf("%q: Check says %v, Parse %v", raw, bad, err)
		}
		if err != nil {
			return
		}
		out := v.AppendJSON(nil)
		if back, err := Parse(out); err != nil || string(back.AppendJSON(nil)) != string(out) {
			t.Fatalf("%q is written as %s, which is %s, %v", raw, out, back.AppendJSON(nil), err)
		}
		for k := range JSON + 1 {
			_, _ = Convert(k, v)
		}
	})
}

// FuzzFromText: a text is a value of a kind or not, and the value's text is the same value.
func FuzzFromText(f *testing.F) {
	for _, s := range []string{"", "-12.50", "1e3", "0x5", "NaN", "true", "2026-01-02", "2026-01-02T03:04:05.123456+02:00", `{"a":1}`, "é"} {
		for k := range JSON + 1 {
			f.Add(byte(k), s)
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, text string) {
		v, err := FromText(Kind(kind%uint8(JSON+1)), text)
		if err != nil || v.IsNull() {
			return
		}
		if back, err := FromText(v.Kind(), v.String()); err != nil || Compare(back, v) != 0 {
			t.Fatalf("%q is %v %q, which is %v, %v", text, v.Kind(), v, back, err)
		}
	})
}
