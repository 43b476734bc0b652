package tables_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
)

// orders is the collection of these tests.
var orders = schema.Collection{
	Name: "orders",
	Fields: []schema.Field{
		{Name: "item", Type: schema.Text},
		{Name: "n", Type: schema.Int},
		{Name: "rate", Type: schema.Float},
		{Name: "price", Type: schema.Decimal},
		{Name: "paid", Type: schema.Bool},
		{Name: "due", Type: schema.Time},
		{Name: "more", Type: schema.JSON},
		{Name: "pin", Type: schema.Password},
	},
	Indexes: []schema.Index{{Name: "item", Unique: true, Fields: []schema.IndexField{{Name: "item"}}}},
}

// plain is a Passwords for tests.
type plain struct{}

func (plain) Hash(_ context.Context, password string) (string, error) {
	return "hash of " + password, nil
}
func (plain) Matches(_ context.Context, password, hash string) (bool, error) {
	return hash == "hash of "+password, nil
}

// both is a database with the records of a program, and another program's session on it.
type both struct {
	*testing.T
	at   string
	eng  engine.Engine
	db   *record.DB
	conn *pgx.Conn
}

func openBoth(t *testing.T) *both {
	t.Helper()
	b := &both{T: t, at: pgserver.Shared(t).Database(t)}
	b.eng = openNativeAt(t, b.at, nil)
	var err error
	if b.db, err = record.Open(b.eng, record.Options{Passwords: plain{}}); err == nil {
		err = b.db.Define(orders)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.own(func(tx *record.Tx) error { return nil }) // creates the collection
	b.conn = b.connect()
	return b
}

func (b *both) connect() *pgx.Conn {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), b.at)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// run lets the program do its background work.
func (b *both) run() {
	ctx, stop := context.WithCancel(b.Context())
	var done sync.WaitGroup
	done.Go(func() { _ = b.db.Run(ctx) })
	b.Cleanup(func() { stop(); done.Wait() })
}

// sql runs a statement of the other program.
func (b *both) sql(sql string, args ...any) {
	b.Helper()
	if _, err := b.conn.Exec(b.Context(), strings.ReplaceAll(sql, "orders", "skerry_records.orders"), args...); err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
}

// refused expects a statement of the other program to fail with some words.
func (b *both) refused(words, sql string) {
	b.Helper()
	_, err := b.conn.Exec(b.Context(), strings.ReplaceAll(sql, "orders", "skerry_records.orders"))
	if pe, ok := errors.AsType[*pgconn.PgError](err); !ok || !strings.Contains(pe.Message, words) {
		b.Errorf("%s: %v; want an error with %q", sql, err, words)
	}
}

func (b *both) own(fn func(tx *record.Tx) error) {
	b.Helper()
	if _, err := b.db.Update(b.Context(), record.Program(), fn); err != nil {
		b.Fatal(err)
	}
}

// create creates a record by the program.
func (b *both) create(id, data string) {
	b.Helper()
	b.own(func(tx *record.Tx) error { _, err := tx.Create("orders", id, []byte(data)); return err })
}

// change updates a record by the program.
func (b *both) change(id, patch string) {
	b.Helper()
	b.own(func(tx *record.Tx) error { _, err := tx.Update("orders", id, []byte(patch), 0); return err })
}

// shows expects a record to have a revision and data, for the program.
func (b *both) shows(id string, rev uint64, data string) {
	b.Helper()
	r := b.get(id)
	if got := string(r.Collection().AppendPublic(nil, r.Data)); r.Rev != rev || got != data {
		b.Fatalf("record %s has revision %d and data %s; want %d and %s", id, r.Rev, got, rev, data)
	}
}

func (b *both) get(id string) (r *record.Record) {
	b.Helper()
	if _, err := b.db.View(b.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) (err error) {
		r, err = tx.Get("orders", id)
		return err
	}); err != nil {
		b.Fatal(err)
	}
	return r
}

// history returns the changes of a record, the oldest first, as "operation by".
func (b *both) history(id string) (all []string) {
	b.Helper()
	if _, err := b.db.View(b.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) error {
		all = nil
		list, err := tx.History("orders", id, 0, record.MaxHistory)
		for _, ch := range list {
			all = append(all, strings.TrimSpace(ch.Op+" "+ch.By))
		}
		slices.Reverse(all)
		return err
	}); err != nil {
		b.Fatal(err)
	}
	return all
}

func (b *both) historyIs(id string, want ...string) {
	b.Helper()
	if got := b.history(id); !slices.Equal(got, want) {
		b.Fatalf("the history of %s is %q; want %q", id, got, want)
	}
}

