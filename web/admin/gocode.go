package admin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// Collections are defined in the program. These functions write what to put there.

// collectionCode returns a collection as Go code.
func collectionCode(c schema.Collection) string {
	if c.Name == "" {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "schema.Collection{\n\tName: %s,\n", goText(c.Name))
	for _, x := range []struct{ name, text string }{{"Label", c.Label}, {"Hint", c.Hint}} {
		if x.text != "" {
			fmt.Fprintf(&b, "\t%s: %s,\n", x.name, goText(x.text))
		}
	}
	if c.Extra {
		b.WriteString("\tExtra: true,\n")
	}
	switch {
	case c.History.Off:
		b.WriteString("\tHistory: schema.History{Off: true},\n")
	case c.History.Keep > 0:
		fmt.Fprintf(&b, "\tHistory: schema.History{Keep: %d}, // %v\n", c.History.Keep, c.History.Keep)
	}
	b.WriteString("\tFields: []schema.Field{\n")
	for _, f := range c.Fields {
		fmt.Fprintf(&b, "\t\t%s,\n", fieldCode(f))
	}
	b.WriteString("\t},\n")
	if len(c.Indexes) > 0 {
		b.WriteString("\tIndexes: []schema.Index{\n")
		for _, x := range c.Indexes {
			fmt.Fprintf(&b, "\t\t%s,\n", indexCode(x))
		}
		b.WriteString("\t},\n")
	}
	if c.Rules != (schema.Rules{}) {
		b.WriteString("\tRules: schema.Rules{\n")
		for _, r := range ruleRows(c.Rules) {
			if r.Rule != "" {
				fmt.Fprintf(&b, "\t\t%s: %s,\n", goName(r.Operation), goText(r.Rule))
			}
		}
		b.WriteString("\t},\n")
	}
	b.WriteString("}")
	return b.String()
}

// fieldCode returns a field as an element of a slice of schema.Field.
func fieldCode(f schema.Field) string {
	parts := []string{"Name: " + goText(f.Name), "Type: " + typeCode(f.Type)}
	add := func(name, text string) {
		if text != "" {
			parts = append(parts, name+": "+goText(text))
		}
	}
	set := func(name string, is bool) {
		if is {
			parts = append(parts, name+": true")
		}
	}
	list := func(name string, texts []string) {
		if len(texts) > 0 {
			parts = append(parts, name+": "+textsCode(texts))
		}
	}
	add("Label", f.Label)
	add("Hint", f.Hint)
	set("Required", f.Required)
	add("Default", f.Default)
	add("Min", f.Min)
	add("Max", f.Max)
	add("Pattern", f.Pattern)
	if f.Scale > 0 {
		parts = append(parts, fmt.Sprint("Scale: ", f.Scale))
	}
	list("Options", f.Options)
	set("Many", f.Many)
	add("Collection", f.Collection)
	switch f.OnDelete {
	case schema.Cascade:
		parts = append(parts, "OnDelete: schema.Cascade")
	case schema.SetNull:
		parts = append(parts, "OnDelete: schema.SetNull")
	}
	list("Was", f.Was)
	return "{" + strings.Join(parts, ", ") + "}"
}

func textsCode(texts []string) string {
	var all []string
	for _, t := range texts {
		all = append(all, goText(t))
	}
	return "[]string{" + strings.Join(all, ", ") + "}"
}

// indexCode returns an index as an element of a slice of schema.Index.
func indexCode(x schema.Index) string {
	var names []string
	for _, f := range x.Fields {
		if f.Desc {
			names = append(names, "-"+f.Name)
		} else {
			names = append(names, f.Name)
		}
	}
	by := record.By(names...)
	if !x.Unique && by.Name == x.Name && slices.Equal(by.Fields, x.Fields) {
		quoted := make([]string, len(names))
		for i, n := range names {
			quoted[i] = goText(n)
		}
		return "record.By(" + strings.Join(quoted, ", ") + ")"
	}
	var fields []string
	for _, f := range x.Fields {
		if f.Desc {
			fields = append(fields, "{Name: "+goText(f.Name)+", Desc: true}")
		} else {
			fields = append(fields, "{Name: "+goText(f.Name)+"}")
		}
	}
	text := "{Name: " + goText(x.Name) + ", Fields: []schema.IndexField{" + strings.Join(fields, ", ") + "}"
	if x.Unique {
		text += ", Unique: true"
	}
	return text + "}"
}

