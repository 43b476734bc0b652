package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

type audit struct {
	Note string `record:",max=20"`
}

// order has every kind of Go field.
type order struct {
	Meta
	audit
	Title    string          `record:"title,required,max=200,unique,label='Title, in short',hint=What it''s about"`
	State    string          `record:",options=open|done,default=open,index"`
	Price    string          `record:"price,scale=2,min=0,default=12.5"`
	Exact    string          `record:",type=decimal"`
	Count    int64           `record:"count,default=3"`
	Small    int8            `record:",max=100"`
	Port     uint16          `record:",omitzero"`
	Ratio    float64         `record:",min=-1.5"`
	Live     bool            `record:",default=true"`
	At       time.Time       `record:",default=@now,min=2020-01-01"`
	Until    *time.Time      `record:",was=till,was=ends"`
	Mail     string          `record:",type=email"`
	Site     *string         `record:",type=url"`
	Phone    string          `record:",type=phone"`
	Secret   string          `record:",type=password,min=8"`
	Author   string          `record:"author,ref=users,set_null,default=@auth.id"`
	Tags     []string        `record:",options=a|b|c,max=2,default=a|b"`
	Links    []string        ``
	Raw      json.RawMessage `record:",max=1000"`
	Any      any
	HTMLBody map[string]int64 `record:",default={}"`
	UserID   *int32
	Code     string   `record:",pattern='[a-z]{1,3}''?'"`
	Hidden   chan int `record:"-"`
	private  int
}

