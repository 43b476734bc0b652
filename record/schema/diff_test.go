package schema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
)

// plain returns the description as JSON without what migrations keep of older ones.
func plain(c Collection) string {
	c = c.clone()
	c.Dropped = nil
	for i := range c.Fields {
		c.Fields[i].Was = nil
	}
	slices.SortFunc(c.Indexes, func(a, b Index) int { return strings.Compare(a.Name, b.Name) })
	text, _ := json.Marshal(c)
	return string(text)
}

// last returns the description after all steps.
func last(old Collection, steps []Step) Collection {
	if len(steps) == 0 {
		return old
	}
	return steps[len(steps)-1].After
}

// TestDiff has the sentences.
func TestDiff(t *testing.T) {
	old := Collection{Name: "posts", Fields: []Field{{Name: "title", Type: Text, Max: "200"}, {Name: "state", Type: Select, Options: []string{"a", "b"}}, {Name: "owner", Type: Text}, {Name: "n", Type: Int}},
		Indexes: []Index{{Name: "by_owner", Fields: []IndexField{{Name: "owner"}}}, {Name: "by_n", Fields: []IndexField{{Name: "n"}}}}}
	for _, c := range []struct {
		change func(c *Collection)
		want   string
	}{
		{func(c *Collection) {}, ""},
		{func(c *Collection) { c.Name = ""; c.Fields = nil }, "Drop collection posts with all its records and their history. (may lose data)"},
		{func(c *Collection) { c.Fields = c.Fields[:3]; c.Indexes = c.Indexes[:1] }, "Drop index by_n of posts.\nDrop field n of posts with its values. (may lose data)"},
		{func(c *Collection) {
			c.Fields[2].Name = "author"
			c.Fields[2].Was = []string{"owner"}
			c.Indexes[0].Fields[0].Name = "author"
		}, "Rename field owner of posts to author."},
		{func(c *Collection) { c.Fields[2].Name = "author"; c.Indexes[0].Fields[0].Name = "author" },
			"Drop index by_owner of posts.\nDrop field owner of posts with its values. (may lose data)\nAdd the field author of type text to posts.\nChange the order of the fields of posts.\nBuild the index by_owner of posts on author."},
		{func(c *Collection) { c.Fields[0].Max = "100"; c.Fields[0].Required = true }, `Change field title of posts: required from "no" to "yes"; max from "200" to "100". (may lose data)`},
		{func(c *Collection) { c.Fields[0].Max = "" }, `Change field title of posts: max from "200" to nothing.`},
		{func(c *Collection) { c.Fields[0].Min = "1" }, `Change field title of posts: min from nothing to "1". (may lose data)`},
		{func(c *Collection) { c.Fields[0].Required, c.Fields[0].Default = true, `"x"` }, `Change field title of posts: required from "no" to "yes"; default from nothing to "\"x\"".`},
		{func(c *Collection) { c.Fields[1].Options = []string{"a", "b", "c"} }, `Change field state of posts: options from "a|b" to "a|b|c".`},
		{func(c *Collection) { c.Fields[1].Options = []string{"b", "c"} }, `Change field state of posts: options from "a|b" to "b|c". (may lose data)`},
		{func(c *Collection) { c.Fields[3].Type = Float }, `Change field n of posts: type from "int" to "float". (may lose data)`},
		{func(c *Collection) { c.Fields[3].Type = Decimal }, `Change field n of posts: type from "int" to "decimal".`},
		{func(c *Collection) { c.Fields = append(c.Fields, Field{Name: "x", Type: Int, Required: true}) }, "Add the required field x of type int to posts. (may lose data)"},
		{func(c *Collection) {
			c.Fields = append(c.Fields, Field{Name: "x", Type: Int, Required: true, Default: "1"})
		}, "Add the required field x of type int to posts."},
		{func(c *Collection) {
			c.Indexes[1] = Index{Name: "by_n", Unique: true, Fields: []IndexField{{"n", true}, {"created", false}}}
		}, "Drop index by_n of posts.\nBuild the unique index by_n of posts on -n, created."},
		{func(c *Collection) { c.Rules.List, c.Label, c.History.Keep = "true", "Posts", 3600e9 },
			"Change the label of posts from nothing to \"Posts\".\nKeep the history of posts for 1h0m0s, no longer for ever. (may lose data)\nChange the list rule of posts from nothing to \"true\"."},
		{func(c *Collection) { c.Extra = true }, "Allow members of the data of posts that are not fields."},
	} {
		new := old.clone()
		for i := range new.Indexes {
			new.Indexes[i].Fields = slices.Clone(new.Indexes[i].Fields)
		}
		c.change(&new)
		steps, err := Diff(old, new)
		var lines []string
		for _, s := range steps {
			lines = append(lines, s.String())
		}
		if got := strings.Join(lines, "\n"); err != nil || got != c.want {
			t.Errorf("%v\ngot  %s\nwant %s", err, got, c.want)
		}
	}
	if steps, err := Diff(Collection{}, old); err != nil || len(steps) != 1 || steps[0].Text != "Create collection posts with 4 fields and 2 indexes." {
		t.Errorf("%v, %v", steps, err)
	}
}

