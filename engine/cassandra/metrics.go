package cassandra

import (
	"iter"

	"github.com/skerrydb/skerry/engine"
)

// Metrics implements engine.Meter.
func (e *db) Metrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		for _, c := range []struct {
			name, help string
			n          int64
		}{
			{"engine_cassandra_transactions_total", "Transactions committed by this process.", e.commits.Load()},
			{"engine_cassandra_conflicts_total", "Transactions run again because of concurrent ones, or because an attempt was not applied.", e.conflicts.Load()},
			{"engine_cassandra_retries_total", "Requests sent again because servers did not answer or refused work.", e.retries.Load()},
			{"engine_cassandra_settled_total", "Commits whose answer was lost and whose outcome was found out.", e.settled.Load()},
		} {
			if !yield(engine.Metric{Name: c.name, Help: c.help, Counter: true, Value: float64(c.n)}) {
				return
			}
		}
	}
}
