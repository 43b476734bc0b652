package enginetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/skerrydb/skerry/engine"
)

var fenced = engine.Promises{Atomic: engine.AllKeys, Snapshot: true, Positions: true, Fence: true}

// fenceStops puts up a fence, writes with and without touching it, and lifts it.
func fenceStops(e *env) {
	e.put("a", "1")
	e.put("gone", "1")
	e.put(engine.FenceKey, "moving")
	stopped := func(what string, fn func(tx engine.Tx) error) {
		e.Helper()
		_, err := e.eng.Update(e.ctx, fn)
		e.is(what, err, engine.ErrFenced)
	}
	stopped("a put behind a fence", func(tx engine.Tx) error { return putAll(tx, "a", "2") })
	stopped("a new key behind a fence", func(tx engine.Tx) error { return putAll(tx, "b", "2") })
	stopped("a deletion behind a fence", func(tx engine.Tx) error { return tx.Delete([]byte("gone")) })
	stopped("a write before that of the fence", func(tx engine.Tx) error { return putAll(tx, "a", "2", engine.FenceKey, "mine") })
	e.update(func(tx engine.Tx) error { // a refused write leaves nothing, even if its error is ignored
		if err := putAll(tx, "a", "3"); !errors.Is(err, engine.ErrFenced) {
			return fmt.Errorf("a put behind a fence: %v", err)
		}
		return hasAll(tx, "a", "1")
	})
	e.has("a", "1", "gone", "1", engine.FenceKey, "moving")
	e.lacks("b")

	e.update(func(tx engine.Tx) error { return putAll(tx, engine.FenceKey, "mine", "a", "4") })
	e.has("a", "4", engine.FenceKey, "mine")
	stopped("a put after one that passed", func(tx engine.Tx) error { return putAll(tx, "a", "5") })
	failed := errors.New("failed")
	_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error { return errors.Join(tx.Delete([]byte(engine.FenceKey)), failed) })
	e.is("a transaction that fails", err, failed)
	stopped("a put after a fence was not lifted", func(tx engine.Tx) error { return putAll(tx, "a", "6") })
	e.update(func(tx engine.Tx) error {
		return errors.Join(tx.Delete([]byte(engine.FenceKey)), putAll(tx, "a", "7"), tx.Delete([]byte("gone")))
	})
	e.put("b", "8")
	e.has("a", "7", "b", "8")
	e.lacks("gone", engine.FenceKey)
}

// fenceInOrder lets writers run while the fence is put up: no position after the fence's is acknowledged.
func fenceInOrder(e *env) {
	const writers = 4
	var (
		last    [writers]engine.Position
		busy    sync.WaitGroup
		written atomic.Int64
	)
	errs := make(chan error, writers)
	for w := range writers {
		busy.Go(func() {
			for {
				pos, err := e.eng.Update(e.ctx, func(tx engine.Tx) error { return putAll(tx, fmt.Sprint("w", w), fmt.Sprint(written.Load())) })
				if err != nil {
					errs <- err
					return
				}
				last[w] = pos
				written.Add(1)
			}
		})
	}
	e.eventually("writers work", func() bool { return written.Load() > 20*writers })
	at := e.put(engine.FenceKey, "now")
	busy.Wait()
	for w := range writers {
		e.is("a writer at the fence", <-errs, engine.ErrFenced)
		if last[w] >= at {
			e.Errorf("a write at %d was acknowledged, and the fence is at %d", last[w], at)
		}
	}
	if pos := e.view(func(engine.Tx) error { return nil }); pos != at {
		e.Errorf("the engine is at %d, after a fence at %d", pos, at)
	}
	e.update(func(tx engine.Tx) error { return tx.Delete([]byte(engine.FenceKey)) })
}

// fenceKept opens an engine with a fence again.
func fenceKept(e *env) {
	e.put("a", "1")
	e.put(engine.FenceKey, "moved")
	e.reopen()
	_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error { return putAll(tx, "a", "2") })
	e.is("a put behind a fence of before", err, engine.ErrFenced)
	e.update(func(tx engine.Tx) error { return tx.Delete([]byte(engine.FenceKey)) })
	e.put("a", "3")
}

// processFence puts up a fence in one process and writes in the other.
func processFence(e *env) {
	other := e.second()
	write := func(tx engine.Tx) error { return putAll(tx, "a", "1") }
	if _, err := other.Update(e.ctx, write); err != nil {
		e.Fatalf("update: %v", err)
	}
	e.put(engine.FenceKey, "moving")
	_, err := other.Update(e.ctx, write)
	e.is("a put of the other process behind the fence", err, engine.ErrFenced)
	if _, err := other.Update(e.ctx, func(tx engine.Tx) error { return tx.Delete([]byte(engine.FenceKey)) }); err != nil {
		e.Fatalf("lift the fence: %v", err)
	}
	e.put("a", "2")
}
