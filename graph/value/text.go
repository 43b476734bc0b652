package value

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// MaxTextBytes bounds what Text writes of collections: about this many bytes.
const MaxTextBytes = 1 << 20

// Text returns v as Java's String.valueOf writes it, which is what asString,
// concat and format use.
func Text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(appendText(nil, v))
}

func appendText(b []byte, v any) []byte {
	if len(b) > MaxTextBytes {
		return append(b, "…"...)
	}
	switch x := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, x)
	case string:
		return append(b, x...)
	case Char:
		return append(b, string(x)...)
	case int8, int16, int32, int64:
		n, _ := Int(x)
		return strconv.AppendInt(b, n, 10)
	case *big.Int:
		return append(b, x.String()...)
	case float32:
		return append(b, javaFloat(float64(x), 32)...)
	case float64:
		return append(b, javaFloat(x, 64)...)
	case Decimal:
		return append(b, x.String()...)
	case UUID:
		return append(b, x.String()...)
	case time.Time:
		return append(b, dateText(x)...)
	case Duration:
		return append(b, x.String()...)
	case []byte:
		return base64.StdEncoding.AppendEncode(b, x)
	case Enum:
		return append(b, x.Name...)
	}
	return appendElement(b, v)
}

func appendElement(b []byte, v any) []byte {
	switch x := v.(type) {
	case Stored:
		return appendElement(b, x.Detached())
	case *Vertex:
		return append(appendText(append(b, "v["...), x.ID), ']')
	case *Edge:
		b = append(appendText(append(b, "e["...), x.ID), "]["...)
		b = append(append(append(appendText(b, x.Out.ID), '-'), x.Label...), "->"...)
		return append(appendText(b, x.In.ID), ']')
	case *VertexProperty:
		return append(appendText(append(append(append(b, "vp["...), x.Key...), "->"...), x.Val), ']')
	case *Property:
		return append(appendText(append(append(append(b, "p["...), x.Key...), "->"...), x.Val), ']')
	case Entry:
		return appendText(append(appendText(b, x.Key), '='), x.Val)
	case *Path:
		return appendItems(append(b, "path"...), x.Objects)
	case List, *Set:
		return appendItems(b, Items(x))
	case *BulkSet:
		return appendBulkSet(b, x)
	case *Map:
		return appendMap(b, x)
	case *Tree:
		return appendTree(b, x)
	case *Graph:
		return fmt.Appendf(b, "graph[vertices:%d edges:%d]", len(x.Vertices), len(x.Edges))
	}
	return fmt.Appendf(b, "%v", v)
}

func appendItems(b []byte, items []any) []byte {
	b = append(b, '[')
	for i, v := range items {
		if i > 0 {
			b = append(b, ", "...)
		}
		if b = appendText(b, v); len(b) > MaxTextBytes {
			break
		}
	}
	return append(b, ']')
}

// appendBulkSet writes each value as often as it was added.
func appendBulkSet(b []byte, s *BulkSet) []byte {
	b = append(b, '[')
	first := true
	for v, bulk := range s.All {
		for ; bulk > 0 && len(b) <= MaxTextBytes; bulk-- {
			if !first {
				b = append(b, ", "...)
			}
			first = false
			b = appendText(b, v)
		}
	}
	return append(b, ']')
}

func appendMap(b []byte, m *Map) []byte {
	b = append(b, '{')
	for i, e := range m.entries {
		if i > 0 {
			b = append(b, ", "...)
		}
		if b = appendText(b, e); len(b) > MaxTextBytes {
			break
		}
	}
	return append(b, '}')
}

func appendTree(b []byte, t *Tree) []byte {
	b = append(b, '{')
	for i, n := range t.Nodes {
		if i > 0 {
			b = append(b, ", "...)
		}
		if b = appendText(append(appendText(b, n.Val), '='), n.Below); len(b) > MaxTextBytes {
			break
		}
	}
	return append(b, '}')
}

// javaFloat writes a float as Double.toString does: with a point always, and an
// exponent below 10^-3 and from 10^7.
func javaFloat(f float64, bits int) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, 64), "+") + "inity"
	case f == 0 || math.Abs(f) >= 1e-3 && math.Abs(f) < 1e7:
		s := strconv.FormatFloat(f, 'f', -1, bits)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	s := strconv.FormatFloat(f, 'E', -1, bits)
	if !strings.Contains(s, ".") { // Java takes the nearest of two digits, as 4.9E-324
		s = strconv.FormatFloat(f, 'E', 1, bits)
	}
	mantissa, exponent, _ := strings.Cut(s, "E")
	e, _ := strconv.Atoi(exponent)
	return mantissa + "E" + strconv.Itoa(e)
}

// dateText writes a time as OffsetDateTime.toString does: without seconds that
// are zero, and with fractions of 3, 6 or 9 digits.
func dateText(t time.Time) string {
	layout := "2006-01-02T15:04"
	switch n := t.Nanosecond(); {
	case n%1_000 != 0:
		layout += ":05.000000000"
	case n%1_000_000 != 0:
		layout += ":05.000000"
	case n != 0:
		layout += ":05.000"
	case t.Second() != 0:
		layout += ":05"
	}
	sign := ""
	if t.Year() > 9999 {
		sign = "+"
	}
	if _, offset := t.Zone(); offset%60 != 0 {
		return sign + t.Format(layout+"Z07:00:00")
	}
	return sign + t.Format(layout+"Z07:00")
}

// ParseDate reads a date in ISO 8601, with or without a time and an offset. UTC
// is the default.
func ParseDate(text string) (time.Time, error) {
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05.999999999", "2006-01-02T15:04", "2006-01-02", "2006-01-02Z07:00",
		"2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04:05.999999999Z07",
		"2006-01-02T15:04:05.999999999Z07:00:00", "2006-01-02T15:04Z07:00:00",
	} {
		if t, err := time.Parse(layout, text); err == nil {
			return Zoned(t), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a date as 2026-01-31 or 2026-01-31T12:00:00Z", clip(text))
}

// Zoned returns t with its offset and without the name of its zone, so that equal
// times are equal structs.
func Zoned(t time.Time) time.Time {
	if _, offset := t.Zone(); offset != 0 {
		return t.In(time.FixedZone("", offset))
	}
	return t.UTC()
}

// String returns d as Java's Duration.toString does: PT8H6M12.345S.
func (d Duration) String() string {
	if d == (Duration{}) {
		return "PT0S"
	}
	whole, nanos := d.Seconds, int64(d.Nanos)
	if whole < 0 && nanos > 0 {
		whole, nanos = whole+1, nanos-int64(time.Second)
	}
	out := "PT"
	if h := whole / 3600; h != 0 {
		out += strconv.FormatInt(h, 10) + "H"
	}
	if m := whole % 3600 / 60; m != 0 {
		out += strconv.FormatInt(m, 10) + "M"
	}
	s := whole % 60
	if s == 0 && nanos == 0 {
		return out
	}
	if s == 0 && nanos < 0 {
		out += "-"
	}
	out += strconv.FormatInt(s, 10)
	if nanos != 0 {
		out += "." + strings.TrimRight(fmt.Sprintf("%09d", max(nanos, -nanos)), "0")
	}
	return out + "S"
}
