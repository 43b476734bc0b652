package adopt_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/postgres"
	"github.com/skerrydb/skerry/engine/postgres/adopt"
	"github.com/skerrydb/skerry/engine/postgres/tables"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
)

// shop is a database with a table of another program.
type shop struct {
	*testing.T
	s    *adopt.Session
	db   *record.DB
	conn *pgx.Conn
}

func openShop(t *testing.T, sql string) *shop {
	t.Helper()
	at := pgserver.Shared(t).Database(t)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	x := &shop{T: t}
	if x.conn, err = pgx.Connect(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.conn.Close(context.Background()) })
	x.sql(sql)
	own := tables.New(postgres.DefaultSchema)
	eng, err := postgres.Open(t.Context(), u, postgres.Options{Attached: keys.Native{Driver: own, Create: true}, Setup: own.Setup()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	if x.db, err = record.Open(eng, record.Options{}); err != nil {
		t.Fatal(err)
	}
	if x.s, err = adopt.Open(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.s.Close() })
	return x
}

func (x *shop) sql(sql string, args ...any) {
	x.Helper()
	if _, err := x.conn.Exec(x.Context(), sql, args...); err != nil {
		x.Fatalf("%s: %v", sql, err)
	}
}

// adopt adopts a table.
func (x *shop) adopt(table string, skip ...string) (*adopt.Link, error) {
	t, err := x.s.Read(x.Context(), table, skip)
	if err != nil {
		return nil, err
	}
	if err := x.db.Define(t.Collection(t.Name)); err != nil {
		return nil, err
	}
	if _, err := x.db.Update(x.Context(), record.Program(), func(*record.Tx) error { return nil }); err != nil {
		return nil, err
	}
	l := x.s.Link(t, t.Name)
	return l, x.join(l)
}

// join connects both sides and copies the rows.
func (x *shop) join(l *adopt.Link) error {
	err := l.Connect(x.Context())
	for last, n := "", 1; n > 0 && err == nil; {
		n, last, err = l.Copy(x.Context(), last)
	}
	if err != nil {
		return err
	}
	return x.settle()
}

// again is join after a release.
func (x *shop) again(l *adopt.Link) {
	x.Helper()
	if err := x.join(l); err != nil {
		x.Fatal(err)
	}
}

func (x *shop) settle() error {
	for more := true; more; {
		var err error
		if more, err = x.db.TakeIn(x.Context()); err != nil {
			return err
		}
	}
	return nil
}

func (x *shop) own(fn func(tx *record.Tx) error) error {
	_, err := x.db.Update(x.Context(), record.Program(), fn)
	return err
}

// records returns the data of the records of a collection by their ids, with the marks * of those in the trash.
func (x *shop) records(collection string) map[string]string {
	x.Helper()
	all := map[string]string{}
	rows, err := x.conn.Query(x.Context(), "SELECT id || CASE WHEN is_deleted THEN '*' ELSE '' END, data::text FROM skerry_records."+collection)
	if err != nil {
		x.Fatal(err)
	}
	var id, data string
	if _, err := pgx.ForEachRow(rows, []any{&id, &data}, func() error { all[id] = data; return nil }); err != nil {
		x.Fatal(err)
	}
	return all
}

func (x *shop) one(sql string) (text string) {
	x.Helper()
	if err := x.conn.QueryRow(x.Context(), sql).Scan(&text); err != nil {
		x.Fatalf("%s: %v", sql, err)
	}
	return text
}

func (x *shop) verify() {
	x.Helper()
	all, err := x.db.Verify(x.Context(), nil, nil)
	if err != nil {
		x.Fatal(err)
	}
	for _, v := range all {
		if v.Fault != nil {
			x.Error(v.Fault)
		}
	}
}

