package cassandra

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/ci/cassandraserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

// TestContract runs the conformance suite on one node.
func TestContract(t *testing.T) {
	s := cassandraserver.Shared(t)
	var keyspace string
	again := func(t enginetest.T) engine.Engine { return open1(t, s.URL(keyspace), Options{}) }
	enginetest.Run(enginetest.Adapt(t), func(t enginetest.T) engine.Engine {
		keyspace = newKeyspaceName()
		return again(t)
	}, enginetest.Options{Reopen: again, Second: again, Steps: 200})
}

var keyspaces atomic.Int64

func newKeyspaceName() string { return fmt.Sprintf("t%d", keyspaces.Add(1)) }

// open1 opens the engine at a URL.
func open1(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, raw string, o Options) engine.Engine {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	eng, err := Open(context.Background(), u, o)
	if err != nil {
		t.Fatalf("open %s: %v", raw, err)
	}
	return eng
}
