package value

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Hash returns text that is the same for two values if and only if they are the
// same to dedup, group, sets and keys of maps: as by Equal, but with numbers of
// different types not the same, and NaN the same as itself. It is not stored.
func Hash(v any) string {
	switch x := v.(type) {
	case string:
		return "s" + x
	case int64:
		return integerHash(x)
	}
	return string(appendHash(nil, v, true))
}

// EqualHash is Hash with numbers of different types the same if they are equal.
func EqualHash(v any) string { return string(appendHash(nil, v, false)) }

func integerHash(n int64) string {
	var buf [21]byte
	return string(strconv.AppendInt(append(buf[:0], 'i'), n, 10))
}

// AppendHash appends Hash(v) to b.
func AppendHash(b []byte, v any) []byte { return appendHash(b, v, true) }

// appendHash appends Hash(v) if typed is true, or EqualHash(v).
func appendHash(b []byte, v any, typed bool) []byte {
	switch x := v.(type) {
	case nil:
		return append(b, '0')
	case bool:
		return strconv.AppendBool(append(b, 'b'), x)
	case string:
		return append(append(b, 's'), x...)
	case int8, int16, int32, int64, *big.Int, float32, float64, Decimal:
		if b = append(b, numberHash(x)...); typed {
			b = append(b, typeMark(x)...)
		}
		return b
	case Char:
		return append(append(b, 'c'), string(x)...)
	case UUID:
		return append(append(b, 'u'), x[:]...)
	case time.Time:
		return append(append(b, 't'), x.UTC().Format(time.RFC3339Nano)...)
	case Duration:
		return fmt.Appendf(b, "d%d.%d", x.Seconds, x.Nanos)
	case []byte:
		return append(append(b, 'y'), x...)
	case Enum:
		return append(append(append(append(b, 'e'), x.Kind...), '.'), x.Name...)
	case Stored:
		return x.AppendHash(b)
	case *Vertex:
		return appendHash(append(b, 'V'), x.ID, false)
	case *Edge:
		return appendHash(append(b, 'E'), x.ID, false)
	case *VertexProperty:
		return appendHash(append(b, 'P'), x.ID, false)
	case *Property:
		return part(part(append(b, 'p'), x.Key, typed), x.Val, typed) // whatever it is of
	case Entry:
		return part(part(append(b, 'n'), x.Key, typed), x.Val, typed)
	}
	return appendCollection(b, v, typed)
}

// part appends a value with its length, so that two lists of parts never look
// the same.
func part(b []byte, v any, typed bool) []byte {
	at := len(b)
	b = appendHash(append(b, 0, 0, 0, 0), v, typed)
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

func appendCollection(b []byte, v any, typed bool) []byte {
	switch x := v.(type) {
	case List, *BulkSet:
		b = append(b, 'l')
		for _, item := range Items(x) {
			b = part(b, item, typed)
		}
	case *Path:
		b = append(b, 'h')
		for i, item := range x.Objects {
			b = part(b, item, typed)
			b = part(b, strings.Join(x.Labels[i], "\x00"), typed)
		}
	case *Set:
		b = append(b, 'z')
		keys := make([]string, 0, len(x.items))
		for _, item := range x.items {
			keys = append(keys, string(appendHash(nil, item, typed)))
		}
		b = appendSorted(b, keys)
	case *Map:
		b = append(b, 'm')
		keys := make([]string, 0, len(x.entries))
		for _, e := range x.entries {
			keys = append(keys, string(part(part(nil, e.Key, typed), e.Val, typed)))
		}
		b = appendSorted(b, keys)
	case *Tree:
		b = append(b, 'r')
		keys := make([]string, 0, len(x.Nodes))
		for _, n := range x.Nodes {
			keys = append(keys, string(part(part(nil, n.Val, typed), n.Below, typed)))
		}
		b = appendSorted(b, keys)
	default:
		b = fmt.Appendf(append(b, '?'), "%p", v) // a Graph or metrics: itself only
	}
	return b
}

func appendSorted(b []byte, keys []string) []byte {
	slices.Sort(keys)
	for _, k := range keys {
		b = part(b, k, false)
	}
	return b
}

// typeMark returns what tells a number's type. That of int64 is "": ids are of that type.
func typeMark(v any) string {
	switch v.(type) {
	case int8:
		return "b"
	case int16:
		return "s"
	case int32:
		return "i"
	case *big.Int:
		return "n"
	case float32:
		return "f"
	case float64:
		return "d"
	case Decimal:
		return "m"
	}
	return ""
}

// maxInt64Digits is how many digits the largest int64 has.
const maxInt64Digits = 19

func numberHash(v any) string {
	if n, ok := Int(v); ok {
		return integerHash(n)
	}
	f, _ := Float(v)
	switch {
	case IsNaN(v):
		return "fNaN"
	case !finite(v):
		return "f" + strconv.FormatFloat(f, 'g', -1, 64)
	case classOf(v) < classDecimal && classOf(v) != classBig && f == math.Trunc(f) && math.Abs(f) < 1<<53:
		return integerHash(int64(f))
	}
	d := toDecimal(v)
	if n := d.trim(0); n.Scale <= 0 && n.Scale > -maxInt64Digits || n.Unscaled.Sign() == 0 {
		if n.Scale < 0 && n.Unscaled.Sign() != 0 {
			n = n.at(0)
		}
		if n.Unscaled.IsInt64() {
			return integerHash(n.Unscaled.Int64())
		}
	}
	return "f" + d.canonical()
}

// String returns the UUID in its usual form.
func (u UUID) String() string {
	var b [36]byte
	hex.Encode(b[:8], u[:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:], u[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// ParseUUID reads a UUID in its usual form.
func ParseUUID(text string) (UUID, error) {
	var u UUID
	digits := strings.ReplaceAll(text, "-", "")
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != len(u) || len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return u, fmt.Errorf("%q is not a UUID", clip(text))
	}
	return UUID(raw), nil
}
