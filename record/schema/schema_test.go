package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/record/value"
)

// articles has a field of every type.
func articles() Collection {
	return Collection{
		Name: "articles",
		Fields: []Field{
			{Name: "title", Type: Text, Required: true, Min: "1", Max: "10", Pattern: "[a-zé ]*"},
			{Name: "count", Type: Int, Min: "-5", Max: "9007199254740993", Default: "3"},
			{Name: "ratio", Type: Float, Max: "1.5"},
			{Name: "price", Type: Decimal, Scale: 2, Min: "0"},
			{Name: "live", Type: Bool, Default: "false"},
			{Name: "at", Type: Time, Min: "2020-01-01", Default: "@now"},
			{Name: "mail", Type: Email},
			{Name: "site", Type: URL},
			{Name: "phone", Type: Phone},
			{Name: "state", Type: Select, Options: []string{"open", "done"}, Default: `"open"`},
			{Name: "tags", Type: Select, Options: []string{"a", "b", "c"}, Many: true, Min: "1", Max: "2"},
			{Name: "meta", Type: JSON, Max: "50"},
			{Name: "author", Type: Reference, Collection: "users", OnDelete: SetNull, Default: "@auth.id"},
			{Name: "secret", Type: Password, Min: "8"},
		},
		Indexes: []Index{{Name: "by_state", Fields: []IndexField{{Name: "state"}, {Name: "at", Desc: true}}}, {Name: "by_title", Fields: []IndexField{{Name: "title"}}, Unique: true}},
	}
}

