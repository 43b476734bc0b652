package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Of returns the collection that the fields of a struct describe:
//
//	type Post struct {
//		record.Meta
//		Title  string    `record:"title,required,max=200,unique"`
//		State  string    `record:",options=draft|public,default=draft,index"`
//		Price  string    `record:"price,scale=2,min=0"`
//		Author string    `record:"author,ref=users,cascade,label='Written by'"`
//		At     *time.Time
//	}
//
// A field's name is the first part of its tag, or made of the Go name: CreatedOn is created_on. The tag "-" leaves a
// field out. The Go type gives the type of the field: string, the signed integers and the unsigned ones below 64 bits,
// float64, bool, time.Time, []string with options (a select of several); json.RawMessage, maps, structs, other slices
// and any are JSON. Structs that are embedded without a tag add their fields. A pointer is nil for null; other types
// are zero for null, see Codec. These options follow the name:
//
//	type=T       email, url, phone, password, decimal, select, reference or text for a string; json
//	required     there must be a value
//	default=V    @now, @auth.id, a text as it is, options as a|b, JSON for everything else
//	min=N max=N  bounds, see Field
//	pattern=RE   what the whole text must match
//	options=a|b  makes the field a select
//	ref=NAME     makes the field a reference to the collection; with cascade or set_null as OnDelete
//	scale=N      makes the field a decimal with N digits after its point
//	index        an index of the field alone, called by_ and its name
//	unique       the same, and no two records have the same value
//	label=T      for people
//	hint=T       for people
//	was=NAME     the field had this name before
//	omitzero     the zero value is stored as null
//
// A value with a comma or a quote stands between single quotes, in which two of them are one: pattern='[a-z]{1,3}'.
// Errors name the Go field.
func Of[T any](name string) (Collection, error) {
	s, err := shapeOf(reflect.TypeFor[T]())
	if err != nil {
		return Collection{}, err
	}
	c := Collection{Name: name}
	for _, m := range s.members {
		c.Fields = append(c.Fields, m.field)
		if m.index || m.unique {
			c.Indexes = append(c.Indexes, Index{Name: "by_" + m.field.Name, Fields: []IndexField{{Name: m.field.Name}}, Unique: m.unique})
		}
	}
	if _, err := c.Compile(); err != nil {
		return Collection{}, s.explain(c, err)
	}
	return c, nil
}

// shape is what the fields of a struct say.
type shape struct {
	members []member
	meta    []int // path of the embedded Meta; nil: none
}

// member is one field of a struct.
type member struct {
	goName string // Post.Title
	path   []int  // for reflect.Value.FieldByIndex
	goType reflect.Type
	field  Field

	index, unique, omitZero bool
	typeSet, defaultSet     bool
}

var (
	metaType = reflect.TypeFor[Meta]()
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

func shapeOf(t reflect.Type) (*shape, error) {
	if t.Kind() != reflect.Struct || t == timeType {
		return nil, fmt.Errorf("%v is not a struct", t)
	}
	s := &shape{}
	var bad []error
	s.add(t, t.Name(), nil, &bad)
	if len(bad) == 0 && len(s.members) == 0 {
		bad = append(bad, fmt.Errorf("%v has no exported fields", t))
	}
	return s, errors.Join(bad...)
}

// add adds the fields of a struct at a path, and what is wrong with them.
func (s *shape) add(t reflect.Type, name string, path []int, bad *[]error) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("record")
		at := append(append([]int{}, path...), i)
		switch {
		case tag == "-":
		case f.Type == metaType && f.Anonymous:
			if s.meta != nil {
				*bad = append(*bad, fmt.Errorf("%s.%s: Meta is embedded twice", name, f.Name))
			}
			s.meta = at
		case f.Anonymous && !tagged && f.Type.Kind() == reflect.Struct && f.Type != timeType:
			s.add(f.Type, name, at, bad)
		case f.Anonymous && !tagged && f.Type.Kind() == reflect.Pointer:
			*bad = append(*bad, fmt.Errorf("%s.%s: embed the struct, not a pointer to it", name, f.Name))
		case !f.IsExported():
			if tagged {
				*bad = append(*bad, fmt.Errorf("%s.%s: a field with a tag must be exported", name, f.Name))
			}
		default:
			m := member{goName: name + "." + f.Name, path: at, goType: f.Type}
			if err := m.read(f.Name, tag); err != nil {
				*bad = append(*bad, fmt.Errorf("%s: %w", m.goName, err))
				continue
			}
			s.members = append(s.members, m)
		}
	}
}

// read reads the tag, and finds the type of the field.
func (m *member) read(goName, tag string) error {
	parts, err := splitTag(tag)
	if err != nil {
		return fmt.Errorf("record:%q: %w", tag, err)
	}
	if m.field.Name = parts[0]; m.field.Name == "" {
		m.field.Name = snake(goName)
	}
	for _, o := range parts[1:] {
		if err := m.option(o); err != nil {
			return fmt.Errorf("record:%q: %w", tag, err)
		}
	}
	if m.unique && m.index {
		return fmt.Errorf("record:%q: unique implies index; leave out index", tag)
	}
	if err := m.setType(); err != nil {
		return err
	}
	m.setDefault()
	return nil
}

// splitTag cuts a tag at its commas, except for those between single quotes.
func splitTag(tag string) (parts []string, err error) {
	var part strings.Builder
	quoted := false
	for i := 0; i < len(tag); i++ {
		switch c := tag[i]; {
		case c == '\'' && quoted && i+1 < len(tag) && tag[i+1] == '\'':
			part.WriteByte(c)
			i++
		case c == '\'' && quoted:
			if quoted = false; i+1 < len(tag) && tag[i+1] != ',' {
				return nil, fmt.Errorf("a comma must follow a quoted value; double a quote to include it in the value")
			}
		case c == '\'' && strings.HasSuffix(part.String(), "=") && strings.Count(part.String(), "=") == 1:
			quoted = true
		case c == ',' && !quoted:
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	if quoted {
		return nil, fmt.Errorf("a closing quote is missing")
	}
	return append(parts, part.String()), nil
}

// snake returns the name of a field made of a Go name: HTMLBody is html_body, and UserID is user_id.
func snake(name string) string {
	var b strings.Builder
	all := []rune(name)
	for i, r := range all {
		if unicode.IsUpper(r) && i > 0 && all[i-1] != '_' && (!unicode.IsUpper(all[i-1]) || i+1 < len(all) && unicode.IsLower(all[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// explain says which Go field a problem of the collection is about.
func (s *shape) explain(c Collection, err error) error {
	var all Problems
	if !errors.As(err, &all) {
		return err
	}
	var texts []error
	for _, p := range all {
		where := strings.Split(p.Pointer, "/")
		i := -1
		if len(where) > 2 && where[1] == "fields" {
			i, _ = strconv.Atoi(where[2])
		} else if len(where) > 2 && where[1] == "indexes" {
			x, _ := strconv.Atoi(where[2])
			for j, m := range s.members {
				if x < len(c.Indexes) && m.field.Name == c.Indexes[x].Fields[0].Name && (m.index || m.unique) {
					i = j
				}
			}
		}
		if i >= 0 && i < len(s.members) {
			texts = append(texts, fmt.Errorf("%s: %s: %s", s.members[i].goName, where[len(where)-1], p.Detail))
		} else {
			texts = append(texts, errors.New(strings.TrimPrefix(p.Pointer+": "+p.Detail, ": ")))
		}
	}
	return errors.Join(texts...)
}
