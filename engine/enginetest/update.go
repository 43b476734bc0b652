package enginetest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
)

var serial = engine.Promises{Atomic: engine.AllKeys, Serializable: true, Snapshot: true}

// timed is what serial needs, with a clock.
var timed = engine.Promises{Atomic: engine.AllKeys, Serializable: true, Snapshot: true, Clock: true}

func updateCases() []Case {
	return []Case{
		{"update/error-unchanged", onAllKeys, updateError},
		{"update/error-rolls-back", ordered, updateRollsBack},
		{"update/panic-rolls-back", ordered, updatePanic},
		{"update/goexit", onAllKeys, updateGoexit},
		{"update/position", placed, updatePosition},
		{"update/position-of-no-write", placed, updateNoWrite},
	}
}

func isolationCases() []Case {
	return []Case{
		{"isolation/no-dirty-read", onAllKeys, isolationDirty},
		{"isolation/atomic-visibility", ordered, isolationAtomic},
		{"isolation/no-write-skew", serial, isolationSkew},
		{"isolation/no-read-only-anomaly", serial, isolationReadOnly},
		{"isolation/reads-own-acknowledged", serial, isolationSession},
	}
}

func updateError(e *env) {
	own := &errOwn{[]string{"x"}}
	pos, err := e.eng.Update(e.ctx, func(tx engine.Tx) error {
		if err := putAll(tx, "a", "1"); err != nil {
			return err
		}
		return own
	})
	if err != own {
		e.Errorf("update returned %d, %v; want the very error of its function", pos, err)
	}
	e.lacks("a")
	if _, err := e.eng.Update(e.ctx, func(engine.Tx) error { return own }); err != own {
		e.Errorf("update without a write returned %v", err)
	}
}

// changeMuch overwrites, deletes, adds, adds and deletes, and deletes and adds.
func changeMuch(tx engine.Tx) error {
	if err := putAll(tx, "b", "new", "b", "newer", "a", "new", "e", "new", "x", "new"); err != nil {
		return err
	}
	for _, k := range []string{"c", "x", "d", "none"} {
		if err := tx.Delete([]byte(k)); err != nil {
			return err
		}
	}
	return putAll(tx, "d", "again")
}

func updateRollsBack(e *env) {
	m := model{"b": "1", "c": "2", "d": "3", "f": "4"}
	e.put("b", "1", "c", "2", "d", "3", "f", "4")
	own := errors.New("own error")
	for range 3 {
		_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error {
			if err := changeMuch(tx); err != nil {
				return err
			}
			return own
		})
		if err != own {
			e.Fatalf("update returned %v", err)
		}
		e.view(m.check)
		e.update(m.check)
	}
}

// updatePanic lets the engine either repeat the panic or return an error.
func updatePanic(e *env) {
	m := model{"b": "1", "c": "2", "d": "3", "f": "4"}
	e.put("b", "1", "c", "2", "d", "3", "f", "4")
	for range 3 {
		var err error
		e.within(e.o.Wait, "an update that panics", func() {
			err = caught(func() error {
				_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error {
					if err := changeMuch(tx); err != nil {
						return err
					}
					panic("own panic")
				})
				return err
			})
		})
		if err == nil {
			e.Fatalf("an update whose function panicked succeeded")
		}
		e.view(m.check)
		e.update(m.check)
	}
	e.put("g", "after")
	e.has("g", "after")
}

// updateGoexit ends the goroutine inside functions, as Fatalf of a test does.
func updateGoexit(e *env) {
	e.put("a", "1")
	ways := map[string]func(fn func(engine.Tx) error) error{
		"update": func(fn func(engine.Tx) error) error { _, err := e.eng.Update(e.ctx, fn); return err },
		"update each": func(fn func(engine.Tx) error) error {
			_, err := engine.UpdateEach(e.ctx, e.eng, 2, func(tx engine.Tx, _ int) error { return fn(tx) })
			return err
		},
		"view": func(fn func(engine.Tx) error) error { _, err := e.eng.View(e.ctx, engine.Read{}, fn); return err },
	}
	for name, way := range ways {
		ended, returned := make(chan struct{}), false
		var err error
		go func() {
			defer close(ended)
			err = way(func(tx engine.Tx) error {
				if name != "view" {
					if err := putAll(tx, "half", "1"); err != nil {
						return err
					}
				}
				runtime.Goexit()
				return nil
			})
			returned = true
		}()
		receive(e, name+" whose function ended its goroutine", ended)
		if returned && err == nil {
			e.Fatalf("%s whose function ended its goroutine succeeded", name)
		}
		e.put("a", name)
		e.has("a", name)
		e.lacks("half")
	}
}

func updatePosition(e *env) {
	var last engine.Position
	for i := range 200 {
		pos := e.put("a", fmt.Sprint(i))
		if pos <= last {
			e.Fatalf("position %d after %d", pos, last)
		}
		last = pos
	}
	e.view(func(tx engine.Tx) error { return hasAll(tx, "a", "199") })
}

func updateNoWrite(e *env) {
	for i := range 50 {
		wrote := e.put("a", fmt.Sprint(i))
		read := e.update(func(tx engine.Tx) error { return hasAll(tx, "a", fmt.Sprint(i)) })
		if read < wrote {
			e.Fatalf("an update that read what was written at %d returned %d", wrote, read)
		}
		e.viewAt(engine.Read{Level: engine.Session, AtLeast: read}, func(tx engine.Tx) error {
			return hasAll(tx, "a", fmt.Sprint(i))
		})
	}
}

