package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Defaults of Options.
const (
	DefaultClients = 8
	DefaultSteps   = 1000
)

// retryPause is how long a client waits after a step that was refused.
const retryPause = time.Millisecond

// Options sets the amount of load. The zero value means DefaultSteps steps by
// DefaultClients clients.
type Options struct {
	Clients  int           // concurrent goroutines; 0: DefaultClients
	Steps    int           // of all clients together; 0: no limit if Duration is set
	Duration time.Duration // after which no step begins; 0: no limit if Steps is set
	Seed     uint64        // of the clients' random sources; the same seed makes the same choices

	// OnStats, if not nil, is called once a second with the current statistics, from a
	// separate goroutine that ends before Load returns.
	OnStats func(Stats)
}

// Stats counts steps. Latencies are those of all successful steps; percentiles are at
// most 1/16 too high.
type Stats struct {
	Workload string                `json:"workload"`
	Seed     uint64                `json:"seed"`
	Clients  int                   `json:"clients"`
	OK       int64                 `json:"ok"`
	Unknown  int64                 `json:"unknown"` // outcome unknown
	Failed   int64                 `json:"failed"`  // refused, nothing written
	Codes    map[engine.Code]int64 `json:"codes,omitempty"`
	Elapsed  time.Duration         `json:"elapsed_ns"`
	P50      time.Duration         `json:"p50_ns"`
	P99      time.Duration         `json:"p99_ns"`
	Max      time.Duration         `json:"max_ns"`
}

// PerSecond returns the rate of successful steps.
func (s Stats) PerSecond() float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(s.OK) / s.Elapsed.Seconds()
}

// String returns one line for people.
func (s Stats) String() string {
	return fmt.Sprintf("%s: %d ok, %d unknown, %d refused in %v by %d clients: %.0f/s, p50 %v, p99 %v, max %v (seed %d)",
		s.Workload, s.OK, s.Unknown, s.Failed, s.Elapsed.Round(time.Millisecond), s.Clients, s.PerSecond(),
		s.P50, s.P99, s.Max, s.Seed)
}

// Run sets up w, loads eng with it and checks its invariant. It returns a *Violation if
// the invariant is broken, an error matching engine.ErrUnsupported if the engine does not
// promise what w needs, and ctx's error if ctx ended.
func Run(ctx context.Context, eng engine.Engine, w Workload, o Options) (Stats, error) {
	if err := eng.Promises().Meets("workload "+w.Name(), w.Needs()); err != nil {
		return Stats{Workload: w.Name()}, err
	}
	if err := w.Setup(ctx, eng); err != nil {
		return Stats{Workload: w.Name()}, fmt.Errorf("set up %s: %w", w.Name(), err)
	}
	stats, err := Load(ctx, eng, w, o)
	if err != nil {
		return stats, err
	}
	if err := w.Check(ctx, eng); err != nil {
		return stats, fmt.Errorf("check %s: %w", w.Name(), err)
	}
	return stats, nil
}

// Load runs only the steps, without Setup and Check, for example in a process that will
// be killed. It ends early, and returns the error, at a *Violation, at an error that
// retrying cannot fix, and when ctx ends. It counts refused and unknown outcomes and
// continues.
func Load(ctx context.Context, eng engine.Engine, w Workload, o Options) (Stats, error) {
	l := newLoader(w, o)
	parent := ctx
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	var wg sync.WaitGroup
	for i := range l.o.Clients {
		wg.Go(func() {
			if !l.client(ctx, eng, uint64(i)) {
				cancel()
			}
		})
	}
	stop := make(chan struct{})
	var reporter sync.WaitGroup
	if o.OnStats != nil {
		reporter.Go(func() { l.report(stop) })
	}
	wg.Wait()
	close(stop)
	reporter.Wait()
	if l.end != nil {
		return l.stats(), l.end
	}
	return l.stats(), parent.Err()
}

// loader is the state that the clients of one Load share.
type loader struct {
	w     Workload
	o     Options
	start time.Time
	taken atomic.Int64 // steps begun
	hist  histogram

	mu    sync.Mutex // guards the fields below
	ok    int64
	codes map[engine.Code]int64
	unk   int64
	fail  int64
	end   error // the first that ended the load
}

func newLoader(w Workload, o Options) *loader {
	if o.Clients <= 0 {
		o.Clients = DefaultClients
	}
	if o.Steps <= 0 && o.Duration <= 0 {
		o.Steps = DefaultSteps
	}
	return &loader{w: w, o: o, start: time.Now(), codes: map[engine.Code]int64{}}
}

// client runs steps until the load is done. It returns false if all other clients must
// end too.
func (l *loader) client(ctx context.Context, eng engine.Engine, id uint64) bool {
	rng := rand.New(rand.NewPCG(l.o.Seed, id))
	for ctx.Err() == nil {
		if n := l.taken.Add(1); l.o.Steps > 0 && n > int64(l.o.Steps) {
			return true
		}
		if l.o.Duration > 0 && time.Since(l.start) >= l.o.Duration {
			return true
		}
		began := time.Now()
		err := l.w.Step(ctx, eng, rng)
		if err == nil {
			l.hist.add(time.Since(began))
		}
		if !l.count(err) {
			return false
		}
		if err != nil && ctx.Err() == nil {
			time.Sleep(retryPause)
		}
	}
	return true
}

// count records the result of a step and reports whether the load may continue.
func (l *loader) count(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.ok++
		return true
	}
	cut := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case errors.As(err, new(*Violation)):
		l.stop(err)
		return false
	case errors.Is(err, engine.ErrOutcomeUnknown):
		l.unk++
	case cut, engine.Retryable(err):
		l.fail++
	default:
		l.stop(err)
		return false
	}
	if !cut || errors.As(err, new(*engine.Error)) {
		l.codes[engine.CodeOf(err)]++
	}
	return true
}

// stop keeps the first error, but prefers a violation. The caller holds mu.
func (l *loader) stop(err error) {
	if l.end == nil || errors.As(err, new(*Violation)) && !errors.As(l.end, new(*Violation)) {
		l.end = err
	}
}

func (l *loader) stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{
		Workload: l.w.Name(), Seed: l.o.Seed, Clients: l.o.Clients,
		OK: l.ok, Unknown: l.unk, Failed: l.fail, Codes: map[engine.Code]int64{},
		Elapsed: time.Since(l.start),
		P50:     l.hist.percentile(0.50), P99: l.hist.percentile(0.99), Max: time.Duration(l.hist.max.Load()),
	}
	for c, n := range l.codes {
		s.Codes[c] = n
	}
	return s
}

func (l *loader) report(stop <-chan struct{}) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			l.o.OnStats(l.stats())
		case <-stop:
			return
		}
	}
}
