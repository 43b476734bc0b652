package expr

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/record/value"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`status = "open" && (total > 100 || owner.name ~ 'bo') && created > @now - 7d`, `status = "open" && (total > 100 || owner.name ~ "bo") && created > @now - 1w`},
		{"a = 1 and b = 2 or not c = 3", "a = 1 && b = 2 || !(c = 3)"},
		{"a=1&&b=2&&(c=3&&d=4)", "a = 1 && b = 2 && c = 3 && d = 4"},
		{"(((a = null)))", "a = null"},
		{"published", "published = true"},
		{"!published && !!x", "!(published = true) && !!(x = true)"},
		{"@auth.id = owner || @auth.admin", "@auth.id = owner || @auth.admin = true"},
		{`a in ("x", 'y', 3, null) && b not in (1) && c in ()`, `a in ("x", "y", 3, null) && b not in (1) && c in ()`},
		{"t > @now -90m -0s", "t > @now - 90m"},
		{"t > @now + 1d - 24h", "t > @now + 0ms"},
		{"a - 1500ms < @now", "a - 1500ms < @now"},
		{"n = -7 && m = 1e3 && f = 0.10", "n = -7 && m = 1000 && f = 0.1"},
		{`a = "\u00e9\n\"'" && tags ?= "go" && b !~ "%x"`, `a = "é\n\"'" && tags ?= "go" && b !~ "%x"`},
		{"n = 123456789012345678901234567890.5", "n = 123456789012345678901234567890.5"},
		{"inner = 1 && nothing = 2", "inner = 1 && nothing = 2"},
	} {
		x, err := Parse(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
		} else if got := String(x); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "found the end instead of a field or a value at character 1"},
		{"a == 1", "unknown operator ==; write = at character 3"},
		{"a <> 1", "unknown operator <>; write != at character 3"},
		{"a = 1 & b = 2", "unknown operator &; write && at character 7"},
		{"a = 1 b = 2", "found b instead of &&, || or the end at character 7"},
		{"a = ", "found the end instead of a field or a value at character 5"},
		{"(a = 1", "found the end instead of a closing parenthesis at character 7"},
		{"a = 1)", "found ) instead of &&, || or the end at character 6"},
		{`a = "x`, `the string has no closing " at character 5`},
		{`a = "\x"`, `unknown escape; write \\ for a backslash at character 6`},
		{`a = "\ud800"`, `invalid \u escape at character 6`},
		{`a = "\u0000"`, "the string has a NUL character at byte 0 at character 5"},
		{"a = 1; drop table x", "unexpected character ';' at character 6"},
		{"a = 1 -- b", "found - instead of a duration such as 7d at character 8"},
		{"a = é", "unexpected character 'é' at character 5"},
		{"a. = 1", "found = instead of a name after the point at character 4"},
		{"@ = 1", "a name must follow @ at character 1"},
		{"in (1)", "found in instead of a field or a value at character 1"},
		{"a in 1", "found 1 instead of a list in parentheses at character 6"},
		{"a in (1", "found the end instead of a comma or a closing parenthesis at character 8"},
		{"a not 1", "found 1 instead of in at character 7"},
		{"a = 1.2.3", `"1.2.3" is not a decimal number at character 5`},
		{"a = 12x", `"12x" is not a decimal number at character 5`},
		{"a > @now - 7y", `"7y" is not a decimal number at character 12`},
		{"a > @now - 7", "found 7 instead of a duration such as 7d at character 12"},
		{"a > @now - 7hs", "unknown unit hs; the units are ms, s, m, h, d and w at character 13"},
		{"a > @now - 999999d", "999999d is more than 100 years at character 12"},
		{"a > @now - 36525d - 1s", "a shift of more than 100 years at character 5"},
		{"a = 1" + strings.Repeat(" ", MaxTextBytes), "the expression is too long (16389 bytes, limit 16384) at character 1"},
		{"a = \"\xff\"", "the expression is not valid UTF-8 at character 1"},
		{strings.Repeat("(", 65) + "a = 1", "nested more than 64 levels deep at character 65"},
		{strings.Repeat("!", 16000) + "a", "nested more than 64 levels deep at character 65"},
		{strings.Repeat("a||", 512) + "a", "more than 512 comparisons and values at character 1537"},
		{"a in (" + strings.Repeat("1,", 512) + "1)", "more than 512 comparisons and values at character 1029"},
		{"a.b.c.d.e.f.g.h.i = 1", "a path of more than 8 names at character 17"},
	} {
		x, err := Parse(c.in)
		var e *Error
		if !errors.As(err, &e) || err.Error() != c.want {
			t.Errorf("%.60s: %v, %v\nwant %s", c.in, x, err, c.want)
		}
	}
}

