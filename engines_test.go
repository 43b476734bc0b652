package skerry_test

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/cassandraserver"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/cassandra"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/engine/postgres"
	"github.com/skerrydb/skerry/engine/redis"
)

// column is an engine in the tables of docs/engines.md.
type column struct {
	name string
	engine.Promises
	samples bool // it is an engine.SampleStore
	paths   bool // it is an engine.PathStore
}

// promised returns what the engines promise, in the order of their columns.
func promised(t *testing.T) (list []column) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	add := func(name string, eng engine.Engine, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		_, samples := eng.(engine.SampleStore)
		_, paths := eng.(engine.PathStore)
		list = append(list, column{name, eng.Promises(), samples, paths})
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	}
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: quiet})
	add("embedded", db, err)
	u, err := url.Parse(pgserver.Shared(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	pg, err := postgres.Open(t.Context(), u, postgres.Options{})
	add("PostgreSQL", pg, err)
	one, err := redis.Open(t.Context(), &url.URL{Scheme: redis.Scheme, Host: redisserver.Start(t).Addr()}, redis.Options{Logger: quiet})
	add("Redis, one primary", one, err)
	nodes := redisserver.Cluster(t, 3)
	slots, err := redis.Open(t.Context(), &url.URL{Scheme: redis.SchemeCluster, Host: nodes[0].Addr()}, redis.Options{Logger: quiet})
	add("Redis Cluster", slots, err)
	u = &url.URL{Scheme: cassandra.Scheme, Host: cassandraserver.Start(t).Addr(), Path: "/skerry"}
	parts, err := cassandra.Open(t.Context(), u, cassandra.Options{Logger: quiet})
	add("Cassandra", parts, err)
	return list
}

// TestPromisesTable: docs/engines.md has the promises of the engines and the capabilities that they carry.
func TestPromisesTable(t *testing.T) {
	t.Parallel()
	engines := promised(t)
	var b strings.Builder
	row := func(name string, cell func(p engine.Promises) string) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, e := range engines {
			text := cell(e.Promises)
			if e.samples && name == "time series" {
				text = "yes, in tables of its own"
			}
			if e.paths && name == "records" {
				text = "yes, with declared access paths"
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteString("\n")
	}
	yes := func(is func(p engine.Promises) bool) func(p engine.Promises) string {
		return func(p engine.Promises) string { return map[bool]string{true: "yes", false: "no"}[is(p)] }
	}
	size := func(of func(p engine.Promises) int) func(p engine.Promises) string {
		return func(p engine.Promises) string { return quantity(int64(of(p)), true) }
	}
	head := func(what string) {
		fmt.Fprintf(&b, "\n| %s |", what)
		for _, e := range engines {
			fmt.Fprintf(&b, " %s |", e.name)
		}
		fmt.Fprintf(&b, "\n|%s\n", strings.Repeat("---|", 1+len(engines)))
	}
	head("promise")
	row("atomic over", func(p engine.Promises) string { return p.Atomic.String() })
	row("serialisable", yes(func(p engine.Promises) bool { return p.Serializable }))
	row("ordered scan", yes(func(p engine.Promises) bool { return p.Ordered }))
	row("change feed", yes(func(p engine.Promises) bool { return p.Feed }))
	row("durable", yes(func(p engine.Promises) bool { return p.Durable }))
	row("views of one state of all keys", yes(func(p engine.Promises) bool { return p.Snapshot }))
	row("a clock that does not go back", yes(func(p engine.Promises) bool { return p.Clock }))
	row("positions", yes(func(p engine.Promises) bool { return p.Positions }))
	row("exact positions of views", yes(func(p engine.Promises) bool { return p.ExactPositions }))
	row("a distinct time for each transaction", yes(func(p engine.Promises) bool { return p.DistinctTimes }))
	row("a fence, which stops all writes", yes(func(p engine.Promises) bool { return p.Fence }))
	row("longest key", size(func(p engine.Promises) int { return p.MaxKeyBytes }))
	row("longest value", size(func(p engine.Promises) int { return p.MaxValBytes }))
	row("largest transaction", size(func(p engine.Promises) int { return p.MaxTxBytes }))
	head("capability")
	for _, n := range skerry.Needs() {
		row(n.Name, func(p engine.Promises) string {
			err := p.Meets(n.Name, n.Promises)
			if err == nil {
				return "yes"
			}
			_, text, _ := strings.Cut(err.Error(), " needs ")
			text, _, _ = strings.Cut(text, ", which")
			return "no: " + text
		})
	}
	expectSection(t, "docs/engines.md", "<!-- printed from the promises -->\n", "", b.String())
}