// waiting returns how many changes wait.
func (b *both) waiting() (n int) {
	b.Helper()
	if err := b.conn.QueryRow(b.Context(), "SELECT count(*) FROM skerry_records._outbox").Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

func (b *both) settle() {
	b.Helper()
	eventually.True(b, "all changes are taken in", func() bool { return b.waiting() == 0 })
	var n int
	if err := b.conn.QueryRow(b.Context(), "SELECT count(*) FROM skerry_records.orders WHERE pending <> 0").Scan(&n); err != nil || n > 0 {
		b.Fatalf("%d records say that changes wait, %v", n, err)
	}
	b.verify()
}

func (b *both) verify() {
	b.Helper()
	all, err := b.db.Verify(b.Context(), nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, v := range all {
		if v.Fault != nil {
			b.Fatal(v.Fault)
		}
	}
}

// TestForeignChanges: what another program writes with SQL is visible at once, and soon in the history and the feed.
func TestForeignChanges(t *testing.T) {
	b := openBoth(t)
	b.create("a", `{"item":"tea","n":1,"pin":"secret"}`)
	begin, err := b.eng.View(t.Context(), engine.Read{}, func(engine.Tx) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	b.sql(`INSERT INTO orders (id, data) VALUES ('b', '{"n": 2, "item": "cup", "due": "2026-01-02T03:04:05+01:00"}')`)
	b.sql(`UPDATE orders SET data = data || '{"n": 3}' WHERE id = 'a'`)
	b.sql(`UPDATE orders SET data = data || '{"n": 4}', rev = 77, stored = 'x', pending = 0, created_by = 'nobody' WHERE id = 'a'`)
	b.sql(`UPDATE orders SET data = data WHERE id = 'a'`)
	b.sql(`SET skerry.actor = 'anna'; SET skerry.request = 'r1'`)
	b.sql(`DELETE FROM orders WHERE id = 'b'`)
	b.sql(`DELETE FROM orders WHERE id = 'b'`)
	b.sql(`UPDATE orders SET is_deleted = false WHERE id = 'b'`)
	b.sql(`INSERT INTO orders (id, data) VALUES ('c', '{}') ON CONFLICT (id) DO UPDATE SET data = EXCLUDED.data`)
	b.sql(`INSERT INTO orders (id, data) VALUES ('c', '{"n": 5}') ON CONFLICT (id) DO UPDATE SET data = EXCLUDED.data`)

	atOnce := func() {
		t.Helper()
		b.shows("a", 3, `{"item":"tea","n":4}`)
		b.shows("b", 3, `{"item":"cup","n":2,"due":"2026-01-02T02:04:05.000000Z"}`)
		b.shows("c", 2, `{"n":5}`)
		if r := b.get("b"); r.Marks[keys.Created].By != "sql:skerry" || r.Marks[keys.Deleted].By != "anna" || r.Marks[keys.Restored].By != "anna" || r.Marks[keys.Updated].By != "" {
			t.Errorf("record b: %+v", r)
		}
	}
	atOnce()
	b.verify()
	b.historyIs("a", "create")
	b.run()
	b.settle()
	atOnce()
	b.historyIs("a", "create", "update sql:skerry", "update sql:skerry")
	b.historyIs("b", "create sql:skerry", "delete anna", "restore anna")
	b.historyIs("c", "create anna", "update anna")
	seen := map[string]bool{}
	for ch, err := range b.eng.Changes(t.Context(), begin) {
		if err != nil {
			t.Fatal(err)
		}
		steps, err := keys.Steps(ch, func(uint32) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			seen[s.ID] = true
		}
		if len(seen) == 3 {
			break
		}
	}
	if ok, err := b.db.CheckPassword(t.Context(), "orders", "a", "pin", "secret"); !ok || err != nil {
		t.Errorf("the password of a is lost: %v, %v", ok, err)
	}
}

// TestForeignRefused: SQL cannot write what a collection cannot read.
func TestForeignRefused(t *testing.T) {
	b := openBoth(t)
	b.create("a", `{"item":"tea"}`)
	b.create("t", `{"item":"cup"}`)
	b.sql(`DELETE FROM orders WHERE id = 't'`)
	for _, x := range [][2]string{
		{"is not valid", `INSERT INTO orders (id, data) VALUES ('a b', '{}')`},
		{"is not valid", `INSERT INTO orders (id, data) VALUES ('', '{}')`},
		{"is not valid", `INSERT INTO orders (id, data) VALUES (repeat('x', 65), '{}')`},
		{"must be a JSON object", `INSERT INTO orders (id, data) VALUES ('x', '[]')`},
		{"has no field nn", `INSERT INTO orders (id, data) VALUES ('x', '{"nn": 1}')`},
		{"field item", `INSERT INTO orders (id, data) VALUES ('x', '{"item": 1}')`},
		{"field n ", `UPDATE orders SET data = data || '{"n": "1"}' WHERE id = 'a'`},
		{"field n ", `UPDATE orders SET data = data || '{"n": 1.5}' WHERE id = 'a'`},
		{"field n ", `UPDATE orders SET data = data || '{"n": 9223372036854775808}' WHERE id = 'a'`},
		{"field rate", `UPDATE orders SET data = data || '{"rate": 1e400}' WHERE id = 'a'`},
		{"field price", `UPDATE orders SET data = data || '{"price": "1e5"}' WHERE id = 'a'`},
		{"field paid", `UPDATE orders SET data = data || '{"paid": 0}' WHERE id = 'a'`},
		{"field due", `UPDATE orders SET data = data || '{"due": "tomorrow"}' WHERE id = 'a'`},
		{"out of range", `UPDATE orders SET data = data || '{"due": "2026-13-01"}' WHERE id = 'a'`},
		{"field pin", `UPDATE orders SET data = data || '{"pin": "1"}' WHERE id = 'a'`},
		{"more than", `UPDATE orders SET data = data || jsonb_build_object('more', repeat('x', 2000000)) WHERE id = 'a'`},
		{"cannot be changed", `UPDATE orders SET id = 'z' WHERE id = 'a'`},
		{"in the trash", `UPDATE orders SET data = '{}' WHERE id = 't'`},
		{"cannot be truncated", `TRUNCATE orders`},
		{"duplicate key", `INSERT INTO orders (id, data) VALUES ('x', '{"item": "tea"}')`},
		{"duplicate key", `INSERT INTO orders (id, data) VALUES ('a', '{}')`},
	} {
		b.refused(x[0], x[1])
	}
	b.run()
	b.settle()
	b.shows("a", 1, `{"item":"tea"}`)
	b.historyIs("t", "create", "delete sql:skerry")
}

// TestForeignRights: a role that may write one table needs no other rights, and cannot use what the triggers may do.
func TestForeignRights(t *testing.T) {
	b := openBoth(t)
	role := fmt.Sprintf("clerk_%d", time.Now().UnixNano())
	pgserver.Shared(t).Exec(t, "CREATE ROLE "+role)
	t.Cleanup(func() {
		_, _ = b.conn.Exec(context.Background(), "RESET SESSION AUTHORIZATION; DROP OWNED BY "+role)
		pgserver.Shared(t).Exec(t, "DROP ROLE "+role)
	})
	b.sql("GRANT USAGE ON SCHEMA skerry_records TO " + role + "; GRANT SELECT, INSERT, UPDATE, DELETE ON orders TO " + role + "; GRANT CREATE ON SCHEMA public TO " + role)
	b.sql("SET SESSION AUTHORIZATION " + role)
	b.sql(`INSERT INTO orders (id, data) VALUES ('a', '{"n": 1}')`)
	b.sql(`DELETE FROM orders WHERE id = 'a'`)
	b.sql(`CREATE TABLE public.mine (id text, is_deleted bool, data jsonb, pending int)`)
	for _, name := range []string{"_catch(1)", "_note(1)"} {
		b.refused("permission denied", `CREATE TRIGGER t BEFORE INSERT ON public.mine FOR EACH ROW EXECUTE FUNCTION skerry_records.`+name)
	}
	b.refused("permission denied", `SELECT * FROM skerry_records._outbox`)
	b.sql("RESET SESSION AUTHORIZATION")
	b.run()
	b.settle()
	b.historyIs("a", "create sql:"+role, "delete sql:"+role)
}

// TestForeignUnguarded: a trigger that somebody has disabled or dropped is found and named.
func TestForeignUnguarded(t *testing.T) {
	for _, sql := range []string{"ALTER TABLE orders DISABLE TRIGGER _skerry_note", "DROP TRIGGER _skerry_catch ON orders"} {
		b := openBoth(t)
		b.create("a", `{"n":1}`)
		b.sql(sql)
		all, err := b.db.Verify(t.Context(), nil, nil)
		if err != nil || len(all) != 1 || all[0].Fault == nil || !strings.Contains(all[0].Fault.Text, "trigger _skerry_") {
			t.Errorf("%s: %+v, %v", sql, all, err)
		}
	}
}

// TestForeignMigration: changes wait while the collection gets another description.
func TestForeignMigration(t *testing.T) {
	b := openBoth(t)
	b.create("a", `{"n":1}`)
	b.sql(`UPDATE orders SET data = data || '{"n": 2}'`)
	next := orders
	next.Fields = slices.Clone(orders.Fields)
	next.Fields[1] = schema.Field{Name: "number", Type: schema.Text, Was: []string{"n"}}
	db, err := record.Open(b.eng, record.Options{Passwords: plain{}})
	if err == nil {
		err = db.Define(next)
	}
	if err == nil {
		_, err = db.Migrate(t.Context(), record.MigrateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	b.sql(`UPDATE orders SET data = data || '{"number": "3"}'`)
	b.db = db
	b.run()
	b.settle()
	b.shows("a", 3, `{"number":"3"}`)
	b.historyIs("a", "create", "update sql:skerry", "update sql:skerry")
}
