package client

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Arguments that are not of a plain kind are encoded here. encoding/json lets its argument
// escape, so every argument of every call, even a plain one, would have to be allocated.
// This encoder only reads through reflection and cannot call methods. Types with their own
// marshaling must be wrapped by JSON.

// JSON encodes v with encoding/json as an argument. A single argument that is a JSON object
// provides all arguments of a procedure by name. If v cannot be encoded, the call returns
// the error.
func JSON(v any) Arg {
	text, err := json.Marshal(v)
	return Arg{text, err}
}

// Arg is an encoded argument.
type Arg struct {
	text []byte
	err  error
}

// maxJSONDepth bounds the nesting of values, and so ends cycles.
const maxJSONDepth = 64

// encodeArg encodes an argument that is not of a plain kind: a named type of a plain kind
// like that kind, anything else as JSON.
func encodeArg(v reflect.Value) ([]byte, error) {
	for v.Kind() == reflect.Pointer {
		if writesItself(v.Type()) {
			break
		}
		if v.IsNil() {
			return []byte{}, nil
		}
		v = v.Elem()
	}
	if !v.IsValid() {
		return []byte{}, nil
	}
	if writesItself(v.Type()) {
		return nil, errWritesItself(v.Type())
	}
	switch v.Kind() {
	case reflect.String:
		return append([]byte{}, v.String()...), nil
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return append([]byte{}, v.Bytes()...), nil
		}
	}
	return appendJSON(nil, v, 0)
}

// isTime reports whether t is time.Time, whose layout timeOf relies on.
func isTime(t reflect.Type) bool { return t == reflect.TypeFor[time.Time]() }

// writesItself reports whether encoding/json would call a method of t.
func writesItself(t reflect.Type) bool {
	if isTime(t) || t.Kind() == reflect.Pointer && isTime(t.Elem()) {
		return false
	}
	own := func(t reflect.Type) bool {
		return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
	}
	return own(t) || t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && own(reflect.PointerTo(t))
}

func errWritesItself(t reflect.Type) error {
	return errorf(CodeInvalid, "%s has its own text or JSON encoding: pass client.JSON of the argument", t.String())
}

func appendJSON(b []byte, v reflect.Value, depth int) ([]byte, error) {
	if depth > maxJSONDepth {
		return nil, errorf(CodeInvalid, "values are nested deeper than %d", maxJSONDepth)
	}
	if !v.IsValid() {
		return append(b, "null"...), nil
	}
	t := v.Type()
	if isTime(t) {
		return appendJSONTime(b, v)
	}
	if t.Kind() != reflect.Interface && writesItself(t) {
		return nil, errWritesItself(t)
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case reflect.Float32, reflect.Float64:
		f := v.Float()
		if math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, errorf(CodeInvalid, "%v cannot be written as JSON", f)
		}
		return strconv.AppendFloat(b, f, 'g', -1, t.Bits()), nil
	case reflect.String:
		return appendJSONString(b, v.String()), nil
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		return appendJSON(b, v.Elem(), depth+1)
	case reflect.Struct:
		b, _, err := appendJSONFields(append(b, '{'), v, depth, true)
		return append(b, '}'), err
	case reflect.Slice, reflect.Array:
		return appendJSONList(b, v, depth)
	case reflect.Map:
		return appendJSONMap(b, v, depth)
	}
	return nil, errorf(CodeInvalid, "a %s cannot be sent", t.String())
}

