package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
)

// Bounds of one case. They are for engines that hang, not for slow ones.
const (
	caseTimeout = 2 * time.Minute
	waitTimeout = 10 * time.Second // for events that should happen at once
	leakGrace   = 3 * time.Second  // for goroutines to end after Close has returned
)

// env is the environment of a case. Functions that run inside a transaction return errors
// and never call Fatalf, because they may run in the engine's goroutine.
type env struct {
	T
	o    Options
	ctx  context.Context
	rng  *rand.Rand
	open func(t T) engine.Engine
	eng  engine.Engine
	p    engine.Promises // with the defaults filled in

	closed bool // the case has closed eng
}

// runOn opens an engine, runs the case and cleans up: the engine must close and
// leave no goroutine behind.
func (c Case) runOn(t T, open func(t T) engine.Engine, o Options) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), caseTimeout)
	e := &env{T: t, o: o, ctx: ctx, rng: rand.New(rand.NewPCG(o.Seed, 1)), open: open}
	before := goroutines()
	t.Cleanup(func() { checkLeaks(t, before, o) })
	t.Cleanup(cancel)
	e.use(open(t))
	t.Cleanup(func() { e.finish() })
	if err := e.p.Meets("case "+c.Name, c.Needs); err != nil {
		t.Skipf("skipped: %v", err)
	}
	c.run(e)
}

// use makes eng the engine of the case. It must be empty.
func (e *env) use(eng engine.Engine) {
	e.Helper()
	e.adopt(eng)
	if !e.p.Ordered {
		return
	}
	e.view(func(tx engine.Tx) error {
		for p, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			e.eng = nil // so that the clean-up does not wipe data of others
			defer eng.Close()
			return fmt.Errorf("the engine is not empty, it holds key %q: the suite touches no data of others", p.Key)
		}
		return nil
	})
}

func (e *env) adopt(eng engine.Engine) {
	e.eng, e.closed, e.p = eng, false, eng.Promises()
	for _, d := range []struct {
		n   *int
		def int
	}{{&e.p.MaxKeyBytes, 512}, {&e.p.MaxValBytes, 64 << 10}, {&e.p.MaxTxBytes, 1 << 20}} {
		if *d.n == 0 {
			*d.n = d.def
		}
	}
}

// finish empties the engine if it will be opened again, and closes it.
func (e *env) finish() {
	if e.eng == nil {
		return
	}
	if e.o.Wipe && e.p.Ordered {
		if e.closed {
			e.adopt(e.open(e.T))
		}
		for n := wipeChunk; n == wipeChunk; {
			e.update(func(tx engine.Tx) (err error) { n, err = wipe(tx); return err })
		}
	}
	if !e.closed {
		e.close()
	}
	if e.o.Wipe && !e.p.Ordered {
		if e.o.Empty == nil {
			e.Fatalf("an engine without ordered scans cannot be wiped: the suite needs Options.Empty")
		}
		e.o.Empty(e.T)
	}
}

const wipeChunk = 500

// wipe deletes up to wipeChunk keys.
func wipe(tx engine.Tx) (n int, err error) {
	var keys [][]byte
	for p, err := range tx.Scan(nil, nil) {
		if err != nil {
			return 0, err
		}
		if keys = append(keys, bytes.Clone(p.Key)); len(keys) == wipeChunk {
			break
		}
	}
	for _, k := range keys {
		if err := tx.Delete(k); err != nil {
			return 0, err
		}
	}
	return len(keys), nil
}

// close closes the engine, which must succeed and not hang.
func (e *env) close() {
	e.Helper()
	e.closed = true
	var err error
	e.within(e.o.Wait, "Close", func() { err = e.eng.Close() })
	if err != nil {
		e.Fatalf("close: %v", err)
	}
}

