package postgres

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

func open(tb enginetest.T, at string, o Options) *DB {
	tb.Helper()
	u, err := url.Parse(at)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	d, err := Open(context.Background(), u, o)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	return d
}

// withSchema returns the URL of a database with a schema of Skerry's.
func withSchema(tb enginetest.T, at, schema string) string {
	u, err := url.Parse(at)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	q := u.Query()
	q.Set("schema", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// cut ends all sessions of a database.
func cut(tb enginetest.T, at string) {
	tb.Helper()
	ctx := context.Background()
	u, _ := url.Parse(at)
	u.RawQuery = ""
	c, err := pgx.Connect(ctx, u.String())
	if err != nil {
		tb.Fatalf("%v", err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"); err != nil {
		tb.Fatalf("%v", err)
	}
}

func TestContract(t *testing.T) {
	database, cases := pgserver.Shared(t).Database(t), 0
	var at string
	o := Options{History: 1000}
	again := func(t enginetest.T) engine.Engine { return open(t, at, o) }
	enginetest.Run(enginetest.Adapt(t), func(t enginetest.T) engine.Engine {
		cases++
		at = withSchema(t, database, fmt.Sprint("case", cases))
		return again(t)
	}, enginetest.Options{
		Reopen: again, Second: again, Cut: func(t enginetest.T) { cut(t, at) }, History: 2000, Steps: 300,
	})
}
