package expr

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/skerrydb/skerry/record/value"
)

// Bind replaces the placeholders (?) of an expression with the values of args, written as literals, so that no value
// can change the meaning of the expression. A ? in a string or in the operator ?= is not a placeholder.
//
//	Bind("owner = ? && created > ?", id, time.Now().Add(-time.Hour))
//
// Arguments are nil, bool, strings, integers, floats, time.Time, and slices of these as the list of in: "state in ?".
func Bind(text string, args ...any) (string, error) {
	var b []byte
	l, n, from := &lexer{text: text}, 0, 0
	for {
		l.skip()
		if at := l.at; at < len(text) && text[at] == '?' && !strings.HasPrefix(text[at:], "?=") {
			if n == len(args) {
				return "", l.fail(at, "there are more placeholders than values (%d)", len(args))
			}
			b = append(b, text[from:at]...)
			var err error
			if b, err = appendArgument(b, args[n]); err != nil {
				return "", l.fail(at, "value %d: %v", n+1, err)
			}
			l.at, from, n = at+1, at+1, n+1
			continue
		}
		if t, err := l.next(); err != nil {
			return "", err
		} else if t.Pos == t.End {
			break
		}
	}
	if n < len(args) {
		return "", l.fail(len(text), "there are %d values for %d placeholders", len(args), n)
	}
	return string(append(b, text[from:]...)), nil
}

// appendArgument appends a Go value as a literal, or a slice as a list of them.
func appendArgument(dst []byte, arg any) ([]byte, error) {
	v := reflect.ValueOf(arg)
	if v.Kind() != reflect.Slice {
		return appendGo(dst, v)
	}
	dst = append(dst, '(')
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		var err error
		if dst, err = appendGo(dst, v.Index(i)); err != nil {
			return nil, err
		}
	}
	return append(dst, ')'), nil
}

func appendGo(dst []byte, v reflect.Value) ([]byte, error) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem() // the zero Value if it is nil
	}
	x, err := ofGo(v)
	if err != nil {
		return nil, err
	}
	return appendLiteral(dst, x), nil
}

func ofGo(v reflect.Value) (value.Value, error) {
	switch {
	case !v.IsValid():
		return value.Value{}, nil
	case v.Kind() == reflect.Bool:
		return value.OfBool(v.Bool()), nil
	case v.CanInt():
		return value.OfInt(v.Int()), nil
	case v.CanUint():
		return value.ParseDecimal(fmt.Sprint(v.Uint()))
	case v.CanFloat():
		return value.OfFloat(v.Float())
	case v.Kind() == reflect.String:
		return value.OfText(v.String())
	case v.Type() == reflect.TypeFor[time.Time]():
		t, err := value.OfTime(v.Interface().(time.Time))
		if err != nil {
			return t, err
		}
		return value.OfText(t.String())
	}
	return value.Value{}, fmt.Errorf("the Go type %v has no literal", v.Type())
}
