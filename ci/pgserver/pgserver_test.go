package pgserver

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/ci/eventually"
)

// query returns the only value of a query.
func query[V any](t *testing.T, url, sql string) (v V) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// TestServer checks that databases are separate, that data survive a kill, and that a standby follows and can be
// promoted.
func TestServer(t *testing.T) {
	s := Start(t, "work_mem=5MB")
	if got := query[string](t, s.URL("postgres"), "SHOW work_mem"); got != "5MB" {
		t.Errorf("work_mem is %s", got)
	}
	url := s.Database(t)
	s.Exec(t, "CREATE TABLE t (n int)")
	s.Exec(t, "INSERT INTO t VALUES (7)")
	if got := query[int](t, url, "SELECT count(*) FROM pg_class WHERE relname = 't'"); got != 0 {
		t.Error("a new database has the table of another one")
	}
	s.Kill(t)
	s.Restart(t)
	if got := query[int](t, s.URL("postgres"), "SELECT n FROM t"); got != 7 {
		t.Errorf("after a kill: %d", got)
	}
	b := s.Standby(t, "second")
	s.Exec(t, "INSERT INTO t VALUES (8)")
	eventually.True(t, "the standby has the row", func() bool {
		return query[int](t, b.URL("postgres"), "SELECT count(*) FROM t") == 2
	})
	s.Kill(t)
	b.Promote(t)
	b.Exec(t, "INSERT INTO t VALUES (9)")
	s.Restart(t) // so that the test's database can be removed
}
