package postgres

import (
	"iter"
	"sync/atomic"

	"github.com/skerrydb/skerry/engine"
)

// counters are what Metrics reports.
type counters struct {
	batches, transactions, reads, retries, settled, unknown, refused, rerun, connects, changesMade, trimmed atomic.Uint64
}

// Metrics implements engine.Meter.
func (d *DB) Metrics() iter.Seq[engine.Metric] {
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	list := []engine.Metric{
		{Name: "engine_position", Help: "Newest committed position that is known here.", Value: float64(d.Position())},
		{Name: "engine_queue", Help: "Updates that wait for the executor.", Value: float64(len(d.queue))},
		{Name: "engine_durable", Help: "1 if acknowledged commits survive the loss of the server's machine, with its disk kept.", Value: flag(d.server.weak() == "")},
		{Name: "engine_synchronous", Help: "1 if acknowledged commits are on a second server too.", Value: flag(d.server.synchronous())},
		{Name: "engine_standby", Help: "1 if the server is a standby, which only reads.", Value: flag(d.server.standby)},
	}
	for _, c := range []struct {
		name, help string
		n          *atomic.Uint64
	}{
		{"batches", "Batches that were committed or had nothing to commit.", &d.batches},
		{"transactions", "Transactions that ran, including failed ones and repetitions.", &d.transactions},
		{"changes", "Changes that were committed.", &d.changesMade},
		{"reads", "Queries of transactions that write.", &d.reads},
		{"retries", "Batches that were tried again.", &d.retries},
		{"settled", "Batches whose connection was lost during the commit and whose outcome was found out.", &d.settled},
		{"unknown", "Batches whose outcome could not be found out.", &d.unknown},
		{"refused", "Updates that were refused because the queue was full.", &d.refused},
		{"views_rerun", "Views that ran again because something was committed between their first two reads.", &d.rerun},
		{"connects", "Connections that were opened.", &d.connects},
		{"changes_trimmed", "Changes that were deleted because they were too old.", &d.trimmed},
	} {
		list = append(list, engine.Metric{Name: "engine_" + c.name + "_total", Help: c.help, Counter: true, Value: float64(c.n.Load())})
	}
	return func(yield func(engine.Metric) bool) {
		for _, m := range list {
			if !yield(m) {
				return
			}
		}
	}
}

// Synchronous reports whether acknowledged commits were on a second server too when the engine
// was opened, so that they survive a failover to a synchronous standby.
func (d *DB) Synchronous() bool { return d.server.synchronous() }

var (
	_ engine.Engine     = (*DB)(nil)
	_ engine.Eacher     = (*DB)(nil)
	_ engine.Positioner = (*DB)(nil)
	_ engine.Meter      = (*DB)(nil)
)
