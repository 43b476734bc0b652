package client

import (
	"math"
	"reflect"
	"strconv"
	"time"
)

// bulkHead is the maximum overhead of a bulk string: $, its length and two line ends.
const bulkHead = 1 + 10 + 2 + 2

// argSize returns the maximum encoded size of a, and whether a is of a plain kind. It must
// not let a escape, so it calls no method of a.
func argSize(a any) (size int, plain bool) {
	switch v := a.(type) {
	case string:
		return len(v), true
	case []byte:
		return len(v), true
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, bool, nil,
		*int, *int8, *int16, *int32, *int64, *uint, *uint8, *uint16, *uint32, *uint64, *bool:
		return 20, true
	case float32, float64, *float32, *float64:
		return 32, true
	case time.Time, *time.Time, time.Duration:
		return 40, true
	case *string:
		if v != nil {
			return len(*v), true
		}
		return 0, true
	case *[]byte:
		if v != nil {
			return len(*v), true
		}
		return 0, true
	case Arg:
		return len(v.text), v.err == nil
	}
	return 0, false
}

// appendArg appends a plain argument as a bulk string.
func appendArg(b []byte, a any) []byte {
	switch v := a.(type) {
	case string:
		return appendBulk(b, v)
	case []byte:
		return appendBulk(b, v)
	case int:
		return appendInt(b, int64(v))
	case int64:
		return appendInt(b, v)
	case int32:
		return appendInt(b, int64(v))
	case int16:
		return appendInt(b, int64(v))
	case int8:
		return appendInt(b, int64(v))
	case uint:
		return appendUint(b, uint64(v))
	case uint64:
		return appendUint(b, v)
	case uint32:
		return appendUint(b, uint64(v))
	case uint16:
		return appendUint(b, uint64(v))
	case uint8:
		return appendUint(b, uint64(v))
	case float64:
		return appendFloat(b, v, 64)
	case float32:
		return appendFloat(b, float64(v), 32)
	case bool:
		return appendBool(b, v)
	case time.Time:
		return appendTime(b, v)
	case time.Duration:
		return appendInt(b, int64(v))
	case Arg:
		return appendBulk(b, v.text)
	}
	return appendPointer(b, a)
}

// appendPointer appends what a plain pointer points to, or nothing for nil.
func appendPointer(b []byte, a any) []byte {
	switch v := a.(type) {
	case *string:
		return appendTarget(b, v)
	case *[]byte:
		return appendTarget(b, v)
	case *int:
		return appendTarget(b, v)
	case *int8:
		return appendTarget(b, v)
	case *int16:
		return appendTarget(b, v)
	case *int32:
		return appendTarget(b, v)
	case *int64:
		return appendTarget(b, v)
	case *uint:
		return appendTarget(b, v)
	case *uint8:
		return appendTarget(b, v)
	case *uint16:
		return appendTarget(b, v)
	case *uint32:
		return appendTarget(b, v)
	case *uint64:
		return appendTarget(b, v)
	case *float32:
		return appendTarget(b, v)
	case *float64:
		return appendTarget(b, v)
	case *bool:
		return appendTarget(b, v)
	case *time.Time:
		return appendTarget(b, v)
	}
	return appendBulk(b, "")
}

func appendTarget[T any](b []byte, p *T) []byte {
	if p == nil {
		return appendBulk(b, "")
	}
	return appendArg(b, *p)
}

// appendHead appends the line that begins an array or a bulk string.
func appendHead(b []byte, kind byte, n int) []byte {
	if uint(n) < 10 {
		return append(b, kind, '0'+byte(n), '\r', '\n')
	}
	if uint(n) < 100 {
		return append(b, kind, '0'+byte(n/10), '0'+byte(n%10), '\r', '\n')
	}
	b = strconv.AppendInt(append(b, kind), int64(n), 10)
	return append(b, '\r', '\n')
}

func appendBulk[T string | []byte](b []byte, s T) []byte {
	b = appendHead(b, '$', len(s))
	b = append(b, s...)
	return append(b, '\r', '\n')
}

func appendInt(b []byte, n int64) []byte {
	if n >= 0 {
		return appendUint(b, uint64(n))
	}
	var tmp [20]byte
	return appendBulk(b, strconv.AppendInt(tmp[:0], n, 10))
}

// appendUint appends a number without a copy, because its length is known beforehand.
func appendUint(b []byte, n uint64) []byte {
	b = appendHead(b, '$', digits(n))
	b = strconv.AppendUint(b, n, 10)
	return append(b, '\r', '\n')
}

func digits(n uint64) int {
	d := 1
	for ; n >= 10000; n /= 10000 {
		d += 4
	}
	for ; n >= 10; n /= 10 {
		d++
	}
	return d
}

// appendFloat appends f so that it can be parsed back exactly. Infinities and NaN are
// written as inf, -inf and nan.
func appendFloat(b []byte, f float64, bits int) []byte {
	switch {
	case math.IsInf(f, 1):
		return appendBulk(b, "inf")
	case math.IsInf(f, -1):
		return appendBulk(b, "-inf")
	case math.IsNaN(f):
		return appendBulk(b, "nan")
	}
	var tmp [32]byte
	return appendBulk(b, strconv.AppendFloat(tmp[:0], f, 'g', -1, bits))
}

func appendBool(b []byte, v bool) []byte {
	return appendBulk(b, strconv.FormatBool(v))
}

func appendTime(b []byte, t time.Time) []byte {
	var tmp [40]byte
	return appendBulk(b, t.UTC().AppendFormat(tmp[:0], time.RFC3339Nano))
}

// encode encodes an argument that is not of a plain kind; i is its index.
func encode(i int, a any) ([]byte, error) {
	if v, ok := a.(Arg); ok {
		return nil, errorf(CodeInvalid, "argument %d cannot be written as JSON: %w", i+1, v.err)
	}
	text, err := encodeArg(reflect.ValueOf(a))
	if err != nil {
		return nil, errorf(CodeInvalid, "argument %d: %w", i+1, err)
	}
	return text, nil
}
