package sqldriver

import (
	"database/sql/driver"
	"fmt"
)

// bound is one argument with its value.
type bound struct {
	name  string // "": by position
	value driver.Value
}

// bind appends to dst what is sent for the arguments of st. Usually these are the values
// themselves. If the text of one could be mistaken for something else, or if there are
// names, it is one JSON object with all arguments. p is nil if the server does not know the
// procedure.
func bind(dst []any, st *statement, in []driver.NamedValue, p *procedure) ([]any, error) {
	if st.inputs >= 0 && len(in) != st.inputs {
		return dst, fmt.Errorf("skerry: the statement has %d placeholders, but %d values were given", st.inputs, len(in))
	}
	if len(in) > MaxArguments {
		return dst, fmt.Errorf("skerry: %d arguments, over the limit of %d", len(in), MaxArguments)
	}
	if st.simple || st.open {
		clear := true
		for i := range in {
			if err := p.takes(in[i].Name, i, in[i].Value); err != nil {
				return dst, err
			}
			clear = clear && in[i].Name == "" && p.clear(i, len(in), in[i].Value)
			dst = append(dst, sendable(in[i].Value))
		}
		if clear {
			return dst, nil
		}
		dst = dst[:0]
	}
	list, err := st.fill(in)
	if err != nil {
		return dst, err
	}
	return send(dst, list, p)
}

// sendable returns v as the client accepts it.
func sendable(v driver.Value) any {
	switch v := v.(type) {
	case number:
		return string(v)
	case jsonText:
		return []byte(v)
	case written:
		return []byte(v)
	}
	return v
}

// clear reports whether the text of v, as argument i of n, is unambiguous. NULL has no
// text, empty text means NULL where NULL is allowed, and a single argument that begins with
// a brace would stand for all arguments.
func (p *procedure) clear(i, n int, v driver.Value) bool {
	text := byte('x')
	switch v := v.(type) {
	case nil:
		return false
	case string:
		text = initial(v)
	case []byte:
		text = initial(v)
	case jsonText:
		text = initial(v)
	case written:
		text = initial(v)
	}
	switch {
	case text == 'x' || p == nil || i >= len(p.Args) || p.textual():
		return true
	case text == 0:
		return !p.Args[i].Type.Nullable
	}
	return n > 1
}

// takes returns an error if a list, struct or map is passed for a bytes argument, because
// its JSON would be stored as the bytes. The argument is name, or the one at index i if
// name is "".
func (p *procedure) takes(name string, i int, v driver.Value) error {
	text, ok := v.(written)
	if !ok || p == nil || len(text) == 0 {
		return nil
	}
	if name != "" {
		i = p.argument(name)
	}
	if i < 0 || i >= len(p.Args) || p.Args[i].Type.Kind != kindBytes {
		return nil
	}
	what := ""
	switch text[0] {
	case '[':
		what = "a list"
	case '{':
		what = "an object"
	default:
		return nil
	}
	return fmt.Errorf("skerry: argument %s is bytes, not %s", clip(p.Args[i].Name), what)
}

// initial returns 0 for empty text, { for text that begins with it, and x otherwise.
func initial[T string | []byte | jsonText | written](v T) byte {
	switch {
	case len(v) == 0:
		return 0
	case v[0] == '{':
		return '{'
	}
	return 'x'
}

// fill assigns the caller's values to the arguments.
func (st *statement) fill(in []driver.NamedValue) ([]bound, error) {
	if st.open {
		list := make([]bound, len(in))
		for i := range in {
			list[i] = bound{in[i].Name, in[i].Value}
		}
		return list, nil
	}
	list := make([]bound, len(st.args))
	for i, a := range st.args {
		list[i] = bound{a.name, a.value}
		if a.input < 0 {
			continue
		}
		v := &in[a.input]
		if st.names != nil {
			if v = find(in, st.names[a.input]); v == nil {
				return nil, fmt.Errorf("skerry: there is no value named %s: pass it with sql.Named", clip(st.names[a.input]))
			}
		} else if v.Name != "" && a.name == "" {
			list[i].name = v.Name
		} else if v.Name != "" && a.name != v.Name {
			return nil, fmt.Errorf("skerry: the value named %s is given for the argument %s", clip(v.Name), clip(a.name))
		}
		list[i].value = v.Value
	}
	return list, nil
}

func find(in []driver.NamedValue, name string) *driver.NamedValue {
	for i := range in {
		if in[i].Name == name {
			return &in[i]
		}
	}
	return nil
}

// send is bind for arguments that are not simply values in order.
func send(dst []any, list []bound, p *procedure) ([]any, error) {
	if p.textual() && len(list) == 1 {
		return only(dst, list[0], p)
	}
	byName, clear := false, true
	for i, b := range list {
		if err := p.takes(b.name, i, b.value); err != nil {
			return dst, err
		}
		if b.name == "" && byName {
			return dst, fmt.Errorf("skerry: argument %d is given by position after one by name", i+1)
		}
		byName = byName || b.name != ""
		clear = clear && p.clear(i, len(list), b.value)
	}
	if !byName && (clear || p == nil || len(list) > len(p.Args)) {
		for _, b := range list {
			dst = append(dst, sendable(b.value))
		}
		return dst, nil
	}
	text, err := object(list, p)
	return append(dst, text), err
}

// object encodes arguments as one JSON object.
func object(list []bound, p *procedure) ([]byte, error) {
	text := []byte{'{'}
	for i, b := range list {
		var t *typ
		at := i
		if b.name != "" {
			at = p.argument(b.name)
		}
		switch {
		case p != nil && at >= 0 && at < len(p.Args):
			t = &p.Args[at].Type
			b.name = p.Args[at].Name
		case b.name == "":
			return nil, fmt.Errorf("skerry: argument %d is given by position, but its name is not known", i+1)
		}
		for _, other := range list[:i] {
			if other.name == b.name {
				return nil, fmt.Errorf("skerry: the argument %s is given twice", clip(b.name))
			}
		}
		list[i].name = b.name
		if i > 0 {
			text = append(text, ',')
		}
		text = append(quote(text, []byte(b.name)), ':')
		var err error
		if text, err = appendJSON(text, b.value, t); err != nil {
			return nil, fmt.Errorf("skerry: argument %s %w", clip(b.name), err)
		}
	}
	return append(text, '}'), nil
}

// only is send for a procedure whose only argument is text, for which the server takes a
// JSON object literally. NULL and empty text cannot be distinguished there.
func only(dst []any, b bound, p *procedure) ([]any, error) {
	a := &p.Args[0]
	if err := p.takes(b.name, 0, b.value); err != nil {
		return dst, err
	}
	switch {
	case b.name != "" && b.name != a.Name:
		return dst, fmt.Errorf("skerry: %s has no argument %s, only %s", clip(p.Name), clip(b.name), clip(a.Name))
	case b.value != nil:
		return append(dst, sendable(b.value)), nil
	case a.Type.Kind == kindJSON:
		return append(dst, "null"), nil
	case a.Type.Nullable:
		return append(dst, ""), nil
	}
	return dst, fmt.Errorf("skerry: the argument %s of %s cannot be NULL", clip(a.Name), clip(p.Name))
}
