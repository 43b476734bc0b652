package value

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/jsonscan"
)

// These getters return a value as what a program asks for, whatever its kind, and zero if it has no such form: for
// pages and forms, where a missing value is no error. String is the one for texts. The methods with two results, such as
// Int, are exact instead.

// GetInt returns v as an int64: a number or the text of one, cut towards zero; 1 for true. Numbers beyond 64 bits are 0.
func (v Value) GetInt() int64 {
	if f, ok := v.Float(); ok && v.kind == Float {
		v, _ = OfFloat(math.Trunc(f))
		n, _ := v.Int()
		return n
	}
	whole, _, _ := strings.Cut(v.GetDecimal(), ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// GetFloat returns v as the nearest float64: a number, the text of one, 1 for true.
func (v Value) GetFloat() float64 {
	if v.kind == Bool {
		return float64(v.bits)
	}
	if f, ok := v.Float(); ok {
		return f
	}
	n, err := FromText(Float, v.plain())
	if err != nil {
		return 0
	}
	f, _ := n.Float()
	return f
}

// GetDecimal returns v as decimal text, "0" if it is no number.
func (v Value) GetDecimal() string {
	if v.kind == Bool {
		v = OfInt(int64(v.bits))
	}
	d, err := ParseDecimal(v.plain())
	if err != nil {
		return "0"
	}
	return d.text
}

// GetBool returns v as a bool: a number is true unless it is 0, and a text is unless it is empty or, in any case, one of
// 0, f, false, n, no and off. Times, arrays and objects are true.
func (v Value) GetBool() bool {
	switch v.kind {
	case Null:
		return false
	case Bool:
		return v.bits != 0
	case Int, Float, Decimal:
		return v.GetFloat() != 0
	case Text:
		switch strings.ToLower(v.plain()) {
		case "", "0", "f", "false", "n", "no", "off":
			return false
		}
	}
	return true
}

// GetTime returns v as a time in UTC: a time, the text of one, or a number of seconds since 1970. Anything else is the
// zero time.
func (v Value) GetTime() time.Time {
	switch v.kind {
	case Time:
	case Int, Float, Decimal:
		n, err := OfTime(time.UnixMicro(int64(v.GetFloat() * 1e6)))
		if v.kind == Int {
			n, err = OfTime(time.Unix(v.GetInt(), 0))
		}
		if err != nil {
			return time.Time{}
		}
		v = n
	default:
		v, _ = ParseTime(v.plain())
	}
	t, _ := v.Time()
	return t
}

// GetTexts returns v as a list: the elements of an array of any values as String has them, v alone if it is anything
// else but null.
func (v Value) GetTexts() []string {
	if v.IsNull() {
		return nil
	}
	all := []string{}
	if v.kind == JSON && v.text[0] == '[' {
		v.each(func(s *jsonscan.Scanner) bool {
			x, _ := parse(s.Raw())
			all = append(all, x.String())
			return true
		})
		return all
	}
	return append(all, v.String())
}

// plain returns the text of v without spaces around it.
func (v Value) plain() string { return strings.TrimSpace(v.String()) }
