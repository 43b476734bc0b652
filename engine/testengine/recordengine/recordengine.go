// Package recordengine opens the engine on which the tests of records run: testengine's, which with "tables" has the
// records in tables of PostgreSQL.
//
// It knows what stores records natively; it must not know records, and no program may import it. It is not a part of
// testengine because what it imports imports record/keys, whose tests import testengine.
package recordengine

import (
	"os"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/postgres"
	"github.com/skerrydb/skerry/engine/postgres/tables"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/record/keys"
)

// Options of Open are those of testengine.Open.
type Options = testengine.Options

// Tables reports whether Open has the records in tables.
func Tables() bool { return os.Getenv(testengine.Env) == "tables" }

// Remote is testengine.Remote.
func Remote() bool { return testengine.Remote() }

// Open is testengine.Open.
func Open(t testing.TB, o Options) engine.Engine {
	t.Helper()
	o.Native = func() (any, []string) {
		own := tables.New(postgres.DefaultSchema)
		return keys.Native{Driver: own, Create: true}, own.Setup()
	}
	return testengine.Open(t, o)
}
