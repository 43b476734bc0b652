package embedded

import (
	"iter"
	"sync/atomic"

	"github.com/skerrydb/skerry/engine"
)

// counters only grow.
type counters struct {
	batches, transactions, batchBytes, snapshots atomic.Uint64
}

// Metrics implements engine.Meter.
func (db *DB) Metrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		snap, log := db.snap.Load(), db.log.Stats()
		db.exec.mu.Lock()
		queued := len(db.exec.queue)
		db.exec.mu.Unlock()
		for _, m := range []engine.Metric{
			{Name: "engine_position", Help: "Position of the newest committed transaction.", Value: float64(db.durable.Load())},
			{Name: "engine_keys", Help: "Keys in the newest committed state, of all capabilities.", Value: float64(snap.tree.Len())},
			{Name: "engine_data_bytes", Help: "Bytes counted against the memory limit.", Value: float64(snap.bytes)},
			{Name: "engine_memory_limit_bytes", Help: "The memory limit.", Value: float64(db.opts.MemoryBytes)},
			{Name: "engine_queued_calls", Help: "Calls that wait to run.", Value: float64(queued)},
			{Name: "engine_transactions_total", Help: "Committed transactions that wrote.", Counter: true, Value: float64(db.counts.transactions.Load())},
			{Name: "engine_batches_total", Help: "Batches made durable.", Counter: true, Value: float64(db.counts.batches.Load())},
			{Name: "engine_batch_bytes_total", Help: "Bytes of those batches.", Counter: true, Value: float64(db.counts.batchBytes.Load())},
			{Name: "engine_snapshots_total", Help: "Snapshots written.", Counter: true, Value: float64(db.counts.snapshots.Load())},
			{Name: "engine_fsyncs_total", Help: "Times that the log was made durable.", Counter: true, Value: float64(log.Fsyncs)},
			{Name: "engine_log_bytes_total", Help: "Bytes written to the log.", Counter: true, Value: float64(log.Bytes)},
			{Name: "engine_log_segments", Help: "Files of log on disk.", Value: float64(log.Segments)},
		} {
			if !yield(m) {
				return
			}
		}
	}
}
