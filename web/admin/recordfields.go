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

// recordFormOf reads a form. Forms of records can have more values than package web allows.
func recordFormOf(c *web.Context) (url.Values, error) {
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

// plainText returns a text with the line ends that a form sends as \r\n as \n.
func plainText(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// recordInput is an input of a form.
type recordInput struct {
	Name, Label, Hint, Kind, Mode string // Kind: line, area, code, bool, select, many, list, reference, password
	Value                         string
	Null, Required, Has           bool // Has: there is a password
	Options                       []recordOption
	Collection                    string // that it refers to
	Problem                       string
	Theirs                        string // what somebody else has saved
	Differs                       bool   // Theirs counts
	Default                       string
}

// recordOption is an option of a select.
type recordOption struct {
	Text, Label string
	On          bool
}

// fieldKind returns the kind of the input of a field, and the keyboard that suits it.
func fieldKind(f *schema.Field) (kind, mode string) {
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
func fieldsOf(k *schema.Compiled, r *record.Record, form url.Values) []recordInput {
	all := make([]recordInput, 0, len(k.Fields)+1)
	for i := range k.Fields {
		f := &k.Fields[i]
		in := recordInput{Name: f.Name, Label: f.Label, Hint: f.Hint, Required: f.Required, Collection: f.Collection, Null: true, Default: f.Default}
		if in.Label == "" {
			in.Label = f.Name
		}
		in.Kind, in.Mode = fieldKind(f)
		var chosen []string
		if r != nil {
			v := r.Field(i)
			in.Null = v.IsNull()
			in.Value, chosen = fieldText(f, v), selectedOptions(v)
			in.Has = !in.Null
		} else if f.Type == schema.Text && f.Required {
			in.Null = false
		}
		if form != nil && sentField(form, f.Name) {
			in.Value, in.Null, chosen = form.Get("f."+f.Name), form.Has("n."+f.Name), form["f."+f.Name]
		}
		if f.Type == schema.Password {
			in.Value = ""
		}
		for _, o := range f.Options {
			in.Options = append(in.Options, recordOption{o, o, slices.Contains(chosen, o) || !f.Many && in.Value == o})
		}
		if f.Type == schema.Bool {
			in.Options = []recordOption{{"true", "true", in.Value == "true"}, {"false", "false", in.Value == "false"}}
		}
		all = append(all, in)
	}
	return all
}

// fieldText returns the text of a value in a form.
func fieldText(f *schema.Field, v value.Value) string {
	if f.Type == schema.Password || f.Many {
		return ""
	}
	if f.Type != schema.JSON || v.IsNull() {
		return printedValue(f, v)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, v.AppendJSON(nil), "", "  "); err != nil {
		return string(v.AppendJSON(nil))
	}
	return b.String()
}

// recordTimeLayout is how pages show times and take them, in UTC; microseconds are left out if there are none.
const recordTimeLayout = "2006-01-02 15:04:05.999999"

// printedValue returns the text of a value for people: decimals have all digits that the field has, times are short.
func printedValue(f *schema.Field, v value.Value) string {
	text := v.String()
	if at, ok := v.Time(); ok && f.Type == schema.Time {
		return at.Format(recordTimeLayout)
	}
	if f.Type != schema.Decimal || f.Scale == 0 || v.IsNull() {
		return text
	}
	whole, digits, _ := strings.Cut(text, ".")
	return whole + "." + digits + strings.Repeat("0", max(0, f.Scale-len(digits)))
}

// selectedOptions returns the options of a select of several.
func selectedOptions(v value.Value) []string {
	texts, _ := v.Texts()
	return texts
}

// sentField reports whether a form has a field.
func sentField(form url.Values, name string) bool { return form.Has("f."+name) || form.Has("m."+name) }

// patchOf returns the merge patch that a form makes of a record, or of nothing if r is nil. Fields that the form leaves as they
// are, are not in it: a form cannot tell all line ends, nor the null in a JSON object.
func patchOf(k *schema.Compiled, form url.Values, r *record.Record) ([]byte, error) {
	patch := []byte{'{'}
	var bad schema.Problems
	for i := range k.Fields {
		f := &k.Fields[i]
		if !sentField(form, f.Name) {
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
		bad = append(bad, schema.Problem{Pointer: recordExtraPart, Code: schema.CodeInvalid, Detail: err.Error()})
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

// recordExtraPart is the part of a form that has the members that are no fields, as a JSON object.
const recordExtraPart = "extra"

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
	raw, err := encodeMembers(all)
	if err != nil {
		return ""
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// encodeMembers returns an object as JSON, without the escapes that JSON within HTML needs.
func encodeMembers(all map[string]json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(all)
	return bytes.TrimSpace(b.Bytes()), err
}

// extraPatch returns the members of a merge patch, without braces, for what a form says about members that are no fields.
func extraPatch(k *schema.Compiled, form url.Values, r *record.Record) ([]byte, error) {
	if !k.Extra || !form.Has(recordExtraPart) {
		return nil, nil
	}
	old := ""
	if r != nil {
		old = extraOf(r)
	}
	text := strings.TrimSpace(plainText(form.Get(recordExtraPart)))
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
	patch, err := jsonMergePatch([]byte(cmp.Or(old, "{}")), []byte(cmp.Or(text, "{}")))
	if err != nil {
		return nil, err
	}
	return patch[1 : len(patch)-1], nil
}

// fieldPatch returns the JSON that a merge patch needs to give a field the value of a form, and whether that is another one.
func fieldPatch(f *schema.Field, old value.Value, form url.Values) (raw []byte, changed bool, err error) {
	null := []byte("null")
	text := plainText(form.Get("f." + f.Name))
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
	if !old.IsNull() && f.Type != schema.Password && plainText(fieldText(f, old)) == text {
		return nil, false, nil
	}
	raw, err = fieldJSON(f, text)
	if err == nil && f.Type == schema.JSON && !old.IsNull() {
		raw, err = jsonMergePatch(old.AppendJSON(nil), raw)
	}
	return raw, true, err
}

// fieldJSON returns a text of a form as the JSON that a field takes. What is malformed becomes a text, of which the field then says what
// is wrong with it.
func fieldJSON(f *schema.Field, text string) ([]byte, error) {
	bare := strings.TrimSpace(text)
	switch f.Type {
	case schema.Int, schema.Float, schema.Decimal, schema.Bool:
		if json.Valid([]byte(bare)) && !strings.ContainsAny(bare, `"[{`) {
			return []byte(bare), nil
		}
		text = bare
	case schema.Time:
		text = readRecordTime(text)
	case schema.Email, schema.URL, schema.Phone, schema.Reference:
		text = bare
	case schema.JSON:
		if !json.Valid([]byte(bare)) {
			var v any
			err := json.Unmarshal([]byte(bare), &v)
			if at, ok := errors.AsType[*json.SyntaxError](err); ok {
				m := markFault(bare, int(at.Offset)-1)
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

// jsonMergePatch returns the JSON merge patch that makes to of from.
func jsonMergePatch(from, to []byte) ([]byte, error) {
	var was, is map[string]json.RawMessage
	if json.Unmarshal(from, &was) != nil || json.Unmarshal(to, &is) != nil || was == nil || is == nil {
		return to, nil //nolint:nilerr // what is no object is replaced
	}
	patch := map[string]json.RawMessage{}
	for name := range was {
		if _, kept := is[name]; !kept {
			patch[name] = json.RawMessage("null")
		}
	}
	for name, v := range is {
		old, had := was[name]
		if had && bytes.Equal(compactJSON(old), compactJSON(v)) {
			continue
		}
		if had {
			var err error
			if v, err = jsonMergePatch(old, v); err != nil {
				return nil, err
			}
		}
		patch[name] = v
	}
	return encodeMembers(patch)
}

func compactJSON(raw []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// blameFields gives fields the problems that an error has with them, and returns those that belong to no field.
func blameFields(fields []recordInput, err error) (rest []string) {
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
