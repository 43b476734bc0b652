package proc

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/jsonscan"
	"github.com/skerrydb/skerry/suggest"
)

// cursor parses values in a JSON text.
type cursor struct {
	jsonscan.Scanner
	room int // bytes of memory that the arguments may still use
}

// take accounts for n bytes before they are allocated.
func (c *cursor) take(n uintptr) *fault {
	if c.room -= int(n) + 1; c.room >= 0 {
		return nil
	}
	return &fault{code: engine.CodeLimit, text: fmt.Sprintf("takes too much memory: all arguments together take more than the limit of %d bytes", MaxArgMemory)}
}

// pointTo sets the pointer v to a new zero value.
func (c *cursor) pointTo(v reflect.Value) *fault {
	elem := v.Type().Elem()
	if w := c.take(elem.Size() + pointerBytes); w != nil {
		return w
	}
	v.Set(reflect.New(elem))
	return nil
}

// Approximate upper bounds of Go's memory overhead.
const (
	pointerBytes = 8   // rounding up of the size of a pointer's target
	mapBytes     = 64  // for an empty map
	mapGroup     = 8   // elements that a map allocates with its first one
	mapInline    = 128 // longer keys and elements are allocated separately
)

// mapSizes returns the bytes that a map allocates with its first element, and the bytes
// counted for each further one: up to half of the allocated room may be empty.
func mapSizes(t reflect.Type) (first, each uintptr) {
	slot := uintptr(1)
	for _, size := range [...]uintptr{t.Key().Size(), t.Elem().Size()} {
		if size > mapInline {
			each += size
			size = 8
		}
		slot += size
	}
	return mapGroup * slot, each + 2*slot
}

// value parses the next value into v, which is zero.
func (c *cursor) value(p *plan, v reflect.Value) *fault {
	b := c.Peek()
	if p.op == opJSON {
		return p.ownJSON(v, c.Raw())
	}
	if b == 'n' {
		switch p.op {
		case opPtr, opList, opMap, opBytes, opNull:
			c.Raw()
			return nil
		}
		return p.mustBe("null")
	}
	switch p.op {
	case opPtr:
		if w := c.pointTo(v); w != nil {
			return w
		}
		return c.value(p.elem, v.Elem())
	case opBool:
		if b != 't' && b != 'f' {
			break
		}
		v.SetBool(b == 't')
		c.Raw()
		return nil
	case opInt, opUint, opFloat:
		if b != '-' && (b < '0' || b > '9') {
			break
		}
		return p.number(v, c.Raw())
	case opString, opBytes, opTime, opText:
		if b != '"' {
			break
		}
		text, _ := c.Text()
		return p.fromString(v, text)
	case opList, opArray:
		if b != '[' {
			break
		}
		return c.list(p, v)
	case opMap:
		if b != '{' {
			break
		}
		return c.mapping(p, v)
	case opNull, opObject:
		if b != '{' {
			break
		}
		return c.object(p, v)
	}
	return p.mustBe(jsonscan.Kind(b))
}

// object parses an object into the struct v.
func (c *cursor) object(p *plan, v reflect.Value) *fault {
	var seen [MaxFields / 64]uint64
	for c.Open(); c.More('}'); {
		key, _ := c.Text()
		i, ok := p.byName[string(key)]
		if !ok {
			return p.unknown(string(key))
		}
		f := &p.fields[i]
		if seen[i/64]&(1<<(i%64)) != 0 {
			return wrong("is given twice").in(f.name)
		}
		seen[i/64] |= 1 << (i % 64)
		if f.optional && c.Peek() == 'n' && f.plan.op != opJSON {
			c.Raw()
			continue
		}
		fv, w := f.make(v, c)
		if w == nil {
			w = c.value(f.plan, fv)
		}
		if w != nil {
			return w.in(f.name)
		}
	}
	for i := range p.fields {
		if seen[i/64]&(1<<(i%64)) == 0 && !p.fields[i].optional {
			return wrong("is missing").in(p.fields[i].name)
		}
	}
	return nil
}

