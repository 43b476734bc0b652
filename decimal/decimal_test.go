package decimal

import (
	"math"
	"strconv"
	"testing"
)

var numbers = []string{
	"0", "1", "9", "10", "-1", "-10", "9223372036854775807", "-9223372036854775808",
	"", "-", "+1", "-0", "00", "01", "-01", " 1", "1 ", "1a", "/", ":", "1e3", "9223372036854775808", "-9223372036854775809",
	"99999999999999999999", "18446744073709551616", "٣",
}

// check compares Parse with strconv: a text is taken if it is what strconv writes.
func check(t *testing.T, text []byte) {
	want, err := strconv.ParseInt(string(text), 10, 64)
	valid := err == nil && strconv.FormatInt(want, 10) == string(text)
	if n, ok := Parse(text); ok != valid || ok && n != want {
		t.Errorf("%q: %d, %v, want %d, %v", text, n, ok, want, valid)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, text := range numbers {
		check(t, []byte(text))
	}
	for _, n := range []int64{math.MinInt64, math.MaxInt64, 0} {
		for d := int64(-2); d <= 2; d++ {
			check(t, strconv.AppendInt(nil, n+d, 10))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range numbers {
		f.Add([]byte(text))
	}
	f.Fuzz(check)
}
