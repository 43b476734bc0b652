package schema

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/value"
)

// Compiled is a valid Collection, prepared for checking data. It is immutable.
type Compiled struct {
	Collection
	fields []field
	byName map[string]int
	byWas  map[string]int // by former names

	secrets []string // see Secrets
}

// field is a field with its options read.
type field struct {
	Field
	kind     value.Kind
	min, max *value.Value // of values; of lengths for other types
	pattern  *regexp.Regexp
	initial  value.Value // Default, unless auto
	auto     string      // "@now" or "@auth.id"
}

// Compile validates the description. The error is Problems, with pointers into the description as JSON. Compile does
// not check rules and the collections of references, because these need the other collections.
func (c Collection) Compile() (*Compiled, error) {
	k := &Compiled{Collection: c, byName: map[string]int{}, byWas: map[string]int{}}
	var bad Problems
	checkName(&bad, "/name", c.Name)
	if Reserved(c.Name) {
		bad.add("/name", CodeInvalid, "%s is a reserved name: the server uses /api/%s for something else", c.Name, c.Name)
	}
	checkTexts(&bad, "", c.Label, c.Hint)
	if c.History.Keep != 0 && (c.History.Keep < time.Hour || c.History.Off) {
		bad.add("/history/keep", CodeInvalid, "keep history for at least an hour, or turn it off")
	}
	if len(c.Fields) > MaxFields {
		bad.add("/fields", CodeTooLarge, "%d fields; the limit is %d", len(c.Fields), MaxFields)
	}
	for i, f := range c.Fields[:min(len(c.Fields), MaxFields)] {
		at := fmt.Sprint("/fields/", i)
		checkName(&bad, at+"/name", f.Name)
		if _, ok := k.byName[f.Name]; ok {
			bad.add(at+"/name", CodeRepeated, "two fields are named %s", f.Name)
		}
		k.byName[f.Name] = i
		k.fields = append(k.fields, compileField(&bad, at, f))
	}
	k.compileWas(&bad)
	k.compileIndexes(&bad)
	if err := bad.err(); err != nil {
		return nil, err
	}
	return k, nil
}

// reserved are names of parts of the API beside collections, or kept for such parts.
var reserved = []string{"auth", "batch", "call", "collections", "events", "files", "jobs", "procedures", "search", "tx"}

// Reserved reports whether a name is reserved for other parts of the API and cannot name a collection.
func Reserved(name string) bool { return slices.Contains(reserved, name) }

// compileWas checks the former names of fields, and the dropped fields.
func (k *Compiled) compileWas(bad *Problems) {
	for i, f := range k.fields {
		at := fmt.Sprintf("/fields/%d/was", i)
		if len(f.Was) > MaxWas {
			bad.add(at, CodeTooLarge, "%d former names; the limit is %d", len(f.Was), MaxWas)
		}
		for j, name := range f.Was[:min(len(f.Was), MaxWas)] {
			at := fmt.Sprint(at, "/", j)
			checkName(bad, at, name)
			if _, ok := k.byName[name]; ok {
				bad.add(at, CodeRepeated, "%s is also the name of a field", name)
			} else if _, ok := k.byWas[name]; ok {
				bad.add(at, CodeRepeated, "%s appears twice among the former names", name)
			}
			k.byWas[name] = i
		}
	}
	for _, f := range append(k.Fields[:len(k.Fields):len(k.Fields)], k.Dropped...) {
		if f.Type == Password {
			k.secrets = append(append(k.secrets, f.Name), f.Was...)
		}
	}
	for i, f := range k.Dropped {
		if _, ok := k.byName[f.Name]; ok {
			bad.add(fmt.Sprintf("/dropped/%d/name", i), CodeRepeated, "%s is also the name of a field", f.Name)
		}
	}
}

// checkName checks the name of a collection, field or index.
func checkName(bad *Problems, at, name string) {
	switch {
	case name == "":
		bad.add(at, CodeRequired, "a name is missing")
	case len(name) > MaxNameBytes:
		bad.add(at, CodeTooLarge, "the name has %d bytes; the limit is %d", len(name), MaxNameBytes)
	case name[0] < 'a' || name[0] > 'z' || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "":
		bad.add(at, CodePattern, "%q is not a valid name: begin with a letter from a to z and use only these letters, digits and _", name)
	case expr.Reserved(name):
		bad.add(at, CodeInvalid, "%s is a keyword of the expression language", name)
	}
}