func compile(t *testing.T, c Collection) *Compiled {
	t.Helper()
	k, err := c.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// list returns the problems of an error, one a line.
func list(err error) string {
	var all Problems
	if !errors.As(err, &all) {
		return fmt.Sprint(err)
	}
	var lines []string
	for _, p := range all {
		lines = append(lines, p.Pointer+" "+p.Code)
	}
	return strings.Join(lines, "\n")
}

func TestCompile(t *testing.T) {
	compile(t, articles())
	long := strings.Repeat("x", 3000)
	for _, c := range []struct {
		name   string
		change func(c *Collection)
		want   string
	}{
		{"name", func(c *Collection) { c.Name = "Bad-Name" }, "/name pattern"},
		{"no name", func(c *Collection) { c.Name = "" }, "/name required"},
		{"keyword", func(c *Collection) { c.Fields[0].Name = "not"; c.Indexes = nil }, "/fields/0/name invalid"},
		{"column", func(c *Collection) { c.Fields[1].Name = "rev" }, "/fields/1/name invalid"},
		{"twice", func(c *Collection) { c.Fields[1].Name = "title" }, "/fields/1/name repeated"},
		{"type", func(c *Collection) { c.Fields[1].Type = "integer" }, "/fields/1/type unknown"},
		{"pattern", func(c *Collection) { c.Fields[0].Pattern = "a)(b" }, "/fields/0/pattern invalid"},
		{"pattern of int", func(c *Collection) { c.Fields[1].Pattern = "a" }, "/fields/1/pattern invalid"},
		{"bounds", func(c *Collection) { c.Fields[1].Min = "9007199254740994" }, "/fields/1/max invalid"},
		{"bound", func(c *Collection) { c.Fields[0].Max = "1.5" }, "/fields/0/max invalid"},
		{"time bound", func(c *Collection) { c.Fields[5].Min = "yesterday" }, "/fields/5/min invalid"},
		{"bound of bool", func(c *Collection) { c.Fields[4].Min = "1" }, "/fields/4/min invalid"},
		{"default", func(c *Collection) { c.Fields[1].Default = "x" }, "/fields/1/default type"},
		{"default below min", func(c *Collection) { c.Fields[1].Default = "-6" }, "/fields/1/default too_small"},
		{"default of password", func(c *Collection) { c.Fields[13].Default = `"12345678"` }, "/fields/13/default invalid"},
		{"auto", func(c *Collection) { c.Fields[1].Default = "@now" }, "/fields/1/default type"},
		{"options", func(c *Collection) { c.Fields[9].Options = nil }, "/fields/9/options required"},
		{"option twice", func(c *Collection) { c.Fields[9].Options = []string{"a", "a", ""} }, "/fields/9/options/1 repeated\n/fields/9/options/2 invalid"},
		{"reference", func(c *Collection) { c.Fields[12].Collection = "" }, "/fields/12/collection required"},
		{"required set_null", func(c *Collection) { c.Fields[12].Required = true }, "/fields/12/on_delete invalid"},
		{"on_delete", func(c *Collection) { c.Fields[12].OnDelete = "drop" }, "/fields/12/on_delete option"},
		{"scale", func(c *Collection) { c.Fields[3].Scale = 39 }, "/fields/3/scale too_large"},
		{"texts", func(c *Collection) { c.Label, c.Hint, c.Fields[0].Label = long, long, "a\x00" }, "/label too_large\n/hint too_large\n/fields/0/label invalid"},
		{"index of nothing", func(c *Collection) { c.Indexes[0].Fields[0].Name = "stat" }, "/indexes/0/fields/0/name invalid"},
		{"index of json", func(c *Collection) { c.Indexes[0].Fields[0].Name = "meta" }, "/indexes/0/fields/0/name invalid"},
		{"index of password", func(c *Collection) { c.Indexes[0].Fields[0].Name = "secret" }, "/indexes/0/fields/0/name invalid"},
		{"index of id", func(c *Collection) { c.Indexes[0].Fields[0].Name = "id" }, "/indexes/0/fields/0/name invalid"},
		{"index twice", func(c *Collection) { c.Indexes[1].Name = "by_state"; c.Indexes[0].Fields[1].Name = "state" }, "/indexes/0/fields/1/name repeated\n/indexes/1/name repeated"},
		{"history", func(c *Collection) { c.History.Keep = time.Minute }, "/history/keep invalid"},
		{"too many fields", func(c *Collection) {
			for i := range MaxFields {
				c.Fields = append(c.Fields, Field{Name: fmt.Sprint("f", i), Type: Int})
			}
		}, "/fields too_large"},
	} {
		a := articles()
		c.change(&a)
		if _, err := a.Compile(); list(err) != c.want {
			t.Errorf("%s: %v\n%s\nwant %s", c.name, err, list(err), c.want)
		}
	}
	created := articles()
	created.Indexes = append(created.Indexes, Index{Name: "newest", Fields: []IndexField{{Name: "created", Desc: true}}})
	compile(t, created)
}

func TestData(t *testing.T) {
	k := compile(t, articles())
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct{ patch, want string }{
		{`{"title":"é x"}`, `{"title":"é x","count":3,"live":false,"at":"2026-01-02T03:04:05.000000Z","state":"open","author":"u1"}`},
		{`{"title":"x","count":9007199254740993,"ratio":1.5,"price":"12.5","live":true,"at":"2021-01-01","mail":"a@b.example","site":"https://a.example/","phone":"+49 (30) 123-456","state":"done","tags":["c","a"],"meta":{"a":1.50},"author":null,"secret":"12345678"}`,
			`{"title":"x","count":9007199254740993,"ratio":1.5,"price":"12.50","live":true,"at":"2021-01-01T00:00:00.000000Z","mail":"a@b.example","site":"https://a.example/","phone":"+4930123456","state":"done","tags":["c","a"],"meta":{"a":1.50},"author":"u1"}`},
		{`{}`, "!/title required"},
		{`{"title":"", "count":-6, "ratio":2, "price":"1.234", "at":"2019-12-31", "mail":"a", "site":"javascript:alert(1)", "phone":"123", "state":"x", "tags":["a","b","c"], "secret":"short", "author":""}`,
			"!/title too_small\n/count too_small\n/ratio too_large\n/price too_large\n/at too_small\n/mail pattern\n/site pattern\n/phone pattern\n/state option\n/tags too_large\n/author invalid\n/secret too_small"},
		{`{"title":"x","tags":["a","a"]}`, "!/tags repeated"}, {`{"title":"x","tags":[]}`, "!/tags too_small"}, {`{"title":"x","tags":[1]}`, "!/tags type"}, {`{"title":"x","tags":"a"}`, "!/tags type"},
		{`{"title":"ABC"}`, "!/title pattern"}, {`{"title":"abcdefghijk"}`, "!/title too_large"}, {`{"title":"x","price":"-1"}`, "!/price too_small"},
		{`{"title":5,"count":"3","nme":1,"tit/le":2}`, "!/title type\n/count type\n/nme unknown\n/tit~1le unknown"},
		{`{"title":"x","title":"y"}`, "!/title repeated"}, {`[]`, "! type"}, {`{"title":`, "! invalid"}, {``, "! invalid"}, {`null`, "! type"},
		{`{"title":"x","count":9223372036854775808}`, "!/count type"}, {`{"title":"\u0000"}`, "! invalid"}, {"{\"title\":\"\xff\"}", "! invalid"},
		{`{"title":"x","meta":"` + strings.Repeat("m", 50) + `"}`, "!/meta too_large"}, {`{"title":"` + strings.Repeat("x", MaxDataBytes) + `"}`, "! too_large"},
	} {
		d, err := k.Patch(Data{}, []byte(c.patch))
		if err == nil {
			d = k.Complete(d, now, "u1")
			err = k.Check(d, nil)
		}
		if want, bad := strings.CutPrefix(c.want, "!"); bad {
			if list(err) != want {
				t.Errorf("%.60s: %v\n%s\nwant %s", c.patch, err, list(err), want)
			}
			continue
		}
		if got := string(k.AppendPublic(nil, d)); err != nil || got != c.want {
			t.Errorf("%.60s: %v\n got %s\nwant %s", c.patch, err, got, c.want)
		}
		stored := k.Append(nil, d)
		if back, err := k.Parse(stored); err != nil || string(k.Append(nil, back)) != string(stored) {
			t.Errorf("%s comes back as %s, %v", stored, k.Append(nil, back), err)
		}
	}
}

func TestUnknownField(t *testing.T) {
	k := compile(t, articles())
	if _, err := k.Patch(Data{}, []byte(`{"titel":"x"}`)); err == nil || err.Error() != `/titel: articles has no field "titel"; did you mean title?` {
		t.Error(err)
	}
}

func TestExtra(t *testing.T) {
	c := Collection{Name: "loose", Extra: true, Fields: []Field{{Name: "a", Type: Int}}}
	k := compile(t, c)
	d, err := k.Patch(Data{}, []byte(`{"z":{"x":1,"y":2},"a":1,"b":"t"}`))
	if err != nil {
		t.Fatal(err)
	}
	was := string(k.Append(nil, d))
	if was != `{"a":1,"b":"t","z":{"x":1,"y":2}}` {
		t.Error(was)
	}
	next, err := k.Patch(d, []byte(`{"z":{"x":null,"n":{"m":null}},"b":null,"c":[null]}`))
	if got := string(k.Append(nil, next)); err != nil || got != `{"a":1,"c":[null],"z":{"y":2,"n":{}}}` {
		t.Errorf("%s, %v", got, err)
	}
	if got := string(k.Append(nil, d)); got != was {
		t.Errorf("a patch has changed the data that it was applied to: %s", got)
	}
	if v := d.Extra("b"); v.String() != "t" || !d.Extra("none").IsNull() || !d.Get(7).IsNull() {
		t.Errorf("extra member %v", v)
	}
	// A field that is added later takes the member over, if its type allows it.
	c.Fields = append(c.Fields, Field{Name: "b", Type: Text}, Field{Name: "z", Type: Int})
	later, err := compile(t, c).Parse([]byte(was))
	if err != nil || later.Get(1).String() != "t" || !later.Get(2).IsNull() {
		t.Errorf("%v, %v", later, err)
	}
}

func TestHashedPassword(t *testing.T) {
	k := compile(t, Collection{Name: "p", Fields: []Field{{Name: "secret", Type: Password, Max: "10", Required: true}}})
	d := Data{}.With(0, mustText("a hash that is longer than ten characters"))
	if err := k.Check(d, func(int) bool { return true }); err != nil {
		t.Error(err)
	}
	if err := k.Check(d, nil); list(err) != "/secret too_large" {
		t.Error(err)
	}
	if err := k.Check(Data{}, func(int) bool { return true }); list(err) != "/secret required" {
		t.Error(err)
	}
}

func mustText(s string) value.Value {
	v, err := value.OfText(s)
	if err != nil {
		panic(err)
	}
	return v
}

// TestMerge has the cases of RFC 7396, appendix A.
func TestMerge(t *testing.T) {
	for _, c := range []struct{ target, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`}, {`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`}, {`{"a":"b"}`, `{"a":null}`, `{}`}, {`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`}, {`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`}, {`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`}, {`["a","b"]`, `["c","d"]`, `["c","d"]`}, {`{"a":"b"}`, `["c"]`, `["c"]`}, {`{"a":"foo"}`, `null`, `null`}, {`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`}, {`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`}, {`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		if got := string(appendMerged(nil, []byte(c.target), []byte(c.patch))); got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.target, c.patch, got, c.want)
		}
	}
}

