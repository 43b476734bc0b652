package schema

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/jsonscan"
	"github.com/skerrydb/skerry/record/value"
	"github.com/skerrydb/skerry/suggest"
)

// Data are the values of one record by the fields of its collection. It is changed only by methods that return
// another Data, so a copy stays as it is.
type Data struct {
	values []value.Value
	extras []extra // by name
	text   *text   // instead of them, if not nil
}

type extra struct {
	name  string
	value value.Value
}

// Get returns the value of field i, or null if it has none.
func (d Data) Get(i int) value.Value {
	switch {
	case d.text != nil:
		return d.text.get(i)
	case i < len(d.values):
		return d.values[i]
	}
	return value.Value{}
}

// has reports whether field i has a value.
func (d Data) has(i int) bool {
	if d.text != nil {
		return len(d.text.raw(i)) > 0
	}
	return i < len(d.values) && !d.values[i].IsNull()
}

// read returns d with all values read.
func (d Data) read() Data {
	if d.text == nil {
		return d
	}
	return d.text.read()
}

// Extra returns the value of a member that is not a field, null if there is none.
func (d Data) Extra(name string) value.Value {
	if d.text != nil {
		return d.text.extra(name)
	}
	if at, ok := d.extra(name); ok {
		return d.extras[at].value
	}
	return value.Value{}
}

func (d Data) extra(name string) (at int, ok bool) {
	return slices.BinarySearchFunc(d.extras, name, func(e extra, name string) int { return strings.Compare(e.name, name) })
}

// With returns d with another value of field i.
func (d Data) With(i int, v value.Value) Data {
	d = d.own(i + 1)
	d.values[i] = v
	return d
}

// withExtra returns d with another value of a member that is not a field. Null removes it.
func (d Data) withExtra(name string, v value.Value) Data {
	d = d.read()
	at, ok := d.extra(name)
	extras := slices.Clone(d.extras)
	switch {
	case v.IsNull() && ok:
		extras = slices.Delete(extras, at, at+1)
	case v.IsNull():
	case ok:
		extras[at].value = v
	default:
		extras = slices.Insert(extras, at, extra{name, v})
	}
	return Data{values: d.values, extras: extras}
}

// Parse reads data that Append has written, perhaps for an earlier description of the collection. A member with a
// former name of a field is that field's, if it has no value under its own name. A member that has no field becomes an
// extra one, or is left out if the collection has none. A value of another type is converted, or null if that is not
// possible.
func (k *Compiled) Parse(stored []byte) (Data, error) {
	if !jsonscan.Valid(stored) || stored[0] != '{' {
		return Data{}, fmt.Errorf("the data is not a JSON object")
	}
	d := Data{values: make([]value.Value, len(k.fields))}
	s := jsonscan.New(stored)
	for s.Open(); s.More('}'); {
		name, _ := s.Text()
		raw := s.Raw()
		if i, ok := k.byName[string(name)]; ok {
			d.values[i] = k.fields[i].readStored(raw)
			continue
		}
		if i, ok := k.byWas[string(name)]; ok {
			if d.values[i].IsNull() {
				d.values[i] = k.fields[i].readStored(raw)
			}
			continue
		}
		if !k.Extra || k.Hides(string(name)) {
			continue
		}
		v, err := value.Parse(raw)
		if err != nil {
			return Data{}, fmt.Errorf("member %s: %w", name, err)
		}
		d = d.withExtra(string(name), v)
	}
	return d, nil
}

// Patch returns d with the changes of a JSON merge patch (RFC 7396): members of the patch replace those of the data,
// null removes them, and objects within fields of kind JSON are merged member by member. The error is Problems.
func (k *Compiled) Patch(d Data, patch []byte) (Data, error) {
	var bad Problems
	if len(patch) > MaxDataBytes {
		bad.add("", CodeTooLarge, "the data has %d bytes; the limit is %d", len(patch), MaxDataBytes)
		return d, bad
	}
	patch = bytes.Trim(patch, " \t\r\n")
	if err := value.Check(patch); err != nil {
		bad.add("", CodeInvalid, "%v", err)
		return d, bad
	} else if patch[0] != '{' {
		bad.add("", CodeType, "the data must be a JSON object")
		return d, bad
	}
	d = d.own(len(k.fields))
	var fields [MaxFields]bool // that the patch has
	others := map[string]bool{}
	s := jsonscan.New(patch)
	for s.Open(); s.More('}'); {
		name, _ := s.Text()
		i, ok := k.byName[string(name)]
		seen := ok && fields[i] || !ok && others[string(name)]
		if ok {
			fields[i] = true
		} else {
			others[string(name)] = true
		}
		raw := s.Raw()
		switch {
		case seen:
			bad.add(Pointer(string(name)), CodeRepeated, "%.80q appears twice", name)
		case ok:
			if err := k.patchField(&d.values[i], &k.fields[i], raw); err != nil {
				bad.add(Pointer(string(name)), CodeType, "%v", err)
			}
		default:
			var p *Problem
			if d, p = k.patchExtra(d, string(name), raw); p != nil {
				bad.add(p.Pointer, p.Code, "%s", p.Detail)
			}
		}
	}
	return d, bad.err()
}

// own returns a copy of d, with place for the values of n fields, whose values may be set.
func (d Data) own(n int) Data {
	if d.text != nil {
		d = d.text.read()
		if len(d.values) >= n {
			return d
		}
	}
	values := make([]value.Value, max(len(d.values), n))
	copy(values, d.values)
	return Data{values: values, extras: d.extras}
}

