package redis

import (
	"iter"

	"github.com/skerrydb/skerry/engine"
)

// Metrics implements engine.Meter.
func (d *db) Metrics() iter.Seq[engine.Metric] {
	return counters([]counter{
		{"engine_redis_batches_total", "Batches committed by this process.", d.batches.Load()},
		{"engine_redis_transactions_total", "Transactions run in them.", d.txs.Load()},
		{"engine_redis_conflicts_total", "Batches run again because another process had committed.", d.conflicts.Load()},
		{"engine_redis_retries_total", "Requests sent again, after a lost connection or a server that was not ready.", d.retries.Load()},
		{"engine_redis_settled_total", "Batches whose answer was lost and whose outcome was found out.", d.settled.Load()},
		{"engine_redis_epochs_total", "Epochs begun by this process.", d.epochs.Load()},
	})
}

type counter struct {
	name, help string
	n          int64
}

func counters(list []counter) iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		for _, c := range list {
			if !yield(engine.Metric{Name: c.name, Help: c.help, Counter: true, Value: float64(c.n)}) {
				return
			}
		}
	}
}
