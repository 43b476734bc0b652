package postgres

import (
	"context"
	"net/url"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

// database returns the URL of a new, empty database.
func database(tb enginetest.T) string {
	ctx := context.Background()
	base := os.Getenv("PGTEST")
	c, err := pgx.Connect(ctx, base)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	defer c.Close(ctx)
	var name string
	if err := c.QueryRow(ctx, "SELECT 'db' || replace(gen_random_uuid()::text, '-', '')").Scan(&name); err != nil {
		tb.Fatalf("%v", err)
	}
	if _, err := c.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("%v", err)
	}
	u, _ := url.Parse(base)
	u.Path = "/" + name
	return u.String()
}

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

// cut ends all sessions of a database.
func cut(tb enginetest.T, at string) {
	tb.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, at)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"); err != nil {
		tb.Fatalf("%v", err)
	}
}

func TestContract(t *testing.T) {
	var at string
	o := Options{History: 1000}
	again := func(t enginetest.T) engine.Engine { return open(t, at, o) }
	enginetest.Run(enginetest.Adapt(t), func(t enginetest.T) engine.Engine {
		at = database(t)
		return again(t)
	}, enginetest.Options{
		Reopen: again, Second: again, Cut: func(t enginetest.T) { cut(t, at) }, History: 2000, Steps: 300,
	})
}
