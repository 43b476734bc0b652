package tables_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/postgres"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
)

// served are collections of which each record of notes refers to one of tags.
func served() []schema.Collection {
	all := schema.Rules{List: "true", View: "true", Create: "true", Update: "true", Delete: "true", Subscribe: "true"}
	return []schema.Collection{
		{Name: "tags", Fields: []schema.Field{{Name: "name", Type: schema.Text}}, Rules: all},
		{Name: "notes", Fields: []schema.Field{{Name: "n", Type: schema.Int}, {Name: "tag", Type: schema.Reference, Collection: "tags", OnDelete: schema.Restrict}}, Rules: all,
			Indexes: []schema.Index{{Name: "by_n", Fields: []schema.IndexField{{Name: "n"}}}}},
	}
}

// process is one of several that serve the same database, with all their background work.
func process(t *testing.T, u *url.URL) *record.DB {
	t.Helper()
	eng := openPlace(t, u, false, nil)
	f, err := feed.New(eng, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := record.Open(eng, record.Options{Feed: f})
	if err == nil {
		err = db.Define(served()...)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	running.Go(func() {
		if err := db.Run(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, engine.ErrClosed) {
			t.Errorf("the background work ended: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// follow reads a stream of notes. It reports what is not the next revision of a record, and counts the events.
func follow(ctx context.Context, s *record.Stream, count *atomic.Int64) error {
	revs := map[string]uint64{}
	for {
		m, err := s.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case m.State != nil && len(revs) > 0:
			return errors.New("the state came again")
		}
		for _, state := range m.State {
			for _, r := range state.Records {
				revs[r.ID] = r.Rev
			}
		}
		for _, e := range m.Events {
			if e.Op != "update" || e.Record.Rev != revs[e.ID]+1 {
				return fmt.Errorf("after revision %d of %s: %s %v", revs[e.ID], e.ID, e.Op, e.Record)
			}
			revs[e.ID]++
			count.Add(1)
		}
	}
}

// TestConvertServed converts collections of two processes that serve: they write, and their subscribers, whose filters look at
// other records and at the history, get each write once, in order, and nothing else.
func TestConvertServed(t *testing.T) {
	u, err := url.Parse(pgserver.Shared(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	dbs := []*record.DB{process(t, u), process(t, u)}
	const records = 450
	fill(t, dbs[0], records)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var readers, writers sync.WaitGroup
	counts := make([]atomic.Int64, len(dbs))
	for i, db := range dbs {
		s, err := db.Subscribe(ctx, record.Program(), record.Subscription{Topics: []record.Topic{{Collection: "notes"}}, Filter: `tag.name = "x" && updated_by != "nobody"`, Limit: 500})
		if err != nil {
			t.Fatal(err)
		}
		readers.Go(func() {
			if err := follow(ctx, s, &counts[i]); err != nil {
				t.Errorf("the subscriber of process %d: %v", i, err)
			}
		})
	}
	var done atomic.Bool
	var writes atomic.Int64
	for i, db := range dbs {
		writers.Go(func() {
			for n := i; !done.Load(); n += 7 * len(dbs) {
				if _, err := db.Update(ctx, record.Program(), func(tx *record.Tx) error {
					_, err := tx.Update("notes", fmt.Sprint("r", n%records), fmt.Appendf(nil, `{"n":%d}`, n+1), 0)
					return err
				}); err != nil {
					t.Errorf("a writer of process %d: %v", i, err)
					return
				}
				writes.Add(1)
			}
		})
	}
	writers.Go(func() {
		for !done.Load() {
			verifyServed(t, dbs[0])
		}
	})
	for i, to := range []record.Place{record.InTables, record.InKeys, record.InTables} {
		convert(t, dbs[i%2], to)
	}
	done.Store(true)
	writers.Wait()
	for i := range counts {
		if !eventually.Within(eventually.Limit, func() bool { return counts[i].Load() == writes.Load() || t.Failed() }) {
			t.Errorf("the subscriber of process %d got %d events, want %d", i, counts[i].Load(), writes.Load())
		}
	}
	stop()
	readers.Wait()
	for _, db := range dbs {
		all, err := db.Verify(t.Context(), nil, nil)
		if err != nil || len(all) != 2 || all[0].Fault != nil || all[1].Fault != nil || all[0].Records != records || int64(all[0].Changes) != records+writes.Load() {
			t.Errorf("after %d writes: %+v, %v", writes.Load(), all, err)
		}
	}
	t.Logf("%d writes", writes.Load())
}

// fill makes records to which the filters of TestConvertServed apply.
func fill(t *testing.T, db *record.DB, records int) {
	t.Helper()
	if _, err := db.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
		_, err := tx.Create("tags", "x", []byte(`{"name":"x"}`))
		for i := range records {
			if _, err1 := tx.Create("notes", fmt.Sprint("r", i), []byte(`{"n":0,"tag":"x"}`)); err == nil {
				err = err1
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// verifyServed verifies all collections.
func verifyServed(t *testing.T, db *record.DB) {
	t.Helper()
	all, err := db.Verify(t.Context(), nil, nil)
	if err != nil {
		t.Error(err)
	}
	for _, v := range all {
		if v.Fault != nil {
			t.Error(v.Fault)
		}
	}
}

// convert converts all collections and waits until that is done.
func convert(t *testing.T, db *record.DB, to record.Place) {
	t.Helper()
	var err error
	if !eventually.Within(eventually.Limit, func() bool { // what the one before left must be gone
		_, err = db.Convert(t.Context(), nil, to)
		return err == nil
	}) {
		t.Fatal(err)
	}
	if !eventually.Within(2*eventually.Limit, func() bool {
		all, err1 := db.Migrations(t.Context())
		err = err1
		for _, m := range all {
			if err == nil && (m.Progress != nil || (m.Place == record.InTables) != (to == record.InTables)) {
				err = fmt.Errorf("%s is in %q: %+v", m.Collection, m.Place, m.Progress)
			}
		}
		return err == nil
	}) {
		t.Fatal(err)
	}
}

// TestConvertReader converts a collection from tables to keys while somebody reads its table in a snapshot. The table is not
// dropped as long as that lasts, nobody waits for it, and the reader finishes with what was there when it began.
func TestConvertReader(t *testing.T) {
	c := newConverted(t, seed.Of(t))
	create := func(id string) error {
		_, err := c.process[1].Update(t.Context(), record.Program(), func(tx *record.Tx) error {
			_, err := tx.Create("c", id, []byte(`{}`))
			return err
		})
		return err
	}
	if err := create("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.process[1].Convert(t.Context(), nil, record.InTables); err != nil { // wherever it was created
		t.Fatal(err)
	}
	work := func() error {
		for {
			if more, err := stepWork(t, c.open[0]); err != nil || !more {
				return err
			}
		}
	}
	if err := finishWork(t, c.open[0]); err != nil {
		t.Fatal(err)
	}
	runs, found := 0, 0
	if _, err := c.process[0].View(t.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) error {
		runs++
		for range 2 {
			changes, err := tx.History("c", "a", 0, 10)
			if err != nil {
				return err
			}
			found = len(changes)
			if _, err := c.process[1].Convert(t.Context(), nil, record.InKeys); err != nil {
				return err
			}
			if err := work(); runs == 1 && (!errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "still be")) {
				return fmt.Errorf("the tables are being read, and sweeping them returns %v", err)
			}
			if err := create(fmt.Sprintf("b%d", runs)); err != nil && !errors.Is(err, record.ErrExists) {
				return err
			}
		}
		return nil
	}); err != nil || found != 1 {
		t.Fatalf("after %d runs: %d changes, %v", runs, found, err)
	}
	eventually.True(t, "the tables are dropped", func() bool { return work() == nil })
	c.verify(t)
}

// TestConvertSnapshot converts a collection from tables to keys while somebody has a snapshot in which it is in tables, but has
// not read them yet. They are not dropped: the next conversion would make others with their names.
func TestConvertSnapshot(t *testing.T) {
	c := newConverted(t, seed.Of(t))
	if err := c.create("a", record.InTables); err != nil {
		t.Fatal(err)
	}
	if err := finishWork(t, c.open[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := c.process[1].Convert(t.Context(), nil, record.InKeys); err != nil {
		t.Fatal(err)
	}
	runs := 0
	if _, err := c.open[0].View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		runs++
		for range 2 { // the second read begins the snapshot
			if _, err := keys.Load(tx); err != nil {
				return err
			}
		}
		for more := true; more; {
			var err error
			if more, err = stepWork(t, c.open[1]); err != nil {
				return nil // it has to wait
			}
		}
		return errors.New("what the snapshot has was removed")
	}); err != nil || runs != 1 {
		t.Errorf("after %d runs: %v", runs, err)
	}
	if err := finishWork(t, c.open[0]); err != nil {
		t.Fatal(err)
	}
	c.verify(t)
}

// create creates a record and begins to convert its collection.
func (c *converted) create(id string, to record.Place) error {
	_, err := c.process[1].Update(context.Background(), record.Program(), func(tx *record.Tx) error {
		_, err := tx.Create("c", id, []byte(`{}`))
		return err
	})
	if err == nil {
		_, err = c.process[1].Convert(context.Background(), nil, to)
	}
	return err
}

// TestConvertDrop drops a collection at each stage of a conversion. Nothing is left of it in either place.
func TestConvertDrop(t *testing.T) {
	for _, steps := range []int{1, 4} { // while it is copied, and when the old place is to be emptied
		for _, to := range []record.Place{record.InTables, record.InKeys} {
			c := newConverted(t, seed.Of(t))
			db, eng := c.process[0], c.open[0]
			if _, err := db.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
				_, err := tx.Create("c", "a", []byte(`{}`))
				return err
			}); err != nil {
				t.Fatal(err)
			}
			for _, place := range []record.Place{map[record.Place]record.Place{record.InTables: record.InKeys, record.InKeys: record.InTables}[to], to} {
				if err := finishWork(t, eng); err != nil {
					t.Fatal(err)
				}
				if _, err := db.Convert(t.Context(), nil, place); err != nil {
					t.Fatal(err)
				}
			}
			for range steps {
				if _, err := stepWork(t, eng); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.DropCollection(t.Context(), "c", true); err != nil {
				t.Fatal(err)
			}
			if err := finishWork(t, eng); err != nil {
				t.Fatal(err)
			}
			if left := leftOver(t, eng); len(left) > 0 {
				t.Errorf("dropped after %d steps to %s: %v is left", steps, to, left)
			}
		}
	}
}

// leftOver returns what is stored of collections that are not there: keys besides the epoch and the last number, and tables.
func leftOver(t *testing.T, eng engine.Engine) (left []string) {
	t.Helper()
	if _, err := eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		left = nil
		for p, err := range tx.Scan([]byte("r"), []byte("s")) {
			if err != nil {
				return err
			}
			if p.Key[1] != 'e' && p.Key[1] != 'n' {
				left = append(left, fmt.Sprintf("%q", p.Key))
			}
		}
		rows, err := tx.(postgres.Querier).Query("SELECT relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind = 'r' AND relname NOT LIKE '\\_%' AND nspname IN ('skerry_records', 'skerry_history')")
		if err != nil {
			return err
		}
		tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
		left = append(left, tables...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return left
}