func checkTexts(bad *Problems, at, label, hint string) {
	for _, t := range []struct {
		name, text string
		limit      int
	}{{"label", label, MaxLabelBytes}, {"hint", hint, MaxHintBytes}} {
		if len(t.text) > t.limit {
			bad.add(at+"/"+t.name, CodeTooLarge, "the text has %d bytes; the limit is %d", len(t.text), t.limit)
		}
		if _, err := value.OfText(t.text); err != nil {
			bad.add(at+"/"+t.name, CodeInvalid, "%v", err)
		}
	}
}

// kinds maps types to the kinds of their values.
var kinds = map[Type]value.Kind{
	Text: value.Text, Int: value.Int, Float: value.Float, Decimal: value.Decimal, Bool: value.Bool, Time: value.Time, Email: value.Text,
	URL: value.Text, Phone: value.Text, Select: value.Text, JSON: value.JSON, Reference: value.Text, Password: value.Text,
}

// KindOf returns the kind of the non-null values of a type.
func KindOf(t Type) value.Kind { return kinds[t] }

// Types returns all types, sorted.
func Types() []Type {
	var all []Type
	for t := range kinds {
		all = append(all, t)
	}
	slices.Sort(all)
	return all
}

// words returns the type in the words of errors.
func (f *Field) words() string {
	if f.Many {
		return "a " + string(f.Type) + " of several options"
	}
	return string(f.Type)
}

// bounded reports what Min and Max of a type bound: "value", "length", or "" for nothing.
func (f *Field) bounded() string {
	switch f.Type {
	case Int, Float, Decimal, Time:
		return "value"
	case Text, Email, URL, Password, JSON:
		return "length"
	case Select:
		if f.Many {
			return "length"
		}
	}
	return ""
}

func compileField(bad *Problems, at string, f Field) field {
	c := field{Field: f}
	kind, known := kinds[f.Type]
	if !known {
		bad.add(at+"/type", CodeUnknown, "unknown type %q; the types are %v", f.Type, Types())
		return c
	}
	if c.kind = kind; f.Many {
		c.kind = value.JSON
	}
	for _, column := range Columns() {
		if f.Name == column.Name {
			bad.add(at+"/name", CodeInvalid, "%s is a column that every record has", f.Name)
		}
	}
	checkTexts(bad, at, f.Label, f.Hint)
	for _, o := range []struct {
		name     string
		set, fit bool
	}{
		{"pattern", f.Pattern != "", f.Type == Text || f.Type == Password}, {"scale", f.Scale != 0, f.Type == Decimal}, {"many", f.Many, f.Type == Select},
		{"options", len(f.Options) > 0, f.Type == Select}, {"collection", f.Collection != "", f.Type == Reference}, {"on_delete", f.OnDelete != "", f.Type == Reference},
		{"default", f.Default != "", f.Type != Password}, {"min", f.Min != "", f.bounded() != ""}, {"max", f.Max != "", f.bounded() != ""},
	} {
		if o.set && !o.fit {
			bad.add(at+"/"+o.name, CodeInvalid, "fields of type %s have no %s", f.Type, o.name)
		}
	}
	c.compilePattern(bad, at)
	c.compileBounds(bad, at)
	c.compileChoices(bad, at)
	if f.Scale < 0 || f.Scale > value.MaxDecimalDigits {
		bad.add(at+"/scale", CodeTooLarge, "the scale must be from 0 to %d", value.MaxDecimalDigits)
	}
	if len(*bad) == 0 { // a default can be checked only against a valid field
		c.compileDefault(bad, at)
	}
	return c
}

