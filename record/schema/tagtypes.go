package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/record/value"
	"github.com/skerrydb/skerry/suggest"
)

// tagFlags and tagValues are the options of a tag without and with a value.
var (
	tagFlags  = []string{"required", "unique", "index", "cascade", "set_null", "omitzero"}
	tagValues = []string{"type", "default", "min", "max", "pattern", "options", "ref", "scale", "label", "hint", "was"}
)

// option reads one option of a tag.
func (m *member) option(text string) error {
	name, v, has := strings.Cut(text, "=")
	switch {
	case slices.Contains(tagFlags, name):
		if has {
			return fmt.Errorf("%s takes no value", name)
		}
		m.flag(name)
		return nil
	case !slices.Contains(tagValues, name):
		all := append(slices.Clone(tagFlags), tagValues...)
		if near := suggest.Nearest(name, all); near != "" {
			return fmt.Errorf("unknown option %q; did you mean %s?", name, near)
		}
		slices.Sort(all)
		return fmt.Errorf("unknown option %q; the options are %s", name, strings.Join(all, ", "))
	case v == "":
		return fmt.Errorf("%s needs a value, as in %s=…", name, name)
	}
	f := &m.field
	switch name {
	case "type":
		f.Type, m.typeSet = Type(v), true
	case "default":
		f.Default, m.defaultSet = v, true
	case "min":
		f.Min = v
	case "max":
		f.Max = v
	case "pattern":
		f.Pattern = v
	case "options":
		f.Options = strings.Split(v, "|")
	case "ref":
		f.Collection = v
	case "scale":
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return fmt.Errorf("scale=%s is not a number of digits", v)
		}
		f.Scale = n
	case "label":
		f.Label = v
	case "hint":
		f.Hint = v
	case "was":
		f.Was = append(f.Was, v)
	}
	return nil
}

func (m *member) flag(name string) {
	switch name {
	case "required":
		m.field.Required = true
	case "unique":
		m.unique = true
	case "index":
		m.index = true
	case "cascade":
		m.field.OnDelete = Cascade
	case "set_null":
		m.field.OnDelete = SetNull
	case "omitzero":
		m.omitZero = true
	}
}

// textTypes are the types that a string may have.
var textTypes = []Type{Text, Email, URL, Phone, Password, Decimal, Select, Reference}

// setType finds the type of the field from that of the Go field, and checks it against the tag.
func (m *member) setType() error {
	t := m.goType
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	natural, err := m.natural(t)
	if err != nil {
		return err
	}
	f := &m.field
	switch {
	case !m.typeSet:
		f.Type = natural
	case kinds[f.Type] == value.Null:
		text := fmt.Sprintf("unknown type %q", f.Type)
		var names []string
		for _, t := range Types() {
			names = append(names, string(t))
		}
		if near := suggest.Nearest(string(f.Type), names); near != "" {
			text += fmt.Sprintf("; did you mean %s?", near)
		}
		return fmt.Errorf("%s", text)
	case f.Type != natural && f.Type != JSON && (t.Kind() != reflect.String || !slices.Contains(textTypes, f.Type)):
		return fmt.Errorf("the Go type %v cannot have type=%s; its type is %s", m.goType, f.Type, natural)
	}
	if t.Kind() == reflect.Slice && f.Type == Select {
		f.Many = true
	}
	m.boundInt(t)
	return nil
}

// natural returns the type of a Go type with the options of the tag, but without its type.
func (m *member) natural(t reflect.Type) (Type, error) {
	f := &m.field
	switch {
	case t == timeType:
		return Time, nil
	case t == rawType:
		return JSON, nil
	}
	switch t.Kind() {
	case reflect.String:
		switch {
		case f.Options != nil:
			return Select, nil
		case f.Collection != "":
			return Reference, nil
		case f.Scale > 0:
			return Decimal, nil
		}
		return Text, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return Int, nil
	case reflect.Float64:
		return Float, nil
	case reflect.Bool:
		return Bool, nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String && f.Options != nil {
			return Select, nil
		}
		return JSON, nil
	case reflect.Map, reflect.Struct, reflect.Array, reflect.Interface:
		return JSON, nil
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return "", fmt.Errorf("the Go type %v is not supported, because a field of type int is a signed 64-bit integer; use int64", t)
	case reflect.Float32:
		return "", fmt.Errorf("the Go type %v is not supported; use float64", t)
	}
	return "", fmt.Errorf("the Go type %v is not supported", t)
}

// boundInt bounds a field whose Go type has fewer than 64 bits, so that every value fits.
func (m *member) boundInt(t reflect.Type) {
	if m.field.Type != Int || t.Bits() == 64 {
		return
	}
	low, high := int64(math.MinInt64)>>(64-t.Bits()), int64(math.MaxInt64)>>(64-t.Bits())
	if t.Kind() >= reflect.Uint8 && t.Kind() <= reflect.Uint32 {
		low, high = 0, 1<<t.Bits()-1
	}
	if m.field.Min == "" {
		m.field.Min = strconv.FormatInt(low, 10)
	}
	if m.field.Max == "" {
		m.field.Max = strconv.FormatInt(high, 10)
	}
}

// setDefault makes JSON of the default in the tag.
func (m *member) setDefault() {
	f := &m.field
	if !m.defaultSet || f.Default == "@now" && f.Type == Time || f.Default == "@auth.id" && (f.Type == Text || f.Type == Reference) {
		return
	}
	switch f.Type {
	case Int, Float, Bool, JSON:
	case Select:
		if f.Many {
			b, _ := json.Marshal(strings.Split(f.Default, "|"))
			f.Default = string(b)
			return
		}
		fallthrough
	default:
		f.Default = string(value.AppendText(nil, f.Default))
	}
}
