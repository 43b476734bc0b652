package exec

import (
	"fmt"
	"reflect"
	"text/template/parse"
)

// function evaluates a call of a function. Unsupported functions are left to html/template.
func (b *builder) function(name string, words []parse.Node, last expr) expr {
	args := make([]expr, 0, len(words)+1)
	for _, w := range words {
		args = append(args, b.operand(w))
	}
	if last != nil {
		args = append(args, last)
	}
	if b.failed {
		return nil
	}
	if f, ok := b.funcs[name]; ok {
		return b.user(reflect.ValueOf(f), args)
	}
	switch {
	case name == "and" && len(args) > 0:
		return logic(args, false)
	case name == "or" && len(args) > 0:
		return logic(args, true)
	case name == "not" && len(args) == 1:
		return negation(args[0])
	case name == "len" && len(args) == 1:
		return length(args[0])
	case (name == "eq" || name == "ne" || name == "lt" || name == "le" || name == "gt" || name == "ge") && len(args) == 2:
		return comparison(name, args[0], args[1])
	case name == "print", name == "println", name == "printf" && len(args) > 0:
		return printing(name, args)
	}
	b.fail()
	return nil
}

// user calls a function of the program, if the arguments have exactly its types.
func (b *builder) user(f reflect.Value, args []expr) expr {
	t := f.Type()
	if t.NumIn() != len(args) || t.IsVariadic() {
		b.fail()
		return nil
	}
	return func(m *machine) (reflect.Value, bool) {
		in := make([]reflect.Value, len(args))
		for i, a := range args {
			v, ok := a(m)
			v = concrete(v)
			if !ok || !v.IsValid() || !v.Type().AssignableTo(t.In(i)) {
				return reflect.Value{}, false
			}
			in[i] = v
		}
		return result(f, in...)
	}
}

// logic returns the first argument whose truth is stop, or the last one.
func logic(args []expr, stop bool) expr {
	return func(m *machine) (v reflect.Value, ok bool) {
		for _, a := range args {
			if v, ok = a(m); !ok {
				return v, false
			}
			truth, ok := isTrue(concrete(v))
			if !ok {
				return v, false
			}
			if truth == stop {
				break
			}
		}
		return v, true
	}
}

func negation(a expr) expr {
	return func(m *machine) (reflect.Value, bool) {
		v, ok := a(m)
		if !ok {
			return v, false
		}
		truth, ok := isTrue(concrete(v))
		return reflect.ValueOf(!truth), ok
	}
}

func length(a expr) expr {
	return func(m *machine) (reflect.Value, bool) {
		v, ok := a(m)
		v = concrete(v)
		switch v.Kind() {
		case reflect.String, reflect.Array, reflect.Map, reflect.Slice:
			return reflect.ValueOf(v.Len()), ok
		}
		return v, false
	}
}

// comparison compares two values of one basic kind.
func comparison(name string, a, b expr) expr {
	return func(m *machine) (reflect.Value, bool) {
		x, ok := a(m)
		if !ok {
			return x, false
		}
		y, ok := b(m)
		if !ok {
			return y, false
		}
		order, equal, ok := compare(concrete(x), concrete(y))
		if !ok || order == unordered && name != "eq" && name != "ne" {
			return x, false
		}
		switch name {
		case "eq":
			return reflect.ValueOf(equal), true
		case "ne":
			return reflect.ValueOf(!equal), true
		case "lt":
			return reflect.ValueOf(order < 0), true
		case "le":
			return reflect.ValueOf(order <= 0), true
		case "gt":
			return reflect.ValueOf(order > 0), true
		}
		return reflect.ValueOf(order >= 0), true
	}
}

const unordered = 2

func compare(x, y reflect.Value) (order int, equal, ok bool) {
	switch {
	case x.Kind() == reflect.String && y.Kind() == reflect.String:
		order = cmpOf(x.String(), y.String())
	case x.CanInt() && y.CanInt():
		order = cmpOf(x.Int(), y.Int())
	case x.CanUint() && y.CanUint():
		order = cmpOf(x.Uint(), y.Uint())
	case x.Kind() == reflect.Bool && y.Kind() == reflect.Bool:
		return unordered, x.Bool() == y.Bool(), true
	default:
		return 0, false, false
	}
	return order, order == 0, true
}

func cmpOf[T string | int64 | uint64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func printing(name string, args []expr) expr {
	return func(m *machine) (reflect.Value, bool) {
		in := make([]any, len(args))
		for i, a := range args {
			v, ok := a(m)
			v = concrete(v)
			if !ok || !v.IsValid() || !v.CanInterface() {
				return v, false
			}
			in[i] = v.Interface()
		}
		switch name {
		case "print":
			return reflect.ValueOf(fmt.Sprint(in...)), true
		case "println":
			return reflect.ValueOf(fmt.Sprintln(in...)), true
		}
		format, ok := in[0].(string)
		return reflect.ValueOf(fmt.Sprintf(format, in[1:]...)), ok
	}
}