// structCode returns a field as one of a struct for record.Of.
func structCode(f schema.Field) string {
	parts := []string{f.Name}
	add := func(name, text string) {
		if text != "" {
			parts = append(parts, name+"="+tagText(text))
		}
	}
	switch f.Type {
	case schema.Email, schema.URL, schema.Phone, schema.Password:
		add("type", string(f.Type))
	case schema.Decimal:
		if f.Scale == 0 {
			add("type", "decimal")
		}
	}
	if f.Required {
		parts = append(parts, "required")
	}
	add("default", tagDefault(f))
	add("min", f.Min)
	add("max", f.Max)
	add("pattern", f.Pattern)
	if f.Scale > 0 {
		add("scale", strconv.Itoa(f.Scale))
	}
	add("options", strings.Join(f.Options, "|"))
	add("ref", f.Collection)
	if f.OnDelete != schema.Restrict {
		parts = append(parts, string(f.OnDelete))
	}
	add("label", f.Label)
	add("hint", f.Hint)
	for _, w := range f.Was {
		add("was", w)
	}
	tag := "record:" + strconv.Quote(strings.Join(parts, ","))
	if strings.ContainsRune(tag, '`') {
		tag = strconv.Quote(tag)
	} else {
		tag = "`" + tag + "`"
	}
	return goName(f.Name) + " " + goType(f) + " " + tag
}

// tagDefault returns the default of a field as tags have it: texts without quotes.
func tagDefault(f schema.Field) string {
	var text string
	var texts []string
	switch {
	case f.Many && json.Unmarshal([]byte(f.Default), &texts) == nil:
		return strings.Join(texts, "|")
	case f.Type != schema.JSON && json.Unmarshal([]byte(f.Default), &text) == nil:
		return text
	}
	return f.Default
}

// jsonDefault returns a default as descriptions have it: JSON. A text may be given without quotes.
func jsonDefault(f schema.Field) string {
	switch f.Type {
	case schema.Int, schema.Float, schema.Bool, schema.JSON:
		return f.Default
	}
	if f.Default == "" || strings.HasPrefix(f.Default, "@") || strings.HasPrefix(f.Default, "[") || strings.HasPrefix(f.Default, `"`) {
		return f.Default
	}
	return string(value.AppendText(nil, f.Default))
}

// tagText quotes the value of an option of a tag if it needs that.
func tagText(text string) string {
	if strings.ContainsAny(text, ",'") {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	return text
}

// goType is the Go type of a field.
func goType(f schema.Field) string {
	switch f.Type {
	case schema.Int:
		return "int64"
	case schema.Float:
		return "float64"
	case schema.Bool:
		return "bool"
	case schema.Time:
		return "time.Time"
	case schema.JSON:
		return "json.RawMessage"
	}
	if f.Many {
		return "[]string"
	}
	return "string"
}

// typeCode returns the constant of a type.
func typeCode(t schema.Type) string {
	switch t {
	case schema.URL, schema.JSON:
		return "schema." + strings.ToUpper(string(t))
	}
	return "schema." + goName(string(t))
}

// goName returns the exported Go name of a name with underscores: created_on is CreatedOn.
func goName(name string) string {
	var b strings.Builder
	up := true
	for _, r := range name {
		if r == '_' {
			up = true
			continue
		}
		if up {
			r = unicode.ToUpper(r)
		}
		up = false
		b.WriteRune(r)
	}
	return b.String()
}

// goText returns a string literal, between backquotes if that is easier to read.
func goText(text string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) } // such as those that turn the direction of a text
	if strings.ContainsRune(text, '"') && strconv.CanBackquote(text) && !strings.ContainsFunc(text, hidden) {
		return "`" + text + "`"
	}
	return strconv.Quote(text)
}
