package web

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// Value is one named value of a request: of its path, query or form. Its getters return the value as a type,
// or a problem that names it: if it is missing (or empty, except for Text), given more than once, or of
// another type. Getting a valid value without escapes does not allocate.
type Value struct {
	c     *Context
	name  string
	text  string // the first one
	n     int    // how many there are
	from  source
	wrong bool  // one of them has a malformed escape
	err   error // why there is none
}

// source is the part of the request that a Value comes from.
type source uint8

const (
	fromPath source = iota
	fromQuery
	fromForm
)

// Path returns the value of {name} in the route's pattern.
func (c *Context) Path(name string) Value {
	v := Value{c: c, name: name, from: fromPath, text: c.Request.PathValue(name), n: 1}
	if v.text == "" && !strings.Contains(c.Request.Pattern, "{"+name) {
		v.err = engine.Errorf(engine.CodeInternal, "web: Path(%q), but the pattern is %q", name, c.Request.Pattern)
	}
	return v
}

// Query returns the parameter name of the request's query (?name=value).
func (c *Context) Query(name string) Value {
	v := Value{c: c, name: name, from: fromQuery}
	for text, ok := range parameters(c.Request.URL.RawQuery, name) {
		if v.n++; v.n == 1 {
			v.text = text
		}
		v.wrong = v.wrong || !ok
	}
	return v
}

// parameters yields the values of one parameter of a query; ok is false for a malformed one.
func parameters(query, name string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for query != "" {
			var pair string
			pair, query, _ = strings.Cut(query, "&")
			key, text, _ := strings.Cut(pair, "=")
			if key != name {
				if !strings.ContainsAny(key, "%+") {
					continue
				}
				if k, err := url.QueryUnescape(key); err != nil || k != name {
					continue
				}
			}
			// net/http refuses semicolons, which some proxies treat as &.
			ok := !strings.Contains(pair, ";")
			if strings.ContainsAny(text, "%+") {
				var err error
				text, err = url.QueryUnescape(text)
				ok = ok && err == nil
			}
			if !yield(text, ok) {
				return
			}
		}
	}
}

// Form returns the field name of the form in the request's body: application/x-www-form-urlencoded, or
// multipart/form-data without files. The first call reads the whole body. If the body is neither, or
// malformed, each getter returns that error.
func (c *Context) Form(name string) Value {
	v := Value{c: c, name: name, from: fromForm}
	form, err := c.form()
	if err != nil {
		v.err = err
		return v
	}
	texts := form[name]
	if v.n = len(texts); v.n > 0 {
		v.text = texts[0]
	}
	return v
}

// Or sets the default that is used if the value is missing or empty.
func (v Value) Or(text string) Value {
	if v.err == nil && v.n <= 1 && v.text == "" && !v.wrong {
		v.text, v.n = text, 1
	}
	return v
}

// Given reports whether the request has the value; it may be empty.
func (v Value) Given() bool { return v.n > 0 }

// String returns the value, the first one if there are several, and "" if it is missing or malformed. Text
// distinguishes these.
func (v Value) String() string {
	if v.err != nil || v.wrong {
		return ""
	}
	return v.text
}

// fault returns a fault of the value. The text begins with a verb.
func (v Value) fault(format string, args ...any) error {
	f := problem.Fault{Code: engine.CodeInvalid, Detail: fmt.Sprintf(format, args...)}
	if v.from == fromForm {
		f.Pointer = "/" + escapePointer(v.name)
	} else {
		f.Parameter = v.name
	}
	return problem.Faults{f}
}

// one returns the text of a value that must be given exactly once.
func (v Value) one() (string, error) {
	switch {
	case v.err != nil:
		return "", v.err
	case v.n == 0:
		return "", v.fault("is missing")
	case v.wrong:
		return "", v.fault("has a malformed percent-encoding, or a semicolon that is not written %%3B")
	case v.n > 1:
		return "", v.fault("is given %d times, must be once", v.n)
	}
	return v.text, nil
}

// some is like one, but the text must not be empty.
func (v Value) some() (string, error) {
	text, err := v.one()
	if err == nil && text == "" {
		err = v.fault("is missing")
	}
	return text, err
}