func TestJSONForm(t *testing.T) {
	text, err := json.Marshal(articles())
	if err != nil {
		t.Fatal(err)
	}
	var back Collection
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if again, _ := json.Marshal(back); string(again) != string(text) {
		t.Errorf("%s\nbecomes %s", text, again)
	}
	if strings.Contains(string(text), `"history"`) || strings.Contains(string(text), `"rules"`) {
		t.Error("zero options are written")
	}
}

func FuzzPatch(f *testing.F) {
	f.Add(`{"title":"x","meta":{"a":1}}`, `{"meta":{"a":null},"count":5}`)
	f.Add(`{"x":[1]}`, `{"x":{"y":null}}`)
	a := articles()
	a.Extra = true
	k, err := a.Compile()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		d, err := k.Patch(Data{}, []byte(first))
		if err != nil {
			return
		}
		was := string(k.Append(nil, d))
		next, err := k.Patch(d, []byte(second))
		if got := string(k.Append(nil, d)); got != was {
			t.Fatalf("%s became %s", was, got)
		}
		if err != nil {
			return
		}
		stored := k.Append(nil, next)
		back, err := k.Parse(stored)
		if err != nil || string(k.Append(nil, back)) != string(stored) {
			t.Fatalf("%s comes back as %s, %v", stored, k.Append(nil, back), err)
		}
	})
}

