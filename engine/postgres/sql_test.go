package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

// fresh opens an engine on a new database.
func fresh(t *testing.T, o Options) (*DB, string) {
	t.Helper()
	at := pgserver.Shared(t).Database(t)
	d := open(enginetest.Adapt(t), at, o)
	t.Cleanup(func() { _ = d.Close() })
	return d, at
}

// update commits fn, which must succeed.
func update(t *testing.T, d *DB, fn func(tx SQL) error) engine.Position {
	t.Helper()
	pos, err := d.Update(t.Context(), func(tx engine.Tx) error { return fn(tx.(SQL)) })
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	return pos
}

// rows returns table t.
func rows(q Querier) (map[int]int, error) {
	r, err := q.Query("SELECT id, v FROM t")
	if err != nil {
		return nil, err
	}
	defer r.Close()
	m := map[int]int{}
	for r.Next() {
		var id, v int
		if err := r.Scan(&id, &v); err != nil {
			return nil, err
		}
		m[id] = v
	}
	return m, r.Err()
}

func sameRows(q Querier, want map[int]int) error {
	got, err := rows(q)
	if err == nil && !maps.Equal(got, want) {
		err = fmt.Errorf("table t is %v, want %v", got, want)
	}
	return err
}

func withTable(t *testing.T) *DB {
	t.Helper()
	d, _ := fresh(t, Options{})
	update(t, d, func(tx SQL) error { return tx.Queue("CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)") })
	return d
}

func set(tx SQL, id, v int) error {
	return tx.Queue("INSERT INTO t VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET v = excluded.v", id, v)
}

