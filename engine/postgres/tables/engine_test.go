package tables_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/postgres"
	"github.com/skerrydb/skerry/engine/postgres/tables"
	"github.com/skerrydb/skerry/record/keys"
)

// native is PostgreSQL with records in tables.
type native struct {
	*postgres.DB
	own *tables.Driver
}

// openNative returns a new, empty engine.
func openNative(t testing.TB, now func() time.Time) engine.Engine {
	t.Helper()
	at := pgserver.Shared(t).Database(t)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	db, err := postgres.Open(t.Context(), u, postgres.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	n := native{db, tables.New("skerry")}
	c, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range n.own.Setup() {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n native) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return n.DB.Update(ctx, func(tx engine.Tx) error {
		sql := tx.(postgres.SQL)
		return fn(updating{viewing{tx, sql, n.own}, sql})
	})
}

func (n native) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	return n.DB.View(ctx, r, func(tx engine.Tx) error { return fn(viewing{tx, tx.(postgres.Querier), n.own}) })
}

// viewing is a transaction that provides the Driver.
type viewing struct {
	engine.Tx
	sql postgres.Querier
	own keys.Driver
}

func (v viewing) RecordDriver() keys.Driver { return v.own }

func (v viewing) Query(sql string, args ...any) (pgx.Rows, error) { return v.sql.Query(sql, args...) }

// updating is a transaction that also writes.
type updating struct {
	viewing
	sql postgres.SQL
}

func (u updating) Queue(sql string, args ...any) error  { return u.sql.Queue(sql, args...) }
func (u updating) Publish(writes ...engine.Write) error { return u.sql.Publish(writes...) }