// TestOlderData: data that was written for an earlier description is read as far as it has a form in the new one.
func TestOlderData(t *testing.T) {
	for _, c := range []struct {
		field Field
		raw   string
		want  string
	}{
		{Field{Type: Text}, `5`, `"5"`}, {Field{Type: Text}, `1.50`, `"1.5"`}, {Field{Type: Text}, `true`, `"true"`}, {Field{Type: Text}, `["a"]`, `"a"`}, {Field{Type: Text}, `["a","b"]`, `"[\"a\",\"b\"]"`},
		{Field{Type: Int}, `"12"`, `12`}, {Field{Type: Int}, `"x"`, ``}, {Field{Type: Int}, `1.5`, ``}, {Field{Type: Int}, `true`, ``}, {Field{Type: Int}, `"2026-01-01T00:00:00.000000Z"`, ``},
		{Field{Type: Float}, `12`, `12`}, {Field{Type: Float}, `"1.5"`, `1.5`}, {Field{Type: Decimal, Scale: 2}, `12`, `"12.00"`}, {Field{Type: Decimal}, `1.25`, `"1.25"`},
		{Field{Type: Time}, `"2026-01-02"`, `"2026-01-02T00:00:00.000000Z"`}, {Field{Type: Time}, `5`, ``}, {Field{Type: Bool}, `"true"`, `true`}, {Field{Type: Bool}, `1`, ``},
		{Field{Type: Select, Many: true, Options: []string{"a"}}, `"a"`, `["a"]`}, {Field{Type: Select, Options: []string{"a"}}, `["a"]`, `"a"`}, {Field{Type: JSON}, `"a"`, `"a"`},
		{Field{Type: Phone}, `"+49 30 123456"`, `"+4930123456"`}, {Field{Type: Password}, `5`, ``},
	} {
		c.field.Name = "now"
		c.field.Was = []string{"was", "before"}
		k := compile(t, Collection{Name: "x", Fields: []Field{c.field}})
		for _, name := range []string{"now", "was", "before"} {
			d, err := k.Parse([]byte(`{"other":1,"` + name + `":` + c.raw + `}`))
			want := `{}`
			if c.want != "" {
				want = `{"now":` + c.want + `}`
			}
			if got := string(k.Append(nil, d)); err != nil || got != want {
				t.Errorf("%s as %s of type %s: %s, want %s; %v", c.raw, name, c.field.Type, got, want, err)
			}
		}
		if d, _ := k.Parse([]byte(`{"now":null,"was":` + c.raw + `,"before":0}`)); c.want != "" && string(k.Append(nil, d)) != `{"now":`+c.want+`}` {
			t.Errorf("%s: the first former name does not win", c.raw)
		}
		if k.Current("was") != "now" || k.Current("now") != "now" || k.Current("x") != "x" {
			t.Error("current names")
		}
		if _, err := k.Patch(Data{}, []byte(`{"was":null}`)); list(err) != "/was unknown" {
			t.Errorf("a patch names a field by its former name: %v", err)
		}
	}
}

// TestReserved: no collection hides another part of the API.
func TestReserved(t *testing.T) {
	_, err := Collection{Name: "events"}.Compile()
	if p, ok := errors.AsType[Problems](err); !ok || p[0].Pointer != "/name" || !strings.Contains(p[0].Detail, "/api/events") {
		t.Errorf("a collection with a reserved name: %v", err)
	}
}
