package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/skerrydb/skerry/record/value"
)

// Codec converts between the data of records and values of T, a struct as described at Of. It is immutable.
//
// Null is nil for a pointer, slice or map, and the zero value for other types. Conversely, nil becomes null, and so do
// zero values with the option omitzero, zero times, and empty values of email, url, phone, select, reference and
// decimal fields. Other zero values are stored: a text may be empty, a number 0. Passwords are never decoded, and an
// empty one does not change that of the record.
type Codec[T any] struct {
	k     *Compiled
	slots []slot
	meta  []int
}

// slot is a field of T and of the collection.
type slot struct {
	member
	index int // in the collection
}

// NewCodec returns the Codec of T for a collection, which may have more fields than T. The error names the Go fields
// that the collection lacks or has with a different type.
func NewCodec[T any](k *Compiled) (*Codec[T], error) {
	s, err := shapeOf(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	c := &Codec[T]{k: k, meta: s.meta}
	var bad []error
	for _, m := range s.members {
		i, ok := k.Index(m.field.Name)
		if !ok {
			bad = append(bad, fmt.Errorf("%s: %s", m.goName, k.unknown(m.field.Name)))
			continue
		}
		if f := k.fields[i]; f.Type != m.field.Type && (m.goType.Kind() != reflect.String || f.kind != value.Text || m.field.Type == Decimal) || f.Many != m.field.Many {
			bad = append(bad, fmt.Errorf("%s: the field %s of %s is %s, not %s", m.goName, f.Name, k.Name, f.words(), m.field.words()))
		}
		c.slots = append(c.slots, slot{m, i})
	}
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	return c, nil
}

// Collection returns the collection of the codec.
func (c *Codec[T]) Collection() *Compiled { return c.k }

// Meta returns the Meta that T embeds, or nil if there is none.
func (c *Codec[T]) Meta(of *T) *Meta {
	if c.meta == nil {
		return nil
	}
	return reflect.ValueOf(of).Elem().FieldByIndex(c.meta).Addr().Interface().(*Meta)
}

// Decode sets the fields of into. It does not change Go fields that the collection lacks, passwords and Meta.
func (c *Codec[T]) Decode(d Data, into *T) error {
	v := reflect.ValueOf(into).Elem()
	for i := range c.slots {
		s := &c.slots[i]
		if s.field.Type == Password {
			continue
		}
		if err := s.set(v.FieldByIndex(s.path), d.Get(s.index), c.k.fields[s.index].Scale); err != nil {
			return fmt.Errorf("%s: %w", s.goName, err)
		}
	}
	return nil
}

// set sets a Go field to a value.
func (s *slot) set(to reflect.Value, v value.Value, scale int) error {
	if v.IsNull() {
		to.SetZero()
		return nil
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	wrong := fmt.Errorf("%s does not fit in a %v", v.Kind().Article(), to.Type())
	switch s.field.Type {
	case Int:
		return setInt(to, v, wrong)
	case Float:
		f, ok := v.Float()
		if !ok {
			return wrong
		}
		to.SetFloat(f)
	case Bool:
		if v.Kind() != value.Bool {
			return wrong
		}
		to.SetBool(v.Bool())
	case Time:
		t, ok := v.Time()
		if !ok {
			return wrong
		}
		to.Set(reflect.ValueOf(t))
	case Decimal:
		text, ok := v.Decimal()
		if !ok {
			return wrong
		}
		to.SetString(value.PadScale(text, scale))
	case JSON:
		return setJSON(to, v)
	default:
		return s.setText(to, v, wrong)
	}
	return nil
}

func (s *slot) setText(to reflect.Value, v value.Value, wrong error) error {
	if !s.field.Many {
		text, ok := v.Text()
		if !ok {
			return wrong
		}
		to.SetString(text)
		return nil
	}
	list, ok := v.Texts()
	if !ok {
		return wrong
	}
	to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))
	for i, text := range list {
		to.Index(i).SetString(text)
	}
	return nil
}

func setInt(to reflect.Value, v value.Value, wrong error) error {
	n, ok := v.Int()
	switch {
	case !ok:
		return wrong
	case to.CanUint():
		if n < 0 || to.OverflowUint(uint64(n)) {
			return fmt.Errorf("%d does not fit in a %v", n, to.Type())
		}
		to.SetUint(uint64(n))
	case to.OverflowInt(n):
		return fmt.Errorf("%d does not fit in a %v", n, to.Type())
	default:
		to.SetInt(n)
	}
	return nil
}

func setJSON(to reflect.Value, v value.Value) error {
	text := appendAny(nil, v)
	if to.Type() == rawType {
		to.SetBytes(text)
		return nil
	}
	to.SetZero()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // in an any, so that no number changes
	return d.Decode(to.Addr().Interface())
}

// Encode returns base with the values of the fields of from. Fields that T does not have keep their values. The error
// is Problems with values that no field can have, such as invalid UTF-8; Check finds the others.
func (c *Codec[T]) Encode(base Data, from *T) (Data, error) {
	v := reflect.ValueOf(from).Elem()
	var bad Problems
	base = base.own(len(c.k.fields))
	for i := range c.slots {
		s := &c.slots[i]
		x := v.FieldByIndex(s.path)
		if s.field.Type == Password && (x.IsZero() || x.Kind() == reflect.Pointer && x.Elem().IsZero()) {
			continue
		}
		got, err := s.get(x)
		if err != nil {
			bad.add(Pointer(c.k.fields[s.index].Name), CodeType, "%v", err)
			continue
		}
		base.values[s.index] = c.k.fields[s.index].normal(got)
	}
	return base, bad.err()
}

// get returns the value of a Go field.
func (s *slot) get(x reflect.Value) (value.Value, error) {
	if x.IsZero() && s.nullable(x) {
		return value.Value{}, nil
	}
	if x.Kind() == reflect.Pointer {
		x = x.Elem()
	}
	switch s.field.Type {
	case Int:
		if x.CanUint() {
			return value.OfInt(int64(x.Uint())), nil
		}
		return value.OfInt(x.Int()), nil
	case Float:
		return value.OfFloat(x.Float())
	case Bool:
		return value.OfBool(x.Bool()), nil
	case Time:
		return value.OfTime(x.Interface().(time.Time))
	case Decimal:
		return value.ParseDecimal(x.String())
	case JSON:
		return ofJSON(x)
	}
	if !s.field.Many {
		return value.OfText(x.String())
	}
	list := make([]string, x.Len())
	for i := range list {
		list[i] = x.Index(i).String()
		if _, err := value.OfText(list[i]); err != nil {
			return value.Value{}, fmt.Errorf("option %d: %w", i, err)
		}
	}
	return value.OfTexts(list), nil
}

// ofJSON returns the JSON of a Go value.
func ofJSON(x reflect.Value) (value.Value, error) {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	if err := e.Encode(x.Interface()); err != nil {
		return value.Value{}, err
	}
	return value.Parse(raw.Bytes())
}

// nullable reports whether the zero value of a Go field stands for null.
func (s *slot) nullable(x reflect.Value) bool {
	switch x.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return true
	}
	switch s.field.Type {
	case Time, Email, URL, Phone, Select, Reference, Decimal:
		return true
	}
	return s.omitZero
}