func TestParseJSON(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"is_deleted":false,"created_at":">2024-01-01"}`, `is_deleted = false && created_at > "2024-01-01"`},
		{`{"total":{">=":5,"<":7.50}}`, "total >= 5 && total < 7.5"},
		{`{"or":[{"a":1},{"b":[1,null,"x"]},{"not":{"c":"~y"}}]}`, `a = 1 || b in (1, null, "x") || !(c ~ "y")`},
		{`{"and":[{"a":1},{"b":2,"c":null}]}`, "a = 1 && b = 2 && c = null"},
		{`{"created":{">":{"expr":"@now - 7d"}},"@auth.id":{"=":{"expr":"owner.id"}}}`, "created > @now - 1w && @auth.id = owner.id"},
		{`{"name":{"=":">x"}}`, `name = ">x"`}, {`{"a":{"in":[]}}`, "a in ()"}, {`{"and":[]}`, ""}, {`{}`, ""}, {` { } `, ""},
	} {
		x, err := ParseJSON([]byte(c.in))
		got := ""
		if x != nil {
			got = String(x)
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %s, %v\nwant %s", c.in, got, err, c.want)
		}
	}
	for _, c := range []struct{ in, want string }{
		{``, "invalid JSON (EOF)"}, {`[]`, "an object is required here"}, {`{"a":1`, "invalid JSON"}, {`{"a":1} {}`, "unexpected text after the expression"}, {`{"a":{}}`, "a comparison is missing"},
		{`{"a":{"gt":1}}`, `unknown comparison "gt"; use one of = !=`}, {`{"a = 1":2}`, `"a = 1": found = instead of the end of the operand`}, {`{"":2}`, `"": found the end instead of a field`},
		{`{"or":[]}`, "or needs conditions"}, {`{"or":[{}]}`, "or needs conditions"}, {`{"not":{}}`, "not needs a condition"}, {`{"or":{}}`, "an array of objects is required here"},
		{`{"a":{"=":{"x":1}}}`, "a value, or"}, {`{"a":{"=":{"expr":1}}}`, "a value, or"}, {`{"a":{"=":{}}}`, "a value, or"}, {`{"a":{"=":[1]}}`, "a value is required here"}, {`{"a":1e99}`, "more than 38 digits"},
		{`{"a":"\u0000"}`, "a NUL"}, {strings.Repeat(`{"not":`, 65), "nested more than 64 levels"}, {`{"a":` + strings.Repeat("[", 10_000), "a value is required here"},
		{`{"a":[` + strings.Repeat("1,", 512) + "1]}", "more than 512 comparisons"}, {`{"a":"` + strings.Repeat("x", MaxTextBytes) + `"}`, "the expression is too long"}, {"{\"a\":\"\xff\"}", "the expression is not valid UTF-8"},
	} {
		x, err := ParseJSON([]byte(c.in))
		var e *Error
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.60s: %v, %v\nwant %s", c.in, x, err, c.want)
		}
	}
}

// grow returns a random expression.
func grow(rng *rand.Rand, depth int) Expr {
	terms := func() (all []Expr) {
		for range 2 + rng.IntN(2) {
			all = append(all, grow(rng, depth-1))
		}
		return all
	}
	switch p := rng.IntN(8); {
	case depth > 0 && p == 0:
		return &And{Terms: terms()}
	case depth > 0 && p == 1:
		return &Or{Terms: terms()}
	case depth > 0 && p == 2:
		return &Not{X: grow(rng, depth-1)}
	case p == 3:
		in := &In{X: growOperand(rng)}
		for range rng.IntN(3) {
			in.List = append(in.List, growOperand(rng))
		}
		return in
	}
	return &Compare{Op: Equal + Op(rng.IntN(int(Has))), Left: growOperand(rng), Right: growOperand(rng)}
}

func growOperand(rng *rand.Rand) Operand {
	texts := []string{"", "a", `"`, "'", "\\", "\n", "é", "%", ">x", "\x7f", "</script>"}
	decimals := []string{"0.5", "-12.25", "123456789012345678901"}
	var x Operand
	switch rng.IntN(8) {
	case 0:
		x = &Var{Names: []string{"now"}}
	case 1:
		x = &Var{Names: []string{"auth", "id"}}
	case 2:
		v, _ := value.OfText(texts[rng.IntN(len(texts))] + texts[rng.IntN(len(texts))])
		return &Literal{Value: v}
	case 3:
		return &Literal{Value: []value.Value{{}, value.OfBool(true), value.OfBool(false), value.OfInt(rng.Int64N(2000) - 1000)}[rng.IntN(4)]}
	case 4:
		v, _ := value.ParseDecimal(decimals[rng.IntN(len(decimals))])
		return &Literal{Value: v}
	default:
		x = &Path{Names: []string{"a", "b_1", "Z"}[:1+rng.IntN(3)]}
	}
	if rng.IntN(3) == 0 {
		return &Shift{X: x, By: time.Duration(rng.Int64N(int64(2*maxShift/time.Millisecond))-int64(maxShift/time.Millisecond)) * time.Millisecond}
	}
	return x
}

func TestRoundTrips(t *testing.T) {
	rng := seed.Rand(t)
	for range 5_000 {
		text := String(grow(rng, 4))
		x, err := Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		// A term of the same kind as the expression around it becomes part of that.
		flat := String(x)
		if again, err := Parse(flat); err != nil || String(again) != flat {
			t.Fatalf("%s\nis read as %s, %v", flat, String(again), err)
		}
		js := AppendJSON(nil, x)
		if back, err := ParseJSON(js); err != nil || String(back) != flat {
			t.Fatalf("%s\nas JSON is %s\nread as %v, %v", flat, js, back, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`status = "open" && (total > 100 || owner.name ~ "bo") && created > @now - 7d`, "!a || b not in (1, 'x')", "n ?= -1.5e3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		x, err := Parse(text)
		if err != nil {
			if e := new(Error); !errors.As(err, &e) || e.Pos < 0 || e.Pos > len(text) {
				t.Fatalf("%q: %v at %d", text, err, e.Pos)
			}
			return
		}
		checkSpans(t, x, len(text))
		flat := String(x)
		if len(flat) > MaxTextBytes/2 {
			return
		}
		if back, err := Parse(flat); err != nil || String(back) != flat {
			t.Fatalf("%q\nis %s\nread as %v", text, flat, err)
		}
		if js := AppendJSON(nil, x); len(js) <= MaxTextBytes && nesting(x) < MaxDepth/3 {
			if back, err := ParseJSON(js); err != nil || String(back) != flat {
				t.Fatalf("%q\nas JSON is %s\nread as %v", text, js, err)
			}
		}
	})
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"is_deleted":false,"created_at":">2024-01-01"}`))
	f.Add([]byte(`{"or":[{"a":{"in":[1,{"expr":"@now - 7d"}]}},{"not":{"b":null}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := ParseJSON(text)
		if err != nil || x == nil {
			return
		}
		flat := String(x)
		if len(flat) > MaxTextBytes/2 || nesting(x) > MaxDepth/3 {
			return
		}
		if back, err := Parse(flat); err != nil || String(back) != flat {
			t.Fatalf("%s\nis %s\nread as %v", text, flat, err)
		}
	})
}

// checkSpans checks that the spans of an expression lie within the text and within those around them.
func checkSpans(t *testing.T, x Expr, size int) {
	t.Helper()
	within := func(in Expr, outer Span) {
		if s := in.At(); s.Pos < outer.Pos || s.End > outer.End || s.Pos >= s.End {
			t.Fatalf("the span %v of %T is not within %v", s, in, outer)
		}
	}
	within(x, Span{0, size})
	for _, sub := range children(x) {
		if _, ok := x.(*Not); !ok || sub.At() != x.At() {
			within(sub, Span{0, size})
		}
		checkSpans(t, sub, size)
	}
}

func children(x Expr) []Expr {
	switch x := x.(type) {
	case *And:
		return x.Terms
	case *Or:
		return x.Terms
	case *Not:
		return []Expr{x.X}
	}
	return nil
}

func nesting(x Expr) (depth int) {
	for _, sub := range children(x) {
		depth = max(depth, nesting(sub))
	}
	return depth + 1
}

func ExampleParse() {
	x, err := Parse(`status = "open" && total > 100`)
	fmt.Println(String(x), err)
	fmt.Println(string(AppendJSON(nil, x)))
	_, err = Parse(`status == "open"`)
	fmt.Println(err)
	// Output:
	// status = "open" && total > 100 <nil>
	// {"and":[{"status":{"=":"open"}},{"total":{">":100}}]}
	// unknown operator ==; write = at character 8
}
