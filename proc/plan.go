package proc

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// plan describes how values of a type are read and written. Define compiles it once.
type plan struct {
	op     op
	bits   int // size of a number
	typ    reflect.Type
	elem   *plan          // of opPtr, opList, opArray, opMap
	fields []field        // of opObject
	byName map[string]int // index in fields
	schema Type
}

// op is the operation for a kind of value.
type op uint8

const (
	opNull op = iota // a struct without fields
	opBool
	opInt
	opUint
	opFloat
	opString
	opBytes
	opTime
	opObject
	opList  // a slice
	opArray // fixed length
	opMap
	opPtr
	opJSON // has its own MarshalJSON or, as an argument, UnmarshalJSON
	opText // likewise for text
)

// Interfaces of types with their own encoding.
var (
	timeType            = reflect.TypeFor[time.Time]()
	numberType          = reflect.TypeFor[json.Number]()
	marshalerType       = reflect.TypeFor[json.Marshaler]()
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textMarshalerType   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// compiler makes plans. Arguments are read, and also written to identify requests; results
// are only written, as encoding/json does.
type compiler struct {
	argument bool
	within   []reflect.Type // types around the one being compiled
	fields   int            // in all objects so far
}

// plan compiles t. Like encoding/json, it uses methods of *t only where values are
// addressable.
func (c *compiler) plan(t reflect.Type, addr bool) (*plan, error) {
	if slices.Contains(c.within, t) {
		return nil, fmt.Errorf("type %v contains itself", t)
	}
	if len(c.within) == MaxTypeDepth {
		return nil, fmt.Errorf("more than %d types nested in each other, which is the limit", MaxTypeDepth)
	}
	c.within = append(c.within, t)
	defer func() { c.within = c.within[:len(c.within)-1] }()
	p := &plan{typ: t}
	if o, own, err := c.own(t, addr); err != nil || own {
		p.op, p.schema.Kind = o, kindOf(o)
		return p, err
	}
	switch t.Kind() {
	case reflect.Pointer:
		return c.pointer(p)
	case reflect.Struct:
		return c.object(p, addr)
	case reflect.Slice, reflect.Array, reflect.Map:
		return c.collection(p, addr)
	}
	return p, p.scalar()
}

// own returns the op for a type with its own encoding.
func (c *compiler) own(t reflect.Type, addr bool) (o op, own bool, err error) {
	has := func(method reflect.Type) bool {
		return t.Kind() != reflect.Pointer && (t.Implements(method) || addr && reflect.PointerTo(t).Implements(method))
	}
	switch {
	case t == timeType:
		return opTime, true, nil
	case t == numberType:
		return opJSON, true, nil
	case t.Kind() == reflect.Interface:
		return 0, false, fmt.Errorf("%v is an interface, whose shape is unknown; use json.RawMessage for arbitrary JSON", t)
	case !c.argument && has(marshalerType):
		return opJSON, true, nil
	case !c.argument && has(textMarshalerType):
		return opText, true, nil
	case c.argument && has(unmarshalerType):
		if !has(marshalerType) {
			err = fmt.Errorf("%v has UnmarshalJSON but no MarshalJSON", t)
		}
		return opJSON, true, err
	case c.argument && has(textUnmarshalerType):
		if !has(textMarshalerType) {
			err = fmt.Errorf("%v has UnmarshalText but no MarshalText", t)
		}
		return opText, true, err
	}
	return 0, false, nil
}

func kindOf(o op) Kind {
	switch o {
	case opTime:
		return KindTime
	case opJSON:
		return KindJSON
	}
	return KindString
}

func (p *plan) scalar() error {
	switch p.typ.Kind() {
	case reflect.Bool:
		p.op, p.schema.Kind = opBool, KindBool
	case reflect.String:
		p.op, p.schema.Kind = opString, KindString
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.op, p.schema.Kind, p.bits = opInt, KindInt, p.typ.Bits()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		p.op, p.schema.Kind, p.bits = opUint, KindUint, p.typ.Bits()
	case reflect.Float32, reflect.Float64:
		p.op, p.schema.Kind, p.bits = opFloat, KindFloat, p.typ.Bits()
	default:
		return fmt.Errorf("values of type %v cannot be passed", p.typ)
	}
	p.schema.Bits = p.bits
	return nil
}

func (c *compiler) pointer(p *plan) (_ *plan, err error) {
	p.op = opPtr
	if p.elem, err = c.plan(p.typ.Elem(), true); err != nil {
		return nil, err
	}
	p.schema = p.elem.schema
	p.schema.Nullable = true
	return p, nil
}

// collection compiles a slice, an array or a map.
func (c *compiler) collection(p *plan, addr bool) (_ *plan, err error) {
	elem := p.typ.Elem()
	switch p.typ.Kind() {
	case reflect.Slice:
		p.op, p.schema.Kind, addr = opList, KindList, true
		if elem.Kind() == reflect.Uint8 {
			if _, own, err := c.own(elem, true); err == nil && !own {
				p.op, p.schema.Kind = opBytes, KindBytes
				return p, nil
			}
		}
	case reflect.Array:
		p.op, p.schema.Kind, addr = opArray, KindList, addr || c.argument
	case reflect.Map:
		p.op, p.schema.Kind, addr = opMap, KindMap, c.argument
		if err := checkKeyType(p.typ.Key()); err != nil {
			return nil, err
		}
	}
	if p.elem, err = c.plan(elem, addr); err != nil {
		return nil, err
	}
	of := p.elem.schema.clone()
	p.schema.Of = &of
	return p, nil
}

// checkKeyType rejects map keys that are neither text nor integers, and keys whose methods
// produce their text, because reading and writing differ there.
func checkKeyType(t reflect.Type) error {
	switch t.Kind() {
	case reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if p := reflect.PointerTo(t); !p.Implements(textMarshalerType) && !p.Implements(textUnmarshalerType) {
			return nil
		}
	}
	return fmt.Errorf("map keys must be strings or integers without text methods, not %v", t)
}

func (c *compiler) object(p *plan, addr bool) (*plan, error) {
	list, err := fieldsOf(p.typ)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 && forgotten(p.typ) {
		return nil, fmt.Errorf("%v has no exported field", p.typ)
	}
	if len(list) == 0 {
		p.op, p.schema.Kind = opNull, KindNull
		return p, nil
	}
	if c.fields += len(list); c.fields > MaxFields {
		return nil, fmt.Errorf("more than %d fields in total, which is the limit", MaxFields)
	}
	p.op, p.schema.Kind, p.byName = opObject, KindObject, make(map[string]int, len(list))
	for i := range list {
		f := &list[i]
		if f.plan, err = c.plan(f.typ, addr || f.viaPointer); err != nil {
			return nil, fmt.Errorf("field %s: %w", f.name, err)
		}
		f.optional = f.omitEmpty || f.omitZero || f.viaPointer || f.plan.op == opPtr
		p.byName[f.name] = i
		p.schema.Fields = append(p.schema.Fields, Field{Name: f.name, Type: f.plan.schema.clone(), Optional: f.optional})
	}
	p.fields = list
	return p, nil
}

// forgotten reports whether a struct has fields but no exported ones. That is a mistake,
// because nothing of it would be passed. A field named _ does not count.
func forgotten(t reflect.Type) (unexported bool) {
	for _, f := range reflect.VisibleFields(t) {
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct: // its fields are promoted
		case f.IsExported():
			return false
		case f.Name != "_":
			unexported = true
		}
	}
	return unexported
}

// define compiles the types of a procedure. If they or its name are invalid, the
// definition's err is set.
func define(name string, readOnly bool, in, out reflect.Type) definition {
	d := definition{schema: Schema{Name: name, ReadOnly: readOnly}}
	if d.err = checkName(name); d.err != nil {
		return d
	}
	if in.Kind() != reflect.Struct {
		d.err = fmt.Errorf("its arguments must be a struct, not %v", in)
		return d
	}
	args := compiler{argument: true}
	if d.args, d.err = args.plan(in, true); d.err != nil {
		d.err = fmt.Errorf("arguments: %w", d.err)
		return d
	}
	if d.args.op != opObject && d.args.op != opNull {
		d.err = fmt.Errorf("its arguments must be a struct of fields, but %v has its own unmarshaler", in)
		return d
	}
	d.schema.Args = d.args.schema.Fields
	var result compiler
	if d.result, d.err = result.plan(out, true); d.err != nil {
		d.err = fmt.Errorf("result: %w", d.err)
		return d
	}
	d.schema.Result = d.result.schema
	return d
}
