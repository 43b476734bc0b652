package graphbinary

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// writer appends to a buffer. After a failure, what was appended is of no use.
type writer struct {
	b     []byte
	ver   version
	err   error
	depth int
}

func (w *writer) failf(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *writer) int32(n int32)     { w.b = binary.BigEndian.AppendUint32(w.b, uint32(n)) }
func (w *writer) int64(n int64)     { w.b = binary.BigEndian.AppendUint64(w.b, uint64(n)) }
func (w *writer) head(code byte)    { w.b = append(w.b, code, flagValue) }
func (w *writer) null()             { w.b = append(w.b, typeNull, flagNull) }
func (w *writer) text(s string)     { w.length(len(s)); w.b = append(w.b, s...) }
func (w *writer) string(s string)   { w.head(typeString); w.text(s) }
func (w *writer) float64(f float64) { w.int64(int64(math.Float64bits(f))) }

func (w *writer) length(n int) {
	if n > math.MaxInt32 {
		w.failf("a length of %d is too large", n)
	}
	w.int32(int32(n))
}

// value writes a type, a flag and a value.
func (w *writer) value(v any) {
	if w.err != nil {
		return
	}
	if w.depth++; w.depth > message.MaxDepth {
		w.failf("values are nested more than %d deep", message.MaxDepth)
		return
	}
	if !w.scalar(v) && !w.collection(v) && !w.element(v) && !w.metrics(v) && (!w.ver.programs() || !w.program(v)) {
		w.failf("values of type %T cannot be sent", v)
	}
	w.depth--
}

func (w *writer) scalar(v any) bool {
	switch x := v.(type) {
	case nil:
		w.null()
	case string:
		w.string(x)
	case int32:
		w.head(typeInt)
		w.int32(x)
	case int64:
		w.head(typeLong)
		w.int64(x)
	case bool:
		w.head(typeBoolean)
		w.b = append(w.b, 0)
		if x {
			w.b[len(w.b)-1] = 1
		}
	case float64:
		w.head(typeDouble)
		w.float64(x)
	case float32:
		w.head(typeFloat)
		w.int32(int32(math.Float32bits(x)))
	case int8:
		w.head(typeByte)
		w.b = append(w.b, byte(x))
	case int16:
		w.head(typeShort)
		w.b = binary.BigEndian.AppendUint16(w.b, uint16(x))
	case value.UUID:
		w.head(typeUUID)
		w.b = append(w.b, x[:]...)
	case *big.Int:
		w.head(typeBigInteger)
		w.big(x)
	case value.Decimal:
		w.head(typeBigDecimal)
		w.int32(x.Scale)
		w.big(x.Unscaled)
	case []byte:
		w.head(typeByteBuffer)
		w.length(len(x))
		w.b = append(w.b, x...)
	case value.Char:
		w.head(typeChar)
		w.b = append(w.b, string(rune(x))...)
	case value.Enum:
		w.enum(x)
	case time.Time:
		w.dateTime(x)
	case value.Duration:
		w.head(typeDuration)
		w.int64(x.Seconds)
		w.int32(x.Nanos)
	default:
		return false
	}
	return true
}

// big writes an integer in two's complement with as few bytes as possible, one
// at least.
func (w *writer) big(n *big.Int) {
	bits := n.BitLen()
	if n.Sign() < 0 { // -128 needs 7 bits and the sign
		bits = new(big.Int).Not(n).BitLen()
	}
	size := bits/8 + 1
	w.length(size)
	at := len(w.b)
	w.b = append(w.b, make([]byte, size)...)
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(size)*8))
	}
	n.FillBytes(w.b[at:])
}

func (w *writer) enum(e value.Enum) {
	code := codeOf(e.Kind)
	if code == typeNull {
		w.failf("there is no enumeration %q", e.Kind)
	}
	if !w.ver.has(code) {
		w.string(e.Name)
		return
	}
	w.head(code)
	w.string(e.Name)
}

func (w *writer) dateTime(t time.Time) {
	_, zone := t.Zone()
	if t.Year() > math.MaxInt32 || t.Year() < math.MinInt32 {
		w.failf("year %d is too large", t.Year())
	}
	w.head(w.ver.dateTime())
	w.int32(int32(t.Year()))
	w.b = append(w.b, byte(t.Month()), byte(t.Day()))
	w.int64(int64(t.Hour()*3600+t.Minute()*60+t.Second())*1e9 + int64(t.Nanosecond()))
	w.int32(int32(zone))
}

func (w *writer) collection(v any) bool {
	switch x := v.(type) {
	case value.List:
		list(w, x)
	case *value.Set:
		w.head(typeSet)
		items(w, x.Items())
	case *value.Map:
		w.head(typeMap)
		w.pairs(x)
	case value.Entry: // which is a map for drivers
		w.head(typeMap)
		w.length(1)
		w.value(x.Key)
		w.value(x.Val)
	case *value.BulkSet:
		w.bulks()
		w.length(x.Different())
		x.All(func(item any, bulk int64) bool {
			w.value(item)
			w.int64(bulk)
			return w.err == nil
		})
	case *value.Tree:
		w.head(typeTree)
		w.tree(x)
	case message.Traverser:
		if !w.ver.has(typeTraverser) {
			return false
		}
		w.head(typeTraverser)
		w.int64(x.Bulk)
		w.value(x.Val)
	default:
		return false
	}
	return true
}

// list writes a list of values, which are of any type or of the same one.
func list[T any](w *writer, vs []T) {
	w.head(typeList)
	items(w, vs)
}

// items writes values without the type of what they are the items of.
func items[T any](w *writer, vs []T) {
	w.length(len(vs))
	for _, v := range vs {
		w.value(v)
	}
}

// pairs writes a map, of which nil is an empty one.
func (w *writer) pairs(m *value.Map) {
	if m == nil {
		w.length(0)
		return
	}
	w.length(m.Len())
	for _, e := range m.Entries() {
		w.value(e.Key)
		w.value(e.Val)
	}
}

func (w *writer) tree(t *value.Tree) {
	if w.depth++; w.depth > message.MaxDepth {
		w.failf("values are nested more than %d deep", message.MaxDepth)
		return
	}
	w.length(len(t.Nodes))
	for _, n := range t.Nodes {
		w.value(n.Val)
		w.tree(n.Below)
	}
	w.depth--
}
