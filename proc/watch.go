package proc

import (
	"bytes"
	"context"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"
	"weak"
)

// The watchdog does not interrupt a running procedure, and few runs of a busy procedure read the
// clock. Each run has a number. If the watchdog sees the same run twice, it has taken at
// least the time in between.

// seen is the watchdog's state for one Tx.
type seen struct {
	run  uint64        // at the last look
	from time.Time     // when it first saw that run
	next time.Duration // duration after which it reports it next
}

// report is one procedure that is slow.
type report struct {
	def     *definition
	took    time.Duration
	stopped bool // it was stopped
}

// lookEvery returns how often the watchdog looks.
func (s *Set) lookEvery() time.Duration {
	return min(max(min(s.o.SlowAfter, s.o.MaxRun)/4, time.Millisecond), time.Second)
}

// Run watches running procedures until ctx ends. It logs those that are slow and stops
// those that take too long; see Options.SlowAfter and MaxRun. Times are counted from when
// Run first sees a procedure, up to a quarter of the shorter of the two after it began.
// Without Run nothing is watched. Run must be called only once.
func (s *Set) Run(ctx context.Context) error {
	tick := time.NewTicker(s.lookEvery())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			s.report(s.look(now))
		}
	}
}

// look returns the procedures to report, and stops those that have run for too long.
func (s *Set) look(now time.Time) (list []report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = slices.DeleteFunc(s.live, func(w weak.Pointer[Tx]) bool {
		t := w.Value()
		if t == nil {
			return true
		}
		if r, ok := t.look(now, &s.o); ok {
			list = append(list, r)
		}
		return false
	})
	return list
}

// look returns a report on t if one is due. The caller holds Set.mu.
func (t *Tx) look(now time.Time, o *Options) (r report, due bool) {
	run := t.run.Load()
	if run%2 == 0 {
		return r, false // nothing is running
	}
	if run != t.seen.run {
		t.seen = seen{run: run, from: now, next: o.SlowAfter}
		return r, false
	}
	r = report{def: t.what.Load(), took: now.Sub(t.seen.from)}
	if r.took >= o.MaxRun && t.stop.Load() != run {
		t.stop.Store(run)
		r.stopped, due = true, true
	}
	for ; r.took >= t.seen.next; t.seen.next *= 2 {
		due = true
	}
	return r, due && t.run.Load() == run
}

// report logs slow procedures and counts them.
func (s *Set) report(list []report) {
	for _, r := range list {
		if !r.stopped {
			s.slow.Add(1)
			s.o.Logger.Warn("a procedure is slow", "procedure", r.def.schema.Name, "running", r.took)
			continue
		}
		s.stopped.Add(1)
		s.o.Logger.Error("a procedure has run for too long; its transaction now rejects every operation",
			"procedure", r.def.schema.Name, "running", r.took, "limit", s.o.MaxRun, "stack", r.def.stack())
	}
}

// Bounds for looking for a stack, which stops the program for a moment.
const (
	stackGoroutines = 10_000
	stackBytes      = 1 << 20
)

// stack returns the stack of a goroutine that runs the procedure, or "" if there is none.
func (d *definition) stack() string {
	if runtime.NumGoroutine() > stackGoroutines {
		return ""
	}
	fn := runtime.FuncForPC(reflect.ValueOf(d.fn).Pointer())
	if fn == nil {
		return ""
	}
	name := strings.TrimSuffix(fn.Name(), "-fm") + "(" // stacks do not contain the suffix of a method value
	all := make([]byte, stackBytes)
	all = all[:runtime.Stack(all, true)]
	for one := range bytes.SplitSeq(all, []byte("\n\n")) {
		if bytes.Contains(one, []byte(name)) {
			return string(one)
		}
	}
	return ""
}

// newTx makes a Tx that the watchdog knows. The watchdog's reference is weak, so the pool
// can release the Tx.
func (s *Set) newTx() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	t := &Tx{set: s, seq: 1, shard: s.made % s.shards}
	if len(s.live) >= s.pruneAt {
		s.live = slices.DeleteFunc(s.live, func(w weak.Pointer[Tx]) bool { return w.Value() == nil })
		s.pruneAt = 64 + 2*len(s.live)
	}
	s.live = append(s.live, weak.Make(t))
	return t
}
