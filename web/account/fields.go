package account

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// Limits of Options.Fields.
const (
	MaxFields          = 16  // fields
	DefaultFieldLength = 200 // characters of a value, if Field.MaxLength is 0
	maxFieldName       = 32  // characters of a name
)

// Field is an additional field of the registration form.
type Field struct {
	// Name of the field in forms and JSON: 1 to 32 of a–z, 0–9 and _. The value of
	// "name" becomes auth.User.Name, all others go to auth.User.Profile.
	Name string

	// Label is shown next to the field; "" means Name.
	Label string

	// Type and Autocomplete are attributes of the input element. An empty Type means
	// text; others are tel, url, date and so on.
	Type, Autocomplete string

	// Required fields must not be empty.
	Required bool

	// MaxLength limits the characters of a value; 0 means DefaultFieldLength.
	MaxLength int

	// Check, if set, validates a value that is not empty, with surrounding spaces
	// removed. The text of its error, such as "must be a number", is shown next to the field.
	Check func(value string) error
}

// checkFields returns the mistakes in Options.Fields.
func (o *Options) checkFields() (wrong []string) {
	seen := []string{"email", "password"}
	for i, f := range o.Fields {
		if f.Name == "" || len(f.Name) > maxFieldName || strings.Trim(f.Name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || slices.Contains(seen, f.Name) {
			wrong = append(wrong, fmt.Sprintf("the name %q of a field must be unique and have 1 to %d of a–z, 0–9 and _", f.Name, maxFieldName))
		}
		if f.MaxLength < 0 {
			wrong = append(wrong, fmt.Sprintf("the field %q has a negative MaxLength", f.Name))
		}
		seen = append(seen, f.Name)
		o.Fields[i].Label, o.Fields[i].Type, o.Fields[i].MaxLength = cmp.Or(f.Label, f.Name), cmp.Or(f.Type, "text"), cmp.Or(f.MaxLength, DefaultFieldLength)
	}
	if len(o.Fields) > MaxFields {
		wrong = append(wrong, fmt.Sprintf("there are %d Fields, at most %d", len(o.Fields), MaxFields))
	}
	return wrong
}

// registerForm returns the type of the registration form: email, password and the fields,
// in this order.
func (o *Options) registerForm() reflect.Type {
	text := reflect.TypeFor[string]()
	members := []reflect.StructField{{Name: "Email", Type: text, Tag: `json:"email"`}, {Name: "Password", Type: text, Tag: `json:"password"`}}
	for i, f := range o.Fields {
		tag := reflect.StructTag(`json:"` + f.Name + `,omitempty"`)
		members = append(members, reflect.StructField{Name: fmt.Sprint("Field", i), Type: text, Tag: tag})
	}
	return reflect.StructOf(members)
}

// bindRegistration reads the registration form. With an error it returns the part that
// could be read.
func (a *Account) bindRegistration(c *web.Context) (auth.Registration, error) {
	in := reflect.New(a.form)
	err := c.Bind(in.Interface())
	member := func(i int) string { return in.Elem().Field(i).String() }
	r := auth.Registration{Email: member(0), Password: member(1), From: c.ClientIP()}
	var faults problem.Faults
	for i, f := range a.o.Fields {
		value := strings.TrimSpace(member(2 + i))
		if f.Name == "name" {
			r.Name = value
		} else if value != "" {
			if r.Profile == nil {
				r.Profile = map[string]string{}
			}
			r.Profile[f.Name] = value
		}
		if why := f.fault(value); why != "" {
			faults = append(faults, problem.Fault{Pointer: "/" + f.Name, Code: engine.CodeInvalid, Detail: why})
		}
	}
	if err == nil && faults != nil {
		err = faults
	}
	return r, err
}

// fault returns the mistake in a value, or "".
func (f Field) fault(value string) string {
	switch {
	case value == "" && f.Required:
		return "is required"
	case value == "":
		return ""
	case utf8.RuneCountInString(value) > f.MaxLength:
		return fmt.Sprintf("has %d characters, at most %d", utf8.RuneCountInString(value), f.MaxLength)
	case strings.ContainsFunc(value, unicode.IsControl):
		return "has a control character"
	case f.Check != nil:
		if err := f.Check(value); err != nil {
			return err.Error()
		}
	}
	return ""
}

// checkName validates a user's new name with the field "name", if there is one.
func (a *Account) checkName(name string) (string, error) {
	for _, f := range a.o.Fields {
		if f.Name == "name" {
			name = strings.TrimSpace(name)
			if why := f.fault(name); why != "" {
				return "", web.Wrong("/name", "%s", why)
			}
		}
	}
	return name, nil
}

// filled is a field as shown on pages.
type filled struct {
	Field
	Value, Fault string
}

// fill returns the fields with values and mistakes.
func (a *Account) fill(name string, profile, faults map[string]string) (all []filled) {
	for _, f := range a.o.Fields {
		value := profile[f.Name]
		if f.Name == "name" {
			value = name
		}
		all = append(all, filled{f, value, faults[f.Name]})
	}
	return all
}

// registerFields returns the names of the form's fields, for JSON responses.
func (a *Account) registerFields() form {
	names := []string{"email", "password"}
	for _, f := range a.o.Fields {
		names = append(names, f.Name)
	}
	return form{names}
}