func (c *field) compilePattern(bad *Problems, at string) {
	if c.Pattern == "" {
		return
	}
	if len(c.Pattern) > MaxPatternBytes {
		bad.add(at+"/pattern", CodeTooLarge, "the pattern has %d bytes; the limit is %d", len(c.Pattern), MaxPatternBytes)
		return
	}
	re, err := regexp.Compile(`\A(?:` + c.Pattern + `)\z`)
	if err == nil {
		_, err = regexp.Compile(c.Pattern) // "a)(b" is valid only within the parentheses
	}
	if err != nil {
		bad.add(at+"/pattern", CodeInvalid, "%v", err)
	}
	c.pattern = re
}

func (c *field) compileBounds(bad *Problems, at string) {
	what := c.bounded()
	read := func(name, text string) *value.Value {
		if text == "" || what == "" {
			return nil
		}
		v, err := c.bound(what, text)
		if err != nil {
			bad.add(at+"/"+name, CodeInvalid, "%v", err)
			return nil
		}
		return &v
	}
	c.min, c.max = read("min", c.Min), read("max", c.Max)
	if c.min != nil && c.max != nil && value.Compare(*c.min, *c.max) > 0 {
		bad.add(at+"/max", CodeInvalid, "max is less than min")
	}
}

func (c *field) bound(what, text string) (value.Value, error) {
	if what == "length" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return value.Value{}, fmt.Errorf("%q is not a length", text)
		}
		return value.OfInt(n), nil
	}
	return value.FromText(c.kind, text)
}

func (c *field) compileChoices(bad *Problems, at string) {
	switch c.Type {
	case Select:
		if len(c.Options) == 0 || len(c.Options) > MaxOptions {
			bad.add(at+"/options", CodeRequired, "a select must have 1 to %d options, not %d", MaxOptions, len(c.Options))
		}
		for i, o := range c.Options {
			if _, err := value.OfText(o); err != nil || o == "" {
				bad.add(fmt.Sprint(at, "/options/", i), CodeInvalid, "an option must be valid UTF-8 and not empty")
			}
			if slices.Index(c.Options, o) < i {
				bad.add(fmt.Sprint(at, "/options/", i), CodeRepeated, "%q appears twice", o)
			}
		}
	case Reference:
		checkName(bad, at+"/collection", c.Collection)
		if c.OnDelete != Restrict && c.OnDelete != Cascade && c.OnDelete != SetNull {
			bad.add(at+"/on_delete", CodeOption, "%q is neither cascade nor set_null; leave it out to refuse deletions", c.OnDelete)
		}
		if c.OnDelete == SetNull && c.Required {
			bad.add(at+"/on_delete", CodeInvalid, "a required reference cannot be set to null")
		}
	}
}

func (c *field) compileDefault(bad *Problems, at string) {
	if len(c.Default) > MaxDefaultBytes {
		bad.add(at+"/default", CodeTooLarge, "the default has %d bytes; the limit is %d", len(c.Default), MaxDefaultBytes)
		return
	}
	switch {
	case c.Default == "":
		return
	case c.Default == "@now" && c.Type == Time, c.Default == "@auth.id" && (c.Type == Text || c.Type == Reference):
		c.auto = c.Default
		return
	}
	v, err := value.Value{}, value.Check([]byte(c.Default))
	if err == nil {
		v, err = c.read([]byte(c.Default))
	}
	if err != nil {
		bad.add(at+"/default", CodeType, "%v", err)
		return
	}
	if p := c.check("", v); p != nil {
		bad.add(at+"/default", p.Code, "%s", p.Detail)
	}
	c.initial = v
}

func (k *Compiled) compileIndexes(bad *Problems) {
	if len(k.Indexes) > MaxIndexes {
		bad.add("/indexes", CodeTooLarge, "%d indexes; the limit is %d", len(k.Indexes), MaxIndexes)
	}
	names := map[string]bool{}
	for i, x := range k.Indexes[:min(len(k.Indexes), MaxIndexes)] {
		at := fmt.Sprint("/indexes/", i)
		checkName(bad, at+"/name", x.Name)
		if names[x.Name] {
			bad.add(at+"/name", CodeRepeated, "two indexes are named %s", x.Name)
		}
		names[x.Name] = true
		if len(x.Fields) == 0 || len(x.Fields) > MaxIndexFields {
			bad.add(at+"/fields", CodeTooLarge, "an index must have 1 to %d fields, not %d", MaxIndexFields, len(x.Fields))
		}
		used := map[string]bool{}
		for j, f := range x.Fields {
			at := fmt.Sprint(at, "/fields/", j, "/name")
			if used[f.Name] {
				bad.add(at, CodeRepeated, "%s appears twice", f.Name)
			}
			used[f.Name] = true
			if text := k.indexable(f.Name); text != "" {
				bad.add(at, CodeInvalid, "%s", text)
			}
		}
	}
}

