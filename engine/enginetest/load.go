package enginetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/workload"
)

func loadCases() []Case {
	var out []Case
	for _, w := range workload.All() {
		name := w.Name()
		out = append(out,
			Case{"load/" + name, w.Needs(), func(e *env) { e.load(name) }},
			Case{"load/" + name + "-cut-off", w.Needs(), func(e *env) { e.loadCutOff(name) }},
		)
	}
	return out
}

// loadAndCheck loads eng. Setup and Check use the case's own engine.
func (e *env) loadAndCheck(eng engine.Engine, w workload.Workload, steps int) (workload.Stats, error) {
	if err := w.Setup(e.ctx, e.eng); err != nil {
		return workload.Stats{}, err
	}
	stats, err := workload.Load(e.ctx, eng, w, workload.Options{Steps: steps, Seed: e.o.Seed})
	if err != nil {
		return stats, err
	}
	ctx, cancel := context.WithTimeout(e.ctx, 6*e.o.Wait) // it may wait for a change that never comes
	defer cancel()
	return stats, w.Check(ctx, e.eng)
}

// load runs a workload and its check.
func (e *env) load(name string) {
	w, err := workload.New(name)
	if err != nil {
		e.Fatalf("%v", err)
	}
	stats, err := e.loadAndCheck(e.eng, w, e.o.Steps)
	if err != nil {
		e.Fatalf("%v; %v", err, stats)
	}
	if stats.OK == 0 {
		e.Fatalf("no step succeeded: %v", stats)
	}
	e.Logf("%v", stats)
}

// loadCutOff ends the ctx of many calls early, so that some outcomes are unknown.
func (e *env) loadCutOff(name string) {
	h := &hasty{Engine: e.eng, rng: rand.New(rand.NewPCG(e.o.Seed, 2))}
	w, err := workload.New(name)
	if err != nil {
		e.Fatalf("%v", err)
	}
	stats, err := e.loadAndCheck(h, w, e.o.Steps/2)
	if odd := h.odd.Load(); odd != nil {
		e.Fatalf("an unknown outcome does not wrap its ctx's error: %v", *odd)
	}
	if err != nil {
		e.Fatalf("%v; %v", err, stats)
	}
	e.Logf("%v", stats)
}

// hasty gives half of the calls a very short timeout.
type hasty struct {
	engine.Engine
	odd atomic.Pointer[error]
	mu  sync.Mutex // guards rng
	rng *rand.Rand
}

func (h *hasty) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rng.IntN(2) == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(h.rng.IntN(2000))*time.Microsecond)
}

func (h *hasty) note(err error) {
	if errors.Is(err, engine.ErrOutcomeUnknown) && !errors.Is(err, context.DeadlineExceeded) {
		h.odd.CompareAndSwap(nil, &err)
	}
}

func (h *hasty) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	ctx, cancel := h.limit(ctx)
	defer cancel()
	return h.Engine.View(ctx, r, fn)
}

func (h *hasty) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	ctx, cancel := h.limit(ctx)
	defer cancel()
	pos, err := h.Engine.Update(ctx, fn)
	h.note(err)
	return pos, err
}

func (h *hasty) UpdateEach(ctx context.Context, n int, fn func(engine.Tx, int) error) (engine.Position, error) {
	ctx, cancel := h.limit(ctx)
	defer cancel()
	pos, err := engine.UpdateEach(ctx, h.Engine, n, fn)
	h.note(err)
	return pos, err
}
