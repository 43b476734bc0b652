package keys

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/record/schema"
)

func collection(tb testing.TB) *Collection {
	k, err := schema.Collection{Name: "c", Extra: true, Fields: []schema.Field{{Name: "title", Type: schema.Text}, {Name: "n", Type: schema.Int}}}.Compile()
	if err != nil {
		tb.Fatal(err)
	}
	return (&Collection{}).Next(k)
}

func TestDoc(t *testing.T) {
	c := collection(t)
	data, err := c.Patch(schema.Data{}, []byte(`{"title":"x","n":9007199254740993,"z":[1.50]}`))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	for _, d := range []*Doc{
		{ID: "a", Rev: 1, Data: data, Marks: [Stamps]Mark{Created: {at, "u1"}}},
		{ID: "b", Rev: 1 << 60, Deleted: true, Data: data, Marks: [Stamps]Mark{{at, ""}, {at.Add(time.Hour), "u2"}, {at.Add(-time.Hour), "u3"}, {at.Add(1), "é"}}},
		{ID: "c", Rev: 2, Marks: [Stamps]Mark{Created: {time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC), ""}, Restored: {at, ""}}},
	} {
		b := appendDoc(nil, c, d)
		got, err := readDoc(c, d.ID, b)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(appendDoc(nil, c, got), b) || got.ID != d.ID || got.Rev != d.Rev || got.Deleted != d.Deleted {
			t.Errorf("%+v comes back as %+v", d, got)
		}
		for i, column := range schema.Columns() {
			if got.Column(i) != d.Column(i) {
				t.Errorf("column %s of %s: %v, want %v", column.Name, d.ID, got.Column(i), d.Column(i))
			}
		}
		for cut := range b {
			if _, err := readDoc(c, d.ID, b[:cut]); err == nil {
				t.Errorf("the first %d bytes of %x are a document", cut, b)
			}
		}
	}
}

func FuzzReadDoc(f *testing.F) {
	c := collection(f)
	f.Add(appendDoc(nil, c, &Doc{Rev: 5, Deleted: true, Marks: [Stamps]Mark{{time.Unix(5, 0), "u"}, {time.Unix(7, 0), ""}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := readDoc(c, "a", b)
		if err != nil {
			return
		}
		again := appendDoc(nil, c, d)
		back, err := readDoc(c, "a", again)
		if err != nil || !bytes.Equal(appendDoc(nil, c, back), again) {
			t.Fatalf("%x is read as %+v, written as %x, read as %+v, %v", b, d, again, back, err)
		}
	})
}

// TestForm: a description under which data are written in the same way has the same form, so that records are kept as
// text; any other one has a form that no record has.
func TestForm(t *testing.T) {
	c := collection(t)
	next := func(c *Collection, change func(s *schema.Collection)) *Collection {
		s := c.Collection
		s.Fields = slices.Clone(s.Fields)
		change(&s)
		k, err := s.Compile()
		if err != nil {
			t.Fatal(err)
		}
		n := c.Next(k)
		text, err := n.appendDescription()
		if err != nil {
			t.Fatal(err)
		}
		if n, err = readDescription(text, nil); err != nil {
			t.Fatal(err)
		}
		return n
	}
	ruled := next(c, func(s *schema.Collection) { s.Rules.List = "true" })
	wider := next(ruled, func(s *schema.Collection) { s.Extra = false })
	added := next(wider, func(s *schema.Collection) {
		s.Fields = append([]schema.Field{{Name: "new", Type: schema.Bool}}, s.Fields...)
	})
	typed := next(added, func(s *schema.Collection) { s.Fields[1].Type = schema.Email })
	back := next(typed, func(s *schema.Collection) { s.Fields[1].Type = schema.Text })
	for i, x := range []struct {
		c    *Collection
		form uint64
	}{{c, 1}, {ruled, 1}, {wider, 3}, {added, 3}, {typed, 5}, {back, 6}} {
		if x.c.form != x.form || x.c.Version != uint64(i+1) {
			t.Errorf("description %d has form %d, want %d", x.c.Version, x.c.form, x.form)
		}
	}
	data, err := c.Patch(schema.Data{}, []byte(`{"title":"x","n":1,"z":2}`))
	if err != nil {
		t.Fatal(err)
	}
	old := appendDoc(nil, c, &Doc{ID: "a", Rev: 1, Data: data})
	for _, x := range []struct {
		c    *Collection
		want string
	}{{c, `{"title":"x","n":1,"z":2}`}, {ruled, `{"title":"x","n":1,"z":2}`}, {added, `{"title":"x","n":1}`}, {typed, `{"title":"x","n":1}`}} {
		d, err := readDoc(x.c, "a", old)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(x.c.Append(nil, d.Data)); got != x.want {
			t.Errorf("under description %d the record is %s, want %s", x.c.Version, got, x.want)
		}
	}
}
