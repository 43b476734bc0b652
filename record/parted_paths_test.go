package record

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/schema"
)

// found returns the ids that a query of notes finds, page by page.
func found(t *testing.T, db *DB, q Query, args ...any) (ids []string, err error) {
	t.Helper()
	for {
		var some []string
		next := ""
		_, err = db.View(t.Context(), engine.Read{}, Program(), func(tx *Tx) error {
			some = nil
			p, err := tx.List("notes", q, args...)
			if err != nil {
				return err
			}
			next = p.Next
			for _, r := range p.Items {
				some = append(some, r.ID)
			}
			return nil
		})
		if ids = append(ids, some...); err != nil || next == "" {
			return ids, err
		}
		q.After = next
	}
}

// redefined returns the records of the same engine for a program that defines another collection.
func redefined(t *testing.T, db *DB, c schema.Collection) *DB {
	t.Helper()
	other, err := Open(db.parted.PathStore, Options{})
	if err == nil {
		err = other.Define(c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return other
}

// TestPartedDefine: a collection that would need several partitions is refused by name when it is defined.
func TestPartedDefine(t *testing.T) {
	db := openParted(t)
	for _, c := range []struct {
		change func(*schema.Collection)
		text   string
	}{
		{func(c *schema.Collection) { c.Indexes[0].Unique = true }, "unique index by_owner of collection notes"},
		{func(c *schema.Collection) { c.History.Keep = time.Hour }, "history.keep of collection notes"},
		{func(c *schema.Collection) {
			c.Fields = append(c.Fields, schema.Field{Name: "up", Type: schema.Reference, Collection: "notes"})
		}, "reference up of collection notes"},
	} {
		n := notes()
		c.change(&n)
		if err := db.Define(n); engine.CodeOf(err) != engine.CodeUnsupported || !strings.Contains(err.Error(), c.text) {
			t.Errorf("Define: %v, want %s", err, c.text)
		}
	}
}

// TestPartedRefusals: what needs several partitions is refused.
func TestPartedRefusals(t *testing.T) {
	db := openParted(t)
	if err := db.Define(notes()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Update(t.Context(), Program(), put("a")); err != nil {
		t.Fatal(err)
	}
	unsupported := func(what string, err error) {
		t.Helper()
		if engine.CodeOf(err) != engine.CodeUnsupported {
			t.Errorf("%s: %v", what, err)
		}
	}
	unsupported("After", db.After("mail", "notes", func(context.Context, *Committed) error { return nil }))
	_, err := db.Subscribe(t.Context(), Program(), Subscription{})
	unsupported("Subscribe", err)
	_, err = db.Verify(t.Context(), nil, nil)
	unsupported("Verify", err)
	_, err = db.Undo(t.Context(), Program(), "anna", time.Time{}, true)
	unsupported("Undo", err)
	_, err = db.Convert(t.Context(), nil, InTables)
	unsupported("Convert", err)
	n := notes()
	n.Indexes = append(n.Indexes, schema.Index{Name: "by_title", Fields: []schema.IndexField{{Name: "title"}}})
	_, err = redefined(t, db, n).Migrate(t.Context(), MigrateOptions{})
	unsupported("Migrate with a new index", err)
	n = notes()
	n.Label = "Notes"
	if done, err := redefined(t, db, n).Migrate(t.Context(), MigrateOptions{}); err != nil || len(done) != 1 {
		t.Errorf("Migrate with another label: %v %v", done, err)
	}
	unsupported("DropCollection", db.DropCollection(t.Context(), "notes", true))
	unsupported("a stored response", db.Alone("the header Idempotency-Key"))
	view := func(what string, code engine.Code, fn func(tx *Tx) error) {
		t.Helper()
		if _, err := db.View(t.Context(), engine.Read{}, Program(), fn); engine.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", what, err, code)
		}
	}
	view("Head", engine.CodeUnsupported, func(tx *Tx) error { _, err := tx.Head("notes"); return err })
	view("GetAsOf of a number", engine.CodeUnsupported, func(tx *Tx) error { _, err := tx.GetAsOf("notes", "a", Moment{Seq: 1}); return err })
	for filter, text := range map[string]string{
		`title = "x"`:                   "declare an index on (title)",
		`title = "x" || owner = "anna"`: "declare an index on (title)",
		`n > 3`:                         "compare the id or the first field of an index with =",
		``:                              "compare the id or the first field of an index with =",
	} {
		view(filter, CodeNoPath, func(tx *Tx) error {
			_, err := tx.List("notes", Query{Filter: filter})
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want %s", filter, err, text)
			}
			return err
		})
	}
}

// TestPartedMigratedElsewhere: a process follows the descriptions that another one has changed.
func TestPartedMigratedElsewhere(t *testing.T) {
	db := openParted(t)
	if err := db.Define(notes()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Update(t.Context(), Program(), put("a")); err != nil {
		t.Fatal(err)
	}
	n := notes()
	n.Fields = append(n.Fields, schema.Field{Name: "place", Type: schema.Text})
	if _, err := redefined(t, db, n).Migrate(t.Context(), MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := db.Update(t.Context(), Program(), func(tx *Tx) error {
		_, err := tx.Update("notes", "a", []byte(`{"place":"Oslo"}`), 0)
		return err
	})
	if err != nil {
		t.Errorf("set a field that another process has added: %v", err)
	}
}

// TestPartedDescending: the first field of an index may be descending.
func TestPartedDescending(t *testing.T) {
	db := openParted(t)
	c := notes()
	c.Indexes = []schema.Index{{Name: "by_n", Fields: []schema.IndexField{{Name: "n", Desc: true}, {Name: "owner"}}}}
	if err := db.Define(c); err != nil {
		t.Fatal(err)
	}
	for id, data := range map[string]string{"a": `{"n":2,"owner":"bert"}`, "b": `{"n":2,"owner":"anna"}`, "c": `{"n":-2,"owner":"anna"}`, "d": `{"owner":"anna"}`} {
		_, err := db.Update(t.Context(), Program(), func(tx *Tx) error { _, err := tx.Create("notes", id, []byte(data)); return err })
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct{ filter, order, want string }{
		{"n = 2", "owner", "b a"},
		{"n = 2", "-owner", "a b"},
		{"n = -2", "owner", "c"},
		{"n = null", "owner", "d"},
		{"n = 3", "owner", ""},
	} {
		got, err := found(t, db, Query{Filter: x.filter, Sort: x.order, Limit: 1})
		if err != nil || strings.Join(got, " ") != x.want {
			t.Errorf("%s by %s: %v %v, want %s", x.filter, x.order, got, err, x.want)
		}
	}
}

// TestPartedCrossing: a transaction that changes two records changes none, even if its function ignores the error.
func TestPartedCrossing(t *testing.T) {
	db := openParted(t)
	if err := db.Define(notes()); err != nil {
		t.Fatal(err)
	}
	_, err := db.Update(t.Context(), Program(), func(tx *Tx) error {
		if err := put("b")(tx); err != nil {
			return err
		}
		_ = put("c")(tx) // that it fails is enough
		return nil
	})
	if engine.CodeOf(err) != engine.CodeCrossPartition || !strings.Contains(err.Error(), "one record in a transaction") {
		t.Errorf("two records in a transaction: %v", err)
	}
	if _, err := db.View(t.Context(), engine.Read{}, Program(), func(tx *Tx) error { _, err := tx.Get("notes", "b"); return err }); !errors.Is(err, ErrNotFound) {
		t.Errorf("a record of a refused transaction: %v", err)
	}
}

// put returns a function that creates a note.
func put(id string) func(tx *Tx) error {
	return func(tx *Tx) error {
		_, err := tx.Create("notes", id, []byte(`{"owner":"anna"}`))
		return err
	}
}
