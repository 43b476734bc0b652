package record_test

import (
	"context"
	"errors"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// users and posts are collections of a blog.
func blog() []schema.Collection {
	return []schema.Collection{
		{Name: "users", Fields: []schema.Field{{Name: "name", Type: schema.Text, Required: true}}, Rules: schema.Rules{View: "true"},
			Indexes: []schema.Index{{Name: "name", Unique: true, Fields: []schema.IndexField{{Name: "name"}}}}},
		{Name: "posts", Rules: schema.Rules{List: `public || owner = @auth.id`, View: `public || owner = @auth.id`, Create: `owner = @auth.id`, Update: `owner = @auth.id && @new.owner = owner`, Delete: `owner = @auth.id`},
			Fields: []schema.Field{
				{Name: "title", Type: schema.Text, Required: true, Min: "1", Max: "20"},
				{Name: "owner", Type: schema.Reference, Collection: "users", Required: true, Default: "@auth.id", OnDelete: schema.Cascade},
				{Name: "public", Type: schema.Bool, Default: "false"},
				{Name: "likes", Type: schema.Int, Default: "0"},
			}},
	}
}

func open(t testing.TB) *record.DB {
	t.Helper()
	db, err := record.Open(recordengine.Open(t, recordengine.Options{}), record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Define(blog()...); err != nil {
		t.Fatal(err)
	}
	return db
}

// update runs fn as one transaction and returns its error.
func update(t testing.TB, db *record.DB, a record.Actor, fn func(tx *record.Tx) error) error {
	t.Helper()
	_, err := db.Update(t.Context(), a, fn)
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRecord walks through the life of a record under rules.
func TestRecord(t *testing.T) {
	db := open(t)
	ann, bob := record.Actor{ID: "ann"}, record.Actor{ID: "bob"}
	must(t, update(t, db, record.Program(), func(tx *record.Tx) error {
		_, err := tx.Create("users", "ann", []byte(`{"name":"Ann"}`))
		_, err2 := tx.Create("users", "bob", []byte(`{"name":"Bob"}`))
		return errors.Join(err, err2)
	}))
	var id string
	must(t, update(t, db, ann, func(tx *record.Tx) error {
		r, err := tx.Create("posts", "", []byte(`{"title":"First"}`))
		if err == nil {
			id = r.ID
		}
		return err
	}))
	refused := func(a record.Actor, want error, fn func(tx *record.Tx) error) {
		t.Helper()
		if err := update(t, db, a, fn); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	refused(bob, record.ErrNotFound, func(tx *record.Tx) error { _, err := tx.Get("posts", id); return err })
	refused(bob, record.ErrNotFound, func(tx *record.Tx) error { _, err := tx.Update("posts", id, []byte(`{"title":"x"}`), 0); return err })
	refused(bob, record.ErrRefused, func(tx *record.Tx) error {
		_, err := tx.Create("posts", "", []byte(`{"title":"x","owner":"ann"}`))
		return err
	})
	refused(bob, record.ErrExists, func(tx *record.Tx) error {
		_, err := tx.As(record.Program()).Create("users", "", []byte(`{"name":"Ann"}`))
		return err
	})
	refused(ann, record.ErrInvalid, func(tx *record.Tx) error { _, err := tx.Create("posts", "", []byte(`{"title":"","n":1}`)); return err })
	refused(ann, record.ErrRevision, func(tx *record.Tx) error { _, err := tx.Update("posts", id, []byte(`{"title":"x"}`), 7); return err })
	must(t, update(t, db, ann, func(tx *record.Tx) error { _, err := tx.Update("posts", id, []byte(`{"public":true}`), 1); return err }))
	refused(bob, record.ErrRefused, func(tx *record.Tx) error { _, err := tx.Update("posts", id, []byte(`{"title":"x"}`), 0); return err })

	// Deleting ann deletes her posts.
	must(t, update(t, db, record.Program(), func(tx *record.Tx) error { _, err := tx.Delete("users", "ann", 0); return err }))
	refused(ann, record.ErrNotFound, func(tx *record.Tx) error { _, err := tx.Get("posts", id); return err })
	refused(ann, record.ErrInvalid, func(tx *record.Tx) error { _, err := tx.Restore("posts", id, 0); return err })
	must(t, update(t, db, record.Program(), func(tx *record.Tx) error {
		_, err := tx.Restore("users", "ann", 0)
		return err
	}))
	must(t, update(t, db, ann, func(tx *record.Tx) error {
		r, err := tx.Restore("posts", id, 0)
		if err == nil && r.Rev != 4 {
			t.Errorf("revision %d", r.Rev)
		}
		return err
	}))
	_, err := db.View(context.Background(), engine.Read{}, bob, func(tx *record.Tx) error {
		r, err := tx.Get("posts", id)
		if err == nil {
			t.Log(string(r.AppendJSON(nil)))
		}
		return err
	})
	must(t, err)
}
