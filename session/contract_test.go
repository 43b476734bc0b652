package session_test

import (
	"log/slog"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/engine/enginetest"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/kv"
)

// TestContract runs the suite on the embedded engine.
func TestContract(t *testing.T) {
	t.Run("Open", func(t *testing.T) { runSuite(t, func(t testing.TB) suiteEnv { return env(t, false) }) })
	t.Run("Twice", func(t *testing.T) {
		runSuite(t, func(t testing.TB) suiteEnv {
			c := newClock()
			store, err := kv.New(enginetest.Twice(openEngine(t, c)), kv.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return suiteEnv{KV: store, Now: c.Now, Add: c.Add}
		})
	})
	t.Run("Partition", func(t *testing.T) { runSuite(t, func(t testing.TB) suiteEnv { return partitioned(t, nil) }) })
	t.Run("PartitionTwice", func(t *testing.T) {
		runSuite(t, func(t testing.TB) suiteEnv { return partitioned(t, enginetest.Twice) })
	})
	t.Run("Reopened", func(t *testing.T) { runSuite(t, func(t testing.TB) suiteEnv { return env(t, true) }) })
}

// env returns an embedded engine with a manual clock. If reopened is set, Again closes it
// and opens its directory again.
func env(t testing.TB, reopened bool) suiteEnv {
	t.Helper()
	c, dir := newClock(), t.TempDir()
	var eng *embedded.DB
	openKV := func() *kv.Store {
		var err error
		if eng, err = embedded.Open(dir, embedded.Options{Now: c.Now, Logger: slog.New(slog.DiscardHandler)}); err != nil {
			t.Fatal(err)
		}
		store, err := kv.New(eng, kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	shut := func() {
		if err := eng.Close(); err != nil {
			t.Errorf("close engine: %v", err)
		}
	}
	e := suiteEnv{KV: openKV(), Now: c.Now, Add: c.Add}
	if reopened {
		e.Again = func() *kv.Store { shut(); return openKV() }
	}
	t.Cleanup(func() { checkLists(t, eng); shut() })
	return e
}

// partitioned returns an engine that is atomic over one partition, wrapped by wrap if that
// is not nil.
func partitioned(t testing.TB, wrap func(engine.Engine) engine.Engine) suiteEnv {
	t.Helper()
	c := newClock()
	whole := testengine.Whole(openEngine(t, c))
	eng := enginetest.WithinSteady(whole, engine.OnePartition)
	if wrap != nil {
		eng = wrap(eng)
	}
	e := suiteEnv{Now: c.Now, Add: c.Add}
	for to, eng := range map[**kv.Store]engine.Engine{&e.KV: eng, &e.Whole: whole} {
		store, err := kv.New(eng, kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		*to = store
	}
	return e
}
