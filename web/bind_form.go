package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// formOnce is the form of a request, read once.
type formOnce struct {
	done   bool
	values url.Values
	err    error
}

// form reads the request's body as a form, once.
func (c *Context) form() (url.Values, error) {
	f := &c.x.form
	if !f.done {
		f.done = true
		f.values, f.err = c.readForm()
	}
	return f.values, f.err
}

func (c *Context) readForm() (url.Values, error) {
	media, err := c.bodyType("application/x-www-form-urlencoded", "multipart/form-data")
	if err != nil {
		return nil, err
	}
	if media == "multipart/form-data" {
		return c.readMultipart()
	}
	body, err := c.ReadBody()
	if err != nil {
		return nil, err
	}
	text := string(body)
	if n := strings.Count(text, "&") + 1; n > MaxFormFields {
		return nil, tooManyFields()
	}
	form, err := url.ParseQuery(text)
	if err != nil {
		return nil, Wrong("", "the form is malformed: %v", err)
	}
	return form, nil
}

func tooManyFields() error {
	return engine.Errorf(engine.CodeLimit, "the form has more than %d fields, the limit", MaxFormFields)
}

// readMultipart reads a form of text fields only.
func (c *Context) readMultipart() (url.Values, error) {
	form := url.Values{}
	err := c.parts(MaxFormFields, func(p *multipart.Part, name, file string, isFile bool) error {
		if !isFile {
			text, err := io.ReadAll(p)
			if err != nil {
				return BodyError(err)
			}
			if err := c.x.hold(int64(len(text))); err != nil {
				return err
			}
			form[name] = append(form[name], string(text))
			return nil
		}
		if empty, err := noFile(p, file); !empty {
			return errors.Join(err, Wrong("/"+escapePointer(name), "must not be a file"))
		}
		return nil
	})
	return form, err
}

// bindForm reads a form into the struct that to points to.
func (a *App) bindForm(form url.Values, to any) error {
	v, s, err := a.target(to)
	if err != nil {
		return err
	}
	if s.op != shapeObject {
		return engine.Errorf(engine.CodeInternal, "web: a form must be read into a struct, not into %T", to)
	}
	d := &reading{room: MaxBoundBytes}
	for i := range s.fields {
		f := &s.fields[i]
		d.enter(f.name, -1)
		d.formField(f, v, form[f.name])
		d.leave()
	}
	for _, name := range slices.Sorted(maps.Keys(form)) {
		if _, known := s.byName[name]; !known {
			d.enter(name, -1)
			d.wrong("%s", s.unknown(strings.ToValidUTF8(name, "\uFFFD")))
			d.leave()
		}
	}
	if d.faults != nil {
		return d.faults
	}
	return validate(to)
}

// formField reads the values of one field.
func (d *reading) formField(f *shapeField, in reflect.Value, texts []string) {
	s := f.shape
	textual := s
	if s.op == shapePtr {
		textual = s.elem
	}
	none := len(texts) == 0 || len(texts) == 1 && texts[0] == "" && textual.op != shapeString && textual.op != shapeBytes && textual.op != shapeText
	switch {
	case none && f.optional:
	case none && s.op == shapeBool:
		f.in(in).SetBool(false)
	case none && s.op == shapeList:
		f.in(in).Set(reflect.MakeSlice(s.typ, 0, 0))
	case none:
		d.wrong("is missing")
	case s.op == shapeList || s.op == shapeArray:
		d.formList(s, f.in(in), texts)
	case len(texts) > 1:
		d.wrong("is given %d times, must be once", len(texts))
	default:
		d.formText(s, f.in(in), texts[0])
	}
}

// formList reads a field that is given several times.
func (d *reading) formList(s *shape, v reflect.Value, texts []string) {
	if s.op == shapeList {
		if !d.take(uintptr(len(texts)) * s.elem.typ.Size()) {
			return
		}
		v.Set(reflect.MakeSlice(s.typ, len(texts), len(texts)))
	} else if len(texts) != v.Len() {
		d.wrong("must be given exactly %d times, not %d", v.Len(), len(texts))
		return
	}
	for i, text := range texts {
		d.enter("", i)
		d.formText(s.elem, v.Index(i), text)
		d.leave()
	}
}

// formText reads one value.
func (d *reading) formText(s *shape, v reflect.Value, text string) {
	if !utf8.ValidString(text) {
		d.wrong("must be UTF-8")
		return
	}
	w := ""
	switch s.op {
	case shapePtr:
		v.Set(reflect.New(s.elem.typ))
		d.formText(s.elem, v.Elem(), text)
	case shapeBool:
		b, ok := boolOf(text)
		if v.SetBool(b); !ok {
			w = "must be true or false, not " + shorten(text)
		}
	case shapeInt, shapeUint, shapeFloat:
		if w = "must be " + s.noun() + ", not " + shorten(text); isJSONNumber(text) {
			w = s.number(v, text)
		}
	case shapeString, shapeTime, shapeText:
		w = s.fromString(v, []byte(text))
	case shapeBytes:
		v.SetBytes([]byte(text)) // a form needs no base64
	case shapeJSON:
		w = s.formJSON(v, text)
	default:
		w = "cannot be sent in a form; send it as JSON"
	}
	if w != "" {
		d.wrong("%s", w)
	}
}

// formJSON reads a form value into a type that implements json.Unmarshaler: as text if the type does that too,
// otherwise as a JSON string.
func (s *shape) formJSON(v reflect.Value, text string) string {
	if s.text {
		return s.fromString(v, []byte(text))
	}
	quoted, err := json.Marshal(text)
	if err == nil {
		err = json.Unmarshal(quoted, v.Addr().Interface())
	}
	if err != nil && json.Valid([]byte(text)) {
		err = json.Unmarshal([]byte(text), v.Addr().Interface())
	}
	if err != nil {
		return fmt.Sprintf("is invalid: %v", err)
	}
	return ""
}

// broken turns an error of a multipart form into a problem.
func broken(err error) error {
	if e := BodyError(err); engine.CodeOf(e) != problem.CodeBodyIncomplete {
		return e
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return engine.Errorf(problem.CodeBodyIncomplete, "the form is cut off: it does not end with its boundary")
	}
	return engine.Errorf(problem.CodeBodyIncomplete, "the form cannot be read: %w", err)
}
