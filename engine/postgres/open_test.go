package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

// exec runs statements in a database as its owner.
func exec(t *testing.T, at string, sqls ...string) {
	t.Helper()
	ctx := context.Background() // also when the test ends
	c, err := pgx.Connect(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(c)
	for _, sql := range sqls {
		if _, err := c.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// as returns the URL of a database for another user.
func as(t *testing.T, at, user, password string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// TestOpenRefuses opens databases that cannot be used. The error says what to do, and never the password.
func TestOpenRefuses(t *testing.T) {
	server := pgserver.Shared(t)
	server.Exec(t, "CREATE ROLE mallory LOGIN PASSWORD 'sesame'")
	t.Cleanup(func() { server.Exec(t, "DROP ROLE mallory") })
	made := func(sqls ...string) func(at string) string {
		return func(at string) string {
			if err := open(enginetest.Adapt(t), at, Options{}).Close(); err != nil {
				t.Fatal(err)
			}
			exec(t, at, sqls...)
			return at
		}
	}
	for name, c := range map[string]struct {
		prepare func(at string) string // it returns the URL to open
		code    engine.Code
		text    string
	}{
		"another scheme":   {func(string) string { return "mysql://a:sesame@b/c" }, engine.CodeInvalid, "postgres://"},
		"a bad port":       {func(string) string { return "postgres://a:sesame@b:1?port=sesame" }, engine.CodeInvalid, "URL"},
		"a bad schema":     {func(at string) string { return at + "&schema=pg_mine" }, engine.CodeInvalid, "pg_mine"},
		"nobody listens":   {func(string) string { return "postgres://a:sesame@127.0.0.1:1/c" }, engine.CodeUnavailable, "127.0.0.1"},
		"no PostgreSQL":    {func(string) string { return "postgres://a:sesame@" + speaker(t, "-ERR unknown command\r\n") + "/c" }, engine.CodeUnavailable, "127.0.0.1"},
		"a wrong password": {func(at string) string { return as(t, at, "mallory", "sesames") }, engine.CodeUnauthenticated, "password"},
		"no database":      {func(at string) string { return strings.Replace(at, "?", "_none?", 1) }, engine.CodeInvalid, "CREATE DATABASE"},
		"no schema":        {func(at string) string { return as(t, at, "mallory", "sesame") }, engine.CodeInvalid, `CREATE SCHEMA "skerry" AUTHORIZATION "mallory"`},
		"no rights": {func(at string) string { return as(t, made()(at), "mallory", "sesame") },
			engine.CodeInvalid, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "skerry" TO "mallory"`},
		"a newer schema":   {made("UPDATE skerry.format SET version = 99"), engine.CodeFormatNewer, "99"},
		"a column dropped": {made("ALTER TABLE skerry.kv DROP COLUMN v"), engine.CodeCorrupt, `"v bytea"`},
		"a table dropped":  {made("DROP TABLE skerry.epoch"), engine.CodeCorrupt, "epoch"},
		"a row deleted":    {made("DELETE FROM skerry.pos"), engine.CodeCorrupt, "table skerry.pos has no row"},
		"a type changed":   {made("ALTER TABLE skerry.change ALTER pos TYPE numeric"), engine.CodeCorrupt, `table skerry.change has no column "pos bigint"`},
		"a column added":   {made("ALTER TABLE skerry.kv ADD owner text NOT NULL"), engine.CodeCorrupt, `table skerry.kv has a column "owner", which must not be null`},
		"no primary key":   {made("ALTER TABLE skerry.kv DROP CONSTRAINT kv_pkey"), engine.CodeCorrupt, `table skerry.kv has no unique index on column "k"`},
		"a trigger": {made("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
			"CREATE TRIGGER skip BEFORE INSERT ON skerry.kv FOR EACH ROW EXECUTE FUNCTION f()"), engine.CodeCorrupt, "table skerry.kv has the trigger skip"},
		"a rule":             {made("CREATE RULE skip AS ON UPDATE TO skerry.pos DO INSTEAD NOTHING"), engine.CodeCorrupt, "table skerry.pos has the rule skip"},
		"unlogged":           {made("ALTER TABLE skerry.change SET UNLOGGED"), engine.CodeCorrupt, "table skerry.change is UNLOGGED"},
		"row level security": {made("ALTER TABLE skerry.kv ENABLE ROW LEVEL SECURITY"), engine.CodeCorrupt, "table skerry.kv has row level security"},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := url.Parse(c.prepare(server.Database(t)))
			if err != nil {
				t.Fatal(err)
			}
			d, err := Open(t.Context(), u, Options{})
			if err == nil {
				_ = d.Close()
				t.Fatal("it was opened")
			}
			if engine.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "sesame") {
				t.Errorf("error is %v, want one of code %s with %q and without the password", err, c.code, c.text)
			}
		})
	}
}

// TestDurable opens a server that promises less than one by default, and one that is made weaker later.
func TestDurable(t *testing.T) {
	d, at := fresh(t, Options{Patience: 200 * time.Millisecond})
	if !d.Promises().Durable || d.Synchronous() {
		t.Errorf("promises are %+v, synchronous %t", d.Promises(), d.Synchronous())
	}
	weak := open(enginetest.Adapt(t), at+"&synchronous_commit=off", Options{})
	defer weak.Close()
	if weak.Promises().Durable {
		t.Error("durable with synchronous_commit=off")
	}
	put := func(tx engine.Tx) error { return tx.Put([]byte("a"), []byte("1")) }
	if _, err := weak.Update(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	exec(t, at, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$")
	cut(enginetest.Adapt(t), at)
	if _, err := d.Update(t.Context(), put); !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "synchronous_commit") {
		t.Errorf("an update after commits have become less durable: %v", err)
	}
}

// speaker returns the address of a server that says something to everybody.
func speaker(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(text))
			_, _ = c.Read(make([]byte, 100))
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// TestOldVersion refuses servers by their version.
func TestOldVersion(t *testing.T) {
	s := server{version: 120022, first: "pg_catalog", readOnly: "off", encoding: "UTF8"}
	wantCode(t, s.refuse(true), engine.CodeUnsupported, "the server is PostgreSQL 12.22; Skerry needs 13 or newer")
	s.version = 130000
	if err := s.refuse(true); err != nil {
		t.Error(err)
	}
}

// TestSeverity takes the severity of an error from the field that is not in the server's language.
func TestSeverity(t *testing.T) {
	for want, e := range map[bool]pgconn.PgError{
		false: {Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: stateDiskFull},
		true:  {Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01"},
	} {
		if lost(fmt.Errorf("commit: %w", &e)) != want {
			t.Errorf("the session of %v is lost: %t", &e, !want)
		}
	}
}
