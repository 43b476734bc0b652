package postgres

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

// TestChangedByHand changes tables under an open engine. Calls that need them fail at once with an error that names the
// table, and nothing is acknowledged.
func TestChangedByHand(t *testing.T) {
	t.Parallel()
	const update, view, changes = "update", "view", "changes"
	at, seen := pgserver.Shared(t).Database(t), map[string]bool{}
	for name, c := range map[string]struct {
		sql   string
		text  string
		fails []string
	}{
		"kv dropped":        {"DROP TABLE skerry.kv", "table skerry.kv does not exist", []string{update, view}},
		"kv column dropped": {"ALTER TABLE skerry.kv DROP COLUMN v", `table skerry.kv has no column "v bytea"`, []string{update, view}},
		"kv renamed":        {"ALTER TABLE skerry.kv RENAME TO old", "table skerry.kv does not exist", []string{update, view}},
		"kv without key":    {"ALTER TABLE skerry.kv DROP CONSTRAINT kv_pkey", `table skerry.kv has no unique index on column "k"`, []string{update}},
		"kv extended":       {"DELETE FROM skerry.kv; ALTER TABLE skerry.kv ADD owner text NOT NULL", `table skerry.kv has a column "owner"`, []string{update}},
		"kv with a rule":    {"CREATE RULE skip AS ON INSERT TO skerry.kv DO INSTEAD NOTHING", "rule skip", []string{update}},
		"kv with a trigger": {`CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
			CREATE TRIGGER skip BEFORE INSERT ON skerry.kv FOR EACH ROW EXECUTE FUNCTION f()`, "trigger skip", []string{update}},
		"pos dropped":           {"DROP TABLE skerry.pos", "table skerry.pos does not exist", []string{update, view, changes}},
		"pos column dropped":    {"ALTER TABLE skerry.pos DROP COLUMN at", `table skerry.pos has no column "at bigint"`, []string{update, view, changes}},
		"pos emptied":           {"DELETE FROM skerry.pos", "table skerry.pos has no row", []string{update, view, changes}},
		"change dropped":        {"DROP TABLE skerry.change", "table skerry.change does not exist", []string{update, changes}},
		"change column dropped": {"ALTER TABLE skerry.change DROP COLUMN writes", `table skerry.change has no column "writes bytea"`, []string{update, changes}},
		"schema dropped":        {"DROP SCHEMA skerry CASCADE", "does not exist", []string{update, view, changes}},
	} {
		schema := fmt.Sprint("hand", len(seen))
		seen[name] = true
		in := strings.NewReplacer("skerry.", schema+".", "SCHEMA skerry", "SCHEMA "+schema, "f()", schema+".f()")
		t.Run(name, func(t *testing.T) {
			d := openT(t, withSchema(enginetest.Adapt(t), at, schema), Options{})
			put(t, d, "a", "1")
			if _, _, err := get(t.Context(), d, engine.Read{}, "a"); err != nil {
				t.Fatal(err)
			}
			exec(t, at, in.Replace(c.sql))
			retries := d.retries.Load()
			for _, what := range c.fails {
				wantCode(t, d.try(t.Context(), what), engine.CodeCorrupt, in.Replace(c.text))
			}
			if n := d.retries.Load() - retries; n > 1 { // once because of a prepared statement
				t.Errorf("the update was tried again %d times", n)
			}
		})
	}
}

// try makes a call, which may fail.
func (d *DB) try(ctx context.Context, what string) (err error) {
	switch what {
	case "update":
		_, err = d.Update(ctx, func(tx engine.Tx) error { return tx.Put([]byte("b"), []byte("1")) })
	case "view":
		_, _, err = get(ctx, d, engine.Read{}, "a")
	case "changes":
		for _, err = range d.Changes(ctx, 0) {
			if err != nil {
				break
			}
		}
	}
	return err
}