// isolationDirty reads from the engine in the middle of a transaction.
func isolationDirty(e *env) {
	e.put("a", "old", "gone", "old")
	for _, fail := range []bool{true, false} {
		inside, looked := make(chan struct{}, 1), make(chan struct{})
		outcome := make(chan error, 1)
		own := errors.New("own error")
		go func() {
			_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error {
				if err := putAll(tx, "a", "dirty", "b", "dirty"); err != nil {
					return err
				}
				if err := tx.Delete([]byte("gone")); err != nil {
					return err
				}
				select {
				case inside <- struct{}{}:
				default:
				}
				select {
				case <-looked:
				case <-time.After(e.o.Wait):
					return errors.New("an open update holds views up")
				}
				if fail {
					return own
				}
				return nil
			})
			outcome <- err
		}()
		receive(e, "a transaction that should run", inside)
		for _, level := range levels {
			e.viewAt(engine.Read{Level: level}, func(tx engine.Tx) error {
				if err := hasAll(tx, "a", "old", "gone", "old"); err != nil {
					return fmt.Errorf("while a transaction is open: %w", err)
				}
				return lacksAll(tx, "b")
			})
		}
		close(looked)
		err := receive(e, "an update that may go on", outcome)
		if fail {
			e.is("the update", err, own)
			e.has("a", "old", "gone", "old")
			e.lacks("b")
		} else if err != nil {
			e.Fatalf("update: %v", err)
		}
	}
	e.has("a", "dirty", "b", "dirty")
	e.lacks("gone")
}

// isolationAtomic writes the same number to many keys, and checks in views that they are
// equal.
func isolationAtomic(e *env) {
	const keys = 30
	write := func(tx engine.Tx, n int) error {
		for k := range keys {
			if err := putAll(tx, fmt.Sprint("k", k), fmt.Sprint(n)); err != nil {
				return err
			}
		}
		return nil
	}
	start := e.update(func(tx engine.Tx) error { return write(tx, 0) })
	stop := make(chan struct{})
	errs := make(chan error, 4)
	var viewing sync.WaitGroup
	for v := range 3 {
		viewing.Go(func() {
			for i := v; ; i++ {
				select {
				case <-stop:
					errs <- nil
					return
				default:
				}
				r := engine.Read{Level: levels[i%3], AtLeast: start}
				if _, err := e.eng.View(e.ctx, r, allTheSame); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for i := range 200 {
		e.update(func(tx engine.Tx) error {
			if err := allTheSame(tx); err != nil {
				return err
			}
			return write(tx, i+1)
		})
	}
	close(stop)
	viewing.Wait()
	for range 3 {
		if err := <-errs; err != nil {
			e.Errorf("%v", err)
		}
	}
}

func allTheSame(tx engine.Tx) error {
	var first string
	n := 0
	for p, err := range tx.Scan(nil, nil) {
		if err != nil {
			return err
		}
		if n++; n == 1 {
			first = string(p.Val)
		}
		if string(p.Val) != first {
			return fmt.Errorf("half a transaction is seen: %q and %q", first, p.Val)
		}
	}
	if n != 30 {
		return fmt.Errorf("%d keys are seen, want 30", n)
	}
	return nil
}

// isolationSkew lets both members of a pair try to leave at the same time; one must stay.
// Each reads both and writes its own key: snapshot isolation alone would let both go.
func isolationSkew(e *env) {
	const rounds = 150
	for i := range rounds {
		a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
		e.put(a, "here", b, "here")
		leave := func(me, other string) error {
			_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error {
				v, _, err := tx.Get([]byte(other))
				if err != nil || string(v) != "here" {
					return err
				}
				time.Sleep(time.Duration(i%4) * 20 * time.Microsecond)
				return putAll(tx, me, "gone")
			})
			return err
		}
		left := make(chan error, 2)
		go func() { left <- leave(a, b) }()
		go func() { left <- leave(b, a) }()
		for range 2 {
			if err := receive(e, "leaving", left); err != nil {
				e.Fatalf("leave: %v", err)
			}
		}
		gone := 0
		e.view(func(tx engine.Tx) error {
			gone = 0
			for _, k := range []string{a, b} {
				v, _, err := tx.Get([]byte(k))
				if err != nil {
					return err
				}
				if string(v) == "gone" {
					gone++
				}
			}
			return nil
		})
		if gone != 1 {
			e.Fatalf("round %d: %d of a pair have left, want exactly one", i, gone)
		}
	}
}

// isolationSession lets goroutines pass on a number: each must see the acknowledged write
// of the one before, in updates and in views.
func isolationSession(e *env) {
	const goers, rounds = 4, 50
	turn := make(chan int, 1)
	errs := make(chan error, goers)
	pass := func() error {
		for n := range turn {
			if n == goers*rounds {
				turn <- n
				return nil
			}
			_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error {
				got, err := number(tx, "n")
				if err != nil {
					return err
				}
				if got != n {
					return fmt.Errorf("update sees %d after %d was acknowledged", got, n)
				}
				return putAll(tx, "n", fmt.Sprint(n+1))
			})
			if err == nil {
				_, err = e.eng.View(e.ctx, engine.Read{}, func(tx engine.Tx) error {
					return hasAll(tx, "n", fmt.Sprint(n+1))
				})
			}
			if err != nil {
				turn <- goers * rounds
				return err
			}
			turn <- n + 1
		}
		return nil
	}
	for range goers {
		go func() { errs <- pass() }()
	}
	turn <- 0
	for range goers {
		if err := receive(e, "passing a number on", errs); err != nil {
			e.Errorf("%v", err)
		}
	}
}
