package graph

import (
	"encoding/binary"
	"math"
	"math/big"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// The first byte of a stored value is its type. These are stored: do not change
// them.
const (
	tagNull    = 0
	tagFalse   = 1
	tagTrue    = 2
	tagByte    = 3
	tagShort   = 4
	tagInt     = 5
	tagLong    = 6
	tagBig     = 7
	tagFloat   = 8
	tagDouble  = 9
	tagDecimal = 10
	tagString  = 11
	tagChar    = 12
	tagUUID    = 13
	tagTime    = 14
	tagSpan    = 15
	tagBinary  = 16
	tagList    = 17
	tagSet     = 18
	tagMap     = 19
)

// maxRune is the largest Char.
const maxRune = 0x10ffff

// maxBigBytes bounds the text of integers: value.MaxDigits decimal digits in base 62.
const maxBigBytes = value.MaxDigits * 6 / 10

// appendProperty appends the value of a property.
func appendProperty(b []byte, v any) ([]byte, error) {
	at := len(b)
	b, err := appendValue(b, v, 0)
	if err == nil && len(b)-at > MaxPropertyBytes {
		err = limit("a property's value has at most %d bytes (MaxPropertyBytes)", MaxPropertyBytes)
	}
	return b, err
}

// appendValue appends v, or returns an error if it cannot be stored.
func appendValue(b []byte, v any, depth int) ([]byte, error) {
	switch x := v.(type) {
	case nil:
		return append(b, tagNull), nil
	case bool:
		if x {
			return append(b, tagTrue), nil
		}
		return append(b, tagFalse), nil
	case int8:
		return append(b, tagByte, byte(x)), nil
	case int16:
		return binary.AppendVarint(append(b, tagShort), int64(x)), nil
	case int32:
		return binary.AppendVarint(append(b, tagInt), int64(x)), nil
	case int64:
		return binary.AppendVarint(append(b, tagLong), x), nil
	case *big.Int:
		return appendBig(append(b, tagBig), x)
	case float32:
		return binary.BigEndian.AppendUint32(append(b, tagFloat), math.Float32bits(x)), nil
	case float64:
		return binary.BigEndian.AppendUint64(append(b, tagDouble), math.Float64bits(x)), nil
	case value.Decimal:
		if x.Scale > value.MaxDigits || x.Scale < -value.MaxDigits {
			return nil, errDigits()
		}
		return appendBig(binary.AppendVarint(append(b, tagDecimal), int64(x.Scale)), x.Unscaled)
	case string:
		return append(binary.AppendUvarint(append(b, tagString), uint64(len(x))), x...), nil
	case value.Char:
		if x < 0 || x > maxRune {
			return nil, engine.Errorf(CodeValue, "a property cannot be the character %d", x)
		}
		return binary.AppendUvarint(append(b, tagChar), uint64(x)), nil
	case value.UUID:
		return append(append(b, tagUUID), x[:]...), nil
	case time.Time:
		_, offset := x.Zone()
		b = binary.AppendVarint(append(b, tagTime), x.Unix())
		return binary.AppendVarint(binary.AppendUvarint(b, uint64(x.Nanosecond())), int64(offset)), nil
	case value.Duration:
		if x.Nanos < 0 || x.Nanos >= 1e9 {
			return nil, engine.Errorf(CodeValue, "a property cannot be a duration with %d nanoseconds beside its seconds", x.Nanos)
		}
		return binary.AppendUvarint(binary.AppendVarint(append(b, tagSpan), x.Seconds), uint64(x.Nanos)), nil
	case []byte:
		return appendBytes(append(b, tagBinary), x), nil
	}
	return appendCollection(b, v, depth)
}

func appendBig(b []byte, n *big.Int) ([]byte, error) {
	if n.BitLen() > value.MaxDigits*10/3 {
		return nil, errDigits()
	}
	return appendBytes(b, n.Append(nil, 62)), nil
}

func errDigits() error {
	return limit("a property's number has at most %d digits (value.MaxDigits)", value.MaxDigits)
}

func appendCollection(b []byte, v any, depth int) (_ []byte, err error) {
	if depth >= MaxDepth {
		return nil, limit("a property's value is nested more than %d deep (MaxDepth)", MaxDepth)
	}
	tag, items := byte(0), []any(nil)
	switch x := v.(type) {
	case value.List:
		tag, items = tagList, x
	case *value.BulkSet:
		if n := x.Len(); n < 0 || n > MaxPropertyBytes {
			return nil, limit("a property's value has at most %d bytes (MaxPropertyBytes)", MaxPropertyBytes)
		}
		tag, items = tagList, value.Items(x)
	case *value.Set:
		tag, items = tagSet, x.Items()
	case *value.Map:
		tag = tagMap
		for _, e := range x.Entries() {
			items = append(items, e.Key, e.Val)
		}
	default:
		return nil, engine.Errorf(CodeValue, "a property cannot be %s", value.Describe(v))
	}
	b = binary.AppendUvarint(append(b, tag), uint64(len(items)))
	for _, item := range items {
		if b, err = appendValue(b, item, depth+1); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func appendBytes(b, s []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// reader reads stored values. Its bad is set once what it reads is damaged; it
// returns zeros from then on.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if s := r.take(1); s != nil {
		return s[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return n
}

// upTo reads a number that is at most the largest.
func (r *reader) upTo(most uint64) uint64 {
	n := r.uvarint()
	if n > most {
		r.bad, r.b, n = true, nil, 0
	}
	return n
}

// within reads a number between two others.
func (r *reader) within(lo, hi int64) int64 {
	n := r.varint()
	if n < lo || n > hi {
		r.bad, r.b, n = true, nil, 0
	}
	return n
}

func (r *reader) bytes() []byte { return r.take(r.uvarint()) }

// skip moves behind a value.
func (r *reader) skip(depth int) {
	switch tag := r.byte(); tag {
	case tagNull, tagFalse, tagTrue:
	case tagByte:
		r.byte()
	case tagShort, tagInt, tagLong, tagChar:
		r.uvarint() // as long as a varint
	case tagBig, tagString, tagBinary:
		r.bytes()
	case tagFloat:
		r.take(4)
	case tagDouble:
		r.take(8)
	case tagDecimal:
		r.varint()
		r.bytes()
	case tagUUID:
		r.take(16)
	case tagTime:
		r.varint()
		r.uvarint()
		r.varint()
	case tagSpan:
		r.varint()
		r.uvarint()
	case tagList, tagSet, tagMap:
		if depth > MaxDepth {
			r.bad, r.b = true, nil
			return
		}
		for n := r.uvarint(); n > 0 && !r.bad; n-- {
			r.skip(depth + 1)
		}
	default:
		r.bad, r.b = true, nil
	}
}

func (r *reader) value(depth int) any {
	switch tag := r.byte(); tag {
	case tagNull:
		return nil
	case tagFalse, tagTrue:
		return tag == tagTrue
	case tagByte:
		return int8(r.byte())
	case tagShort:
		return int16(r.within(math.MinInt16, math.MaxInt16))
	case tagInt:
		return int32(r.within(math.MinInt32, math.MaxInt32))
	case tagLong:
		return r.varint()
	case tagBig:
		return r.big()
	case tagFloat:
		if s := r.take(4); s != nil {
			return math.Float32frombits(binary.BigEndian.Uint32(s))
		}
	case tagDouble:
		if s := r.take(8); s != nil {
			return math.Float64frombits(binary.BigEndian.Uint64(s))
		}
	case tagDecimal:
		scale := int32(r.within(-value.MaxDigits, value.MaxDigits))
		return value.Decimal{Unscaled: r.big(), Scale: scale}
	case tagString:
		return string(r.bytes())
	case tagChar:
		return value.Char(r.upTo(maxRune))
	case tagUUID:
		if s := r.take(16); s != nil {
			return value.UUID(s)
		}
	case tagTime:
		seconds, nanos, offset := r.varint(), r.upTo(1e9-1), r.within(math.MinInt32, math.MaxInt32)
		return value.Zoned(time.Unix(seconds, int64(nanos)).In(time.FixedZone("", int(offset))))
	case tagSpan:
		return value.Duration{Seconds: r.varint(), Nanos: int32(r.upTo(1e9 - 1))}
	case tagBinary:
		return append([]byte{}, r.bytes()...)
	case tagList, tagSet, tagMap:
		return r.collection(tag, depth)
	default:
		r.bad, r.b = true, nil
	}
	return nil
}

func (r *reader) big() *big.Int {
	s := r.bytes()
	if len(s) > maxBigBytes {
		s = nil
	}
	n, ok := new(big.Int).SetString(string(s), 62)
	if !ok {
		r.bad, r.b = true, nil
		return new(big.Int)
	}
	return n
}

func (r *reader) collection(tag byte, depth int) any {
	n := r.uvarint()
	if depth > MaxDepth || n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	items := make([]any, n)
	for i := range items {
		items[i] = r.value(depth + 1)
	}
	switch tag {
	case tagSet:
		return value.NewSet(items...)
	case tagMap:
		return value.MapOf(items...)
	}
	return value.List(items)
}
