package web

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// shape describes how a body is read into a type. An App computes it once per type.
type shape struct {
	op     shapeOp
	bits   int // of a number
	typ    reflect.Type
	elem   *shape // of shapePtr, shapeList, shapeArray, shapeMap
	text   bool   // shapeJSON, and *typ reads text too
	fields []shapeField
	byName map[string]int // index in fields
}

// shapeOp is how a value is read.
type shapeOp uint8

const (
	shapeBool shapeOp = iota
	shapeInt
	shapeUint
	shapeFloat
	shapeString
	shapeBytes // base64 in JSON
	shapeTime
	shapeObject
	shapeList
	shapeArray
	shapeMap
	shapePtr
	shapeJSON // implements json.Unmarshaler, or is any
	shapeText // implements encoding.TextUnmarshaler
)

// shapeField is one field of a struct.
type shapeField struct {
	name     string
	index    []int // through embedded structs
	tagged   bool
	optional bool
	shape    *shape
}

// shapeOf returns the shape of t, or an error if nothing can be read into it.
func (a *App) shapeOf(t reflect.Type) (*shape, error) {
	if s, ok := a.shapes.Load(t); ok {
		return s.(*shape), nil
	}
	m := shapes{}
	s, err := m.of(t)
	if err != nil {
		return nil, err
	}
	a.shapes.Store(t, s)
	return s, nil
}

// shapes has the shape of a type and of all types within it, which may include itself.
type shapes map[reflect.Type]*shape

func (m shapes) of(t reflect.Type) (_ *shape, err error) {
	if s, ok := m[t]; ok {
		return s, nil
	}
	s := &shape{typ: t}
	m[t] = s
	text := reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	switch {
	case t == reflect.TypeFor[time.Time]():
		s.op = shapeTime
		return s, nil
	case t == reflect.TypeFor[json.Number](), t.Kind() == reflect.Interface && t.NumMethod() == 0,
		t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		s.op, s.text = shapeJSON, text
		return s, nil
	case t.Kind() != reflect.Pointer && text:
		s.op = shapeText
		return s, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		s.op = shapeBool
	case reflect.String:
		s.op = shapeString
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.op, s.bits = shapeInt, t.Bits()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		s.op, s.bits = shapeUint, t.Bits()
	case reflect.Float32, reflect.Float64:
		s.op, s.bits = shapeFloat, t.Bits()
	case reflect.Struct:
		s.op = shapeObject
		return s, m.object(s)
	case reflect.Slice, reflect.Array, reflect.Map, reflect.Pointer:
		return s, m.within(s)
	default:
		return nil, fmt.Errorf("there is no JSON for a %v", t)
	}
	return s, nil
}

// within sets the shape of s's elements.
func (m shapes) within(s *shape) (err error) {
	switch t := s.typ; t.Kind() {
	case reflect.Slice:
		s.op = shapeList
	case reflect.Array:
		s.op = shapeArray
	case reflect.Pointer:
		s.op = shapePtr
	case reflect.Map:
		s.op = shapeMap
		if t.Key().Kind() != reflect.String || reflect.PointerTo(t.Key()).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			return fmt.Errorf("a map's keys must be strings, not %v", t.Key())
		}
	}
	s.elem, err = m.of(s.typ.Elem())
	if err == nil && s.op == shapeList && s.elem.op == shapeUint && s.elem.bits == 8 {
		s.op = shapeBytes
	}
	return err
}

// object finds the fields of a struct by the rules of encoding/json: fields of embedded structs count as its
// own, the outermost field of a name wins, and on one level the one with a tag. If that does not decide, it is
// a mistake in the program.
func (m shapes) object(s *shape) error {
	type level struct {
		typ      reflect.Type
		index    []int
		optional bool
	}
	s.byName = map[string]int{}
	var seen []reflect.Type
	for now := []level{{typ: s.typ}}; len(now) > 0; {
		var next []level
		found := map[string]shapeField{}
		for _, l := range now {
			if slices.Contains(seen, l.typ) {
				continue
			}
			seen = append(seen, l.typ)
			for i := range l.typ.NumField() {
				f, embedded, err := fieldOf(l.typ.Field(i))
				if err != nil {
					return err
				}
				f.index = append(slices.Clone(l.index), i)
				f.optional = f.optional || l.optional
				_, hidden := s.byName[f.name]
				other, twice := found[f.name]
				switch {
				case embedded != nil:
					next = append(next, level{embedded, f.index, f.optional})
				case f.name == "" || hidden || twice && other.tagged && !f.tagged:
				case twice && other.tagged == f.tagged:
					return fmt.Errorf("%v has two fields named %s", s.typ, f.name)
				default:
					found[f.name] = f
				}
			}
		}
		for name, f := range found {
			s.byName[name] = -1
			s.fields = append(s.fields, f)
		}
		now = next
	}
	slices.SortFunc(s.fields, func(a, b shapeField) int { return slices.Compare(a.index, b.index) })
	for i := range s.fields {
		f := &s.fields[i]
		s.byName[f.name] = i
		inner, err := m.of(s.typ.FieldByIndex(f.index).Type)
		if err != nil {
			return fmt.Errorf("field %s: %w", f.name, err)
		}
		f.shape, f.optional = inner, f.optional || inner.typ.Kind() == reflect.Pointer
	}
	return nil
}

// fieldOf reads a field and its tag. embedded is the struct whose fields are promoted in its place; otherwise
// an empty name means that the field is ignored.
func fieldOf(sf reflect.StructField) (f shapeField, embedded reflect.Type, err error) {
	t := sf.Type
	if sf.Anonymous && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	isStruct := sf.Anonymous && t.Kind() == reflect.Struct
	tag := sf.Tag.Get("json")
	if tag == "-" || !sf.IsExported() && !isStruct {
		return f, nil, nil
	}
	name, options, _ := strings.Cut(tag, ",")
	if isStruct && name == "" {
		if sf.Type.Kind() == reflect.Pointer {
			if f.optional = true; !sf.IsExported() {
				return f, nil, fmt.Errorf("the embedded pointer %s is not exported", sf.Name)
			}
		}
		return f, t, nil
	}
	if !sf.IsExported() {
		return f, nil, nil
	}
	f.name, f.tagged = cmp.Or(name, sf.Name), name != ""
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty", "omitzero":
			f.optional = true
		case "string":
			return f, nil, fmt.Errorf("field %s: the option string is not supported", f.name)
		}
	}
	return f, nil, nil
}

// in returns the field in the struct v, and allocates the embedded pointers on the way to it.
func (f *shapeField) in(v reflect.Value) reflect.Value {
	for _, i := range f.index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v
}

// noun describes for people what a value must be.
func (s *shape) noun() string {
	switch s.op {
	case shapeBool:
		return "true or false"
	case shapeInt, shapeUint:
		return "a whole number"
	case shapeFloat:
		return "a number"
	case shapeString, shapeText:
		return "a string"
	case shapeBytes:
		return "a string of base64"
	case shapeTime:
		return "a time as 2006-01-02T15:04:05Z (RFC 3339)"
	case shapeList, shapeArray:
		return "a list"
	case shapeMap, shapeObject:
		return "an object"
	case shapePtr:
		return s.elem.noun() + " or null"
	}
	return "JSON"
}
