package optimistic_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/engine/enginetest"
	"github.com/skerrydb/skerry/engine/optimistic"
	"github.com/skerrydb/skerry/journal/memfs"
)

// wrapped is an engine whose updates are optimistic transactions, begun anew if they
// lose.
type wrapped struct{ engine.Engine }

func (w wrapped) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	for {
		t, err := optimistic.Begin(ctx, w.Engine, optimistic.Options{})
		if err != nil {
			return 0, err
		}
		if err := t.Do(ctx, fn); err != nil {
			t.Rollback()
			return 0, err
		}
		pos, err := t.Commit(ctx)
		if !errors.Is(err, engine.ErrConflict) {
			return pos, err
		}
	}
}

// TestContract: optimistic transactions keep what engines promise of updates.
func TestContract(t *testing.T) {
	groups := []string{"tx/", "scan/", "update/", "isolation/", "load/"}
	enginetest.Run(enginetest.Adapt(t), func(t enginetest.T) engine.Engine {
		eng, err := embedded.Open("data", embedded.Options{FS: memfs.New(1), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return wrapped{eng}
	}, enginetest.Options{Steps: 300, Only: func(name string) bool {
		for _, g := range groups {
			if strings.HasPrefix(name, g) {
				return true
			}
		}
		return false
	}})
}
