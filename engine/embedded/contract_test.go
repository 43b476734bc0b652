package embedded

import (
	"context"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

// TestContract runs the conformance suite; what needs a short history, with one.
func TestContract(t *testing.T) {
	short := []string{"changes/truncated", "changes/edge-of-the-history", "changes/trimmed-under-readers"}
	contract(t, Options{}, plain, enginetest.Options{Only: func(name string) bool { return !slices.Contains(short, name) }})
	contract(t, Options{HistoryBytes: 32 << 10}, plain, enginetest.Options{
		History: 4000, Only: func(name string) bool { return slices.Contains(short, name) },
	})
}

func plain(eng engine.Engine) engine.Engine { return eng }

// TestContractScribbling runs the cases about transactions while what they returned is overwritten as soon as it is
// no longer valid: the suite keeps the contract that it tests, and the engine does not rely on slices that it returned.
func TestContractScribbling(t *testing.T) {
	contract(t, Options{}, enginetest.Scribble, enginetest.Options{Only: func(name string) bool {
		group, _, _ := strings.Cut(name, "/")
		return slices.Contains([]string{"tx", "scan", "savepoint", "update", "view"}, group)
	}})
}

// TestContractWithSpill runs the suite with every value of more than one byte in a file.
func TestContractWithSpill(t *testing.T) {
	contract(t, Options{SpillBytes: 1, spillSoon: true, SnapshotBytes: 32 << 10}, plain, enginetest.Options{Steps: 500})
}

// TestContractOfNode runs what the suite asks of a node on one that is alone in its cluster.
func TestContractOfNode(t *testing.T) {
	enginetest.Run(enginetest.Adapt(t), func(t enginetest.T) engine.Engine {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("listen: %v", err)
		}
		dir, quiet := t.TempDir(), Options{Logger: slog.New(slog.DiscardHandler)}
		if _, _, err := InitCluster(context.Background(), dir, l.Addr().String(), quiet); err != nil {
			t.Fatalf("make a cluster: %v", err)
		}
		quiet.Cluster.Listener = l
		db, err := Open(dir, quiet)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return db
	}, enginetest.Options{Only: func(name string) bool { return strings.HasPrefix(name, "clustered/") }})
}

func contract(t *testing.T, o Options, wrap func(engine.Engine) engine.Engine, suite enginetest.Options) {
	var dir string
	o.Logger, o.aheadFrom = slog.New(slog.DiscardHandler), -1
	suite.Reopen = func(t enginetest.T) engine.Engine {
		db, err := Open(dir, o)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return wrap(db)
	}
	suite.Missing = map[string]string{
		"Second": "one process at a time has a data folder open; others are nodes of a cluster",
		"Cut":    "the engine is in the process: there is no connection",
	}
	suite.Restore = func(t enginetest.T, backup io.Reader) engine.Engine {
		dir = t.TempDir()
		if _, err := Restore(context.Background(), backup, dir, o); err != nil {
			t.Fatalf("restore: %v", err)
		}
		return suite.Reopen(t)
	}
	enginetest.Run(enginetest.Adapt(t), func(t enginetest.T) engine.Engine {
		dir = t.TempDir()
		return suite.Reopen(t)
	}, suite)
}