// Implied returns the indexes that find records by their references: one for each reference that is not the first field
// of a declared index. Their names begin with a colon, unlike those of declared indexes.
func (k *Compiled) Implied() (all []Index) {
	for _, f := range k.Fields {
		declared := slices.ContainsFunc(k.Indexes, func(x Index) bool { return x.Fields[0].Name == f.Name })
		if f.Type == Reference && !declared {
			all = append(all, Index{Name: ":" + f.Name, Fields: []IndexField{{Name: f.Name}}})
		}
	}
	return all
}

// indexable reports why an index cannot have a field; "" if it can.
func (k *Compiled) indexable(name string) string {
	i, ok := k.byName[name]
	if !ok {
		for _, c := range Columns() {
			if c.Name == name && name != "id" && name != "is_deleted" {
				return ""
			}
		}
		return fmt.Sprintf("%q is not a field that can be indexed", name)
	}
	if f := k.fields[i]; f.kind == value.JSON || f.Type == Password {
		return fmt.Sprintf("%s has a type that cannot be indexed", name)
	}
	return ""
}

// Kind returns the kind of the non-null values of field i. Fields of kind JSON have values of any kind.
func (k *Compiled) Kind(i int) value.Kind { return k.fields[i].kind }

// Index returns the index of the field with a name, and whether there is one.
func (k *Compiled) Index(name string) (i int, ok bool) {
	i, ok = k.byName[name]
	return i, ok
}

// read reads a value from valid JSON. It does not check bounds.
func (c *field) read(raw []byte) (value.Value, error) {
	v, err := value.AsValid(c.kind, raw)
	if err != nil {
		return v, err
	}
	return c.normal(v), nil
}

// normal returns the form in which a value of the field is stored.
func (c *field) normal(v value.Value) value.Value {
	if text, ok := v.Text(); ok && c.Type == Phone {
		v, _ = value.OfText(strings.NewReplacer(" ", "", ".", "", "-", "", "(", "", ")", "").Replace(text))
	}
	return v
}

// readStored reads a value that was perhaps written when the field had another type. A value that has no form in the
// type is null.
func (c *field) readStored(raw []byte) value.Value {
	v, err := c.read(raw)
	if err == nil && (!c.Many || v.IsNull() || c.chosen(v) != nil) {
		return v
	}
	if v, err = value.Parse(raw); err != nil || c.Type == Password {
		return value.Value{}
	}
	if list, ok := v.Texts(); ok && len(list) == 1 && c.kind == value.Text {
		v, _ = value.OfText(list[0])
	}
	switch text := v.String(); {
	case c.Many:
		return value.OfTexts([]string{text})
	case c.kind == value.Text:
		v, err = value.OfText(text)
	default:
		v, err = value.Convert(c.kind, v)
	}
	if err != nil {
		return value.Value{}
	}
	return c.normal(v)
}

// Hides reports whether a member of older data must not be shown because it belongs to a password or a dropped field.
func (k *Compiled) Hides(name string) bool {
	if i, ok := k.byName[k.Current(name)]; ok {
		return k.fields[i].Type == Password
	}
	return slices.ContainsFunc(k.Dropped, func(f Field) bool { return f.Name == name || slices.Contains(f.Was, name) })
}

// TakesExtra reports whether data may have a member with a name that no field has: not one that an older form of the
// collection has given a field, because it would be read as that field, or not at all.
func (k *Compiled) TakesExtra(name string) bool {
	_, was := k.byWas[name]
	return k.Extra && !was && !k.Hides(name)
}

