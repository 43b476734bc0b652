package tables_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/value"
)

// rev returns the revision of a record as a list has it, which locks nothing.
func (b *both) rev(tx *record.Tx, id string) (uint64, error) {
	q, err := tx.ParseQuery("orders", url.Values{"filter": {`id = "` + id + `"`}})
	if err != nil {
		return 0, err
	}
	page, err := tx.Find("orders", q)
	if err != nil || len(page.Items) == 0 {
		return 0, err
	}
	return page.Items[0].Rev, nil
}

// TestForeignInterleaved: another program commits between the moment in which a transaction finds a record and that in which
// it writes it. The transaction then runs again, and a condition on the revision holds for what it has found.
func TestForeignInterleaved(t *testing.T) {
	b := openBoth(t)
	b.create("a", `{"item":"tea","n":1}`)
	runs := 0
	between := func(sql string, write func(tx *record.Tx, rev uint64) error) error {
		runs = 0
		_, err := b.db.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
			rev, err := b.rev(tx, "a")
			if err != nil {
				return err
			}
			if runs++; runs == 1 {
				b.sql(sql)
			}
			return write(tx, rev)
		})
		return err
	}
	if err := between(`UPDATE orders SET data = data || '{"n": 2}'`, func(tx *record.Tx, _ uint64) error {
		_, err := tx.Update("orders", "a", []byte(`{"item":"cup"}`), 0)
		return err
	}); err != nil || runs != 1 {
		t.Fatalf("an update: %v after %d runs", err, runs)
	}
	b.shows("a", 3, `{"item":"cup","n":2}`)
	if err := between(`DELETE FROM orders`, func(tx *record.Tx, _ uint64) error {
		_, err := tx.Update("orders", "a", []byte(`{"n":9}`), 0)
		return err
	}); !errors.Is(err, record.ErrNotFound) {
		t.Fatalf("an update of a deleted record: %v after %d runs", err, runs)
	}
	b.run()
	b.settle()
	b.historyIs("a", "create", "update sql:skerry", "update", "delete sql:skerry")
}

// TestForeignStale: a record was found in a list, another program changes it, and the transaction writes what it has found.
func TestForeignStale(t *testing.T) {
	b := openBoth(t)
	b.create("a", `{"n":1}`)
	runs := 0
	if _, err := b.eng.Update(t.Context(), func(tx engine.Tx) error {
		all, err := keys.Load(tx)
		if err != nil {
			return err
		}
		for d, err := range keys.Docs(tx, all[0], "") {
			if err != nil {
				return err
			}
			if runs++; runs == 1 {
				b.sql(`UPDATE orders SET data = data || '{"item": "cup"}'`)
			}
			after := *d
			after.Rev++
			after.Data = d.Data.With(1, value.OfInt(int64(after.Rev)))
			after.Marks[keys.Updated] = keys.Mark{At: tx.Now().UTC()}
			return keys.Put(tx, all[0], d, &after, &keys.Change{Op: keys.Update, At: tx.Now().UTC()})
		}
		return nil
	}); err != nil || runs != 2 {
		t.Fatalf("%v after %d runs", err, runs)
	}
	b.run()
	b.settle()
	b.shows("a", 3, `{"item":"cup","n":3}`)
}

// TestForeignWaits: what a transaction has read by its id no other program can change until it has ended.
func TestForeignWaits(t *testing.T) {
	b := openBoth(t)
	b.create("a", `{"n":1}`)
	b.sql("SET lock_timeout = '50ms'")
	b.own(func(tx *record.Tx) error {
		if _, err := tx.Get("orders", "a"); err != nil {
			return err
		}
		b.refused("lock timeout", `UPDATE orders SET data = data || '{"n": 2}'`)
		_, err := tx.Update("orders", "a", []byte(`{"item":"cup"}`), 1)
		return err
	})
	b.shows("a", 2, `{"item":"cup","n":1}`)
	b.verify()
}

// TestForeignCreates: another program creates a record with the same id or the same unique value before the statement of
// the program is sent.
func TestForeignCreates(t *testing.T) {
	b := openBoth(t)
	for i, sql := range []string{
		`INSERT INTO orders (id, data) VALUES ('a', '{"item": "0"}')`,
		`INSERT INTO orders (id, data) VALUES ('b', '{"item": "1"}')`,
	} {
		runs := 0
		_, err := b.db.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
			runs++
			_, err := tx.Create("orders", "a", fmt.Appendf(nil, `{"item":"%d"}`, i))
			if err == nil && runs == 1 {
				b.sql(sql)
			}
			return err
		})
		if !errors.Is(err, record.ErrExists) || runs > 2 {
			t.Errorf("%s: %v after %d runs", sql, err, runs)
		}
		b.sql(`DELETE FROM orders`) // the trash keeps the id, not the unique value
		if i == 0 {
			b.own(func(tx *record.Tx) error { return tx.Purge("orders", "a", 0) })
		}
	}
	b.run()
	b.settle()
	b.historyIs("b", "create sql:skerry", "delete sql:skerry")
}

