// Package value implements the typed values of record fields: parsing and printing JSON, comparing, and encoding as
// bytes that sort in the order of the values. Values are immutable and comparable with ==.
//
// It knows kinds and values. It must not know fields, records or where they are stored.
package value

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind is the type of a Value.
type Kind uint8

// The kinds, in the order in which values of different kinds compare. Int, Float and Decimal are numbers and
// compare by their value.
const (
	Null Kind = iota
	Bool
	Int
	Float
	Decimal
	Time
	Text
	JSON // an array or an object
)

// String returns the name of the kind as used in errors.
func (k Kind) String() string {
	return [...]string{"null", "bool", "int", "float", "decimal", "time", "text", "json"}[k]
}

// Article returns the name of the kind with its article, if it has one.
func (k Kind) Article() string {
	switch k {
	case Int:
		return "an int"
	case Null, JSON, Text:
		return k.String()
	}
	return "a " + k.String()
}

// IsNumber reports whether values of the kind are numbers.
func (k Kind) IsNumber() bool { return k >= Int && k <= Decimal }

// Limits of values.
const (
	MaxDecimalDigits = 38 // digits of a decimal, leading and trailing zeros not counted
	MaxJSONDepth     = 64 // nested arrays and objects
)

// Value is an immutable value. The zero Value is null. Two values are equal in kind and content if and only if ==
// reports so, except that == distinguishes JSON objects with members in a different order.
type Value struct {
	kind Kind
	bits uint64 // Bool, Int, Float, Time in microseconds since 1970
	text string // Text; JSON as compact text; Decimal in canonical form
}

// OfBool returns b as a Value.
func OfBool(b bool) Value {
	v := Value{kind: Bool}
	if b {
		v.bits = 1
	}
	return v
}

// OfInt returns n as a Value.
func OfInt(n int64) Value { return Value{kind: Int, bits: uint64(n)} }

// OfFloat returns f as a Value. Negative zero becomes zero. Infinities and NaN are errors.
func OfFloat(f float64) (Value, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}, fmt.Errorf("%v is not a finite number", f)
	}
	return Value{kind: Float, bits: math.Float64bits(f + 0)}, nil
}

// MinTime and MaxTime are the earliest and the latest time of a Value.
var (
	MinTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	MaxTime = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
)

// OfTime returns t as a Value, in UTC and cut to microseconds. A time before MinTime or after MaxTime is an error.
func OfTime(t time.Time) (Value, error) {
	if t = t.Truncate(time.Microsecond); t.Before(MinTime) || t.After(MaxTime) {
		return Value{}, fmt.Errorf("the year %d is outside the range 1 to 9999", t.UTC().Year())
	}
	return Value{kind: Time, bits: uint64(t.UnixMicro())}, nil
}

// OfText returns s as a Value, byte for byte: no Unicode normalisation takes place. Invalid UTF-8 and NUL are
// errors, because PostgreSQL stores neither.
func OfText(s string) (Value, error) {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return Value{}, fmt.Errorf("a NUL character at byte %d", i)
	}
	if !utf8.ValidString(s) {
		return Value{}, fmt.Errorf("invalid UTF-8 at byte %d", invalidAt(s))
	}
	return Value{kind: Text, text: s}, nil
}

func invalidAt(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return len(s)
}

// Kind returns the kind of v.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether v is null.
func (v Value) IsNull() bool { return v.kind == Null }

// Bool returns v as a bool; false if it is of another kind.
func (v Value) Bool() bool { return v.kind == Bool && v.bits != 0 }

// Int returns v as an int64, and whether v is a number that an int64 holds exactly.
func (v Value) Int() (int64, bool) {
	switch v.kind {
	case Int:
		return int64(v.bits), true
	case Float:
		f := math.Float64frombits(v.bits)
		if f != math.Trunc(f) || f < -1<<63 || f >= 1<<63 {
			return 0, false
		}
		return int64(f), true
	case Decimal:
		n, err := strconv.ParseInt(v.text, 10, 64)
		return n, err == nil
	}
	return 0, false
}

// Float returns v as the nearest float64, and whether v is a number.
func (v Value) Float() (float64, bool) {
	switch v.kind {
	case Int:
		return float64(int64(v.bits)), true
	case Float:
		return math.Float64frombits(v.bits), true
	case Decimal:
		f, err := strconv.ParseFloat(v.text, 64)
		return f, err == nil
	}
	return 0, false
}

// Decimal returns v as decimal text in canonical form, and whether v is an int or a decimal.
func (v Value) Decimal() (string, bool) {
	switch v.kind {
	case Int:
		return strconv.FormatInt(int64(v.bits), 10), true
	case Decimal:
		return v.text, true
	}
	return "", false
}

// Time returns v as a time in UTC, and whether it is one.
func (v Value) Time() (time.Time, bool) {
	if v.kind != Time {
		return time.Time{}, false
	}
	return time.UnixMicro(int64(v.bits)).UTC(), true
}

// Text returns the text of v, and whether it is one.
func (v Value) Text() (string, bool) {
	if v.kind != Text {
		return "", false
	}
	return v.text, true
}

// String returns v for people: a text unchanged, null as "", and everything else as JSON.
func (v Value) String() string {
	switch v.kind {
	case Null:
		return ""
	case Text, Decimal, JSON:
		return v.text
	}
	return strings.Trim(string(v.AppendJSON(nil)), `"`)
}
