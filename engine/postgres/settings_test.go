package postgres

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

var roles atomic.Int64

// role creates a role that may do in a database what Skerry needs, sets SETTING=VALUE for it, and returns its URL.
func role(t *testing.T, at string, settings ...string) string {
	t.Helper()
	name := fmt.Sprint("role", roles.Add(1))
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	sqls := []string{"CREATE ROLE " + name + " LOGIN PASSWORD 'sesame'", "GRANT CREATE ON DATABASE " + u.Path[1:] + " TO " + name}
	for _, s := range settings {
		sqls = append(sqls, "ALTER ROLE "+name+" SET "+s)
	}
	exec(t, at, sqls...)
	t.Cleanup(func() { exec(t, at, "DROP OWNED BY "+name+" CASCADE", "DROP ROLE "+name) })
	return as(t, at, name, "sesame")
}

// works checks that an engine stores, finds, scans and streams keys and values of all bytes.
func works(t *testing.T, d *DB) {
	t.Helper()
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	keys := [][]byte{all[:], []byte("\x00"), bytes.Repeat([]byte{0xff}, MaxKeyBytes), []byte("a'b\\c\"")}
	for i := range MaxKeyBytes { // a long key that does not compress
		if i == 0 {
			keys = append(keys, nil)
		}
		keys[4] = append(keys[4], byte(i*i*7+i>>3*13+1))
	}
	before := d.Position()
	last, err := d.Update(t.Context(), func(tx engine.Tx) error {
		for _, k := range keys {
			if err := tx.Put(k, all[:]); err != nil {
				return err
			}
		}
		return tx.Put([]byte("gone"), nil)
	})
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	if _, err = d.Update(t.Context(), func(tx engine.Tx) error { return tx.Delete([]byte("gone")) }); err != nil {
		t.Fatalf("delete: %v", err)
	}
	_, err = d.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		for _, k := range keys {
			if v, _, err := tx.Get(k); err != nil || !bytes.Equal(v, all[:]) {
				t.Errorf("key %.20q is %q, %v", k, v, err)
			}
		}
		n := 0
		for _, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			n++
		}
		if n != len(keys) {
			t.Errorf("%d keys instead of %d", n, len(keys))
		}
		return nil
	})
	if err != nil {
		t.Errorf("view: %v", err)
	}
	if list, err := collect(t, d, before, last+1); err != nil || len(list) != 2 {
		t.Errorf("changes %v, %v", list, err)
	}
}

// setting returns what a session of views and the one of the executor have for a setting.
func setting(t *testing.T, d *DB, name string) (view, update string) {
	t.Helper()
	read := func(tx engine.Tx, into *string) error {
		rows, err := tx.(Querier).Query("SELECT coalesce(current_setting($1, true), '0')", name)
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, []any{into}, func() error { return nil })
		return err
	}
	_, err := d.View(t.Context(), engine.Read{}, func(tx engine.Tx) error { return read(tx, &view) })
	if err == nil {
		_, err = d.Update(t.Context(), func(tx engine.Tx) error { return read(tx, &update) })
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return view, update
}

// TestSettings opens the engine as roles for which an operator has changed a setting.
func TestSettings(t *testing.T) {
	t.Parallel()
	at := pgserver.Shared(t).Database(t)
	for i, c := range []struct {
		set  string
		have string // in the sessions; "": what was set, as it does not matter
	}{
		{"timezone = 'Asia/Kathmandu'", ""},
		{"DateStyle = 'SQL, DMY'", ""},
		{"IntervalStyle = 'iso_8601'", ""},
		{"bytea_output = 'escape'", ""},
		{"search_path = nowhere", ""},
		{"client_encoding = 'LATIN1'", "UTF8"},
		{"extra_float_digits = -15", ""},
		{"default_transaction_isolation = 'serializable'", "read committed"},
		{"default_transaction_deferrable = on", ""},
		{"standard_conforming_strings = off", "on"},
		{"row_security = on", "off"},
		{"statement_timeout = '5s'", "30s"},
		{"lock_timeout = '3s'", "10s"},
		{"idle_in_transaction_session_timeout = '5s'", "1min"},
		{"idle_session_timeout = '5s'", "0"},
		{"transaction_timeout = '5s'", "0"},
	} {
		name, _, _ := strings.Cut(c.set, " ")
		t.Run(name, func(t *testing.T) {
			if name == "transaction_timeout" && query[string](t, at, "SELECT coalesce(current_setting('transaction_timeout', true), '')") == "" {
				c.set = "skerry.no_such_setting = 1" // before version 17
			}
			d := openT(t, withSchema(enginetest.Adapt(t), role(t, at, c.set), fmt.Sprint("set", i)), Options{})
			view, update := setting(t, d, name)
			if name == "default_transaction_isolation" {
				view = c.have // of views it is another one, see snapshotSQL
			}
			if c.have != "" && (view != c.have || update != c.have) {
				t.Errorf("%s is %q in views and %q in updates, want %q", name, view, update, c.have)
			}
			works(t, d)
		})
	}
}