// within fails the case if fn does not return in time, or panics.
func (e *env) within(d time.Duration, what string, fn func()) {
	e.Helper()
	done := make(chan error, 1)
	go func() {
		done <- caught(func() error { fn(); return nil })
	}()
	select {
	case err := <-done:
		if err != nil {
			e.Fatalf("%s: %v", what, err)
		}
	case <-time.After(d):
		e.Fatalf("%s has not returned after %v", what, d)
	}
}

// eventually waits until so returns true, and fails the case if that does not happen in
// time.
func (e *env) eventually(what string, so func() bool) {
	e.Helper()
	if !eventually.Within(e.o.Wait, so) {
		e.Fatalf("%s: not after %v", what, e.o.Wait)
	}
}

// receive receives from c, and fails the case if nothing arrives in time.
func receive[V any](e *env, what string, c <-chan V) V {
	e.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(e.o.Wait):
		e.Fatalf("%s: nothing after %v", what, e.o.Wait)
	}
	panic("BUG: Fatalf returned")
}

// update commits fn, which must succeed.
func (e *env) update(fn func(engine.Tx) error) engine.Position {
	e.Helper()
	pos, err := e.eng.Update(e.ctx, fn)
	if err != nil {
		e.Fatalf("update: %v", err)
	}
	return pos
}

// put commits key-value pairs in one transaction.
func (e *env) put(pairs ...string) engine.Position {
	e.Helper()
	return e.update(func(tx engine.Tx) error { return putAll(tx, pairs...) })
}

// view runs fn in a linearizable view, which must succeed.
func (e *env) view(fn func(engine.Tx) error) engine.Position {
	e.Helper()
	return e.viewAt(engine.Read{}, fn)
}

func (e *env) viewAt(r engine.Read, fn func(engine.Tx) error) engine.Position {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, e.o.Wait) // the position has been reached
	defer cancel()
	pos, err := e.eng.View(ctx, r, fn)
	if err != nil {
		e.Fatalf("view: %v", err)
	}
	return pos
}

// has fails the case unless a new view has exactly these pairs.
func (e *env) has(pairs ...string) {
	e.Helper()
	e.view(func(tx engine.Tx) error { return hasAll(tx, pairs...) })
}

// lacks fails the case if a new view has one of the keys.
func (e *env) lacks(keys ...string) {
	e.Helper()
	e.view(func(tx engine.Tx) error { return lacksAll(tx, keys...) })
}

// is fails the case unless err matches want.
func (e *env) is(what string, err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("%s: error is %v, want %v", what, err, want)
	}
}

func putAll(tx engine.Tx, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := tx.Put([]byte(pairs[i]), []byte(pairs[i+1])); err != nil {
			return fmt.Errorf("put %q: %w", short(pairs[i]), err)
		}
	}
	return nil
}

// hasAll checks that Get returns these values, in any transaction.
func hasAll(tx engine.Tx, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		v, ok, err := tx.Get([]byte(pairs[i]))
		if err != nil {
			return fmt.Errorf("get %q: %w", short(pairs[i]), err)
		}
		if !ok || string(v) != pairs[i+1] {
			return fmt.Errorf("get %q = %q, %t; want %q", short(pairs[i]), short(string(v)), ok, short(pairs[i+1]))
		}
	}
	return nil
}

func lacksAll(tx engine.Tx, keys ...string) error {
	for _, k := range keys {
		v, ok, err := tx.Get([]byte(k))
		if err != nil {
			return fmt.Errorf("get %q: %w", short(k), err)
		}
		if ok {
			return fmt.Errorf("get %q = %q; want nothing", short(k), short(string(v)))
		}
	}
	return nil
}

// short cuts long keys and values in messages.
func short(s string) string {
	if len(s) <= 60 {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:50], len(s))
}

// number reads a decimal number of any width. A missing key is zero.
func number(tx engine.Tx, key string) (n int, err error) {
	v, ok, err := tx.Get([]byte(key))
	if err != nil || !ok {
		return 0, err
	}
	if _, err := fmt.Sscan(string(v), &n); err != nil {
		return 0, fmt.Errorf("%q holds %q: %w", key, short(string(v)), err)
	}
	return n, nil
}
