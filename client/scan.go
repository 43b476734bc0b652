package client

import (
	"encoding"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/resp/wire"
)

// Scan stores the value in what dst points to. It supports strings, bytes, numbers,
// booleans, times (text in RFC 3339), slices, arrays of the right length, maps with text or
// integer keys, structs, pointers (nil for null), any, and types that unmarshal JSON or
// text themselves. A map is stored in a struct by the names that encoding/json gives the
// fields. Keys without a field are ignored; fields without a key are left unchanged. Null
// stores the zero value. Everything is copied.
//
// ErrWrongType names the field. Values that were stored before the error stay in dst.
func (r Result) Scan(dst any) error {
	switch d := dst.(type) { // the most common types, without reflection
	case *int64:
		if !r.IsNull() {
			n, err := r.Int()
			*d = n
			return err
		}
		*d = 0
		return nil
	case *string:
		s, err := r.Text()
		*d = s
		return err
	case *Result:
		*d = r.Clone()
		return nil
	}
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return errorf(CodeInvalid, "Scan needs a non-nil pointer, not a %T", dst)
	}
	return scanInto(v.Elem(), r, "")
}

// scanInto sets v, whose path within the argument of Scan is path.
func scanInto(v reflect.Value, r Result, path string) error {
	if err := r.Err(); err != nil {
		return at(path, err)
	}
	if r.IsNull() {
		v.SetZero()
		return nil
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return scanInto(v.Elem(), r, path)
	}
	if done, err := scanItself(v, r); done {
		return at(path, err)
	}
	switch v.Kind() {
	case reflect.Struct:
		return scanStruct(v, r, path)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			return scanSlice(v, r, path)
		}
	case reflect.Array:
		return scanArray(v, r, path)
	case reflect.Map:
		return scanMap(v, r, path)
	case reflect.Interface:
		if v.NumMethod() > 0 {
			return at(path, errorf(CodeInvalid, "cannot scan into a %s", v.Type()))
		}
		v.Set(reflect.ValueOf(r.Any()))
		return nil
	}
	return at(path, scanScalar(v, r))
}

// scanItself handles types that unmarshal text themselves.
func scanItself(v reflect.Value, r Result) (done bool, err error) {
	if !v.CanAddr() || v.Type().PkgPath() == "" && v.Kind() != reflect.Struct {
		return false, nil
	}
	p := v.Addr()
	switch d := p.Interface().(type) {
	case *time.Time:
		b, err := r.Bytes()
		if err == nil {
			*d, err = time.Parse(time.RFC3339Nano, string(b))
		}
		return true, err
	case *Result:
		*d = r.Clone()
		return true, nil
	case json.Unmarshaler:
		b, err := r.Bytes()
		if err != nil {
			return true, err
		}
		return true, d.UnmarshalJSON(b)
	case encoding.TextUnmarshaler:
		b, err := r.Bytes()
		if err != nil {
			return true, err
		}
		return true, d.UnmarshalText(b)
	}
	return false, nil
}

func scanScalar(v reflect.Value, r Result) error {
	switch v.Kind() {
	case reflect.Bool:
		b, err := r.Bool()
		v.SetBool(b)
		return err
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := r.Int()
		if err == nil && v.OverflowInt(n) {
			return errorf(CodeWrongType, "%d is out of the range of %s", n, v.Type())
		}
		v.SetInt(n)
		return err
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		n, err := r.Uint()
		if err == nil && v.OverflowUint(n) {
			return errorf(CodeWrongType, "%d is out of the range of %s", n, v.Type())
		}
		v.SetUint(n)
		return err
	case reflect.Float32, reflect.Float64:
		f, err := r.Float()
		if err == nil && !math.IsInf(f, 0) && v.OverflowFloat(f) {
			return errorf(CodeWrongType, "%g is out of the range of %s", f, v.Type())
		}
		v.SetFloat(f)
		return err
	case reflect.String:
		s, err := r.Text()
		v.SetString(s)
		return err
	case reflect.Slice:
		b, err := r.Bytes()
		v.SetBytes(append([]byte{}, b...))
		return err
	}
	return errorf(CodeInvalid, "cannot scan into a %s", v.Type())
}

func scanSlice(v reflect.Value, r Result, path string) error {
	if !isList(r.Kind()) {
		return at(path, r.wrong("a list"))
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, min(r.Len(), 1024)))
	elem := v.Type().Elem()
	i := 0
	for e := range r.List() {
		v.Set(reflect.Append(v, reflect.Zero(elem)))
		if err := scanInto(v.Index(i), e, path+"[]"); err != nil {
			return err
		}
		i++
	}
	return nil
}

