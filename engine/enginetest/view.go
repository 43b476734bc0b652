package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
)

var fed = engine.Promises{Atomic: engine.AllKeys, Feed: true, Snapshot: true, Positions: true}

var levels = []engine.Level{engine.Linearizable, engine.Session, engine.Local}

func viewCases() []Case {
	return []Case{
		{"view/error-unchanged", onOneKey, viewError},
		{"view/read-only", onAllKeys, viewReadOnly},
		{"view/panic", onOneKey, viewPanic},
		{"view/sees-acknowledged", onOneKey, viewFresh},
		{"view/at-least", placed, viewAtLeast},
		{"view/at-least-waits", placed, viewWaits},
		{"view/at-least-times-out", placed, viewTimesOut},
		{"view/one-snapshot", ordered, viewSnapshot},
		{"view/position-not-newer", fed, viewPosition},
	}
}

// errOwn is an error that cannot be compared: an engine must return it unexamined.
type errOwn struct{ parts []string }

func (e *errOwn) Error() string { return fmt.Sprint("own error ", e.parts) }

func viewError(e *env) {
	e.put("a", "1")
	own := &errOwn{[]string{"x"}}
	if _, err := e.eng.View(e.ctx, engine.Read{}, func(engine.Tx) error { return own }); err != own {
		e.Errorf("view returned %v, want the very error of its function", err)
	}
	e.has("a", "1")
}

func viewReadOnly(e *env) {
	e.put("a", "1")
	for _, level := range levels {
		e.viewAt(engine.Read{Level: level}, func(tx engine.Tx) error {
			if err := tx.Put([]byte("a"), []byte("2")); !errors.Is(err, engine.ErrReadOnly) {
				return fmt.Errorf("put: error is %v, want %v", err, engine.ErrReadOnly)
			}
			if err := tx.Put([]byte("b"), []byte("2")); !errors.Is(err, engine.ErrReadOnly) {
				return fmt.Errorf("put of a new key: error is %v, want %v", err, engine.ErrReadOnly)
			}
			if err := tx.Delete([]byte("a")); !errors.Is(err, engine.ErrReadOnly) {
				return fmt.Errorf("delete: error is %v, want %v", err, engine.ErrReadOnly)
			}
			if err := hasAll(tx, "a", "1"); err != nil {
				return err
			}
			return lacksAll(tx, "b")
		})
	}
	e.has("a", "1")
	e.lacks("b")
}

// viewPanic lets the engine either repeat the panic or return an error.
func viewPanic(e *env) {
	e.put("a", "1")
	err := caught(func() error {
		_, err := e.eng.View(e.ctx, engine.Read{}, func(engine.Tx) error { panic("own panic") })
		return err
	})
	if err == nil {
		e.Errorf("a view whose function panicked succeeded")
	}
	e.has("a", "1")
}

// caught returns fn's error, or its panic as one.
func caught(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return fn()
}

func viewFresh(e *env) {
	for i := range 200 {
		wrote := e.put("a", fmt.Sprint(i))
		saw := e.view(func(tx engine.Tx) error { return hasAll(tx, "a", fmt.Sprint(i)) })
		if saw < wrote {
			e.Fatalf("a view that sees position %d says it is at %d", wrote, saw)
		}
		if !e.p.Positions { // so that a session sees all that the process wrote
			e.viewAt(engine.Read{Level: engine.Session}, func(tx engine.Tx) error { return hasAll(tx, "a", fmt.Sprint(i)) })
		}
	}
}

func viewAtLeast(e *env) {
	for i := range 100 {
		wrote := e.put("a", fmt.Sprint(i))
		for _, level := range levels {
			saw := e.viewAt(engine.Read{Level: level, AtLeast: wrote}, func(tx engine.Tx) error {
				return hasAll(tx, "a", fmt.Sprint(i))
			})
			if saw < wrote {
				e.Fatalf("a view at level %d of at least %d is at %d", level, wrote, saw)
			}
		}
	}
}

// viewWaits requests the position after the last one, which is then written.
func viewWaits(e *env) {
	for _, level := range levels {
		last := e.put("a", "old")
		type result struct {
			pos engine.Position
			err error
		}
		seen := make(chan result, 1)
		go func() {
			pos, err := e.eng.View(e.ctx, engine.Read{Level: level, AtLeast: last + 1}, func(tx engine.Tx) error {
				return hasAll(tx, "a", "new")
			})
			seen <- result{pos, err}
		}()
		select {
		case r := <-seen:
			e.Fatalf("a view of at least %d began at once: %d, %v", last+1, r.pos, r.err)
		case <-time.After(20 * time.Millisecond):
		}
		wrote := e.put("a", "new")
		r := receive(e, "a view whose position has come", seen)
		if r.err != nil || r.pos < wrote {
			e.Fatalf("a view of at least %d, after a write at %d: %d, %v", last+1, wrote, r.pos, r.err)
		}
	}
}