// TestDiffRefuses: what older data would be read as something else by.
func TestDiffRefuses(t *testing.T) {
	old := Collection{Name: "x", Fields: []Field{{Name: "b", Type: Text, Was: []string{"a"}}, {Name: "secret", Type: Password}}, Dropped: []Field{{Name: "key", Type: Password}}}
	for _, c := range []struct {
		fields []Field
		want   string
	}{
		{[]Field{{Name: "b", Type: Text}, {Name: "secret", Type: Text}}, "/fields/1/type invalid"},
		{[]Field{{Name: "b", Type: Password}}, "/fields/0/type invalid"},
		{[]Field{{Name: "b", Type: Text}, {Name: "a", Type: Text}}, "/fields/1/name repeated"},
		{[]Field{{Name: "key", Type: Text}}, "/fields/0/name repeated"},
		{[]Field{{Name: "key", Type: Password}}, "<nil>"},
	} {
		if _, err := Diff(old, Collection{Name: "x", Fields: c.fields}); list(err) != c.want {
			t.Errorf("%v: %v, want %s", c.fields, err, c.want)
		}
	}
}

// TestDiffLeads: the steps lead from one description to the other and back, each of them is valid, and a record of
// which no step says that it loses something is valid afterwards and has all its values.
func TestDiffLeads(t *testing.T) {
	r := seed.Rand(t)
	checked, lost := 0, 0
	for range 3_000 {
		old := randomCollection(r)
		new := randomChange(r, old)
		steps, err := Diff(old, new)
		if err != nil {
			continue
		}
		end := last(old, steps)
		for _, s := range steps {
			if _, err := s.After.Compile(); err != nil {
				t.Fatalf("%s\nfrom %s\nto %s\n%v", s, plain(old), plain(new), err)
			}
			if !strings.HasSuffix(s.Text, ".") {
				t.Fatalf("%q is not a sentence", s.Text)
			}
		}
		if plain(end) != plain(new) {
			t.Fatalf("from %s\nto %s\nleads to %s\n%v", plain(old), plain(new), plain(end), steps)
		}
		if again, err := Diff(end, new); err != nil || len(again) > 0 {
			t.Fatalf("the way from %s to %s is not at its end: %v, %v", plain(end), plain(new), again, err)
		}
		back, err := Diff(end, old)
		if err != nil || plain(last(end, back)) != plain(old) {
			t.Fatalf("from %s\nback to %s\nleads to %s, %v", plain(end), plain(old), plain(last(end, back)), err)
		}
		for range 5 {
			if any, is := keeps(t, r, old, end, steps); is {
				checked++
			} else if any {
				lost++
			}
		}
	}
	if checked < 1_000 || lost < 100 {
		t.Errorf("only %d records were checked, and %d lost something", checked, lost)
	}
}

// keeps makes a record of old and checks what the steps make of it.
func keeps(t *testing.T, r *rand.Rand, old, new Collection, steps []Step) (valid, kept bool) {
	t.Helper()
	a, b := compile(t, old), compile(t, new)
	was, err := a.Patch(Data{}, []byte(randomData(r, old)))
	if err != nil || a.Check(was, nil) != nil {
		return false, false
	}
	stored := a.Append(nil, was)
	is, err := b.Parse(stored)
	if err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		if steps[i].Lost(a, was, b, is) {
			return true, false
		}
	}
	err = b.Check(b.Fill(is), nil)
	if err != nil || members(is) < members(was) {
		t.Fatalf("from %s\nto %s\nby %v\n%s becomes %s: %v", plain(old), plain(new), steps, stored, b.Append(nil, is), err)
	}
	return true, true
}

