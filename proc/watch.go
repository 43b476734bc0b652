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

// The watchdog never asks a running procedure for anything, and a procedure
// never looks at a clock: each run has a number, and a run that is still there
// when the watchdog looks again has taken at least the time in between.

// seen is what the watchdog knows of one Tx.
type seen struct {
	run  uint64        // when it looked last
	from time.Time     // when it saw that run first
	next time.Duration // after how long it reports it next
}

// report is one procedure that takes long.
type report struct {
	def     *definition
	took    time.Duration
	stopped bool // it may do nothing more
}

// lookEvery is how often the watchdog looks.
func (s *Set) lookEvery() time.Duration {
	return min(max(min(s.o.SlowAfter, s.o.MaxRun)/4, time.Millisecond), time.Second)
}

// Run watches over running procedures until ctx ends: it reports those that are
// slow and stops those that take too long, see Options.SlowAfter and MaxRun. The
// times are counted from when it first sees them, up to a quarter of the shorter
// of the two after they began. Without Run nothing is watched. It is called once.
func (s *Set) Run(ctx context.Context) error {
	tick := time.NewTicker(s.lookEvery())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			s.tell(s.look(now))
		}
	}
}

// look returns what there is to report, and stops what has run for too long.
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
		return r, false // nothing runs
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

// tell logs reports and counts them.
func (s *Set) tell(list []report) {
	for _, r := range list {
		if !r.stopped {
			s.slow.Add(1)
			s.o.Logger.Warn("a procedure is slow", "procedure", r.def.schema.Name, "running", r.took)
			continue
		}
		s.stopped.Add(1)
		s.o.Logger.Error("a procedure has run for too long; its transaction refuses everything from now on",
			"procedure", r.def.schema.Name, "running", r.took, "limit", s.o.MaxRun, "stack", r.def.stack())
	}
}

// Bounds of looking for a stack: it stops the program for a moment.
const (
	stackGoroutines = 10_000
	stackBytes      = 1 << 20
)

// stack returns the stack of a goroutine that runs the procedure, "" if it is not
// found.
func (d *definition) stack() string {
	if runtime.NumGoroutine() > stackGoroutines {
		return ""
	}
	fn := runtime.FuncForPC(reflect.ValueOf(d.fn).Pointer())
	if fn == nil {
		return ""
	}
	name := strings.TrimSuffix(fn.Name(), "-fm") + "(" // a method's value is in no stack
	all := make([]byte, stackBytes)
	all = all[:runtime.Stack(all, true)]
	for one := range bytes.SplitSeq(all, []byte("\n\n")) {
		if bytes.Contains(one, []byte(name)) {
			return string(one)
		}
	}
	return ""
}

// newTx makes a Tx that the watchdog knows. It is held weakly: what the pool
// lets go of is gone.
func (s *Set) newTx() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	t := &Tx{set: s, seq: 1, counts: &s.counts[s.made%len(s.counts)]}
	if len(s.live) >= s.pruneAt {
		s.live = slices.DeleteFunc(s.live, func(w weak.Pointer[Tx]) bool { return w.Value() == nil })
		s.pruneAt = 64 + 2*len(s.live)
	}
	s.live = append(s.live, weak.Make(t))
	return t
}
