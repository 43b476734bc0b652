package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/jsonscan"
	"github.com/skerrydb/skerry/web/problem"
)

// Bounds of what Bind reads besides the bytes of the body.
const (
	// MaxFaults is how many mistakes in one request are reported; others are
	// omitted.
	MaxFaults = 32
	// MaxDepth is how deeply objects and lists may be nested.
	MaxDepth = 64
	// MaxFormFields is the maximum number of fields of a form.
	MaxFormFields = 1000
	// MaxBoundBytes is how much memory, in bytes, the lists, maps and pointers of
	// a body may use: those of [{},{},…] use much more than its text.
	MaxBoundBytes = 16 << 20
)

// Validator is implemented by values that check themselves. Bind calls Validate if everything else is right.
// Wrong and Mistakes make errors that name fields; an error without a code becomes engine.CodeInvalid with its
// text.
type Validator interface{ Validate() error }

// Bind reads the request's body into to, a pointer to a struct (for JSON: to anything). The Content-Type must
// be JSON, application/x-www-form-urlencoded, or multipart/form-data without files (for files see Uploads).
// Names are those that encoding/json uses, but case-sensitive.
//
// A field is required unless it is a pointer or its tag has omitempty or omitzero; if such a field is missing,
// to keeps its value. In a form, a missing bool is false and a missing list is empty, an empty value that is
// not text counts as missing, and the struct must not contain structs or maps. Bind refuses fields that are
// unknown, given twice, of another type or out of range, and values that are not UTF-8. It reports all of
// these (up to MaxFaults) in one problem.Faults, each with a JSON pointer. The valid fields are set even then,
// so that a page can show them again.
//
// Other errors are problem.CodeMediaType, CodeBodyTooLarge, CodeBodyIncomplete and CodeBodyTimeout, and
// engine.CodeInternal if to is of a type that cannot be read into.
func (c *Context) Bind(to any) error {
	media, err := c.bodyType("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
	if err != nil {
		return err
	}
	if strings.HasSuffix(media, "json") {
		body, err := c.ReadBody()
		if err != nil {
			return err
		}
		return c.x.app.bindJSON(body, to)
	}
	form, err := c.form()
	if err != nil {
		return err
	}
	return c.x.app.bindForm(form, to)
}

// bodyType returns the Content-Type of a body, which must be one of taken; application/json also stands for
// all types that end in +json.
func (c *Context) bodyType(taken ...string) (string, error) {
	r := c.Request
	if lines := r.Header["Content-Encoding"]; len(lines) > 0 && !strings.EqualFold(strings.Join(lines, ","), "identity") {
		return "", engine.Errorf(problem.CodeMediaType, "a body with Content-Encoding %s is not supported here: send the body unencoded", shorten(strings.Join(lines, ",")))
	}
	lines := r.Header["Content-Type"]
	if len(lines) != 1 {
		return "", engine.Errorf(problem.CodeMediaType, "the body must be %s, and Content-Type must name its type", alternatives(taken))
	}
	if lines[0] == taken[0] {
		return taken[0], nil
	}
	media, params, err := mime.ParseMediaType(lines[0])
	if charset := params["charset"]; err == nil && charset != "" && !strings.EqualFold(charset, "utf-8") {
		return "", engine.Errorf(problem.CodeMediaType, "the body must be UTF-8, not %s", shorten(charset))
	}
	for _, t := range taken {
		if err == nil && (media == t || t == "application/json" && strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")) {
			return media, nil
		}
	}
	return "", engine.Errorf(problem.CodeMediaType, "the body must be %s, not %s", alternatives(taken), shorten(lines[0]))
}

// fits refuses a body whose declared length is over the limit, before it is read.
func (c *Context) fits() error {
	b := &c.x.body
	if n := c.Request.ContentLength; c.Request.Body == b && n > b.limit {
		return engine.Errorf(problem.CodeBodyTooLarge, "the body has %d bytes, over the limit of %d", n, b.limit)
	}
	return nil
}

// bindJSON reads a JSON text into what to points to.
func (a *App) bindJSON(text []byte, to any) error {
	v, s, err := a.target(to)
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return Wrong("", "the body is empty, must be JSON")
	}
	if !utf8.Valid(text) {
		return Wrong("", "the body is not UTF-8 at byte %d", validUTF8(text))
	}
	if !jsonscan.Valid(text) {
		return Wrong("", "%s", notJSON(text))
	}
	d := &reading{Scanner: jsonscan.New(text), room: MaxBoundBytes}
	d.value(s, v)
	if d.faults != nil {
		return d.faults
	}
	return validate(to)
}

// target is what a pointer points to, with its shape.
func (a *App) target(to any) (reflect.Value, *shape, error) {
	v := reflect.ValueOf(to)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return v, nil, engine.Errorf(engine.CodeInternal, "web: a body must be read into a pointer, not into %T", to)
	}
	v = v.Elem()
	s, err := a.shapeOf(v.Type())
	if err != nil {
		return v, nil, engine.Errorf(engine.CodeInternal, "web: a body cannot be read into %T: %w", to, err)
	}
	return v, s, nil
}

// validUTF8 returns how many bytes at the beginning of text are valid.
func validUTF8(text []byte) (n int) {
	for n < len(text) {
		r, size := utf8.DecodeRune(text[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

// notJSON describes where a text stops being JSON.
func notJSON(text []byte) string {
	var raw json.RawMessage
	err := json.Unmarshal(text, &raw)
	e, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return "the body is not JSON"
	}
	before := string(text[:min(int(e.Offset), len(text))])
	line := strings.Count(before, "\n") + 1
	return fmt.Sprintf("the body is not JSON, at line %d, byte %d: %v", line, e.Offset, e)
}

// validate calls Validate on what was read, if it is a Validator.
func validate(to any) error {
	v, ok := to.(Validator)
	if !ok {
		return nil
	}
	err := v.Validate()
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*engine.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[problem.WithStatus](err); ok {
		return err
	}
	return engine.Errorf(engine.CodeInvalid, "%w", err)
}
