package embedded

import (
	"log/slog"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

// TestContract runs the conformance suite, with a history that is soon full.
func TestContract(t *testing.T) {
	var dir string
	open := func(t enginetest.T) engine.Engine {
		db, err := Open(dir, Options{HistoryBytes: 64 << 10, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return db
	}
	enginetest.Run(enginetest.Adapt(t), func(t enginetest.T) engine.Engine {
		dir = t.TempDir()
		return open(t)
	}, enginetest.Options{Reopen: open, History: 10000})
}
