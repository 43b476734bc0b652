package gremlin

import (
	"errors"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/graph/value"
)

func repeat(open string, n int, middle, end string) string {
	return "g.inject(" + strings.Repeat(open, n) + middle + strings.Repeat(end, n) + ")"
}

// Each text is read, and refused with one more.
func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		most int
		text func(n int) string
		msg  string
	}{
		"bytes":      {MaxTextBytes, func(n int) string { return "g.V('" + strings.Repeat("x", n-7) + "')" }, "bytes"},
		"traversals": {MaxDepth, func(n int) string { return repeat("__.out(", n-1, "1", ")") }, "nested deeper"},
		"bare steps": {MaxDepth, func(n int) string { return repeat("out(", n-1, "1", ")") }, "nested deeper"},
		"not steps":  {MaxDepth, func(n int) string { return repeat("not(", n-2, "out(1)", ")") }, "nested deeper"},
		"lists":      {MaxDepth, func(n int) string { return repeat("[", n-1, "1", "]") }, "nested deeper"},
		"maps":       {MaxDepth, func(n int) string { return repeat("[a:", n-1, "1", "]") }, "nested deeper"},
		"predicates": {MaxDepth, func(n int) string { return repeat("P.not(", n-2, "gt(1)", ")") }, "nested deeper"},
		"strategies": {MaxDepth, func(n int) string { return repeat("new S_Strategy(a:", n-1, "1", ")") }, "nested deeper"},
		"cardinals":  {MaxDepth, func(n int) string { return repeat("single(", n-1, "1", ")") }, "nested deeper"},
		"vertices":   {MaxDepth, func(n int) string { return repeat("new Vertex(", n-1, "1", ",'a')") }, "nested deeper"},
		"negations":  {MaxDepth, func(n int) string { return "g.inject(gt(1)" + strings.Repeat(".negate()", n-2) + ")" }, "nested deeper"},
		"and or": {MaxDepth, func(n int) string {
			return "g.inject(gt(1)" + strings.Repeat(".and(lt(2)).or(lt(3))", (n-2)/2) + strings.Repeat(".and(lt(2))", (n-2)%2) + ")"
		}, "nested deeper"},
		"sets":  {MaxKeyDepth, func(n int) string { return repeat("{", n, "1", "}") }, "nested deeper"},
		"keys":  {MaxKeyDepth, func(n int) string { return repeat("[(", n, "1", "):1]") }, "nested deeper"},
		"calls": {MaxCalls, func(n int) string { return "g" + strings.Repeat(".out()", n) }, "more than 20000 calls"},
		"number": {MaxNumberBytes, func(n int) string {
			return "g.V(1" + strings.Repeat("_", n-1-value.MaxDigits) + strings.Repeat("1", value.MaxDigits-1) + "m)"
		}, "a number has more than"},
		"digits": {value.MaxDigits, func(n int) string { return "g.V(1" + strings.Repeat("0", n-1) + ")" }, "a number has more than"},
		"range":  {MaxRangeItems, func(n int) string { return "g.V(1..10,11.." + itoa(n) + ")" }, "ranges"},
	} {
		if _, err := Parse(c.text(c.most), nil); err != nil {
			t.Errorf("%s: %d are refused: %s", name, c.most, short(err.Error()))
		}
		_, err := Parse(c.text(c.most+1), nil)
		var bad *SyntaxError
		if !errors.As(err, &bad) || !strings.Contains(bad.Msg, c.msg) {
			t.Errorf("%s: one beyond %d is answered by %v", name, c.most, err)
		}
	}
}

func itoa(n int) string { return ArgText(int32(n)) }

// However often a thing is nested, the answer is a SyntaxError.
func TestFarBeyondDepth(t *testing.T) {
	for _, open := range []string{"__.out(", "out(", "[", "{", "[a:", "[(", "P.not(", "gt(", "gt(1).and(", "not(", "new AStrategy(a:", "single(", "("} {
		var bad *SyntaxError
		if _, err := Parse(repeat(open, 100_000, "", ""), nil); !errors.As(err, &bad) {
			t.Errorf("%s is answered by %v", open, err)
		}
	}
}

// What is refused must not cost more than its text does.
func TestRangesOfLongStrings(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, text := range []string{
		"g.V('" + long + "a'..'" + long + "z')",
		"g.V(" + strings.Repeat("1..1000,", 101) + "1)",
		"g.V(-9223372036854775808..9223372036854775807)",
	} {
		if _, err := Parse(text, nil); err == nil || !strings.Contains(err.Error(), "ranges") {
			t.Errorf("%s is answered by %v", short(text), err)
		}
	}
}

func TestNotUTF8(t *testing.T) {
	_, err := Parse("g.V('\xff')", nil)
	var bad *SyntaxError
	if !errors.As(err, &bad) || bad.Pos != 5 {
		t.Errorf("the error is %v", err)
	}
	if _, err := Parse("g.V('\ufffd')", nil); err != nil {
		t.Error(err)
	}
}
