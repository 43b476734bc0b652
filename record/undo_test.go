package record_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
)

// TestUndo: all changes of one actor since a time are taken back in one transaction, except where others went on.
func TestUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openWith(t, recordengine.Options{Memory: true}, blog()...)
		as := func(id string, fn func(tx *record.Tx) error) {
			t.Helper()
			time.Sleep(time.Second)
			must(t, update(t, db, record.Actor{ID: id, System: true}, fn))
		}
		as("ann", func(tx *record.Tx) error {
			return errors.Join(ignore(tx.Create("users", "u", []byte(`{"name":"U"}`))), ignore(tx.Create("users", "v", []byte(`{"name":"V"}`))),
				ignore(tx.Create("posts", "a", []byte(`{"title":"a","owner":"u"}`))), ignore(tx.Create("posts", "b", []byte(`{"title":"b","owner":"v"}`))))
		})
		time.Sleep(time.Second)
		since := time.Now()
		as("eve", func(tx *record.Tx) error {
			return errors.Join(ignore(tx.Delete("users", "u", 0)), // and the post a with it
				ignore(tx.Update("posts", "b", []byte(`{"title":"x","likes":1}`), 0)), ignore(tx.Create("posts", "new", []byte(`{"title":"n","owner":"v"}`))),
				ignore(tx.Create("posts", "other", []byte(`{"title":"o","owner":"v"}`))), ignore(tx.Update("users", "v", []byte(`{"name":"X"}`), 0)))
		})
		as("bob", func(tx *record.Tx) error {
			return errors.Join(ignore(tx.Update("posts", "b", []byte(`{"public":true}`), 0)), ignore(tx.Update("posts", "other", []byte(`{"title":"bob"}`), 0)))
		})
		as("eve", func(tx *record.Tx) error { return ignore(tx.Update("posts", "b", []byte(`{"likes":2}`), 0)) })
		want := []string{
			"posts a: restore", "posts b: update likes, title", "posts new: delete", "posts other: not undone: someone else has since changed title",
			"users u: restore", "users v: update name",
		}
		root := record.Actor{ID: "root", System: true}
		for _, dry := range []bool{true, false} {
			all, err := db.Undo(t.Context(), root, "eve", since, dry)
			must(t, err)
			var got []string
			for _, u := range all {
				got = append(got, u.String())
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("dry %v:\n%s\nwant\n%s", dry, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		do(t, db, func(tx *record.Tx) error {
			for id, want := range map[string]string{"a": "a 0 false 3", "b": "b 0 true 5", "other": "bob 0 false 2"} {
				r, err := tx.Get("posts", id)
				if err != nil {
					return err
				}
				title, _ := r.Value("title").Text()
				likes, _ := r.Value("likes").Int()
				if got := fmt.Sprint(title, " ", likes, " ", r.Value("public").Bool(), " ", r.Rev); got != want {
					t.Errorf("%s is %s, want %s", id, got, want)
				}
			}
			if _, err := tx.Get("posts", "new"); !errors.Is(err, record.ErrNotFound) {
				t.Errorf("what was created is still there: %v", err)
			}
			return nil
		})
		all, err := db.Undo(t.Context(), root, "eve", since, false)
		must(t, err)
		for _, u := range all {
			if u.Op != "" {
				t.Errorf("a second time: %v", u)
			}
		}
		if _, err := db.Undo(t.Context(), record.Actor{ID: "ann"}, "eve", since, true); !errors.Is(err, record.ErrRefused) {
			t.Errorf("a user takes back changes of another: %v", err)
		}
		verified(t, db)
	})
}

