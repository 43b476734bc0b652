package tables_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/postgres"
	"github.com/skerrydb/skerry/engine/postgres/tables"
	"github.com/skerrydb/skerry/record/keys"
)

// openNative returns a new, empty engine.
func openNative(t testing.TB, now func() time.Time) engine.Engine {
	t.Helper()
	return openNativeAt(t, pgserver.Shared(t).Database(t), now)
}

// openNativeAt returns an engine on a database.
func openNativeAt(t testing.TB, at string, now func() time.Time) engine.Engine {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	db := openPlace(t, u, true, now)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// openPlace returns an engine on a database, which the caller closes. create says that new collections are in tables.
func openPlace(t testing.TB, u *url.URL, create bool, now func() time.Time) engine.Engine {
	t.Helper()
	own := tables.New(postgres.DefaultSchema)
	o := postgres.Options{Now: now, Attached: keys.Native{Driver: own, Create: create}}
	if create {
		o.Setup = own.Setup()
	}
	db, err := postgres.Open(t.Context(), u, o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}
