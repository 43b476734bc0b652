package record

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
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

// note is what the model knows of a record.
type note struct {
	owner, title string
	n            int
	deleted      bool
}

// TestPartedModel compares random changes, by several writers at once, with a naive model, and then what every path finds.
func TestPartedModel(t *testing.T) {
	db := openParted(t)
	if err := db.Define(notes()); err != nil {
		t.Fatal(err)
	}
	rnd := seed.Rand(t)
	const writers, each, ids = 4, 25, 5
	model := map[string]*note{}
	var mu sync.Mutex
	var work sync.WaitGroup
	for w := range writers {
		own := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		work.Go(func() {
			for range each {
				// All writers share the ids of the first letter; each has some of its own.
				id := fmt.Sprintf("w%d-%d", w, own.IntN(ids))
				changeNote(t, db, own, &mu, model, id)
				contend(t, db, own)
			}
		})
	}
	work.Wait()
	compareNotes(t, db, model)
}

// changeNote makes a random change of a record that only this writer changes.
func changeNote(t *testing.T, db *DB, rnd *rand.Rand, mu *sync.Mutex, model map[string]*note, id string) {
	mu.Lock()
	m := model[id]
	mu.Unlock()
	next := &note{[]string{"anna", "bert", "cleo"}[rnd.IntN(3)], []string{"x", "y"}[rnd.IntN(2)], rnd.IntN(4), false}
	data := fmt.Appendf(nil, `{"owner":%q,"title":%q,"n":%d}`, next.owner, next.title, next.n)
	op := rnd.IntN(4)
	_, err := db.Update(t.Context(), Program(), func(tx *Tx) error {
		var err error
		switch {
		case m == nil:
			_, err = tx.Create("notes", id, data)
		case m.deleted && op == 0:
			next = nil
			err = tx.Purge("notes", id, 0)
		case m.deleted:
			next = &note{m.owner, m.title, m.n, false}
			_, err = tx.Restore("notes", id, 0)
		case op == 0:
			next = &note{m.owner, m.title, m.n, true}
			_, err = tx.Delete("notes", id, 0)
		default:
			_, err = tx.Update("notes", id, data, 0)
		}
		return err
	})
	if err != nil {
		t.Errorf("change %s: %v", id, err)
		return
	}
	mu.Lock()
	defer mu.Unlock()
	if model[id] = next; next == nil {
		delete(model, id)
	}
}

// contend changes a record that all writers change. Some lose, and leave entries of changes that were not made.
func contend(t *testing.T, db *DB, rnd *rand.Rand) {
	data := fmt.Appendf(nil, `{"owner":"dora","title":"%d","n":%d}`, rnd.IntN(3), rnd.IntN(9))
	_, err := db.Update(t.Context(), Program(), func(tx *Tx) error {
		_, err := tx.Update("notes", "shared", data, 0)
		if errors.Is(err, ErrNotFound) {
			_, err = tx.Create("notes", "shared", data)
		}
		return err
	})
	if err != nil && !engine.Retryable(err) {
		t.Errorf("change the shared record: %v", err)
	}
}

// compareNotes compares what the paths find with the model.
func compareNotes(t *testing.T, db *DB, model map[string]*note) {
	t.Helper()
	for _, owner := range []string{"anna", "bert", "cleo"} {
		for _, trash := range []bool{false, true} {
			for _, least := range []int{-1, 1, 3} {
				var want []string
				for id, m := range model {
					if m.owner == owner && m.deleted == trash && m.n > least {
						want = append(want, id)
					}
				}
				slices.SortFunc(want, func(a, b string) int {
					if c := model[b].n - model[a].n; c != 0 {
						return c
					}
					return strings.Compare(b, a)
				})
				q := Query{Filter: "owner = ? && n > ?", Sort: "-n,-id", Limit: 2, Trash: trash}
				got, err := found(t, db, q, owner, least)
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("notes of %s above %d, trash %t: %v %v, want %v", owner, least, trash, got, err, want)
				}
			}
		}
	}
	got, err := found(t, db, Query{Filter: `owner = "dora"`, Sort: "id"})
	if err != nil || len(got) != 1 {
		t.Errorf("the shared record is found as %v %v", got, err)
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