func TestOf(t *testing.T) {
	_ = order{private: 1, Hidden: nil}
	c, err := Of[order]("orders")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"orders","fields":[` +
		`{"name":"note","type":"text","max":"20"},` +
		`{"name":"title","type":"text","label":"Title, in short","hint":"What it''s about","required":true,"max":"200"},` +
		`{"name":"state","type":"select","default":"\"open\"","options":["open","done"]},` +
		`{"name":"price","type":"decimal","default":"\"12.5\"","min":"0","scale":2},` +
		`{"name":"exact","type":"decimal"},` +
		`{"name":"count","type":"int","default":"3"},` +
		`{"name":"small","type":"int","min":"-128","max":"100"},` +
		`{"name":"port","type":"int","min":"0","max":"65535"},` +
		`{"name":"ratio","type":"float","min":"-1.5"},` +
		`{"name":"live","type":"bool","default":"true"},` +
		`{"name":"at","type":"time","default":"@now","min":"2020-01-01"},` +
		`{"name":"until","type":"time","was":["till","ends"]},` +
		`{"name":"mail","type":"email"},{"name":"site","type":"url"},{"name":"phone","type":"phone"},` +
		`{"name":"secret","type":"password","min":"8"},` +
		`{"name":"author","type":"reference","default":"@auth.id","collection":"users","on_delete":"set_null"},` +
		`{"name":"tags","type":"select","default":"[\"a\",\"b\"]","max":"2","options":["a","b","c"],"many":true},` +
		`{"name":"links","type":"json"},{"name":"raw","type":"json","max":"1000"},{"name":"any","type":"json"},` +
		`{"name":"html_body","type":"json","default":"{}"},{"name":"user_id","type":"int","min":"-2147483648","max":"2147483647"},` +
		`{"name":"code","type":"text","pattern":"[a-z]{1,3}'?"}],` +
		`"indexes":[{"name":"by_title","fields":[{"name":"title"}],"unique":true},{"name":"by_state","fields":[{"name":"state"}]}]}`
	if got, _ := json.Marshal(c); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestOfMistakes: errors name the Go field, and what to write instead.
func TestOfMistakes(t *testing.T) {
	one := func(typ reflect.Type, tag string) error {
		s, err := shapeOf(reflect.StructOf([]reflect.StructField{{Name: "Title", Type: typ, Tag: reflect.StructTag(`record:"` + tag + `"`)}}))
		if err != nil {
			return err
		}
		c := Collection{Name: "posts", Fields: []Field{s.members[0].field}}
		if s.members[0].index || s.members[0].unique {
			c.Indexes = []Index{{Name: "by_it", Fields: []IndexField{{Name: c.Fields[0].Name}}}}
		}
		if _, err = c.Compile(); err != nil {
			err = s.explain(c, err)
		}
		return err
	}
	text, number := reflect.TypeFor[string](), reflect.TypeFor[int]()
	for _, c := range []struct {
		typ       reflect.Type
		tag, want string
	}{
		{text, ",requird", `Title: record:",requird": unknown option "requird"; did you mean required?`},
		{text, ",nonsense", `unknown option "nonsense"; the options are cascade, default, hint, index, label, max, min, omitzero, options, pattern, ref, required, scale, set_null, type, unique, was`},
		{text, ",required=true", "required takes no value"}, {text, ",max", "max needs a value, as in max=…"}, {text, ",max=", "max needs a value"},
		{text, ",type=emial", `unknown type "emial"; did you mean email?`}, {number, ",type=text", "the Go type int cannot have type=text; its type is int"},
		{text, ",max=abc", `Title: max: "abc" is not a length`}, {text, ",scale=x", "scale=x is not a number of digits"}, {text, ",pattern='(", "a closing quote is missing"},
		{text, ",pattern='('x", "a comma must follow a quoted value"}, {text, ",unique,index", "unique implies index; leave out index"},
		{text, ",cascade", "Title: on_delete: fields of type text have no on_delete"}, {number, ",options=a|b", "fields of type int have no options"},
		{text, "rev", "Title: name: rev is a column that every record has"}, {text, "Bad-Name", "is not a valid name"}, {number, ",default=x", "Title: default:"},
		{text, ",type=password,index", "Title: name: title has a type that cannot be indexed"}, {text, ",was=title", "Title: 0: title is also the name of a field"},
		{reflect.TypeFor[uint64](), "", "use int64"}, {reflect.TypeFor[float32](), "", "use float64"}, {reflect.TypeFor[func()](), "", "the Go type func() is not supported"},
		{reflect.TypeFor[**int](), "", "the Go type *int is not supported"},
	} {
		if err := one(c.typ, c.tag); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "Title") {
			t.Errorf("%s: %v\nwant %s", c.tag, err, c.want)
		}
	}
	if _, err := Of[int]("x"); err == nil {
		t.Error("an int describes a collection")
	}
	if _, err := Of[struct{ Meta }]("x"); err == nil {
		t.Error("a struct without fields describes a collection")
	}
	if _, err := Of[struct {
		*Meta
		A int
	}]("x"); err == nil || !strings.Contains(err.Error(), "not a pointer to it") {
		t.Error(err)
	}
}

func FuzzTag(f *testing.F) {
	for _, tag := range []string{"title,required,max=200", ",pattern='[a-z]{1,3}',label=it''s", ",options=a|b,default=a", ",ref=users,cascade,was=owner", ",scale=2,min=0.5", "-", "',='"} {
		f.Add(tag, uint8(0))
		f.Add(tag, uint8(4))
	}
	types := []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[int8](), reflect.TypeFor[float64](), timeType, reflect.TypeFor[[]string](), rawType, reflect.TypeFor[*bool]()}
	f.Fuzz(func(t *testing.T, tag string, kind uint8) {
		m := member{goName: "X.Y", goType: types[int(kind)%len(types)]}
		if err := m.read("Y", tag); err != nil {
			return
		}
		c := Collection{Name: "x", Fields: []Field{m.field}}
		k, err := c.Compile()
		if err != nil {
			if text := (&shape{members: []member{m}}).explain(c, err).Error(); !strings.Contains(text, "X.Y") {
				t.Fatalf("%q: the error does not name the field: %s", tag, text)
			}
			return
		}
		if k.Kind(0) == 0 {
			t.Fatalf("%q: no kind", tag)
		}
	})
}
