package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/workload"
)

func closeCases() []Case {
	return []Case{
		{"close/calls-afterwards", onOneKey, closeAfter},
		{"close/twice", onOneKey, closeTwice},
		{"close/ends-waiting-views", placed, closeViews},
		{"close/ends-waiting-changes", fed, closeChanges},
		{"close/ends-waiting-updates", serial, closeUpdates},
		{"close/under-load", serial, closeUnderLoad},
	}
}

func reopenCases() []Case {
	durable := ordered
	durable.Durable = true
	fedDurable := durable
	fedDurable.Feed = true
	return []Case{
		{"reopen/keeps-everything", durable, reopenKeeps},
		{"reopen/positions-and-time-go-on", durable, reopenPositions},
		{"reopen/changes-go-on", fedDurable, reopenChanges},
	}
}

func closeAfter(e *env) {
	e.put("a", "1")
	e.close()
	unreachable := func(engine.Tx) error {
		e.Errorf("a function was run after Close")
		return nil
	}
	_, err := e.eng.View(e.ctx, engine.Read{}, unreachable)
	e.is("view after Close", err, engine.ErrClosed)
	_, err = e.eng.Update(e.ctx, unreachable)
	e.is("update after Close", err, engine.ErrClosed)
	_, err = engine.UpdateEach(e.ctx, e.eng, 2, func(engine.Tx, int) error { return unreachable(nil) })
	e.is("UpdateEach after Close", err, engine.ErrClosed)
	if !e.p.Feed {
		return
	}
	err = nil
	e.within(e.o.Wait, "Changes after Close", func() {
		for _, err = range e.eng.Changes(e.ctx, 1<<40) {
			if err != nil {
				break
			}
		}
	})
	e.is("Changes after Close", err, engine.ErrClosed)
}

func closeTwice(e *env) {
	e.put("a", "1")
	e.close()
	var err error
	e.within(e.o.Wait, "a second Close", func() { err = e.eng.Close() })
	if err != nil && !errors.Is(err, engine.ErrClosed) {
		e.Errorf("a second Close returned %v, want nil or %v", err, engine.ErrClosed)
	}
}

func closeViews(e *env) {
	last := e.put("a", "1")
	out := make(chan error, len(levels))
	for _, level := range levels {
		go func() {
			_, err := e.eng.View(e.ctx, engine.Read{Level: level, AtLeast: last + 1<<20}, func(engine.Tx) error { return nil })
			out <- err
		}()
	}
	time.Sleep(30 * time.Millisecond)
	e.close()
	for range levels {
		e.is("a view that waited for its position", receive(e, "a waiting view", out), engine.ErrClosed)
	}
}

func closeChanges(e *env) {
	last := e.put("a", "1")
	out := make(chan error, 3)
	for range 3 {
		go func() {
			var end error
			for _, err := range e.eng.Changes(e.ctx, last) {
				end = err
			}
			out <- end
		}()
	}
	time.Sleep(30 * time.Millisecond)
	e.close()
	for range 3 {
		e.is("the end of a waiting tail", receive(e, "a waiting tail", out), engine.ErrClosed)
	}
}

// closeUpdates closes the engine while one update runs and others wait for it. Each may
// succeed or fail; a refused update must not be written.
func closeUpdates(e *env) {
	running, release := make(chan struct{}, 1), make(chan struct{})
	const waiting = 5
	out := make(chan error, waiting+1)
	go func() {
		_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error {
			select {
			case running <- struct{}{}:
			default:
			}
			<-release
			return putAll(tx, "first", "1")
		})
		out <- err
	}()
	receive(e, "the first update", running)
	for i := range waiting {
		go func() {
			_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error { return putAll(tx, fmt.Sprint("k", i), "1") })
			out <- err
		}()
	}
	time.Sleep(20 * time.Millisecond)
	closing := make(chan error, 1)
	e.closed = true
	go func() { closing <- e.eng.Close() }()
	time.Sleep(20 * time.Millisecond)
	close(release)
	for range waiting + 1 {
		err := receive(e, "an update that Close cuts off", out)
		if err != nil && !errors.Is(err, engine.ErrClosed) && !errors.Is(err, engine.ErrOutcomeUnknown) {
			e.Fatalf("an update that Close cut off returned %v", err)
		}
	}
	if err := receive(e, "Close", closing); err != nil {
		e.Fatalf("close: %v", err)
	}
}

// onlyClosed records errors that a call interrupted by Close must not return.
type onlyClosed struct {
	engine.Engine
	odd atomic.Pointer[error]
}

