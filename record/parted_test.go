package record

import (
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/schema"
)

// openParted opens the records of an engine that keeps each in a partition: that of testengine.Env, or else one in memory.
func openParted(t *testing.T) *DB {
	t.Helper()
	var eng engine.Engine = newPartitions(t)
	if own, ok := eng.(*partitions).Engine.(engine.PathStore); ok {
		eng = own
	}
	db, err := Open(eng, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// notes is a collection with an access path.
func notes() schema.Collection {
	return schema.Collection{
		Name:   "notes",
		Fields: []schema.Field{{Name: "owner", Type: schema.Text}, {Name: "title", Type: schema.Text}, {Name: "n", Type: schema.Int}},
		Indexes: []schema.Index{
			{Name: "by_owner", Fields: []schema.IndexField{{Name: "owner"}, {Name: "n", Desc: true}}},
		},
	}
}

// TestPartedLife: a record is created, changed, deleted, restored, purged and created again, with its history.
func TestPartedLife(t *testing.T) {
	db := openParted(t)
	if err := db.Define(notes()); err != nil {
		t.Fatal(err)
	}
	do := func(what string, fn func(*Tx) error) {
		t.Helper()
		if _, err := db.Update(t.Context(), Program(), fn); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	do("create", func(tx *Tx) error {
		_, err := tx.Create("notes", "a", []byte(`{"owner":"anna","title":"one","n":1}`))
		return err
	})
	do("update", func(tx *Tx) error {
		_, err := tx.Update("notes", "a", []byte(`{"title":"two"}`), 1)
		return err
	})
	do("delete", func(tx *Tx) error { _, err := tx.Delete("notes", "a", 2); return err })
	do("restore", func(tx *Tx) error { _, err := tx.Restore("notes", "a", 3); return err })
	do("revert", func(tx *Tx) error { _, err := tx.Revert("notes", "a", 1, 4); return err })
	_, err := db.View(t.Context(), engine.Read{}, Program(), func(tx *Tx) error {
		r, err := tx.Get("notes", "a")
		if err != nil {
			return err
		}
		if title, _ := r.Field(1).Text(); title != "one" || r.Rev != 5 {
			t.Errorf("the record is %q at revision %d", title, r.Rev)
		}
		h, err := tx.History("notes", "a", 0, 10)
		if err != nil {
			return err
		}
		if len(h) != 5 || h[0].Rev != 5 || h[4].Op != "create" {
			t.Errorf("the history has %d changes", len(h))
		}
		past, err := tx.GetAsOf("notes", "a", Moment{Rev: 2})
		if err != nil {
			return err
		}
		if title, _ := past.Field(1).Text(); title != "two" {
			t.Errorf("revision 2 is %q", title)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	do("delete again", func(tx *Tx) error { _, err := tx.Delete("notes", "a", 0); return err })
	do("purge", func(tx *Tx) error { return tx.Purge("notes", "a", 0) })
	do("create again", func(tx *Tx) error {
		r, err := tx.Create("notes", "a", []byte(`{"owner":"bert","title":"three"}`))
		if err == nil && r.Rev != 8 {
			t.Errorf("the new record has revision %d, not 8", r.Rev)
		}
		return err
	})
}

// TestCheckQuery: what a program asks for is checked before it serves, with the rule for those who ask.
func TestCheckQuery(t *testing.T) {
	db := openParted(t)
	c := notes()
	c.Rules.List, c.Rules.View = "owner = @auth.id", "owner = @auth.id"
	if err := db.Define(c); err != nil {
		t.Fatal(err)
	}
	anna := Actor{ID: "anna"}
	for _, x := range []struct {
		who  Actor
		q    Query
		args []any
		code engine.Code
		text string
	}{
		{Program(), Query{Filter: "owner = ?", Sort: "-n"}, []any{"x"}, "", ""},
		{Program(), Query{Filter: "id = ?"}, []any{"x"}, "", ""},
		{anna, Query{Sort: "-n"}, nil, "", ""}, // by the rule
		{anna, Query{Filter: "title = ?"}, []any{"x"}, "", ""},
		{Program(), Query{}, nil, CodeNoPath, "notes"},
		{Program(), Query{Filter: "title = ?", Sort: "n"}, []any{"x"}, CodeNoPath, "declare an index on (title, n)"},
		{Program(), Query{Filter: "owner > ?"}, []any{"x"}, CodeNoPath, "notes"},
		{Program(), Query{Filter: "owner ="}, nil, CodeQuery, "filter"},
	} {
		err := db.CheckQuery(t.Context(), x.who, "notes", x.q, x.args...)
		if engine.CodeOf(err) != x.code || x.text != "" && !strings.Contains(err.Error(), x.text) {
			t.Errorf("%q sorted by %q: %v, want %q %s", x.q.Filter, x.q.Sort, err, x.code, x.text)
		}
	}
}
