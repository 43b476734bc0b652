package web

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/jsonscan"
	"github.com/skerrydb/skerry/web/problem"
)

// reading reads values from a JSON text and collects faults.
type reading struct {
	jsonscan.Scanner
	room   int // bytes of memory that values may still take
	full   bool
	path   []step
	faults problem.Faults
}

// step is the position of a value within the one around it.
type step struct {
	name  string
	index int // of a list; -1: name is a key
}

// wrong adds a fault of the value that is being read.
func (d *reading) wrong(format string, args ...any) {
	d.add(engine.CodeInvalid, format, args...)
}

func (d *reading) add(code engine.Code, format string, args ...any) {
	if len(d.faults) < MaxFaults {
		d.faults = append(d.faults, problem.Fault{Pointer: d.pointer(), Code: code, Detail: fmt.Sprintf(format, args...)})
	}
}

// maxShownName is how many bytes of a client's key are shown.
const maxShownName = 100

// pointer is the JSON pointer to the value that is being read.
func (d *reading) pointer() string {
	var b strings.Builder
	for _, s := range d.path {
		b.WriteByte('/')
		switch {
		case s.index >= 0:
			b.WriteString(strconv.Itoa(s.index))
		case len(s.name) > maxShownName:
			b.WriteString(escapePointer(strings.ToValidUTF8(s.name[:maxShownName], "")) + "…")
		default:
			b.WriteString(escapePointer(s.name))
		}
	}
	return b.String()
}

// take counts n bytes before they are allocated, and reports whether there is room.
func (d *reading) take(n uintptr) bool {
	if d.room -= int(n) + 8; d.room < 0 && !d.full {
		d.full = true
		d.add(engine.CodeLimit, "takes too much memory: lists and objects of a body may take %d bytes", MaxBoundBytes)
	}
	return d.room >= 0
}

func (d *reading) enter(name string, index int) bool {
	if d.path = append(d.path, step{name, index}); len(d.path) > MaxDepth {
		d.add(engine.CodeLimit, "is nested too deeply: at most %d levels of objects and lists are allowed", MaxDepth)
		return false
	}
	return true
}

func (d *reading) leave() { d.path = d.path[:len(d.path)-1] }

// begins reports whether a value of this kind can begin with b.
func (s *shape) begins(b byte) bool {
	switch s.op {
	case shapeBool:
		return b == 't' || b == 'f'
	case shapeInt, shapeUint, shapeFloat:
		return b == '-' || b >= '0' && b <= '9'
	case shapeString, shapeBytes, shapeTime, shapeText:
		return b == '"'
	case shapeList, shapeArray:
		return b == '['
	}
	return b == '{'
}

// value reads the next value into v, and skips past it even if something is wrong.
func (d *reading) value(s *shape, v reflect.Value) {
	b := d.Peek()
	switch {
	case s.op == shapeJSON:
		d.ownJSON(v)
		return
	case b == 'n' && (s.op == shapePtr || s.op == shapeList || s.op == shapeMap || s.op == shapeBytes):
		d.Raw()
		v.SetZero()
		return
	case s.op == shapePtr:
		if !d.take(s.elem.typ.Size()) {
			d.Raw()
			return
		}
		v.Set(reflect.New(s.elem.typ))
		d.value(s.elem, v.Elem())
		return
	case !s.begins(b):
		d.Raw()
		d.wrong("must be %s, not %s", s.noun(), jsonscan.Kind(b))
		return
	}
	switch s.op {
	case shapeBool:
		v.SetBool(b == 't')
		d.Raw()
	case shapeInt, shapeUint, shapeFloat:
		if w := s.number(v, string(d.Raw())); w != "" {
			d.wrong("%s", w)
		}
	case shapeList, shapeArray:
		d.list(s, v)
	case shapeMap:
		d.mapping(s, v)
	case shapeObject:
		d.object(s, v)
	default:
		text, ok := d.Text()
		if !ok {
			d.wrong("has an escape of half a surrogate pair")
		} else if w := s.fromString(v, text); w != "" {
			d.wrong("%s", w)
		}
	}
}

// number sets v from a JSON number, or returns what is wrong.
func (s *shape) number(v reflect.Value, text string) string {
	var err error
	switch s.op {
	case shapeFloat:
		var f float64
		if f, err = strconv.ParseFloat(text, s.bits); err == nil {
			v.SetFloat(f)
		}
	case shapeUint:
		var u uint64
		if u, err = strconv.ParseUint(text, 10, s.bits); err == nil {
			v.SetUint(u)
		} else if n, e := strconv.ParseInt(text, 10, 64); e == nil && n < 0 || errors.Is(e, strconv.ErrRange) {
			err = strconv.ErrRange
		}
	default:
		var i int64
		if i, err = strconv.ParseInt(text, 10, s.bits); err == nil {
			v.SetInt(i)
		}
	}
	switch {
	case err == nil:
		return ""
	case errors.Is(err, strconv.ErrRange):
		return fmt.Sprintf("is out of the range of %v", s.typ.Kind())
	}
	return fmt.Sprintf("must be %s, not %s", s.noun(), shorten(text))
}

