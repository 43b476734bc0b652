package enginetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/skerrydb/skerry/engine"
)

var raised = engine.Promises{Atomic: engine.AllKeys, Feed: true, Snapshot: true, Clock: true, Positions: true, ExactPositions: true, Fence: true}

// raiserCase raises the positions again and again: by little and by much, behind a fence, of two processes.
func raiserCase(e *env) {
	r := optional[engine.Raiser](e, "Raiser")
	e.put("a", "0")
	for i, by := range []engine.Position{1, 1000, 1 << 48, 3<<48 + 7} {
		old := e.put("a", fmt.Sprint(i))
		p := e.raise(r, old+by)
		e.raisedFrom(old, p, fmt.Sprint(i))
		e.continuesAt(p, fmt.Sprint(i))
	}
	e.raiseBehindFence(r)
	if e.o.Second != nil {
		e.raiseBeside(r)
	}
	now := e.viewOnly()
	if _, err := r.Raise(e.ctx, math.MaxUint64); !errors.Is(err, engine.ErrInvalid) {
		e.Fatalf("raise to the last position of all: %v, want %v", err, engine.ErrInvalid)
	}
	if pos := e.viewOnly(); pos != now {
		e.Fatalf("a position that was refused has raised %d to %d", now, pos)
	}
	if e.o.Reopen != nil {
		e.reopen()
		if pos := e.viewOnly(); pos != now {
			e.Fatalf("after reopening the position is %d, and it was %d", pos, now)
		}
		e.truncatedAfter(0)
	}
}

// viewOnly returns the position of a new view.
func (e *env) viewOnly() engine.Position {
	e.Helper()
	return e.view(func(engine.Tx) error { return nil })
}

// raise raises the position to p, and again to p and less, which must do nothing.
func (e *env) raise(r engine.Raiser, p engine.Position) engine.Position {
	e.Helper()
	at, err := r.Raise(e.ctx, p)
	if err != nil || at < p {
		e.Fatalf("raise to %d: %d, %v", p, at, err)
	}
	for _, less := range []engine.Position{at, p, p - 1, 0} {
		if again, err := r.Raise(e.ctx, less); again != at || err != nil {
			e.Fatalf("raise to %d, when the position is %d: %d, %v", less, at, again, err)
		}
	}
	return at
}

// raisedFrom checks that the position was raised from old to p, and that "a" is still val.
func (e *env) raisedFrom(old, p engine.Position, val string) {
	e.Helper()
	if pos := e.viewOnly(); pos != p {
		e.Fatalf("a view is at %d, and the position was raised to %d", pos, p)
	}
	for _, before := range []engine.Position{1, old, old + 1, p - 1, p} {
		for _, level := range levels {
			e.viewAt(engine.Read{Level: level, AtLeast: before}, func(tx engine.Tx) error { return hasAll(tx, "a", val) })
		}
	}
	for _, before := range []engine.Position{0, old - 1, old, old + 1, p - 1} {
		if before < p {
			e.truncatedAfter(before)
		}
	}
}

// truncatedAfter fails the case if there are changes after a position.
func (e *env) truncatedAfter(pos engine.Position) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, e.o.Wait)
	defer cancel()
	for c, err := range e.eng.Changes(ctx, pos) {
		if !errors.Is(err, engine.ErrTruncated) {
			e.Fatalf("after position %d, from before it was raised, comes the change of %d (%v), want %v", pos, c.Pos, err, engine.ErrTruncated)
		}
		return
	}
	e.Fatalf("the changes after position %d, from before it was raised, end without %v", pos, engine.ErrTruncated)
}

// continuesAt checks that commits have the positions after p, and that nothing else has changed since "a" was val.
func (e *env) continuesAt(p engine.Position, val string) {
	e.Helper()
	var was, now time.Time
	e.view(func(tx engine.Tx) error { was = tx.Now(); return hasAll(tx, "a", val) })
	for i := range engine.Position(3) {
		pos := e.update(func(tx engine.Tx) error { now = tx.Now(); return putAll(tx, "b", fmt.Sprint(i)) })
		if pos != p+1+i {
			e.Fatalf("commit %d after the position was raised to %d has position %d", i+1, p, pos)
		}
		if now.Before(was) {
			e.Fatalf("the time is %v after the position was raised, and it was %v", now, was)
		}
	}
	if pos := e.each(5, func(tx engine.Tx, i int) error { return putAll(tx, "b", fmt.Sprint(i)) }); pos != p+8 {
		e.Fatalf("8 commits after position %d lead to %d", p, pos)
	}
	for i, c := range e.changes(p, p+8) {
		if c.Pos != p+1+engine.Position(i) {
			e.Fatalf("change %d after the position was raised to %d has position %d", i+1, p, c.Pos)
		}
	}
}

// raiseBehindFence raises the position while writes are stopped.
func (e *env) raiseBehindFence(r engine.Raiser) {
	e.Helper()
	old := e.put(engine.FenceKey, "moving")
	p := e.raise(r, old+1<<48)
	if pos := e.viewOnly(); pos != p {
		e.Fatalf("behind a fence a view is at %d, and the position was raised to %d", pos, p)
	}
	_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error { return putAll(tx, "a", "x") })
	e.is("a put after the position was raised behind a fence", err, engine.ErrFenced)
	e.has(engine.FenceKey, "moving")
	if pos := e.update(func(tx engine.Tx) error { return tx.Delete([]byte(engine.FenceKey)) }); pos != p+1 {
		e.Fatalf("the fence goes at %d, and the position was raised to %d", pos, p)
	}
	e.truncatedAfter(old)
}

// raiseBeside raises the position while another process writes and one reader of each waits for changes.
func (e *env) raiseBeside(r engine.Raiser) {
	e.Helper()
	other := *e
	other.eng = e.second()
	old := other.put("a", "old")
	var next [2]func() (engine.Change, error, bool)
	for i, eng := range []engine.Engine{e.eng, other.eng} {
		var stop func()
		next[i], stop = iter.Pull2(eng.Changes(e.ctx, old-1))
		defer stop()
		if c, err, _ := next[i](); err != nil || c.Pos != old {
			e.Fatalf("a reader after %d got %d, %v", old-1, c.Pos, err)
		}
	}
	const each = 50
	written := make(chan error, 1)
	go func() { written <- other.increments("n", each) }()
	p, err := r.Raise(e.ctx, old+2<<48)
	if err != nil || p < old+2<<48 {
		e.Fatalf("raise to %d beside writes: %d, %v", old+2<<48, p, err)
	}
	if err := receive(e, "writing while positions are raised", written); err != nil {
		e.Fatalf("write while positions are raised: %v", err)
	}
	last := other.put("a", "new")
	for _, at := range []*env{e, &other} {
		at.viewAt(engine.Read{AtLeast: p}, func(tx engine.Tx) error { return hasAll(tx, "a", "new", "n", fmt.Sprint(each)) })
		at.truncatedAfter(old)
		if n := len(at.changes(p, last)); engine.Position(n) != last-p {
			e.Fatalf("%d changes lead from %d to %d", n, p, last)
		}
	}
	for i := range next { // it has not missed a change, or it learns that it may have
		for at := old; ; {
			c, err, _ := next[i]()
			if errors.Is(err, engine.ErrTruncated) {
				break
			}
			if at++; err != nil || c.Pos != at {
				e.Fatalf("a reader at %d, from before positions were raised, got %d: %v", at-1, c.Pos, err)
			}
		}
	}
}