// TestUndoChange: one change is taken back unless later ones are of the same members; passwords are left alone.
func TestUndoChange(t *testing.T) {
	db := openWith(t, recordengine.Options{Memory: true}, accounts())
	for _, patch := range []string{`{"n":1}`, `{"name":"A","pass":"q"}`, `{"n":2}`} {
		do(t, db, func(tx *record.Tx) error {
			if _, err := tx.Get("accounts", "a"); err != nil {
				return ignore(tx.Create("accounts", "a", []byte(`{"name":"?","pass":"p","n":0}`)))
			}
			return ignore(tx.Update("accounts", "a", []byte(patch), 0))
		})
	}
	do(t, db, func(tx *record.Tx) error { return ignore(tx.Update("accounts", "a", []byte(`{"n":3}`), 0)) })
	for _, c := range []struct {
		rev  uint64
		want string
	}{{3, "accounts a: not undone: someone else has since changed n"}, {2, "accounts a: update name"}, {4, "accounts a: update n"}} {
		must(t, update(t, db, record.Actor{ID: "a"}, func(tx *record.Tx) error {
			u, err := tx.UndoChange("accounts", "a", c.rev)
			if err == nil && u.String() != c.want {
				t.Errorf("revision %d: %v, want %s", c.rev, u, c.want)
			}
			return err
		}))
	}
	do(t, db, func(tx *record.Tx) error {
		r, err := tx.Get("accounts", "a")
		if pass, _ := r.Value("pass").Text(); pass != "hash of q" {
			t.Errorf("the password is %s", pass)
		}
		return err
	})
	for want, rev := range map[error]uint64{record.ErrNotFound: 99} {
		if err := update(t, db, record.Actor{ID: "a"}, func(tx *record.Tx) error { return ignore(tx.UndoChange("accounts", "a", rev)) }); !errors.Is(err, want) {
			t.Errorf("revision %d: %v", rev, err)
		}
	}
	if err := update(t, db, record.Actor{ID: "b"}, func(tx *record.Tx) error { return ignore(tx.UndoChange("accounts", "a", 2)) }); !errors.Is(err, record.ErrRefused) {
		t.Errorf("someone who may not see the history: %v", err)
	}
}

// TestUndoLimit: Undo looks at a bounded number of changes.
func TestUndoLimit(t *testing.T) {
	db := openWith(t, recordengine.Options{Memory: true}, schema.Collection{Name: "c", Fields: []schema.Field{{Name: "n", Type: schema.Int}}})
	do(t, db, func(tx *record.Tx) error {
		for i := range record.MaxUndo + 1 {
			if _, err := tx.Create("c", fmt.Sprint(i), []byte(`{}`)); err != nil {
				return err
			}
		}
		return nil
	})
	if _, err := db.Undo(t.Context(), record.Program(), "x", time.Time{}.Add(time.Hour), true); !errors.Is(err, engine.ErrLimit) {
		t.Error(err)
	}
}

// TestDeletePlan: what a deletion does is decided before it writes, whatever the order of collections and references.
func TestDeletePlan(t *testing.T) {
	ref := func(name, to string, d schema.OnDelete) schema.Field {
		return schema.Field{Name: name, Type: schema.Reference, Collection: to, OnDelete: d}
	}
	db := openWith(t, recordengine.Options{Memory: true},
		schema.Collection{Name: "m", Fields: []schema.Field{ref("next", "m", schema.Cascade), {Name: "n", Type: schema.Int}}},
		schema.Collection{Name: "a", Fields: []schema.Field{ref("held", "m", schema.Restrict), ref("with", "z", schema.Cascade)}}, // sorts before m
		schema.Collection{Name: "z", Fields: []schema.Field{ref("with", "m", schema.Cascade)}},
		schema.Collection{Name: "s", Fields: []schema.Field{ref("x", "m", schema.SetNull), ref("y", "m", schema.SetNull), {Name: "n", Type: schema.Int}}},
	)
	do(t, db, func(tx *record.Tx) error {
		var err error
		for _, op := range []struct{ c, id, data string }{
			{"m", "1", `{}`}, {"m", "2", `{"next":"1"}`}, {"m", "3", `{"next":"2"}`}, {"z", "z", `{"with":"1"}`},
			{"a", "a", `{"held":"1","with":"z"}`}, {"s", "s", `{"x":"1","y":"3","n":7}`},
		} {
			err = errors.Join(err, ignore(tx.Create(op.c, op.id, []byte(op.data))))
		}
		return errors.Join(err, ignore(tx.Update("m", "1", []byte(`{"next":"3"}`), 0))) // a cycle
	})
	gone := func(c, id string) bool {
		_, err := db.View(t.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) error { return ignore(tx.Get(c, id)) })
		return errors.Is(err, record.ErrNotFound)
	}
	do(t, db, func(tx *record.Tx) error { return ignore(tx.Create("a", "b", []byte(`{"held":"2"}`))) })
	do(t, db, func(tx *record.Tx) error { // the program goes on after a deletion that was refused
		if _, err := tx.Delete("m", "1", 0); !errors.Is(err, record.ErrReferenced) {
			t.Errorf("a record that is held: %v", err)
		}
		return nil
	})
	if gone("m", "1") || gone("m", "3") || gone("z", "z") {
		t.Error("a deletion that was refused has deleted something")
	}
	do(t, db, func(tx *record.Tx) error { return ignore(tx.Delete("a", "b", 0)) })
	do(t, db, func(tx *record.Tx) error { return ignore(tx.Delete("m", "2", 0)) })
	for _, at := range []string{"m 1", "m 2", "m 3", "z z", "a a"} {
		if c, id, _ := strings.Cut(at, " "); !gone(c, id) {
			t.Errorf("%s is still there", at)
		}
	}
	do(t, db, func(tx *record.Tx) error {
		r, err := tx.Get("s", "s")
		if n, _ := r.Value("n").Int(); !r.Value("x").IsNull() || !r.Value("y").IsNull() || n != 7 || r.Rev != 2 {
			t.Errorf("%s", r.AppendJSON(nil))
		}
		return err
	})
	verified(t, db)
}

