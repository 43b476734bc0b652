package record_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/journal/memfs"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
)

// withCollections opens records with collections on an engine.
func withCollections(t testing.TB, eng engine.Engine, collections ...schema.Collection) *record.DB {
	t.Helper()
	db, err := record.Open(eng, record.Options{})
	must(t, err)
	must(t, db.Define(collections...))
	return db
}

// notes is a collection in its first form.
func notes() schema.Collection {
	return schema.Collection{Name: "notes", Fields: []schema.Field{{Name: "title", Type: schema.Text}, {Name: "n", Type: schema.Int}, {Name: "old", Type: schema.Text}},
		Indexes: []schema.Index{{Name: "by_n", Fields: []schema.IndexField{{Name: "n"}}}}}
}

// fill creates notes n0, n1, …
func fill(t testing.TB, db *record.DB, from, to int) {
	t.Helper()
	for ; from < to; from += 1000 {
		must(t, update(t, db, record.Program(), func(tx *record.Tx) error {
			for i := from; i < min(from+1000, to); i++ {
				if _, err := tx.Create("notes", fmt.Sprint("n", i), []byte(fmt.Sprintf(`{"title":"t%d","n":%d,"old":"secret%d"}`, i, i%10, i))); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// finish does all work that is left.
func finish(t testing.TB, db *record.DB) {
	t.Helper()
	for more := true; more; {
		var err error
		more, err = db.WorkStep(t.Context())
		must(t, err)
	}
}

// sound checks that the history, records, counters and indexes agree, and that no entry is left of an index that is not
// there any more.
func sound(t testing.TB, eng engine.Engine, db *record.DB, name string) {
	t.Helper()
	found, err := db.Verify(t.Context(), []string{name}, nil)
	must(t, err)
	if found[0].Fault != nil {
		t.Error(found[0].Fault)
	}
	_, err = eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		k, err := db.Stored(tx, name)
		if err != nil {
			return err
		}
		for _, x := range k.Stored() {
			if !x.Ready {
				t.Errorf("index %s is not ready", x.Name)
			}
		}
		n, err := keys.ReadCounters(tx, k)
		if err != nil {
			return err
		}
		entries := 0
		for _, err := range tx.Scan([]byte{keyspace.Records, 'i'}, []byte{keyspace.Records, 'j'}) {
			if err != nil {
				return err
			}
			entries++
		}
		want := int(n.Live+n.Deleted) * len(k.Stored())
		if a, ok := tx.(engine.Attacher); ok && a.Attached() != nil {
			want = 0 // they are in tables, where Verify looks at them
		}
		if entries != want {
			t.Errorf("%d entries of indexes are there, want %d", entries, want)
		}
		return nil
	})
	must(t, err)
}

func steps(t testing.TB, db *record.DB) string {
	t.Helper()
	all, err := db.Migrations(t.Context())
	must(t, err)
	var lines []string
	for _, m := range all {
		for _, s := range m.Steps {
			lines = append(lines, s.String())
		}
		if m.Progress != nil {
			lines = append(lines, fmt.Sprintf("%s: %d of %d: %s %s", m.Collection, m.Progress.Done, m.Progress.Of, strings.Join(m.Progress.What, ", "), m.Progress.Failed))
		}
	}
	return strings.Join(lines, "\n")
}

func text(t testing.TB, db *record.DB, id string) (s string) {
	t.Helper()
	_, err := db.View(t.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) error {
		r, err := tx.Get("notes", id)
		if err == nil {
			s = string(r.Collection().Append(nil, r.Data))
		}
		return err
	})
	must(t, err)
	return s
}

// TestMigrate goes up, with a step that loses data, and down again.
func TestMigrate(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{})
	db := withCollections(t, eng, notes())
	fill(t, db, 0, 1200)
	if got := steps(t, db); got != "" {
		t.Errorf("there is nothing to do, but: %s", got)
	}
	next := notes()
	next.Fields = []schema.Field{{Name: "name", Type: schema.Text, Was: []string{"title"}}, {Name: "n", Type: schema.Text}, {Name: "kind", Type: schema.Text, Required: true, Default: `"note"`}}
	next.Indexes = append(next.Indexes, schema.Index{Name: "by_name", Unique: true, Fields: []schema.IndexField{{Name: "name"}}})
	db = withCollections(t, eng, next)
	if got, want := steps(t, db), `Drop field old of notes with its values. (may lose data)
Rename field title of notes to name.
Change field n of notes: type from "int" to "text".
Add the required field kind of type text to notes.
Build the unique index by_name of notes on name.`; got != want {
		t.Errorf("steps:\n%s\nwant\n%s", got, want)
	}
	_, err := db.Migrate(t.Context(), record.MigrateOptions{})
	if !errors.Is(err, record.ErrLoses) || !strings.Contains(err.Error(), `nothing was changed: "Drop field old of notes with its values." would lose data of 1200 records or make them invalid, for example n0`) {
		t.Fatal(err)
	}
	done, err := db.Migrate(t.Context(), record.MigrateOptions{AllowLoss: true})
	if err != nil || len(done) != 1 || len(done[0].Steps) != 5 {
		t.Fatalf("%v, %v", done, err)
	}
	if got, want := text(t, db, "n7"), `{"name":"t7","n":"7"}`; got != want {
		t.Errorf("before the work: %s, want %s", got, want)
	}
	for range 3 {
		if _, err := db.WorkStep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := steps(t, db); !strings.HasPrefix(got, "notes: ") || !strings.Contains(got, " of 1200: building the index by_n, building the index by_name, rewriting records") {
		t.Errorf("progress: %s", got)
	}
	finish(t, db)
	sound(t, eng, db, "notes")
	if got, want := text(t, db, "n7"), `{"name":"t7","n":"7","kind":"note"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := steps(t, db); got != "" {
		t.Errorf("there is something left to do: %s", got)
	}
	_, err = db.Migrate(t.Context(), record.MigrateOptions{Down: true})
	if !errors.Is(err, record.ErrLoses) {
		t.Errorf("down: %v", err) // kind was not there before
	}
	if _, err = db.Migrate(t.Context(), record.MigrateOptions{Down: true, AllowLoss: true}); err != nil {
		t.Fatal(err)
	}
	finish(t, db)
	sound(t, eng, db, "notes")
	if got, want := text(t, db, "n7"), `{"title":"t7","n":7}`; got != want {
		t.Errorf("down: %s, want %s", got, want)
	}
	if done, err := db.Migrate(t.Context(), record.MigrateOptions{Down: true}); err != nil || len(done) > 0 {
		t.Errorf("below the first description: %v, %v", done, err)
	}
}

// TestMigrateCheck: a step that may lose data does not need leave if no record loses any.
func TestMigrateCheck(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{})
	db := withCollections(t, eng, notes())
	fill(t, db, 0, 10)
	next := notes()
	next.Fields[1].Max = "9"
	db = withCollections(t, eng, next)
	if got := steps(t, db); got != `Change field n of notes: max from nothing to "9". (may lose data)` {
		t.Error(got)
	}
	_, err := db.Migrate(t.Context(), record.MigrateOptions{})
	must(t, err)
	finish(t, db)
	sound(t, eng, db, "notes")
	next.Fields[1].Max = "8"
	db = withCollections(t, eng, next)
	if _, err := db.Migrate(t.Context(), record.MigrateOptions{}); !errors.Is(err, record.ErrLoses) || !strings.Contains(err.Error(), "1 records") || !strings.Contains(err.Error(), "n9") {
		t.Errorf("a record that becomes invalid: %v", err)
	}
}

// TestMigrateRefuses: a rule that names a field that would go.
func TestMigrateRefuses(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{})
	first := notes()
	first.Rules.View = `old = "x"`
	db := withCollections(t, eng, first)
	fill(t, db, 0, 1)
	next := first
	next.Fields = next.Fields[:2]
	db = withCollections(t, eng, next)
	if _, err := db.Migrate(t.Context(), record.MigrateOptions{AllowLoss: true}); !errors.Is(err, record.ErrMigration) || !strings.Contains(err.Error(), "the view rule of notes") {
		t.Error(err)
	}
	next.Rules.View = ""
	next.Fields = []schema.Field{{Name: "title", Type: schema.Password}}
	db = withCollections(t, eng, schema.Collection{Name: "notes", Fields: next.Fields})
	if _, err := db.Migrate(t.Context(), record.MigrateOptions{AllowLoss: true}); !errors.Is(err, record.ErrMigration) || !strings.Contains(err.Error(), "a field cannot change its type to or from password") {
		t.Error(err)
	}
	if _, err := db.Migrate(t.Context(), record.MigrateOptions{Collections: []string{"nots"}}); !errors.Is(err, record.ErrUnknownCollection) {
		t.Error(err)
	}
}

// TestMigrateDuplicate: a unique index that cannot be built names the records, and is built once they differ.
func TestMigrateDuplicate(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{})
	db := withCollections(t, eng, notes())
	fill(t, db, 0, 11)
	next := notes()
	next.Indexes[0].Unique = true
	db = withCollections(t, eng, next)
	_, err := db.Migrate(t.Context(), record.MigrateOptions{})
	must(t, err)
	finish(t, db)
	if got := steps(t, db); !strings.Contains(got, "record n10: another record has the same n, n0") {
		t.Fatal(got)
	}
	must(t, update(t, db, record.Program(), func(tx *record.Tx) error {
		_, err := tx.Update("notes", "n10", []byte(`{"n":10}`), 0)
		return err
	}))
	_, err = db.Migrate(t.Context(), record.MigrateOptions{})
	must(t, err)
	finish(t, db)
	sound(t, eng, db, "notes")
	if err := update(t, db, record.Program(), func(tx *record.Tx) error {
		_, err := tx.Update("notes", "n10", []byte(`{"n":0}`), 0)
		return err
	}); !errors.Is(err, record.ErrExists) {
		t.Errorf("the unique index does not refuse: %v", err)
	}
}

// TestMigrateConcurrent builds indexes and rewrites records while others write them.
func TestMigrateConcurrent(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{})
	db := withCollections(t, eng, notes())
	const records = 2_500
	fill(t, db, 0, records)
	next := notes()
	next.Fields = append(next.Fields[:2:2], schema.Field{Name: "kind", Type: schema.Int, Required: true, Default: "5"})
	next.Indexes = []schema.Index{{Name: "by_n", Fields: []schema.IndexField{{Name: "n", Desc: true}, {Name: "title"}}}, {Name: "by_kind", Fields: []schema.IndexField{{Name: "kind"}, {Name: "updated"}}},
		{Name: "by_title", Unique: true, Fields: []schema.IndexField{{Name: "title"}}}}
	db = withCollections(t, eng, next)
	_, err := db.Migrate(t.Context(), record.MigrateOptions{AllowLoss: true})
	must(t, err)
	s := seed.Of(t)
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w := range 3 {
		r := rand.New(rand.NewPCG(s, uint64(w)))
		writers.Go(func() {
			for ctx.Err() == nil {
				if err := update(t, db, record.Program(), func(tx *record.Tx) error { return writeSome(tx, r, records) }); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	ended := make(chan error)
	go func() { ended <- db.Run(ctx) }()
	eventually.True(t, "the work is done", func() bool { return steps(t, db) == "" })
	cancel()
	writers.Wait()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	sound(t, eng, db, "notes")
}

// writeSome changes, deletes, restores and creates notes.
func writeSome(tx *record.Tx, r *rand.Rand, records int) error {
	id := fmt.Sprint("n", r.IntN(records))
	var err error
	switch r.IntN(5) {
	case 0:
		_, err = tx.Delete("notes", id, 0)
	case 1:
		_, err = tx.Restore("notes", id, 0)
	case 2:
		_, err = tx.Create("notes", "", []byte(fmt.Sprintf(`{"title":"new%d"}`, r.Uint64())))
	case 3: // a title that another record may have
		_, err = tx.Update("notes", id, []byte(fmt.Sprintf(`{"title":"same%d"}`, r.IntN(100))), 0)
	default:
		_, err = tx.Update("notes", id, []byte(fmt.Sprintf(`{"n":%d,"title":"moved%d"}`, r.IntN(10), r.Uint64())), 0)
	}
	if errors.Is(err, record.ErrNotFound) || errors.Is(err, record.ErrExists) {
		return nil
	}
	return err
}

// TestMigrateCrash: work goes on after a crash where it was, and after a second migration from the beginning.
func TestMigrateCrash(t *testing.T) {
	disk := memfs.New(seed.Of(t))
	open := func(c schema.Collection) (*embedded.DB, *record.DB) {
		eng, err := embedded.Open("data", embedded.Options{FS: disk, Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		return eng, withCollections(t, eng, c)
	}
	eng, db := open(notes())
	fill(t, db, 0, 2_000)
	must(t, eng.Close())
	next := notes()
	next.Indexes = []schema.Index{{Name: "by_title", Unique: true, Fields: []schema.IndexField{{Name: "title"}}}, {Name: "by_n", Fields: []schema.IndexField{{Name: "n"}, {Name: "created"}}}}
	eng, db = open(next)
	_, err := db.Migrate(t.Context(), record.MigrateOptions{})
	must(t, err)
	for range 8 { // the old index goes in four steps and one more
		_, err := db.WorkStep(t.Context())
		must(t, err)
	}
	before := steps(t, db)
	if !strings.HasPrefix(before, "notes: 1500 of 2000: building the index by_title, building the index by_n") {
		t.Fatal(before)
	}
	disk.Crash()
	_ = eng.Close() // its disk is gone
	eng, db = open(next)
	if got := steps(t, db); got != before {
		t.Errorf("after the crash: %s\nbefore: %s", got, before)
	}
	fill(t, db, 2_000, 2_100)
	next.Indexes = append(next.Indexes, schema.Index{Name: "newest", Fields: []schema.IndexField{{Name: "created", Desc: true}}})
	db = withCollections(t, eng, next)
	_, err = db.Migrate(t.Context(), record.MigrateOptions{})
	must(t, err)
	if got := steps(t, db); !strings.HasPrefix(got, "notes: 0 of 2100") {
		t.Error(got)
	}
	finish(t, db)
	sound(t, eng, db, "notes")
	must(t, eng.Close())
}

// TestDropCollection: a collection goes with all its keys, unless others refer to it or records would be lost.
func TestDropCollection(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{})
	pins := schema.Collection{Name: "pins", Fields: []schema.Field{{Name: "note", Type: schema.Reference, Collection: "notes"}}}
	db := withCollections(t, eng, notes(), pins)
	fill(t, db, 0, 600)
	if err := db.DropCollection(t.Context(), "notes", true); !errors.Is(err, record.ErrReferenced) || !strings.Contains(err.Error(), "field note of pins refers to collection notes") {
		t.Error(err)
	}
	must(t, db.DropCollection(t.Context(), "pins", false))
	if err := db.DropCollection(t.Context(), "notes", false); !errors.Is(err, record.ErrLoses) || !strings.Contains(err.Error(), "600 records") {
		t.Error(err)
	}
	db = withCollections(t, eng)
	must(t, db.DropCollection(t.Context(), "notes", true))
	if got := steps(t, db); !strings.Contains(got, "notes: 0 of 0: deleting the records of notes") {
		t.Error(got)
	}
	finish(t, db)
	if err := db.DropCollection(t.Context(), "notes", true); !errors.Is(err, record.ErrUnknownCollection) {
		t.Error(err)
	}
	left := 0
	_, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		left = 0
		for p, err := range tx.Scan([]byte{keyspace.Records}, []byte{keyspace.Records + 1}) {
			if err != nil {
				return err
			}
			if left++; left > 2 { // the epoch and the last id of a collection
				t.Errorf("%q is left", p.Key)
			}
		}
		return nil
	})
	must(t, err)
}