// TestForeignWhileTaken commits changes between the moments in which TakeIn reads the outbox and writes the record.
func TestForeignWhileTaken(t *testing.T) {
	b := openBoth(t)
	b.create("a", `{"n":1}`)
	b.sql(`UPDATE orders SET data = data || '{"n": 2}'`)
	runs := 0
	if _, err := b.eng.Update(t.Context(), func(tx engine.Tx) error {
		runs++
		all, err := keys.Load(tx)
		if err != nil {
			return err
		}
		taken, err := keys.TakeIn(tx, all[0], "a", keys.MaxTake)
		if len(taken) != runs {
			t.Errorf("run %d took in %d changes", runs, len(taken))
		}
		if err == nil && runs == 1 {
			b.sql(`UPDATE orders SET data = data || '{"n": 3}'`)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if runs != 2 {
		t.Errorf("the transaction ran %d times, want 2", runs)
	}
	b.settle()
	b.shows("a", 3, `{"n":3}`)
	b.historyIs("a", "create", "update sql:skerry", "update sql:skerry")
}

// TestForeignLocks: a program that keeps a row locked fails the writes to it, and no others.
func TestForeignLocks(t *testing.T) {
	b := openBoth(t)
	b.create("a", `{"n":1}`)
	b.create("b", `{"n":1,"item":"x"}`)
	b.sql(`UPDATE orders SET data = data || '{"n": 2}' WHERE id = 'b'`)
	b.sql("BEGIN")
	b.sql(`UPDATE orders SET data = data || '{"n": 2}' WHERE id = 'a'`)
	var done sync.WaitGroup
	done.Go(func() { b.change("b", `{"item":"y"}`) })
	_, err := b.db.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
		_, err := tx.Update("orders", "a", []byte(`{"item":"z"}`), 0)
		return err
	})
	done.Wait()
	if engine.CodeOf(err) != engine.CodeUnavailable || !strings.Contains(err.Error(), "another program") || !strings.Contains(err.Error(), `"orders"`) {
		t.Errorf("a write to a locked row: %v", err)
	}
	b.shows("b", 3, `{"item":"y","n":2}`)
	b.run()
	b.sql("COMMIT")
	b.settle()
	b.historyIs("a", "create", "update sql:skerry")
}

// TestForeignRandom has the program and others add 1 to the same records at the same time, in transactions that sometimes
// fail. No addition is lost, and each is one change in the history.
func TestForeignRandom(t *testing.T) {
	b := openBoth(t)
	s := seed.Of(t)
	const records, writers, steps = 4, 3, 60
	for i := range records {
		b.create(fmt.Sprint("r", i), `{"n":0}`)
	}
	b.run()
	var added [records]atomic.Int64
	var done sync.WaitGroup
	for w := range writers {
		done.Go(func() { b.addOwn(rand.New(rand.NewPCG(s, uint64(w))), steps, added[:]) })
		other := b.connect()
		done.Go(func() { b.addForeign(other.PgConn(), rand.New(rand.NewPCG(s, uint64(100+w))), steps, added[:]) })
	}
	done.Wait()
	if t.Failed() {
		return
	}
	b.settle()
	for i := range records {
		id, n := fmt.Sprint("r", i), added[i].Load()
		b.shows(id, uint64(n)+1, fmt.Sprintf(`{"n":%d}`, n))
		if got := len(b.history(id)); got != int(n)+1 {
			t.Errorf("record %s has %d changes, want %d", id, got, n+1)
		}
	}
}

var errUndo = errors.New("undo")

// addOwn adds 1 to random records by the program.
func (b *both) addOwn(rng *rand.Rand, steps int, added []atomic.Int64) {
	for range steps {
		i, undo := rng.IntN(len(added)), rng.IntN(5) == 0
		_, err := b.db.Update(b.Context(), record.Program(), func(tx *record.Tx) error {
			id := fmt.Sprint("r", i)
			r, err := tx.Get("orders", id)
			if err != nil {
				return err
			}
			n, _ := r.Value("n").Int()
			if _, err := tx.Update("orders", id, fmt.Appendf(nil, `{"n":%d}`, n+1), r.Rev); err != nil || !undo {
				return err
			}
			return errUndo
		})
		switch {
		case err == nil:
			added[i].Add(1)
		case errors.Is(err, errUndo), engine.Retryable(err) && !errors.Is(err, engine.ErrOutcomeUnknown):
		default:
			b.Error(err)
			return
		}
	}
}

// addForeign adds 1 to some random records by another program, in the order of their ids so that there are no deadlocks
// between such programs.
func (b *both) addForeign(conn *pgconn.PgConn, rng *rand.Rand, steps int, added []atomic.Int64) {
	ctx := context.WithoutCancel(b.Context())
	for range steps {
		end := "COMMIT"
		if rng.IntN(5) == 0 {
			end = "ROLLBACK"
		}
		sql := "BEGIN;"
		var ids []int
		for i := range added {
			if rng.IntN(2) == 0 {
				ids = append(ids, i)
				sql += fmt.Sprintf(`UPDATE skerry_records.orders SET data = jsonb_set(data, '{n}', to_jsonb((data->>'n')::int + 1)) WHERE id = 'r%d';`, i)
			}
		}
		_, err := conn.Exec(ctx, sql+end).ReadAll()
		if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == "40P01" { // the program had the locks in another order
			_, err = conn.Exec(ctx, "ROLLBACK").ReadAll()
			end = ""
		}
		if err != nil {
			b.Error(err)
			return
		}
		for _, i := range ids {
			if end == "COMMIT" {
				added[i].Add(1)
			}
		}
	}
}
