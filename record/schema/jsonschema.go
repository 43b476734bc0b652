package schema

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/skerrydb/skerry/record/value"
)

// Form says what data a JSON Schema describes.
type Form int

// The forms of a record's data.
const (
	ReadForm   Form = iota // what clients receive: no nulls, no passwords
	CreateForm             // what they send to create a record
	PatchForm              // what they send to change one: a JSON merge patch
)

// IDPattern is the regular expression of the ids of records, for JSON Schema and for PostgreSQL.
const IDPattern = "^[A-Za-z0-9_-]{1,64}$"

// JSONSchema returns a JSON Schema (draft 2020-12, as used by OpenAPI 3.1) for the data of a collection's records. It
// omits bounds of decimals, times and json, which JSON Schema cannot express.
func JSONSchema(k *Compiled, form Form) map[string]any {
	properties := map[string]any{}
	required := []string{}
	for i := range k.fields {
		f := &k.fields[i]
		if f.Type == Password && form == ReadForm {
			continue
		}
		properties[f.Name] = f.jsonSchema(form)
		if f.Required && (form == ReadForm || form == CreateForm && f.Default == "") {
			required = append(required, f.Name)
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": k.Extra}
	describe(s, k.Label, k.Hint)
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func describe(s map[string]any, label, hint string) {
	if label != "" {
		s["title"] = label
	}
	if hint != "" {
		s["description"] = hint
	}
}

// jsonSchema returns the schema of a field.
func (c *field) jsonSchema(form Form) map[string]any {
	s := c.typeSchema(form)
	c.boundSchema(s)
	if form != ReadForm && (form == PatchForm || !c.Required || c.Default != "") {
		nullable(s)
	}
	describe(s, c.Label, c.Hint)
	if form == CreateForm && !c.initial.IsNull() {
		s["default"] = json.RawMessage(c.append(nil, c.initial))
	}
	return s
}

// nullable allows null.
func nullable(s map[string]any) {
	switch t := s["type"].(type) {
	case string:
		s["type"] = []string{t, "null"}
	case []string:
		s["type"] = append(slices.Clip(t), "null")
	}
	if options, ok := s["enum"].([]any); ok {
		s["enum"] = append(slices.Clip(options), nil)
	}
}

func (c *field) typeSchema(form Form) map[string]any {
	switch c.Type {
	case Int:
		return map[string]any{"type": "integer", "format": "int64"}
	case Float:
		return map[string]any{"type": "number", "format": "double"}
	case Bool:
		return map[string]any{"type": "boolean"}
	case JSON:
		return map[string]any{}
	case Decimal:
		if form == ReadForm {
			return map[string]any{"type": "string", "format": "decimal", "pattern": `^-?[0-9]+(\.[0-9]+)?$`}
		}
		return map[string]any{"type": []string{"string", "number"}, "format": "decimal"}
	case Select:
		options := make([]any, len(c.Options))
		for i, o := range c.Options {
			options[i] = o
		}
		one := map[string]any{"type": "string", "enum": options}
		if !c.Many {
			return one
		}
		return map[string]any{"type": "array", "items": one, "uniqueItems": true}
	case Reference:
		return map[string]any{"type": "string", "pattern": IDPattern}
	}
	s := map[string]any{"type": "string"}
	if format := map[Type]string{Time: "date-time", Email: "email", URL: "uri", Password: "password"}[c.Type]; format != "" && (c.Type != Time || form == ReadForm) {
		s["format"] = format // clients may also send a date
	}
	switch {
	case c.Type == Password:
		s["writeOnly"] = true
	case c.Type == Phone && form == ReadForm:
		s["pattern"] = `^\+[1-9][0-9]{6,14}$`
	}
	if c.Pattern != "" {
		s["pattern"] = "^(?:" + c.Pattern + ")$"
	}
	return s
}

// boundSchema adds Min and Max.
func (c *field) boundSchema(s map[string]any) {
	low, high := "minimum", "maximum"
	switch {
	case c.Type == Decimal || c.Type == Time || c.Type == JSON:
		return
	case c.Many:
		low, high = "minItems", "maxItems"
	case c.bounded() == "length":
		low, high = "minLength", "maxLength"
	}
	for name, v := range map[string]*value.Value{low: c.min, high: c.max} {
		if v != nil {
			s[name] = json.RawMessage(v.AppendJSON(nil))
		}
	}
}

// ColumnSchemas returns the JSON Schemas of the columns, by name.
func ColumnSchemas() map[string]any {
	all := map[string]any{}
	for _, c := range Columns() {
		f := field{Field: Field{Name: c.Name, Type: c.Type}}
		all[c.Name] = f.typeSchema(ReadForm)
	}
	all["id"] = map[string]any{"type": "string", "pattern": IDPattern}
	all["rev"] = map[string]any{"type": "integer", "format": "int64", "minimum": json.RawMessage(strconv.Itoa(1))}
	return all
}
