package exec

import (
	"reflect"
	"strings"
	"sync/atomic"
	"text/template/parse"
)

var (
	intType    = reflect.TypeFor[int]()
	stringType = reflect.TypeFor[string]()
	boolType   = reflect.TypeFor[bool]()
	localsType = reflect.TypeFor[map[string]any]()
	errorType  = reflect.TypeFor[error]()
	valueType  = reflect.TypeFor[reflect.Value]() // text/template unwraps it in some places
)

// splitEscapers splits html/template's escapers from the end of a pipe.
func splitEscapers(p *parse.PipeNode) (value []*parse.CommandNode, chain string) {
	cut := len(p.Cmds)
	for cut > 0 {
		c := p.Cmds[cut-1]
		id, ok := c.Args[0].(*parse.IdentifierNode)
		if !ok || len(c.Args) != 1 || !strings.HasPrefix(id.Ident, "_html_template_") {
			break
		}
		chain = strings.TrimPrefix(id.Ident, "_html_template_") + " " + chain
		cut--
	}
	return p.Cmds[:cut], strings.TrimSpace(chain)
}

// commands evaluates a pipe.
func (b *builder) commands(cmds []*parse.CommandNode) expr {
	var last expr
	for _, c := range cmds {
		last = b.command(c, last)
		if b.failed {
			return nil
		}
	}
	if last == nil {
		b.fail()
		return nil
	}
	return func(m *machine) (reflect.Value, bool) {
		v, ok := last(m)
		if v.IsValid() && v.Kind() == reflect.Interface && v.NumMethod() == 0 {
			v = v.Elem() // as text/template does; for nil it is the zero Value
		}
		return v, ok
	}
}

// command evaluates one command; last is its value from the pipe, or nil.
func (b *builder) command(c *parse.CommandNode, last expr) expr {
	if id, ok := c.Args[0].(*parse.IdentifierNode); ok {
		if last == nil {
			return b.function(id.Ident, c.Args[1:], nil)
		}
		return b.piped(last, id.Ident, c.Args[1:])
	}
	if len(c.Args) > 1 || last != nil {
		b.fail() // a method with arguments, or a mistake
		return nil
	}
	return b.operand(c.Args[0])
}

// piped evaluates a function that gets last from a pipe. last is evaluated first, even if the function ignores
// it.
func (b *builder) piped(last expr, name string, words []parse.Node) expr {
	slot := b.declare("")
	call := b.function(name, words, func(m *machine) (reflect.Value, bool) { return m.vars[m.base+slot], true })
	return func(m *machine) (reflect.Value, bool) {
		v, ok := last(m)
		if !ok {
			return v, false
		}
		m.vars[m.base+slot] = v
		return call(m)
	}
}

// operand evaluates one word of a command.
func (b *builder) operand(n parse.Node) expr {
	switch n := n.(type) {
	case *parse.DotNode:
		return func(m *machine) (reflect.Value, bool) { return m.dot, true }
	case *parse.FieldNode:
		return fields(func(m *machine) (reflect.Value, bool) { return m.dot, true }, n.Ident)
	case *parse.VariableNode:
		slot := b.lookup(n.Ident[0])
		return fields(func(m *machine) (reflect.Value, bool) { return m.vars[m.base+slot], true }, n.Ident[1:])
	case *parse.ChainNode:
		if _, isNil := n.Node.(*parse.NilNode); isNil {
			break
		}
		of := b.operand(n.Node)
		if b.failed {
			return nil
		}
		return fields(of, n.Field)
	case *parse.PipeNode:
		if len(n.Decl) > 0 {
			break
		}
		return b.commands(n.Cmds)
	case *parse.IdentifierNode:
		return b.function(n.Ident, nil, nil)
	case *parse.BoolNode:
		return constant(n.True)
	case *parse.StringNode:
		return constant(n.Text)
	case *parse.NumberNode:
		switch {
		case n.IsComplex, strings.HasPrefix(n.Text, "'"):
		case n.IsFloat && strings.ContainsAny(n.Text, "pP"), n.IsFloat && strings.ContainsAny(n.Text, ".eE") && !isHexInt(n.Text):
			return constant(n.Float64)
		case n.IsInt && int64(int(n.Int64)) == n.Int64:
			return constant(int(n.Int64))
		}
	}
	b.fail()
	return nil
}