// TestDeleteOrder: a deletion changes the records that refer to a record in the order of their ids on every engine, whichever index
// finds them.
func TestDeleteOrder(t *testing.T) {
	db := openWith(t, recordengine.Options{Memory: true}, schema.Collection{Name: "m", Fields: []schema.Field{
		{Name: "of", Type: schema.Reference, Collection: "m", OnDelete: schema.SetNull}, {Name: "n", Type: schema.Int},
	}, Indexes: []schema.Index{record.By("of", "-n")}})
	do(t, db, func(tx *record.Tx) error {
		err := ignore(tx.Create("m", "all", []byte(`{}`)))
		for i := range 5 {
			err = errors.Join(err, ignore(tx.Create("m", fmt.Sprint("r", i), fmt.Appendf(nil, `{"of":"all","n":%d}`, i*3%5))))
		}
		return errors.Join(err, ignore(tx.Delete("m", "all", 0)))
	})
	do(t, db, func(tx *record.Tx) error {
		var last uint64
		for i := range 5 {
			changes, err := tx.History("m", fmt.Sprint("r", i), 0, 1)
			if err != nil || len(changes) != 1 || changes[0].Rev != 2 || changes[0].Seq <= last {
				t.Fatalf("r%d: %+v after %d, %v", i, changes, last, err)
			}
			last = changes[0].Seq
		}
		return nil
	})
	verified(t, db)
}

// TestCascadeLimits: a deletion follows and changes a bounded number of records, and a purge redacts a bounded number of
// changes.
func TestCascadeLimits(t *testing.T) {
	db := openWith(t, recordengine.Options{Memory: true}, schema.Collection{Name: "m", Fields: []schema.Field{
		{Name: "next", Type: schema.Reference, Collection: "m", OnDelete: schema.Cascade}, {Name: "n", Type: schema.Int},
	}})
	create := func(tx *record.Tx, id, next string) error {
		return ignore(tx.Create("m", id, fmt.Appendf(nil, `{"next":%q}`, next)))
	}
	each := func(n int, fn func(tx *record.Tx, i int) error) { // not all at once: that is more than one transaction may write on some engines
		for from := 0; from < n; from += 2_000 {
			do(t, db, func(tx *record.Tx) (err error) {
				for i := from; i < min(from+2_000, n); i++ {
					err = errors.Join(err, fn(tx, i))
				}
				return err
			})
		}
	}
	do(t, db, func(tx *record.Tx) error {
		return errors.Join(ignore(tx.Create("m", "0", []byte(`{}`))), ignore(tx.Create("m", "many", []byte(`{}`))))
	})
	each(record.MaxCascadeDepth+1, func(tx *record.Tx, i int) error { return create(tx, fmt.Sprint(i+1), fmt.Sprint(i)) })
	each(record.MaxCascade+1, func(tx *record.Tx, i int) error { return create(tx, fmt.Sprint("of", i), "many") })
	each(keys.MaxRedact+1, func(tx *record.Tx, i int) error {
		return ignore(tx.Update("m", fmt.Sprint(record.MaxCascadeDepth+1), fmt.Appendf(nil, `{"n":%d}`, i), 0))
	})
	for _, id := range []string{"0", "many"} {
		if err := update(t, db, record.Program(), func(tx *record.Tx) error { return ignore(tx.Delete("m", id, 0)) }); !errors.Is(err, engine.ErrLimit) {
			t.Errorf("deleting %s: %v", id, err)
		}
	}
	last := fmt.Sprint(record.MaxCascadeDepth + 1)
	do(t, db, func(tx *record.Tx) error { return ignore(tx.Delete("m", "1", 0)) })
	purge := func(tx *record.Tx) error { return tx.Purge("m", last, 0) }
	if err := update(t, db, record.Program(), purge); !errors.Is(err, engine.ErrLimit) {
		t.Errorf("purging %s: %v", last, err)
	}
	do(t, db, func(tx *record.Tx) error {
		var err error
		for rev := range uint64(10) {
			err = errors.Join(err, ignore(tx.Redact("m", last, rev+1)))
		}
		return err
	})
	must(t, update(t, db, record.Program(), purge))
	verified(t, db)
}
