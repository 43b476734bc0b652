package value

import (
	"fmt"
	"testing"
	"time"
)

// TestGet has what each getter makes of each kind.
func TestGet(t *testing.T) {
	for _, c := range []struct{ json, want string }{
		{`null`, `0 0 0 false - []`}, {`true`, `1 1 1 true - [true]`}, {`false`, `0 0 0 false - [false]`},
		{`7`, `7 7 7 true 1970-01-01T00:00:07Z [7]`}, {`-9223372036854775808`, `-9223372036854775808 -9.223372036854776e+18 -9223372036854775808 true - [-9223372036854775808]`},
		{`9223372036854775808`, `0 9.223372036854776e+18 9223372036854775808 true - [9223372036854775808]`},
		{`-2.9`, `-2 -2.9 -2.9 true 1969-12-31T23:59:57.1Z [-2.9]`}, {`0`, `0 0 0 false 1970-01-01T00:00:00Z [0]`},
		{`""`, `0 0 0 false - []`}, {`" 12 "`, `12 12 12 true - [ 12 ]`}, {`"1e2"`, `100 100 100 true - [1e2]`}, {`"x"`, `0 0 0 true - [x]`}, {`"NaN"`, `0 0 0 true - [NaN]`}, {`"Off"`, `0 0 0 false - [Off]`},
		{`"9007199254740993"`, `9007199254740993 9.007199254740992e+15 9007199254740993 true - [9007199254740993]`},
		{`"2026-01-02"`, `0 0 0 true 2026-01-02T00:00:00Z [2026-01-02]`}, {`"2026-01-02T03:04:05+01:00"`, `0 0 0 true 2026-01-02T02:04:05Z [2026-01-02T03:04:05+01:00]`},
		{`["a",1,null,[2]]`, `0 0 0 true - [a 1  [2]]`}, {`{"a":1}`, `0 0 0 true - [{"a":1}]`}, {`[]`, `0 0 0 true - []`},
	} {
		v, err := Parse([]byte(c.json))
		if err != nil {
			t.Fatal(err)
		}
		if got := gets(v); got != c.want {
			t.Errorf("%s: %s, want %s", c.json, got, c.want)
		}
	}
	f, _ := OfFloat(1e300)
	at, _ := OfTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	for v, want := range map[Value]string{f: "0 1e+300 0 true - [1e+300]", at: "0 0 0 true 2026-01-02T00:00:00Z [2026-01-02T00:00:00.000000Z]"} {
		if got := gets(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

func gets(v Value) string {
	at := "-"
	if x := v.GetTime(); !x.IsZero() {
		at = x.Format(time.RFC3339Nano)
	}
	return fmt.Sprint(v.GetInt(), " ", v.GetFloat(), " ", v.GetDecimal(), " ", v.GetBool(), " ", at, " ", v.GetTexts())
}
