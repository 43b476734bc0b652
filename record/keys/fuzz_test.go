package keys

import (
	"bytes"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/record/schema"
)

// drawer returns a collection with each kind of index, before and after a migration has changed its fields.
func drawer(tb testing.TB) (before, after *Collection) {
	tb.Helper()
	c := schema.Collection{Name: "c", Extra: true, Fields: []schema.Field{{Name: "title", Type: schema.Text}, {Name: "n", Type: schema.Int}, {Name: "old", Type: schema.Password}},
		Indexes: []schema.Index{{Name: "a", Fields: []schema.IndexField{{Name: "title"}, {Name: "n", Desc: true}}}, {Name: "b", Unique: true, Fields: []schema.IndexField{{Name: "n", Desc: true}}}}}
	k, err := c.Compile()
	if err != nil {
		tb.Fatal(err)
	}
	before = (&Collection{ID: 7}).Next(k)
	c.Dropped = c.Fields[2:]
	c.Fields = []schema.Field{{Name: "name", Type: schema.Text, Was: []string{"title"}}, {Name: "n", Type: schema.Text}}
	c.Indexes = nil
	if k, err = c.Compile(); err != nil {
		tb.Fatal(err)
	}
	return before, before.Next(k)
}

// FuzzReadDescription: what is read of a description is written so that the same is read.
func FuzzReadDescription(f *testing.F) {
	before, after := drawer(f)
	for _, c := range []*Collection{before, after} {
		text, err := c.appendDescription()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := readDescription(text, nil)
		if err != nil {
			return
		}
		again, err := c.appendDescription()
		if err != nil {
			t.Fatal(err)
		}
		back, err := readDescription(again, nil)
		if err != nil {
			t.Fatalf("%s is written as %s: %v", text, again, err)
		}
		if twice, err := back.appendDescription(); err != nil || !bytes.Equal(twice, again) {
			t.Fatalf("%s is written as %s, %v", again, twice, err)
		}
	})
}

// FuzzEntryID: the key of an entry in an index ends with the id that is read from it, or is damaged.
func FuzzEntryID(f *testing.F) {
	c, _ := drawer(f)
	d, err := c.Patch(schema.Data{}, []byte(`{"title":"a\u0001b","n":-5}`))
	if err != nil {
		f.Fatal(err)
	}
	for i := range c.stored {
		f.Add(byte(i), c.stored[i].entryKey(c.ID, &Doc{ID: "a", Data: d}))
		f.Add(byte(i), c.stored[i].entryKey(c.ID, &Doc{ID: "b", Deleted: true}))
	}
	f.Fuzz(func(t *testing.T, i byte, key []byte) {
		was := bytes.Clone(key)
		x := &c.stored[int(i)%len(c.stored)]
		if id, err := x.entryID(key); err == nil && !bytes.HasSuffix(key, x.appendEntryID(nil, id)) {
			t.Fatalf("%x is the entry of %q", key, id)
		}
		if !bytes.Equal(key, was) {
			t.Fatal("the key was changed")
		}
	})
}

// FuzzEditsToday: whatever a body has, what is left of it today is of members that the collection has, each once, and
// never of a password.
func FuzzEditsToday(f *testing.F) {
	_, c := drawer(f)
	f.Add([]byte(`[{"op":"remove","path":"/title","old":"x"},{"op":"add","path":"/name","value":"x"},{"op":"replace","path":"/n","value":"5","old":4}]`))
	f.Add([]byte(`[{"op":"add","path":"/old","value":"sha256:00"},{"op":"add","path":"/x~1y","value":[1]}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		all, err := EditsToday(c, &Change{Op: Update, Body: body})
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, e := range all {
			if e.Name == "title" || e.Name == "old" || seen[e.Name] || bytes.Equal(e.Now, e.Old) {
				t.Fatalf("%s has %s: %s to %s", body, e.Name, e.Old, e.Now)
			}
			seen[e.Name] = true
		}
	})
}

// FuzzSteps: a change of the engine that is damaged anywhere is an error or the steps of some record, never a panic.
func FuzzSteps(f *testing.F) {
	c, _ := drawer(f)
	ch := &Change{ID: "a", Rev: 1, Seq: 1, Op: Create, Body: []byte(`[{"op":"add","path":"/n","value":1}]`), Full: []byte("{}")}
	d := Doc{ID: "a", Rev: 1}
	f.Add([]byte("a"), uint64(1), appendDoc(nil, c, &d), appendChange(nil, ch), appendLog(nil, ch, [32]byte{1}), false)
	f.Add([]byte("a"), uint64(2), []byte{}, appendChange(nil, &Change{Seq: 2, Op: Delete, Body: []byte("[]")}), []byte{2}, true)
	f.Fuzz(func(t *testing.T, id []byte, rev uint64, doc, change, log []byte, gone bool) {
		w := []engine.Write{
			{Key: docKey(c.ID, string(id)), Val: doc, Deleted: gone}, {Key: historyKey(c.ID, string(id), rev), Val: change}, {Key: logKey(c.ID, rev), Val: log},
			{Key: append([]byte{keyspace.Records, docKeys}, id...), Val: doc},
		}
		steps, err := Steps(engine.Change{Pos: 1, Writes: w}, func(uint32) bool { return true })
		if err != nil {
			return
		}
		for _, s := range steps {
			_, _, _, _ = s.Live(c)
			if s.Last() == nil || s.Bytes() < 0 {
				t.Fatal("a step without a change")
			}
		}
		_, _ = c.readLog(engine.Pair{Key: logKey(c.ID, rev), Val: log})
	})
}
