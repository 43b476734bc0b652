package cassandra

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/cassandraserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

// TestContract runs the conformance suite on one node.
func TestContract(t *testing.T) {
	contract(t, func(eng engine.Engine) engine.Engine { return eng }, nil)
}

// TestContractOfPartition runs it on the keys of one partition, which change together. How large a transaction may be is
// TestLimits's, since the tags of keys count. One case makes 5,000 commits one after the other, which takes a minute.
func TestContractOfPartition(t *testing.T) {
	plain := engine.Promises{Atomic: engine.OnePartition, Serializable: true, Durable: true}
	var more []string
	for _, c := range enginetest.Cases() {
		if plain.Meets("", c.Needs) != nil && c.Name != "limits/transaction" && c.Name != "each/many" {
			more = append(more, c.Name)
		}
	}
	contract(t, enginetest.Tagged, func(name string) bool { return slices.Contains(more, name) })
}

func contract(t *testing.T, wrap func(engine.Engine) engine.Engine, only func(name string) bool) {
	s := cassandraserver.Shared(t)
	var keyspace string
	var done func()
	var lines lines
	again := func(t enginetest.T) engine.Engine { return wrap(open1(t, s.URL(keyspace), Options{dialer: &lines})) }
	enginetest.Run(enginetest.Adapt(t), func(enginetest.T) engine.Engine {
		keyspace, done = cassandraserver.Keyspace(t, "meta")
		return again(enginetest.Adapt(t))
	}, enginetest.Options{
		Reopen: again, Second: again, Steps: 200, Only: only, Wait: time.Minute,
		// A session of gocql 2.1.2 that is closed while its control connection is made again waits for ever: its
		// refreshDebouncer.refreshNow has no answer after stop.
		Leaves: "gocql-driver/v2.(*Session).refreshRing(",
		Wipe:   true, Empty: func(enginetest.T) { done() }, Cut: func(enginetest.T) { lines.cut() },
	})
}

// lines makes connections and ends them.
type lines struct {
	mu  sync.Mutex // guards all
	all []net.Conn
}

func (l *lines) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.all = append(l.all, c)
	}
	return c, err
}

// cut ends all connections.
func (l *lines) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.all {
		_ = c.Close() // it may be closed already
	}
	l.all = nil
}

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
