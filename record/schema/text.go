package schema

import (
	"github.com/skerrydb/skerry/jsonscan"
	"github.com/skerrydb/skerry/record/value"
)

// text is data as Append writes them. Values are read from it when they are asked for: most requests look at few of
// them and pass on the rest. It is immutable.
type text struct {
	k      *Compiled
	json   []byte
	fields []span // of the values; the zero span is null
	extras int    // where members that are not fields begin; 0: there are none
}

// span is a part of a text.
type span struct{ from, to uint32 }

// Keep is Parse of data that Append has written for k or a description with SameForm. It reads values only when they are
// asked for. The data belong to the result from then on: nobody may modify them.
func (k *Compiled) Keep(stored []byte) (Data, error) {
	if t := k.locate(stored); t != nil {
		return Data{text: t}, nil
	}
	return k.Parse(stored)
}

// locate finds the values of fields, without looking into them. It returns nil for data that Append would have written
// in another way.
func (k *Compiled) locate(stored []byte) *text {
	if len(stored) < 2 || stored[0] != '{' {
		return nil
	}
	t := &text{k: k, json: stored, fields: make([]span, len(k.fields))}
	if string(stored) == "{}" {
		return t
	}
	for at, next := 1, 0; ; at++ {
		name := jsonscan.End(stored, at)
		if name == 0 || stored[at] != '"' || name == len(stored) || stored[name] != ':' {
			return nil
		}
		end := jsonscan.End(stored, name+1)
		if end == 0 || end == len(stored) || stored[name+1] == 'n' {
			return nil
		}
		i, ok := 0, false
		if t.extras == 0 {
			i, ok = k.following(next, stored[at+1:name-1])
		}
		switch {
		case ok:
			t.fields[i] = span{uint32(name + 1), uint32(end)}
			next = i + 1
		case !k.Extra || k.knows(string(stored[at+1:name-1])):
			return nil
		case t.extras == 0:
			t.extras = at
		}
		at = end
		switch {
		case stored[at] == '}' && at == len(stored)-1:
			return t
		case stored[at] != ',':
			return nil
		}
	}
}

// following returns the field with a name, from the field next on.
func (k *Compiled) following(next int, name []byte) (i int, ok bool) {
	for i := next; i < len(k.fields); i++ {
		if k.fields[i].Name == string(name) {
			return i, true
		}
	}
	return 0, false
}

// knows reports whether a member of stored data is or was a field, so that Parse does more than to copy it.
func (k *Compiled) knows(name string) bool {
	_, is := k.byName[name]
	_, was := k.byWas[name]
	return is || was || k.Hides(name)
}

// raw returns the value of a field as JSON, nil if it has none.
func (t *text) raw(i int) []byte {
	if i >= len(t.fields) {
		return nil
	}
	return t.json[t.fields[i].from:t.fields[i].to]
}

func (t *text) get(i int) value.Value {
	switch raw := t.raw(i); {
	case len(raw) == 0:
		return value.Value{}
	case raw[0] == '{' || raw[0] == '[':
		return value.OfPrinted(raw)
	default:
		return t.k.fields[i].readStored(raw)
	}
}

// others yields the members that are not fields.
func (t *text) others(yield func(name, raw []byte) bool) {
	if t.extras == 0 {
		return
	}
	s := jsonscan.New(t.json[t.extras:])
	for s.More('}') {
		name, _ := s.Text()
		if !yield(name, s.Raw()) {
			return
		}
	}
}

// extra returns a member that is not a field.
func (t *text) extra(name string) (v value.Value) {
	for other, raw := range t.others {
		if string(other) == name {
			v, _ = value.Parse(raw) // damaged data have no value
			break
		}
	}
	return v
}

// read returns the data with all values read.
func (t *text) read() Data {
	d := Data{values: make([]value.Value, len(t.fields))}
	for i := range d.values {
		d.values[i] = t.get(i)
	}
	for name, raw := range t.others {
		if v, err := value.Parse(raw); err == nil {
			d.extras = append(d.extras, extra{string(name), v})
		}
	}
	return d
}

// SameForm reports whether Append writes data as they are that it has written for old, so that Keep can read them.
func (k *Compiled) SameForm(old *Compiled) bool {
	next := 0
	for i := range old.fields {
		f := &old.fields[i].Field
		at, ok := k.following(next, []byte(f.Name))
		if !ok {
			return false
		}
		if g := &k.fields[at].Field; f.Type != g.Type || f.Scale != g.Scale || f.Many != g.Many {
			return false
		}
		next = at + 1
	}
	// A new field takes over members that were no field before.
	return k.Extra == old.Extra && (!k.Extra || len(k.fields) == len(old.fields) && len(k.Dropped) == len(old.Dropped) && len(k.byWas) == len(old.byWas))
}
