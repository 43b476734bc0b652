// Package testengine opens the engine on which the tests of capabilities run, so
// that those tests run on every engine that can carry them.
//
// It knows which engines there are and what is weakened in them; it must not know
// capabilities, and no program may import it.
package testengine

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/engine/enginetest"
	"github.com/skerrydb/skerry/journal/memfs"
)

// Env names the engine to open: "embedded", which is the default; "coarse", an embedded
// engine on which transactions share times (enginetest.Coarse); or "weak", which also runs
// their functions twice (enginetest.Twice). An engine on another database gets its name
// here, and a line in the map below.
const Env = "SKERRY_TEST_ENGINE"

// Options of Open. The zero value works.
type Options struct {
	Now          func() time.Time // the clock; nil: the machine's
	Memory       bool             // keep the data on a disk in memory, where the engine has files
	HistoryBytes int              // how much history is kept, where that can be chosen; 0: the engine's default
}

// coarseBy is how coarse the times of "coarse" and "weak" are.
const coarseBy = time.Millisecond

// openers has the engines by name.
func openers() map[string]func(t testing.TB, o Options) engine.Engine {
	return map[string]func(t testing.TB, o Options) engine.Engine{
		"":         openEmbedded,
		"embedded": openEmbedded,
		"coarse":   openCoarse,
		"weak":     func(t testing.TB, o Options) engine.Engine { return enginetest.Twice(openCoarse(t, o)) },
	}
}

// Open returns a new, empty engine, which is closed when the test ends.
func Open(t testing.TB, o Options) engine.Engine {
	t.Helper()
	name := os.Getenv(Env)
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

// Needs skips the test if the engine that Open opens lacks one of the promises.
func Needs(t testing.TB, eng engine.Engine, need engine.Promises) {
	t.Helper()
	if err := eng.Promises().Meets("the test", need); err != nil {
		t.Skipf("skipped: %v", err)
	}
}

func openEmbedded(t testing.TB, o Options) engine.Engine {
	t.Helper()
	dir, eo := "data", embedded.Options{Now: o.Now, HistoryBytes: o.HistoryBytes, Logger: slog.New(slog.DiscardHandler)}
	if o.Memory {
		eo.FS = memfs.New(1)
	} else {
		dir = t.TempDir()
	}
	eng, err := embedded.Open(dir, eo)
	if err != nil {
		t.Fatalf("open engine: %v", err)
	}
	return eng
}

func openCoarse(t testing.TB, o Options) engine.Engine {
	return enginetest.Coarse(openEmbedded(t, o), coarseBy)
}