func viewTimesOut(e *env) {
	last := e.put("a", "1")
	for _, level := range levels {
		ctx, cancel := context.WithTimeout(e.ctx, 50*time.Millisecond)
		var err error
		e.within(e.o.Wait, "a view of a position that does not come", func() {
			_, err = e.eng.View(ctx, engine.Read{Level: level, AtLeast: last + 1<<20}, func(engine.Tx) error {
				return errors.New("the function was run")
			})
		})
		cancel()
		e.is("view of a position that does not come", err, engine.ErrPositionTimeout)
	}
	e.has("a", "1")
}

// viewSnapshot writes between two reads of an open view.
func viewSnapshot(e *env) {
	m := model{}
	for i := range 50 {
		m[fmt.Sprintf("k%02d", i)] = "old"
	}
	e.update(func(tx engine.Tx) error {
		for k, v := range m {
			if err := putAll(tx, k, v); err != nil {
				return err
			}
		}
		return nil
	})
	for _, level := range levels {
		last := e.put("k00", "old")
		e.viewAt(engine.Read{Level: level, AtLeast: last}, func(tx engine.Tx) error {
			if err := hasAll(tx, "k00", "old"); err != nil {
				return err
			}
			i := 0
			for p, err := range tx.Scan(nil, nil) { // a scan with a concurrent write
				if err != nil {
					return err
				}
				if string(p.Val) != "old" {
					return fmt.Errorf("scan shows %q = %q, written after the view began", p.Key, p.Val)
				}
				if i++; i == 10 {
					if err := e.scramble(); err != nil {
						return err
					}
				}
			}
			if i != len(m) {
				return fmt.Errorf("scan shows %d keys of %d", i, len(m))
			}
			return m.check(tx)
		})
		e.has("k00", "new", "new", "new")
		e.lacks("k05", "k40")
		e.update(func(tx engine.Tx) error {
			if err := tx.Delete([]byte("new")); err != nil {
				return err
			}
			for k, v := range m {
				if err := putAll(tx, k, v); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// scramble commits from another goroutine, because a view must not block writers.
func (e *env) scramble() error {
	done := make(chan error, 1)
	go func() {
		_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error {
			for i := range 50 {
				if err := putAll(tx, fmt.Sprintf("k%02d", i), "new"); err != nil {
					return err
				}
			}
			if err := tx.Delete([]byte("k05")); err != nil {
				return err
			}
			if err := tx.Delete([]byte("k40")); err != nil {
				return err
			}
			return putAll(tx, "new", "new")
		})
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(e.o.Wait):
		return errors.New("an open view holds writers up")
	}
}

// viewPosition compares what views saw with the changes up to their positions.
func viewPosition(e *env) {
	start := e.put("n", "0")
	const writers, each = 4, 100
	type seen struct {
		pos engine.Position
		n   int
	}
	var views [2][]seen
	var last engine.Position
	errs := make(chan error, writers+len(views))
	stop := make(chan struct{})
	var writing, viewing sync.WaitGroup
	for v := range views {
		viewing.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				var n int
				pos, err := e.eng.View(e.ctx, engine.Read{Level: levels[i%3], AtLeast: start}, func(tx engine.Tx) (err error) {
					n, err = number(tx, "n")
					return err
				})
				if err != nil {
					errs <- err
					return
				}
				views[v] = append(views[v], seen{pos, n})
			}
		})
	}
	for range writers {
		writing.Go(func() { errs <- e.increments("n", each) })
	}
	writing.Wait()
	close(stop)
	viewing.Wait()
	for range writers {
		if err := <-errs; err != nil {
			e.Fatalf("beside views: %v", err)
		}
	}
	last = e.put("end", "1")
	at := map[engine.Position]int{}
	n, pos := 0, start
	for _, c := range e.changes(start, last) {
		for ; pos < c.Pos; pos++ {
			at[pos] = n
		}
		for _, w := range c.Writes {
			if string(w.Key) == "n" {
				if _, err := fmt.Sscan(string(w.Val), &n); err != nil {
					e.Fatalf("the value %q of a change is not the number that was written", w.Val)
				}
			}
		}
	}
	at[last] = n
	for _, list := range views {
		for _, s := range list {
			if s.n < at[s.pos] || e.p.ExactPositions && s.n != at[s.pos] {
				e.Fatalf("a view of position %d saw %d; the changes up to it say %d", s.pos, s.n, at[s.pos])
			}
		}
	}
}

// increments adds one to a number, n times.
func (e *env) increments(key string, n int) error {
	for range n {
		if _, err := e.eng.Update(e.ctx, func(tx engine.Tx) error { return increment(tx, key) }); err != nil {
			return err
		}
	}
	return nil
}

func increment(tx engine.Tx, key string) error {
	n, err := number(tx, key)
	if err != nil {
		return err
	}
	return putAll(tx, key, fmt.Sprint(n+1))
}
