package skerry_test

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/engine/postgres"
)

// promised returns what the engines promise, in the order of their columns.
func promised(t *testing.T) (list []engine.Promises) {
	t.Helper()
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	u, err := url.Parse(pgserver.Shared(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	pg, err := postgres.Open(t.Context(), u, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close()
	return []engine.Promises{db.Promises(), pg.Promises()}
}

// TestPromisesTable: docs/engines.md has the promises of the engines and the capabilities that they carry.
func TestPromisesTable(t *testing.T) {
	t.Parallel()
	engines := promised(t)
	var b strings.Builder
	row := func(name string, cell func(p engine.Promises) string) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, p := range engines {
			fmt.Fprintf(&b, " %s |", cell(p))
		}
		b.WriteString("\n")
	}
	yes := func(is func(p engine.Promises) bool) func(p engine.Promises) string {
		return func(p engine.Promises) string { return map[bool]string{true: "yes", false: "no"}[is(p)] }
	}
	size := func(of func(p engine.Promises) int) func(p engine.Promises) string {
		return func(p engine.Promises) string { return quantity(int64(of(p)), true) }
	}
	b.WriteString("\n| promise | embedded | PostgreSQL |\n|---|---|---|\n")
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
	b.WriteString("\n| capability | embedded | PostgreSQL |\n|---|---|---|\n")
	for _, n := range skerry.Needs() {
		row(n.Name, func(p engine.Promises) string {
			if err := p.Meets(n.Name, n.Promises); err != nil {
				return "refused: " + err.Error()
			}
			return "yes"
		})
	}
	expectSection(t, "docs/engines.md", "<!-- printed from the promises -->\n", "", b.String())
}