// members returns how many values a record has.
func members(d Data) int {
	n := len(d.extras)
	for _, v := range d.values {
		if !v.IsNull() {
			n++
		}
	}
	return n
}

var diffTypes = []Type{Text, Int, Float, Decimal, Bool, Time, Email, Select, JSON, Reference}

func randomField(r *rand.Rand, name string) Field {
	f := Field{Name: name, Type: diffTypes[r.IntN(len(diffTypes))], Required: r.IntN(3) == 0}
	switch f.Type {
	case Text, Int, Float, Decimal:
		f.Min, f.Max = []string{"", "0", "1"}[r.IntN(3)], []string{"", "3", "12"}[r.IntN(3)]
	case Select:
		f.Many = r.IntN(2) == 0
		f.Options = []string{"1", "b", "c"}[r.IntN(2) : 2+r.IntN(2)]
	case Reference:
		f.Collection = []string{"users", "posts"}[r.IntN(2)]
	}
	if f.Type == Decimal {
		f.Scale = r.IntN(3)
	}
	if r.IntN(3) == 0 {
		f.Default = map[Type]string{Text: `"1"`, Int: "1", Float: "1", Decimal: `"1"`, Bool: "true", Time: "@now", JSON: "[]", Reference: "@auth.id"}[f.Type]
	}
	return f
}

func randomCollection(r *rand.Rand) Collection {
	for {
		c := Collection{Name: "x", Extra: r.IntN(2) == 0, Label: []string{"", "X"}[r.IntN(2)]}
		for _, name := range []string{"a", "b", "c", "d"}[:1+r.IntN(4)] {
			c.Fields = append(c.Fields, randomField(r, name))
		}
		addIndex(r, &c)
		if _, err := c.Compile(); err == nil {
			return c
		}
	}
}

func addIndex(r *rand.Rand, c *Collection) {
	if r.IntN(2) == 0 {
		return
	}
	x := Index{Name: fmt.Sprint("i", r.IntN(3)), Unique: r.IntN(2) == 0, Fields: []IndexField{{c.Fields[r.IntN(len(c.Fields))].Name, r.IntN(2) == 0}, {Name: "created"}}}
	if c.index(x.Name) < 0 {
		c.Indexes = append(c.Indexes, x)
	}
}

func randomChange(r *rand.Rand, old Collection) Collection {
	for {
		c := old.clone()
		c.Indexes = nil
		for range 1 + r.IntN(4) {
			i := r.IntN(len(c.Fields))
			switch f := &c.Fields[i]; r.IntN(6) {
			case 0:
				if len(c.Fields) > 1 {
					c.Fields = slices.Delete(c.Fields, i, i+1)
				}
			case 1:
				c.Fields = slices.Insert(c.Fields, i, randomField(r, fmt.Sprint("new", r.IntN(3))))
			case 2:
				f.Was, f.Name = []string{f.Name}, fmt.Sprint("re", r.IntN(3))
			case 3:
				*f = randomField(r, f.Name)
			case 4:
				f.Required, f.Max = !f.Required, ""
			case 5:
				c.Extra, c.Rules.View = !c.Extra, "true"
			}
		}
		addIndex(r, &c)
		for _, x := range old.Indexes {
			if c.index(x.Name) < 0 {
				c.Indexes = append(c.Indexes, x)
			}
		}
		if _, err := c.Compile(); err == nil {
			return c
		}
	}
}

func randomData(r *rand.Rand, c Collection) string {
	texts := []string{`"1"`, `"b"`, `"a@b.example"`, `"2026-01-02"`, `"true"`, `"a longer text than that"`, `"0.25"`, `5`, `1`, `0.5`, `2.75`, `true`, `["1"]`, `["1","b"]`, `["c"]`, `{"m":1}`}
	var members []string
	for _, f := range c.Fields {
		if r.IntN(5) == 0 {
			continue
		}
		raw := texts[r.IntN(len(texts))]
		k := field{Field: f, kind: kinds[f.Type]}
		for range 30 {
			v, err := k.read([]byte(raw))
			if err == nil && k.check("", v) == nil {
				break
			}
			raw = texts[r.IntN(len(texts))]
		}
		members = append(members, fmt.Sprintf("%q:%s", f.Name, raw))
	}
	if c.Extra && r.IntN(2) == 0 {
		members = append(members, []string{`"more":[1]`, `"new0":"b"`, `"new1":7`}[r.IntN(3)])
	}
	return "{" + strings.Join(members, ",") + "}"
}