// query returns the only value of a query.
func query[V any](t *testing.T, at, sql string) (v V) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(c)
	if err := c.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// TestParameters passes parameters of the URL on to the server as they are written.
func TestParameters(t *testing.T) {
	t.Parallel()
	at := pgserver.Shared(t).Database(t) + "&options=-c%20geqo%3Doff%20-c%20work_mem=5MB&schema=a%20b&application_name=a+b%20c"
	d := openT(t, at, Options{})
	for name, want := range map[string]string{"geqo": "off", "work_mem": "5MB", "application_name": "a+b c"} {
		if view, update := setting(t, d, name); view != want || update != want {
			t.Errorf("%s is %q in views and %q in updates, want %q", name, view, update, want)
		}
	}
	put(t, d, "a", "1")
	bare, _, _ := strings.Cut(at, "&options")
	if n := query[int](t, bare, `SELECT count(*) FROM "a b".kv`); n != 1 {
		t.Errorf("schema %q has %d keys", "a b", n)
	}
}

// TestSettingsRefused opens the engine as roles for which it cannot work.
func TestSettingsRefused(t *testing.T) {
	t.Parallel()
	at := pgserver.Shared(t).Database(t)
	exec(t, at, "CREATE SCHEMA mine", "GRANT USAGE ON SCHEMA mine TO public")
	for _, c := range []struct {
		set, text string
		code      engine.Code
	}{
		{"default_transaction_read_only = on", "an operator has switched off writes", engine.CodeReadOnly},
		{"search_path = mine, pg_catalog", "has schema mine before pg_catalog", engine.CodeUnsupported},
	} {
		u, err := url.Parse(role(t, at, c.set))
		if err != nil {
			t.Fatal(err)
		}
		d, err := Open(t.Context(), u, Options{})
		if err == nil {
			_ = d.Close()
		}
		wantCode(t, err, c.code, c.text)
	}
}

// TestReadOnlyLater switches off writes under an open engine, as operators do whose disk is nearly full.
func TestReadOnlyLater(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	s := pgserver.Start(t)
	d := openT(t, s.URL("postgres"), Options{})
	put(t, d, "a", "1")
	set := func(val string, want engine.Code) {
		t.Helper()
		exec(t, s.URL("postgres"), "ALTER SYSTEM SET default_transaction_read_only = "+val, "SELECT pg_reload_conf()")
		var err error
		eventually.True(t, "writes end with "+string(want), func() bool {
			_, err = d.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("a"), []byte("2")) })
			return engine.CodeOf(err) == want
		})
		if want != "" {
			wantCode(t, err, want, "default_transaction_read_only is on")
		}
	}
	set("on", engine.CodeReadOnly)
	if _, _, err := get(t.Context(), d, engine.Read{}, "a"); err != nil {
		t.Errorf("a view while writes are switched off: %v", err)
	}
	cut(enginetest.Adapt(t), s.URL("postgres"))
	set("on", engine.CodeReadOnly)
	set("off", "")
}

// TestEncodings opens databases whose encoding cannot hold every text.
func TestEncodings(t *testing.T) {
	t.Parallel()
	s := pgserver.Shared(t)
	for _, encoding := range []string{"SQL_ASCII", "LATIN1", "WIN1251", "EUC_JP"} {
		t.Run(encoding, func(t *testing.T) {
			name := "encoding_" + strings.ToLower(encoding)
			s.Exec(t, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING '"+encoding+"' LC_COLLATE 'C' LC_CTYPE 'C'")
			t.Cleanup(func() { s.Exec(t, "DROP DATABASE "+name+" WITH (FORCE)") })
			works(t, openT(t, s.URL(name), Options{}))
			u, err := url.Parse(s.URL(name))
			if err != nil {
				t.Fatal(err)
			}
			d, err := Open(context.Background(), u, Options{Setup: []string{"SELECT 1"}})
			if err == nil {
				_ = d.Close()
			}
			wantCode(t, err, engine.CodeUnsupported, `CREATE DATABASE "`+name+`" TEMPLATE template0 ENCODING 'UTF8'`)
		})
	}
}

// TestSlowCalls runs statements and functions that take longer than the role's limits.
func TestSlowCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	at := pgserver.Shared(t).Database(t)
	d := openT(t, role(t, at, "statement_timeout = '1s'", "idle_in_transaction_session_timeout = '1s'", "lock_timeout = '1s'"), Options{})
	slow := func(tx engine.Tx) error {
		rows, err := tx.(Querier).Query("SELECT pg_sleep(1.2)")
		if err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	}
	ran := 0
	if _, err := d.View(t.Context(), engine.Read{}, func(tx engine.Tx) error { ran++; return slow(tx) }); err != nil || ran != 1 {
		t.Errorf("a slow view ran %d times: %v", ran, err)
	}
	ran = 0
	_, err := d.Update(t.Context(), func(tx engine.Tx) error {
		ran++
		time.Sleep(1200 * time.Millisecond) // the session is idle within a transaction
		if _, _, err := tx.Get([]byte("a")); err != nil {
			return err
		}
		return slow(tx)
	})
	if err != nil || ran != 1 {
		t.Errorf("a slow update ran %d times: %v", ran, err)
	}
}
