package proc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/jsonscan"
)

// ArgumentError reports which argument is invalid. It wraps an engine.Error with
// CodeInvalid or CodeLimit.
type ArgumentError struct {
	Pointer string // JSON pointer into the arguments, e.g. "/phone"; "" means all of them
	Err     *engine.Error
}

// Error returns the text of Err.
func (e *ArgumentError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ArgumentError) Unwrap() error { return e.Err }

// fault is an ArgumentError under construction: each level adds its name to the path.
type fault struct {
	path []string // innermost first
	code engine.Code
	text string
}

func wrong(format string, args ...any) *fault {
	return &fault{code: engine.CodeInvalid, text: fmt.Sprintf(format, args...)}
}

// in adds name, the part of the value in which f occurred, to the path.
func (f *fault) in(name string) *fault {
	f.path = append(f.path, name)
	return f
}

// err converts f to an error, or nil to nil.
func (f *fault) err() error {
	if f == nil {
		return nil
	}
	slices.Reverse(f.path)
	var pointer strings.Builder
	for _, name := range f.path {
		pointer.WriteByte('/')
		pointer.WriteString(strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1"))
	}
	text := f.text
	if len(f.path) > 0 {
		text = "argument " + strings.Join(f.path, ".") + " " + text
	}
	return &ArgumentError{Pointer: pointer.String(), Err: engine.Errorf(f.code, "%s", text)}
}

// decodeText sets the arguments from positional text; see Call.Arguments.
func (d *definition) decodeText(in reflect.Value, args [][]byte) error {
	total := 0
	for _, a := range args {
		total += len(a)
	}
	if err := checkSize(total); err != nil {
		return err
	}
	fields := d.args.fields
	if len(args) == 1 && len(args[0]) > 0 && args[0][0] == '{' && !d.takesObject() {
		return d.decodeJSON(in, args[0])
	}
	in.SetZero()
	if len(args) > len(fields) {
		return wrong("%s, not %d", d.takes(), len(args)).err()
	}
	c := cursor{room: MaxArgMemory}
	for i := range fields {
		f := &fields[i]
		if i >= len(args) {
			if !f.optional {
				return wrong("is missing: %s, not %d", d.takes(), len(args)).in(f.name).err()
			}
			continue
		}
		if len(args[i]) == 0 && f.emptyIsNone() {
			continue
		}
		v, w := f.make(in, &c)
		if w == nil {
			w = f.plan.fromText(v, args[i], &c)
		}
		if w != nil {
			return w.in(f.name).err()
		}
	}
	return nil
}

// takesObject reports whether text for the only argument may itself begin with {.
func (d *definition) takesObject() bool {
	if len(d.args.fields) != 1 {
		return false
	}
	switch d.args.fields[0].plan.schema.Kind {
	case KindString, KindBytes, KindJSON:
		return true
	}
	return false
}

// emptyIsNone reports whether empty text omits the argument or means null.
func (f *field) emptyIsNone() bool {
	switch f.plan.op {
	case opPtr, opList, opMap:
		return true
	case opString, opBytes, opText:
		return false
	}
	return f.optional
}

// takes describes the arguments of the procedure for errors.
func (d *definition) takes() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s takes %d arguments", d.schema.Name, len(d.args.fields))
	if len(d.args.fields) == 1 {
		b.Reset()
		fmt.Fprintf(&b, "%s takes one argument", d.schema.Name)
	}
	for i := range d.args.fields {
		if i == 20 {
			b.WriteString(", …")
			break
		}
		b.WriteString([]string{" (", ", "}[min(i, 1)])
		b.WriteString(d.args.fields[i].name)
	}
	if len(d.args.fields) > 0 {
		b.WriteByte(')')
	}
	return b.String()
}

func checkSize(n int) error {
	if n <= MaxArgBytes {
		return nil
	}
	f := &fault{code: engine.CodeLimit, text: fmt.Sprintf("the arguments have %d bytes, over the limit of %d", n, MaxArgBytes)}
	return f.err()
}

// fromText sets v from the text of one positional argument.
func (p *plan) fromText(v reflect.Value, text []byte, c *cursor) *fault {
	switch p.op {
	case opBool:
		switch string(text) {
		case "true", "1":
			v.SetBool(true)
		case "false", "0":
			v.SetBool(false)
		default:
			return wrong("must be true, false, 1 or 0")
		}
		return nil
	case opInt, opUint, opFloat:
		if p.op != opFloat && p.shortInteger(v, text) {
			return nil
		}
		if !isNumber(text) {
			return p.mustBe(quoted(text))
		}
		return p.number(v, text)
	case opString:
		v.SetString(string(text))
		return nil
	case opBytes:
		v.SetBytes(append(make([]byte, 0, len(text)), text...))
		return nil
	case opTime:
		return p.time(v, text)
	case opText:
		return p.ownText(v, text)
	case opPtr:
		if len(text) == 0 {
			return nil
		}
		if w := c.pointTo(v); w != nil {
			return w
		}
		return p.elem.fromText(v.Elem(), text, c)
	case opJSON:
		if !json.Valid(text) {
			return wrong("is not JSON")
		}
	}
	if !json.Valid(text) {
		return wrong("must be %s as JSON", p.noun())
	}
	c.Scanner = jsonscan.New(text)
	return c.value(p, v)
}

// decodeJSON sets the arguments from a JSON object; see Call.JSON.
func (d *definition) decodeJSON(in reflect.Value, body []byte) error {
	if err := checkSize(len(body)); err != nil {
		return err
	}
	in.SetZero()
	body = bytes.Trim(body, " \t\r\n")
	switch {
	case len(body) == 0: // the same as {}
		body = []byte("{}")
	case !json.Valid(body):
		var any json.RawMessage
		return wrong("the arguments are not JSON: %v", json.Unmarshal(body, &any)).err()
	case body[0] != '{':
		return wrong("the arguments must be a JSON object, not %s", jsonscan.Kind(body[0])).err()
	}
	c := cursor{Scanner: jsonscan.New(body), room: MaxArgMemory}
	if d.args.op == opNull {
		return c.object(&plan{op: opObject}, in).err()
	}
	return c.object(d.args, in).err()
}

// noun describes the required kind of value for errors.
func (p *plan) noun() string {
	switch p.op {
	case opNull:
		return "null or an empty object"
	case opBool:
		return "true or false"
	case opInt, opUint:
		return "an integer"
	case opFloat:
		return "a number"
	case opString, opText:
		return "a string"
	case opBytes:
		return "a string of base64"
	case opTime:
		return "a time as 2006-01-02T15:04:05Z (RFC 3339)"
	case opList, opArray:
		return "a list"
	case opMap, opObject:
		return "an object"
	case opPtr:
		return p.elem.noun() + " or null"
	}
	return "JSON"
}

// mustBe returns the fault for a value of another kind.
func (p *plan) mustBe(not string) *fault { return wrong("must be %s, not %s", p.noun(), not) }

// quoted returns the beginning of text in quotes.
func quoted(text []byte) string {
	if len(text) > 40 {
		return fmt.Sprintf("%q…", text[:40])
	}
	return fmt.Sprintf("%q", text)
}
