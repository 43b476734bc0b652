// Package testengine opens the engine on which the tests of capabilities run, so
// that those tests run on every engine that can carry them.
//
// It knows which engines there are and what is weakened in them; it must not know
// capabilities, and no program may import it.
package testengine

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/cassandraserver"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/cassandra"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/engine/enginetest"
	"github.com/skerrydb/skerry/engine/postgres"
	"github.com/skerrydb/skerry/engine/redis"
	"github.com/skerrydb/skerry/journal/memfs"
)

// Env names the engine to open: "scribbling", which is the default in tests, an embedded
// engine that overwrites what a transaction returned as soon as it is no longer valid
// (enginetest.Scribble); "embedded", which is the default in benchmarks; "coarse", an
// embedded engine on which transactions share times (enginetest.Coarse); "weak", which also
// runs their functions twice (enginetest.Twice); "partition", which is atomic over one
// partition only (enginetest.WithinSteady), for the tests that need no more; "postgres",
// PostgreSQL with a database for each engine; "tables", the same with what Options.Native stores
// otherwise; "redis", one primary of Redis with a prefix for each; or "cassandra", one node of
// Cassandra with a keyspace for each. Tests in a bubble of synctest, which has no network, and
// those of Options.HistoryBytes run on the default instead of the last four.
const Env = "SKERRY_TEST_ENGINE"

// Options of Open. The zero value works.
type Options struct {
	Now          func() time.Time // the clock; nil: the machine's
	Memory       bool             // keep the data on a disk in memory, where the engine has files
	HistoryBytes int              // how much history is kept, where that can be chosen; 0: the engine's default
	After        engine.Position  // positions begin after it, where they cannot be raised later (engine.Raiser)

	// Native returns what "tables" attaches to PostgreSQL, and the statements that it needs; nil: nothing.
	Native func() (attached any, setup []string)
}

// coarseBy is how coarse the times of "coarse" and "weak" are.
const coarseBy = time.Millisecond

// openers has the engines by name.
func openers() map[string]func(t testing.TB, o Options) engine.Engine {
	return map[string]func(t testing.TB, o Options) engine.Engine{
		"cassandra":  openCassandra,
		"scribbling": openScribbling,
		"embedded":   func(t testing.TB, o Options) engine.Engine { return openEmbedded(t, o) },
		"coarse":     openCoarse,
		"partition": func(t testing.TB, o Options) engine.Engine {
			return enginetest.WithinSteady(openScribbling(t, o), engine.OnePartition)
		},
		"postgres": func(t testing.TB, o Options) engine.Engine { o.Native = nil; return openPostgres(t, o) },
		"tables":   openPostgres,
		"redis":    openRedis,
		"weak":     func(t testing.TB, o Options) engine.Engine { return enginetest.Twice(openCoarse(t, o)) },
	}
}

// Open returns a new, empty engine, which is closed when the test ends.
func Open(t testing.TB, o Options) engine.Engine {
	t.Helper()
	name := cmp.Or(os.Getenv(Env), fallback(t))
	if Remote() && (inBubble() || o.HistoryBytes != 0) {
		name = fallback(t)
	}
	open := openers()[name]
	if open == nil {
		t.Fatalf("%s=%s names no engine", Env, name)
	}
	eng := open(t, o)
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Errorf("close engine: %v", err)
		}
	})
	return eng
}

// Remote reports whether the engine that Open opens is on a server, where a commit is a round trip.
func Remote() bool {
	name := os.Getenv(Env)
	return name == "postgres" || name == "tables" || name == "redis" || name == "cassandra"
}

// Whole returns the engine below eng that can scan all keys, which may be eng, for checks of
// what is stored.
func Whole(eng engine.Engine) engine.Engine {
	if w, ok := eng.(interface{ Whole() engine.Engine }); ok {
		return w.Whole()
	}
	return eng
}

// Needs skips the test if the engine that Open opens lacks one of the promises.
func Needs(t testing.TB, eng engine.Engine, need engine.Promises) {
	t.Helper()
	if err := eng.Promises().Meets("the test", need); err != nil {
		t.Skipf("skipped: %v", err)
	}
}

// fallback returns the default of Env.
func fallback(t testing.TB) string {
	if _, ok := t.(*testing.B); ok {
		return "embedded"
	}
	return "scribbling"
}

// logReserve keeps engines that live for a moment from writing megabytes of zeros.
const logReserve = 64 << 10

func openEmbedded(t testing.TB, o Options) *embedded.DB {
	t.Helper()
	dir, eo := "data", embedded.Options{Now: o.Now, HistoryBytes: o.HistoryBytes, LogReserveBytes: logReserve, Logger: slog.New(slog.DiscardHandler)}
	if o.Memory {
		eo.FS = memfs.New(1)
	} else {
		dir = t.TempDir()
	}
	if o.After != 0 {
		if err := embedded.CreateAfter(t.Context(), dir, o.After, time.Time{}, eo); err != nil {
			t.Fatalf("create data folder: %v", err)
		}
	}
	eng, err := embedded.Open(dir, eo)
	if err != nil {
		t.Fatalf("open engine: %v", err)
	}
	return eng
}

// inBubble reports whether this goroutine is in a bubble of synctest: its clock begins in the year 2000.
func inBubble() bool { return time.Now().Year() < 2020 }

func openPostgres(t testing.TB, o Options) engine.Engine {
	t.Helper()
	po := postgres.Options{Now: o.Now}
	if o.Native != nil {
		po.Attached, po.Setup = o.Native()
	}
	eng, err := postgres.Open(t.Context(), parse(t, pgserver.Shared(t).Database(t)), po)
	if err != nil {
		t.Fatalf("open engine: %v", err)
	}
	return eng
}

var prefixes atomic.Int64

func openRedis(t testing.TB, o Options) engine.Engine {
	t.Helper()
	u := parse(t, fmt.Sprintf("%s?prefix=t%d:", redisserver.Shared(t).URL(), prefixes.Add(1)))
	eng, err := redis.Open(t.Context(), u, redis.Options{Now: o.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("open engine: %v", err)
	}
	return eng
}

func openCassandra(t testing.TB, o Options) engine.Engine {
	t.Helper()
	keyspace, done := cassandraserver.Keyspace(t)
	t.Cleanup(done)
	eng, err := cassandra.Open(t.Context(), parse(t, cassandraserver.Shared(t).URL(keyspace)), cassandra.Options{Now: o.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("open engine: %v", err)
	}
	return eng
}

func parse(t testing.TB, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func openCoarse(t testing.TB, o Options) engine.Engine {
	return enginetest.Coarse(openEmbedded(t, o), coarseBy)
}

// scribbling is an embedded engine with scribbling transactions. It keeps the engine's
// optional interfaces.
type scribbling struct {
	*embedded.DB
	tx engine.Engine // runs the transactions
}

func openScribbling(t testing.TB, o Options) engine.Engine {
	db := openEmbedded(t, o)
	return scribbling{db, enginetest.Scribble(db)}
}

func (s scribbling) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	return s.tx.View(ctx, r, fn)
}

func (s scribbling) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return s.tx.Update(ctx, fn)
}

// UpdateOf implements engine.Preparer, so that what uses it runs on this engine too.
func (s scribbling) UpdateOf(ctx context.Context, _ [][]byte, fn func(engine.Tx) error) (engine.Position, error) {
	return s.tx.Update(ctx, fn)
}

func (s scribbling) UpdateEach(ctx context.Context, n int, fn func(engine.Tx, int) error) (engine.Position, error) {
	return engine.UpdateEach(ctx, s.tx, n, fn)
}
