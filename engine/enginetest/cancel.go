package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

func cancelCases() []Case {
	return []Case{
		{"cancel/before", onOneKey, cancelBefore},
		{"cancel/while-it-waits", serial, cancelQueued},
		{"cancel/inside", onAllKeys, cancelInside},
		{"cancel/at-any-time", onAllKeys, cancelAnyTime},
		{"cancel/error-of-fn-wins", onOneKey, cancelOwnError},
		{"cancel/waits-for-fn", onOneKey, cancelWaits},
	}
}

func cancelBefore(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	_, err := e.eng.Update(ctx, func(tx engine.Tx) error { return putAll(tx, "a", "1") })
	e.is("update after its ctx has ended", err, context.Canceled)
	if errors.Is(err, engine.ErrOutcomeUnknown) {
		e.Errorf("the outcome of what cannot have run is unknown: %v", err)
	}
	e.lacks("a")
	late, cancel := context.WithDeadline(e.ctx, time.Now().Add(-time.Second))
	defer cancel()
	_, err = e.eng.Update(late, func(tx engine.Tx) error { return putAll(tx, "a", "1") })
	e.is("update after its deadline", err, context.DeadlineExceeded)
	e.lacks("a")
}

// cancelQueued ends the ctx of an update that waits for another one.
func cancelQueued(e *env) {
	running, release := make(chan struct{}, 1), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error {
			select {
			case running <- struct{}{}:
			default:
			}
			<-release
			return putAll(tx, "first", "1")
		})
		first <- err
	}()
	receive(e, "the first update", running)
	ctx, cancel := context.WithTimeout(e.ctx, 30*time.Millisecond)
	defer cancel()
	second := make(chan error, 1)
	go func() {
		_, err := e.eng.Update(ctx, func(tx engine.Tx) error { return putAll(tx, "second", "1") })
		second <- err
	}()
	var err error
	select {
	case err = <-second:
		close(release)
	case <-time.After(e.o.Wait):
		close(release)
		e.Fatalf("an update that waits does not return when its ctx has ended")
	}
	if err := receive(e, "the first update", first); err != nil {
		e.Fatalf("the first update: %v", err)
	}
	e.put("third", "1")
	e.settled("second", err)
	e.has("first", "1", "third", "1")
}

// settled checks that the outcome of an update that put "1" under key matches its error.
func (e *env) settled(key string, err error) {
	e.Helper()
	switch {
	case err == nil:
		e.has(key, "1")
	case errors.Is(err, engine.ErrOutcomeUnknown):
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			e.Fatalf("an unknown outcome does not wrap its ctx's error: %v", err)
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.lacks(key)
	default:
		e.Fatalf("an update whose ctx has ended returned %v", err)
	}
}

func cancelInside(e *env) {
	for i := range 20 {
		ctx, cancel := context.WithCancel(e.ctx)
		key := fmt.Sprint("k", i)
		_, err := e.eng.Update(ctx, func(tx engine.Tx) error {
			if err := putAll(tx, key, "1"); err != nil {
				return err
			}
			cancel()
			time.Sleep(time.Duration(i%3) * time.Millisecond)
			return nil
		})
		e.put("barrier", "1")
		e.settled(key, err)
	}
}

// cancelAnyTime ends ctx at random moments around the commit.
func cancelAnyTime(e *env) {
	var errs []error
	for i := range 300 {
		ctx, cancel := context.WithCancel(e.ctx)
		key, wait := fmt.Sprint("k", i), time.Duration(e.rng.IntN(1000))*time.Microsecond
		go func() {
			time.Sleep(wait)
			cancel()
		}()
		_, err := e.eng.Update(ctx, func(tx engine.Tx) error { return putAll(tx, key, "1") })
		cancel()
		errs = append(errs, err)
	}
	e.put("barrier", "1")
	for i, err := range errs {
		e.settled(fmt.Sprint("k", i), err)
	}
}

// cancelOwnError lets fn fail after its ctx has ended: the outcome cannot be unknown.
func cancelOwnError(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	own := errors.New("own error")
	_, err := e.eng.Update(ctx, func(tx engine.Tx) error {
		if err := putAll(tx, "a", "1"); err != nil {
			return err
		}
		cancel()
		return own
	})
	if err != own && !errors.Is(err, context.Canceled) {
		e.Errorf("update returned %v, want its function's error or its ctx's", err)
	}
	e.put("barrier", "1")
	e.lacks("a")
}

// cancelWaits ends the ctx of functions that keep running for a while: no call returns
// before its function has.
func cancelWaits(e *env) {
	var running atomic.Int32
	ways := map[string]func(context.Context, func(engine.Tx) error) (engine.Position, error){
		"update": e.eng.Update,
		"view": func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
			return e.eng.View(ctx, engine.Read{}, fn)
		},
		"update each": func(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
			return engine.UpdateEach(ctx, e.eng, 2, func(tx engine.Tx, _ int) error { return fn(tx) })
		},
	}
	for name, way := range ways {
		ctx, cancel := context.WithCancel(e.ctx)
		_, err := way(ctx, func(engine.Tx) error {
			running.Add(1)
			defer running.Add(-1)
			cancel()
			time.Sleep(20 * time.Millisecond)
			return nil
		})
		cancel()
		if running.Load() != 0 {
			e.Fatalf("%s returned (%v) while its function still ran", name, err)
		}
	}
}