// Secrets returns the names that passwords have in data, also in older data: those of fields, their former names, and
// those of fields that were dropped. It must not be changed.
func (k *Compiled) Secrets() []string { return k.secrets }

// Current returns the current name of a member of older data, which may have a former name of a field.
func (k *Compiled) Current(name string) string {
	if i, ok := k.byWas[name]; ok {
		return k.fields[i].Name
	}
	return name
}

// check reports the problem of a value that read has returned, nil if there is none.
func (c *field) check(at string, v value.Value) *Problem {
	fault := func(code, format string, args ...any) *Problem {
		return &Problem{at, code, fmt.Sprintf(format, args...)}
	}
	if v.IsNull() {
		if c.Required {
			return fault(CodeRequired, "a value is required")
		}
		return nil
	}
	if p := c.checkForm(v, fault); p != nil {
		return p
	}
	switch c.bounded() {
	case "value":
		return c.checkBounds(v, fault, "")
	case "length":
		n, unit := c.length(v)
		return c.checkBounds(value.OfInt(n), fault, unit)
	}
	return nil
}

type faultFunc = func(code, format string, args ...any) *Problem

// length returns what Min and Max bound, and its unit.
func (c *field) length(v value.Value) (n int64, unit string) {
	switch c.Type {
	case Select:
		return int64(len(c.chosen(v))), " options"
	case JSON:
		return int64(len(v.AppendJSON(nil))), " bytes"
	}
	text, _ := v.Text()
	return int64(utf8.RuneCountInString(text)), " characters"
}

func (c *field) checkBounds(v value.Value, fault faultFunc, unit string) *Problem {
	if c.min != nil && value.Compare(v, *c.min) < 0 {
		return fault(CodeTooSmall, "%v%s; the minimum is %v", v, unit, *c.min)
	}
	if c.max != nil && value.Compare(v, *c.max) > 0 {
		return fault(CodeTooLarge, "%v%s; the maximum is %v", v, unit, *c.max)
	}
	return nil
}

// phone is the form of a number after E.164.
var phone = regexp.MustCompile(`\A\+[1-9][0-9]{6,14}\z`)

// email is one address without a name: not all that RFC 5321 allows, but what mail servers accept in practice.
var email = regexp.MustCompile(`\A[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)+\z`)

// checkForm checks what the type itself asks of a value.
func (c *field) checkForm(v value.Value, fault faultFunc) *Problem {
	text, _ := v.Text()
	switch c.Type {
	case Decimal:
		if d, _ := v.Decimal(); c.Scale > 0 && value.Scale(d) > c.Scale {
			return fault(CodeTooLarge, "more than %d digits after the decimal point", c.Scale)
		}
	case Email:
		if len(text) > 254 || !email.MatchString(text) {
			return fault(CodePattern, "%.80q is not an email address", text)
		}
	case Phone:
		if !phone.MatchString(text) {
			return fault(CodePattern, "%.80q is not a phone number like +4930123456", text)
		}
	case URL:
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fault(CodePattern, "%.80q is not an http or https URL", text)
		}
	case Select:
		return c.checkOptions(v, fault)
	case Text, Password:
		if c.pattern != nil && !c.pattern.MatchString(text) {
			return fault(CodePattern, "the text does not match %s", c.Pattern)
		}
	case Reference:
		if text == "" {
			return fault(CodeInvalid, "an id must not be empty; use null for no reference")
		}
	}
	return nil
}

// chosen returns the options that a select has, nil if v is not a list of texts.
func (c *field) chosen(v value.Value) []string {
	if !c.Many {
		text, _ := v.Text()
		return []string{text}
	}
	list, _ := v.Texts()
	return list
}

func (c *field) checkOptions(v value.Value, fault faultFunc) *Problem {
	list := c.chosen(v)
	if list == nil {
		return fault(CodeType, "the value must be a list of options")
	}
	for i, o := range list {
		if !slices.Contains(c.Options, o) {
			return fault(CodeOption, "%.80q is not one of the options", o)
		}
		if slices.Index(list, o) < i {
			return fault(CodeRepeated, "%q appears twice", o)
		}
	}
	return nil
}