// fromString sets v from a JSON string, or returns what is wrong.
func (s *shape) fromString(v reflect.Value, text []byte) string {
	switch s.op {
	case shapeString:
		v.SetString(string(text))
	case shapeBytes:
		b, err := base64.StdEncoding.AppendDecode(nil, text)
		if err != nil {
			return fmt.Sprintf("must be base64: %v", err)
		}
		v.SetBytes(b)
	case shapeTime:
		if err := v.Addr().Interface().(*time.Time).UnmarshalText(text); err != nil {
			return fmt.Sprintf("must be %s, not %s", s.noun(), shorten(string(text)))
		}
	default:
		// Copied: text may be part of the body, and the type may keep it.
		if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(string(text))); err != nil {
			return fmt.Sprintf("is invalid: %v", err)
		}
	}
	return ""
}

// object reads an object into the struct v.
func (d *reading) object(s *shape, v reflect.Value) {
	seen := make([]bool, len(s.fields))
	for d.Open(); d.More('}'); d.leave() {
		key, ok := d.Text()
		if !d.enter(string(key), -1) {
			d.Raw()
			continue
		}
		i, known := s.byName[string(key)]
		switch {
		case !ok:
			d.Raw()
			d.wrong("has a name with an escape of half a surrogate pair")
		case !known:
			d.Raw()
			d.wrong("%s", s.unknown(string(key)))
		case seen[i]:
			d.Raw()
			d.wrong("is given twice")
		default:
			seen[i] = true
			f := &s.fields[i]
			if f.optional && f.shape.op != shapeJSON && f.shape.op != shapePtr && d.Peek() == 'n' {
				d.Raw() // as if it were missing
				break
			}
			d.value(f.shape, f.in(v))
		}
	}
	for i := range s.fields {
		if !seen[i] && !s.fields[i].optional {
			d.path = append(d.path, step{s.fields[i].name, -1})
			d.wrong("is missing")
			d.leave()
		}
	}
}

// unknown reports an unknown field, and suggests the one that was perhaps meant.
func (s *shape) unknown(name string) string {
	for i := range s.fields {
		if strings.EqualFold(s.fields[i].name, name) {
			return "is not known; did you mean " + s.fields[i].name + "?"
		}
	}
	return "is not known"
}

// list reads a list into a new slice, or an array.
func (d *reading) list(s *shape, v reflect.Value) {
	if s.op == shapeList {
		v.Set(reflect.MakeSlice(s.typ, 0, 0))
	}
	n, size := 0, s.elem.typ.Size()
	for d.Open(); d.More(']'); n++ {
		switch {
		case !d.enter("", n), s.op == shapeList && !d.take(size), s.op == shapeArray && n >= v.Len():
			d.Raw()
		default:
			if s.op == shapeList {
				v.Grow(1)
				v.SetLen(n + 1)
			}
			d.value(s.elem, v.Index(n))
		}
		d.leave()
	}
	if s.op == shapeArray && n != v.Len() {
		d.wrong("must have exactly %d elements, not %d", v.Len(), n)
	}
}

// mapBytes is roughly the overhead of one element of a Go map, besides key and value.
const mapBytes = 48

// mapping reads an object into a new map.
func (d *reading) mapping(s *shape, v reflect.Value) {
	v.Set(reflect.MakeMap(s.typ))
	for d.Open(); d.More('}'); d.leave() {
		text, ok := d.Text()
		if !d.enter(string(text), -1) || !d.take(mapBytes+2*s.elem.typ.Size()) {
			d.Raw()
			continue
		}
		key := reflect.New(s.typ.Key()).Elem()
		key.SetString(string(text))
		elem := reflect.New(s.elem.typ).Elem()
		switch {
		case !ok:
			d.Raw()
			d.wrong("has a name with an escape of half a surrogate pair")
		case v.MapIndex(key).IsValid():
			d.Raw()
			d.wrong("is given twice")
		default:
			d.value(s.elem, elem)
			v.SetMapIndex(key, elem)
		}
	}
}

// ownJSON lets v's UnmarshalJSON read the next value, after the checks that hold for every text.
func (d *reading) ownJSON(v reflect.Value) {
	ahead, faults := d.Scanner, len(d.faults)
	if d.check(); len(d.faults) > faults {
		return
	}
	if raw, ok := v.Addr().Interface().(*json.RawMessage); ok {
		*raw = append((*raw)[:0], ahead.Raw()...)
		return
	}
	err := json.Unmarshal(ahead.Raw(), v.Addr().Interface())
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		d.wrong("must not be %s", e.Value)
	} else if err != nil {
		d.wrong("is invalid: %v", err)
	}
}

// check skips the next value and finds fields in it that are given twice or nested too deeply.
func (d *reading) check() {
	switch d.Peek() {
	case '"':
		if _, ok := d.Text(); !ok {
			d.wrong("has an escape of half a surrogate pair")
		}
	case '[':
		n := 0
		for d.Open(); d.More(']'); n++ {
			if d.enter("", n) {
				d.check()
			} else {
				d.Raw()
			}
			d.leave()
		}
	case '{':
		seen := map[string]bool{}
		for d.Open(); d.More('}'); d.leave() {
			key, ok := d.Text()
			if !d.enter(string(key), -1) {
				d.Raw()
				continue
			}
			if seen[string(key)] {
				d.wrong("is given twice")
			}
			if !ok {
				d.wrong("has a name with an escape of half a surrogate pair")
			}
			seen[string(key)] = true
			d.check()
		}
	default:
		d.Raw()
	}
}