// Text returns a value that must be given and be valid UTF-8, and may be empty.
func (v Value) Text() (string, error) {
	text, err := v.one()
	if err == nil && !utf8.ValidString(text) {
		return "", v.fault("must be UTF-8")
	}
	return text, err
}

// OneOf returns a value that must be one of texts.
func (v Value) OneOf(texts ...string) (string, error) {
	text, err := v.some()
	if err != nil || slices.Contains(texts, text) {
		return text, err
	}
	return "", v.fault("must be %s, not %s", alternatives(texts), shorten(text))
}

// Int64 returns an integer.
func (v Value) Int64() (int64, error) {
	text, err := v.some()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, v.number(err, "a whole number", text)
	}
	return n, nil
}

// Int64In returns an integer from lo to hi, inclusive.
func (v Value) Int64In(lo, hi int64) (int64, error) {
	n, err := v.Int64()
	if err == nil && (n < lo || n > hi) {
		return 0, v.fault("must be %d to %d, not %d", lo, hi, n)
	}
	return n, err
}

// Float64 returns a decimal number that is neither infinite nor NaN.
func (v Value) Float64() (float64, error) {
	text, err := v.some()
	if err != nil {
		return 0, err
	}
	if strings.Trim(text, "0123456789+-.eE") != "" {
		return 0, v.number(strconv.ErrSyntax, "a number", text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, v.number(err, "a number", text)
	}
	return f, nil
}

// number returns why a text is not a valid number.
func (v Value) number(err error, kind, text string) error {
	if e, ok := err.(*strconv.NumError); ok && e.Err == strconv.ErrRange { //nolint:errorlint // as strconv returns it
		return v.fault("is out of the range of 64 bits")
	}
	return v.fault("must be %s, not %s", kind, shorten(text))
}

// Bool returns true for true, 1 and on, which browsers send for a checked box, and false for false, 0 and off.
// For an unchecked box browsers send nothing: use c.Form("agree").Or("off").Bool().
func (v Value) Bool() (bool, error) {
	text, err := v.some()
	if err != nil {
		return false, err
	}
	b, ok := boolOf(text)
	if !ok {
		return false, v.fault("must be true or false, not %s", shorten(text))
	}
	return b, nil
}

func boolOf(text string) (value, ok bool) {
	switch text {
	case "true", "1", "on":
		return true, true
	case "false", "0", "off":
		return false, true
	}
	return false, false
}

// Time returns a time in the first of the layouts (see time.Layout) that fits; the default layout is RFC 3339,
// as in 2006-01-02T15:04:05Z.
func (v Value) Time(layouts ...string) (time.Time, error) {
	text, err := v.some()
	if err != nil {
		return time.Time{}, err
	}
	if len(layouts) == 0 {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return t, v.fault("must be a time as 2006-01-02T15:04:05Z (RFC 3339), not %s", shorten(text))
		}
		return t, nil
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, v.fault("must be a time as %s, not %s", alternatives(layouts), shorten(text))
}

// JSON unmarshals a value into to, a pointer, by the rules of Bind.
func (v Value) JSON(to any) error {
	text, err := v.some()
	if err != nil {
		return err
	}
	err = v.c.x.app.bindJSON([]byte(text), to)
	if faults, ok := err.(problem.Faults); ok { //nolint:errorlint // as bindJSON returns it
		for i := range faults { // their positions are within the value
			f := &faults[i]
			if f.Detail = strings.TrimPrefix(f.Detail, "the body "); f.Pointer != "" {
				f.Detail = "at " + f.Pointer + ": " + f.Detail
			}
			f.Pointer, f.Parameter = "", v.name
			if v.from == fromForm {
				f.Pointer, f.Parameter = "/"+escapePointer(v.name), ""
			}
		}
	}
	return err
}

// All yields each value of a name that may be given any number of times.
func (v Value) All() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		one := v
		switch {
		case v.err != nil:
			yield(v) // each getter says it
		case v.n <= 1:
			if v.n == 1 {
				yield(v)
			}
		case v.from == fromForm:
			form, _ := v.c.form()
			for _, one.text = range form[v.name] {
				if one.n = 1; !yield(one) {
					return
				}
			}
		default:
			for text, ok := range parameters(v.c.Request.URL.RawQuery, v.name) {
				if one.text, one.wrong, one.n = text, !ok, 1; !yield(one) {
					return
				}
			}
		}
	}
}

