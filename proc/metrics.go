package proc

import (
	"iter"
	"sync/atomic"

	"github.com/skerrydb/skerry/engine"
)

// counters is one shard of the counters of a Set. Few enough Txs share a shard to avoid
// contention on its cache line.
type counters struct {
	calls, errors, panics atomic.Uint64
	_                     [40]byte // padding to the end of the line
}

// counterShards is the number of counters in a Set.
const counterShards = 32

// Metrics yields metrics about the calls of s since it was created. It may be called at any
// time.
func (s *Set) Metrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		var calls, errors, panics uint64
		for i := range s.counts {
			c := &s.counts[i]
			calls += c.calls.Load()
			errors += c.errors.Load()
			panics += c.panics.Load()
		}
		for _, m := range []engine.Metric{
			{Name: "proc_calls_total", Help: "Runs of procedures that clients called, failed ones too.", Counter: true, Value: float64(calls)},
			{Name: "proc_errors_total", Help: "Runs of procedures that failed.", Counter: true, Value: float64(errors)},
			{Name: "proc_panics_total", Help: "Runs of procedures that panicked.", Counter: true, Value: float64(panics)},
			{Name: "proc_slow_total", Help: "Reports of slow procedures.", Counter: true, Value: float64(s.slow.Load())},
			{Name: "proc_stopped_total", Help: "Procedures that were stopped because they ran for too long.", Counter: true, Value: float64(s.stopped.Load())},
			{Name: "proc_running", Help: "Procedures that run now.", Value: float64(s.running())},
		} {
			if !yield(m) {
				return
			}
		}
	}
}

func (s *Set) running() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.live {
		if t := w.Value(); t != nil && t.run.Load()%2 == 1 {
			n++
		}
	}
	return n
}