func (o *onlyClosed) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	pos, err := o.Engine.Update(ctx, fn)
	if err != nil && ctx.Err() == nil && !errors.Is(err, engine.ErrClosed) && !errors.Is(err, engine.ErrOutcomeUnknown) {
		o.odd.CompareAndSwap(nil, &err)
	}
	return pos, err
}

// closeUnderLoad closes the engine during writes. If the engine can be opened again, all
// acknowledged writes must be there, and no refused ones.
func closeUnderLoad(e *env) {
	if !e.p.Ordered {
		e.Skipf("skipped: the load needs ordered scans")
	}
	for round := range 3 {
		w := &workload.Append{}
		if err := w.Setup(e.ctx, e.eng); err != nil {
			e.Fatalf("set up: %v", err)
		}
		ctx, cancel := context.WithCancel(e.ctx)
		watched := &onlyClosed{Engine: e.eng}
		done := make(chan error, 1)
		go func() {
			_, err := workload.Load(ctx, watched, w, workload.Options{Duration: time.Minute, Seed: e.o.Seed})
			done <- err
		}()
		e.eventually("an acknowledged write", func() bool { acked, _, _ := w.Ledger.Counts(); return acked > 0 })
		time.Sleep(time.Duration(20+e.rng.IntN(30)) * time.Millisecond)
		e.close()
		time.Sleep(5 * time.Millisecond)
		cancel()
		if err := receive(e, "the load", done); !errors.Is(err, context.Canceled) {
			e.Fatalf("the load ended with %v", err)
		}
		if odd := watched.odd.Load(); odd != nil {
			e.Fatalf("an update that Close cut off returned %v", *odd)
		}
		if e.o.Reopen == nil || !e.p.Durable {
			return
		}
		e.adopt(e.o.Reopen(e.T))
		if err := w.Check(e.ctx, e.eng); err != nil {
			e.Fatalf("round %d, after reopening: %v", round, err)
		}
	}
}

// reopen closes the engine and opens it again.
func (e *env) reopen() {
	e.Helper()
	e.lacksHook("Reopen", e.o.Reopen != nil)
	e.close()
	e.adopt(e.o.Reopen(e.T))
}

func reopenKeeps(e *env) {
	m := model{}
	for round := range 5 {
		for range 30 {
			ops := randomOps(e.rng, 1+e.rng.IntN(10))
			var after model
			e.update(func(tx engine.Tx) (err error) { after, err = m.apply(tx, ops); return err })
			m = after
		}
		if _, err := e.eng.Update(e.ctx, func(tx engine.Tx) error {
			if err := putAll(tx, "failed", "1"); err != nil {
				return err
			}
			return errors.New("own error")
		}); err == nil {
			e.Fatalf("an update whose function failed succeeded")
		}
		if round == 3 {
			e.reopen() // nothing new between two openings
		}
		e.reopen()
		e.view(m.check)
	}
}

func reopenPositions(e *env) {
	var last engine.Position
	var now time.Time
	for i := range 5 {
		var at time.Time
		pos := e.update(func(tx engine.Tx) error { at = tx.Now(); return putAll(tx, "a", fmt.Sprint(i)) })
		if pos <= last || at.Before(now) {
			e.Fatalf("position %d at %v, before reopening it was %d at %v", pos, at, last, now)
		}
		last, now = pos, at
		e.reopen()
		for _, level := range levels {
			saw := e.viewAt(engine.Read{Level: level, AtLeast: last}, func(tx engine.Tx) error {
				if tx.Now().Before(now) {
					return fmt.Errorf("time Now is %v in a view of a transaction of %v", tx.Now(), now)
				}
				return hasAll(tx, "a", fmt.Sprint(i))
			})
			if saw < last {
				e.Fatalf("a view after reopening is at %d, the last write was at %d", saw, last)
			}
		}
	}
}

// reopenChanges resumes from positions before the reopening. It must receive all later
// changes, or ErrTruncated.
func reopenChanges(e *env) {
	positions := []engine.Position{e.put("start", "1")}
	for i := range 20 {
		positions = append(positions, e.put("k", fmt.Sprint(i)))
	}
	want := texts(e.changes(positions[0], positions[20]))
	e.reopen()
	end := e.put("end", "1")
	for i, pos := range positions {
		ctx, cancel := context.WithTimeout(e.ctx, e.o.Wait)
		list, err := collect(ctx, e.eng, pos, end)
		cancel()
		if errors.Is(err, engine.ErrTruncated) && i < 20 {
			continue
		}
		if err != nil {
			e.Fatalf("%v", err)
		}
		got := texts(list[:len(list)-1])
		if fmt.Sprint(got) != fmt.Sprint(want[i:]) {
			e.Fatalf("changes after %d are %q after reopening, were %q", pos, got, want[i:])
		}
	}
}
