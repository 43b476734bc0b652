package exec

import (
	"reflect"
	"slices"
	"strings"
	"text/template/parse"
)

// rangeOver executes its list for every element of a slice, an array, a map with string keys, or an integer.
func (b *builder) rangeOver(n *parse.RangeNode) step {
	defer func(scope []variable) { b.scope = scope }(b.scope)
	of := b.commands(n.Pipe.Cmds)
	l := &loop{key: -1, elem: -1}
	if n.Pipe.IsAssign || len(n.Pipe.Decl) > 2 {
		b.fail()
		return nil
	}
	if len(n.Pipe.Decl) == 2 {
		l.key = b.declare(n.Pipe.Decl[0].Ident[0])
	}
	if len(n.Pipe.Decl) > 0 {
		l.elem = b.declare(n.Pipe.Decl[len(n.Pipe.Decl)-1].Ident[0])
	}
	inner := b.scope
	l.body = b.list(n.List)
	b.scope = inner
	otherwise := b.list(n.ElseList)
	return func(m *machine) signal {
		v, ok := of(m)
		if !ok {
			return unsure
		}
		l.set(m, v, v)
		outer := m.dot
		sig, ran := l.over(m, v)
		m.dot = outer
		if sig == next && !ran {
			return m.run(otherwise)
		}
		return sig
	}
}

// loop is the body of a range.
type loop struct {
	key, elem int // slots; -1: none
	body      []step
}

func (l *loop) set(m *machine, key, elem reflect.Value) {
	if l.key >= 0 {
		m.vars[m.base+l.key] = key
	}
	if l.elem >= 0 {
		m.vars[m.base+l.elem] = elem
	}
}

// over executes the loop over v. ran reports whether there were any elements.
func (l *loop) over(m *machine, v reflect.Value) (sig signal, ran bool) {
	v, isNil := indirect(v)
	if isNil {
		return unsure, false
	}
	switch v.Kind() {
	case reflect.Invalid:
		return next, false
	case reflect.Slice, reflect.Array:
		ran = v.Len() > 0
		for i := 0; i < v.Len(); i++ { //nolint:intrange // the body may change the length
			if sig, stop := l.one(m, reflect.ValueOf(i), v.Index(i), l.key >= 0); stop {
				return sig, true
			}
		}
		return next, ran
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if l.key >= 0 || v.Type() != intType {
			return unsure, false
		}
		n := int(v.Int())
		for i := range n {
			e := reflect.ValueOf(i)
			if sig, stop := l.one(m, e, e, false); stop {
				return sig, true
			}
		}
		return next, n > 0
	case reflect.Map:
		return l.overMap(m, v)
	}
	return unsure, false
}

func (l *loop) overMap(m *machine, v reflect.Value) (sig signal, ran bool) {
	if v.Type().Key().Kind() != reflect.String {
		return unsure, false
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, k := range keys {
		if sig, stop := l.one(m, k, v.MapIndex(k), l.key >= 0); stop {
			return sig, true
		}
	}
	return next, len(keys) > 0
}

// one executes the body for one element.
func (l *loop) one(m *machine, key, elem reflect.Value, both bool) (sig signal, stop bool) {
	if both {
		m.vars[m.base+l.key] = key
	}
	if l.elem >= 0 {
		m.vars[m.base+l.elem] = elem
	}
	m.dot = elem
	if m.buf.Len() > m.most {
		return unsure, true
	}
	switch sig := m.run(l.body); sig {
	case leave:
		return next, true
	case unsure:
		return unsure, true
	}
	return next, false
}