const types = `CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE DOMAIN code AS varchar(8);
CREATE TABLE things (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "Full Name" text NOT NULL, small int2, big int8, ratio float8, price numeric(12,2) DEFAULT 1.5,
	ok bool, short varchar(10), m mood, c code, u uuid, at timestamptz, local timestamp, day date, doc jsonb, words text[], created timestamptz DEFAULT now(),
	twice int GENERATED ALWAYS AS (small * 2) STORED, photo bytea);
CREATE UNIQUE INDEX ON things (short);
CREATE INDEX ON things (m, price DESC);
INSERT INTO things ("Full Name", small, big, ratio, price, ok, short, m, c, u, at, local, day, doc, words, created, photo) VALUES
	('Anna', 1, 9007199254740993, 0.5, 12.30, true, 'a', 'happy', 'x', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '2026-01-02 03:04:05+01', '2026-01-02 03:04:05', '2026-01-02', '{"a": [1, null]}', '{b,NULL}', '2026-01-01Z', '\x00');
INSERT INTO things ("Full Name") VALUES ('Ben');`

// TestTypes: values of all types become fields, and come back as they were when a record is written.
func TestTypes(t *testing.T) {
	x := openShop(t, types)
	if _, err := x.adopt("things"); err == nil || !strings.Contains(err.Error(), "photo") {
		t.Fatalf("a bytea: %v", err)
	}
	l, err := x.adopt("things", "photo")
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Table.Skipped) != 2 {
		t.Errorf("skipped: %q", l.Table.Skipped)
	}
	want := `{"c": "x", "m": "happy", "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "at": "2026-01-02T02:04:05.000000Z", "ok": true, "big": 9007199254740993, "day": "2026-01-02T00:00:00.000000Z", "doc": {"a": [1, null]}, ` +
		`"local": "2026-01-02T03:04:05.000000Z", "price": "12.30", "ratio": 0.5, "short": "a", "small": 1, "words": ["b", null], "c_created": "2026-01-01T00:00:00.000000Z", "full_name": "Anna"}`
	if got := x.records("things")["1"]; got != want {
		t.Errorf("record 1 is\n%s, want\n%s", got, want)
	}
	x.verify()
	before := x.one("SELECT to_jsonb(t)::text FROM things t WHERE id = 1")
	if err := x.own(func(tx *record.Tx) error {
		if _, err := tx.Update("things", "1", []byte(`{"small":2}`), 0); err != nil {
			return err
		}
		_, err := tx.Create("things", "77", []byte(`{"full_name":"Carl","short":"c"}`))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	before = strings.NewReplacer(`"small": 1`, `"small": 2`, `"twice": 2`, `"twice": 4`).Replace(before)
	if got := x.one("SELECT to_jsonb(t)::text FROM things t WHERE id = 1"); got != before {
		t.Errorf("the row is\n%s, want\n%s", got, before)
	}
	if got := x.one(`SELECT "Full Name" || ' ' || price || ' ' || (created IS NOT NULL) FROM things WHERE id = 77`); got != "Carl 1.50 true" {
		t.Errorf("the row of a new record is %s", got)
	}
}

// TestBothWays: each side has what the other one writes, in the same transaction, and the history has all of it.
func TestBothWays(t *testing.T) {
	x := openShop(t, `CREATE TABLE people (email text, id int PRIMARY KEY, n int CHECK (n < 100), UNIQUE (email)); INSERT INTO people VALUES ('a', 1, 1), ('b', 2, 2)`)
	l, err := x.adopt("people")
	if err != nil {
		t.Fatal(err)
	}
	x.sql("UPDATE people SET n = 5 WHERE id = 1; DELETE FROM people WHERE id = 2; INSERT INTO people VALUES ('c', 3, 3); UPDATE people SET id = 4 WHERE id = 3")
	if err := x.own(func(tx *record.Tx) error {
		if _, err := tx.Update("people", "1", []byte(`{"email":"z"}`), 0); err != nil {
			return err
		}
		if _, err := tx.Delete("people", "4", 0); err != nil {
			return err
		}
		_, err := tx.Create("people", "5", []byte(`{"email":"e"}`))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	rows := `SELECT coalesce(string_agg(id || email || coalesce(n, 0), ' ' ORDER BY id), '') FROM people`
	if got := x.one(rows); got != "1z5 5e0" {
		t.Errorf("the table has %s", got)
	}
	if err := x.own(func(tx *record.Tx) error { _, err := tx.Restore("people", "2", 0); return err }); err != nil {
		t.Fatal(err)
	}
	x.sql("UPDATE skerry_records.people SET data = data || '{\"n\": 9}' WHERE id = '2'")
	if got := x.one(rows); got != "1z5 2b9 5e0" {
		t.Errorf("the table has %s", got)
	}
	for text, want := range map[string]error{`{"n":100}`: nil, `{"email":"z"}`: record.ErrExists} {
		err := x.own(func(tx *record.Tx) error { _, err := tx.Update("people", "5", []byte(text), 0); return err })
		if err == nil || want != nil && !errors.Is(err, want) || engine.CodeOf(err) == engine.CodeInternal {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, id := range []string{"", "007", "x"} {
		err := x.own(func(tx *record.Tx) error { _, err := tx.Create("people", id, []byte(`{}`)); return err })
		if engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), "primary key of table people") {
			t.Errorf("a record with the id %q: %v", id, err)
		}
	}
	x.sql("TRUNCATE people")
	x.sql("INSERT INTO people VALUES ('n', 1, 7)")
	if err := x.settle(); err != nil {
		t.Fatal(err)
	}
	x.verify()
	want := map[string]string{"1": `{"n": 7, "email": "n"}`, "2*": `{"n": 9, "email": "b"}`, "3*": `{"n": 3, "email": "c"}`, "4*": `{"n": 3, "email": "c"}`, "5*": `{"email": "e"}`}
	if got := x.records("people"); !maps.Equal(got, want) {
		t.Errorf("the records are %v, want %v", got, want)
	}
	x.releases(l, want)
}

// releases ends the adoption of TestBothWays, whose records are known, and adopts the table again.
func (x *shop) releases(l *adopt.Link, want map[string]string) {
	x.Helper()
	if err := l.Release(x.Context()); err != nil {
		x.Fatal(err)
	}
	x.sql("INSERT INTO people VALUES ('after', 9, 9)")
	if got := x.records("people"); len(got) != len(want) {
		x.Errorf("after the release the records are %v", got)
	}
	x.sql("UPDATE people SET n = 8 WHERE id = 1; INSERT INTO people VALUES ('five', 5, 5); DELETE FROM people WHERE id = 9; INSERT INTO people VALUES ('ten', 10, 1)")
	if err := x.own(func(tx *record.Tx) error {
		_, err := tx.Create("people", "11", []byte(`{"email":"norow"}`))
		return err
	}); err != nil {
		x.Fatal(err)
	}
	x.again(l)
	want["1"], want["5"], want["10"], want["11*"] = `{"n": 8, "email": "n"}`, `{"n": 5, "email": "five"}`, `{"n": 1, "email": "ten"}`, `{"email": "norow"}`
	delete(want, "5*")
	if got := x.records("people"); !maps.Equal(got, want) {
		x.Errorf("adopted again, the records are %v, want %v", got, want)
	}
	x.verify()
}

// TestRefused: tables that cannot be adopted are refused by name.
func TestRefused(t *testing.T) {
	x := openShop(t, `CREATE TABLE nokey (a int); CREATE TABLE two (a int, b int, PRIMARY KEY (a, b)); CREATE TABLE bykey (id timestamptz PRIMARY KEY);
		CREATE VIEW seen AS SELECT 1 AS id; CREATE TABLE odd (id int PRIMARY KEY, r int4range); CREATE TABLE mails (id text PRIMARY KEY); INSERT INTO mails VALUES ('a@b'); CREATE TABLE blank (id text PRIMARY KEY); INSERT INTO blank VALUES ('a'), ('');
		CREATE TABLE nan (id int PRIMARY KEY, x float8); INSERT INTO nan VALUES (1, 'NaN'); CREATE TABLE strict (id int PRIMARY KEY, p bytea NOT NULL);
		CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE wide (id int PRIMARY KEY)`)
	for i := range 201 {
		x.sql(fmt.Sprintf("ALTER TABLE wide ADD c%d int", i))
	}
	for table, words := range map[string]string{
		"missing": "there is no table", "nokey": "no primary key", "two": "2 columns", "bykey": "must be an integer", "seen": "not an ordinary table", "odd": "int4range",
		"mails": `"a@b"`, "blank": `"", a primary key`, "nan": "field x", "strict -p": "cannot be skipped", "nokey -zz": "no primary key", "odd -zz": "int4range", "strict -id": "bytea", "parts": "not an ordinary table", "wide": "201 columns",
	} {
		name, skip, _ := strings.Cut(table, " -")
		var skips []string
		if skip != "" {
			skips = []string{skip}
		}
		if _, err := x.adopt(name, skips...); err == nil || !strings.Contains(err.Error(), words) || engine.CodeOf(err) == engine.CodeInternal {
			t.Errorf("%s: %v; want an error with %q", table, err, words)
		}
	}
}

// TestOtherRecords: a collection that has records already does not adopt a table.
func TestOtherRecords(t *testing.T) {
	x := openShop(t, "CREATE TABLE people (id int PRIMARY KEY)")
	table, err := x.s.Read(t.Context(), "people", nil)
	if err == nil {
		err = x.db.Define(table.Collection("people"))
	}
	if err == nil {
		err = x.own(func(tx *record.Tx) error { _, err := tx.Create("people", "1", []byte("{}")); return err })
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := x.join(x.s.Link(table, "people")); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("the adoption: %v", err)
	}
	if got := x.records("people"); len(got) != 1 || got["1"] == "" {
		t.Errorf("the records are %v", got)
	}
}

// TestRandom has programs of the table and clients of the records write at the same time. In the end both sides are the
// same, and what each addition has added is there.
func TestRandom(t *testing.T) {
	x := openShop(t, `CREATE TABLE sums (id int PRIMARY KEY, n int NOT NULL); INSERT INTO sums SELECT i, 0 FROM generate_series(1, 4) i`)
	if _, err := x.adopt("sums"); err != nil {
		t.Fatal(err)
	}
	s := seed.Of(t)
	ctx, stop := context.WithCancel(t.Context())
	var running, done sync.WaitGroup
	running.Go(func() { _ = x.db.Run(ctx) })
	added := make([]int, 4)
	for w := range added {
		rng := rand.New(rand.NewPCG(s, uint64(w)))
		conn, err := pgx.Connect(t.Context(), x.conn.Config().ConnString())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		done.Go(func() {
			for range 60 {
				id, err := fmt.Sprint(1+rng.IntN(4)), error(nil)
				if w%2 == 0 {
					_, err = conn.Exec(ctx, "UPDATE sums SET n = n + 1 WHERE id = "+id)
				} else {
					err = x.own(func(tx *record.Tx) error {
						r, err := tx.Get("sums", id)
						if err != nil {
							return err
						}
						n, _ := r.Value("n").Int()
						_, err = tx.Update("sums", id, fmt.Appendf(nil, `{"n":%d}`, n+1), r.Rev)
						return err
					})
				}
				if err == nil {
					added[w]++
				} else if !engine.Retryable(err) {
					t.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
	stop()
	running.Wait()
	if t.Failed() {
		return
	}
	if err := x.settle(); err != nil {
		t.Fatal(err)
	}
	x.verify()
	want := fmt.Sprint(added[0] + added[1] + added[2] + added[3])
	if got := x.one("SELECT sum(n)::text FROM sums"); got != want {
		t.Errorf("the table has the sum %s, want %s", got, want)
	}
	if got := x.one("SELECT count(*)::text FROM sums s FULL JOIN skerry_records.sums r ON r.id = s.id::text WHERE s.n IS DISTINCT FROM (r.data->>'n')::int"); got != "0" {
		t.Errorf("%s rows differ from their records", got)
	}
	if got := x.one("SELECT sum(rev - 1)::text FROM skerry_records.sums"); got != want {
		t.Errorf("the records have %s revisions, want %s", got, want)
	}
}
