package embedded

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

// TestContract runs the conformance suite; what needs a short history, with one.
func TestContract(t *testing.T) {
	short := []string{"changes/truncated", "changes/edge-of-the-history", "changes/trimmed-under-readers"}
	contract(t, Options{}, enginetest.Options{Only: func(name string) bool { return !slices.Contains(short, name) }})
	contract(t, Options{HistoryBytes: 32 << 10}, enginetest.Options{
		History: 4000, Only: func(name string) bool { return slices.Contains(short, name) },
	})
}

func contract(t *testing.T, o Options, suite enginetest.Options) {
	var dir string
	o.Logger = slog.New(slog.DiscardHandler)
	suite.Reopen = func(t enginetest.T) engine.Engine {
		db, err := Open(dir, o)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return db
	}
	enginetest.Run(enginetest.Adapt(t), func(t enginetest.T) engine.Engine {
		dir = t.TempDir()
		return suite.Reopen(t)
	}, suite)
}
