package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
	"github.com/skerrydb/skerry/web"
)

const (
	maxFormValues = 20_000 // values of one form
	maxChecks     = 20     // options of a select of several that are check boxes; more are a list
)

// A form of a record has the parts f.NAME for the text of each field, n.NAME if an empty text means null, and m.NAME if an empty
// selection is one.

// formOf reads a form. Forms of records can have more values than package web allows.
func formOf(c *web.Context) (url.Values, error) {
	body, err := c.ReadBody()
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(body, []byte("&")); n > maxFormValues {
		return nil, engine.Errorf(engine.CodeLimit, "the form has %d values, the limit is %d", n, maxFormValues)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, web.Wrong("", "the form is malformed: %v", err)
	}
	return form, nil
}

// plain returns a text with the line ends that a form sends as \r\n as \n.
func plain(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// formField is an input of a form.
type formField struct {
	Name, Label, Hint, Kind, Mode string // Kind: line, area, code, bool, select, many, list, reference, password
	Value                         string
	Null, Required, Has           bool // Has: there is a password
	Options                       []formOption
	Collection                    string // that it refers to
	Problem                       string
	Theirs                        string // what somebody else has saved
	Differs                       bool   // Theirs counts
	Default                       string
}

// formOption is an option of a select.
type formOption struct {
	Text, Label string
	On          bool
}

// kindOf returns the kind of the input of a field, and the keyboard that suits it.
func kindOf(f *schema.Field) (kind, mode string) {
	switch f.Type {
	case schema.Text:
		return "area", ""
	case schema.Int, schema.Float, schema.Decimal:
		return "line", "decimal"
	case schema.Bool:
		return "bool", ""
	case schema.Email:
		return "line", "email"
	case schema.URL:
		return "line", "url"
	case schema.Phone:
		return "line", "tel"
	case schema.Select:
		switch {
		case !f.Many:
			return "select", ""
		case len(f.Options) > maxChecks:
			return "list", ""
		}
		return "many", ""
	case schema.JSON:
		return "code", ""
	case schema.Reference:
		return "reference", ""
	case schema.Password:
		return "password", ""
	}
	return "line", ""
}

// fieldsOf returns the inputs for a record, or for a new one if r is nil. Values in the form, if it is not nil, win.
func fieldsOf(k *schema.Compiled, r *record.Record, form url.Values) []formField {
	all := make([]formField, 0, len(k.Fields)+1)
	for i := range k.Fields {
		f := &k.Fields[i]
		in := formField{Name: f.Name, Label: f.Label, Hint: f.Hint, Required: f.Required, Collection: f.Collection, Null: true, Default: f.Default}
		if in.Label == "" {
			in.Label = f.Name
		}
		in.Kind, in.Mode = kindOf(f)
		var chosen []string
		if r != nil {
			v := r.Field(i)
			in.Null = v.IsNull()
			in.Value, chosen = textOf(f, v), selected(v)
			in.Has = !in.Null
		} else if f.Type == schema.Text && f.Required {
			in.Null = false
		}
		if form != nil && sent(form, f.Name) {
			in.Value, in.Null, chosen = form.Get("f."+f.Name), form.Has("n."+f.Name), form["f."+f.Name]
		}
		if f.Type == schema.Password {
			in.Value = ""
		}
		for _, o := range f.Options {
			in.Options = append(in.Options, formOption{o, o, slices.Contains(chosen, o) || !f.Many && in.Value == o})
		}
		if f.Type == schema.Bool {
			in.Options = []formOption{{"true", "true", in.Value == "true"}, {"false", "false", in.Value == "false"}}
		}
		all = append(all, in)
	}
	return all
}

// textOf returns the text of a value in a form.
func textOf(f *schema.Field, v value.Value) string {
	if f.Type == schema.Password || f.Many {
		return ""
	}
	if f.Type != schema.JSON || v.IsNull() {
		return printed(f, v)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, v.AppendJSON(nil), "", "  "); err != nil {
		return string(v.AppendJSON(nil))
	}
	return b.String()
}

// timeLayout is how pages show times and take them, in UTC; microseconds are left out if there are none.
const timeLayout = "2006-01-02 15:04:05.999999"

// printed returns the text of a value for people: decimals have all digits that the field has, times are short.
func printed(f *schema.Field, v value.Value) string {
	text := v.String()
	if at, ok := v.Time(); ok && f.Type == schema.Time {
		return at.Format(timeLayout)
	}
	if f.Type != schema.Decimal || f.Scale == 0 || v.IsNull() {
		return text
	}
	whole, digits, _ := strings.Cut(text, ".")
	return whole + "." + digits + strings.Repeat("0", max(0, f.Scale-len(digits)))
}

// selected returns the options of a select of several.
func selected(v value.Value) []string {
	texts, _ := v.Texts()
	return texts
}

// sent reports whether a form has a field.
func sent(form url.Values, name string) bool { return form.Has("f."+name) || form.Has("m."+name) }

// patchOf returns the merge patch that a form makes of a record, or of nothing if r is nil. Fields that the form leaves as they
// are, are not in it: a form cannot tell all line ends, nor the null in a JSON object.
func patchOf(k *schema.Compiled, form url.Values, r *record.Record) ([]byte, error) {
	patch := []byte{'{'}
	var bad schema.Problems
	for i := range k.Fields {
		f := &k.Fields[i]
		if !sent(form, f.Name) {
			continue
		}
		var old value.Value
		if r != nil {
			old = r.Field(i)
		}
		raw, changed, err := fieldPatch(f, old, form)
		if err != nil {
			bad = append(bad, schema.Problem{Pointer: schema.Pointer(f.Name), Code: schema.CodeInvalid, Detail: err.Error()})
		}
		if !changed || err != nil {
			continue
		}
		if len(patch) > 1 {
			patch = append(patch, ',')
		}
		patch = append(value.AppendText(patch, f.Name), ':')
		patch = append(patch, raw...)
	}
	extra, err := extraPatch(k, form, r)
	if err != nil {
		bad = append(bad, schema.Problem{Pointer: extraPart, Code: schema.CodeInvalid, Detail: err.Error()})
	}
	if len(extra) > 0 && len(patch) > 1 {
		patch = append(patch, ',')
	}
	patch = append(patch, extra...)
	if bad != nil {
		return nil, engine.Errorf(record.CodeInvalid, "invalid record of %s: %w", k.Name, bad)
	}
	return append(patch, '}'), nil
}

// extraPart is the part of a form that has the members that are no fields, as a JSON object.
const extraPart = "extra"

// extraOf returns the members of a record that are no fields, as a JSON object with an indent; "" if there are none.
func extraOf(r *record.Record) string {
	var all map[string]json.RawMessage
	k := r.Collection()
	if !k.Extra || json.Unmarshal(k.AppendPublic(nil, r.Data), &all) != nil {
		return ""
	}
	for name := range all {
		if _, isField := k.Index(name); isField {
			delete(all, name)
		}
	}
	if len(all) == 0 {
		return ""
	}
	raw, err := encode(all)
	if err != nil {
		return ""
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// encode returns an object as JSON, without the escapes that JSON within HTML needs.
func encode(all map[string]json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(all)
	return bytes.TrimSpace(b.Bytes()), err
}

// extraPatch returns the members of a merge patch, without braces, for what a form says about members that are no fields.
func extraPatch(k *schema.Compiled, form url.Values, r *record.Record) ([]byte, error) {
	if !k.Extra || !form.Has(extraPart) {
		return nil, nil
	}
	old := ""
	if r != nil {
		old = extraOf(r)
	}
	text := strings.TrimSpace(plain(form.Get(extraPart)))
	if text == old {
		return nil, nil
	}
	var is map[string]json.RawMessage
	if err := json.Unmarshal([]byte(cmp.Or(text, "{}")), &is); err != nil || is == nil {
		return nil, engine.Errorf(engine.CodeInvalid, "must be a JSON object, as {\"name\": 1}")
	}
	for name := range is {
		if _, isField := k.Index(name); isField {
			return nil, engine.Errorf(engine.CodeInvalid, "%q is a field; change it above", name)
		}
	}
	patch, err := mergePatch([]byte(cmp.Or(old, "{}")), []byte(cmp.Or(text, "{}")))
	if err != nil {
		return nil, err
	}
	return patch[1 : len(patch)-1], nil
}

// fieldPatch returns the JSON that a merge patch needs to give a field the value of a form, and whether that is another one.
func fieldPatch(f *schema.Field, old value.Value, form url.Values) (raw []byte, changed bool, err error) {
	null := []byte("null")
	text := plain(form.Get("f." + f.Name))
	switch {
	case f.Type == schema.Password:
		if text == "" {
			return null, form.Has("n." + f.Name), nil
		}
	case f.Many:
		texts := form["f."+f.Name]
		if len(texts) == 0 {
			return null, !old.IsNull(), nil
		}
		v, err := json.Marshal(texts)
		return v, true, err
	case text == "" && (f.Type != schema.Text || form.Has("n."+f.Name)):
		return null, !old.IsNull(), nil
	}
	if !old.IsNull() && f.Type != schema.Password && plain(textOf(f, old)) == text {
		return nil, false, nil
	}
	raw, err = rawOf(f, text)
	if err == nil && f.Type == schema.JSON && !old.IsNull() {
		raw, err = mergePatch(old.AppendJSON(nil), raw)
	}
	return raw, true, err
}

// rawOf returns a text of a form as the JSON that a field takes. What is malformed becomes a text, of which the field then says what
// is wrong with it.
func rawOf(f *schema.Field, text string) ([]byte, error) {
	bare := strings.TrimSpace(text)
	switch f.Type {
	case schema.Int, schema.Float, schema.Decimal, schema.Bool:
		if json.Valid([]byte(bare)) && !strings.ContainsAny(bare, `"[{`) {
			return []byte(bare), nil
		}
		text = bare
	case schema.Time:
		text = readTime(text)
	case schema.Email, schema.URL, schema.Phone, schema.Reference:
		text = bare
	case schema.JSON:
		if !json.Valid([]byte(bare)) {
			var v any
			err := json.Unmarshal([]byte(bare), &v)
			if at, ok := errors.AsType[*json.SyntaxError](err); ok {
				m := mark(bare, int(at.Offset)-1)
				return nil, engine.Errorf(engine.CodeInvalid, "not JSON: %w, at character %d, before %.30q; a text needs quotes around it", err, m.Pos, m.At+m.After)
			}
			return nil, engine.Errorf(engine.CodeInvalid, "not JSON: %w", err)
		}
		return []byte(bare), nil
	}
	if _, err := value.OfText(text); err != nil {
		return nil, err
	}
	return value.AppendText(nil, text), nil
}

// mergePatch returns the JSON merge patch that makes to of from.
func mergePatch(from, to []byte) ([]byte, error) {
	var was, is map[string]json.RawMessage
	if json.Unmarshal(from, &was) != nil || json.Unmarshal(to, &is) != nil || was == nil || is == nil {
		return to, nil
	}
	patch := map[string]json.RawMessage{}
	for name := range was {
		if _, kept := is[name]; !kept {
			patch[name] = json.RawMessage("null")
		}
	}
	for name, v := range is {
		old, had := was[name]
		if had && bytes.Equal(compact(old), compact(v)) {
			continue
		}
		if had {
			var err error
			if v, err = mergePatch(old, v); err != nil {
				return nil, err
			}
		}
		patch[name] = v
	}
	return encode(patch)
}

func compact(raw []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// blame gives fields the problems that an error has with them, and returns those that belong to no field.
func blame(fields []formField, err error) (rest []string) {
	problems, _ := errors.AsType[schema.Problems](err)
	for _, p := range problems {
		found := false
		for i := range fields {
			if pointer := schema.Pointer(fields[i].Name); p.Pointer == pointer || strings.HasPrefix(p.Pointer, pointer+"/") {
				fields[i].Problem, found = p.Detail, true
			}
		}
		if !found {
			rest = append(rest, strings.TrimSpace(p.Pointer+" "+p.Detail))
		}
	}
	return rest
}
