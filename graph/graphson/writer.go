package graphson

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// writer appends to a buffer. After a failure, what was appended is of no use.
type writer struct {
	b      []byte
	format Format
	err    error
	depth  int
}

func (w *writer) failf(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *writer) raw(s string) { w.b = append(w.b, s...) }

// open begins a value of a type, which close ends.
func (w *writer) open(name string) {
	if w.format == Typed {
		w.raw(`{"@type":"`)
		w.raw(name)
		w.raw(`","@value":`)
	}
}

func (w *writer) close() {
	if w.format == Typed {
		w.b = append(w.b, '}')
	}
}

// comma separates item i from the one before.
func (w *writer) comma(i int) {
	if i > 0 {
		w.b = append(w.b, ',')
	}
}

// string writes a JSON string. Bytes that are not UTF-8 become U+FFFD.
func (w *writer) string(s string) {
	const hex = "0123456789abcdef"
	w.b = append(w.b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			w.b = append(w.b, '\\', c)
		case c == '\n':
			w.b = append(w.b, '\\', 'n')
		case c < 0x20 || c == 0x7f:
			w.b = append(w.b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			w.b = append(w.b, c)
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			w.b = utf8.AppendRune(w.b, r)
			i += n
			continue
		}
		i++
	}
	w.b = append(w.b, '"')
}

// name writes a name of an object.
func (w *writer) name(s string) { w.string(s); w.b = append(w.b, ':') }

func (w *writer) text(name, s string) {
	w.open(name)
	w.string(s)
	w.close()
}

func (w *writer) int(name string, n int64) {
	w.open(name)
	w.b = strconv.AppendInt(w.b, n, 10)
	w.close()
}

// float writes a number that JSON may not have as a string.
func (w *writer) float(name string, f float64, bits int) {
	w.open(name)
	switch {
	case math.IsNaN(f):
		w.raw(`"NaN"`)
	case math.IsInf(f, 1):
		w.raw(`"Infinity"`)
	case math.IsInf(f, -1):
		w.raw(`"-Infinity"`)
	default:
		at := len(w.b)
		w.b = strconv.AppendFloat(w.b, f, 'g', -1, bits)
		if !strings.ContainsAny(string(w.b[at:]), ".e") {
			w.raw(".0")
		}
	}
	w.close()
}

// value writes a value with its type, if the format has types.
func (w *writer) value(v any) {
	if w.err != nil {
		return
	}
	if w.depth++; w.depth > message.MaxDepth {
		w.failf("values are nested more than %d deep", message.MaxDepth)
		return
	}
	if !w.scalar(v) && !w.collection(v) && !w.element(v) && !w.program(v) {
		w.failf("values of type %T cannot be sent", v)
	}
	w.depth--
}

func (w *writer) scalar(v any) bool {
	switch x := v.(type) {
	case nil:
		w.raw("null")
	case string:
		w.string(x)
	case bool:
		w.b = strconv.AppendBool(w.b, x)
	case int32:
		w.int("g:Int32", int64(x))
	case int64:
		w.int("g:Int64", x)
	case int16:
		w.int("gx:Int16", int64(x))
	case int8:
		w.int("gx:Byte", int64(x))
	case float64:
		w.float("g:Double", x, 64)
	case float32:
		w.float("g:Float", float64(x), 32)
	case *big.Int:
		w.open("gx:BigInteger")
		w.b = x.Append(w.b, 10)
		w.close()
	case value.Decimal:
		w.open("gx:BigDecimal")
		w.raw(x.String())
		w.close()
	case value.Char:
		w.text("gx:Char", string(rune(x)))
	case value.UUID:
		w.text("g:UUID", x.String())
	case time.Time:
		w.text("gx:OffsetDateTime", string(appendTime(nil, x)))
	case value.Duration:
		w.text("gx:Duration", x.String())
	case []byte:
		w.text("gx:ByteBuffer", base64.StdEncoding.EncodeToString(x))
	case value.Enum:
		if kindOf("g:"+x.Kind) == "" {
			w.failf("there is no enumeration %q", x.Kind)
		}
		w.text("g:"+x.Kind, x.Name)
	default:
		return false
	}
	return true
}

func (w *writer) collection(v any) bool {
	switch x := v.(type) {
	case value.List:
		w.items("g:List", x)
	case *value.Set:
		w.items("g:Set", x.Items())
	case *value.Map:
		w.pairs(x)
	case value.Entry: // which is a map for drivers
		w.pairs(value.MapOf(x.Key, x.Val))
	case *value.BulkSet:
		w.bulkSet(x)
	case *value.Tree:
		w.tree(x)
	case message.Traverser:
		w.open("g:Traverser")
		w.raw(`{"bulk":`)
		w.int("g:Int64", x.Bulk)
		w.raw(`,"value":`)
		w.value(x.Val)
		w.raw("}")
		w.close()
	default:
		return false
	}
	return true
}

func (w *writer) items(name string, items []any) {
	w.open(name)
	each(w, items, w.value)
	w.close()
}

// each writes an array with what write makes of each value.
func each[T any](w *writer, vs []T, write func(T)) {
	w.raw("[")
	for i, v := range vs {
		w.comma(i)
		write(v)
	}
	w.raw("]")
}

// pairs writes a map: as an array of keys and values, or as fields without types.
func (w *writer) pairs(m *value.Map) {
	if w.format != Typed {
		w.fields(m)
		return
	}
	w.open("g:Map")
	each(w, entries(m), func(e value.Entry) {
		w.value(e.Key)
		w.raw(",")
		w.value(e.Val)
	})
	w.close()
}

// fields writes a map as an object whose names are the keys as text. nil is an
// empty map.
func (w *writer) fields(m *value.Map) {
	w.raw("{")
	for i, e := range entries(m) {
		w.comma(i)
		w.name(nameOf(e.Key))
		w.value(e.Val)
	}
	w.raw("}")
}

func entries(m *value.Map) []value.Entry {
	if m == nil {
		return nil
	}
	return m.Entries()
}

func nameOf(key any) string {
	switch x := key.(type) {
	case string:
		return x
	case value.Enum:
		return x.Name
	case value.Element:
		return nameOf(x.ElementID())
	case nil:
		return "null"
	}
	return value.Text(key)
}

// bulkSet writes values and how often they occur, or, without types, a list with
// each of them.
func (w *writer) bulkSet(s *value.BulkSet) {
	if w.format != Typed {
		if s.Len() > message.MaxValues {
			w.failf("a bulk set has %d values, more than can be sent without types", s.Len())
			return
		}
		w.items("", value.Items(s))
		return
	}
	w.open("g:BulkSet")
	w.raw("[")
	i := 0
	s.All(func(v any, bulk int64) bool {
		w.comma(i)
		i++
		w.value(v)
		w.raw(",")
		w.int("g:Int64", bulk)
		return w.err == nil
	})
	w.raw("]")
	w.close()
}

func (w *writer) tree(t *value.Tree) {
	if w.depth++; w.depth > message.MaxDepth {
		w.failf("values are nested more than %d deep", message.MaxDepth)
		return
	}
	w.open("g:Tree")
	each(w, t.Nodes, func(n value.Branch) {
		w.raw(`{"key":`)
		w.value(n.Val)
		w.raw(`,"value":`)
		w.tree(n.Below)
		w.raw("}")
	})
	w.close()
	w.depth--
}
