package proc

import (
	"encoding/base64"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// jsonWriter encodes one result exactly as encoding/json does, except that structs without
// fields are null, as in their schema. It stops when the result exceeds the limit, while
// encoding/json would build all of it first.
type jsonWriter struct {
	b   []byte
	max int // limit of len(b)
}

func (w *jsonWriter) check(more int) error {
	if len(w.b)+more > w.max {
		return errResultSize
	}
	return nil
}

// value appends v, whose type p describes.
func (w *jsonWriter) value(p *plan, v reflect.Value) error {
	switch p.op {
	case opNull:
		w.b = append(w.b, "null"...)
	case opBool:
		w.b = strconv.AppendBool(w.b, v.Bool())
	case opInt:
		w.b = strconv.AppendInt(w.b, v.Int(), 10)
	case opUint:
		w.b = strconv.AppendUint(w.b, v.Uint(), 10)
	case opFloat:
		return w.float(v.Float(), p.bits)
	case opString:
		return w.string(v.String())
	case opPtr:
		if !v.IsNil() {
			return w.value(p.elem, v.Elem())
		}
		w.b = append(w.b, "null"...)
	case opObject:
		return w.object(p, v)
	case opList:
		if !v.IsNil() {
			return w.list(p, v)
		}
		w.b = append(w.b, "null"...)
	case opArray:
		return w.list(p, v)
	case opMap:
		return w.mapping(p, v)
	default:
		return w.text(p, v)
	}
	return w.check(0)
}

// text appends a value that is encoded as text.
func (w *jsonWriter) text(p *plan, v reflect.Value) (err error) {
	switch p.op {
	case opBytes:
		if v.IsNil() {
			w.b = append(w.b, "null"...)
			return w.check(0)
		}
		if err := w.check(2 + base64.StdEncoding.EncodedLen(v.Len())); err != nil {
			return err
		}
		w.b = append(base64.StdEncoding.AppendEncode(append(w.b, '"'), v.Bytes()), '"')
	case opTime:
		if w.b, err = timeOf(v).AppendText(append(w.b, '"')); err != nil {
			return err
		}
		w.b = append(w.b, '"')
	case opText:
		b, err := ownText(v)
		if err != nil {
			return err
		}
		return w.string(string(b))
	case opJSON:
		b, err := ownJSON(v)
		if err != nil {
			return err
		}
		if err := w.check(len(b)); err != nil {
			return err
		}
		w.b = append(w.b, b...)
	default:
		panic(fmt.Sprintf("BUG: no encoder for a value of %v", p.typ))
	}
	return w.check(0)
}

func (w *jsonWriter) object(p *plan, v reflect.Value) error {
	w.b = append(w.b, '{')
	first := len(w.b)
	for i := range p.fields {
		f := &p.fields[i]
		fv, ok := f.of(v)
		if !ok || f.omitted(fv) {
			continue
		}
		if len(w.b) > first {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, f.label...)
		if err := w.value(f.plan, fv); err != nil {
			return err
		}
	}
	w.b = append(w.b, '}')
	return w.check(0)
}

func (w *jsonWriter) list(p *plan, v reflect.Value) error {
	w.b = append(w.b, '[')
	for i := range v.Len() {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		if err := w.value(p.elem, v.Index(i)); err != nil {
			return err
		}
	}
	w.b = append(w.b, ']')
	return w.check(0)
}

func (w *jsonWriter) mapping(p *plan, v reflect.Value) error {
	if v.IsNil() {
		w.b = append(w.b, "null"...)
		return w.check(0)
	}
	w.b = append(w.b, '{')
	for i, e := range sorted(v) {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		if err := w.string(e.key); err != nil {
			return err
		}
		w.b = append(w.b, ':')
		if err := w.value(p.elem, e.val); err != nil {
			return err
		}
	}
	w.b = append(w.b, '}')
	return w.check(0)
}

// float appends the shortest representation of f, with an exponent in the same cases as in
// ECMAScript.
func (w *jsonWriter) float(f float64, bits int) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("JSON has no number %v", f)
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 {
		if bits == 64 && (a < 1e-6 || a >= 1e21) || bits == 32 && (float32(a) < 1e-6 || float32(a) >= 1e21) {
			format = 'e'
		}
	}
	w.b = strconv.AppendFloat(w.b, f, format, -1, bits)
	if n := len(w.b); format == 'e' && n >= 4 && w.b[n-4] == 'e' && (w.b[n-3] == '-' || w.b[n-3] == '+') && w.b[n-2] == '0' {
		w.b[n-2] = w.b[n-1]
		w.b = w.b[:n-1]
	}
	return w.check(0)
}

// string appends s in quotes. Invalid UTF-8 becomes the replacement character; <, >, & and
// the line separators are escaped, so that the text is safe in HTML and JavaScript.
func (w *jsonWriter) string(s string) error {
	if err := w.check(2 + len(s)); err != nil {
		return err
	}
	const hex = "0123456789abcdef"
	w.b = append(w.b, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
				i++
				continue
			}
			w.b = append(w.b, s[done:i]...)
			switch c {
			case '"', '\\':
				w.b = append(w.b, '\\', c)
			case '\b':
				w.b = append(w.b, '\\', 'b')
			case '\f':
				w.b = append(w.b, '\\', 'f')
			case '\n':
				w.b = append(w.b, '\\', 'n')
			case '\r':
				w.b = append(w.b, '\\', 'r')
			case '\t':
				w.b = append(w.b, '\\', 't')
			default:
				w.b = append(w.b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			done = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			w.b = append(append(w.b, s[done:i]...), `\ufffd`...)
			done = i + n
		case r == '\u2028' || r == '\u2029':
			w.b = append(append(w.b, s[done:i]...), `\u202`...)
			w.b = append(w.b, hex[r&15])
			done = i + n
		}
		i += n
	}
	w.b = append(append(w.b, s[done:]...), '"')
	return w.check(0)
}