// randomSQL runs one transaction, whose table m describes, and returns what it leaves.
func randomSQL(r *rand.Rand, tx SQL, m map[int]int) (map[int]int, error) {
	type mark struct {
		n int
		m map[int]int
	}
	var marks []mark
	m = maps.Clone(m)
	for range r.IntN(12) {
		var err error
		id := r.IntN(6)
		switch r.IntN(6) {
		case 0, 1:
			m[id] = r.IntN(1000)
			err = set(tx, id, m[id])
		case 2:
			delete(m, id)
			err = tx.Queue("DELETE FROM t WHERE id = $1", id)
		case 3:
			err = sameRows(tx, m)
		case 4:
			marks = append(marks, mark{tx.(engine.Savepointer).Savepoint(), maps.Clone(m)})
		case 5:
			if len(marks) > 0 {
				i := r.IntN(len(marks))
				marks = marks[:i+1]
				m = maps.Clone(marks[i].m)
				err = tx.(engine.Savepointer).RollbackTo(marks[i].n)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// TestSQLAgainstModel runs random statements, savepoints and failing functions.
func TestSQLAgainstModel(t *testing.T) {
	d := withTable(t)
	r := seed.Rand(t)
	own := errors.New("own error")
	m := map[int]int{}
	for range 60 {
		var wrong error
		after := make([]map[int]int, 1+r.IntN(6)+1)
		after[0] = m
		if _, err := d.UpdateEach(t.Context(), len(after)-1, func(tx engine.Tx, i int) error {
			var err error
			after[i+1], err = randomSQL(r, tx.(SQL), after[i])
			if err != nil {
				wrong = errors.Join(wrong, err)
			} else if r.IntN(4) == 0 {
				after[i+1], err = after[i], own
			}
			return err
		}); err != nil || wrong != nil {
			t.Fatalf("update: %v, %v", err, wrong)
		}
		m = after[len(after)-1]
		if _, err := d.View(t.Context(), engine.Read{}, func(tx engine.Tx) error { return sameRows(tx.(Querier), m) }); err != nil {
			t.Fatalf("view: %v", err)
		}
	}
}

// together runs calls in one batch: they wait for a first one.
func together(t *testing.T, d *DB, calls ...func() error) []error {
	t.Helper()
	inside, release := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := d.Update(t.Context(), func(engine.Tx) error { close(inside); <-release; return nil })
		first <- err
	}()
	<-inside
	out := make([]chan error, len(calls))
	for i, call := range calls {
		out[i] = make(chan error, 1)
		go func() { out[i] <- call() }()
		if !eventually.Within(10*time.Second, func() bool { return len(d.queue) == i+1 }) {
			t.Fatal("a call does not reach the queue")
		}
	}
	close(release)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	errs := make([]error, len(calls))
	for i := range out {
		errs[i] = <-out[i]
	}
	return errs
}

// TestSQLFailsAlone sends a statement that fails in a batch with others.
func TestSQLFailsAlone(t *testing.T) {
	d := withTable(t)
	update(t, d, func(tx SQL) error { return set(tx, 1, 1) })
	call := func(fn func(tx SQL) error) func() error {
		return func() error {
			_, err := d.Update(t.Context(), func(tx engine.Tx) error { return fn(tx.(SQL)) })
			return err
		}
	}
	bad := func(tx SQL) error { return tx.Queue("INSERT INTO t VALUES (1, 5)") }
	for name, last := range map[string]func(tx SQL) error{
		"found at the commit":     func(tx SQL) error { return set(tx, 3, 3) },
		"found by another's read": func(tx SQL) error { _, err := rows(tx); return errors.Join(err, set(tx, 3, 3)) },
	} {
		before := d.batches.Load()
		errs := together(t, d, call(func(tx SQL) error { return set(tx, 2, 2) }), call(bad), call(last))
		if errs[0] != nil || !errors.Is(errs[1], engine.ErrInvalid) || errs[2] != nil {
			t.Errorf("%s: %v", name, errs)
		}
		if n := d.batches.Load() - before; n > 4 { // one runs again, in case that another program was faster
			t.Errorf("%s: %d batches: the calls were not together", name, n)
		}
	}
	update(t, d, func(tx SQL) error { return sameRows(tx, map[int]int{1: 1, 2: 2, 3: 3}) })
}

// TestBadQuery reads with a statement that fails: its transaction fails even if the function
// ignores that.
func TestBadQuery(t *testing.T) {
	d := withTable(t)
	for _, sql := range []string{"SELECT nonsense", "SELECT 1 / (1 - generate_series(0, 1))"} {
		_, err := d.Update(t.Context(), func(tx engine.Tx) error {
			if err := set(tx.(SQL), 1, 1); err != nil {
				return err
			}
			if r, err := tx.(SQL).Query(sql); err == nil {
				r.Close()
			}
			return nil
		})
		if err == nil {
			t.Errorf("%s: the update succeeded", sql)
		}
		if _, err := d.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
			_, err := tx.(Querier).Query(sql)
			_ = err
			return nil
		}); err == nil {
			t.Errorf("%s: the view succeeded", sql)
		}
		update(t, d, func(tx SQL) error { return sameRows(tx, map[int]int{}) })
	}
}

// TestPublish looks for published writes in the feed, and not among the keys.
func TestPublish(t *testing.T) {
	d := withTable(t)
	start := d.Position()
	sp := func(tx SQL) engine.Savepointer { return tx.(engine.Savepointer) }
	end := update(t, d, func(tx SQL) error {
		err := errors.Join(tx.Publish(engine.Write{Key: []byte("a"), Val: []byte("1")}, engine.Write{Key: []byte("b"), Deleted: true}), tx.(engine.Tx).Put([]byte("k"), nil))
		mark := sp(tx).Savepoint()
		return errors.Join(err, tx.Publish(engine.Write{Key: []byte("c"), Val: []byte("1")}), sp(tx).RollbackTo(mark),
			tx.Publish(engine.Write{Key: []byte("a"), Val: []byte("2")}))
	})
	for c, err := range d.Changes(context.Background(), start) {
		got := ""
		for _, w := range c.Writes {
			got += fmt.Sprintf("%s=%s %t, ", w.Key, w.Val, w.Deleted)
		}
		if want := "k= false, b= true, a=2 false, "; err != nil || c.Pos != end || got != want {
			t.Fatalf("change %d has %s want %s (%v)", c.Pos, got, want, err)
		}
		break
	}
	update(t, d, func(tx SQL) error {
		if _, ok, err := tx.(engine.Tx).Get([]byte("a")); ok || err != nil {
			return fmt.Errorf("a published key is stored (%w)", err)
		}
		return nil
	})
}

// TestQuietly asks for the changes of transactions that write quietly. What is written is there, and what is written or
// published outside of Quietly as well is in the change.
func TestQuietly(t *testing.T) {
	d, _ := fresh(t, Options{})
	put := func(tx SQL, key, val string) error { return tx.(engine.Tx).Put([]byte(key), []byte(val)) }
	pos := update(t, d, func(tx SQL) error {
		quiet := func(fn func() error) error { return tx.Quietly(fn) }
		return errors.Join(
			put(tx, "loud", "1"),
			quiet(func() error {
				return errors.Join(put(tx, "quiet", "1"), put(tx, "loud", "2"), put(tx, "later", "1"), put(tx, "published", "1"),
					tx.Publish(engine.Write{Key: []byte("unheard"), Val: []byte("1")}))
			}),
			put(tx, "later", "2"),
			tx.Publish(engine.Write{Key: []byte("published"), Val: []byte("1")}),
		)
	})
	var got []string
	for c, err := range d.Changes(t.Context(), pos-1) {
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range c.Writes {
			got = append(got, string(w.Key)+"="+string(w.Val))
		}
		break
	}
	if want := "[loud=2 later=2 published=1]"; fmt.Sprint(got) != want {
		t.Errorf("the change has %v, want %v", got, want)
	}
	if _, err := d.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		val, ok, err := tx.Get([]byte("quiet"))
		if err == nil && (!ok || string(val) != "1") {
			err = fmt.Errorf("quiet is %q, %v", val, ok)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestDroppedTable drops a table after a view has read its name. No snapshot keeps the table, so the view runs again and
// reads the name of the next one. A table that nobody replaced is an error.
func TestDroppedTable(t *testing.T) {
	d, _ := fresh(t, Options{})
	put := func(name string) func(tx SQL) error {
		return func(tx SQL) error {
			return errors.Join(tx.(engine.Tx).Put([]byte("name"), []byte(name)), tx.Queue("CREATE TABLE "+name+" (id int, v int)"))
		}
	}
	update(t, d, put("one"))
	runs, last := 0, ""
	view := func(between func()) error {
		runs = 0
		_, err := d.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
			runs++
			for range 2 { // the second read begins the snapshot
				name, _, err := tx.Get([]byte("name"))
				if err != nil {
					return err
				}
				last = string(name)
			}
			between()
			rows, err := tx.(Querier).Query("SELECT id FROM " + last)
			if err == nil {
				rows.Close()
				err = rows.Err()
			}
			return err
		})
		return err
	}
	if err := view(func() {
		if runs == 1 {
			update(t, d, func(tx SQL) error { return errors.Join(put("two")(tx), tx.Queue("DROP TABLE one")) })
		}
	}); err != nil || runs != 2 || last != "two" {
		t.Errorf("after %d runs: %q, %v; want 2 runs and two", runs, last, err)
	}
	update(t, d, func(tx SQL) error { return tx.Queue("DROP TABLE two") })
	if err := view(func() {}); !errors.Is(err, engine.ErrCorrupt) || runs != 2 {
		t.Errorf("without a table, after %d runs: %v", runs, err)
	}
}