func scanArray(v reflect.Value, r Result, path string) error {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		b, err := r.Bytes()
		if err == nil && len(b) != v.Len() {
			err = errorf(CodeWrongType, "%d bytes are not %s", len(b), v.Type())
		}
		if err == nil {
			reflect.Copy(v, reflect.ValueOf(b))
		}
		return at(path, err)
	}
	if !isList(r.Kind()) || r.Len() != v.Len() {
		return at(path, r.wrong("a list of the length of "+v.Type().String()))
	}
	i := 0
	for e := range r.List() {
		if err := scanInto(v.Index(i), e, path+"[]"); err != nil {
			return err
		}
		i++
	}
	return nil
}

func scanMap(v reflect.Value, r Result, path string) error {
	t := v.Type()
	if r.Kind() != wire.KindMap {
		return at(path, r.wrong("a map"))
	}
	if !t.Key().Comparable() || t.Key().Kind() == reflect.Interface {
		return at(path, errorf(CodeInvalid, "cannot scan into a %s", t))
	}
	v.Set(reflect.MakeMap(t))
	for k, e := range r.Map() {
		name, err := k.Text()
		if err != nil {
			return at(path, err)
		}
		elem := reflect.New(t.Elem()).Elem()
		if err := scanInto(elem, e, path+"."+name); err != nil {
			return err
		}
		key := reflect.New(t.Key()).Elem()
		if err := scanInto(key, k, path); err != nil {
			return err
		}
		v.SetMapIndex(key, elem)
	}
	return nil
}

// scanStruct looks for each key's field starting after the previous one, because keys
// mostly come in the order of the fields.
func scanStruct(v reflect.Value, r Result, path string) error {
	if r.Kind() != wire.KindMap {
		return at(path, r.wrong("a map"))
	}
	from := 0
	for k, e := range r.Map() {
		it, _ := k.item()
		f, next, ok := findField(v, it.Str, from, 0)
		if !ok {
			continue
		}
		from = next
		if err := scanInto(f, e, path+"."+string(it.Str)); err != nil {
			return err
		}
	}
	return nil
}

// findField finds the field with a name, and where to start looking for the next one. depth
// is how deeply structs are embedded in each other.
func findField(v reflect.Value, name []byte, from, depth int) (f reflect.Value, next int, ok bool) {
	t := v.Type()
	n := t.NumField()
	for i := range n {
		k := (from + i) % n
		sf := t.Field(k)
		own, inner := fieldName(&sf)
		if inner {
			if f, ok := embedded(v.Field(k), name, depth+1); ok {
				return f, k, true
			}
			continue
		}
		if own != "" && own == string(name) {
			return v.Field(k), k + 1, true
		}
	}
	return reflect.Value{}, 0, false
}

// embedded searches an embedded struct, or pointer to one.
func embedded(v reflect.Value, name []byte, depth int) (f reflect.Value, ok bool) {
	if depth > maxJSONDepth {
		return f, false
	}
	if v.Kind() != reflect.Pointer {
		f, _, ok = findField(v, name, 0, depth)
		return f, ok
	}
	if !v.IsNil() {
		f, _, ok = findField(v.Elem(), name, 0, depth)
		return f, ok
	}
	if !v.CanSet() {
		return f, false
	}
	fresh := reflect.New(v.Type().Elem())
	if f, _, ok = findField(fresh.Elem(), name, 0, depth); ok {
		v.Set(fresh)
	}
	return f, ok
}

// fieldName returns a field's JSON name, or "" if it has none. inner means that the fields
// of an embedded struct are used instead.
func fieldName(f *reflect.StructField) (name string, inner bool) {
	tag := f.Tag.Get("json")
	if tag == "-" {
		return "", false
	}
	name, _, _ = strings.Cut(tag, ",")
	if f.Anonymous && name == "" {
		t := f.Type
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Struct {
			return "", true
		}
	}
	if !f.IsExported() {
		return "", false
	}
	if name == "" {
		name = f.Name
	}
	return name, false
}

// at adds the path within the argument of Scan to an error.
func at(path string, err error) error {
	if err == nil || path == "" {
		return err
	}
	return errorf(codeOf(err), "%s: %w", strings.TrimPrefix(path, "."), err)
}

// codeOf returns the code of an Error, or CodeWrongType.
func codeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeWrongType
}

// Any returns the value as nil, int64, float64, bool, string, []any or map[string]any, or
// as an error for an error within a list.
func (r Result) Any() any {
	it, _ := r.item()
	switch it.Kind {
	case wire.KindNull:
		return nil
	case wire.KindInt:
		return it.Int
	case wire.KindBool:
		return it.Int == 1
	case wire.KindDouble:
		f, _ := r.Float() // 0 if the server did not send a number
		return f
	case wire.KindError, wire.KindBlobError:
		return r.Err()
	case wire.KindMap:
		m := make(map[string]any, min(r.Len(), 1024))
		for k, v := range r.Map() {
			name, _ := k.Text() // a list as a key is ""
			m[name] = v.Any()
		}
		return m
	}
	if !isList(it.Kind) {
		return string(it.Str)
	}
	list := make([]any, 0, min(r.Len(), 1024))
	for v := range r.List() {
		list = append(list, v.Any())
	}
	return slices.Clip(list)
}