// TestRightsRevoked takes rights from the role of an open engine.
func TestRightsRevoked(t *testing.T) {
	t.Parallel()
	at := pgserver.Shared(t).Database(t)
	openT(t, at, Options{}) // the tables belong to another role
	alice := role(t, at)
	u, err := url.Parse(alice)
	if err != nil {
		t.Fatal(err)
	}
	name := u.User.Username()
	exec(t, at, "GRANT USAGE ON SCHEMA skerry TO "+name, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA skerry TO "+name)
	d := openT(t, alice, Options{})
	put(t, d, "a", "1")
	exec(t, at, "REVOKE INSERT ON skerry.change FROM "+name)
	wantCode(t, d.try(t.Context(), "update"), engine.CodeInvalid, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES")
	if val, _, err := get(t.Context(), d, engine.Read{}, "a"); val != "1" || err != nil {
		t.Errorf("a view without the right to write: %q, %v", val, err)
	}
	exec(t, at, "GRANT INSERT ON skerry.change TO "+name)
	put(t, d, "a", "2")
}

// TestStrangersLock lets a stranger lock tables. Errors name the stranger, and calls go on once the lock is gone.
func TestStrangersLock(t *testing.T) {
	t.Parallel()
	at := pgserver.Shared(t).Database(t)
	short := limits{statement: statementTime, idle: idleTime, lock: 300 * time.Millisecond, probe: probeTime}
	d := openT(t, at, Options{Patience: 100 * time.Millisecond, limits: short})
	put(t, d, "a", "1")
	for _, c := range []struct {
		lock, table string
		fails       []string
	}{
		{"LOCK skerry.pos IN ACCESS EXCLUSIVE MODE", "pos", []string{"update", "view"}},
		{"SELECT FROM skerry.pos FOR UPDATE", "pos", []string{"update"}},
		{"LOCK skerry.kv IN SHARE MODE", "kv", []string{"update"}},
	} {
		stranger, err := pgx.Connect(t.Context(), at+"&application_name=psql")
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{"BEGIN", c.lock} {
			if _, err := stranger.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		for _, what := range c.fails {
			err := d.try(t.Context(), what)
			wantCode(t, err, engine.CodeUnavailable, "psql of role skerry at 127.0.0.1 has kept a lock on table skerry."+c.table)
			wantCode(t, err, engine.CodeUnavailable, "SELECT pg_terminate_backend(")
		}
		if strings.Contains(c.lock, "ACCESS") { // another Skerry that starts now
			u, err := url.Parse(at)
			if err != nil {
				t.Fatal(err)
			}
			other, err := Open(t.Context(), u, Options{limits: short})
			if err == nil {
				_ = other.Close()
			}
			wantCode(t, err, engine.CodeUnavailable, "psql of role skerry")
		}
		closeConn(stranger)
		eventually.True(t, "the lock is gone", func() bool { return d.try(t.Context(), "update") == nil })
	}
}

// TestNoRoom opens and uses the engine as a role that may have few connections.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	at := pgserver.Shared(t).Database(t)
	alice := role(t, at)
	u, err := url.Parse(alice)
	if err != nil {
		t.Fatal(err)
	}
	limit := func(n string) { exec(t, at, "ALTER ROLE "+u.User.Username()+" CONNECTION LIMIT "+n) }
	limit("1")
	d, err := Open(t.Context(), u, Options{})
	if err == nil {
		_ = d.Close()
	}
	wantCode(t, err, engine.CodeUnavailable, "Skerry needs up to 21 connections for each process, at least 5. Raise max_connections, or CONNECTION LIMIT")

	// With little room, views wait for each other's sessions.
	gone := func() {
		t.Helper()
		eventually.True(t, "the sessions have ended", func() bool {
			return query[int](t, at, "SELECT count(*) FROM pg_stat_activity WHERE usename = '"+u.User.Username()+"'") == 0
		})
	}
	gone()
	limit("5")
	d = open(enginetest.Adapt(t), alice, Options{Patience: time.Minute})
	put(t, d, "a", "1")
	done := make(chan error)
	for range 8 {
		go func() {
			var err error
			for range 20 {
				if _, _, gerr := get(t.Context(), d, engine.Read{}, "a"); err == nil {
					err = gerr
				}
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Errorf("a view with few connections: %v", err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	// No room at all is reported, and passes.
	gone()
	d = openT(t, alice, Options{Patience: 50 * time.Millisecond})
	put(t, d, "a", "1")
	limit("0")
	cut(enginetest.Adapt(t), at)
	for _, what := range []string{"update", "view", "changes"} {
		wantCode(t, d.try(t.Context(), what), engine.CodeUnavailable, "CONNECTION LIMIT")
	}
	limit("-1")
	for _, what := range []string{"update", "view"} {
		eventually.True(t, what+" succeeds", func() bool { return d.try(t.Context(), what) == nil })
	}
}