func (p *plan) unknown(key string) *fault {
	name := key
	if len(name) > 2*MaxNameBytes {
		name = string(bytes.ToValidUTF8([]byte(name[:2*MaxNameBytes]), nil)) + "…"
	}
	names := make([]string, len(p.fields))
	for i := range p.fields {
		names[i] = p.fields[i].name
	}
	if near := suggest.Nearest(key, names); near != "" {
		return wrong("is not known; did you mean %s?", near).in(name)
	}
	return wrong("is not known").in(name)
}

// list parses a list into a slice or an array.
func (c *cursor) list(p *plan, v reflect.Value) *fault {
	if p.op == opList {
		v.Set(reflect.MakeSlice(p.typ, 0, 0))
	}
	n, size := 0, p.typ.Elem().Size()
	for c.Open(); c.More(']'); n++ {
		if p.op == opArray {
			if n >= v.Len() {
				return wrong("must have exactly %d elements", v.Len())
			}
		} else {
			if w := c.take(size); w != nil {
				return w
			}
			v.Grow(1)
			v.SetLen(n + 1)
		}
		if w := c.value(p.elem, v.Index(n)); w != nil {
			return w.in(strconv.Itoa(n))
		}
	}
	if p.op == opArray && n < v.Len() {
		return wrong("must have exactly %d elements, not %d", v.Len(), n)
	}
	return nil
}

// mapping parses an object into a map.
func (c *cursor) mapping(p *plan, v reflect.Value) *fault {
	if w := c.take(mapBytes); w != nil {
		return w
	}
	v.Set(reflect.MakeMap(p.typ))
	var key, elem reflect.Value
	first, each := mapSizes(p.typ)
	for c.Open(); c.More('}'); {
		text, _ := c.Text()
		if w := c.take(first + each); w != nil {
			return w
		}
		if !key.IsValid() {
			first, key, elem = 0, reflect.New(p.typ.Key()).Elem(), reflect.New(p.typ.Elem()).Elem()
		}
		if w := setKey(key, text); w != nil {
			return w.in(string(text))
		}
		if v.MapIndex(key).IsValid() {
			return wrong("is given twice").in(string(text))
		}
		elem.SetZero()
		if w := c.value(p.elem, elem); w != nil {
			return w.in(string(text))
		}
		v.SetMapIndex(key, elem)
	}
	return nil
}

// setKey parses text as the key of a map.
func setKey(key reflect.Value, text []byte) *fault {
	p := plan{typ: key.Type()}
	if err := p.scalar(); err != nil {
		panic("BUG: a map with such keys was compiled: " + err.Error())
	}
	if p.op == opString {
		key.SetString(string(text))
		return nil
	}
	if !isNumber(text) {
		return wrong("must be an integer: it is a key of a map")
	}
	return p.number(key, text)
}

// fromString sets v, whose kind is encoded as a JSON string.
func (p *plan) fromString(v reflect.Value, text []byte) *fault {
	switch p.op {
	case opString:
		v.SetString(string(text))
	case opBytes:
		b := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
		n, err := base64.StdEncoding.Decode(b, text)
		if err != nil {
			return wrong("must be base64: %v", err)
		}
		v.SetBytes(b[:n])
	case opTime:
		return p.time(v, text)
	case opText:
		return p.ownText(v, text)
	}
	return nil
}

func (p *plan) time(v reflect.Value, text []byte) *fault {
	if err := v.Addr().Interface().(*time.Time).UnmarshalText(text); err != nil {
		return p.mustBe(quoted(text))
	}
	return nil
}

// ownJSON calls the type's own UnmarshalJSON.
func (p *plan) ownJSON(v reflect.Value, raw []byte) (w *fault) {
	defer recoverTo(&w)
	if err := json.Unmarshal(raw, v.Addr().Interface()); err != nil {
		return wrong("is refused: %v", err)
	}
	return nil
}

func (p *plan) ownText(v reflect.Value, text []byte) (w *fault) {
	defer recoverTo(&w)
	if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(bytes.Clone(text)); err != nil {
		return wrong("is refused: %v", err)
	}
	return nil
}

// recoverTo converts a panic of a type's own method to a fault of the argument.
func recoverTo(w **fault) {
	if v := recover(); v != nil {
		*w = wrong("cannot be read: its type panicked")
	}
}
