package proc

import (
	"iter"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Stat is what a procedure has done on this node since its Set was made.
type Stat struct {
	Name string

	// Calls counts runs that have ended: each that a client called, also one that failed, and each repetition by an engine
	// whose transaction met a conflict. Procedures that a procedure runs with Func.Run are part of its run and count
	// nothing on their own.
	Calls uint64

	// Errors counts those of Calls that failed: with an error, a remembered one too, or a panic, or because their time was
	// over. Panics counts those that panicked or ended their goroutine.
	Errors, Panics uint64

	// Replays counts those of Calls that returned the remembered answer of an earlier call with the same key. They ran
	// nothing, so they are neither in Errors nor in Took.
	Replays uint64

	// Took has the run times in seconds: from when the function began in its transaction until it returned, with the look for
	// a remembered answer and its storage if the call has a key. The waits before the transaction and for its durability are
	// not in it, nor is writing the result. All runs are in it, except that of those that begin less than 100 µs
	// apart on average one of 16 is.
	Took engine.Histogram
}

// Stats yields the Stat of each procedure, in the order of Schemas. It may be called at any time; a call that ends meanwhile may be
// counted in part. The caller owns what is yielded, except the bounds of Took, which all share.
func (s *Set) Stats() iter.Seq[Stat] {
	return func(yield func(Stat) bool) {
		bounds := make([]float64, tookBuckets)
		for i, bound := range tookBounds() {
			bounds[i] = bound.Seconds()
		}
		for _, name := range s.names {
			if !yield(s.procs[name].stat(bounds)) {
				return
			}
		}
	}
}

func (p *procedure) stat(bounds []float64) Stat {
	st := Stat{Name: p.schema.Name, Took: engine.Histogram{Bounds: bounds, Counts: make([]uint64, tookBuckets)}}
	var sum time.Duration
	for i := range p.counts {
		c := p.counts[i].Load()
		if c == nil {
			continue
		}
		sum += time.Duration(c.sum.Load())
		for b := range c.took {
			n := c.took[b].Load()
			if st.Took.Count += n; b < tookBuckets {
				st.Took.Counts[b] += n
			}
		}
		st.Panics += c.panics.Load()
		st.Errors += c.errors.Load()
		st.Replays += c.replays.Load()
		st.Calls += c.calls.Load()
	}
	st.Took.Sum = sum.Seconds()
	return st
}

// Metrics yields metrics about the calls of s since it was created, those of each procedure with its name as a label. Procedures
// that have not been called are left out. It may be called at any time.
func (s *Set) Metrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		for st := range s.Stats() {
			if st.Calls > 0 && !st.yield(yield) {
				return
			}
		}
		for _, m := range []engine.Metric{
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

// yield yields the metrics of one procedure, and reports whether to go on.
func (st *Stat) yield(yield func(engine.Metric) bool) bool {
	labels := []engine.Label{{Name: "procedure", Value: st.Name}}
	for _, m := range []engine.Metric{
		{Name: "proc_calls_total", Help: "Runs of procedures that clients called, failed and repeated ones too.", Counter: true, Value: float64(st.Calls)},
		{Name: "proc_errors_total", Help: "Runs of procedures that failed.", Counter: true, Value: float64(st.Errors)},
		{Name: "proc_panics_total", Help: "Runs of procedures that panicked.", Counter: true, Value: float64(st.Panics)},
		{Name: "proc_replays_total", Help: "Calls of procedures with a key that returned a remembered answer; proc_calls_total has them too.", Counter: true, Value: float64(st.Replays)},
		{Name: "proc_run_seconds", Help: "Run times of procedures in their transactions, without the wait for durability; of runs in quick succession one of 16.", Histogram: &st.Took},
	} {
		m.Labels = labels
		if !yield(m) {
			return false
		}
	}
	return true
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
