package expr

import (
	"strings"
	"testing"
	"time"
)

func TestBind(t *testing.T) {
	type state string
	name := "Bo"
	for _, c := range []struct {
		in   string
		args []any
		want string
	}{
		{"a = 1", nil, "a = 1"},
		{"?", []any{1}, "1"},
		{"owner = ? && total>?", []any{"anna", 100}, `owner = "anna" && total>100`},
		{`a = "?" && b = '?\'?' && c = ?`, []any{true}, `a = "?" && b = '?\'?' && c = true`},
		{"tags ?= ?", []any{`x" || "" = "`}, `tags ?= "x\" || \"\" = \""`},
		{"at > ?", []any{time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600))}, `at > "2026-01-02T02:04:05.000006Z"`},
		{"state in ?", []any{[]state{"a", "b"}}, `state in ("a", "b")`},
		{"state in ?", []any{[]any{}}, `state in ()`},
		{"a = ? || b = ?", []any{nil, (*string)(nil)}, "a = null || b = null"},
		{"a = ?", []any{&name}, `a = "Bo"`},
		{"n = ? && m = ? && f = ?", []any{int64(-1 << 63), uint64(1<<64 - 1), 0.1}, "n = -9223372036854775808 && m = 18446744073709551615 && f = 0.1"},
	} {
		if got, err := Bind(c.in, c.args...); err != nil || got != c.want {
			t.Errorf("%s: %s, %v", c.in, got, err)
		}
	}
	for _, c := range []struct {
		in, want string
		args     []any
	}{
		{"a = ? && b = ?", "there are more placeholders than values (1) at character 14", []any{1}},
		{"a = ?", "there are 2 values for 1 placeholders at character 6", []any{1, 2}},
		{"a = ?", "value 1: the Go type struct {} has no literal at character 5", []any{struct{}{}}},
		{"a = ?", "value 1: invalid UTF-8 at byte 0 at character 5", []any{"\xff"}},
		{`a = "?`, `the string has no closing " at character 5`, []any{1}},
	} {
		if got, err := Bind(c.in, c.args...); err == nil || err.Error() != c.want {
			t.Errorf("%s: %s, %v; want %s", c.in, got, err, c.want)
		}
	}
}

// FuzzBind checks that a value stays one literal, whatever is in it.
func FuzzBind(f *testing.F) {
	for _, s := range []string{"", `"`, `\`, `\"`, `" || "" = "`, "'", "?", "\u2028</script>", "\x7f", "a\nb", "@now", `\u0022`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := Bind("a = ? && b = 1", s)
		if err != nil {
			return // no text of a record can be like this
		}
		x, err := Parse(text)
		if err != nil {
			if len(text) > MaxTextBytes && strings.Contains(err.Error(), "bytes") {
				return
			}
			t.Fatalf("%q: %v", text, err)
		}
		and, ok := x.(*And)
		if !ok || len(and.Terms) != 2 {
			t.Fatalf("%q is %s", text, String(x))
		}
		lit, ok := and.Terms[0].(*Compare).Right.(*Literal)
		if got, _ := lit.Value.Text(); !ok || got != s {
			t.Fatalf("%q has %q", text, got)
		}
	})
}
