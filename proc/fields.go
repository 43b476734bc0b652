package proc

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// field is one field of a struct in JSON.
type field struct {
	name       string
	label      string // name with quotes and colon
	index      []int  // index path through embedded structs
	typ        reflect.Type
	tagged     bool // the name is from a tag
	omitEmpty  bool
	omitZero   bool
	viaPointer bool // inside an embedded pointer
	optional   bool // as an argument it may be omitted
	zero       func(reflect.Value) bool
	plan       *plan
}

// fieldsOf returns the fields of a struct by the rules of encoding/json. Fields of embedded
// structs count as the struct's own. Of several fields with one name, the outermost wins,
// and on one level the one with a tag. encoding/json drops all fields if there is no
// winner, and lets a field hide another one of the same struct. Here both are errors,
// because an argument or a result would be missing without notice.
func fieldsOf(t reflect.Type) ([]field, error) {
	type level struct {
		typ        reflect.Type
		index      []int
		viaPointer bool
	}
	var all []field
	var visited []reflect.Type
	for current := []level{{typ: t}}; len(current) > 0; {
		var next []level
		count := map[reflect.Type]int{}
		for _, l := range current {
			if count[l.typ]++; count[l.typ] > 2 || slices.Contains(visited, l.typ) {
				continue // two with the same name are rejected already
			}
			for i := range l.typ.NumField() {
				f, embedded, err := fieldOf(l.typ.Field(i))
				if err != nil {
					return nil, err
				}
				f.index = append(slices.Clone(l.index), i)
				f.viaPointer = f.viaPointer || l.viaPointer
				switch {
				case embedded != nil:
					next = append(next, level{embedded, f.index, f.viaPointer})
				case f.name != "":
					all = append(all, f)
				}
			}
		}
		for _, l := range current {
			visited = append(visited, l.typ)
		}
		current = next
	}
	return dominant(t, all)
}

// fieldOf reads a struct field and its tag. If embedded is not nil, the fields of that
// struct are used instead. Otherwise an empty name means that the field is ignored.
func fieldOf(sf reflect.StructField) (f field, embedded reflect.Type, err error) {
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
	if !validTag(name) {
		name = ""
	}
	if isStruct && name == "" {
		if sf.Type.Kind() == reflect.Pointer {
			if f.viaPointer = true; !sf.IsExported() {
				return f, nil, fmt.Errorf("field %s: a pointer to an unexported struct cannot be embedded", sf.Name)
			}
		}
		return f, t, nil
	}
	if !sf.IsExported() {
		return f, nil, fmt.Errorf("field %s: an unexported embedded struct cannot have its own name", sf.Name)
	}
	f.typ, f.tagged, f.name = sf.Type, name != "", cmp.Or(name, sf.Name)
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty":
			f.omitEmpty = true
		case "omitzero":
			f.omitZero, f.zero = true, zeroOf(sf.Type)
		case "string":
			return f, nil, fmt.Errorf("field %s: the option string is not supported", f.name)
		}
	}
	label, err := json.Marshal(f.name)
	f.label = string(label) + ":"
	return f, nil, err
}

// validTag reports whether encoding/json accepts the name in a tag.
func validTag(s string) bool {
	for _, c := range s {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return s != ""
}

// dominant returns the field that wins for each name, in the order of the struct t.
func dominant(t reflect.Type, all []field) ([]field, error) {
	slices.SortStableFunc(all, func(a, b field) int {
		return cmp.Or(strings.Compare(a.name, b.name), len(a.index)-len(b.index), rank(b)-rank(a))
	})
	var won []field
	for i := 0; i < len(all); {
		n := i + 1
		for n < len(all) && all[n].name == all[i].name {
			n++
		}
		if other := rival(all[i:n]); other != nil {
			return nil, fmt.Errorf("fields %s and %s are both named %s", goName(t, all[i].index), goName(t, other.index), other.name)
		}
		won = append(won, all[i])
		i = n
	}
	slices.SortFunc(won, func(a, b field) int { return slices.Compare(a.index, b.index) })
	return won, nil
}

// rival returns a field that the first field of list does not win against, or that is in
// the same struct. All fields of list have the same name.
func rival(list []field) *field {
	first := &list[0]
	last := len(first.index) - 1
	for i := range list[1:] {
		f := &list[1+i]
		if len(f.index) != len(first.index) {
			break
		}
		if f.tagged == first.tagged || slices.Equal(f.index[:last], first.index[:last]) {
			return f
		}
	}
	return nil
}

// goName returns the Go name of a field, qualified by the embedded structs around it.
func goName(t reflect.Type, index []int) string {
	names := make([]string, len(index))
	for i := range index {
		names[i] = t.FieldByIndex(index[:i+1]).Name
	}
	return strings.Join(names, ".")
}

func rank(f field) int {
	if f.tagged {
		return 1
	}
	return 0
}

// isZeroer is implemented by types that define their own zero value for omitzero.
type isZeroer interface{ IsZero() bool }

func zeroOf(t reflect.Type) func(reflect.Value) bool {
	own := reflect.TypeFor[isZeroer]()
	switch {
	case t.Kind() == reflect.Pointer && t.Implements(own):
		return func(v reflect.Value) bool {
			return v.IsNil() || v.Elem().Kind() == reflect.Pointer && v.Elem().IsNil() || v.Interface().(isZeroer).IsZero()
		}
	case t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(own):
		return func(v reflect.Value) bool { return addressable(v).Addr().Interface().(isZeroer).IsZero() }
	}
	return reflect.Value.IsZero
}

// addressable returns v or an addressable copy of it.
func addressable(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v
	}
	a := reflect.New(v.Type()).Elem()
	a.Set(v)
	return a
}

// of returns the field in the struct v. ok is false if it is inside an embedded pointer
// that is nil.
func (f *field) of(v reflect.Value) (_ reflect.Value, ok bool) {
	if len(f.index) == 1 {
		return v.Field(f.index[0]), true
	}
	for _, i := range f.index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return v, false
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v, true
}

// make is like of, but allocates embedded structs behind nil pointers and counts them in c.
func (f *field) make(v reflect.Value, c *cursor) (reflect.Value, *fault) {
	if len(f.index) == 1 {
		return v.Field(f.index[0]), nil
	}
	for _, i := range f.index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				if w := c.pointTo(v); w != nil {
					return v, w
				}
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v, nil
}

// omitted reports whether encoding/json omits the field with value v.
func (f *field) omitted(v reflect.Value) bool {
	return f.omitEmpty && isEmpty(v) || f.omitZero && f.zero(v)
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}