// Texts returns all values of a name that may be given any number of times.
func (v Value) Texts() ([]string, error) {
	var texts []string
	for one := range v.All() {
		text, err := one.Text()
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// Mistakes collects all faults of one request, so that the client gets them in one response:
//
//	var m web.Mistakes
//	id := m.Int64(c.Path("id"))
//	since := m.Time(c.Query("since"))
//	if err := m.Err(); err != nil {
//		return err
//	}
//
// The zero value is empty. Its methods return the zero value if a value is wrong.
type Mistakes struct {
	faults problem.Faults
	err    error // the first one that is not Faults
}

// Add adds err if it is not nil, including the faults of Bind.
func (m *Mistakes) Add(err error) {
	faults, ok := err.(problem.Faults) //nolint:errorlint // a wrapped one says more than its faults
	switch {
	case ok:
		m.faults = append(m.faults, faults[:min(len(faults), max(0, MaxFaults-len(m.faults)))]...)
	case err != nil && m.err == nil:
		m.err = err
	}
}

// Field adds a fault of the field of the body at a JSON pointer, for example "/age".
func (m *Mistakes) Field(pointer, format string, args ...any) {
	m.Add(Wrong(pointer, format, args...))
}

// Err returns all faults as one error, or nil if there are none.
func (m *Mistakes) Err() error {
	switch {
	case m.err != nil:
		return m.err
	case m.faults != nil:
		return m.faults
	}
	return nil
}

// take returns v and adds its error.
func take[T any](m *Mistakes, v T, err error) T {
	m.Add(err)
	return v
}

// Text is Value.Text.
func (m *Mistakes) Text(v Value) string {
	got, err := v.Text()
	return take(m, got, err)
}

// OneOf is Value.OneOf.
func (m *Mistakes) OneOf(v Value, texts ...string) string {
	got, err := v.OneOf(texts...)
	return take(m, got, err)
}

// Int64 is Value.Int64.
func (m *Mistakes) Int64(v Value) int64 {
	got, err := v.Int64()
	return take(m, got, err)
}

// Int64In is Value.Int64In.
func (m *Mistakes) Int64In(v Value, lo, hi int64) int64 {
	got, err := v.Int64In(lo, hi)
	return take(m, got, err)
}

// Float64 is Value.Float64.
func (m *Mistakes) Float64(v Value) float64 {
	got, err := v.Float64()
	return take(m, got, err)
}

// Bool is Value.Bool.
func (m *Mistakes) Bool(v Value) bool {
	got, err := v.Bool()
	return take(m, got, err)
}

// Time is Value.Time.
func (m *Mistakes) Time(v Value, layouts ...string) time.Time {
	got, err := v.Time(layouts...)
	return take(m, got, err)
}

// Texts is Value.Texts.
func (m *Mistakes) Texts(v Value) []string {
	got, err := v.Texts()
	return take(m, got, err)
}

// JSON is Value.JSON.
func (m *Mistakes) JSON(v Value, to any) { m.Add(v.JSON(to)) }

// alternatives lists texts for people.
func alternatives(texts []string) string { return strings.Join(texts, " or ") }

// shorten quotes the beginning of a client's text.
func shorten(text string) string {
	if len(text) > 40 {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(text[:40], ""))
	}
	return fmt.Sprintf("%q", text)
}

// escapePointer escapes a name for a JSON pointer (RFC 6901).
func escapePointer(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// isJSONNumber reports whether text is a JSON number.
func isJSONNumber(text string) bool {
	return text != "" && (text[0] == '-' || text[0] >= '0' && text[0] <= '9') && json.Valid([]byte(text)) && strings.TrimSpace(text) == text
}