// patchField changes the value of a field.
func (k *Compiled) patchField(v *value.Value, f *field, raw []byte) (err error) {
	var is value.Value
	if f.Type == JSON {
		is, err = merge(*v, raw)
	} else {
		is, err = f.read(raw)
	}
	if err == nil {
		*v = is
	}
	return err
}

// patchExtra changes a member that is not a field.
func (k *Compiled) patchExtra(d Data, name string, raw []byte) (Data, *Problem) {
	if !k.TakesExtra(name) {
		return d, &Problem{Pointer(name), CodeUnknown, k.unknown(name)}
	}
	v, err := merge(d.Extra(name), raw)
	if err != nil {
		return d, &Problem{Pointer(name), CodeInvalid, err.Error()}
	}
	return d.withExtra(name, v), nil
}

// unknown says that there is no field of a name, and which one may be meant.
func (k *Compiled) unknown(name string) string {
	var names []string
	for _, f := range k.Fields {
		names = append(names, f.Name)
	}
	text := fmt.Sprintf("%s has no field %.80q", k.Name, name)
	if now := k.Current(name); now != name {
		return text + "; it is called " + now + " now"
	}
	if near := suggest.Nearest(name, names); near != "" {
		text += fmt.Sprintf("; did you mean %s?", near)
	}
	return text
}

// Complete returns d with the defaults of fields that are null. user may be "".
func (k *Compiled) Complete(d Data, now time.Time, user string) Data {
	for i := range k.fields {
		f := &k.fields[i]
		if !d.Get(i).IsNull() {
			continue
		}
		v := f.initial
		switch {
		case f.auto == "@now":
			v, _ = value.OfTime(now)
		case f.auto != "" && user != "":
			v, _ = value.OfText(user)
		}
		if !v.IsNull() {
			d = d.With(i, v)
		}
	}
	return d
}

// Fill returns d with the defaults of required fields that are null, for data written before a field became required.
// It leaves out defaults that differ from record to record.
func (k *Compiled) Fill(d Data) Data {
	for i := range k.fields {
		if f := &k.fields[i]; f.Required && !f.initial.IsNull() && d.Get(i).IsNull() {
			d = d.With(i, f.initial)
		}
	}
	return d
}

// Check reports, as Problems, the fields whose values are not allowed. Values of passwords that hashed names are
// hashes, of which only their presence is checked.
func (k *Compiled) Check(d Data, hashed func(i int) bool) error {
	var bad Problems
	for i := range k.fields {
		f := &k.fields[i]
		if f.Type == Password && !d.Get(i).IsNull() && hashed != nil && hashed(i) {
			continue
		}
		if p := f.check(Pointer(f.Name), d.Get(i)); p != nil {
			bad.add(p.Pointer, p.Code, "%s", p.Detail)
		}
	}
	return bad.err()
}

// Append appends d as the JSON object that is stored: fields in their order, then the other members by name. Nulls are
// left out.
func (k *Compiled) Append(dst []byte, d Data) []byte { return k.append(dst, d, true, nil) }

// AppendPublic is Append without passwords.
func (k *Compiled) AppendPublic(dst []byte, d Data) []byte { return k.append(dst, d, false, nil) }

// AppendOnly is AppendPublic of the members with some names.
func (k *Compiled) AppendOnly(dst []byte, d Data, wanted func(name string) bool) []byte {
	return k.append(dst, d, false, wanted)
}

func (k *Compiled) append(dst []byte, d Data, secrets bool, wanted func(string) bool) []byte {
	if t := d.text; t != nil && t.k == k && wanted == nil && (secrets || len(k.secrets) == 0) {
		return append(dst, t.json...)
	}
	if d.text != nil && (d.text.k != k || d.text.extras > 0) {
		d = d.text.read()
	}
	from := len(dst)
	open := func() {
		if len(dst) == from {
			dst = append(dst, '{')
		} else {
			dst = append(dst, ',')
		}
	}
	for i := range k.fields {
		f := &k.fields[i]
		if !d.has(i) || f.Type == Password && !secrets || wanted != nil && !wanted(f.Name) {
			continue
		}
		open()
		dst = append(append(append(dst, '"'), f.Name...), `":`...) // such a name needs no escape
		if d.text != nil {
			dst = append(dst, d.text.raw(i)...)
		} else {
			dst = f.append(dst, d.values[i])
		}
	}
	for _, e := range d.extras {
		if wanted != nil && !wanted(e.name) {
			continue
		}
		open()
		dst = append(value.AppendText(dst, e.name), ':')
		dst = appendAny(dst, e.value)
	}
	if len(dst) == from {
		dst = append(dst, '{')
	}
	return append(dst, '}')
}

// append appends a value of the field. A decimal has as many digits after its point as Scale says.
func (c *field) append(dst []byte, v value.Value) []byte {
	if text, ok := v.Decimal(); ok && c.Type == Decimal {
		return append(append(append(dst, '"'), value.PadScale(text, c.Scale)...), '"')
	}
	if c.Type == JSON {
		return appendAny(dst, v)
	}
	return v.AppendJSON(dst)
}

// appendAny appends a value that came from any JSON: a number as a number, although it became a decimal.
func appendAny(dst []byte, v value.Value) []byte {
	if text, ok := v.Decimal(); ok {
		return append(dst, text...)
	}
	return v.AppendJSON(dst)
}