func appendJSONList(b []byte, v reflect.Value, depth int) (_ []byte, err error) {
	if v.Kind() == reflect.Slice {
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			b = append(b, '"')
			b = base64.StdEncoding.AppendEncode(b, v.Bytes())
			return append(b, '"'), nil
		}
	}
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, v.Index(i), depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// appendJSONFields appends the fields of a struct, including those of embedded structs.
func appendJSONFields(b []byte, v reflect.Value, depth int, first bool) (_ []byte, _ bool, err error) {
	t := v.Type()
	for i := range t.NumField() {
		sf := t.Field(i)
		name, inner := fieldName(&sf)
		f := v.Field(i)
		if inner && !isTime(sf.Type) {
			if f.Kind() == reflect.Pointer {
				if f.IsNil() || depth > maxJSONDepth {
					continue
				}
				f = f.Elem()
			}
			if writesItself(f.Type()) {
				return nil, false, errWritesItself(f.Type())
			}
			if b, first, err = appendJSONFields(b, f, depth+1, first); err != nil {
				return nil, false, err
			}
			continue
		}
		_, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "" || leftOut(f, options) {
			continue
		}
		if hasOption(options, "string") {
			return nil, false, errorf(CodeInvalid, "the field %s has the option string: pass client.JSON of the argument", name)
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendJSONString(b, name), ':')
		if b, err = appendJSON(b, f, depth+1); err != nil {
			return nil, false, err
		}
	}
	return b, first, nil
}

func hasOption(options, name string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == name {
			return true
		}
	}
	return false
}

// leftOut reports whether omitempty or omitzero omits the field.
func leftOut(f reflect.Value, options string) bool {
	if options == "" {
		return false
	}
	if hasOption(options, "omitzero") && f.IsZero() {
		return true
	}
	if !hasOption(options, "omitempty") {
		return false
	}
	switch f.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return f.Len() == 0
	case reflect.Struct:
		return false
	}
	return f.IsZero()
}

func appendJSONMap(b []byte, v reflect.Value, depth int) (_ []byte, err error) {
	if v.IsNil() {
		return append(b, "null"...), nil
	}
	type pair struct {
		name string
		key  reflect.Value
	}
	pairs := make([]pair, 0, v.Len())
	for _, k := range v.MapKeys() {
		p := pair{key: k}
		switch k.Kind() {
		case reflect.String:
			p.name = strings.Clone(k.String())
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			p.name = strconv.FormatInt(k.Int(), 10)
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			p.name = strconv.FormatUint(k.Uint(), 10)
		default:
			return nil, errorf(CodeInvalid, "a %s cannot be sent: its keys are neither text nor integers", v.Type().String())
		}
		pairs = append(pairs, p)
	}
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	b = append(b, '{')
	for i := range pairs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendJSONString(b, pairs[i].name), ':')
		if b, err = appendJSON(b, v.MapIndex(pairs[i].key), depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendJSONString appends s quoted. Invalid UTF-8 becomes U+FFFD, as in encoding/json.
func appendJSONString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '"' || c == '\\':
				b = append(b, '\\', c)
			case c < ' ' || c == 0x7f:
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			default:
				b = append(b, c)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		b = utf8.AppendRune(b, r)
		i += n
	}
	return append(b, '"')
}

// appendJSONTime reads a time.Time field by field, because its methods cannot be called
// here. The low 30 bits of wall are nanoseconds. If its highest bit is set, the 33 bits
// above the nanoseconds are the seconds since 1885; otherwise ext is the seconds since the
// year 1. TestTimeLayout fails if that changes.
func appendJSONTime(b []byte, v reflect.Value) ([]byte, error) {
	const (
		monotonic = 1 << 63
		wallStart = 59453308800 // seconds from the year 1 to 1885
		unixStart = 62135596800 // and to 1970
	)
	wall, ext := v.Field(0).Uint(), v.Field(1).Int()
	seconds := ext
	if wall&monotonic != 0 {
		seconds = wallStart + int64(wall<<1>>31)
	}
	t := time.Unix(seconds-unixStart, int64(wall&(1<<30-1))).UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return nil, errorf(CodeInvalid, "a time in the year %d cannot be written as JSON", y)
	}
	b = append(b, '"')
	b = t.AppendFormat(b, time.RFC3339Nano)
	return append(b, '"'), nil
}