// isHexInt reports whether a number, which has no exponent of 2, is hexadecimal: then an e is a digit.
func isHexInt(s string) bool { return strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") }

func constant(v any) expr {
	c := reflect.ValueOf(v)
	return func(*machine) (reflect.Value, bool) { return c, true }
}

// fields evaluates a chain of names.
func fields(of expr, names []string) expr {
	for _, name := range names {
		from, f := of, &field{name: name, key: reflect.ValueOf(name)}
		of = func(m *machine) (reflect.Value, bool) {
			v, ok := from(m)
			if !ok {
				return v, false
			}
			return f.of(v)
		}
	}
	return of
}

// field is one name after a dot, at one position of a template.
type field struct {
	name string
	key  reflect.Value
	seen atomic.Pointer[place] // the last place found: mostly the next one too
}

// place is the position of a field or method in a struct type.
type place struct {
	typ    reflect.Type
	addr   bool  // of an addressable value, which also has its pointer's methods
	method int   // -1: none
	index  []int // nil: no such field
}

// of returns v's field, the result of its method, or its map element.
func (f *field) of(v reflect.Value) (reflect.Value, bool) {
	if !v.IsValid() {
		return v, true // nil has no fields, which is not a mistake
	}
	v, isNil := indirect(v)
	if isNil {
		return v, false
	}
	if v.Type() == localsType && v.CanInterface() {
		if e := v.Interface().(map[string]any)[f.name]; e != nil {
			return reflect.ValueOf(e), true
		}
		return v.MapIndex(f.key), true // a nil element differs from a missing one
	}
	at := f.seen.Load()
	if at == nil || at.typ != v.Type() || at.addr != v.CanAddr() {
		at = find(v.Type(), v.CanAddr(), f.name)
		f.seen.Store(at)
	}
	switch {
	case at.method >= 0:
		if at.addr {
			v = v.Addr()
		}
		return result(v.Method(at.method))
	case at.index != nil:
		v, err := v.FieldByIndexErr(at.index)
		return v, err == nil
	case v.Kind() == reflect.Map && stringType.AssignableTo(v.Type().Key()):
		return v.MapIndex(f.key), true
	}
	return v, false
}

func find(t reflect.Type, addr bool, name string) *place {
	at := &place{typ: t, addr: addr, method: -1}
	with := t
	if addr {
		with = reflect.PointerTo(t)
	}
	if m, ok := with.MethodByName(name); ok {
		at.method = m.Index
		return at
	}
	if t.Kind() == reflect.Struct {
		if f, ok := t.FieldByName(name); ok && f.IsExported() {
			at.index = f.Index
		}
	}
	return at
}

// result calls a function without parameters that returns a value, or a value and
// an error.
func result(f reflect.Value, args ...reflect.Value) (reflect.Value, bool) {
	t := f.Type()
	if t.NumIn() != len(args) || t.IsVariadic() || t.NumOut() < 1 || t.NumOut() > 2 || t.NumOut() == 2 && t.Out(1) != errorType || t.Out(0) == valueType {
		return reflect.Value{}, false
	}
	out := f.Call(args)
	if len(out) == 2 && !out[1].IsNil() {
		return reflect.Value{}, false
	}
	return out[0], true
}

// indirect follows pointers and interfaces to their ends.
func indirect(v reflect.Value) (_ reflect.Value, isNil bool) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return v, true
		}
		v = v.Elem()
	}
	return v, false
}

// concrete returns the value inside an interface.
func concrete(v reflect.Value) reflect.Value {
	if v.Kind() != reflect.Interface {
		return v
	}
	return v.Elem()
}

// isTrue implements text/template's truth.
func isTrue(v reflect.Value) (truth, ok bool) {
	switch v.Kind() {
	case reflect.Invalid:
		return false, true
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() > 0, true
	case reflect.Bool:
		return v.Bool(), true
	case reflect.Chan, reflect.Func, reflect.Pointer, reflect.UnsafePointer, reflect.Interface:
		return !v.IsNil(), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int() != 0, true
	case reflect.Float32, reflect.Float64:
		return v.Float() != 0, true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return v.Uint() != 0, true
	case reflect.Struct:
		return true, true
	}
	return false, false
}
